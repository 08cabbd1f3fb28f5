//! A bus over a store that fails on demand, on a clock that stands still.

use hub_core::testkit::{Fault, FaultyStore, ManualClock};
use hub_core::{Bus, Code, Config, Delivery, MemoryStore, Receipt, Result, Subscription};
use prometheus_client::registry::Registry;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct World {
    pub(crate) store: FaultyStore,
    pub(crate) clock: ManualClock,
    pub(crate) bus: Bus,
    pub(crate) registry: Registry,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let clock = ManualClock::new();
        let mut registry = Registry::default();
        let builder = Bus::builder(store.clone()).clock(clock.clone()).config(config);
        let bus = builder.open_with(&mut registry).await.unwrap();
        Self { store, clock, bus, registry }
    }

    /// Another life of the hub over the same data; the one before went down with everything it held.
    pub(crate) async fn crashed<T>(self, alive: T) -> Self {
        let Self { store, clock, bus, .. } = self;
        drop((bus, alive));
        store.heal();
        let mut registry = Registry::default();
        let bus = Bus::builder(store.clone()).clock(clock.clone()).open_with(&mut registry).await.unwrap();
        Self { store, clock, bus, registry }
    }

    /// Every call named `call` goes wrong from now on.
    pub(crate) fn break_all(&self, call: &'static str, fault: Fault) {
        self.store.script(move |called| (called == call).then_some(fault));
    }

    /// The next call named `call` goes wrong, and no other.
    pub(crate) fn break_once(&self, call: &'static str, fault: Fault) {
        let mut faults = Some(fault);
        self.store.script(move |called| if called == call { faults.take() } else { None });
    }

    pub(crate) async fn fill(&self, topic: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<Receipt> {
        let mut receipts = Vec::new();
        for n in numbers {
            receipts.push(self.bus.publish(topic, json!(n)).await.unwrap());
        }
        receipts
    }

    pub(crate) async fn floor(&self, topic: &str) -> u64 {
        self.bus.get_cursor(topic, "g").await.unwrap().unwrap().seq
    }

    /// The metrics as a scraper sees them.
    pub(crate) fn metrics(&self) -> String {
        scrape(&self.registry)
    }
}

/// A registry as a scraper sees it.
pub(crate) fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

pub(crate) async fn next(sub: &mut Subscription) -> Delivery {
    let next = tokio::time::timeout(Duration::from_secs(10), sub.recv()).await;
    next.expect("an event has to come").expect("the subscription goes on")
}

pub(crate) fn value(delivery: &Delivery) -> u64 {
    delivery.event().decode().unwrap()
}

pub(crate) async fn consume(sub: &mut Subscription, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let delivery = next(sub).await;
        delivery.ack().unwrap();
        numbers.push(value(&delivery));
    }
    numbers
}

pub(crate) async fn assert_silent(sub: &mut Subscription) {
    if let Ok(got) = tokio::time::timeout(Duration::from_millis(100), sub.recv()).await {
        panic!("nothing was to come, but this did: {got:?}");
    }
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("this has to be refused").code
}
