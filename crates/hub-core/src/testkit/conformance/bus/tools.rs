//! Publishing numbers and consuming them, in few words.

use crate::subscribe::{Handed, Watched};
use crate::{Bus, ById, Delivery, Receipt, Subscription, Watch};
use hub_proto::{Code, Event, Result};
use serde_json::json;
use std::time::Duration;

/// How long a case waits for what has to come. Shorter than an ack timeout, so that no redelivery hides a lost wake-up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a case waits for what must not come.
const SILENCE: Duration = Duration::from_millis(100);

pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("what has to come did not come in time")
}

pub(super) fn value(event: &Event) -> u64 {
    event.decode().expect("the payload is a number")
}

pub(super) fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("this has to be refused").code
}

/// Publishes numbers to a topic, one after the other.
pub(super) async fn fill(bus: &Bus, topic: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for n in numbers {
        receipts.push(bus.publish(topic, json!(n)).await.unwrap());
    }
    receipts
}

/// Publishes numbers under keys.
pub(super) async fn fill_keyed<'a>(bus: &Bus, topic: &str, events: impl IntoIterator<Item = (&'a str, u64)>) {
    for (key, n) in events {
        bus.publish(topic, json!(n)).key(key).await.unwrap();
    }
}

/// The next event, in hand and not settled.
pub(super) async fn next(sub: &mut Subscription) -> Delivery {
    soon(sub.recv()).await.expect("the subscription goes on")
}

/// The next `count` events, in hand and not settled.
pub(super) async fn hold(sub: &mut Subscription, count: usize) -> Vec<Delivery> {
    let mut held = Vec::new();
    while held.len() < count {
        held.push(next(sub).await);
    }
    held
}

/// Acks the next `count` events and answers their numbers.
pub(super) async fn consume(sub: &mut Subscription, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let delivery = next(sub).await;
        delivery.ack().unwrap();
        numbers.push(value(delivery.event()));
    }
    numbers
}

pub(super) fn values(held: &[Delivery]) -> Vec<u64> {
    held.iter().map(|delivery| value(delivery.event())).collect()
}

/// Nothing comes, not even a little later.
pub(super) async fn assert_silent(sub: &mut Subscription) {
    if let Ok(got) = tokio::time::timeout(SILENCE, sub.recv()).await {
        panic!("nothing was to come, but this did: {got:?}");
    }
}

/// What ends a subscription.
pub(super) async fn end(sub: &mut Subscription) -> Code {
    code(soon(sub.recv()).await)
}

/// Events up to here are settled.
pub(super) async fn floor(bus: &Bus, topic: &str, group: &str) -> u64 {
    bus.get_cursor(topic, group).await.unwrap().expect("the group is there").seq
}

/// The numbers that a topic holds.
pub(super) async fn stored(bus: &Bus, topic: &str) -> Vec<u64> {
    let events = bus.scan(topic, crate::Position::Earliest, None).await.unwrap();
    events.iter().map(|event| value(event)).collect()
}

/// The next event by id.
pub(super) async fn handed(sub: &mut ById) -> Handed {
    soon(sub.recv()).await.expect("the subscription goes on")
}

pub(super) async fn assert_nothing_handed(sub: &mut ById) {
    if let Ok(got) = tokio::time::timeout(SILENCE, sub.recv()).await {
        panic!("nothing was to come, but this did: {got:?}");
    }
}

/// The next event that a watcher sees.
pub(super) async fn seen(watch: &mut Watch) -> u64 {
    match soon(watch.recv()).await.expect("the store answers") {
        Watched::Event(event) => value(&event),
        lagged @ Watched::Lagged { .. } => panic!("the watcher kept up, but got {lagged:?}"),
    }
}

pub(super) async fn assert_nothing_seen(watch: &mut Watch) {
    if let Ok(got) = tokio::time::timeout(SILENCE, watch.recv()).await {
        panic!("nothing was to come, but this did: {got:?}");
    }
}
