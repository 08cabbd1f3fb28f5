//! A group that delivers nothing says why.

use super::super::Lab;
use super::tools::{consume, fill, fill_keyed, hold, next, value};
use crate::{Bus, Config, Ordering, Position, Reason};

fn reason(bus: &Bus) -> Option<Reason> {
    bus.group("t", "g").unwrap().reason
}

pub(in super::super) async fn no_members(lab: Lab) {
    let bus = lab.bus().await;
    let sub = bus.subscribe("t").group("g").open().await.unwrap();
    fill(&bus, "t", [1]).await;
    sub.close();
    assert_eq!(reason(&bus), Some(Reason::NoMembers));
    assert_eq!(bus.group("t", "g").unwrap().lag, 1);
}

pub(in super::super) async fn paused(lab: Lab) {
    let bus = lab.bus().await;
    let one = bus.subscribe("t").group("g").open().await.unwrap();
    let two = bus.subscribe("t").group("g").open().await.unwrap();
    one.pause();
    assert_eq!(reason(&bus), Some(Reason::CaughtUp), "the other one is there");
    two.pause();
    assert_eq!(reason(&bus), Some(Reason::Paused));
    one.resume();
    assert_eq!(reason(&bus), Some(Reason::CaughtUp));
}

pub(in super::super) async fn window_full(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").max_in_flight(2).open().await.unwrap();
    fill(&bus, "t", 1..=3).await;
    let held = hold(&mut sub, 2).await;
    assert_eq!(reason(&bus), Some(Reason::WindowFull));
    held[0].ack().unwrap();
    next(&mut sub).await.ack().unwrap();
    assert_eq!(reason(&bus), Some(Reason::CaughtUp));
}

pub(in super::super) async fn backoff(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    fill(&bus, "t", [1]).await;
    next(&mut sub).await.nack_after(60_000, "later").unwrap();
    assert_eq!(reason(&bus), Some(Reason::Backoff));
    let status = bus.group("t", "g").unwrap();
    assert_eq!((status.parked, status.inflight), (1, 0));
}

pub(in super::super) async fn caught_up(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(reason(&bus), Some(Reason::CaughtUp));
    fill(&bus, "t", [1]).await;
    consume(&mut sub, 1).await;
    assert_eq!(reason(&bus), Some(Reason::CaughtUp));
}

pub(in super::super) async fn parked_full(lab: Lab) {
    let bus = lab.bus_with(Config { max_parked: 3, ..Config::default() }).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    fill(&bus, "t", 1..=3).await;
    for delivery in hold(&mut sub, 3).await {
        delivery.nack_after(2_000, "later").unwrap();
    }
    fill(&bus, "t", 4..=5).await;
    super::tools::assert_silent(&mut sub).await;
    assert_eq!(reason(&bus), Some(Reason::ParkedFull));
    assert_eq!(bus.group("t", "g").unwrap().parked, 3);
    let mut got = consume(&mut sub, 5).await;
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3, 4, 5], "due redeliveries and acks make room again");
    assert_eq!(reason(&bus), Some(Reason::CaughtUp));
}

pub(in super::super) async fn blocked_keys_park_only_so_many_events(lab: Lab) {
    let bus = lab.bus_with(Config { max_parked: 5, ..Config::default() }).await;
    fill_keyed(&bus, "t", (1..=20).map(|n| ("a", n))).await;
    fill_keyed(&bus, "t", [("b", 21)]).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).ordering(Ordering::Key);
    let mut sub = join.open().await.unwrap();
    let first = next(&mut sub).await;
    super::tools::assert_silent(&mut sub).await;
    assert_eq!((reason(&bus), bus.group("t", "g").unwrap().parked), (Some(Reason::ParkedFull), 5));
    assert_eq!(value(first.event()), 1);
    first.ack().unwrap();
    let mut got = consume(&mut sub, 20).await;
    got.retain(|n| *n != 21);
    assert_eq!(got, (2..=20).collect::<Vec<_>>());
}
