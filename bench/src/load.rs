//! Events to put into a bus.

use crate::measure::{Cost, Stopwatch};
use anyhow::Result;
use hub_core::{Bus, NewEvent, Payload, TopicName};
use tokio::task::JoinSet;

/// Bytes of a payload.
const PAYLOAD: usize = 200;
/// Different keys; which one an event has is as good as random.
pub const KEYS: u64 = 10_000;
/// Events that are published at once where publishing is not what is measured.
const BATCH: usize = 1000;

/// Publishers that wait for their answer before they send the next event: so many at a time.
pub const PUBLISHERS: [usize; 4] = [1, 16, 64, 256];

/// Events without end: payloads of 200 bytes, keys picked evenly and in no order.
pub struct Events {
    topic: TopicName,
    payload: Payload,
    next: u64,
}

impl Events {
    pub fn new(topic: TopicName) -> Self {
        Self { topic, payload: payload(), next: 0 }
    }
}

impl Iterator for Events {
    type Item = NewEvent;

    fn next(&mut self) -> Option<NewEvent> {
        // Steps of the golden ratio visit the keys evenly; the high bits look random.
        self.next = self.next.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.next ^ (self.next >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let key = (mixed >> 33) % KEYS;
        Some(NewEvent::new(self.topic.clone(), self.payload.clone()).with_key(format!("key-{key}")))
    }
}

/// A payload of 200 bytes. Cloning it shares the bytes, as a publisher that has them would.
pub fn payload() -> Payload {
    let frame = r#"{"data":""}"#.len();
    let json = format!(r#"{{"data":"{}"}}"#, "x".repeat(PAYLOAD - frame));
    Payload::from_json(json).expect("well-formed by construction")
}

/// The topic that is measured.
pub fn topic() -> TopicName {
    TopicName::parse("orders.created").expect("well-formed")
}

/// Puts `count` events into `topic`, in large batches.
pub async fn fill(bus: &Bus, topic: &TopicName, count: usize) -> Result<()> {
    let mut events = Events::new(topic.clone());
    let mut left = count;
    while left > 0 {
        let batch = events.by_ref().take(left.min(BATCH)).collect();
        for receipt in bus.publish_batch(batch).await {
            receipt?;
        }
        left = left.saturating_sub(BATCH);
    }
    Ok(())
}

/// `publishers` at a time publish `events` together, each waiting for its answer.
pub async fn publish(bus: &Bus, topic: &TopicName, publishers: usize, events: usize) -> Result<Cost> {
    let payload = payload();
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for publisher in 0..publishers {
        let (bus, topic, payload) = (bus.clone(), topic.clone(), payload.clone());
        let share = events / publishers + usize::from(publisher < events % publishers);
        tasks.spawn(async move {
            for _ in 0..share {
                bus.publish(&topic, payload.clone()).await?;
            }
            Ok::<_, hub_core::Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop())
}
