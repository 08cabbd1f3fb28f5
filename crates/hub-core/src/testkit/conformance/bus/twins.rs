//! One id on two topics, over time.

use super::super::Lab;
use super::tools::{assert_nothing_handed, floor, handed};
use crate::EventId;
use serde_json::json;

pub(in super::super) async fn a_twin_is_not_lost_with_a_lease_that_ran_out(lab: Lab) {
    let bus = lab.bus().await;
    let id = EventId::from_bytes([7; 16]);
    let join = || bus.subscribe("a.*").group("g").ack_timeout(1_000);
    let mut slow = join().open_by_id().await.unwrap();
    bus.publish("a.x", json!(1)).id(id).await.unwrap();
    bus.publish("a.y", json!(2)).id(id).await.unwrap();
    handed(&mut slow).await;
    assert_nothing_handed(&mut slow).await;
    // The consumer forgets the first one; both go to somebody else in the end.
    slow.subscription().pause();
    let mut other = join().open_by_id().await.unwrap();
    for _ in 0..2 {
        handed(&mut other).await;
        other.ack(id, None).unwrap();
    }
    assert_eq!((floor(&bus, "a.x", "g").await, floor(&bus, "a.y", "g").await), (1, 1));
}

pub(in super::super) async fn a_held_twin_did_not_fail(lab: Lab) {
    let bus = lab.bus().await;
    let id = EventId::from_bytes([7; 16]);
    let mut sub =
        bus.subscribe("a.*").group("g").ack_timeout(1_000).max_attempts(1).open_by_id().await.unwrap();
    bus.publish("a.x", json!(1)).id(id).await.unwrap();
    bus.publish("a.y", json!(2)).id(id).await.unwrap();
    handed(&mut sub).await;
    sub.extend(id, None, 60_000).unwrap();
    lab.pass(30_000).await;
    assert_nothing_handed(&mut sub).await;
    sub.ack(id, None).unwrap();
    assert_eq!(handed(&mut sub).await.attempt, 1);
    sub.ack(id, None).unwrap();
    assert_eq!((floor(&bus, "a.x", "g").await, floor(&bus, "a.y", "g").await), (1, 1));
}
