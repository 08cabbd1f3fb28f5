//! The message `sample`: sums over what a viewer may see.

use super::snapshot::Snapshot;
use super::visibility::Visibility;
use hub_core::{DurationBuckets, Millis, Quantiles};
use serde::Serialize;

/// See the module. Rates are per second, in the last second.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    ts: Millis,
    published: f64,
    bytes: f64,
    delivered: f64,
    acked: f64,
    nacked: f64,
    redelivered: f64,
    deadlettered: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handler_ms: Option<Quantiles>,
    topics: u64,
    groups: u64,
    lag: u64,
    inflight: u64,
    /// Groups that have events and deliver none.
    stalled: u64,
}

impl Figures {
    pub fn of(snapshot: &Snapshot, visibility: &Visibility) -> Self {
        let mut sum = Self { ts: snapshot.ts, ..Self::default() };
        sum.topics = snapshot.topics.iter().filter(|(at, _)| visibility.sees_topic(*at)).count() as u64;
        for (_, slot) in snapshot.groups.iter().filter(|(at, _)| visibility.sees_group(*at)) {
            sum.groups += 1;
            sum.lag += slot.figures.lag;
            sum.inflight += u64::from(slot.figures.inflight);
            sum.stalled += u64::from(slot.figures.is_stalled);
        }
        for (_, second) in snapshot.busy_topics.iter().filter(|(at, _)| visibility.sees_topic(*at)) {
            sum.published += second.published;
            sum.bytes += second.bytes;
        }
        let (mut latency, mut handler) = (DurationBuckets::default(), DurationBuckets::default());
        for busy in snapshot.busy_groups.iter().filter(|busy| visibility.sees_group(busy.at)) {
            sum.delivered += busy.second.delivered;
            sum.acked += busy.second.acked;
            sum.nacked += busy.second.nacked;
            sum.redelivered += busy.second.redelivered;
            sum.deadlettered += busy.second.deadlettered;
            latency.merge(&busy.latency);
            handler.merge(&busy.handler);
        }
        (sum.latency_ms, sum.handler_ms) = (latency.quantiles(), handler.quantiles());
        for rate in [
            &mut sum.published,
            &mut sum.bytes,
            &mut sum.delivered,
            &mut sum.acked,
            &mut sum.nacked,
            &mut sum.redelivered,
            &mut sum.deadlettered,
        ] {
            *rate = (*rate * 100.0).round() / 100.0;
        }
        sum
    }
}
