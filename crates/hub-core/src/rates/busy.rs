//! What happens now, of all topics and groups at once: for a program that shows them side by side, once a second.

use super::activity::{GroupSample, TopicSample};
use super::quantile::Buckets;
use super::series::Rates as MeasuredRates;
use super::{Activity, Rates};
use crate::Millis;
use hub_proto::{GroupName, TopicName};

/// A topic to which something was published in the last minute.
#[derive(Clone, Debug)]
pub struct BusyTopic {
    /// Its name.
    pub topic: TopicName,
    /// What is published to it through this hub.
    pub rates: MeasuredRates<TopicSample>,
}

/// A group that did something in the last minute, or has given up events in the last hour.
#[derive(Clone, Debug)]
pub struct BusyGroup {
    /// The topic it reads.
    pub topic: TopicName,
    /// Its name.
    pub group: GroupName,
    /// What it does.
    pub rates: MeasuredRates<GroupSample>,
    /// From committed to delivered, in the last second.
    pub latency: Buckets,
    /// From delivered to acked, in the last second.
    pub handler: Buckets,
    /// How many events it has given up in the last hour, and when the last of them.
    pub given_up: Option<(u64, Millis)>,
}

impl Rates {
    /// The topics on which something happened in the last minute.
    pub fn busy_topics(&self, now: Millis) -> Vec<BusyTopic> {
        self.topics.read_all(|topic, series| {
            let is_busy = !series.is_idle(now);
            is_busy.then(|| BusyTopic { topic: topic.clone(), rates: series.rates(now) })
        })
    }

    /// The groups in which something happened in the last minute, or that have given up events in the last hour.
    pub fn busy_groups(&self, now: Millis) -> Vec<BusyGroup> {
        self.groups.read_all(|(topic, group), series| {
            let given_up = series.given_up(now);
            if series.is_idle(now) && given_up.is_none() {
                return None;
            }
            let Activity { latency, handler, .. } =
                series.last_second(now).map(|(_, counted)| counted.clone()).unwrap_or_default();
            let (topic, group) = (topic.clone(), group.clone());
            Some(BusyGroup { topic, group, rates: series.rates(now), latency, handler, given_up })
        })
    }
}
