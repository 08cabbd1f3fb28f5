//! `ordering: "key"`.

use super::super::Lab;
use super::tools::{assert_silent, consume, fill, fill_keyed, hold, next, value, values};
use crate::{Bus, Ordering, Position, Subscription};

async fn ordered(bus: &Bus) -> Subscription {
    let join = bus.subscribe("t").group("g").from(Position::Earliest).ordering(Ordering::Key);
    join.open().await.unwrap()
}

pub(in super::super) async fn two_events_of_a_key_are_never_in_flight_at_once(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("a", 3)]).await;
    let (mut one, mut two) = (ordered(&bus).await, ordered(&bus).await);
    let first = next(&mut one).await;
    assert_silent(&mut one).await;
    assert_silent(&mut two).await;
    first.ack().unwrap();
    let second = tokio::select! {
        delivery = next(&mut one) => delivery,
        delivery = next(&mut two) => delivery,
    };
    assert_eq!(value(second.event()), 2);
    assert_silent(&mut one).await;
    assert_silent(&mut two).await;
}

pub(in super::super) async fn other_keys_go_on_while_one_is_blocked(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5), ("b", 6)]).await;
    let mut sub = ordered(&bus).await;
    let held = hold(&mut sub, 3).await;
    assert_eq!(values(&held), [1, 3, 5]);
    held[1].ack().unwrap();
    assert_eq!(consume(&mut sub, 1).await, [6]);
    held[0].ack().unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 4]);
}

pub(in super::super) async fn a_nacked_event_keeps_its_place_in_its_key(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("b", 3)]).await;
    let mut sub = ordered(&bus).await;
    next(&mut sub).await.nack_after(50, "again").unwrap();
    assert_eq!(consume(&mut sub, 3).await, [3, 1, 2]);
}

pub(in super::super) async fn a_dead_letter_frees_its_key(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2)]).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).ordering(Ordering::Key).max_attempts(1);
    let mut sub = join.open().await.unwrap();
    next(&mut sub).await.nack("no").unwrap();
    assert_eq!(consume(&mut sub, 1).await, [2]);
}

pub(in super::super) async fn events_without_a_key_are_not_ordered(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let mut sub = ordered(&bus).await;
    assert_eq!(values(&hold(&mut sub, 3).await), [1, 2, 3]);
}

pub(in super::super) async fn blocked_keys_hold_no_place_in_the_window(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("a", 3), ("b", 4)]).await;
    let join =
        bus.subscribe("t").group("g").from(Position::Earliest).ordering(Ordering::Key).max_in_flight(2);
    let mut sub = join.open().await.unwrap();
    assert_eq!(values(&hold(&mut sub, 2).await), [1, 4]);
    assert_eq!(bus.group("t", "g").unwrap().parked, 2);
}

pub(in super::super) async fn a_key_keeps_its_order_when_a_member_leaves(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2), ("a", 3), ("b", 4)]).await;
    let mut one = ordered(&bus).await;
    hold(&mut one, 2).await;
    let mut two = ordered(&bus).await;
    drop(one);
    let held = hold(&mut two, 2).await;
    assert_eq!(values(&held), [1, 2]);
    assert_silent(&mut two).await;
    held.iter().for_each(|delivery| delivery.ack().unwrap());
    assert_eq!(consume(&mut two, 2).await, [3, 4]);
}
