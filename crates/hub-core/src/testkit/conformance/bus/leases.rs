//! Who may settle, and what it does to the cursor.

use super::super::Lab;
use super::tools::{assert_silent, code, fill, floor, handed, hold, next};
use crate::{Code, Position};

pub(in super::super) async fn an_ack_settles_the_event(lab: Lab) {
    let bus = lab.bus().await;
    let receipts = fill(&bus, "t", [1, 2]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    next(&mut sub).await.ack().unwrap();
    let cursor = bus.get_cursor("t", "g").await.unwrap().unwrap();
    assert_eq!(&*cursor.topic, "t");
    assert_eq!((cursor.seq, cursor.last_id, cursor.last_ts), (1, Some(receipts[0].id), Some(receipts[0].ts)));
}

pub(in super::super) async fn the_floor_never_passes_an_unsettled_event(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=5).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 5).await;
    for (ack, expected) in [(1, 0), (3, 0), (0, 2), (2, 4), (4, 5)] {
        held[ack].ack().unwrap();
        assert_eq!(floor(&bus, "t", "g").await, expected);
    }
}

pub(in super::super) async fn settling_twice_is_unknown_id(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 2).await;
    held[0].ack().unwrap();
    assert_eq!(code(held[0].ack()), Code::UnknownId);
    assert_eq!(code(held[0].nack("late")), Code::UnknownId);
    assert_eq!(code(held[0].extend(1000)), Code::UnknownId);
    held[1].nack_after(60_000, "later").unwrap();
    assert_eq!(code(held[1].ack()), Code::UnknownId);
    assert_eq!(floor(&bus, "t", "g").await, 1);
}

pub(in super::super) async fn only_the_holder_can_settle(lab: Lab) {
    let bus = lab.bus().await;
    let mut a = bus.subscribe("t").group("g").open_by_id().await.unwrap();
    let mut b = bus.subscribe("t").group("g").open_by_id().await.unwrap();
    let id = fill(&bus, "t", [1]).await[0].id;
    handed(&mut a).await;
    assert_eq!(code(b.ack(id, None)), Code::UnknownId);
    assert_eq!(code(b.nack(id, None, None, "not mine")), Code::UnknownId);
    assert_eq!(code(b.extend(id, None, 1000)), Code::UnknownId);
    a.ack(id, None).unwrap();
}

pub(in super::super) async fn an_old_attempt_settles_nothing(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let first = next(&mut sub).await;
    first.nack("once").unwrap();
    let second = next(&mut sub).await;
    assert_eq!((first.attempt(), second.attempt()), (1, 2));
    assert_eq!(code(first.ack()), Code::UnknownId);
    assert_eq!(floor(&bus, "t", "g").await, 0);
    second.ack().unwrap();
    assert_eq!(floor(&bus, "t", "g").await, 1);
}

pub(in super::super) async fn dropping_a_delivery_settles_nothing(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    drop(next(&mut sub).await);
    assert_silent(&mut sub).await;
    assert_eq!((floor(&bus, "t", "g").await, bus.group("t", "g").unwrap().inflight), (0, 1));
}

pub(in super::super) async fn what_a_member_held_goes_to_others_when_it_leaves(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=3).await;
    let mut a = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut a, 2).await;
    let mut b = bus.subscribe("t").group("g").open().await.unwrap();
    a.close();
    let got = hold(&mut b, 3).await;
    let attempts: Vec<_> = got.iter().map(|delivery| (delivery.event().seq(), delivery.attempt())).collect();
    assert_eq!(attempts, [(1, 2), (2, 2), (3, 1)], "what was queued and not in hand was not delivered");
    assert_eq!(code(held[0].ack()), Code::UnknownId);
}

pub(in super::super) async fn a_lease_can_be_extended(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let subscribe = bus.subscribe("t").group("g").from(Position::Earliest).ack_timeout(60_000);
    let mut sub = subscribe.open().await.unwrap();
    let held = next(&mut sub).await;
    let left = held.extend(100_000).unwrap();
    assert!((99_000..=100_000).contains(&left), "{left}");
    let left = held.extend(1_000).unwrap();
    assert!((99_000..=100_000).contains(&left), "a deadline never comes closer: {left}");
    let half_a_day = 12 * 60 * 60 * 1000;
    assert!(held.extend(half_a_day).is_ok());
    assert_eq!(code(held.extend(half_a_day + 1)), Code::BadRequest);
    held.ack().expect("a request that was bad in itself leaves the lease alone");
}
