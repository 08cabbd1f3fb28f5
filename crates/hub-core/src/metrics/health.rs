//! The store's health as metrics, asked for when somebody scrapes.
//!
//! A registry lives longer than a bus and cannot forget a collector, so the collector forgets the store: once the bus is
//! stopped or dropped it says nothing, and the next bus on the same registry is the only one that does.

use crate::store::{DiskUsage, EventStore, Health};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::sync::{Arc, Weak};

/// The store that is asked. Clones share it.
///
/// The lock is held for as long as a scrape has the store in its hands: after [`forget`](Self::forget) no scrape keeps
/// it alive, nor the directory that it has locked.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreHealth(Arc<Mutex<Option<Weak<dyn EventStore>>>>);

impl StoreHealth {
    pub fn of(store: &Arc<dyn EventStore>) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::downgrade(store)))))
    }

    pub fn forget(&self) {
        *self.0.lock() = None;
    }

    fn ask(&self) -> Option<(Health, Option<DiskUsage>)> {
        let store = self.0.lock();
        // The store that was upgraded goes before the lock does.
        store.as_ref()?.upgrade().map(|store| (store.health(), store.disk_usage()))
    }
}

impl Collector for StoreHealth {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some((health, disk)) = self.ask() else { return Ok(()) };
        let available = ConstGauge::new(u64::from(health.unavailable.is_none()));
        let damaged = ConstGauge::new(health.damaged);
        let failed = ConstCounter::new(health.failed_commits);
        let metrics: [(&str, &str, &dyn EncodeMetric); 3] = [
            ("store_available", "Whether the store takes commits: 1 or 0.", &available),
            ("store_damaged_records", "Records found damaged since the store was opened.", &damaged),
            ("store_failed_commits", "Commits that failed since the store was opened.", &failed),
        ];
        for (name, help, metric) in metrics {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        disk.map_or(Ok(()), |disk| encode_disk(&mut encoder, disk))
    }
}

fn encode_disk(encoder: &mut DescriptorEncoder<'_>, disk: DiskUsage) -> Result<(), std::fmt::Error> {
    let gauges = [
        ("store_disk_bytes", "Bytes of the store's segments.", Some(disk.bytes)),
        ("store_live_bytes", "Bytes of events that topics keep.", Some(disk.live_bytes)),
        ("store_disk_free_bytes", "Bytes that the file system of the store has left.", disk.free_bytes),
        ("store_segments", "Files of the store's log.", Some(disk.segments)),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
    }
    Ok(())
}
