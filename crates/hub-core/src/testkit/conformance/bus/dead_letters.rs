//! Events that failed too often.

use super::super::Lab;
use super::tools::{assert_silent, consume, fill, floor, next, soon};
use crate::{Bus, Clock, Event, Position, Subscription};
use serde_json::{Value, json};
use std::sync::Arc;

async fn letters(bus: &Bus, topic: &str) -> Vec<Arc<Event>> {
    bus.scan(topic, Position::Earliest, None).await.unwrap()
}

/// Nacks the next event.
async fn fail(sub: &mut Subscription, reason: &str) {
    next(sub).await.nack(reason).unwrap();
}

/// Waits until a group has settled everything up to `seq`.
async fn settled(lab: &Lab, bus: &Bus, topic: &str, seq: u64) {
    soon(async {
        while floor(bus, topic, "g").await < seq {
            lab.pass(1).await;
        }
    })
    .await;
}

pub(in super::super) async fn an_event_that_failed_too_often_becomes_a_dead_letter(lab: Lab) {
    let bus = lab.bus().await;
    let published = bus.publish("orders.new", json!({"n": 1})).key("k").header("h", "v").await.unwrap();
    fill(&bus, "orders.new", [2]).await;
    let join =
        bus.subscribe("orders.new").group("g").from(Position::Earliest).max_attempts(3).max_in_flight(1);
    let mut sub = join.open().await.unwrap();
    for attempt in 1..=3 {
        let delivery = next(&mut sub).await;
        assert_eq!((delivery.event().seq(), delivery.attempt()), (1, attempt));
        delivery.nack_after(0, &format!("\"no\" {attempt}")).unwrap();
    }
    assert_eq!(consume(&mut sub, 1).await, [2]);
    settled(&lab, &bus, "orders.new", 2).await;
    let original = bus.scan("orders.new", Position::Earliest, Some(1)).await.unwrap();
    let letters = letters(&bus, "dlq.orders.new").await;
    assert_eq!(letters.len(), 1);
    let letter: Value = letters[0].decode().unwrap();
    let expected = json!({
        "topic": "orders.new",
        "group": "g",
        "original": serde_json::from_slice::<Value>(original[0].json()).unwrap(),
        "err": "\"no\" 3",
        "ts": letters[0].ts(),
        "attempts": 3,
    });
    assert_eq!(letter, expected);
    assert_eq!(letter["original"]["id"], json!(published.id.to_string()));
    assert_eq!(letters[0].key().map(|key| &**key), Some("k"));
}

pub(in super::super) async fn every_kind_of_failure_counts(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let join = || bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(3).ack_timeout(500);
    let mut sub = join().open().await.unwrap();
    fail(&mut sub, "one").await;
    next(&mut sub).await;
    lab.pass(600).await; // two: the deadline
    let third = next(&mut sub).await;
    assert_eq!(third.attempt(), 3);
    drop(sub); // three: the disconnect
    settled(&lab, &bus, "t", 1).await;
    let letter: Value = letters(&bus, "dlq.t").await[0].decode().unwrap();
    assert_eq!(letter["attempts"], json!(3));
}

pub(in super::super) async fn attempts_and_failures_are_counted_apart(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let join = || bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(2);
    for _ in 0..4 {
        let mut sub = join().open().await.unwrap();
        next(&mut sub).await;
        sub.close();
    }
    let mut sub = join().open().await.unwrap();
    fail(&mut sub, "one").await;
    fail(&mut sub, "two").await;
    settled(&lab, &bus, "t", 1).await;
    let letter: Value = letters(&bus, "dlq.t").await[0].decode().unwrap();
    assert_eq!(letter["attempts"], json!(6), "deliveries, four of which did not fail");
}

pub(in super::super) async fn each_group_buries_on_its_own(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for group in ["a", "b"] {
        let join = bus.subscribe("t").group(group).from(Position::Earliest).max_attempts(1);
        fail(&mut join.open().await.unwrap(), group).await;
    }
    soon(async {
        while bus.bounds("dlq.t").await.map_or(0, |bounds| bounds.last) < 2 {
            lab.pass(1).await;
        }
    })
    .await;
    let letters = letters(&bus, "dlq.t").await;
    let groups: Vec<Value> = letters.iter().map(|l| l.decode::<Value>().unwrap()["group"].clone()).collect();
    assert_eq!(groups, ["a", "b"]);
    assert_ne!(letters[0].id(), letters[1].id());
}

pub(in super::super) async fn a_dead_letter_is_not_buried_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    fail(&mut join.open().await.unwrap(), "no").await;
    settled(&lab, &bus, "t", 1).await;
    let join = bus.subscribe("dlq.t").group("g").from(Position::Earliest).max_attempts(2);
    let mut sub = join.open().await.unwrap();
    fail(&mut sub, "once").await;
    for attempt in 2..=5 {
        let start = lab.clock().steady();
        let delivery = sub.recv().await.unwrap();
        let expected = if attempt == 2 { 20 } else { 30_000 };
        assert_eq!((delivery.attempt(), lab.clock().steady() - start), (attempt, expected));
        delivery.nack("again").unwrap();
    }
    assert_eq!(bus.topics().iter().map(|topic| topic.as_str()).collect::<Vec<_>>(), ["dlq.t", "t"]);
    assert_eq!(floor(&bus, "dlq.t", "g").await, 0);
}

pub(in super::super) async fn a_replayed_event_that_fails_is_buried_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    fail(&mut sub, "first").await;
    settled(&lab, &bus, "t", 1).await;
    bus.set_cursor("t", "g", Position::Earliest).await.unwrap();
    let delivery = next(&mut sub).await;
    assert_eq!(delivery.attempt(), 1, "what was counted is forgotten");
    delivery.nack("second").unwrap();
    settled(&lab, &bus, "t", 1).await;
    let letters = letters(&bus, "dlq.t").await;
    let errs: Vec<Value> = letters.iter().map(|l| l.decode::<Value>().unwrap()["err"].clone()).collect();
    assert_eq!(errs, ["first", "second"]);
    assert_ne!(letters[0].id(), letters[1].id());
}

pub(in super::super) async fn a_group_made_anew_buries_anew(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    for life in ["first", "second"] {
        let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
        let mut sub = join.open().await.unwrap();
        fail(&mut sub, life).await;
        settled(&lab, &bus, "t", 1).await;
        bus.delete_group("t", "g").await.unwrap();
    }
    assert_eq!(letters(&bus, "dlq.t").await.len(), 2);
}

pub(in super::super) async fn a_reason_is_cut_between_characters(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub =
        bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    fail(&mut sub, &"é".repeat(3000).replacen('é', "e", 1)).await;
    settled(&lab, &bus, "t", 1).await;
    let letter: Value = letters(&bus, "dlq.t").await[0].decode().unwrap();
    let err = letter["err"].as_str().unwrap();
    assert_eq!(err.len(), 4095, "4 KiB, less the half of a character");
    assert!(err.starts_with("eéé"));
}

pub(in super::super) async fn a_group_goes_on_after_a_dead_letter(lab: Lab) {
    let bus = lab.bus().await;
    let join = bus.subscribe("t").group("g").max_attempts(1).max_in_flight(1);
    let mut sub = join.open().await.unwrap();
    for n in 1..=3 {
        fill(&bus, "t", [n]).await;
        fail(&mut sub, "no").await;
    }
    fill(&bus, "t", [4]).await;
    assert_eq!(consume(&mut sub, 1).await, [4]);
    settled(&lab, &bus, "t", 4).await;
    assert_silent(&mut sub).await;
    assert_eq!(letters(&bus, "dlq.t").await.len(), 3);
}
