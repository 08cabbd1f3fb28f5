//! Subscriptions that cover several topics: a pattern or a list drives one ordinary group per topic it covers.
//!
//! The rule that makes it durable: a subscription is stored together with a group for every topic it covers at that
//! time. So a covered topic without a group was born later, and its group starts at the beginning.

use crate::Millis;
use crate::cluster::not_owner;
use crate::deletion::being_deleted;
use crate::engine::{By, Engine};
use crate::group::dispatch::MemberId;
use crate::group::mailbox::Mailbox;
use crate::group::state::GroupState;
use crate::group::{Carried, Group};
use crate::quota::Made;
use crate::store::{Bounds, GroupRecord, StoredGroup, SubscriptionRecord};
use crate::topic::Topic;
use hub_proto::{Code, Error, GroupName, Pattern, Result, TopicName};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

    /// The topics there are that it covers, by name, without those that are being deleted. What lies between them is not looked
    /// at where that can be avoided.
    pub fn topics<'a>(&'a self, engine: &'a Engine) -> Box<dyn Iterator<Item = Arc<Topic>> + Send + 'a> {
        match self {
            Self::Pattern(pattern) => Box::new(
                engine
                    .walk(pattern.prefix())
                    .filter(|topic| self.covers(&topic.name) && !topic.is_deleting()),
            ),
            Self::List(topics) => Box::new(
                topics.iter().filter_map(|name| engine.find(name)).filter(|topic| !topic.is_deleting()),
            ),
        }
    }

    /// The groups of this name on those topics.
    fn groups<'a>(
        &'a self,
        engine: &'a Engine,
        name: &'a GroupName,
    ) -> impl Iterator<Item = Arc<Group>> + Send + 'a {
        self.topics(engine).filter_map(|topic| topic.group(name))
    }
}

/// A durable subscription to several topics.
pub(crate) struct Fan {
    pub record: SubscriptionRecord,
    pub cover: Cover,
    /// The subject that it counts for.
    maker: Option<Arc<str>>,
    members: BTreeMap<MemberId, Member>,
    /// Nobody joins any more: the subscription is being deleted, or changed.
    going: bool,
}

/// A member, as groups of topics to come will have it.
struct Member {
    mailbox: Arc<Mailbox>,
    ack_timeout: Millis,
    paused: bool,
    /// How often `paused` was set.
    changes: u64,
    /// A task brings `paused` to the groups there are.
    is_spreading: bool,
}

/// Topics over which something is done at once; where a subscription covers more, a task does it and lets others run.
const FEW: usize = 256;

impl Fan {
    pub fn new(record: SubscriptionRecord, cover: Cover, maker: Option<Arc<str>>) -> Self {
        Self { record, cover, maker, members: BTreeMap::new(), going: false }
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

    /// The group on `topic`: the one there is, or a new one at the beginning, if there is room for it.
    fn group(&self, engine: &Arc<Engine>, topic: &Arc<Topic>) -> Result<Arc<Group>> {
        let name = &self.record.group;
        if let Some(group) = topic.group(name) {
            return Ok(group);
        }
        if topic.is_deleting() {
            return Err(being_deleted(&topic.name));
        }
        // Nobody decides when there are dead letters: who wants them gets all of them.
        if topic.name.derived().is_none() {
            let maker = engine.quotas.maker_of_driven(name);
            engine.check_groups(maker.as_deref(), &[&topic.name], 0)?;
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
        let stored = StoredGroup { record, state: GroupState::at(topic.deleted_upto) };
        let group = Group::new(engine.clone(), topic.clone(), stored, true);
        engine.add_group(&group);
        Ok(group)
    }

    /// Every member joins a group that was made a moment ago, under the lock of [`Fans`]: it cannot be deleted meanwhile.
    fn join_members(&self, group: &Arc<Group>) {
        for (&id, member) in &self.members {
            let _ = group.join(id, member.mailbox.clone(), member.ack_timeout, &Carried::default());
            group.set_paused(id, member.paused);
        }
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
    /// Some topic is without a group that it should have.
    postponed: AtomicBool,
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
        let is_alone = |group: &Arc<Group>| {
            group.record().driven && !others().any(|other| other.cover.covers(&group.topic.name))
        };
        let groups = fan.cover.groups(engine, group).filter(is_alone).collect();
        Some((fan, groups))
    }
}

impl Fans {
    /// Brings a topic into being, with its groups and their members.
    pub fn birth(&self, engine: &Arc<Engine>, name: &TopicName, by: By<'_>) -> Result<Arc<Topic>> {
        let mut inner = self.inner.lock();
        if let Some(topic) = engine.find(name) {
            return Ok(topic);
        }
        if let By::User(subject) = by {
            match name.derived() {
                // The hub makes it; until then readers wait, if there is something that it can be derived from.
                Some(_) if engine.find(name.root()).is_some() => {}
                Some(_) => {
                    return Err(Error::bad_request(format!(
                        "topic {name} is derived from {0}, and there is no topic {0}; publish to that first",
                        name.root()
                    )));
                }
                None => {
                    engine.quotas.check_topic(name, subject)?;
                    engine.check_topics()?;
                    engine.remember(Made::Topic(name.clone()), subject);
                }
            }
        }
        let is_remote = by == By::Hub && engine.cluster.is_some();
        let topic = engine.insert(name.clone(), Bounds { first: 1, ..Bounds::default() }, is_remote);
        for fan in inner.fans.values().filter(|fan| fan.cover.covers(name)) {
            match fan.group(engine, &topic) {
                Ok(group) => fan.join_members(&group),
                Err(error) => {
                    self.postpone(engine);
                    let (label, group) = (&fan.record.label, &fan.record.group);
                    tracing::debug!(topic = %name, label, %group, %error, "a topic is born without a group");
                }
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
            let maker = engine.quotas.maker_of_subscription(&at.0, &at.1);
            if inner.fans.insert(at, Fan::new(record, cover, maker.clone())).is_none() {
                engine.count_group();
                engine.quotas.add_subscription(maker.as_ref());
            }
        }
        for topic in engine.topics() {
            for fan in inner.fans.values().filter(|fan| fan.cover.covers(&topic.name)) {
                // Without room for it now, it is made when a member joins.
                let _ = fan.group(engine, &topic);
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

    /// Does something while no topic is born.
    pub fn still<T>(&self, act: impl FnOnce() -> T) -> T {
        let _inner = self.inner.lock();
        act()
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
        for topic in fan.cover.topics(engine) {
            let _ = fan.group(engine, &topic);
        }
        let at = (fan.record.label.clone(), fan.record.group.clone());
        engine.count_group();
        engine.quotas.add_subscription(fan.maker.as_ref());
        if let Some(before) = inner.fans.insert(at, fan) {
            engine.uncount_group();
            engine.quotas.remove_subscription(before.maker.as_ref());
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
        for group in fan.cover.groups(engine, group) {
            fan.members.keys().for_each(|&id| group.leave(id, false));
        }
        if let Some(fan) = inner.fans.remove(&(label.to_owned(), group.clone())) {
            engine.uncount_group();
            engine.quotas.remove_subscription(fan.maker.as_ref());
        }
        driven
    }

    /// Takes out every subscription with this group name; nothing is stored.
    pub fn drop_groups(&self, engine: &Engine, groups: &HashSet<&GroupName>) {
        let mut inner = self.inner.lock();
        inner.fans.retain(|(_, name), fan| {
            let goes = groups.contains(name);
            if goes {
                fan.end_members(&not_owner(name));
                engine.uncount_group();
                engine.quotas.remove_subscription(fan.maker.as_ref());
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

    /// The subjects that made the subscriptions with this group.
    pub fn makers_of(&self, group: &GroupName) -> BTreeSet<Arc<str>> {
        let inner = self.inner.lock();
        let fans = inner.fans.values().filter(|fan| fan.record.group == *group);
        fans.filter_map(|fan| fan.maker.clone()).collect()
    }

    /// Members of subscriptions that drive the group on `topic`.
    pub fn members_of(&self, topic: &TopicName, group: &GroupName) -> BTreeSet<MemberId> {
        let inner = self.inner.lock();
        let fans = inner.fans.values().filter(|fan| fan.record.group == *group && fan.cover.covers(topic));
        fans.flat_map(|fan| fan.members.keys().copied()).collect()
    }

    /// Every member's subscription ends with `error`.
    pub fn end_members(&self, error: &Error) {
        self.inner.lock().fans.values().for_each(|fan| fan.end_members(error));
    }

    /// A member joins the groups of every covered topic. It is a member of topics born from now on before it joins those there
    /// are, so none is missed. Answers how many those are; `None` if the subscription is not there, or is about to go. A topic
    /// for whose group there is no room is left out: it is made later.
    pub async fn join(
        &self,
        engine: &Arc<Engine>,
        (label, group): (&str, &GroupName),
        id: MemberId,
        mailbox: &Arc<Mailbox>,
        ack_timeout: Millis,
        carried: &BTreeMap<TopicName, Carried>,
    ) -> Result<Option<usize>> {
        let at = (label.to_owned(), group.clone());
        let (cover, newest) = {
            let mut inner = self.inner.lock();
            let Some(fan) = inner.fans.get_mut(&at).filter(|fan| !fan.going) else { return Ok(None) };
            let member = Member {
                mailbox: mailbox.clone(),
                ack_timeout,
                paused: false,
                changes: 0,
                is_spreading: false,
            };
            fan.members.insert(id, member);
            if fan.record.idle_since.take().is_some() {
                engine.saver.mark_subscription(label, group);
            }
            (fan.cover.clone(), engine.newest_topic())
        };
        // A caller that goes away, and a join that fails, leave no member behind.
        let mut joining = JoiningMember { engine, at: &at, cover: &cover, id, is_done: false };
        let (nothing, mut joined) = (Carried::default(), 0);
        for topic in cover.topics(engine).filter(|topic| topic.number <= newest) {
            let found = match topic.group(group) {
                Some(found) => Ok(found),
                // There was no room for it when the topic was born.
                None => {
                    let made = self.with(label, group, |fan| fan.group(engine, &topic));
                    made.unwrap_or_else(|| Err(crate::group::deleted(group)))
                }
            };
            match found {
                Ok(found) => {
                    let carried = carried.get(&topic.name).unwrap_or(&nothing);
                    found.join(id, mailbox.clone(), ack_timeout, carried)?;
                    joined += 1;
                }
                Err(error) if error.code == Code::QuotaExceeded => self.postpone(engine),
                Err(error) => return Err(error),
            }
            yield_between(joined).await;
        }
        // It may have been deleted meanwhile, before the last groups were joined.
        if self.with(label, group, |fan| fan.members.contains_key(&id)) != Some(true) {
            return Err(crate::group::deleted(group));
        }
        joining.is_done = true;
        Ok(Some(joined))
    }

    /// A topic is there without a group that it should have.
    fn postpone(&self, engine: &Engine) {
        engine.metrics.group_postponed();
        self.postponed.store(true, Relaxed);
    }

    /// Makes groups for which there was no room before.
    pub async fn make_postponed(&self, engine: &Arc<Engine>) {
        if !self.postponed.swap(false, Relaxed) {
            return;
        }
        let all: Vec<_> = {
            let inner = self.inner.lock();
            inner.fans.iter().map(|(at, fan)| (at.clone(), fan.cover.clone())).collect()
        };
        for ((label, name), cover) in all {
            for (count, topic) in cover.topics(engine).enumerate() {
                if topic.group(&name).is_none() {
                    self.with(&label, &name, |fan| match fan.group(engine, &topic) {
                        Ok(group) => fan.join_members(&group),
                        Err(_) => self.postponed.store(true, Relaxed),
                    });
                }
                yield_between(count).await;
            }
        }
    }

    /// A member leaves the groups of every covered topic.
    pub fn leave(&self, engine: &Arc<Engine>, label: &str, group: &GroupName, id: MemberId, blame: bool) {
        let cover = {
            let mut inner = self.inner.lock();
            let Some(fan) = inner.fans.get_mut(&(label.to_owned(), group.clone())) else { return };
            if let Some(member) = fan.members.remove(&id) {
                // Groups that it has not left yet give it nothing more.
                member.mailbox.end(left());
            }
            if fan.members.is_empty() {
                fan.record.idle_since = Some(engine.now_unset());
                engine.saver.mark_subscription(label, group);
            }
            fan.cover.clone()
        };
        leave_cover(engine, cover, group, id, blame);
    }

    /// Holds a member's deliveries up, or lets them go on, on every topic it covers or will cover. Where it covers many, that
    /// takes a moment.
    pub fn set_paused(
        &self,
        engine: &Arc<Engine>,
        label: &str,
        group: &GroupName,
        id: MemberId,
        paused: bool,
    ) {
        let at = (label.to_owned(), group.clone());
        let cover = {
            let mut inner = self.inner.lock();
            let Some(fan) = inner.fans.get_mut(&at) else { return };
            let cover = fan.cover.clone();
            let Some(member) = fan.members.get_mut(&id) else { return };
            member.paused = paused;
            member.changes += 1;
            if member.is_spreading {
                return;
            }
            if cover.groups(engine, group).nth(FEW).is_none() {
                return cover.groups(engine, group).for_each(|group| group.set_paused(id, paused));
            }
            member.is_spreading = true;
            cover
        };
        let this = engine.clone();
        engine.spawn(async move {
            // What was set last counts, in the end for all of them.
            while let Some((paused, changes)) = this.fans.pause_of(&at, id) {
                for (count, group) in cover.groups(&this, &at.1).enumerate() {
                    group.set_paused(id, paused);
                    yield_between(count).await;
                }
                if this.fans.has_spread(&at, id, changes) {
                    break;
                }
            }
        });
    }

    fn pause_of(&self, at: &(String, GroupName), id: MemberId) -> Option<(bool, u64)> {
        let inner = self.inner.lock();
        inner.fans.get(at)?.members.get(&id).map(|member| (member.paused, member.changes))
    }

    /// Whether everything that was set so far has come to all groups; then nobody brings it there any more.
    fn has_spread(&self, at: &(String, GroupName), id: MemberId, changes: u64) -> bool {
        let mut inner = self.inner.lock();
        let member = inner.fans.get_mut(at).and_then(|fan| fan.members.get_mut(&id));
        member.is_none_or(|member| {
            member.is_spreading = member.changes != changes;
            !member.is_spreading
        })
    }

    /// Tells `observer` of every topic born from now on. Answers the number of the newest one before.
    pub fn observe(&self, engine: &Engine, observer: Weak<dyn Observer>) -> u64 {
        let mut inner = self.inner.lock();
        if inner.observers.len() == inner.observers.capacity() {
            // Before the list grows: those who are gone leave it.
            inner.observers.retain(|observer| observer.strong_count() > 0);
        }
        inner.observers.push(observer);
        engine.newest_topic()
    }

    pub fn clear(&self) {
        *self.inner.lock() = Inner::default();
    }
}

/// A member that has not joined all groups yet. If it never does, it leaves those that it has joined.
struct JoiningMember<'a> {
    engine: &'a Arc<Engine>,
    at: &'a (String, GroupName),
    cover: &'a Cover,
    id: MemberId,
    is_done: bool,
}

impl Drop for JoiningMember<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let (label, group) = self.at;
            self.engine.fans.leave(self.engine, label, group, self.id, false);
            // Also if the subscription is gone by now.
            leave_cover(self.engine, self.cover.clone(), group, self.id, false);
        }
    }
}

/// A member leaves the groups of every topic that is covered.
fn leave_cover(engine: &Arc<Engine>, cover: Cover, group: &GroupName, id: MemberId, blame: bool) {
    if cover.groups(engine, group).nth(FEW).is_none() {
        return leave_few(&cover.groups(engine, group).collect::<Vec<_>>(), id, blame);
    }
    let (this, name) = (engine.clone(), group.clone());
    engine.spawn(async move {
        let mut blamed: Option<(Millis, Arc<Group>)> = None;
        for (count, group) in cover.groups(&this, &name).enumerate() {
            if let Some(at) = group.oldest_taken(id).filter(|_| blame)
                && blamed.as_ref().is_none_or(|(before, _)| at < *before)
            {
                blamed = Some((at, group));
            }
            yield_between(count).await;
        }
        for (count, group) in cover.groups(&this, &name).enumerate() {
            let is_blamed = blamed.as_ref().is_some_and(|(_, blamed)| Arc::ptr_eq(blamed, &group));
            group.leave(id, is_blamed);
            yield_between(count).await;
        }
    });
}

/// A member leaves some groups.
fn leave_few(groups: &[Arc<Group>], id: MemberId, blame: bool) {
    // One event is to blame at most, however many topics there are.
    let taken = groups.iter().filter_map(|group| Some((group.oldest_taken(id)?, group)));
    let blamed = taken.min_by_key(|(at, _)| *at).filter(|_| blame).map(|(_, group)| Arc::as_ptr(group));
    for group in groups {
        group.leave(id, blamed == Some(Arc::as_ptr(group)));
    }
}

/// What the subscription of a member that has left ends with; nobody reads it any more.
fn left() -> Error {
    Error::unavailable("this member has left its group")
}

/// Topics that are gone through before other tasks have their turn: about 100 µs.
const TOPICS_PER_TURN: usize = 64;

/// Lets other tasks run now and then, in a loop over topics.
pub(crate) async fn yield_between(count: usize) {
    if count % TOPICS_PER_TURN == TOPICS_PER_TURN - 1 {
        tokio::task::yield_now().await;
    }
}
