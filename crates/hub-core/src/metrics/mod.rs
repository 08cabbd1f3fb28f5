//! What the bus counts, by the names of the contract, on a registry that the embedding program can hand in.
//!
//! Handles are made once per topic and group, so counting is an atomic addition. Labels are bounded: past
//! [`Config::metric_labels`](crate::Config) topics or groups, further ones share `_other`.

mod health;
mod histogram;

use self::health::StoreHealth;
use self::histogram::Histogram;
use crate::store::EventStore;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabel {
    topic: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    topic: String,
    group: String,
}

/// Every metric of the bus.
#[derive(Default)]
pub(crate) struct Metrics {
    published: Family<TopicLabel, Counter>,
    delivered: Family<GroupLabel, Counter>,
    acked: Family<GroupLabel, Counter>,
    nacked: Family<GroupLabel, Counter>,
    redelivered: Family<GroupLabel, Counter>,
    deadlettered: Family<GroupLabel, Counter>,
    truncated: Family<GroupLabel, Counter>,
    inflight: Family<GroupLabel, Gauge>,
    poll: Family<GroupLabel, Histogram>,
    handler: Family<GroupLabel, Histogram>,
    latency: Family<GroupLabel, Histogram>,
    commit_duration: Histogram,
    commit_events: Histogram,
    save_failures: Counter,
    news_lost: Counter,
    groups_postponed: Counter,
    store_health: StoreHealth,
    seen: Mutex<Seen>,
    max_labels: usize,
}

#[derive(Default)]
struct Seen {
    topics: HashSet<String>,
    groups: HashSet<String>,
}

/// The name that topics and groups share once there are too many.
const OTHER: &str = "_other";

impl Metrics {
    /// Registers everything. The names are the contract's; the encoder adds `_total` to counters.
    ///
    /// A registry takes everything and forgets nothing. What the bus counted stays there when it is gone; what is asked
    /// of `store` ends with [`forget_store`](Self::forget_store).
    pub fn register(registry: &mut Registry, store: &Arc<dyn EventStore>, max_labels: usize) -> Self {
        let this = Self { max_labels, store_health: StoreHealth::of(store), ..Self::default() };
        registry.register("events_published", "Events committed", this.published.clone());
        registry.register("events_delivered", "Events handed to a member", this.delivered.clone());
        registry.register("events_acked", "Events settled by an ack", this.acked.clone());
        registry.register("events_nacked", "Events handed back as failed", this.nacked.clone());
        registry.register("events_redelivered", "Events handed out again", this.redelivered.clone());
        registry.register(
            "events_deadlettered",
            "Events given up and written to dlq",
            this.deadlettered.clone(),
        );
        registry.register(
            "events_truncated",
            "Events a group did not get because they were cleaned away",
            this.truncated.clone(),
        );
        registry.register("events_inflight", "Events leased to a member", this.inflight.clone());
        registry.register("subscribe_poll_duration_ms", "A read of the store for a group", this.poll.clone());
        registry.register("delivery_handler_duration_ms", "From delivered to settled", this.handler.clone());
        registry.register("delivery_latency_ms", "From committed to delivered", this.latency.clone());
        registry.register("store_commit_duration_ms", "A commit of the store", this.commit_duration.clone());
        registry.register("store_commit_batch_events", "Events per commit", this.commit_events.clone());
        registry.register(
            "group_save_failures",
            "Saves of group state that failed",
            this.save_failures.clone(),
        );
        registry.register(
            "cluster_news_lost",
            "Times the news of other hubs' events were lost",
            this.news_lost.clone(),
        );
        registry.register(
            "groups_postponed",
            "Topics that were born without a group of a subscription, for want of room in a quota",
            this.groups_postponed.clone(),
        );
        registry.register_collector(Box::new(this.store_health.clone()));
        this
    }

    /// From here on scrapes leave the store alone.
    pub fn forget_store(&self) {
        self.store_health.forget();
    }

    pub fn committed(&self, took: Duration, events: usize) {
        self.commit_duration.observe(took.as_secs_f64() * 1000.0, 1);
        if events > 0 {
            self.commit_events.observe(events as f64, 1);
        }
    }

    pub fn news_lost(&self) {
        self.news_lost.inc();
    }

    pub fn group_postponed(&self) {
        self.groups_postponed.inc();
    }

    pub fn save_failed(&self) {
        self.save_failures.inc();
    }

    pub fn topic(&self, topic: &str) -> TopicMetrics {
        let topic = bounded(&mut self.seen.lock().topics, topic, self.max_labels);
        TopicMetrics { published: self.published.get_or_create_owned(&TopicLabel { topic }) }
    }

    pub fn group(&self, topic: &str, group: &str) -> GroupMetrics {
        let label = {
            let mut seen = self.seen.lock();
            let topic = bounded(&mut seen.topics, topic, self.max_labels);
            // A pair counts as one group: many groups on one topic are as many series as many topics are.
            let pair = bounded(&mut seen.groups, &format!("{topic}\n{group}"), self.max_labels);
            GroupLabel { topic, group: if pair == OTHER { OTHER.into() } else { group.into() } }
        };
        GroupMetrics {
            delivered: self.delivered.get_or_create_owned(&label),
            acked: self.acked.get_or_create_owned(&label),
            nacked: self.nacked.get_or_create_owned(&label),
            redelivered: self.redelivered.get_or_create_owned(&label),
            deadlettered: self.deadlettered.get_or_create_owned(&label),
            truncated: self.truncated.get_or_create_owned(&label),
            inflight: self.inflight.get_or_create_owned(&label),
            poll: self.poll.get_or_create_owned(&label),
            handler: self.handler.get_or_create_owned(&label),
            latency: self.latency.get_or_create_owned(&label),
        }
    }
}

fn bounded(seen: &mut HashSet<String>, name: &str, max: usize) -> String {
    if !seen.contains(name) {
        if seen.len() >= max {
            return OTHER.into();
        }
        seen.insert(name.into());
    }
    name.into()
}

/// The handles of one topic.
pub(crate) struct TopicMetrics {
    pub published: Counter,
}

/// The handles of one group.
pub(crate) struct GroupMetrics {
    pub delivered: Counter,
    pub acked: Counter,
    pub nacked: Counter,
    pub redelivered: Counter,
    pub deadlettered: Counter,
    pub truncated: Counter,
    pub inflight: Gauge,
    poll: Histogram,
    handler: Histogram,
    latency: Histogram,
}

impl GroupMetrics {
    pub fn polled(&self, took: Duration) {
        self.poll.observe(took.as_secs_f64() * 1000.0, 1);
    }

    pub fn handled(&self, millis: u64) {
        self.handler.observe(millis as f64, 1);
    }

    pub fn waited(&self, millis: u64, times: u64) {
        self.latency.observe(millis as f64, times);
    }
}
