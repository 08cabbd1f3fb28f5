//! The outboxes that this hub drains: what `/outbox` and the metrics show of them.

use hub_core::outbox::{Counts, Drained, OutboxStore, Progress};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;

/// All of them, by name. Clones are handles to the same.
#[derive(Clone, Default)]
pub struct Outboxes {
    entries: Arc<Mutex<Vec<(String, Outbox)>>>,
}

/// One of them, as it stands.
#[derive(Clone, Default)]
pub struct Outbox {
    /// Its database; nothing before it could be reached.
    pub store: Option<Arc<dyn OutboxStore>>,
    /// What its drainer has done since this hub started.
    pub progress: Arc<Progress>,
    /// How many rows there are, when somebody last counted.
    pub counts: Counts,
    /// Why it cannot be reached.
    pub trouble: Option<String>,
}

impl Outboxes {
    /// Notes how an outbox stands; a new name is a new outbox.
    pub fn set(&self, name: &str, change: impl FnOnce(&mut Outbox)) {
        let mut entries = self.entries.lock();
        if let Some((_, outbox)) = entries.iter_mut().find(|(known, _)| known == name) {
            return change(outbox);
        }
        let mut outbox = Outbox::default();
        change(&mut outbox);
        entries.push((name.to_owned(), outbox));
    }

    /// As they stand.
    pub fn all(&self) -> Vec<(String, Outbox)> {
        self.entries.lock().clone()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<Outbox> {
        self.entries.lock().iter().find(|(known, _)| known == name).map(|(_, outbox)| outbox.clone())
    }
}

impl fmt::Debug for Outboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.all().into_iter().map(|(name, _)| name).collect();
        f.debug_tuple("Outboxes").field(&names).finish()
    }
}

type Read = fn(&Outbox, Drained) -> u64;

const GAUGES: [(&str, &str, Read); 4] = [
    ("outbox_connected", "1 if its database answers", |outbox, _| {
        u64::from(outbox.store.is_some() && outbox.trouble.is_none())
    }),
    ("outbox_pending", "rows that are still to be published", |outbox, _| outbox.counts.pending),
    ("outbox_oldest_age_ms", "how long the oldest of them has been there", |outbox, _| {
        outbox.counts.oldest_age.unwrap_or(0)
    }),
    ("outbox_parked", "rows that somebody has to look at", |outbox, _| outbox.counts.errors),
];

const COUNTERS: [(&str, &str, Read); 4] = [
    ("outbox_sent", "rows that this hub has published", |_, drained| drained.sent),
    ("outbox_errors", "rows that this hub has parked", |_, drained| drained.parked),
    ("outbox_retries", "failures of rows that are tried again", |_, drained| drained.retried),
    ("outbox_resets", "how often a drainer had to begin anew", |_, drained| drained.resets),
];

impl Collector for Outboxes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        for (name, help, read) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (outbox, entry) in &all {
                let value = i64::try_from(read(entry, entry.progress.drained())).unwrap_or(i64::MAX);
                let labels = [("outbox", outbox.as_str())];
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
        for (name, help, read) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (outbox, entry) in &all {
                let labels = [("outbox", outbox.as_str())];
                let value = read(entry, entry.progress.drained());
                ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
