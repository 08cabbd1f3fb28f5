//! A bus to measure, and events to put into it.

use anyhow::{Context, Result, ensure};
use hub_core::{Bus, Config, MemoryStore, NewEvent, Payload, TopicName};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Bytes of a payload.
const PAYLOAD: usize = 200;
/// Different keys; which one an event has is as good as random.
const KEYS: u64 = 10_000;
/// Events that are published at once where publishing is not what is measured.
const BATCH: usize = 1000;

/// Where events are remembered for delivery.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// Everything stays in the tail.
    Tail,
    /// The tail is so small that everything is read from the store.
    Store,
}

/// A bus and what it counts.
pub struct Hub {
    pub bus: Bus,
    metrics: Registry,
}

impl Hub {
    /// Opens a bus on an empty store.
    pub async fn open(memory: Memory) -> Result<Self> {
        let tail_bytes = match memory {
            Memory::Tail => 4 << 30,
            Memory::Store => 1,
        };
        let mut metrics = Registry::default();
        let config = Config { tail_bytes, ..Config::default() };
        let bus = Bus::builder(MemoryStore::new()).config(config).open_with(&mut metrics).await?;
        Ok(Self { bus, metrics })
    }

    /// Puts `count` events into `topic`.
    pub async fn fill(&self, topic: &TopicName, count: usize) -> Result<()> {
        let mut events = Events::new(topic.clone());
        let mut left = count;
        while left > 0 {
            let batch = events.by_ref().take(left.min(BATCH)).collect();
            for receipt in self.bus.publish_batch(batch).await {
                receipt?;
            }
            left = left.saturating_sub(BATCH);
        }
        Ok(())
    }

    /// Makes sure that a group has settled `count` events and nothing else.
    pub fn check_settled(&self, topic: &TopicName, group: &str, count: usize) -> Result<()> {
        let status = self.bus.group(topic, group).context("the group is gone")?;
        let floor = status.floor;
        ensure!(floor == count as u64, "group {group} has settled events up to {floor}, not {count}");
        Ok(())
    }

    /// How often groups had to read the store because events had left the tail.
    pub fn store_reads(&self) -> Result<u64> {
        let mut text = String::new();
        encode(&mut text, &self.metrics)?;
        let counts = text.lines().filter(|line| line.starts_with("subscribe_poll_duration_ms_count"));
        let counts = counts.filter_map(|line| line.rsplit_once(' '));
        counts.map(|(_, count)| count.parse::<u64>().context("a count is a number")).sum()
    }
}

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
