//! A bus to measure.

use anyhow::{Context, Result, ensure};
use hub_core::{Bus, Config, MemoryStore, TopicName};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

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
