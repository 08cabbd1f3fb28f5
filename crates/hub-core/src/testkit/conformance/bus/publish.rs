//! Publishing: receipts, ids, batches, order.

use super::super::Lab;
use super::tools::{code, fill, next, soon, stored, value};
use crate::{Code, EventId, NewEvent, Position};
use hub_proto::{Payload, TopicName};
use serde_json::json;

fn event(topic: &str, n: u64) -> NewEvent {
    NewEvent::new(TopicName::parse(topic).unwrap(), Payload::from(json!(n)))
}

fn id(n: u8) -> EventId {
    EventId::from_bytes([n; 16])
}

pub(in super::super) async fn a_publish_answers_place_time_and_durability(lab: Lab) {
    let bus = lab.bus().await;
    let before = bus.now();
    let receipts = fill(&bus, "t", [7, 8]).await;
    assert_eq!(receipts.iter().map(|receipt| receipt.seq).collect::<Vec<_>>(), [1, 2]);
    for receipt in &receipts {
        assert!((before..=bus.now()).contains(&receipt.ts));
        assert_eq!(receipt.durable, lab.features().durability);
        assert!(!receipt.duplicate);
    }
    let scanned = bus.scan("t", Position::Earliest, None).await.unwrap();
    let places: Vec<_> = scanned.iter().map(|event| (event.id(), event.seq(), event.ts())).collect();
    assert_eq!(places, receipts.iter().map(|r| (r.id, r.seq, r.ts)).collect::<Vec<_>>());
}

pub(in super::super) async fn ids_of_the_hub_ascend(lab: Lab) {
    let bus = lab.bus().await;
    let ids: Vec<_> = fill(&bus, "t", 1..=50).await.iter().map(|receipt| receipt.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    assert!(ids.iter().all(|id| id.to_bytes()[6] >> 4 == 7), "version 7");
}

pub(in super::super) async fn everything_a_publisher_says_reaches_the_consumer(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let published = bus.publish("t", json!({"a": [1, null]}));
    let published =
        published.id(id(1)).ts(5).key("k").header("h", "v").tag("red").caused_by(id(2)).sid("boot");
    let receipt = published.await.unwrap();
    assert_eq!((receipt.id, receipt.ts), (id(1), 5));
    let delivery = next(&mut sub).await;
    let event = delivery.event();
    assert_eq!((event.id(), event.ts(), event.seq()), (id(1), 5, 1));
    assert_eq!((&**event.topic(), event.key().map(|key| &**key)), ("t", Some("k")));
    assert_eq!((event.header("h"), event.sid()), (Some("v"), Some("boot")));
    assert_eq!((event.tags(), event.caused_by()), (&["red".to_owned()][..], &[id(2)][..]));
    assert_eq!(event.payload(), br#"{"a":[1,null]}"#);
    assert_eq!((delivery.attempt(), delivery.max_attempts()), (1, 5));
}

pub(in super::super) async fn publishing_an_id_again_answers_the_first_one(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let first = bus.publish("t", json!({"a": 1, "b": 2})).id(id(1)).ts(5).key("k").await.unwrap();
    let text = Payload::from_json(r#"{ "b": 2.0, "a": 1 }"#).unwrap();
    let again = bus.publish("t", text).id(id(1)).ts(99).key("k").tag("other").await.unwrap();
    assert!(again.duplicate);
    assert_eq!((again.id, again.seq, again.ts, again.durable), (first.id, 2, 5, first.durable));
    assert_eq!(bus.bounds("t").await.unwrap().last, 2);
}

pub(in super::super) async fn an_id_with_another_payload_or_key_is_a_conflict(lab: Lab) {
    let bus = lab.bus().await;
    bus.publish("t", json!(1)).id(id(1)).key("k").await.unwrap();
    let error = bus.publish("t", json!(2)).id(id(1)).key("k").await.unwrap_err();
    assert_eq!((error.code, error.id), (Code::IdConflict, Some(id(1))));
    assert_eq!(code(bus.publish("t", json!(1)).id(id(1)).key("other").await), Code::IdConflict);
    assert_eq!(code(bus.publish("t", json!(1)).id(id(1)).await), Code::IdConflict);
    assert_eq!(stored(&bus, "t").await, [1]);
    bus.publish("u", json!(2)).id(id(1)).await.expect("ids are unique per topic");
}

pub(in super::super) async fn a_batch_answers_each_event_on_its_own(lab: Lab) {
    let bus = lab.bus().await;
    bus.publish("t", json!(1)).id(id(1)).await.unwrap();
    let mut reserved = event("t", 9);
    reserved.options.headers.push(("x-hub-replay-for".into(), "g".into()));
    let events = vec![
        event("t", 2).with_id(id(2)),
        reserved,
        event("t", 1).with_id(id(1)),
        event("t", 9).with_id(id(1)),
        event("u", 3),
        event("t", 2).with_id(id(2)),
        event("t", 4),
    ];
    let results = bus.publish_batch(events).await;
    let short: Vec<_> = results
        .into_iter()
        .map(|result| result.map(|receipt| (receipt.seq, receipt.duplicate)).map_err(|error| error.code))
        .collect();
    let expected = [
        Ok((2, false)),
        Err(Code::BadRequest),
        Ok((1, true)),
        Err(Code::IdConflict),
        Ok((1, false)),
        Ok((2, true)),
        Ok((3, false)),
    ];
    assert_eq!(short, expected);
    assert_eq!(stored(&bus, "t").await, [1, 2, 4]);
}

pub(in super::super) async fn a_batch_commits_in_its_order(lab: Lab) {
    let bus = lab.bus().await;
    let results = bus.publish_batch((1..=500).map(|n| event("t", n)).collect()).await;
    let seqs: Vec<_> = results.into_iter().map(|result| result.unwrap().seq).collect();
    assert_eq!(seqs, (1..=500).collect::<Vec<_>>());
    assert_eq!(stored(&bus, "t").await, seqs);
    assert!(bus.publish_batch(Vec::new()).await.is_empty());
}

pub(in super::super) async fn publishes_in_a_row_commit_in_the_order_sent(lab: Lab) {
    let bus = lab.bus().await;
    let tasks: Vec<_> = (1..=100)
        .map(|n| {
            let bus = bus.clone();
            tokio::spawn(async move { bus.send(event("t", n)).await.unwrap().seq })
        })
        .collect();
    for (n, task) in (1..).zip(tasks) {
        assert_eq!(soon(task).await.unwrap(), n);
    }
    assert_eq!(stored(&bus, "t").await, (1..=100).collect::<Vec<_>>());
}

pub(in super::super) async fn a_seq_is_never_seen_after_a_higher_one(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let publishers: Vec<_> = (0..4)
        .map(|p| {
            let bus = bus.clone();
            tokio::spawn(async move { fill(&bus, "t", (0..25).map(|n| p * 25 + n)).await })
        })
        .collect();
    let mut seqs = Vec::new();
    let mut numbers = Vec::new();
    while seqs.len() < 100 {
        let delivery = next(&mut sub).await;
        seqs.push(delivery.event().seq());
        numbers.push(value(delivery.event()));
    }
    assert_eq!(seqs, (1..=100).collect::<Vec<_>>());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    for publisher in publishers {
        publisher.await.unwrap();
    }
}

pub(in super::super) async fn large_payloads_of_one_id_are_compared_as_json_too(lab: Lab) {
    let bus = lab.bus().await;
    let filler = "x".repeat(20_000);
    let id = EventId::from_bytes([9; 16]);
    let publish = |json: String| bus.publish("t", Payload::from_json(json).unwrap()).id(id);
    let first = publish(format!("{{\"a\":1,\"b\":\"{filler}\"}}")).await.unwrap();
    let again = publish(format!("{{\"b\": \"{filler}\", \"a\": 1.0}}")).await.unwrap();
    assert_eq!((again.seq, again.ts, again.duplicate), (first.seq, first.ts, true));
    let other = publish(format!("{{\"b\": \"{filler}\", \"a\": 2}}")).await;
    assert_eq!(other.unwrap_err().code, Code::IdConflict);
    // In one batch with others, each has its own answer.
    let event = |json: String| NewEvent::new("t".parse().unwrap(), Payload::from_json(json).unwrap());
    let results = bus
        .publish_batch(vec![
            event("1".into()),
            event(format!("{{\"b\":\"{filler}\",\"a\":1e0}}")).with_id(id),
            event(format!("{{\"b\":\"{filler}\"}}")).with_id(id),
            event("2".into()),
        ])
        .await;
    assert_eq!(results[0].as_ref().unwrap().seq, 2);
    assert!(results[1].as_ref().unwrap().duplicate);
    assert_eq!(results[2].as_ref().unwrap_err().code, Code::IdConflict);
    assert_eq!(results[3].as_ref().unwrap().seq, 3);
}
