//! What `/metrics` shows of endpoints. Their number is bounded, and the series of one that is deleted go.

use super::{Push, PushState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;

impl Collector for Push {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        let name = "push_deliveries";
        let help = "requests to endpoints of push subscriptions that have ended";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for entry in &all {
            for (outcome, count) in entry.status.outcomes() {
                let labels = [("endpoint", entry.endpoint.name()), ("outcome", outcome)];
                ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "how long endpoints took to answer";
        let mut metric =
            encoder.encode_descriptor("push_duration_seconds", help, None, MetricType::Histogram)?;
        for entry in &all {
            let labels = [("endpoint", entry.endpoint.name())];
            entry.status.duration_seconds.encode(metric.encode_family(&labels)?)?;
        }
        let help = "1 if the circuit breaker of an endpoint is open";
        let mut metric = encoder.encode_descriptor("push_breaker_open", help, None, MetricType::Gauge)?;
        for entry in &all {
            let labels = [("endpoint", entry.endpoint.name())];
            let is_open = i64::from(entry.status.state() == PushState::Failing);
            ConstGauge::new(is_open).encode(metric.encode_family(&labels)?)?;
        }
        let help = "1 if an endpoint is paused until somebody resumes it";
        let mut metric = encoder.encode_descriptor("push_paused", help, None, MetricType::Gauge)?;
        for entry in &all {
            let labels = [("endpoint", entry.endpoint.name())];
            ConstGauge::new(i64::from(entry.paused.is_some())).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
