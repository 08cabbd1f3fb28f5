//! What the bus counts, by the names of the contract, on a registry that the embedding program can hand in.
//!
//! Handles are made once per topic and group, so counting is an atomic addition. [Labels](labels) are bounded: past
//! [`Config::metric_labels`](crate::Config) topics or groups, further ones share `_other`, and one subject has a tenth of them.

mod health;
mod histogram;
mod labels;
mod stalls;
#[cfg(test)]
mod tests;

pub(crate) use self::labels::LabelOwner;

use self::health::StoreHealth;
use self::histogram::Histogram;
use self::labels::{GroupLabel, Labels, OTHER, PairLabel, TopicLabel};
use self::stalls::GroupStalls;
use crate::Millis;
use crate::engine::Engine;
use crate::store::EventStore;
use hub_proto::{GroupName, TopicName};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A task of the bus.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
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
    clock_lead: Gauge<f64, AtomicU64>,
    task_panics: Family<TaskLabel, Counter>,
    store_health: StoreHealth,
    group_stalls: GroupStalls,
    /// Also the lock under which series are added and removed.
    labels: Mutex<Labels>,
}

impl Metrics {
    /// Registers everything. The names are the contract's; the encoder adds `_total` to counters.
    ///
    /// A registry takes everything and forgets nothing. What the bus counted stays there when it is gone; what is asked
    /// of `store` ends with [`forget_store`](Self::forget_store).
    pub fn register(registry: &mut Registry, store: &Arc<dyn EventStore>, max_labels: usize) -> Self {
        let labels = Mutex::new(Labels::new(max_labels));
        let this = Self { labels, store_health: StoreHealth::of(store), ..Self::default() };
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
        registry.register(
            "task_panics",
            "Panics of the bus's own tasks; each is a defect",
            this.task_panics.clone(),
        );
        registry.register(
            "cleaning_clock_ahead_seconds",
            "How far the wall clock is ahead of the time that cleaning goes by",
            this.clock_lead.clone(),
        );
        registry.register_collector(Box::new(this.store_health.clone()));
        registry.register_collector(Box::new(this.group_stalls.clone()));
        this
    }

    /// From here on scrapes show how the groups of this bus are doing.
    pub fn show_groups(&self, engine: &Arc<Engine>) {
        self.group_stalls.set(engine);
    }

    /// From here on scrapes leave the store and the groups alone.
    pub fn forget_store(&self) {
        self.store_health.forget();
        self.group_stalls.forget();
    }

    pub fn committed(&self, took: Duration, events: usize) {
        self.commit_duration.observe(took.as_secs_f64() * 1000.0, 1);
        if events > 0 {
            self.commit_events.observe(events as f64, 1);
        }
    }

    pub fn set_clock_lead(&self, millis: Millis) {
        self.clock_lead.set(millis as f64 / 1000.0);
    }

    pub fn task_panicked(&self, task: &'static str) {
        self.task_panics.get_or_create(&TaskLabel { task }).inc();
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

    /// The handles of a topic that is new to the hub.
    pub fn topic(&self, topic: &TopicName, owner: LabelOwner) -> TopicMetrics {
        let mut labels = self.labels.lock();
        let has_label = labels.add_topic(topic, owner);
        let label = TopicLabel { topic: if has_label { topic.to_string() } else { OTHER.into() } };
        TopicMetrics { published: self.published.get_or_create_owned(&label), has_label }
    }

    /// The subject that made a topic is known by now: the label of the topic, and those of its derived topics, are taken from the
    /// subject's share.
    pub fn set_topic_owner(&self, topic: &TopicName, owner: &LabelOwner) {
        let mut labels = self.labels.lock();
        let (letters, snapshot) = (topic.dead_letter(), topic.snapshot());
        for name in [topic, &letters, &snapshot, &snapshot.dead_letter()] {
            labels.set_owner(name, owner.clone());
        }
    }

    /// The handles of a group that is new to the hub.
    pub fn group(
        &self,
        topic: &TopicName,
        of_topic: &TopicMetrics,
        group: &GroupName,
        owner: &LabelOwner,
    ) -> GroupMetrics {
        let mut labels = self.labels.lock();
        let pair = labels.add_group(of_topic.has_label.then_some(topic.as_str()), group, owner);
        let label = &pair.label;
        GroupMetrics {
            delivered: self.delivered.get_or_create_owned(label),
            acked: self.acked.get_or_create_owned(label),
            nacked: self.nacked.get_or_create_owned(label),
            redelivered: self.redelivered.get_or_create_owned(label),
            deadlettered: self.deadlettered.get_or_create_owned(label),
            truncated: self.truncated.get_or_create_owned(label),
            inflight: self.inflight.get_or_create_owned(label),
            poll: self.poll.get_or_create_owned(label),
            handler: self.handler.get_or_create_owned(label),
            latency: self.latency.get_or_create_owned(label),
            own: pair.is_own().then(|| Box::new(pair)),
        }
    }

    /// The topics and names of groups with a label of their own.
    pub fn labelled_groups(&self) -> Vec<(String, String)> {
        self.labels.lock().groups()
    }

    /// A group is deleted, or another hub has it: its series are removed, and its label is free for others. What was counted
    /// under `_other` stays there.
    pub fn forget_group(&self, group: &GroupMetrics) {
        let Some(pair) = &group.own else { return };
        let mut labels = self.labels.lock();
        if labels.remove_group(pair) {
            self.remove_group_series(&pair.label);
        }
    }

    /// A topic is deleted: its series and those of its groups are removed, and the labels are free for others. What was counted
    /// under the topic `_other` stays there. To be called before a topic of this name can be born again.
    pub fn forget_topic(&self, topic: &str) {
        let mut labels = self.labels.lock();
        let (had_label, groups) = labels.remove_topic(topic);
        if had_label {
            self.published.remove(&TopicLabel { topic: topic.into() });
        }
        groups.iter().for_each(|label| self.remove_group_series(label));
    }

    fn remove_group_series(&self, label: &GroupLabel) {
        for family in [
            &self.delivered,
            &self.acked,
            &self.nacked,
            &self.redelivered,
            &self.deadlettered,
            &self.truncated,
        ] {
            family.remove(label);
        }
        self.inflight.remove(label);
        for family in [&self.poll, &self.handler, &self.latency] {
            family.remove(label);
        }
    }
}

/// The handles of one topic.
pub(crate) struct TopicMetrics {
    pub published: Counter,
    /// Whether the topic has a label of its own.
    has_label: bool,
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
    /// The label, if it has the group's own name.
    own: Option<Box<PairLabel>>,
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
