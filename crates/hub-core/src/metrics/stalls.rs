//! Groups that have events to deliver and deliver none, with the reason; and how far each group is behind.
//!
//! Asked for when somebody scrapes, and only of groups with a label of their own: their number is bounded.

use crate::engine::Engine;
use crate::group::status::{GroupStatus, Reason};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Arc, Weak};

/// The bus whose groups are asked. Clones share it.
///
/// As with the store's health, the lock is held for as long as a scrape uses the engine: after [`forget`](Self::forget) no scrape
/// keeps it alive.
#[derive(Clone, Default)]
pub(super) struct GroupStalls(Arc<Mutex<Weak<Engine>>>);

impl fmt::Debug for GroupStalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupStalls").finish_non_exhaustive()
    }
}

impl GroupStalls {
    pub fn set(&self, engine: &Arc<Engine>) {
        *self.0.lock() = Arc::downgrade(engine);
    }

    pub fn forget(&self) {
        *self.0.lock() = Weak::new();
    }

    fn ask(&self) -> Vec<GroupStatus> {
        let bus = self.0.lock();
        // Dropped before the lock is.
        let Some(engine) = bus.upgrade() else { return Vec::new() };
        let labels = engine.metrics.labelled_groups();
        let status = |(topic, group): (String, String)| Some(engine.find(&topic)?.group(&group)?.status());
        labels.into_iter().filter_map(status).collect()
    }
}

/// The reason of a group that has events and delivers none of them.
fn stall(status: &GroupStatus) -> Option<Reason> {
    status.reason.filter(|reason| status.lag > 0 && *reason != Reason::CaughtUp)
}

impl Collector for GroupStalls {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let groups = self.ask();
        if groups.is_empty() {
            return Ok(());
        }
        let help = "Events between the cursor of a group and the newest event.";
        let mut lag = encoder.encode_descriptor("group_lag_events", help, None, MetricType::Gauge)?;
        for status in &groups {
            let labels = [("topic", status.topic.as_str()), ("group", status.group.as_str())];
            let value = i64::try_from(status.lag).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(lag.encode_family(&labels)?)?;
        }
        let help = "1 while a group has events to deliver and delivers none, with the reason.";
        let mut stalled = encoder.encode_descriptor("group_stalled", help, None, MetricType::Gauge)?;
        for status in &groups {
            if let Some(reason) = stall(status) {
                let labels = [
                    ("topic", status.topic.as_str()),
                    ("group", status.group.as_str()),
                    ("reason", reason.as_str()),
                ];
                ConstGauge::new(1_i64).encode(stalled.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
