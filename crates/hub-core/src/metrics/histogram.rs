//! A histogram that costs two relaxed additions, and takes many equal observations at the price of one.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds in milliseconds (or events); what is larger falls into the last bucket.
const BOUNDS: [f64; 15] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0, 5000.0, 30_000.0, 300_000.0];

/// A histogram with fixed buckets. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// In thousandths.
    sum: AtomicU64,
}

impl Histogram {
    /// Counts `times` observations of `value`.
    pub fn observe(&self, value: f64, times: u64) {
        let bucket = BOUNDS.partition_point(|&bound| bound < value);
        self.0.buckets[bucket].fetch_add(times, Relaxed);
        self.0.sum.fetch_add((value * 1000.0) as u64 * times, Relaxed);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.zip(self.0.buckets.iter().map(|bucket| bucket.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum.load(Relaxed) as f64 / 1000.0;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
