//! Quotas as metrics: `quota_used` and `quota_limit`.
//!
//! The series are bounded: all quotas of patterns, which the operator wrote, and of the subjects those that are nearest to a bound. They
//! have a registry of their own, since they name subjects: not everybody who may scrape may see them.

use crate::limits::{Limits, Live};
use crate::settings::Settings;
use hub_core::{Bus, Quota, QuotaOf, QuotaUse};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// Subjects that are shown for what they keep, and as many for what they have open.
const MAX_SUBJECTS: usize = 100;
/// Bytes of a subject in a label; the name of a longer one is cut, and a digest is added.
const MAX_LABEL_BYTES: usize = 128;

/// A registry with nothing but the quotas of a hub.
pub(crate) fn registry(bus: &Bus, live: &Live, settings: watch::Receiver<Arc<Settings>>) -> Registry {
    let mut registry = Registry::default();
    let collector = QuotaMetrics { bus: bus.clone(), live: live.clone(), settings };
    registry.register_collector(Box::new(collector));
    registry
}

struct QuotaMetrics {
    bus: Bus,
    live: Live,
    settings: watch::Receiver<Arc<Settings>>,
}

impl fmt::Debug for QuotaMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaMetrics").finish_non_exhaustive()
    }
}

/// What is used of one bound.
struct Usage {
    /// `subject` or `pattern`.
    kind: &'static str,
    name: String,
    resource: &'static str,
    used: u64,
    limit: u64,
}

impl Usage {
    /// What tells series apart.
    fn series(&self) -> (&str, &str, &str) {
        (self.kind, &self.name, self.resource)
    }
}

impl QuotaMetrics {
    fn usages(&self) -> Vec<Usage> {
        let mut usages = Vec::new();
        for (quota, used) in self.bus.topic_quotas() {
            if let QuotaOf::Topics(pattern) = &quota.of {
                add_kept(&mut usages, "pattern", pattern.as_str(), &quota, &used);
            }
        }
        for (subject, quota, used) in self.bus.fullest_quotas(MAX_SUBJECTS) {
            add_kept(&mut usages, "subject", &label(&subject), &quota, &used);
        }
        let settings = self.settings.borrow().clone();
        self.add_open(&mut usages, &settings.limits);
        // Two quotas of one pattern would be one series twice: the tighter one counts.
        usages.sort_by(|a, b| a.series().cmp(&b.series()).then(a.limit.cmp(&b.limit)));
        usages.dedup_by(|next, kept| next.series() == kept.series());
        usages
    }

    fn add_open(&self, usages: &mut Vec<Usage>, limits: &Limits) {
        for (subject, open) in self.live.fullest(limits, MAX_SUBJECTS) {
            let Some(quota) = limits.quota_of(&subject) else { continue };
            let (name, bounds) = (
                label(&subject),
                [
                    ("connections", open.connections, quota.connections),
                    ("subscriptions", open.subscriptions, quota.subscriptions),
                ],
            );
            for (resource, used, limit) in bounds {
                let limit = limit.map(|limit| limit as u64);
                add(usages, "subject", &name, resource, used as u64, limit);
            }
        }
    }
}

fn add_kept(usages: &mut Vec<Usage>, kind: &'static str, name: &str, quota: &Quota, used: &QuotaUse) {
    add(usages, kind, name, "topics", used.topics as u64, quota.topics.map(|max| max as u64));
    add(usages, kind, name, "groups", used.groups as u64, quota.groups.map(|max| max as u64));
    add(usages, kind, name, "stored_bytes", used.stored_bytes, quota.stored_bytes);
}

fn add(
    usages: &mut Vec<Usage>,
    kind: &'static str,
    name: &str,
    resource: &'static str,
    used: u64,
    limit: Option<u64>,
) {
    if let Some(limit) = limit {
        usages.push(Usage { kind, name: name.to_owned(), resource, used, limit });
    }
}

/// A subject as a label.
fn label(subject: &str) -> String {
    if subject.len() <= MAX_LABEL_BYTES {
        return subject.to_owned();
    }
    let cut = &subject[..subject.floor_char_boundary(MAX_LABEL_BYTES)];
    format!("{cut}…{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, subject.as_bytes()).simple())
}

impl Collector for QuotaMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usages = self.usages();
        type Read = fn(&Usage) -> u64;
        let families: [(&str, &str, Read); 2] = [
            ("quota_used", "What a subject, or the topics of a pattern, use of a quota.", |usage| usage.used),
            ("quota_limit", "The bound of a quota.", |usage| usage.limit),
        ];
        for (name, help, read) in families {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for usage in &usages {
                let labels =
                    [("kind", usage.kind), ("name", usage.name.as_str()), ("resource", usage.resource)];
                let value = i64::try_from(read(usage)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_long_subjects_are_cut_and_differ() {
        let (one, other) = ("ä".repeat(1000) + "1", "ä".repeat(1000) + "2");
        assert_eq!(label("ada"), "ada");
        assert!(label(&one).len() < 200 && label(&one) != label(&other));
        assert_eq!(label(&one), label(&one));
    }
}
