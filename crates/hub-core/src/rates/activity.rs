//! What is counted between two samples.

use super::quantile::{Buckets, Quantiles};
use super::series::Counts;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What a group did. Counted under the group's lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    pub delivered: u64,
    pub acked: u64,
    pub nacked: u64,
    pub redelivered: u64,
    pub deadlettered: u64,
    /// From committed to delivered.
    pub latency: Buckets,
    /// From delivered to settled.
    pub handler: Buckets,
}

/// What a group did in a time, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSample {
    /// Events handed to members.
    pub delivered: f64,
    /// Events settled by an ack.
    pub acked: f64,
    /// Events handed back as failed.
    pub nacked: f64,
    /// Events handed out again.
    pub redelivered: f64,
    /// Events given up.
    pub deadlettered: f64,
    /// From committed to delivered; `None` if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Quantiles>,
    /// From delivered to acked; `None` if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler_ms: Option<Quantiles>,
}

impl Counts for Activity {
    type Sample = GroupSample;

    fn is_zero(&self) -> bool {
        self.delivered + self.acked + self.nacked + self.redelivered + self.deadlettered == 0
    }

    fn merge(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.acked += other.acked;
        self.nacked += other.nacked;
        self.redelivered += other.redelivered;
        self.deadlettered += other.deadlettered;
        self.latency.merge(&other.latency);
        self.handler.merge(&other.handler);
    }

    fn given_up(&self) -> u64 {
        self.deadlettered
    }

    fn sample(&self, seconds: f64) -> GroupSample {
        let rate = |count: u64| super::series::rate(count, seconds);
        GroupSample {
            delivered: rate(self.delivered),
            acked: rate(self.acked),
            nacked: rate(self.nacked),
            redelivered: rate(self.redelivered),
            deadlettered: rate(self.deadlettered),
            latency_ms: self.latency.quantiles(),
            handler_ms: self.handler.quantiles(),
        }
    }
}

/// What was published to a topic through this hub.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicActivity {
    events: u64,
    bytes: u64,
}

/// What was published to a topic in a time, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TopicSample {
    /// Events.
    pub published: f64,
    /// Bytes of their records.
    pub bytes: f64,
}

impl Counts for TopicActivity {
    type Sample = TopicSample;

    fn is_zero(&self) -> bool {
        self.events == 0
    }

    fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }

    fn sample(&self, seconds: f64) -> TopicSample {
        let rate = |count: u64| super::series::rate(count, seconds);
        TopicSample { published: rate(self.events), bytes: rate(self.bytes) }
    }
}

/// The counters of a topic. Added to once per commit.
#[derive(Debug, Default)]
pub(crate) struct TopicCounters {
    is_awake: AtomicBool,
    events: AtomicU64,
    bytes: AtomicU64,
}

impl TopicCounters {
    /// Counts events; true if the topic has to be put on the list.
    pub fn add(&self, events: u64, bytes: u64) -> bool {
        self.events.fetch_add(events, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        !self.is_awake.load(Relaxed) && !self.is_awake.swap(true, Relaxed)
    }

    pub fn take(&self) -> TopicActivity {
        TopicActivity { events: self.events.swap(0, Relaxed), bytes: self.bytes.swap(0, Relaxed) }
    }

    pub fn sleep(&self) {
        self.take();
        self.is_awake.store(false, Relaxed);
    }
}
