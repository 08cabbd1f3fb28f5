//! What the parts of the bus share, and the topics.

use crate::Millis;
use crate::burst::Checked;
use crate::cleaning_time::CleaningTime;
use crate::clock::Clock;
use crate::cluster::{Cluster, Owned, Stay, Tenure, not_owner};
use crate::committer::{Committer, Pending, TopicsInFlight};
use crate::config;
use crate::config::{Config, TopicRules};
use crate::deletion::{Deletions, being_deleted, topic_deleted};
use crate::fan::Fans;
use crate::group::Group;
use crate::group::dispatch::MemberId;
use crate::metrics::{LabelOwner, Metrics};
use crate::payload_checks::PayloadChecks;
use crate::position::refused;
use crate::quota::{Made, Quota, Quotas};
use crate::rates::Rates;
use crate::saver::Saver;
use crate::store::{Bounds, EventStore, Image, Record};
use crate::supervise::Supervisor;
use crate::system::{self, Notes, SystemEntry, SystemTopic};
use crate::topic::{TailBudget, Topic, Waiter};
use crate::topics::{Topics, Walk};
use crate::trace::{self, SpanRecorder};
use futures_core::future::BoxFuture;
use hub_proto::{
    Code, Draft, Error, EventId, GroupName, IdGenerator, NewEvent, Pattern, PublishTrace, Receipt, Result,
    TopicName,
};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::SystemTime;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The inside of a bus.
pub(crate) struct Engine {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub config: Config,
    pub metrics: Arc<Metrics>,
    pub rates: Arc<Rates>,
    pub quotas: Quotas,
    pub notes: Notes,
    pub deletions: Deletions,
    pub committer: Committer,
    /// The topics that subjects have in line; `None` where they cost a commit nothing.
    pub topics_in_flight: Option<Arc<TopicsInFlight>>,
    pub saver: Saver,
    pub supervisor: Supervisor,
    pub tails: Arc<TailBudget>,
    /// What payloads are checked against; `None` if none are.
    pub payload_checks: Option<Arc<dyn PayloadChecks>>,
    /// Where spans of traced events go; `None` if nothing is traced.
    pub spans: Option<Arc<dyn SpanRecorder>>,
    /// Subscriptions that cover several topics. Also the lock under which topics are born.
    pub fans: Fans,
    /// Groups and subscriptions are made, changed and deleted one at a time. Joining an existing group needs no turn.
    pub structure: tokio::sync::Mutex<()>,
    /// No new work; tasks come to their end.
    pub stopping: CancellationToken,
    pub tasks: TaskTracker,
    pub runtime: Handle,
    /// The other hubs on the same store; `None` if this one is alone.
    pub cluster: Option<Cluster>,
    /// What a hub that is alone owns every group under.
    sole: Arc<Tenure>,
    /// Handlers at work: a stop waits for what they have begun before it saves.
    pub handlers: TaskTracker,
    topics: Topics,
    /// Settings of topics by pattern. A topic is born under this lock, so that none misses a change; taken before `topics`.
    rules: RwLock<TopicRules>,
    ids: IdGenerator,
    members: AtomicU64,
    /// The number of the newest topic.
    births: AtomicU64,
    /// Topics that publishers and subscribers brought into being; the hub's own do not count.
    user_topics: AtomicUsize,
    /// Groups, and subscriptions to several topics.
    groups: AtomicUsize,
    /// The time that cleaning goes by.
    pub cleaning_time: CleaningTime,
    /// The wall clock and the steady clock when the hub started.
    started: (Millis, Millis),
}

/// Events that were checked, each with its topic.
pub(crate) type Drafts = Vec<(Arc<Topic>, Draft)>;

/// How an event comes into line.
pub(crate) enum Submission {
    /// It is in line.
    Queued(Pending),
    /// There is no room; this waits for some, and then it is.
    Crowded(BoxFuture<'static, Result<Pending>>),
}

/// Who brings a topic into being.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By<'a> {
    /// A publisher or a subscriber, with the subject that it counts for: limits and quotas hold.
    User(Option<&'a str>),
    /// The hub itself, for dead letters and snapshots.
    Hub,
}

impl Engine {
    #[expect(clippy::too_many_arguments, reason = "the parts that a builder has put together")]
    pub fn new(
        store: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        config: Config,
        ids: IdGenerator,
        metrics: Metrics,
        cluster: Option<Cluster>,
        spans: Option<Arc<dyn SpanRecorder>>,
        payload_checks: Option<Arc<dyn PayloadChecks>>,
    ) -> Arc<Self> {
        let started = (clock.wall(), clock.steady());
        let rules = RwLock::new(config.topics.clone());
        let clock_jump_wait = config.clock_jump_wait;
        let committer = Committer::new(config.queue_bytes, config.publish_timeout, store.lanes());
        let engine = Arc::new(Self {
            store,
            clock,
            metrics: Arc::new(metrics),
            rates: Arc::default(),
            quotas: Quotas::default(),
            notes: Notes::default(),
            deletions: Deletions::default(),
            topics_in_flight: cluster.is_some().then(Arc::default),
            committer,
            saver: Saver::default(),
            supervisor: Supervisor::default(),
            tails: Arc::new(TailBudget::new(config.tail_bytes)),
            payload_checks,
            spans,
            config,
            fans: Fans::default(),
            structure: tokio::sync::Mutex::default(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            cluster,
            sole: Arc::new(Tenure::sole()),
            handlers: TaskTracker::new(),
            topics: Topics::default(),
            rules,
            ids,
            members: AtomicU64::new(1),
            births: AtomicU64::new(0),
            user_topics: AtomicUsize::new(0),
            groups: AtomicUsize::new(0),
            cleaning_time: CleaningTime::new(started.0, started.1, clock_jump_wait),
            started,
        });
        engine.quotas.set(engine.config.quotas.clone());
        engine
    }

    /// Takes over what the store remembers.
    pub fn restore(self: &Arc<Self>, image: Image) {
        let now = self.now_unset();
        for (name, bounds) in image.topics {
            let has_groups_left = self.deletions.has_groups_left(&name);
            let deleted_upto = self.deletions.upto(&name);
            let is_empty = bounds.last <= deleted_upto || bounds.events == 0;
            if deleted_upto > 0 && is_empty && !has_groups_left {
                // It was deleted, and nothing is left that was published to it since. Its last seq alone does not tell: after a power
                // loss the numbering may go on above it.
                continue;
            }
            self.insert(name, bounds, false).set_deleting(has_groups_left);
        }
        for mut stored in image.groups {
            // Whoever was subscribed when the hub went down has until now to come back.
            let record_dirty = stored.record.idle_since.is_none();
            stored.record.idle_since.get_or_insert(now);
            let name = stored.record.topic.clone();
            let topic = self.find(&name).unwrap_or_else(|| self.insert(name, Bounds::default(), false));
            self.add_group(&Group::new(self.clone(), topic, stored, record_dirty));
        }
        self.fans.restore(self, image.subscriptions, now);
    }

    // ---- owning groups ----

    /// Makes sure that this hub owns a group name, for as long as the stay.
    ///
    /// # Errors
    /// `not_owner` if another hub does.
    pub async fn own(self: &Arc<Self>, name: &GroupName) -> Result<Stay> {
        let Some(cluster) = &self.cluster else { return Ok(self.sole.stay(self.clock.clone())) };
        match cluster.own(self, name).await? {
            Owned::Here(stay) => Ok(stay),
            Owned::There(_) => Err(not_owner(name)),
        }
    }

    /// What a group of this name is owned under. One that was lost meanwhile delivers nothing.
    pub fn tenure(&self, name: &str) -> Arc<Tenure> {
        let Some(cluster) = &self.cluster else { return self.sole.clone() };
        cluster.tenure(name).unwrap_or_else(|| {
            let lost = Tenure::sole();
            lost.lose();
            Arc::new(lost)
        })
    }

    /// Whether owners may deliver at this time.
    pub fn serves(&self, now: Millis) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.serves(now))
    }

    /// Makes groups or subscriptions durable, under what they are owned: all of them, or an error.
    pub async fn write(self: &Arc<Self>, records: Vec<Record>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return self.write_under(records, Vec::new()).await };
        let epoch = |record: &Record| {
            let tenure = cluster.tenure(record.group()).filter(|tenure| !tenure.is_lost());
            tenure.map(|tenure| tenure.epoch()).ok_or_else(|| not_owner(record.group()))
        };
        let epochs = records.iter().map(epoch).collect::<Result<Vec<u64>>>()?;
        self.write_under(records, epochs).await
    }

    /// The same, for those who know the epoch of each.
    pub async fn write_under(self: &Arc<Self>, records: Vec<Record>, epochs: Vec<u64>) -> Result<()> {
        self.write_each(records, epochs).await.into_iter().collect()
    }

    /// The same, with a result of its own for each.
    pub async fn write_each(self: &Arc<Self>, records: Vec<Record>, epochs: Vec<u64>) -> Vec<Result<()>> {
        let written = self.committer.write(records, epochs, self.clock.steady()).await;
        let is_lost = |result: &Result<()>| result.as_ref().is_err_and(|error| error.code == Code::NotOwner);
        if let Some(cluster) = &self.cluster
            && written.iter().any(is_lost)
        {
            // Some of it is not ours any more: find out what.
            if let Err(error) = cluster.verify(self).await {
                tracing::warn!(%error, "which groups this hub still owns could not be asked");
            }
        }
        written
    }

    /// Lets go of all groups and subscriptions with these names, which are lost; nothing is stored. Topics without such groups
    /// are not looked at.
    pub fn drop_groups(&self, lost: &[(GroupName, Arc<Tenure>)]) {
        if lost.is_empty() {
            return;
        }
        self.fans.drop_groups(self, &lost.iter().map(|(name, _)| name).collect());
        for (name, tenure) in lost {
            for group in tenure.groups() {
                if self.remove_group(&group) {
                    group.lose(&not_owner(name));
                }
            }
        }
    }

    /// The wall clock as it would be had nobody set it since the hub started: how long a group is idle is measured by it.
    pub fn now_unset(&self) -> Millis {
        let (wall, steady) = self.started;
        wall + (self.clock.steady() - steady)
    }

    // ---- topics ----

    /// A topic that exists.
    pub fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.get(name)
    }

    /// A topic that exists, or an error that says so.
    pub fn known(&self, name: &str) -> Result<Arc<Topic>> {
        self.check_running()?;
        let name = TopicName::readable(name)?;
        self.find(&name).ok_or_else(|| Error::bad_request(format!("topic {name} does not exist")))
    }

    /// A topic, born now if need be.
    pub fn topic(self: &Arc<Self>, name: &TopicName, by: By<'_>) -> Result<Arc<Topic>> {
        match self.find(name) {
            Some(topic) => Ok(topic),
            None => self.fans.birth(self, name, by),
        }
    }

    /// Every topic, by name: what is done to all of them is done in the same order every time.
    pub fn topics(&self) -> Walk<'_> {
        self.topics.walk("")
    }

    /// The hub's own topics that there are.
    pub fn system_topics(&self) -> impl Iterator<Item = Arc<Topic>> {
        SystemTopic::ALL.into_iter().filter_map(|topic| self.find(&topic.name()))
    }

    /// Every topic whose name begins with `prefix`, by name.
    pub fn walk<'a>(&'a self, prefix: &'a str) -> Walk<'a> {
        self.topics.walk(prefix)
    }

    /// At most `limit` topics whose names begin with `prefix`, behind `after`, by name.
    pub fn topics_after(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<Arc<Topic>> {
        self.topics.page(prefix, after, limit)
    }

    /// The number of the newest topic. Under the lock of [`Fans`]: no topic with a higher one has been told of.
    pub fn newest_topic(&self) -> u64 {
        self.births.load(Relaxed)
    }

    /// Refuses one more topic of a user's if there is no room for it. Under the lock of [`Fans`].
    pub fn check_topics(&self) -> Result<()> {
        let max = self.config.max_topics;
        match self.user_topics.load(Relaxed) < max {
            true => Ok(()),
            false => Err(Error::quota_exceeded(format!(
                "there are {max} topics, which is the hub's limit; use an existing one, or have one deleted"
            ))),
        }
    }

    /// Refuses groups on these topics, and `more` subscriptions, if there is no room for them.
    pub fn check_groups(&self, subject: Option<&str>, topics: &[&TopicName], more: usize) -> Result<()> {
        let (there, max, wanted) = (self.groups.load(Relaxed), self.config.max_groups, topics.len() + more);
        if wanted > 0 && there.saturating_add(wanted) > max {
            return Err(Error::quota_exceeded(format!(
                "there are {there} groups, and this would make {wanted} more: the hub's limit is {max}; delete those that \
                 nobody needs"
            )));
        }
        self.quotas.check_groups(subject, topics, more)
    }

    /// Remembers which subject made something.
    pub fn remember(self: &Arc<Self>, made: Made, subject: Option<&str>) {
        let Some(subject) = subject else { return };
        let entry =
            SystemEntry { key: made.key().into(), value: Some(serde_json::json!({ "sub": subject })) };
        if self.quotas.remember(made, subject).1 {
            system::note(self, SystemTopic::Makers, entry);
        }
    }

    /// What a subject made is gone.
    pub fn forget(self: &Arc<Self>, made: &Made) {
        if self.quotas.forget(made) {
            system::note(self, SystemTopic::Makers, SystemEntry { key: made.key().into(), value: None });
        }
    }

    /// Learns which subject made something, or that it is gone.
    pub fn learn_maker(&self, entry: &SystemEntry) {
        let Some(made) = Made::parse(&entry.key) else { return };
        match entry.value.as_ref().and_then(|value| value["sub"].as_str()) {
            Some(subject) => {
                let topic = if let Made::Topic(name) = &made { self.find(name) } else { None };
                let (before, is_new) = self.quotas.remember(made, subject);
                if let Some(topic) = topic.filter(|_| is_new) {
                    self.quotas.move_topic(&topic.name, topic.counted().0, before.as_ref());
                    self.metrics.set_topic_owner(&topic.name, &LabelOwner::Subject(subject.into()));
                }
            }
            None => drop(self.quotas.forget(&made)),
        }
    }

    /// A group or a subscription to several topics is there.
    pub fn count_group(&self) {
        self.groups.fetch_add(1, Relaxed);
    }

    /// It is gone.
    pub fn uncount_group(&self) {
        self.groups.fetch_sub(1, Relaxed);
    }

    /// Adds a group to its topic.
    pub fn add_group(&self, group: &Arc<Group>) {
        // Before it can be found: a name that is lost from here on is lost with this group.
        group.tenure.add_group(group);
        let before = group.topic.groups.write().insert(group.name.clone(), group.clone());
        match before {
            None => {
                self.count_group();
                self.quotas.add_group(&group.topic.name, group.maker.as_ref());
            }
            Some(before) => self.metrics.forget_group(&before.metrics),
        }
        if group.tenure.is_lost() {
            // Its name was lost on the way here, and whoever lets go of its groups may have been by already.
            self.remove_group(group);
            group.delete(&not_owner(&group.name));
        }
    }

    /// Takes a group out of its topic. False if it is not there, though another one of its name may be.
    pub fn remove_group(&self, group: &Group) -> bool {
        group.tenure.remove_group(group);
        {
            let mut groups = group.topic.groups.write();
            if !groups.get(&group.name).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), group)) {
                return false;
            }
            groups.remove(&group.name);
        }
        self.metrics.forget_group(&group.metrics);
        self.rates.forget_group(&group.topic.name, &group.name);
        self.uncount_group();
        self.quotas.remove_group(&group.topic.name, group.maker.as_ref());
        true
    }

    /// Adds a topic that is not there. Only [`Fans::birth`] and [`restore`](Self::restore) call it. `is_remote`: another hub
    /// made the topic, and for which subject may not be known yet.
    pub fn insert(&self, name: TopicName, bounds: Bounds, is_remote: bool) -> Arc<Topic> {
        let rules = self.rules.read();
        let metrics = self.metrics.topic(&name, self.label_owner(&rules, &name, is_remote));
        let settings = config::settings(&rules, &name);
        let number = self.births.fetch_add(1, Relaxed) + 1;
        let deleted_upto = self.deletions.upto(&name);
        let topic = Arc::new(Topic::new(name, number, settings, metrics, bounds, deleted_upto));
        if is_users(&topic.name) {
            self.user_topics.fetch_add(1, Relaxed);
            self.quotas.add_topic(&topic.name);
        }
        self.topics.insert(&topic);
        topic
    }

    /// Drops a topic that was deleted. `tell_others`: who made it is forgotten by all hubs.
    pub fn remove_topic(self: &Arc<Self>, topic: &Arc<Topic>, tell_others: bool) {
        // Nothing is born meanwhile, so its name is free only when nothing of it is left.
        let waiters = self.fans.still(|| {
            if !self.topics.remove(topic) {
                return Vec::new();
            }
            for group in topic.groups.read().values() {
                // Another hub serves it by now, or will find it deleted.
                group.delete(&topic_deleted(&topic.name));
            }
            let groups = std::mem::take(&mut *topic.groups.write());
            for group in groups.values() {
                group.tenure.remove_group(group);
                self.uncount_group();
                self.quotas.remove_group(&topic.name, group.maker.as_ref());
                self.metrics.forget_group(&group.metrics);
                self.rates.forget_group(&topic.name, &group.name);
            }
            if is_users(&topic.name) {
                self.user_topics.fetch_sub(1, Relaxed);
                self.quotas.remove_topic(&topic.name, topic.counted().0);
                let made = Made::Topic(topic.name.clone());
                match tell_others {
                    true => self.forget(&made),
                    false => drop(self.quotas.forget(&made)),
                }
            }
            self.metrics.forget_topic(&topic.name);
            self.rates.forget_topic(&topic.name);
            topic.set_removed()
        });
        waiters.into_iter().for_each(Waiter::wake);
    }

    /// Whose share the label of a topic is taken from. A derived topic counts for the subject of its source.
    fn label_owner(&self, rules: &TopicRules, name: &TopicName, is_remote: bool) -> LabelOwner {
        let root = name.root();
        let is_named = |pattern: &Pattern| pattern.is_literal() && pattern.as_str() == root;
        if name.is_system() || rules.iter().any(|(pattern, _)| is_named(pattern)) {
            return LabelOwner::Reserve;
        }
        let maker = TopicName::stored(root).ok().and_then(|root| self.quotas.maker_of(&root));
        match maker {
            None if is_remote => LabelOwner::UnknownSubject,
            maker => LabelOwner::of(maker.as_ref()),
        }
    }

    /// Other settings for the topics that there are and those to come.
    pub fn set_topics(&self, topics: TopicRules) {
        let mut rules = self.rules.write();
        for topic in self.topics() {
            topic.set(config::settings(&topics, &topic.name));
        }
        *rules = topics;
    }

    /// Other quotas, for what there is and what comes.
    pub fn set_quotas(&self, quotas: Vec<Quota>) {
        // Nothing is born meanwhile.
        self.fans.still(|| {
            self.quotas.set(quotas);
            for topic in self.topics() {
                let (bytes, _) = topic.counted();
                let groups = topic.groups.read().len();
                self.quotas.count_topic(&topic.name, groups, bytes);
            }
        });
    }

    // ---- publishing ----

    /// Checks an event and builds its bytes, once.
    pub fn draft(
        self: &Arc<Self>,
        mut event: NewEvent,
        subject: Option<&str>,
    ) -> Result<(Arc<Topic>, Draft)> {
        self.check_running()?;
        event.check(self.config.max_payload)?;
        let found = self.find(&event.topic);
        // What is refused brings no topic into being.
        self.check_payload(&event.topic, found.as_deref(), &event.payload)?;
        let topic = match found {
            Some(topic) => topic,
            None => self.topic(&event.topic, By::User(subject))?,
        };
        if topic.is_deleting() {
            return Err(being_deleted(&topic.name));
        }
        if topic.is_full() {
            return Err(Error::quota_exceeded(format!(
                "topic {} keeps as many bytes as a quota allows; have events removed or the quota raised",
                topic.name
            )));
        }
        // One name for all events of a topic: they are kept for a while.
        event.topic = topic.name.clone();
        let now = self.clock.wall();
        let id = event.options.id.unwrap_or_else(|| self.ids.next(now));
        let ts = event.options.ts.unwrap_or(now);
        let traced = self.spans.as_ref().and_then(|_| trace::sampled(&event.options.headers));
        let mut draft = Draft::encode(event, id, ts);
        draft.set_relaxed(topic.is_relaxed());
        if let Some(context) = traced {
            draft.set_trace(PublishTrace { context, received: SystemTime::now() });
        }
        Ok((topic, draft))
    }

    /// Puts an event in line, and sets it off.
    pub fn publish(self: &Arc<Self>, event: NewEvent) -> Result<Submission> {
        let (topic, draft) = self.draft(event, None)?;
        let now = self.clock.steady();
        if let Ok(room) = self.committer.try_room(&topic, draft.len()) {
            return self.committer.publish(room, topic, draft, now).map(Submission::Queued);
        }
        let (engine, event) = (self.clone(), (topic, draft));
        Ok(Submission::Crowded(Box::pin(async move {
            let room = engine.committer.wait_for_room(std::slice::from_ref(&event)).await;
            let (topic, draft) = event;
            let room = room.map_err(|error| error.with_id(draft.id()))?;
            engine.committer.publish(room, topic, draft, now)
        })))
    }

    /// Each event has a result of its own; what is bad in itself does not hold up the others.
    pub async fn publish_all(self: &Arc<Self>, events: Vec<NewEvent>) -> Vec<Result<Receipt>> {
        let (drafts, checked) = self.drafts(events.into_iter().map(Ok).collect(), None);
        let receipts = self.committer.publish_all(drafts, self.clock.steady()).await;
        checked.merge(receipts)
    }

    /// The drafts of good events, and the errors of bad ones in their places.
    pub fn drafts(
        self: &Arc<Self>,
        events: Vec<Result<NewEvent>>,
        subject: Option<&str>,
    ) -> (Drafts, Checked) {
        let mut errors = Vec::with_capacity(events.len());
        let mut drafts = Vec::with_capacity(events.len());
        for event in events {
            match event.and_then(|event| self.draft(event, subject)) {
                Ok(draft) => {
                    drafts.push(draft);
                    errors.push(None);
                }
                Err(error) => errors.push(Some(error)),
            }
        }
        (drafts, Checked::new(errors))
    }

    /// An id for a record of the hub's own.
    pub fn new_id(&self) -> EventId {
        self.ids.next(self.clock.wall())
    }

    // ---- tasks, members ----

    pub fn new_member(&self) -> MemberId {
        self.members.fetch_add(1, Relaxed)
    }

    /// Runs something that must not be cut off in the middle: it goes on if the caller does not wait for it any longer.
    pub async fn unbroken<T: Send + 'static>(
        &self,
        act: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.tasks.spawn_on(act, &self.runtime).await;
        done.unwrap_or_else(|_| Err(stopped()))
    }

    /// Starts a task on the runtime that the bus was opened on, from any thread.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Refuses what comes after a stop.
    pub fn check_running(&self) -> Result<()> {
        match self.stopping.is_cancelled() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }

    /// Ends every subscription. What members hold is given back: from here on nothing can be settled.
    pub fn end_members(&self) {
        self.fans.end_members(&stopped());
        for topic in self.topics() {
            let groups: Vec<_> = topic.groups.read().values().cloned().collect();
            groups.iter().for_each(|group| group.end_members(&stopped()));
        }
    }

    /// Saves what is unsaved, commits what is queued and closes the store.
    pub async fn close(self: &Arc<Self>) -> Result<()> {
        let saved = self.saver.flush(self).await;
        if let Some(cluster) = &self.cluster
            && saved.is_ok()
            && let Err(error) = cluster.leave().await
        {
            tracing::warn!(%error, "groups could not be given up: other hubs take over when they find this one dead");
        }
        if let Some(cluster) = &self.cluster {
            cluster.over.cancel();
        }
        self.committer.close();
        self.tasks.close();
        self.tasks.wait().await;
        saved.and(self.store.close().await.map_err(refused))
    }

    /// Ends everything at once and lets go of the circle engine, topic, group, engine.
    pub fn abandon(&self) {
        self.stopping.cancel();
        if let Some(cluster) = &self.cluster {
            cluster.over.cancel();
        }
        self.committer.close();
        self.tasks.close();
        self.fans.end_members(&stopped());
        self.fans.clear();
        self.tails.clear();
        self.saver.clear();
        self.metrics.forget_store();
        for topic in self.topics.clear() {
            let groups = std::mem::take(&mut *topic.groups.write());
            for group in groups.values() {
                group.delete(&stopped());
            }
        }
    }
}

/// Whether a topic is neither derived nor the hub's own.
fn is_users(name: &TopicName) -> bool {
    name.derived().is_none() && !name.is_system()
}

/// What a subscription of a hub that stopped ends with.
pub(crate) fn stopped() -> Error {
    Error::unavailable("the hub has stopped; subscribe again when it is back")
}
