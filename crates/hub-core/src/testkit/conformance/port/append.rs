//! Order, durability, and that what comes back is what went in.

use super::super::Lab;
use super::tools::{ALL, T0, holding, id, on, plain, seqs, topic};
use crate::store::{Appended, Commit};
use hub_proto::{Draft, NewEvent, limits};

pub(in super::super) async fn events_get_gapless_seqs_in_the_order_of_the_batch(lab: Lab) {
    let port = lab.port().await;
    let appended = port.append(T0, (1..=50).map(plain).collect()).await;
    assert_eq!(seqs(&appended), (1..=50).collect::<Vec<_>>());
    assert_eq!(
        appended.iter().map(|event| event.id()).collect::<Vec<_>>(),
        (1..=50).map(id).collect::<Vec<_>>()
    );
    assert_eq!(port.seqs().await, (1..=50).collect::<Vec<_>>());
}

pub(in super::super) async fn each_topic_counts_on_its_own(lab: Lab) {
    let port = lab.port().await;
    let batch = vec![on("a", 1), on("b", 2), on("a", 3), on("b", 4), on("a", 5)];
    assert_eq!(seqs(&port.append(T0, batch).await), [1, 1, 2, 2, 3]);
    let read = port.0.read(&topic("b"), 0, ALL).await.unwrap();
    assert_eq!(read.iter().map(|event| event.id()).collect::<Vec<_>>(), [id(2), id(4)]);
}

pub(in super::super) async fn seqs_go_on_in_the_next_commit(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    assert_eq!(seqs(&port.append(T0, vec![plain(3)]).await), [3]);
    assert_eq!(seqs(&port.append(T0, vec![plain(4), plain(5)]).await), [4, 5]);
}

pub(in super::super) async fn commit_times_never_decrease_when_the_clock_goes_back(lab: Lab) {
    let port = lab.port().await;
    for (n, now) in [(1, T0), (2, T0 + 50), (3, T0 - 86_400_000), (4, T0 + 20), (5, T0 + 60)] {
        port.append(now, vec![plain(n)]).await;
    }
    let times: Vec<_> = port.read(0, ALL).await.iter().map(|event| event.committed()).collect();
    assert_eq!(times, [T0, T0 + 50, T0 + 50, T0 + 50, T0 + 60]);
    assert_eq!(port.0.bounds(&topic("t")).await.unwrap().last_committed, T0 + 60);
}

pub(in super::super) async fn the_answer_is_the_record_that_readers_see(lab: Lab) {
    let port = lab.port().await;
    let appended = port.append(T0, vec![plain(1), holding(2, Some("k"), r#"{"a":[1,2]}"#)]).await;
    let read = port.read(0, ALL).await;
    assert_eq!(appended, read);
    assert_eq!(read[1].json(), appended[1].json());
}

pub(in super::super) async fn the_durability_is_the_declared_one(lab: Lab) {
    let port = lab.port().await;
    let appended = port.commit(T0, vec![plain(1), plain(1)]).await;
    let declared = lab.features().durability;
    assert!(
        matches!(appended[0], Appended::New { durability, .. } if durability == declared),
        "{appended:?}"
    );
    assert!(
        matches!(appended[1], Appended::Known { durability, .. } if durability == declared),
        "{appended:?}"
    );
}

/// Numbers, escapes and repeated members are the publisher's: nobody writes them anew.
pub(super) const ODD: [&str; 6] = [
    r#"{"b":1.50,"a":1e2,"b":2}"#,
    r#"123456789012345678901234567890"#,
    r#"0.1000000000000000055511151231257827"#,
    r#""\u00e9\/\n é 😀""#,
    r#"[ -0.0 , {} , [ ] , null ]"#,
    "false",
];

pub(in super::super) async fn payload_bytes_stay_as_they_were_written(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, (1..).zip(ODD).map(|(n, json)| holding(n, None, json)).collect()).await;
    for (event, json) in port.read(0, ALL).await.iter().zip(ODD) {
        assert_eq!(std::str::from_utf8(event.payload()), Ok(json));
    }
}

/// A draft with everything a publisher can say.
pub(super) fn full() -> Draft {
    let mut event = NewEvent::new(topic("t"), super::tools::payload(r#"{"total":12}"#)).with_key("é/\"k\"");
    event.options.sid = Some("boot-7".into());
    event.options.headers = vec![("b".into(), "2".into()), ("a".into(), "\"1\"\n".into())];
    event.options.caused_by = vec![id(100), id(101)];
    event.options.tags = vec!["red".into(), "grün".into()];
    Draft::encode(event, id(1), 17)
}

pub(super) fn assert_full(event: &hub_proto::Event) {
    assert_eq!((event.id(), event.seq(), event.ts(), event.committed()), (id(1), 1, 17, T0));
    assert_eq!((&**event.topic(), event.key().map(|key| &**key)), ("t", Some("é/\"k\"")));
    assert_eq!(event.sid(), Some("boot-7"));
    let headers = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "\"1\"\n".to_owned())];
    assert_eq!(event.headers(), headers);
    assert_eq!(event.caused_by(), [id(100), id(101)]);
    assert_eq!(event.tags(), ["red", "grün"]);
    assert_eq!(event.payload(), br#"{"total":12}"#);
    assert_eq!(event.audience(), None);
}

pub(in super::super) async fn every_optional_field_is_kept(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![full()]).await;
    assert_full(&port.read(0, ALL).await[0]);
}

pub(in super::super) async fn an_event_as_large_as_allowed_is_kept(lab: Lab) {
    let port = lab.port().await;
    let json = format!("\"{}\"", "x".repeat(limits::PAYLOAD_BYTES - 2));
    port.append(T0, vec![holding(1, None, &json), plain(2)]).await;
    let read = port.read(0, ALL).await;
    assert_eq!(read[0].payload(), json.as_bytes());
    assert_eq!(read[1].payload(), b"2");
}

pub(in super::super) async fn an_empty_commit_changes_nothing(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1)]).await;
    let before = port.0.bounds(&topic("t")).await.unwrap();
    let committed = port.0.commit(Commit { now: T0 + 5, ..Commit::default() }).await;
    assert!(committed.events.is_empty() && committed.records.is_empty());
    assert_eq!(port.0.bounds(&topic("t")).await.unwrap(), before);
}
