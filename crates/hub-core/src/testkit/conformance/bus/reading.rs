//! Scans, and the latest state by key.

use super::super::Lab;
use super::tools::{code, fill, fill_keyed, value};
use crate::{Bus, Code, Config, Event, EventId, Position};
use serde_json::json;
use std::sync::Arc;

fn numbers(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| value(event)).collect()
}

async fn scan(bus: &Bus, from: Position, limit: Option<usize>) -> Vec<u64> {
    numbers(&bus.scan("t", from, limit).await.unwrap())
}

pub(in super::super) async fn a_scan_starts_anywhere(lab: Lab) {
    let bus = lab.bus().await;
    let receipts = fill(&bus, "t", [1, 2]).await;
    lab.pass(5).await;
    let time = bus.now();
    fill(&bus, "t", [3, 4]).await;
    assert_eq!(scan(&bus, Position::Earliest, None).await, [1, 2, 3, 4]);
    assert_eq!(scan(&bus, Position::AfterSeq(3), None).await, [4]);
    assert_eq!(scan(&bus, Position::AfterId(receipts[0].id), Some(2)).await, [2, 3]);
    assert_eq!(scan(&bus, Position::Time(time), None).await, [3, 4]);
    assert!(scan(&bus, Position::Latest, None).await.is_empty());
}

pub(in super::super) async fn a_scan_has_its_limits(lab: Lab) {
    let bus = lab.bus().await;
    for _ in 0..3 {
        let batch = (0..400).map(|n| crate::NewEvent::new("t".parse().unwrap(), json!(n).into()));
        assert!(bus.publish_batch(batch.collect()).await.iter().all(Result::is_ok));
    }
    assert_eq!(scan(&bus, Position::Earliest, None).await.len(), 1000);
    assert_eq!(scan(&bus, Position::Earliest, Some(10_000)).await.len(), 1200);
    assert_eq!(scan(&bus, Position::Earliest, Some(7)).await.len(), 7);
    for limit in [0, 10_001] {
        assert_eq!(code(bus.scan("t", Position::Earliest, Some(limit)).await), Code::BadRequest);
    }
}

pub(in super::super) async fn a_scan_of_large_events_is_complete(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1_000, ..Config::default() }).await;
    let text = "x".repeat(900_000);
    for _ in 0..12 {
        bus.publish("t", json!(text)).await.unwrap();
    }
    let events = bus.scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq()).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
}

pub(in super::super) async fn a_scan_from_an_unknown_place_is_refused(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let nowhere = Position::AfterId(EventId::from_bytes([9; 16]));
    assert_eq!(code(bus.scan("t", nowhere, None).await), Code::UnknownId);
    assert_eq!(code(bus.scan("t", Position::AfterSeq(2), None).await), Code::BadRequest);
    assert_eq!(code(bus.scan("nowhere", Position::Earliest, None).await), Code::BadRequest);
}

pub(in super::super) async fn the_latest_by_key_is_the_newest_by_seq(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.publish("t", json!(3)).key("a").ts(1).await.unwrap();
    let found = bus.latest_by_key("t", &["a", "none", "b"]).await.unwrap();
    let found: Vec<_> = found.iter().map(|event| event.as_ref().map(|event| value(event))).collect();
    assert_eq!(found, [Some(3), None, Some(2)]);
}

pub(in super::super) async fn a_tombstone_answers_as_none_at_once(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.publish("t", json!(null)).key("a").await.unwrap();
    assert_eq!(bus.latest_by_key("t", &["a"]).await.unwrap(), [None]);
    assert_eq!(numbers(&bus.latest_page("t", None, None).await.unwrap()), [2]);
    fill_keyed(&bus, "t", [("a", 4)]).await;
    assert_eq!(numbers(&bus.latest_page("t", None, None).await.unwrap()), [4, 2]);
}

pub(in super::super) async fn all_keys_come_in_pages(lab: Lab) {
    let bus = lab.bus().await;
    for n in 0..25 {
        bus.publish("t", json!(n)).key(format!("k{n:02}")).await.unwrap();
    }
    fill(&bus, "t", [99]).await;
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = bus.latest_page("t", after.as_deref(), Some(10)).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 10);
        after = last.key().map(|key| key.to_string());
        all.extend(numbers(&page));
    }
    assert_eq!(all, (0..25).collect::<Vec<_>>());
    assert_eq!(code(bus.latest_page("t", None, Some(10_001)).await), Code::BadRequest);
    assert_eq!(code(bus.latest_by_key("nowhere", &["a"]).await), Code::BadRequest);
}

pub(in super::super) async fn topics_are_listed_by_name(lab: Lab) {
    let bus = lab.bus().await;
    for topic in ["c", "a.b", "a"] {
        fill(&bus, topic, [1]).await;
    }
    assert_eq!(bus.topics().iter().map(|topic| topic.as_str()).collect::<Vec<_>>(), ["a", "a.b", "c"]);
    assert_eq!(bus.bounds("a").await.unwrap().last, 1);
    assert_eq!(code(bus.bounds("nowhere").await), Code::BadRequest);
}
