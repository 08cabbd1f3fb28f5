//! Placing a group anew.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, fill, floor, hold, next, value, values};
use crate::{Bus, Code, EventId, Position, Receipt, Subscription};

/// Five events, all consumed.
async fn done(lab: &Lab) -> (Bus, Subscription, Vec<Receipt>) {
    let bus = lab.bus().await;
    let receipts = fill(&bus, "t", 1..=5).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    consume(&mut sub, 5).await;
    (bus, sub, receipts)
}

pub(in super::super) async fn a_cursor_can_go_back(lab: Lab) {
    let (bus, mut sub, receipts) = done(&lab).await;
    assert_eq!(bus.set_cursor("t", "g", Position::AfterSeq(3)).await.unwrap(), 3);
    let again = hold(&mut sub, 2).await;
    assert_eq!(values(&again), [4, 5]);
    assert!(again.iter().all(|delivery| delivery.attempt() == 1), "attempts are counted anew");
    assert_eq!(floor(&bus, "t", "g").await, 3);
    bus.set_cursor("t", "g", Position::AfterId(receipts[0].id)).await.unwrap();
    assert_eq!(consume(&mut sub, 4).await, [2, 3, 4, 5]);
    bus.set_cursor("t", "g", Position::Earliest).await.unwrap();
    assert_eq!(consume(&mut sub, 5).await, [1, 2, 3, 4, 5]);
}

pub(in super::super) async fn a_cursor_can_go_forward(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=5).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(1);
    let mut sub = join.open().await.unwrap();
    next(&mut sub).await;
    assert_eq!(bus.set_cursor("t", "g", Position::AfterSeq(3)).await.unwrap(), 3);
    assert_eq!(consume(&mut sub, 1).await, [4]);
    assert_eq!(bus.set_cursor("t", "g", Position::Latest).await.unwrap(), 5);
    assert_silent(&mut sub).await;
    fill(&bus, "t", [6]).await;
    assert_eq!(consume(&mut sub, 1).await, [6]);
}

pub(in super::super) async fn a_cursor_can_be_set_to_a_time(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    lab.pass(5).await;
    let time = bus.now();
    fill(&bus, "t", [3]).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(bus.set_cursor("t", "g", Position::Time(time)).await.unwrap(), 2);
    assert_eq!(consume(&mut sub, 1).await, [3]);
}

pub(in super::super) async fn setting_a_cursor_ends_leases(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(3);
    let mut sub = join.open().await.unwrap();
    let held = hold(&mut sub, 3).await;
    bus.set_cursor("t", "g", Position::AfterSeq(1)).await.unwrap();
    assert!(held.iter().all(|delivery| code(delivery.ack()) == Code::UnknownId));
    let again = hold(&mut sub, 2).await;
    assert_eq!(values(&again), [2, 3], "the members have room again");
    assert!(
        held.iter().all(|delivery| code(delivery.ack()) == Code::UnknownId),
        "also with the same attempt"
    );
    assert_eq!(floor(&bus, "t", "g").await, 1);
    again[0].ack().unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 2);
}

pub(in super::super) async fn setting_a_cursor_forgets_acks_above_it(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=4).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 4).await;
    held[2].ack().unwrap();
    bus.set_cursor("t", "g", Position::AfterSeq(1)).await.unwrap();
    assert_eq!(consume(&mut sub, 3).await, [2, 3, 4]);
}

pub(in super::super) async fn what_waits_for_its_backoff_is_forgotten_too(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    next(&mut sub).await.nack_after(300, "later").unwrap();
    bus.set_cursor("t", "g", Position::Latest).await.unwrap();
    lab.pass(500).await;
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_place_out_of_range_is_refused(lab: Lab) {
    let (bus, mut sub, _) = done(&lab).await;
    assert_eq!(code(bus.set_cursor("t", "g", Position::AfterSeq(6)).await), Code::BadRequest);
    let nowhere = Position::AfterId(EventId::from_bytes([9; 16]));
    assert_eq!(code(bus.set_cursor("t", "g", nowhere).await), Code::UnknownId);
    assert_eq!(code(bus.set_cursor("t", "nobody", Position::Earliest).await), Code::BadRequest);
    assert_eq!(code(bus.set_cursor("nowhere", "g", Position::Earliest).await), Code::BadRequest);
    assert_silent(&mut sub).await;
    assert_eq!(floor(&bus, "t", "g").await, 5);
}

pub(in super::super) async fn a_group_without_members_can_be_placed(lab: Lab) {
    let (bus, sub, _) = done(&lab).await;
    sub.close();
    bus.set_cursor("t", "g", Position::AfterSeq(4)).await.unwrap();
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(value(next(&mut sub).await.event()), 5);
}

pub(in super::super) async fn a_group_that_is_not_there_has_no_cursor(lab: Lab) {
    let bus = lab.bus().await;
    assert_eq!(bus.get_cursor("t", "g").await.unwrap(), None);
    fill(&bus, "t", [1]).await;
    assert_eq!(bus.get_cursor("t", "g").await.unwrap(), None);
    let _sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let cursor = bus.get_cursor("t", "g").await.unwrap().unwrap();
    assert_eq!((cursor.seq, cursor.last_id, cursor.last_ts), (0, None, None));
}
