//! Only the latest state of each key.

use super::super::Lab;
use super::tools::{assert_silent, consume, fill, fill_keyed, floor, hold, next, value, values};
use crate::{Bus, Config, Filter, Position, Subscription};
use serde_json::json;

async fn latest(bus: &Bus) -> Subscription {
    bus.subscribe("t").group("g").from(Position::Earliest).coalesce(true).open().await.unwrap()
}

pub(in super::super) async fn from_earliest_is_the_latest_state_of_every_key_then_live(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6)]).await;
    let mut sub = latest(&bus).await;
    fill_keyed(&bus, "t", [("d", 7)]).await;
    assert_eq!(consume(&mut sub, 4).await, [4, 5, 6, 7]);
    fill_keyed(&bus, "t", [("c", 8)]).await;
    assert_eq!(consume(&mut sub, 1).await, [8]);
    assert_eq!(floor(&bus, "t", "g").await, 8, "what was overtaken is settled");
}

pub(in super::super) async fn the_same_holds_for_what_has_left_memory(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1_000, ..Config::default() }).await;
    for round in 0..100 {
        fill_keyed(&bus, "t", [("a", round * 3), ("b", round * 3 + 1), ("c", round * 3 + 2)]).await;
    }
    let mut sub = latest(&bus).await;
    assert_eq!(consume(&mut sub, 3).await, [297, 298, 299]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn what_is_in_flight_stays_and_the_rest_is_skipped_to_the_newest(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = latest(&bus).await;
    fill_keyed(&bus, "t", [("a", 1)]).await;
    let held = next(&mut sub).await;
    fill_keyed(&bus, "t", [("a", 2), ("a", 3), ("b", 4)]).await;
    assert_eq!(consume(&mut sub, 1).await, [4]);
    assert_silent(&mut sub).await;
    held.ack().unwrap();
    assert_eq!(consume(&mut sub, 1).await, [3]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_nacked_event_that_was_overtaken_does_not_come_back(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = latest(&bus).await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    let held = hold(&mut sub, 2).await;
    held[1].nack_after(200, "overtaken while it waits").unwrap();
    fill_keyed(&bus, "t", [("a", 3), ("b", 4)]).await;
    assert_eq!(consume(&mut sub, 1).await, [4]);
    held[0].nack("overtaken before").unwrap();
    assert_eq!(consume(&mut sub, 1).await, [3]);
    lab.pass(300).await;
    assert_silent(&mut sub).await;
    assert_eq!(floor(&bus, "t", "g").await, 4);
}

pub(in super::super) async fn a_nacked_event_that_is_the_newest_comes_back(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = latest(&bus).await;
    fill_keyed(&bus, "t", [("a", 1)]).await;
    next(&mut sub).await.nack("again").unwrap();
    let again = next(&mut sub).await;
    assert_eq!((value(again.event()), again.attempt()), (1, 2));
}

pub(in super::super) async fn events_without_a_key_are_never_overtaken(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    fill_keyed(&bus, "t", [("a", 4), ("a", 5)]).await;
    assert_eq!(consume(&mut latest(&bus).await, 4).await, [1, 2, 3, 5]);
}

pub(in super::super) async fn what_a_filter_refuses_overtakes_all_the_same(lab: Lab) {
    let bus = lab.bus().await;
    bus.publish("t", json!(1)).key("a").tag("red").await.unwrap();
    bus.publish("t", json!(2)).key("b").tag("red").await.unwrap();
    bus.publish("t", json!(3)).key("a").await.unwrap();
    let red = Filter { tags: vec!["red".into()], ..Filter::default() };
    let join = bus.subscribe("t").group("g").from(Position::Earliest).coalesce(true).filter(red);
    let mut sub = join.open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [2]);
    assert_silent(&mut sub).await;
    assert_eq!(floor(&bus, "t", "g").await, 3);
}

pub(in super::super) async fn tombstones_are_delivered_too(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.publish("t", json!(null)).key("a").await.unwrap();
    let mut sub = latest(&bus).await;
    let held = hold(&mut sub, 2).await;
    assert_eq!(values(&held[..1]), [2]);
    assert!(held[1].event().is_tombstone());
}
