//! Reading: limits, holes, extents, times.

use super::super::Lab;
use super::tools::{ALL, Port, T0, holding, keyed, plain, seqs, topic};
use crate::store::{Bounds, CleanPolicy, ReadLimit};

async fn ten(lab: &Lab) -> Port {
    let port = lab.port().await;
    port.append(T0, (1..=10).map(plain).collect()).await;
    port
}

pub(in super::super) async fn reading_starts_after_a_seq(lab: Lab) {
    let port = ten(&lab).await;
    assert_eq!(seqs(&port.read(7, ALL).await), [8, 9, 10]);
}

pub(in super::super) async fn reading_at_the_end_brings_nothing(lab: Lab) {
    let port = ten(&lab).await;
    assert!(port.read(10, ALL).await.is_empty());
    assert!(port.read(1_000_000, ALL).await.is_empty());
}

pub(in super::super) async fn a_read_stops_at_its_limit_of_events(lab: Lab) {
    let port = ten(&lab).await;
    assert_eq!(seqs(&port.read(2, ReadLimit { events: 3, ..ALL }).await), [3, 4, 5]);
}

pub(in super::super) async fn a_read_stops_at_its_limit_of_bytes(lab: Lab) {
    let port = lab.port().await;
    let json = format!("\"{}\"", "x".repeat(1000));
    port.append(T0, (1..=50).map(|n| holding(n, None, &json)).collect()).await;
    let read = port.read(0, ReadLimit { bytes: 10_000, ..ALL }).await;
    assert!((5..=15).contains(&read.len()), "about 10,000 bytes are {} events", read.len());
    assert_eq!(seqs(&read), (1..=read.len() as u64).collect::<Vec<_>>());
}

pub(in super::super) async fn a_read_brings_at_least_one_event(lab: Lab) {
    let port = ten(&lab).await;
    for limit in
        [ReadLimit { bytes: 1, ..ALL }, ReadLimit { bytes: 0, ..ALL }, ReadLimit { events: 1, bytes: 1 }]
    {
        assert_eq!(seqs(&port.read(3, limit).await), [4], "{limit:?}");
    }
}

/// Leaves 2, 4, 5 and 6: the others have a newer record of their key.
async fn with_holes(lab: &Lab) -> Port {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "a"), plain(4), keyed(5, "a"), plain(6)])
        .await;
    port.clean(CleanPolicy { compact: true, ids_since: T0, ..CleanPolicy::default() }).await;
    port
}

pub(in super::super) async fn holes_are_left_out(lab: Lab) {
    let port = with_holes(&lab).await;
    assert_eq!(port.seqs().await, [2, 4, 5, 6]);
    assert_eq!(seqs(&port.read(2, ReadLimit { events: 2, ..ALL }).await), [4, 5], "a hole is no event");
    assert_eq!(seqs(&port.read(3, ReadLimit { events: 1, ..ALL }).await), [4], "one can start in a hole");
}

pub(in super::super) async fn bounds_follow_the_log(lab: Lab) {
    let port = lab.port().await;
    let events = port.append(T0, (1..=3).map(plain).collect()).await;
    let bounds = port.0.bounds(&topic("t")).await.unwrap();
    let bytes: u64 = events.iter().map(|event| event.json().len() as u64).sum();
    assert_eq!((bounds.first, bounds.last, bounds.events, bounds.last_committed), (1, 3, 3, T0));
    assert!(bounds.bytes >= bytes, "{} for {bytes} bytes of JSON", bounds.bytes);
    port.append(T0 + 5, vec![plain(4)]).await;
    let cleaned = port.clean(CleanPolicy { committed_before: Some(T0 + 1), ..CleanPolicy::default() }).await;
    let after = port.0.bounds(&topic("t")).await.unwrap();
    assert_eq!(cleaned.bounds, after);
    assert_eq!((after.first, after.last, after.events, after.last_committed), (4, 4, 1, T0 + 5));
    assert!(after.bytes < bounds.bytes);
    let image = port.0.load().await.unwrap();
    assert_eq!(image.topics, [(topic("t"), after)]);
}

pub(in super::super) async fn the_seq_before_a_time_is_found(lab: Lab) {
    let port = lab.port().await;
    for (n, at) in [(1, 0), (2, 10), (3, 10), (4, 20)] {
        port.append(T0 + at, vec![plain(n)]).await;
    }
    let before = async |at| port.0.seq_before(&topic("t"), T0 + at).await.unwrap();
    assert_eq!(before(0).await, 0);
    assert_eq!(before(10).await, 1);
    assert_eq!(before(11).await, 3);
    assert_eq!(before(20).await, 3);
    assert_eq!(before(21).await, 4);
    port.clean(CleanPolicy { committed_before: Some(T0 + 11), ..CleanPolicy::default() }).await;
    let after = before(0).await;
    assert_eq!(seqs(&port.read(after, ALL).await), [4], "reading after it starts at that time");
}

pub(in super::super) async fn an_unknown_topic_answers_defaults(lab: Lab) {
    let port = ten(&lab).await;
    let nowhere = topic("nowhere");
    assert!(port.0.read(&nowhere, 0, ALL).await.unwrap().is_empty());
    assert_eq!(port.0.bounds(&nowhere).await.unwrap(), Bounds::default());
    assert_eq!(port.0.seq_of(&nowhere, super::tools::id(1)).await.unwrap(), None);
    assert_eq!(port.0.seq_before(&nowhere, T0).await.unwrap(), 0);
    assert_eq!(port.0.newest(&nowhere, &["a".into(), "b".into()]).await.unwrap(), [None, None]);
    assert!(port.0.newest_page(&nowhere, None, ALL).await.unwrap().is_empty());
    assert_eq!(port.0.clean(&nowhere, CleanPolicy::default()).await.unwrap().removed, 0);
    let names: Vec<_> = port.0.load().await.unwrap().topics.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [topic("t")], "asking brings no topic into being");
}
