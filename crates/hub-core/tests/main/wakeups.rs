//! Who has room gets what is there: a consumer waits in `recv` and has to be woken.

use crate::world::{World, assert_silent, next, value};
use hub_core::{Code, Config, Error, Ordering, Position, Reason};
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn room_made_by_an_expired_lease_reaches_the_other_topics() {
    let world = World::new().await;
    let subscribe = world.bus.subscribe("t.*").group("g").max_in_flight(1).max_attempts(1).ack_timeout(100);
    let mut sub = subscribe.open().await.unwrap();
    world.fill("t.a", [1]).await;
    let _held = next(&mut sub).await;
    world.fill("t.b", [2]).await;
    assert_eq!(value(&next(&mut sub).await), 2);
}

#[tokio::test(start_paused = true)]
async fn room_made_by_setting_the_cursor_reaches_the_other_topics() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t.*").group("g").max_in_flight(1).open().await.unwrap();
    world.fill("t.a", [1]).await;
    let _held = next(&mut sub).await;
    world.fill("t.b", [2]).await;
    let waiting = tokio::spawn(async move { value(&next(&mut sub).await) });
    world.clock.advance(10).await;
    world.bus.set_cursor("t.a", "g", Position::Latest).await.unwrap();
    assert_eq!(waiting.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_group_reads_on_for_anybody_once_less_is_parked() {
    let world = World::with(Config { max_parked: 2, ..Config::default() }).await;
    let join = || world.bus.subscribe("t").group("g").ordering(Ordering::Key).ack_timeout(3_600_000).open();
    let mut eager = join().await.unwrap();
    let _idle = join().await.unwrap();
    for n in 1..=3 {
        world.bus.publish("t", json!(n)).key("k").await.unwrap();
    }
    world.bus.publish("t", json!(4)).key("x").await.unwrap();
    let first = next(&mut eager).await;
    assert_eq!(world.bus.group("t", "g").unwrap().reason, Some(Reason::ParkedFull));
    first.ack().unwrap();
    assert_eq!(value(&next(&mut eager).await), 4);
}

#[tokio::test(start_paused = true)]
async fn a_nacked_event_that_is_overtaken_meanwhile_does_not_come_again() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").coalesce(true).max_in_flight(1).open().await.unwrap();
    world.bus.publish("t", json!(1)).key("k").await.unwrap();
    world.bus.publish("t", json!(100)).key("other").await.unwrap();
    next(&mut sub).await.nack_after(1_000, "later").unwrap();
    let other = next(&mut sub).await;
    world.bus.publish("t", json!(2)).key("k").await.unwrap();
    world.clock.advance(5_000).await;
    other.ack().unwrap();
    assert_eq!(value(&next(&mut sub).await), 2);
    assert_silent(&mut sub).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_right_ends_a_subscription_and_counts_no_failure() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").max_attempts(1).open().await.unwrap();
    world.fill("t", [1, 2]).await;
    let _held = next(&mut sub).await;
    sub.end(Error::new(Code::Forbidden, "a right was lost"));
    assert_eq!(sub.recv().await.unwrap_err().code, Code::Forbidden, "2 is not handed out any more");
    drop(sub);
    let mut other = world.bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!((next(&mut other).await.attempt(), next(&mut other).await.attempt()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn events_behind_a_held_key_are_a_reason() {
    let world = World::new().await;
    let mut sub = world.bus.subscribe("t").group("g").ordering(Ordering::Key).open().await.unwrap();
    for n in 1..=2 {
        world.bus.publish("t", json!(n)).key("k").await.unwrap();
    }
    let _held = next(&mut sub).await;
    assert_eq!(world.bus.group("t", "g").unwrap().reason, Some(Reason::KeyBlocked));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_does_not_come_back_is_a_reason() {
    let world = World::with(Config { tail_bytes: 1, ..Config::default() }).await;
    world.fill("t", 1..=3).await;
    world.break_all("read", hub_core::testkit::Fault::Delay(3_600_000));
    let _sub = world.bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    world.clock.advance(60_000).await;
    assert_eq!(world.bus.group("t", "g").unwrap().reason, Some(Reason::StoreUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_before_its_future_is_a_nack() {
    let world = World::new().await;
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |delivery: std::sync::Arc<hub_core::Delivery>| {
        called.send(delivery.attempt()).unwrap();
        assert!(delivery.attempt() > 1, "this panic is part of the test");
        async { Ok::<(), Error>(()) }
    };
    let _running = world.bus.subscribe("t").group("g").handler(handler).await.unwrap();
    world.fill("t", [1]).await;
    for attempt in 1..=2 {
        assert_eq!(tokio::time::timeout(Duration::from_secs(1), calls.recv()).await, Ok(Some(attempt)));
    }
}
