//! Quotas: how much of what is global one subject, or the topics of one pattern, may use.
//!
//! A topic and a group count for the subject that made them, and so do the bytes that a topic keeps. Who that was is remembered
//! on the [system topic](crate::system) of owners, so it holds over restarts and for all hubs of a cluster. What the program
//! itself makes, without a subject, counts for nobody but the patterns.
//!
//! A group that a pattern drives counts for the subject of the subscription. Where there is no room for one, the topic is born
//! without it: nobody who publishes is refused for somebody else's quota. It is made once there is room, at the beginning of the
//! topic, so nothing is missed.

use crate::engine::Engine;
use crate::store::GroupRecord;
use crate::system::{self, SystemTopic, SystemWatch};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Error, GroupName, Pattern, Position, Result, TopicName};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Bounds of what is kept. Everything absent: no bound but those of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// What it bounds.
    pub of: QuotaOf,
    /// Topics.
    pub topics: Option<usize>,
    /// Groups, each subscription to a pattern or a list counting as one more.
    pub groups: Option<usize>,
    /// Bytes of events that are kept. Looked at every few seconds, so it can be passed by what is published meanwhile.
    pub stored_bytes: Option<u64>,
}

/// Whose quota it is. The first that names a subject counts for it; those of topics count all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaOf {
    /// Each subject that no quota before it names, for itself.
    EverySubject,
    /// One subject; the empty one is that of all tokens without.
    Subject(String),
    /// All topics of a pattern together, made by any subject.
    Topics(Pattern),
}

/// What is used of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Topics.
    pub topics: usize,
    /// Groups and subscriptions.
    pub groups: usize,
    /// Bytes of events that are kept, as last looked at.
    pub stored_bytes: u64,
}

impl QuotaUse {
    /// The largest share that is used of anything that `quota` bounds; `None` if it bounds nothing.
    fn share_of(&self, quota: &Quota) -> Option<f64> {
        let shares = [
            quota.topics.map(|max| share(self.topics as u64, max as u64)),
            quota.groups.map(|max| share(self.groups as u64, max as u64)),
            quota.stored_bytes.map(|max| share(self.stored_bytes, max)),
        ];
        shares.into_iter().flatten().reduce(f64::max)
    }
}

/// Of nothing, everything is used.
fn share(used: u64, max: u64) -> f64 {
    if max == 0 { 1.0 } else { used as f64 / max as f64 }
}

/// Something that was made by a subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Made {
    Topic(TopicName),
    Group(TopicName, GroupName),
    /// A subscription to a pattern or a list: its label and group.
    Subscription(String, GroupName),
}

impl Made {
    /// What it is called on the system topic.
    pub fn key(&self) -> String {
        match self {
            Self::Topic(topic) => format!("t/{topic}"),
            Self::Group(topic, group) => format!("g/{topic}/{group}"),
            Self::Subscription(label, group) => format!("s/{label}/{group}"),
        }
    }

    /// No name has a slash in it, and no label has.
    pub fn parse(key: &str) -> Option<Self> {
        let mut parts = key.splitn(3, '/');
        let (kind, name, group) = (parts.next()?, parts.next()?, parts.next());
        match (kind, group) {
            ("t", None) => TopicName::stored(name).ok().map(Self::Topic),
            ("g", Some(group)) => {
                Some(Self::Group(TopicName::stored(name).ok()?, GroupName::parse(group).ok()?))
            }
            ("s", Some(group)) => Some(Self::Subscription(name.to_owned(), GroupName::parse(group).ok()?)),
            _ => None,
        }
    }
}

/// What is used, and of which quota.
#[derive(Default)]
pub(crate) struct Quotas {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Quota>,
    makers: HashMap<Made, Arc<str>, RandomState>,
    /// Who made the newest subscription with this group: groups that are driven count for that subject.
    drivers: HashMap<GroupName, Arc<str>, RandomState>,
    subjects: HashMap<Arc<str>, QuotaUse, RandomState>,
    /// Of the rules about topics, each in its place.
    by_rule: Vec<QuotaUse>,
}

impl Inner {
    fn rule_of(&self, subject: &str) -> Option<&Quota> {
        self.rules.iter().find(|rule| match &rule.of {
            QuotaOf::EverySubject => true,
            QuotaOf::Subject(name) => name == subject,
            QuotaOf::Topics(_) => false,
        })
    }

    /// The rules that are about a topic, with what is used of them.
    fn rules_of<'a>(
        &'a self,
        topic: &'a str,
    ) -> impl Iterator<Item = (&'a Quota, &'a QuotaUse, &'a Pattern)> {
        self.rules.iter().zip(&self.by_rule).filter_map(move |(rule, used)| match &rule.of {
            QuotaOf::Topics(pattern) if pattern.matches(topic) => Some((rule, used, pattern)),
            _ => None,
        })
    }

    fn maker(&self, made: &Made) -> Option<Arc<str>> {
        self.makers.get(made).cloned()
    }

    /// Changes what a subject, and the rules about a topic, have used.
    fn count(&mut self, subject: Option<&Arc<str>>, topic: Option<&str>, change: impl Fn(&mut QuotaUse)) {
        if let Some(subject) = subject {
            let used = self.subjects.entry(subject.clone()).or_default();
            change(used);
            if *used == QuotaUse::default() {
                self.subjects.remove(subject);
            }
        }
        let Some(topic) = topic else { return };
        for (rule, used) in self.rules.iter().zip(&mut self.by_rule) {
            if matches!(&rule.of, QuotaOf::Topics(pattern) if pattern.matches(topic)) {
                change(used);
            }
        }
    }
}

impl Quotas {
    /// Other rules. What is used of those about topics is counted anew by the caller.
    pub fn set(&self, rules: Vec<Quota>) {
        let mut inner = self.inner.lock();
        inner.by_rule = vec![QuotaUse::default(); rules.len()];
        inner.rules = rules;
    }

    /// Whether anything is bounded at all.
    pub fn any(&self) -> bool {
        !self.inner.lock().rules.is_empty()
    }

    /// Refuses a topic that there is no room for.
    pub fn check_topic(&self, name: &TopicName, subject: Option<&str>) -> Result<()> {
        let inner = self.inner.lock();
        if let Some(subject) = subject
            && let Some(max) = inner.rule_of(subject).and_then(|rule| rule.topics)
            && inner.subjects.get(subject).map_or(0, |used| used.topics) >= max
        {
            return Err(Error::quota_exceeded(format!(
                "this subject has made {max} topics, which is its quota; use an existing one, or have one deleted"
            )));
        }
        for (rule, used, pattern) in inner.rules_of(name) {
            if let Some(max) = rule.topics.filter(|max| used.topics >= *max) {
                return Err(Error::quota_exceeded(format!(
                    "there are {max} topics of {pattern}, which is their quota; use an existing one, or have one deleted"
                )));
            }
        }
        Ok(())
    }

    /// Refuses groups on these topics that there is no room for; `more` of them are on no topic.
    pub fn check_groups(&self, subject: Option<&str>, topics: &[&TopicName], more: usize) -> Result<()> {
        let inner = self.inner.lock();
        if let Some(subject) = subject
            && let Some(max) = inner.rule_of(subject).and_then(|rule| rule.groups)
        {
            let used = inner.subjects.get(subject).map_or(0, |used| used.groups);
            let wanted = topics.len() + more;
            if used + wanted > max {
                return Err(Error::quota_exceeded(format!(
                    "this subject has {used} groups, and this would make {wanted} more: its quota is {max}; delete those \
                     that nobody needs"
                )));
            }
        }
        for (rule, used) in inner.rules.iter().zip(&inner.by_rule) {
            let (QuotaOf::Topics(pattern), Some(max)) = (&rule.of, rule.groups) else { continue };
            let wanted = topics.iter().filter(|topic| pattern.matches(topic)).count();
            if wanted > 0 && used.groups + wanted > max {
                return Err(Error::quota_exceeded(format!(
                    "topics of {pattern} have {} groups, and this would make {wanted} more: their quota is {max}; delete \
                     those that nobody needs",
                    used.groups
                )));
            }
        }
        Ok(())
    }

    /// Whether the bytes of a topic are over a quota.
    pub fn is_full(&self, topic: &TopicName) -> bool {
        let inner = self.inner.lock();
        let maker = inner.makers.get(&Made::Topic(topic.clone()));
        let of_maker = maker.is_some_and(|subject| {
            let max = inner.rule_of(subject).and_then(|rule| rule.stored_bytes);
            let used = inner.subjects.get(subject).map_or(0, |used| used.stored_bytes);
            max.is_some_and(|max| used > max)
        });
        of_maker
            || inner
                .rules_of(topic)
                .any(|(rule, used, _)| rule.stored_bytes.is_some_and(|max| used.stored_bytes > max))
    }

    /// Remembers who made something; answers who was thought to have, and whether that has changed.
    pub fn remember(&self, made: Made, subject: &str) -> (Option<Arc<str>>, bool) {
        let mut inner = self.inner.lock();
        let subject =
            inner.subjects.get_key_value(subject).map_or_else(|| subject.into(), |(known, _)| known.clone());
        if let Made::Subscription(_, group) = &made {
            inner.drivers.insert(group.clone(), subject.clone());
        }
        let before = inner.makers.insert(made, subject.clone());
        let is_new = before.as_ref() != Some(&subject);
        (before, is_new)
    }

    /// It is gone; answers whether somebody had made it.
    pub fn forget(&self, made: &Made) -> bool {
        let mut inner = self.inner.lock();
        let is_known = inner.makers.remove(made).is_some();
        if let Made::Subscription(_, group) = made {
            let of_group = |other: &Made| matches!(other, Made::Subscription(_, name) if name == group);
            if !inner.makers.keys().any(of_group) {
                inner.drivers.remove(group);
            }
        }
        is_known
    }

    /// A topic that is there, with so many bytes, was made by another subject than was thought.
    pub fn move_topic(&self, topic: &TopicName, bytes: u64, before: Option<&Arc<str>>) {
        let mut inner = self.inner.lock();
        let maker = inner.maker(&Made::Topic(topic.clone()));
        inner.count(before, None, |used| {
            used.topics = used.topics.saturating_sub(1);
            used.stored_bytes = used.stored_bytes.saturating_sub(bytes);
        });
        inner.count(maker.as_ref(), None, |used| {
            used.topics += 1;
            used.stored_bytes += bytes;
        });
    }

    /// Who made a topic.
    pub fn maker_of(&self, topic: &TopicName) -> Option<Arc<str>> {
        self.inner.lock().maker(&Made::Topic(topic.clone()))
    }

    /// Whom a group counts for.
    pub fn maker_of_group(&self, record: &GroupRecord) -> Option<Arc<str>> {
        let inner = self.inner.lock();
        match record.driven {
            true => inner.drivers.get(&record.name).cloned(),
            false => inner.maker(&Made::Group(record.topic.clone(), record.name.clone())),
        }
    }

    /// Whom a group counts for that subscriptions with this group drive.
    pub fn maker_of_driven(&self, group: &GroupName) -> Option<Arc<str>> {
        self.inner.lock().drivers.get(group).cloned()
    }

    /// Whom a subscription counts for.
    pub fn maker_of_subscription(&self, label: &str, group: &GroupName) -> Option<Arc<str>> {
        self.inner.lock().maker(&Made::Subscription(label.to_owned(), group.clone()))
    }

    /// A topic is there.
    pub fn add_topic(&self, topic: &TopicName) {
        let mut inner = self.inner.lock();
        let maker = inner.maker(&Made::Topic(topic.clone()));
        inner.count(maker.as_ref(), Some(topic), |used| used.topics += 1);
    }

    /// A topic is gone that kept so many bytes.
    pub fn remove_topic(&self, topic: &TopicName, bytes: u64) {
        let mut inner = self.inner.lock();
        let maker = inner.maker(&Made::Topic(topic.clone()));
        inner.count(maker.as_ref(), Some(topic), |used| {
            used.topics = used.topics.saturating_sub(1);
            used.stored_bytes = used.stored_bytes.saturating_sub(bytes);
        });
    }

    /// Counts a topic that is there for the rules about topics, which are new; one that is derived is no topic of anybody's.
    pub fn count_topic(&self, topic: &TopicName, groups: usize, bytes: u64) {
        let is_users = topic.derived().is_none();
        self.inner.lock().count(None, Some(topic), |used| {
            used.topics += usize::from(is_users);
            used.groups += groups;
            used.stored_bytes += bytes;
        });
    }

    /// A group is there.
    pub fn add_group(&self, topic: &TopicName, maker: Option<&Arc<str>>) {
        self.inner.lock().count(maker, Some(topic), |used| used.groups += 1);
    }

    /// It is gone.
    pub fn remove_group(&self, topic: &TopicName, maker: Option<&Arc<str>>) {
        self.inner.lock().count(maker, Some(topic), |used| used.groups = used.groups.saturating_sub(1));
    }

    /// A subscription is there.
    pub fn add_subscription(&self, maker: Option<&Arc<str>>) {
        self.inner.lock().count(maker, None, |used| used.groups += 1);
    }

    /// It is gone.
    pub fn remove_subscription(&self, maker: Option<&Arc<str>>) {
        self.inner.lock().count(maker, None, |used| used.groups = used.groups.saturating_sub(1));
    }

    /// The bytes that a topic keeps have changed.
    pub fn set_bytes(&self, topic: &TopicName, before: u64, now: u64) {
        let mut inner = self.inner.lock();
        let maker = inner.maker(&Made::Topic(topic.clone()));
        inner.count(maker.as_ref(), Some(topic), |used| {
            used.stored_bytes = used.stored_bytes.saturating_sub(before).saturating_add(now);
        });
    }

    /// What a subject has used.
    pub fn used_by(&self, subject: &str) -> QuotaUse {
        self.inner.lock().subjects.get(subject).copied().unwrap_or_default()
    }

    /// The quota that counts for a subject.
    pub fn of(&self, subject: &str) -> Option<Quota> {
        self.inner.lock().rule_of(subject).cloned()
    }

    /// The quotas of topics, with what is used of them.
    pub fn of_topics(&self) -> Vec<(Quota, QuotaUse)> {
        let inner = self.inner.lock();
        let all = inner.rules.iter().zip(&inner.by_rule);
        all.filter(|(rule, _)| matches!(rule.of, QuotaOf::Topics(_)))
            .map(|(rule, used)| (rule.clone(), *used))
            .collect()
    }

    /// The subjects that have used the largest share of something that their quota bounds, the largest share first.
    pub fn fullest(&self, limit: usize) -> Vec<(Arc<str>, Quota, QuotaUse)> {
        let inner = self.inner.lock();
        let mut found: Vec<_> = inner
            .subjects
            .iter()
            .filter_map(|(name, used)| {
                let quota = inner.rule_of(name)?;
                Some((used.share_of(quota)?, name, quota, used))
            })
            .collect();
        let order =
            |a: &(f64, &Arc<str>, _, _), b: &(f64, &Arc<str>, _, _)| b.0.total_cmp(&a.0).then(a.1.cmp(b.1));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by(order);
        found.into_iter().map(|(_, name, quota, used)| (name.clone(), quota.clone(), *used)).collect()
    }

    /// Subjects that have made something, by name, behind `after`.
    pub fn subjects(&self, after: Option<&str>, limit: usize) -> Vec<(Arc<str>, QuotaUse)> {
        let inner = self.inner.lock();
        let behind = inner.subjects.iter().filter(|(name, _)| after.is_none_or(|after| &***name > after));
        let mut found: Vec<_> = behind.map(|(name, used)| (name.clone(), *used)).collect();
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found.truncate(limit);
        found
    }
}

/// How often the bytes of topics are counted.
const COUNT_BYTES: Duration = Duration::from_secs(5);

/// Counts the bytes of topics that have changed, for as long as the hub runs, and says which are full.
pub(crate) async fn count_bytes(engine: &Arc<Engine>) {
    loop {
        tokio::time::sleep(COUNT_BYTES).await;
        if engine.quotas.any() {
            count_once(engine).await;
        }
    }
}

/// The same, once.
pub(crate) async fn count_once(engine: &Arc<Engine>) {
    for topic in engine.topics() {
        let ((before, upto), last) = (topic.counted(), topic.last());
        // What is cleaned away is seen with what is published next, or when the topic is full.
        if (upto != last || topic.is_full())
            && let Ok(bounds) = engine.store.bounds(&topic.name).await
        {
            engine.quotas.set_bytes(&topic.name, before, bounds.bytes);
            topic.set_counted(bounds.bytes, last);
        }
    }
    for (count, topic) in engine.topics().enumerate() {
        topic.set_full(engine.quotas.is_full(&topic.name));
        if count % 256 == 255 {
            tokio::task::yield_now().await;
        }
    }
}

/// Hears from other hubs who made what, for as long as the hub runs.
pub(crate) async fn follow_makers(engine: &Arc<Engine>) {
    let Ok(mut watch) = SystemWatch::open(engine, SystemTopic::Makers, Position::Latest).await else {
        return;
    };
    loop {
        match watch.recv().await {
            Ok(Some(entry)) => engine.learn_maker(&entry),
            Ok(None) => {
                let entries = system::load(engine, SystemTopic::Makers).await;
                entries.into_iter().flatten().for_each(|entry| engine.learn_maker(&entry));
            }
            // The store does not answer; asked again.
            Err(_) => tokio::time::sleep(COUNT_BYTES).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subjects_that_are_nearest_to_their_quota_come_first() {
        let quotas = Quotas::default();
        let quota = |of, topics| Quota { of, topics, groups: None, stored_bytes: None };
        quotas.set(vec![
            quota(QuotaOf::Subject("wide".into()), Some(100)),
            quota(QuotaOf::Subject("unbounded".into()), None),
            quota(QuotaOf::EverySubject, Some(4)),
        ]);
        for (subject, count) in [("wide", 5), ("unbounded", 9), ("half", 2), ("full", 4), ("new", 1)] {
            for n in 0..count {
                let topic = TopicName::parse(&format!("{subject}.{n}")).expect("a name");
                quotas.remember(Made::Topic(topic.clone()), subject);
                quotas.add_topic(&topic);
            }
        }
        let names =
            |limit| -> Vec<_> { quotas.fullest(limit).iter().map(|(name, ..)| name.to_string()).collect() };
        assert_eq!(names(3), ["full", "half", "new"]);
        assert_eq!(names(9), ["full", "half", "new", "wide"]);
    }

    #[test]
    fn what_was_made_reads_back_from_its_key() {
        let topic = TopicName::parse("a.b").expect("a name");
        let group = GroupName::parse("g.h").expect("a name");
        for made in [
            Made::Topic(topic.clone()),
            Made::Group(topic, group.clone()),
            Made::Subscription("a.**.b".into(), group),
        ] {
            assert_eq!(Made::parse(&made.key()), Some(made));
        }
        for bad in ["", "t", "t/", "x/a", "g/a", "t/a/b", "g/a..b/g"] {
            assert_eq!(Made::parse(bad), None, "{bad}");
        }
    }
}
