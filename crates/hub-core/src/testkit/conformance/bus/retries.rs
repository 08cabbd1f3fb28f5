//! Backoff, deadlines, disconnects: when an event comes back, and what counts as a failure.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, fill, floor, hold, next, value, values};
use crate::{Bus, Clock, Code, Millis, Position, Subscription};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const HALF_A_DAY: Millis = 12 * 60 * 60 * 1000;

async fn one(lab: &Lab, max_attempts: u32) -> (Bus, Subscription) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let subscribe = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(max_attempts);
    (bus, subscribe.open().await.unwrap())
}

/// How long until the next event comes.
async fn wait(lab: &Lab, sub: &mut Subscription) -> (Millis, crate::Delivery) {
    let start = lab.clock().steady();
    let delivery = sub.recv().await.unwrap();
    (lab.clock().steady() - start, delivery)
}

pub(in super::super) async fn a_nacked_event_comes_back_after_its_backoff(lab: Lab) {
    let (_bus, mut sub) = one(&lab, 100).await;
    let mut delivery = next(&mut sub).await;
    let mut backoff = Vec::new();
    for attempt in 1..=13 {
        assert_eq!(delivery.attempt(), attempt);
        delivery.nack("not yet").unwrap();
        let (millis, again) = wait(&lab, &mut sub).await;
        backoff.push(millis);
        delivery = again;
    }
    let doubling = [20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 30_000, 30_000];
    assert_eq!(backoff, doubling);
}

pub(in super::super) async fn a_nack_can_say_when(lab: Lab) {
    let (_bus, mut sub) = one(&lab, 100).await;
    for delay in [0, 1, 12_345, HALF_A_DAY] {
        next(&mut sub).await.nack_after(delay, "later").unwrap();
        let (millis, again) = wait(&lab, &mut sub).await;
        assert_eq!(millis, delay);
        again.nack_after(0, "now").unwrap();
    }
    let held = next(&mut sub).await;
    assert_eq!(code(held.nack_after(HALF_A_DAY + 1, "too late")), Code::BadRequest);
    held.ack().expect("a request that was bad in itself leaves the lease alone");
}

pub(in super::super) async fn due_redeliveries_go_in_seq_order(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=4).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = hold(&mut sub, 4).await;
    for at in [2, 0, 3, 1] {
        held[at].nack_after(50, "all due at once").unwrap();
    }
    assert_eq!(values(&hold(&mut sub, 4).await), [1, 2, 3, 4]);
}

pub(in super::super) async fn redeliveries_go_before_new_events(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").max_in_flight(1).open().await.unwrap();
    fill(&bus, "t", 1..=3).await;
    next(&mut sub).await.nack_after(0, "again").unwrap();
    assert_eq!(consume(&mut sub, 3).await, [1, 2, 3]);
}

pub(in super::super) async fn a_delayed_nack_holds_no_place_in_the_window(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").max_in_flight(1).open().await.unwrap();
    fill(&bus, "t", 1..=3).await;
    next(&mut sub).await.nack_after(60_000, "later").unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 3]);
    let (millis, delivery) = wait(&lab, &mut sub).await;
    assert_eq!((millis, value(delivery.event()), delivery.attempt()), (60_000, 1, 2));
}

pub(in super::super) async fn an_expired_lease_goes_to_another_member_at_once(lab: Lab) {
    let bus = lab.bus().await;
    let mut a = bus.subscribe("t").group("g").ack_timeout(500).open().await.unwrap();
    fill(&bus, "t", [1]).await;
    let late = next(&mut a).await;
    let mut b = bus.subscribe("t").group("g").open().await.unwrap();
    a.pause();
    let (millis, delivery) = wait(&lab, &mut b).await;
    assert_eq!((millis, delivery.attempt()), (500, 2));
    assert_eq!(code(late.ack()), Code::UnknownId);
    delivery.ack().unwrap();
}

pub(in super::super) async fn the_time_to_ack_runs_from_when_the_event_is_in_hand(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").ack_timeout(500).open().await.unwrap();
    fill(&bus, "t", [1]).await;
    lab.pass(400).await;
    let held = next(&mut sub).await;
    lab.pass(400).await;
    held.ack().expect("it is in hand for 400 ms only");
}

pub(in super::super) async fn an_event_nobody_had_in_hand_did_not_fail(lab: Lab) {
    let bus = lab.bus().await;
    let subscribe = bus.subscribe("t").group("g").ack_timeout(500).max_attempts(1);
    let mut sub = subscribe.open().await.unwrap();
    fill(&bus, "t", [1]).await;
    lab.pass(5_000).await;
    let held = next(&mut sub).await;
    assert_eq!(held.attempt(), 1, "it lay in the queue and was not delivered");
    held.ack().unwrap();
    assert!(!bus.topics().iter().any(|topic| topic.is_dead_letter()));
}

pub(in super::super) async fn an_extended_lease_ends_when_it_said(lab: Lab) {
    let (_bus, mut sub) = one(&lab, 5).await;
    let held = next(&mut sub).await;
    lab.pass(10_000).await;
    assert_eq!(held.extend(100_000).unwrap(), 100_000);
    let (millis, again) = wait(&lab, &mut sub).await;
    assert_eq!((millis, again.attempt()), (100_000, 2));
    assert_eq!(again.extend(HALF_A_DAY).unwrap(), HALF_A_DAY);
    lab.pass(HALF_A_DAY - 1).await;
    again.ack().expect("half a day is not over");
}

pub(in super::super) async fn a_disconnect_blames_only_the_oldest_event_in_hand(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=4).await;
    let join = || bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut killed = join().open().await.unwrap();
    let held = hold(&mut killed, 3).await;
    held[0].ack().unwrap();
    let mut other = join().open().await.unwrap();
    drop(killed);
    let start = lab.clock().steady();
    let got = hold(&mut other, 2).await;
    let attempts: Vec<_> = got.iter().map(|delivery| (value(delivery.event()), delivery.attempt())).collect();
    assert_eq!(attempts, [(3, 2), (4, 1)], "2 was the oldest in hand");
    assert_eq!(lab.clock().steady(), start, "at once");
    lab.pass(1).await;
    let letters = bus.scan("dlq.t", Position::Earliest, None).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter: serde_json::Value = letters[0].decode().unwrap();
    assert_eq!((&letter["original"]["seq"], &letter["attempts"]), (&2.into(), &1.into()));
}

pub(in super::super) async fn closing_counts_no_failure(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=2).await;
    for attempt in 1..=3 {
        let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
        let mut sub = join.open().await.unwrap();
        let held = hold(&mut sub, 2).await;
        assert!(held.iter().all(|delivery| delivery.attempt() == attempt));
        sub.close();
    }
    lab.pass(1_000).await;
    assert_eq!(bus.topics().len(), 1, "nothing became a dead letter");
}

pub(in super::super) async fn a_paused_member_gets_nothing_until_it_resumes(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    fill(&bus, "t", [1]).await;
    let held = next(&mut sub).await;
    sub.pause();
    fill(&bus, "t", [2]).await;
    assert_silent(&mut sub).await;
    held.ack().expect("what it holds stays leased");
    assert_silent(&mut sub).await;
    sub.resume();
    assert_eq!(consume(&mut sub, 1).await, [2]);
}

pub(in super::super) async fn others_go_on_while_one_member_is_paused(lab: Lab) {
    let bus = lab.bus().await;
    let mut a = bus.subscribe("t").group("g").open().await.unwrap();
    let mut b = bus.subscribe("t").group("g").open().await.unwrap();
    a.pause();
    fill(&bus, "t", 1..=4).await;
    assert_eq!(consume(&mut b, 4).await, [1, 2, 3, 4]);
    assert_silent(&mut a).await;
}

/// The second of the seeds' two tests.
pub(in super::super) async fn an_event_that_a_handler_refused_is_back_within_80_ms(lab: Lab) {
    let bus = lab.bus().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let handler = move |_| {
        let first = counted.fetch_add(1, SeqCst) == 0;
        async move { if first { Err("boom") } else { Ok(()) } }
    };
    let _running = bus.subscribe("t").group("g").from(Position::Earliest).handler(handler).await.unwrap();
    let start = lab.clock().steady();
    fill(&bus, "t", [1]).await;
    assert_eq!(floor(&bus, "t", "g").await, 0, "the cursor stays");
    lab.pass(80).await;
    assert_eq!(attempts.load(SeqCst), 2);
    assert_eq!(floor(&bus, "t", "g").await, 1);
    assert_eq!(lab.clock().steady() - start, 80);
}
