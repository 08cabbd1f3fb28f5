//! Settling by id.

use super::super::Lab;
use super::tools::{assert_nothing_handed, code, fill, fill_keyed, floor, handed, value};
use crate::{Bus, Code, EventId, Ordering, Position};
use serde_json::json;
use std::collections::HashSet;

fn id() -> EventId {
    EventId::from_bytes([7; 16])
}

/// One id on two topics.
async fn twins(bus: &Bus) {
    bus.publish("a.x", json!(1)).id(id()).await.unwrap();
    bus.publish("a.y", json!(2)).id(id()).await.unwrap();
}

pub(in super::super) async fn events_are_settled_by_id(lab: Lab) {
    let bus = lab.bus().await;
    let receipts = fill(&bus, "t", 1..=3).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(4);
    let mut sub = join.open_by_id().await.unwrap();
    for expected in 1..=3 {
        let handed = handed(&mut sub).await;
        assert_eq!((value(&handed.event), handed.attempt, handed.max_attempts), (expected, 1, 4));
    }
    sub.ack(receipts[1].id, None).unwrap();
    sub.nack(receipts[0].id, None, Some(0), "again").unwrap();
    assert!(sub.extend(receipts[2].id, None, 60_000).unwrap() > 30_000);
    let again = handed(&mut sub).await;
    assert_eq!((value(&again.event), again.attempt), (1, 2));
    sub.ack(receipts[0].id, None).unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 2);
    assert_eq!(code(sub.ack(receipts[0].id, None)), Code::UnknownId);
    assert_eq!(code(sub.ack(id(), None)), Code::UnknownId);
}

pub(in super::super) async fn an_attempt_fences(lab: Lab) {
    let bus = lab.bus().await;
    let id = fill(&bus, "t", [1]).await[0].id;
    let join = bus.subscribe("t").group("g").from(Position::Earliest);
    let mut sub = join.open_by_id().await.unwrap();
    handed(&mut sub).await;
    sub.nack(id, Some(1), Some(0), "again").unwrap();
    assert_eq!(handed(&mut sub).await.attempt, 2);
    assert_eq!(code(sub.ack(id, Some(1))), Code::UnknownId);
    assert_eq!(floor(&bus, "t", "g").await, 0);
    sub.ack(id, Some(2)).expect("a refused attempt leaves the lease alone");
    assert_eq!(floor(&bus, "t", "g").await, 1);
}

pub(in super::super) async fn a_bad_request_leaves_the_lease_alone(lab: Lab) {
    let bus = lab.bus().await;
    let id = fill(&bus, "t", [1]).await[0].id;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open_by_id().await.unwrap();
    handed(&mut sub).await;
    let too_long = 12 * 60 * 60 * 1000 + 1;
    assert_eq!(code(sub.nack(id, None, Some(too_long), "")), Code::BadRequest);
    assert_eq!(code(sub.extend(id, None, too_long)), Code::BadRequest);
    sub.ack(id, None).unwrap();
}

pub(in super::super) async fn one_id_of_two_topics_is_never_in_hand_twice(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").open_by_id().await.unwrap();
    twins(&bus).await;
    let first = handed(&mut sub).await;
    assert_nothing_handed(&mut sub).await;
    sub.ack(id(), None).unwrap();
    let second = handed(&mut sub).await;
    assert_ne!(first.event.topic(), second.event.topic());
    assert_eq!(second.attempt, 1);
    sub.ack(id(), None).unwrap();
    assert_eq!((floor(&bus, "a.x", "g").await, floor(&bus, "a.y", "g").await), (1, 1));
}

pub(in super::super) async fn a_nack_lets_the_twin_go_first(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").open_by_id().await.unwrap();
    twins(&bus).await;
    let first = handed(&mut sub).await;
    assert_nothing_handed(&mut sub).await;
    sub.nack(id(), None, Some(500), "later").unwrap();
    let second = handed(&mut sub).await;
    assert_ne!(first.event.topic(), second.event.topic());
    sub.ack(id(), None).unwrap();
    let again = handed(&mut sub).await;
    assert_eq!((again.event.topic(), again.attempt), (first.event.topic(), 2));
}

pub(in super::super) async fn closing_gives_everything_back(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").max_attempts(1).open_by_id().await.unwrap();
    twins(&bus).await;
    handed(&mut sub).await;
    assert_nothing_handed(&mut sub).await;
    sub.close();
    let mut sub = bus.subscribe("a.*").group("g").open_by_id().await.unwrap();
    handed(&mut sub).await;
    sub.ack(id(), None).unwrap();
    handed(&mut sub).await;
    sub.ack(id(), None).unwrap();
}

pub(in super::super) async fn what_is_given_back_comes_again_and_has_not_failed(lab: Lab) {
    let bus = lab.bus().await;
    let id = fill(&bus, "t", [1]).await[0].id;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join.open_by_id().await.unwrap();
    for attempt in 1..=3 {
        assert_eq!(handed(&mut sub).await.attempt, attempt);
        assert_eq!(code(sub.give_back(id, Some(attempt + 1), 0)), Code::UnknownId);
        sub.give_back(id, Some(attempt), 0).unwrap();
    }
    handed(&mut sub).await;
    let too_long = 12 * 60 * 60 * 1000 + 1;
    assert_eq!(code(sub.give_back(id, None, too_long)), Code::BadRequest);
    sub.ack(id, None).unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 1);
}

pub(in super::super) async fn a_consumer_keeps_what_it_names_and_gives_back_the_rest(lab: Lab) {
    let bus = lab.bus().await;
    let ids: Vec<EventId> = fill(&bus, "t", 1..=4).await.iter().map(|receipt| receipt.id).collect();
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join.open_by_id().await.unwrap();
    for _ in 0..4 {
        handed(&mut sub).await;
    }
    sub.ack(ids[3], None).unwrap();
    sub.keep_only(&HashSet::from([ids[0], ids[2], ids[3], id()]));
    let again = handed(&mut sub).await;
    assert_eq!((value(&again.event), again.attempt), (2, 2));
    assert_nothing_handed(&mut sub).await;
    for id in &ids[..3] {
        sub.ack(*id, None).unwrap();
    }
    assert_eq!(floor(&bus, "t", "g").await, 4);
}

pub(in super::super) async fn what_is_given_back_with_a_delay_holds_its_key_back(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("b", 3)]).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).ordering(Ordering::Key);
    let mut sub = join.open_by_id().await.unwrap();
    let first = handed(&mut sub).await.event;
    assert_eq!((value(&first), value(&handed(&mut sub).await.event)), (1, 3));
    sub.give_back(first.id(), None, 500).unwrap();
    assert_nothing_handed(&mut sub).await;
    let again = handed(&mut sub).await;
    assert_eq!((value(&again.event), again.attempt), (1, 2), "not the one behind it");
    sub.ack(first.id(), None).unwrap();
    assert_eq!(value(&handed(&mut sub).await.event), 2);
}

pub(in super::super) async fn a_parked_consumer_leaves_what_waits_for_it_to_others(lab: Lab) {
    let bus = lab.bus().await;
    let ids: Vec<EventId> = fill(&bus, "t", 1..=4).await.iter().map(|receipt| receipt.id).collect();
    let join = || bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join().open_by_id().await.unwrap();
    for _ in 0..2 {
        handed(&mut sub).await;
    }
    sub.park();
    assert_eq!(sub.oldest(), Some(ids[0]));
    let mut other = join().open_by_id().await.unwrap();
    for expected in [3, 4] {
        let handed = handed(&mut other).await;
        assert_eq!(
            (value(&handed.event), handed.attempt),
            (expected, 1),
            "it was delivered to nobody before"
        );
    }
    assert_nothing_handed(&mut other).await;
    sub.keep_only(&HashSet::from([ids[1]]));
    sub.subscription().resume();
    let again = handed(&mut other).await;
    assert_eq!((value(&again.event), again.attempt), (1, 2));
    assert_nothing_handed(&mut sub).await;
    sub.ack(ids[1], None).unwrap();
    for id in [ids[0], ids[2], ids[3]] {
        other.ack(id, None).unwrap();
    }
    assert_eq!(floor(&bus, "t", "g").await, 4);
}

pub(in super::super) async fn a_parked_consumer_keeps_no_twin_from_others(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("a.*").group("g").open_by_id().await.unwrap();
    twins(&bus).await;
    let first = handed(&mut sub).await;
    assert_nothing_handed(&mut sub).await;
    sub.park();
    let mut other = bus.subscribe("a.*").group("g").open_by_id().await.unwrap();
    let second = handed(&mut other).await;
    assert_ne!(first.event.topic(), second.event.topic());
    sub.keep_only(&HashSet::from([id()]));
    sub.subscription().resume();
    sub.ack(id(), None).unwrap();
    assert_nothing_handed(&mut sub).await;
    other.ack(id(), None).unwrap();
}

pub(in super::super) async fn a_consumer_that_vanishes_has_the_event_blamed_that_it_had_for_longest(
    lab: Lab,
) {
    let bus = lab.bus().await;
    let ids: Vec<EventId> = fill(&bus, "t", 1..=3).await.iter().map(|receipt| receipt.id).collect();
    let join = || bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join().open_by_id().await.unwrap();
    for _ in 0..3 {
        handed(&mut sub).await;
    }
    // It has the first one for a shorter time than the second one now.
    sub.give_back(ids[0], None, 0).unwrap();
    assert_eq!(handed(&mut sub).await.attempt, 2);
    assert_eq!(sub.oldest(), Some(ids[1]));
    let blame = sub.oldest();
    sub.vanish(blame);
    let mut sub = join().open_by_id().await.unwrap();
    for (expected, attempt) in [(1, 3), (3, 2)] {
        let again = handed(&mut sub).await;
        assert_eq!((value(&again.event), again.attempt), (expected, attempt));
    }
}
