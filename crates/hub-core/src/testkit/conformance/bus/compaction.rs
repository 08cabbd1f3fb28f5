//! Compacted topics and their snapshots.

use super::super::Lab;
use super::tools::{assert_silent, fill, fill_keyed, floor, hold, soon, stored};
use crate::{Bus, Config, Event, Position, TopicSettings};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn compacted() -> Config {
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    trusts_its_clock(Config::default().topic("t", settings).unwrap())
}

/// With this setting a jump of the clock is time that has passed.
pub(super) fn trusts_its_clock(config: Config) -> Config {
    Config { clock_jump_wait: 0, ..config }
}

pub(super) async fn snapshot(bus: &Bus) -> Vec<(String, Value)> {
    let events = bus.scan("t.snapshot", Position::Earliest, None).await.unwrap();
    let entry = |event: &Arc<Event>| (event.key().unwrap().to_string(), event.decode().unwrap());
    events.iter().map(entry).collect()
}

pub(in super::super) async fn only_the_newest_of_each_key_stays(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2), ("a", 3)]).await;
    fill(&bus, "t", [4]).await;
    fill_keyed(&bus, "t", [("b", 5)]).await;
    assert_eq!(bus.clean("t").await.unwrap().removed, 2);
    assert_eq!(stored(&bus, "t").await, [3, 4, 5], "keyless events stay, too");
}

pub(in super::super) async fn holes_count_as_settled(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1, ..compacted() }).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("a", 5), ("c", 6), ("c", 7)]).await;
    bus.clean("t").await.unwrap();
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 3).await;
    held[0].ack().unwrap();
    assert_eq!((held[0].event().seq(), floor(&bus, "t", "g").await), (2, 4));
    held[1].ack().unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 6);
    held[2].ack().unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 7);
}

pub(in super::super) async fn an_event_in_flight_that_is_compacted_away_is_settled(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1, ..compacted() }).await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2)]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 2).await;
    bus.clean("t").await.unwrap();
    held[1].ack().unwrap();
    held[0].nack("it is not there any more").unwrap();
    soon(async {
        while floor(&bus, "t", "g").await < 2 {
            lab.pass(1).await;
        }
    })
    .await;
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_snapshot_holds_the_state_of_each_changed_key(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2), ("a", 3), ("c", 4)]).await;
    bus.publish("t", json!(null)).key("c").await.unwrap();
    bus.clean("t").await.unwrap();
    let newest = bus.latest_by_key("t", &["a", "b"]).await.unwrap();
    let ts: Vec<_> = newest.iter().map(|event| event.as_ref().unwrap().ts()).collect();
    let mut entries = snapshot(&bus).await;
    let (_, upto) = entries.pop().unwrap();
    assert_eq!(upto, json!({"upto": 5}), "it is closed by how far it reaches");
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("a".to_owned(), json!({"key": "a", "payload": 3, "ts": ts[0], "seq": 3})),
        ("b".to_owned(), json!({"key": "b", "payload": 2, "ts": ts[1], "seq": 2})),
        ("c".to_owned(), json!(null)),
    ];
    assert_eq!(entries, expected);
}

pub(in super::super) async fn a_snapshot_goes_on_with_what_changed(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.clean("t").await.unwrap();
    let first = snapshot(&bus).await.len();
    bus.clean("t").await.unwrap();
    assert_eq!(snapshot(&bus).await.len(), first, "nothing changed, nothing is written");
    fill_keyed(&bus, "t", [("b", 3)]).await;
    bus.clean("t").await.unwrap();
    let rest = snapshot(&bus).await.split_off(first);
    let keys: Vec<_> = rest.iter().map(|(key, _)| key.trim_start_matches('\0')).collect();
    assert_eq!(keys, ["b", "upto"]);
    assert_eq!(rest[1].1, json!({"upto": 3}));
}

pub(in super::super) async fn a_snapshot_is_itself_compacted(lab: Lab) {
    let bus = lab.bus_with(compacted()).await;
    for n in 1..=5 {
        fill_keyed(&bus, "t", [("a", n)]).await;
        bus.clean("t").await.unwrap();
    }
    bus.clean("t.snapshot").await.unwrap();
    let entries = snapshot(&bus).await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(entries[0].1["payload"], json!(5));
    assert!(!bus.topics().iter().any(|topic| topic.ends_with("snapshot.snapshot")));
}

pub(in super::super) async fn a_topic_without_compaction_has_no_snapshot(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2)]).await;
    assert_eq!(bus.clean("t").await.unwrap().removed, 0);
    assert_eq!(bus.topics().len(), 1);
}

pub(in super::super) async fn a_topic_that_is_too_large_loses_its_oldest(lab: Lab) {
    let settings = TopicSettings { retention_bytes: Some(10_000), ..TopicSettings::default() };
    let bus = lab.bus_with(Config::default().topic("t", settings).unwrap()).await;
    for _ in 0..50 {
        bus.publish("t", json!("x".repeat(1000))).await.unwrap();
    }
    bus.clean("t").await.unwrap();
    let bounds = bus.bounds("t").await.unwrap();
    assert!(bounds.bytes <= 10_000 && bounds.events >= 8, "{bounds:?}");
    assert_eq!(bounds.first, 51 - bounds.events);
}
