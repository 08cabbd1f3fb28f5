//! Subscriptions that cover several topics: a pattern or a list drives one ordinary group per topic it covers.
//!
//! The rule that makes it durable: a subscription is stored together with a group for every topic it covers at that
//! time. So a covered topic without a group was born later, and its group starts at the beginning.

use crate::Millis;
use crate::engine::{By, Engine};
use crate::group::dispatch::MemberId;
use crate::group::mailbox::Mailbox;
use crate::group::state::GroupState;
use crate::group::{Carried, Group};
use crate::store::{Bounds, GroupRecord, StoredGroup, SubscriptionRecord};
use crate::topic::Topic;
use hub_proto::{Error, GroupName, Pattern, Result, TopicName};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Which topics a subscription covers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cover {
    Pattern(Pattern),
    List(Vec<TopicName>),
}

impl Cover {
    pub fn covers(&self, topic: &TopicName) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.matches_for_subscription(topic),
            // In order since it was checked.
            Self::List(topics) => topics.binary_search(topic).is_ok(),
        }
    }
}

/// A durable subscription to several topics.
pub(crate) struct Fan {
    pub record: SubscriptionRecord,
    pub cover: Cover,
    members: BTreeMap<MemberId, Member>,
    /// Nobody joins any more: the subscription is being deleted, or changed.
    going: bool,
}

/// A member, as groups of topics to come will have it.
struct Member {
    mailbox: Arc<Mailbox>,
    ack_timeout: Millis,
    paused: bool,
}

impl Fan {
    pub fn new(record: SubscriptionRecord, cover: Cover) -> Self {
        Self { record, cover, members: BTreeMap::new(), going: false }
    }

    /// Every member's subscription ends with `error`.
    fn end_members(&self, error: &Error) {
        self.members.values().for_each(|member| member.mailbox.end(error.clone()));
    }

    /// From now on nobody joins, until [`stay`](Self::stay). With `only_if_idle`: unless somebody is there already, which
    /// is answered with false.
    pub fn go(&mut self, only_if_idle: bool) -> bool {
        let goes = !only_if_idle || self.members.is_empty();
        self.going |= goes;
        goes
    }

    /// The subscription is neither deleted nor changed after all.
    pub fn stay(&mut self) {
        self.going = false;
    }

    /// The group on `topic`: the one there is, or a new one at the beginning.
    fn group(&self, engine: &Arc<Engine>, topic: &Arc<Topic>) -> Arc<Group> {
        let name = &self.record.group;
        if let Some(group) = topic.group(name) {
            return group;
        }
        let record = GroupRecord {
            topic: topic.name.clone(),
            name: name.clone(),
            options: self.record.options.clone(),
            created: engine.clock.wall(),
            idle_since: Some(engine.now_unset()),
            driven: true,
            born: engine.find(&topic.name.dead_letter()).map_or(0, |dlq| dlq.last()),
        };
        let stored = StoredGroup { record, state: GroupState::default() };
        let group = Group::new(engine.clone(), topic.clone(), stored, true);
        engine.add_group(&group);
        group
    }
}

/// Somebody without a group who wants to hear of new topics.
pub(crate) trait Observer: Send + Sync {
    /// A topic was born; called before anything is committed to it.
    fn born(&self, topic: &Arc<Topic>);
}

/// Every subscription to several topics.
#[derive(Default)]
pub(crate) struct Fans {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    fans: BTreeMap<(String, GroupName), Fan>,
    observers: Vec<Weak<dyn Observer>>,
}

impl Inner {
    /// A subscription, and the groups that it made and no other one drives.
    fn driven(&self, engine: &Engine, label: &str, group: &GroupName) -> Option<(&Fan, Vec<Arc<Group>>)> {
        let fan = self.fans.get(&(label.to_owned(), group.clone()))?;
        let others =
            || self.fans.values().filter(|other| other.record.group == *group && !std::ptr::eq(*other, fan));
        let mut groups = Fans::groups(engine, fan);
        groups.retain(|group| {
            group.record().driven && !others().any(|other| other.cover.covers(&group.topic.name))
        });
        Some((fan, groups))
    }
}

impl Fans {
    /// Brings a topic into being, with its groups and their members.
    pub fn birth(&self, engine: &Arc<Engine>, name: &TopicName, by: By) -> Result<Arc<Topic>> {
        let mut inner = self.inner.lock();
        if let Some(topic) = engine.find(name) {
            return Ok(topic);
        }
        if by == By::User {
            // Without this, a few subscriptions to patterns would multiply with every topic.
            engine.check_groups(inner.fans.values().filter(|fan| fan.cover.covers(name)).count())?;
            engine.count_topic()?;
        }
        let topic = engine.insert(name.clone(), Bounds { first: 1, ..Bounds::default() });
        for fan in inner.fans.values().filter(|fan| fan.cover.covers(name)) {
            let group = fan.group(engine, &topic);
            for (&id, member) in &fan.members {
                // A group made a moment ago under this lock cannot be deleted.
                let _ = group.join(id, member.mailbox.clone(), member.ack_timeout, &Carried::default());
                group.set_paused(id, member.paused);
            }
        }
        inner.observers.retain(|observer| {
            observer.upgrade().is_some_and(|observer| {
                observer.born(&topic);
                true
            })
        });
        Ok(topic)
    }

    /// Takes over stored subscriptions, and makes the groups that were missing when the hub went down.
    pub fn restore(&self, engine: &Arc<Engine>, records: Vec<SubscriptionRecord>, now: Millis) {
        let mut inner = self.inner.lock();
        for mut record in records {
            if record.idle_since.is_none() {
                record.idle_since = Some(now);
                engine.saver.mark_subscription(&record.label, &record.group);
            }
            let cover = match (record.topics.is_empty(), Pattern::parse(&record.label)) {
                (true, Ok(pattern)) => Cover::Pattern(pattern),
                _ => Cover::List(record.topics.clone()),
            };
            let at = (record.label.clone(), record.group.clone());
            if inner.fans.insert(at, Fan::new(record, cover)).is_none() {
                engine.count_group();
            }
        }
        for topic in engine.topics() {
            for fan in inner.fans.values().filter(|fan| fan.cover.covers(&topic.name)) {
                fan.group(engine, &topic);
            }
            // A crash while a list was being changed can leave groups that nothing covers.
            let groups: Vec<_> = topic.groups.read().values().cloned().collect();
            for group in groups.iter().filter(|group| group.record().driven) {
                let mut fans = inner.fans.values().filter(|fan| fan.record.group == group.name);
                if !fans.any(|fan| fan.cover.covers(&topic.name)) {
                    group.set_free();
                }
            }
        }
    }

    /// Looks at a subscription.
    pub fn with<T>(&self, label: &str, group: &GroupName, look: impl FnOnce(&mut Fan) -> T) -> Option<T> {
        self.inner.lock().fans.get_mut(&(label.to_owned(), group.clone())).map(look)
    }

    /// Records of all subscriptions.
    pub fn records(&self) -> Vec<SubscriptionRecord> {
        self.inner.lock().fans.values().map(|fan| fan.record.clone()).collect()
    }

    /// Adds a subscription, with groups for topics born since it was prepared.
    pub fn insert(&self, engine: &Arc<Engine>, fan: Fan) {
        let mut inner = self.inner.lock();
        for topic in engine.topics().into_iter().filter(|topic| fan.cover.covers(&topic.name)) {
            fan.group(engine, &topic);
        }
        let at = (fan.record.label.clone(), fan.record.group.clone());
        if inner.fans.insert(at, fan).is_none() {
            engine.count_group();
        }
    }

    /// The groups that go with a subscription: those it made and no other one drives.
    pub fn driven(&self, engine: &Engine, label: &str, group: &GroupName) -> Option<Vec<Arc<Group>>> {
        Some(self.inner.lock().driven(engine, label, group)?.1)
    }

    /// Takes a subscription out; its members leave, and their subscriptions end with `error`. Answers the groups that
    /// go with it.
    pub fn remove(&self, engine: &Engine, label: &str, group: &GroupName, error: &Error) -> Vec<Arc<Group>> {
        let mut inner = self.inner.lock();
        let Some((fan, driven)) = inner.driven(engine, label, group) else { return Vec::new() };
        fan.end_members(error);
        for group in Self::groups(engine, fan) {
            fan.members.keys().for_each(|&id| group.leave(id, false));
        }
        if inner.fans.remove(&(label.to_owned(), group.clone())).is_some() {
            engine.uncount_group();
        }
        driven
    }

    /// Takes out every subscription with this group name; nothing is stored.
    pub fn drop_groups(&self, engine: &Engine, group: &GroupName, error: &Error) {
        let mut inner = self.inner.lock();
        inner.fans.retain(|(_, name), fan| {
            let goes = name == group;
            if goes {
                fan.end_members(error);
                engine.uncount_group();
            }
            !goes
        });
    }

    /// The label of a subscription that drives the group on `topic`.
    pub fn driver(&self, topic: &TopicName, group: &GroupName) -> Option<String> {
        let inner = self.inner.lock();
        let mut fans = inner.fans.values().filter(|fan| fan.record.group == *group);
        fans.find(|fan| fan.cover.covers(topic)).map(|fan| fan.record.label.clone())
    }

    /// Every member's subscription ends with `error`.
    pub fn end_members(&self, error: &Error) {
        self.inner.lock().fans.values().for_each(|fan| fan.end_members(error));
    }

    /// A member joins the groups of every covered topic.
    pub fn join(
        &self,
        engine: &Arc<Engine>,
        (label, group): (&str, &GroupName),
        id: MemberId,
        mailbox: &Arc<Mailbox>,
        ack_timeout: Millis,
        carried: &BTreeMap<TopicName, Carried>,
    ) -> Result<()> {
        let nothing = Carried::default();
        let mut inner = self.inner.lock();
        let fan = inner.fans.get_mut(&(label.to_owned(), group.clone())).filter(|fan| !fan.going);
        let Some(fan) = fan else { return Err(crate::group::deleted(group)) };
        fan.members.insert(id, Member { mailbox: mailbox.clone(), ack_timeout, paused: false });
        if fan.record.idle_since.take().is_some() {
            engine.saver.mark_subscription(label, group);
        }
        let mut joined = Vec::new();
        for topic in engine.topics().into_iter().filter(|topic| fan.cover.covers(&topic.name)) {
            let group = fan.group(engine, &topic);
            let carried = carried.get(&topic.name).unwrap_or(&nothing);
            if let Err(error) = group.join(id, mailbox.clone(), ack_timeout, carried) {
                joined.iter().for_each(|group: &Arc<Group>| group.leave(id, false));
                fan.members.remove(&id);
                return Err(error);
            }
            joined.push(group);
        }
        Ok(())
    }

    /// A member leaves the groups of every covered topic.
    pub fn leave(&self, engine: &Engine, label: &str, group: &GroupName, id: MemberId, blame: bool) {
        let mut inner = self.inner.lock();
        let Some(fan) = inner.fans.get_mut(&(label.to_owned(), group.clone())) else { return };
        fan.members.remove(&id);
        if fan.members.is_empty() {
            fan.record.idle_since = Some(engine.now_unset());
            engine.saver.mark_subscription(label, group);
        }
        let groups = Self::groups(engine, fan);
        // One event is to blame at most, however many topics there are.
        let blamed = groups
            .iter()
            .filter_map(|group| Some((group.oldest_taken(id)?, group)))
            .min_by_key(|(at, _)| *at);
        let blamed = blamed.filter(|_| blame).map(|(_, group)| Arc::as_ptr(group));
        for group in &groups {
            group.leave(id, blamed == Some(Arc::as_ptr(group)));
        }
    }

    /// Holds a member's deliveries up, or lets them go on, on every topic it covers or will cover.
    pub fn set_paused(&self, engine: &Engine, label: &str, group: &GroupName, id: MemberId, paused: bool) {
        let mut inner = self.inner.lock();
        let Some(fan) = inner.fans.get_mut(&(label.to_owned(), group.clone())) else { return };
        if let Some(member) = fan.members.get_mut(&id) {
            member.paused = paused;
        }
        Self::groups(engine, fan).iter().for_each(|group| group.set_paused(id, paused));
    }

    fn groups(engine: &Engine, fan: &Fan) -> Vec<Arc<Group>> {
        let topics = engine.topics().into_iter().filter(|topic| fan.cover.covers(&topic.name));
        topics.filter_map(|topic| topic.group(&fan.record.group)).collect()
    }

    /// Tells `observer` of every topic born from now on. Answers those there are.
    pub fn observe(&self, engine: &Engine, observer: Weak<dyn Observer>) -> Vec<Arc<Topic>> {
        let mut inner = self.inner.lock();
        if inner.observers.len() == inner.observers.capacity() {
            // Before the list grows: those who are gone leave it.
            inner.observers.retain(|observer| observer.strong_count() > 0);
        }
        inner.observers.push(observer);
        engine.topics()
    }

    pub fn clear(&self) {
        *self.inner.lock() = Inner::default();
    }
}
