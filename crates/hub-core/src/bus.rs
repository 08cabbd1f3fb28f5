//! The bus: the handle a program holds.

mod letters;
mod looking;
mod tenants;

use crate::Millis;
use crate::burst::{Added, Burst};
use crate::cleaner;
use crate::cleaning_time;
use crate::clock::{Clock, SystemClock};
use crate::cluster::{Cluster, ClusterConfig, Elsewhere, Owned, Owner};
use crate::committer::here::Thread;
use crate::committer::{Comparer, Left, Target};
use crate::config::{Config, TopicSettings, check_topics};
use crate::deletion;
use crate::engine::{By, Engine};
use crate::group::options::GroupOptions;
use crate::group::status::GroupStatus;
use crate::in_order::InOrder;
use crate::metrics::Metrics;
use crate::payload_checks::{self, PayloadChecks};
use crate::position::{Cursor, refused, resolve};
use crate::publish::{Publish, Publishing};
use crate::quota;
use crate::store::memory::MemoryStore;
use crate::store::{
    Bounds, Cleaned, EventStore, Health, HubId, HubInfo, PinnedFiles, ReadLimit, SubscriptionRecord,
};
use crate::subscribe::{Doomed, Subscribe, Target as SubscribeTarget, check_label, delete};
use crate::supervise;
use crate::system::{self, SystemTopic};
use crate::trace::SpanRecorder;
use futures_util::FutureExt;
use hub_proto::{
    Error, Event, GroupName, IdGenerator, Key, NewEvent, Pattern, Payload, Position, Receipt, Result,
    TopicName, limits,
};
use prometheus_client::registry::Registry;
use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// A durable event bus in this process. Clones are handles to the same bus.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
/// use hub_core::{Bus, Position};
/// use serde_json::json;
///
/// let bus = Bus::in_memory().await?;
/// let mut orders = bus.subscribe("orders.*").group("billing").from(Position::Earliest).open().await?;
///
/// bus.publish("orders.created", json!({"order": 17})).key("order-17").await?;
///
/// let delivery = orders.recv().await?;
/// assert_eq!(delivery.event().payload(), br#"{"order":17}"#);
/// delivery.ack()?;
/// # bus.stop().await }
/// ```
///
/// A program that must not lose what its groups have done since the last save (at most 200 ms) calls
/// [`stop`](Self::stop); dropping the last handle is like a crash.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    /// How [`Bus::stop`] went.
    stopped: tokio::sync::OnceCell<Result<()>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

/// A bus in the making: [`Bus::builder`].
#[must_use = "a builder does nothing until it is opened"]
pub struct BusBuilder {
    store: Arc<dyn EventStore>,
    clock: Arc<dyn Clock>,
    config: Config,
    ids: IdGenerator,
    cluster: Option<ClusterConfig>,
    spans: Option<Arc<dyn SpanRecorder>>,
    payload_checks: Option<Arc<dyn PayloadChecks>>,
}

impl BusBuilder {
    /// One of several hubs over the same store, which has to be a [shared](EventStore::shared) one. Groups whose name
    /// another hub owns are not served here: see [`Bus::owner_of`].
    pub fn cluster(mut self, config: ClusterConfig) -> Self {
        self.cluster = Some(config);
        self
    }

    /// Where time comes from; the operating system unless set.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Settings of topics and bounds of the engine.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Where ids come from; random unless set.
    pub fn ids(mut self, ids: IdGenerator) -> Self {
        self.ids = ids;
        self
    }

    /// Where spans of events that belong to a trace go; nothing is traced unless set. See [`trace`](crate::trace).
    pub fn spans(mut self, recorder: Arc<dyn SpanRecorder>) -> Self {
        self.spans = Some(recorder);
        self
    }

    /// What payloads are checked against before they are in line; nothing unless set. `hub-schema` has JSON Schemas.
    pub fn payload_checks(mut self, checks: Arc<dyn PayloadChecks>) -> Self {
        self.payload_checks = Some(checks);
        self
    }

    /// Opens the bus with a registry of its own.
    pub async fn open(self) -> Result<Bus> {
        self.open_with(&mut Registry::default()).await
    }

    /// Opens the bus and registers its metrics with `registry`. Needs a tokio runtime.
    ///
    /// A registry forgets nothing, and the names are the same for every bus: each needs a registry of its own, or a
    /// sub-registry with a prefix of its own.
    pub async fn open_with(self, registry: &mut Registry) -> Result<Bus> {
        self.config.check()?;
        let (wanted, name) = (self.config.max_payload, self.store.name());
        if let Some(most) = self.store.max_payload().filter(|most| wanted > *most) {
            return Err(Error::bad_request(format!(
                "max_payload is {wanted} bytes; a store of the kind {name} takes at most {most}"
            )));
        }
        let cluster = match self.cluster {
            Some(config) => {
                let shared = self.store.shared().ok_or_else(|| {
                    Error::bad_request(format!("a {} store is for one hub only", self.store.name()))
                })?;
                Some(Cluster::new(shared, config, self.clock.wall()))
            }
            None => None,
        };
        let mut image = self.store.load().await.map_err(refused)?;
        let metrics = Metrics::register(registry, &self.store, self.config.metric_labels);
        let checks = self.payload_checks;
        let engine = Engine::new(
            self.store,
            self.clock,
            self.config,
            self.ids,
            metrics,
            cluster,
            self.spans,
            checks.clone(),
        );
        if let Some(cluster) = &engine.cluster {
            // Groups come when they are owned.
            image.groups.clear();
            image.subscriptions.clear();
            cluster.beat(&engine).await?;
        }
        if image.topics.iter().any(|(name, _)| *name == SystemTopic::Makers.name()) {
            // Before anything is counted that somebody made.
            let makers = system::load(&engine, SystemTopic::Makers).await?;
            makers.iter().for_each(|entry| engine.learn_maker(entry));
        }
        if image.topics.iter().any(|(name, _)| *name == SystemTopic::Deleted.name()) {
            deletion::load(&engine).await?;
        }
        if let Some(checks) = &checks
            && image.topics.iter().any(|(name, _)| *name == SystemTopic::Schemas.name())
        {
            payload_checks::load(&engine, &**checks).await?;
        }
        let newest =
            image.topics.iter().map(|(_, bounds)| bounds.last_committed).max().filter(|time| *time > 0);
        let trusted = match image.topics.iter().any(|(name, _)| *name == SystemTopic::Clock.name()) {
            true => cleaning_time::load(&engine).await?.or(newest),
            false => newest,
        };
        if let Some(trusted) = trusted {
            engine.cleaning_time.restore(trusted, engine.clock.steady());
        }
        engine.restore(image);
        engine.metrics.show_groups(&engine);
        let bus =
            Bus { inner: Arc::new(Inner { engine: engine.clone(), stopped: tokio::sync::OnceCell::new() }) };
        start(&engine);
        if let Some(checks) = checks.filter(|_| engine.cluster.is_some()) {
            payload_checks::follow(&engine, &checks);
        }
        Ok(bus)
    }
}

/// Starts what runs for as long as the bus does.
fn start(engine: &Arc<Engine>) {
    let target = Arc::new(Target {
        store: engine.store.clone(),
        clock: engine.clock.clone(),
        tails: engine.tails.clone(),
        metrics: engine.metrics.clone(),
        rates: engine.rates.clone(),
        is_shared: engine.cluster.is_some(),
        comparer: Comparer::new(engine.runtime.clone()),
        spans: engine.spans.clone(),
    });
    let (committing, to) = (engine.clone(), target.clone());
    // Not cut off when the hub stops: it ends when its queue is closed and empty.
    engine.spawn(async move {
        let commits = AssertUnwindSafe(commit_until_closed(&committing, &to)).catch_unwind().await;
        if let Err(panic) | Ok(Err(panic)) = commits {
            committing.metrics.task_panicked("committer");
            committing.supervisor.fail("committer", &*panic);
        }
        committing.committer.is_over();
    });
    // Ends with it.
    let (watching, to) = (engine.clone(), target.clone());
    engine.spawn(async move { watching.committer.watch(&to).await });
    supervise::run(engine, "task that resolves failed commits", move |engine| {
        let target = target.clone();
        async move {
            let revive = |name: &TopicName, bounds: Bounds| {
                let is_left = bounds.last > engine.deletions.upto(name);
                is_left.then(|| engine.topic(name, By::Hub).ok()).flatten()
            };
            engine.committer.clear_up(&target, revive).await;
        }
    });
    supervise::run(engine, "saver", |engine| async move { engine.saver.run(&engine).await });
    supervise::run(engine, "cleaner", |engine| async move { cleaner::run(&engine).await });
    supervise::run(
        engine,
        "count of stored bytes",
        |engine| async move { quota::count_bytes(&engine).await },
    );
    if engine.cluster.is_none() {
        supervise::run(engine, "deletion of topics", |engine| async move { deletion::resume(&engine).await });
        return;
    }
    supervise::run(engine, "news of other hubs", |engine| async move {
        if let Some(cluster) = &engine.cluster {
            cluster.follow(&engine).await;
        }
    });
    supervise::run(engine, "news of makers", |engine| async move { quota::follow_makers(&engine).await });
    supervise::run(engine, "news of deletions", |engine| async move { deletion::follow(&engine).await });
    Cluster::start(engine);
}

/// Commits until the queue is closed and empty.
///
/// # Errors
/// The panic of the committer's thread.
async fn commit_until_closed(engine: &Arc<Engine>, target: &Arc<Target>) -> Result<(), Box<dyn Any + Send>> {
    let mut thread: Option<Thread> = None;
    // Dropped before the thread, also if the runtime goes away: the thread ends then, and is waited for.
    let _end = Abandoned(engine.clone());
    while engine.committer.run(target).await == Left::Crowd {
        if thread.is_none() {
            let (there, to) = (engine.clone(), target.clone());
            // Without a thread to be had it goes on as a task.
            thread = Thread::start(move || there.committer.run_here(&to)).ok();
        }
        let turn = match &thread {
            Some(thread) => thread.turn().await,
            None => Some(Left::Crowd),
        };
        match turn {
            Some(Left::Crowd) => {}
            Some(Left::Closed) => break,
            None => return thread.and_then(Thread::join).map_or(Ok(()), Err),
        }
    }
    Ok(())
}

/// Nobody commits any more, once this is dropped.
struct Abandoned(Arc<Engine>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.committer.abandon();
    }
}

impl Bus {
    /// A bus over `store`, still to be opened.
    pub fn builder(store: impl EventStore) -> BusBuilder {
        Self::builder_over(Arc::new(store))
    }

    /// The same, for a store that is shared already.
    pub fn builder_over(store: Arc<dyn EventStore>) -> BusBuilder {
        let (clock, config, ids) = (Arc::new(SystemClock::new()), Config::default(), IdGenerator::new());
        BusBuilder { store, clock, config, ids, cluster: None, spans: None, payload_checks: None }
    }

    /// A bus over a new [`MemoryStore`].
    pub async fn in_memory() -> Result<Self> {
        Self::builder(MemoryStore::new()).open().await
    }

    // ---- publishing ----

    /// Publishes an event. Say more about it with the methods of [`Publish`], then await it.
    ///
    /// The answer comes when the event is as safe as [`Receipt::durable`] says.
    pub fn publish(&self, topic: &str, payload: impl Into<Payload>) -> Publish<'_> {
        Publish::new(self, topic, payload.into())
    }

    /// Publishes an event that was put together elsewhere.
    pub fn send(&self, event: NewEvent) -> Publishing<'_> {
        Publishing::new(Cow::Borrowed(self), Ok(event))
    }

    /// Publishes several events with one commit. Not atomic: each has a result of its own, in the order given.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let event = |n: u32| Ok::<_, Error>(NewEvent::new("t".parse()?, Payload::of(&n)?));
    /// let results = bus.publish_batch(vec![event(1)?, event(2)?.with_key("k")]).await;
    /// assert_eq!(results[1].as_ref().map(|receipt| receipt.seq), Ok(2));
    /// # bus.stop().await }
    /// ```
    pub async fn publish_batch(&self, events: Vec<NewEvent>) -> Vec<Result<Receipt>> {
        self.engine().publish_all(events).await
    }

    /// For those who have several events at a time, but not at once: what is added to a burst is put in line together when
    /// it is sent, and has its receipts together. Bursts that are sent one after the other are committed in that order, and
    /// so are the events in them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut burst = bus.burst();
    /// let mut receipts = Vec::new();
    /// for n in 1..=3 {
    ///     let event = NewEvent::new("t".parse()?, Payload::of(&n)?);
    ///     if let Added::Crowded(room) = burst.add(event)? {
    ///         // What was added before comes before it.
    ///         receipts.extend(burst.send());
    ///         receipts.push(room.await);
    ///     }
    /// }
    /// receipts.extend(burst.send());
    /// for (n, receipt) in (1..).zip(receipts.remove(0).await) {
    ///     assert_eq!(receipt?.seq, n);
    /// }
    /// # bus.stop().await }
    /// ```
    pub fn burst(&self) -> Burst {
        Burst::new(self.engine().clone())
    }

    /// Publishes events in their order, none without those before it: at the first that fails it stops. [`InOrder::send`]
    /// publishes them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let event = |topic: &str| Ok::<_, Error>(NewEvent::new(topic.parse()?, Payload::of(&1)?));
    /// let batch = vec![event("t")?, event("dlq.t")?, event("t")?];
    /// let results = bus.in_order(batch).send().await.results().await;
    /// assert!(results[0].is_ok());
    /// assert_eq!(results[1].as_ref().map_err(|error| error.code), Err(Code::Forbidden));
    /// assert_eq!(results.len(), 2, "the third was not published");
    /// # bus.stop().await }
    /// ```
    pub fn in_order(&self, events: Vec<NewEvent>) -> InOrder {
        InOrder::new(self.engine().clone(), events)
    }

    /// Publishes an event on behalf of a subject: a topic that it brings into being counts for the subject's [`Quota`](crate::Quota).
    pub async fn send_for(&self, subject: &str, event: NewEvent) -> Result<Receipt> {
        let mut burst = self.burst();
        burst.set_subject(subject);
        let sent = match burst.add(event)? {
            Added::Taken => burst.send(),
            Added::Crowded(room) => Some(room.await),
        };
        let lost = || Error::internal("an event was not answered");
        sent.ok_or_else(lost)?.await.into_iter().next().unwrap_or_else(|| Err(lost()))
    }

    // ---- subscribing ----

    /// Subscribes to a topic, or to a pattern: `*` is one segment, `**` any number of them.
    pub fn subscribe(&self, topic_or_pattern: &str) -> Subscribe {
        Subscribe::new(self.engine().clone(), SubscribeTarget::Written(topic_or_pattern.to_owned()))
    }

    /// Subscribes to several topics under one label.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut both = bus.subscribe_all("both", ["orders", "returns"]).group("ledger").open().await?;
    /// bus.publish("returns", json!({"order": 17})).await?;
    /// assert_eq!(both.recv().await?.event().topic().as_str(), "returns");
    /// # bus.stop().await }
    /// ```
    pub fn subscribe_all<'a>(&self, label: &str, topics: impl IntoIterator<Item = &'a str>) -> Subscribe {
        let topics = topics.into_iter().map(str::to_owned).collect();
        Subscribe::new(self.engine().clone(), SubscribeTarget::List(label.to_owned(), topics))
    }

    // ---- other hubs ----

    /// Which hub serves the groups of this name. One that nobody serves becomes this hub's.
    pub async fn owner_of(&self, group: &str) -> Result<Owner> {
        let Some(cluster) = &self.engine().cluster else { return Ok(Owner::Here) };
        Ok(match cluster.own(self.engine(), &GroupName::parse(group)?).await? {
            Owned::Here(_) => Owner::Here,
            Owned::There(hub) => Owner::There(hub),
        })
    }

    /// The hubs on this store that are alive, this one among them; empty for a hub that is alone.
    pub fn hubs(&self) -> Vec<HubInfo> {
        self.engine().cluster.as_ref().map(Cluster::alive).unwrap_or_default()
    }

    /// This hub, if it is one of several.
    pub fn hub(&self) -> Option<&HubInfo> {
        self.engine().cluster.as_ref().map(|cluster| &cluster.me)
    }

    /// Waits until a hub is dead, or has left.
    pub fn gone(&self, hub: HubId) -> impl Future<Output = ()> + Send + 'static {
        let departures = self.engine().cluster.as_ref().map(Cluster::departures);
        // Who waits keeps no bus alive.
        let engine = Arc::downgrade(self.engine());
        let is_alive = move || {
            let engine = engine.upgrade();
            engine.is_some_and(|engine| engine.cluster.as_ref().is_some_and(|cluster| cluster.is_alive(hub)))
        };
        async move {
            let Some(mut departures) = departures else { return };
            // Looked at after listening, so that no departure is missed.
            while is_alive() && departures.changed().await.is_ok() {}
        }
    }

    /// The groups on these topics that this hub does not serve, as they were last saved, by topic and name.
    pub async fn elsewhere(&self, topics: &[TopicName]) -> Result<Vec<Elsewhere>> {
        let engine = self.engine();
        match &engine.cluster {
            Some(cluster) => cluster.elsewhere(engine, topics).await.map_err(refused),
            None => Ok(Vec::new()),
        }
    }

    /// This hub is about to stop: if it is one of several, it delivers nothing more to groups, and takes none over. To be
    /// called before members are told to leave, so that nobody here gets what they give back: they may still have it in
    /// hand when they come to the next owner.
    pub fn wind_down(&self) {
        if let Some(cluster) = &self.engine().cluster {
            cluster.wind_down();
        }
    }

    /// This hub is about to stop: groups that have no members any more are saved and given up, so that other hubs go on
    /// with them at once. [Winds down](Self::wind_down), too. To be called until the members are gone;
    /// [`stop`](Self::stop) gives up the rest.
    pub async fn hand_over(&self) {
        let engine = self.engine();
        if let Some(cluster) = &engine.cluster {
            cluster.hand_over(engine).await;
        }
    }

    // ---- groups ----

    /// The floor of a group; `None` if there is no such group.
    pub async fn get_cursor(&self, topic: &str, group: &str) -> Result<Option<Cursor>> {
        let engine = self.engine();
        let Some((topic, group)) =
            engine.find(topic).and_then(|topic| Some((topic.clone(), topic.group(group)?)))
        else {
            return Ok(None);
        };
        let seq = group.floor();
        let event = match (seq, topic.get(seq)) {
            (0, _) => None,
            (_, Some(event)) => Some(event),
            (_, None) => {
                let read = engine.store.read(&topic.name, seq - 1, ReadLimit { events: 1, bytes: 1 }).await;
                read.map_err(refused)?.into_iter().next().filter(|event| event.seq() == seq)
            }
        };
        let (last_id, last_ts) =
            (event.as_ref().map(|event| event.id()), event.as_ref().map(|event| event.ts()));
        Ok(Some(Cursor { topic: topic.name.clone(), seq, last_id, last_ts }))
    }

    /// Places a group anew. Its leases end, and acks above the floor and failures are forgotten. Answers the new floor.
    ///
    /// After `unavailable` the group is placed all the same, and that is saved when the store answers again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// for n in 1..=3 { bus.publish("t", json!(n)).await?; }
    /// let mut group = bus.subscribe("t").group("g").open().await?; // from latest: nothing of that
    /// bus.set_cursor("t", "g", Position::AfterSeq(1)).await?;
    /// assert_eq!(group.recv().await?.event().seq(), 2);
    /// # bus.stop().await }
    /// ```
    pub async fn set_cursor(&self, topic: &str, group: &str, to: Position) -> Result<u64> {
        let engine = self.engine();
        let topic = engine.known(topic)?;
        let group = GroupName::parse(group)?;
        let _stay = engine.own(&group).await?;
        let found = topic.group(&group);
        let group =
            found.ok_or_else(|| Error::bad_request(format!("topic {} has no group {group}", topic.name)))?;
        let seq = resolve(to, engine, &topic).await?;
        group.set_cursor(seq);
        engine.saver.flush(engine).await?;
        Ok(seq)
    }

    /// Deletes the group of its own on a topic, or the subscription to a pattern (a text with `*`) with all its groups.
    /// Members' subscriptions end. Answers how many groups went.
    pub async fn delete_group(&self, topic_or_pattern: &str, group: &str) -> Result<usize> {
        let what = match topic_or_pattern.contains('*') {
            true => {
                Pattern::parse(topic_or_pattern).map(|_| Doomed::Subscription(topic_or_pattern.to_owned()))?
            }
            false => Doomed::Group(TopicName::readable(topic_or_pattern)?),
        };
        delete(self.engine(), what, &GroupName::parse(group)?, false).await
    }

    /// Deletes the subscription to the list of topics with this label, with all its groups.
    pub async fn delete_list(&self, label: &str, group: &str) -> Result<usize> {
        check_label(label)?;
        delete(self.engine(), Doomed::Subscription(label.to_owned()), &GroupName::parse(group)?, false).await
    }

    /// How the groups of a topic are doing, by name.
    pub fn groups(&self, topic: &str) -> Vec<GroupStatus> {
        let groups =
            self.engine().find(topic).map(|topic| topic.groups.read().values().cloned().collect::<Vec<_>>());
        let mut status: Vec<_> = groups.into_iter().flatten().map(|group| group.status()).collect();
        status.sort_unstable_by(|a, b| a.group.cmp(&b.group));
        status
    }

    /// How one group is doing.
    pub fn group(&self, topic: &str, group: &str) -> Option<GroupStatus> {
        Some(self.engine().find(topic)?.group(group)?.status())
    }

    /// The names of a topic's groups, in their order; cheaper than [`groups`](Self::groups), which looks at each.
    pub fn group_names(&self, topic: &str) -> Vec<GroupName> {
        self.engine()
            .find(topic)
            .map(|topic| topic.groups.read().keys().cloned().collect())
            .unwrap_or_default()
    }

    /// The stored options of a group.
    pub fn group_options(&self, topic: &str, group: &str) -> Option<GroupOptions> {
        Some(self.engine().find(topic)?.group(group)?.record().options)
    }

    /// The subscription with this pattern, or with this label of a list.
    pub fn subscription(&self, label_or_pattern: &str, group: &str) -> Option<SubscriptionRecord> {
        let group = GroupName::parse(group).ok()?;
        self.engine().fans.with(label_or_pattern, &group, |fan| fan.record.clone())
    }

    /// Subscriptions to patterns and lists.
    pub fn subscriptions(&self) -> Vec<SubscriptionRecord> {
        self.engine().fans.records()
    }

    // ---- reading ----

    /// Every topic, by name.
    pub fn topics(&self) -> Vec<TopicName> {
        self.engine().topics().map(|topic| topic.name.clone()).collect()
    }

    /// At most `limit` topics whose names begin with `prefix`, behind `after`, by name: for lists that are read page by page.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// for topic in ["a", "b", "c"] { bus.publish(topic, json!(1)).await?; }
    /// let page: Vec<String> = bus.topics_after("", Some("a"), 1).iter().map(ToString::to_string).collect();
    /// assert_eq!(page, ["b"]);
    /// # bus.stop().await }
    /// ```
    pub fn topics_after(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<TopicName> {
        self.engine().topics_after(prefix, after, limit).iter().map(|topic| topic.name.clone()).collect()
    }

    /// Whether there is such a topic.
    pub fn has_topic(&self, topic: &str) -> bool {
        self.engine().find(topic).is_some()
    }

    /// The extent of a topic's log.
    pub async fn bounds(&self, topic: &str) -> Result<Bounds> {
        let topic = self.engine().known(topic)?;
        self.engine().store.bounds(&topic.name).await.map_err(refused)
    }

    /// Reads events from a position on, oldest first; at most `limit`, 10,000 at most and 1,000 if `None`. It stops at
    /// about 64 MiB: who wants more goes on after the last one's seq.
    pub async fn scan(&self, topic: &str, from: Position, limit: Option<usize>) -> Result<Vec<Arc<Event>>> {
        let limit = checked_limit(limit)?;
        let engine = self.engine();
        let topic = engine.known(topic)?;
        let mut after = resolve(from, engine, &topic).await?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        while events.len() < limit && bytes < MAX_SCAN_BYTES {
            let rest = ReadLimit { events: limit - events.len(), bytes: 4 << 20 };
            let mut block = engine.store.read(&topic.name, after, rest).await.map_err(refused)?;
            let Some(last) = block.last() else { break };
            after = last.seq();
            bytes += block.iter().map(|event| event.json().len()).sum::<usize>();
            events.append(&mut block);
        }
        Ok(events)
    }

    /// Reads one block of events after a seq, oldest first: for readers of a whole topic who hold no more than a block at a
    /// time, where [`scan`](Self::scan) may bring 64 MiB. Empty at the end of the log.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use hub_core::store::ReadLimit; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// for n in 1..=3 { bus.publish("t", json!(n)).await?; }
    /// let block = bus.read("t", 1, ReadLimit { events: 1, bytes: 64 << 10 }).await?;
    /// assert_eq!(block[0].seq(), 2);
    /// # bus.stop().await }
    /// ```
    pub async fn read(&self, topic: &str, after: u64, limit: ReadLimit) -> Result<Vec<Arc<Event>>> {
        let topic = self.engine().known(topic)?;
        self.engine().store.read(&topic.name, after, limit).await.map_err(refused)
    }

    /// The seq after which reading from a position begins.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let second = { bus.publish("t", json!(1)).await?; bus.publish("t", json!(2)).await? };
    /// assert_eq!(bus.resolve("t", Position::AfterId(second.id)).await?, 2);
    /// # bus.stop().await }
    /// ```
    ///
    /// # Errors
    /// `unknown_id` for an id that the topic does not have, `bad_request` for a seq beyond its end.
    pub async fn resolve(&self, topic: &str, position: Position) -> Result<u64> {
        let topic = self.engine().known(topic)?;
        resolve(position, self.engine(), &topic).await
    }

    /// The newest event of each key, by seq; `None` where there is none or it is a tombstone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// bus.publish("process.state", json!("up")).key("web").await?;
    /// bus.publish("process.state", json!("up")).key("db").await?;
    /// bus.publish("process.state", Payload::null()).key("db").await?; // a tombstone
    /// let latest = bus.latest_by_key("process.state", &["web", "db"]).await?;
    /// assert!(latest[0].is_some() && latest[1].is_none());
    /// # bus.stop().await }
    /// ```
    pub async fn latest_by_key(&self, topic: &str, keys: &[&str]) -> Result<Vec<Option<Arc<Event>>>> {
        checked_limit(Some(keys.len().max(1)))?;
        let topic = self.engine().known(topic)?;
        let keys: Vec<Key> = keys.iter().map(|key| Key::from(*key)).collect();
        let newest = self.engine().store.newest(&topic.name, &keys).await.map_err(refused)?;
        Ok(newest.into_iter().map(|event| event.filter(|event| !event.is_tombstone())).collect())
    }

    /// The newest event of every key, in the order of the keys, after the key `after`. A page ends at `limit` events or
    /// about 16 MiB; the last page is the empty one.
    pub async fn latest_page(
        &self,
        topic: &str,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Vec<Arc<Event>>> {
        let limit = ReadLimit { events: checked_limit(limit)?, bytes: 16 << 20 };
        self.latest_block(topic, after, limit).await
    }

    /// As [`latest_page`](Self::latest_page), for readers that hold no more than a block at a time.
    pub async fn latest_block(
        &self,
        topic: &str,
        after: Option<&str>,
        limit: ReadLimit,
    ) -> Result<Vec<Arc<Event>>> {
        let topic = self.engine().known(topic)?;
        self.engine().store.newest_page(&topic.name, after, limit).await.map_err(refused)
    }

    // ---- housekeeping ----

    /// Sets other settings of topics, for those that there are and those to come; the first pattern that matches a
    /// topic's name counts. Publishes that are on their way keep the durability they had; what a topic does not keep any
    /// longer goes with the next cleaning.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// for n in 1..=3 { bus.publish("process.state", json!(n)).key("web").await?; }
    /// let compacted = TopicSettings { compaction: true, ..Default::default() };
    /// bus.set_topics(vec![(Pattern::parse("process.*")?, compacted)])?;
    /// assert_eq!(bus.clean("process.state").await?.removed, 2);
    /// # bus.stop().await }
    /// ```
    ///
    /// # Errors
    /// `bad_request` if a retention is 0; then nothing has changed.
    pub fn set_topics(&self, topics: Vec<(Pattern, TopicSettings)>) -> Result<()> {
        check_topics(&topics)?;
        self.engine().set_topics(topics);
        Ok(())
    }

    /// Writes a topic's snapshot and removes what its settings do not keep, now. The hub does it by itself every
    /// [`Config::clean_interval`].
    pub async fn clean(&self, topic: &str) -> Result<Cleaned> {
        let topic = self.engine().known(topic)?;
        cleaner::clean(self.engine(), &topic).await
    }

    /// Deletes groups that had no members for [`Config::group_expire_days`], and cleans what is due.
    pub async fn housekeeping(&self) {
        cleaner::Pass::default().run(self.engine()).await;
    }

    /// Saves what groups have done, now. The hub does it by itself within 200 ms.
    pub async fn flush(&self) -> Result<()> {
        self.engine().saver.flush(self.engine()).await
    }

    /// How the store is doing: what a readiness probe asks, and a person who wants to know why. Cheap, and answered
    /// while the store hangs; it says nothing about whether the bus was stopped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*;
    /// # let bus = Bus::in_memory().await?;
    /// let health = bus.health();
    /// let ready = health.unavailable.is_none();
    /// assert!(ready && health.warnings.is_empty());
    /// # bus.stop().await }
    /// ```
    pub fn health(&self) -> Health {
        let mut health = self.engine().store.health();
        self.engine().supervisor.add_to(&mut health);
        health
    }

    /// Holds the store's files in place while they are copied; `None` for a store without files of its own. Everything that was
    /// acknowledged before the call is in them, and every ack.
    ///
    /// # Errors
    /// `unavailable`, if acks cannot be saved, or if the store cannot say at present where its log ends.
    pub async fn pin_files(&self) -> Result<Option<PinnedFiles>> {
        // A saved ack is in the log; one that waits to be saved would be missing in the copy.
        self.flush().await?;
        self.engine().store.pin_files().await.map_err(refused)
    }

    /// Comes when the bus cannot go on because its committer has panicked; a defect, and [`health`](Self::health) names it. What was
    /// answered is stored. Nothing more is taken: open a new bus, or end the process.
    pub async fn failed(&self) {
        self.engine().supervisor.failed().await;
    }

    /// Stops cleanly: takes nothing more, saves everything, closes the store. After it nothing that was acked is
    /// delivered again. Subscriptions end with `unavailable`. Handlers have [`Config::stop_timeout`] to finish, and so
    /// has the store; a store that does not answer by then gives `unavailable`, and it is as if the hub had crashed.
    ///
    /// Called again, it answers the same.
    pub async fn stop(&self) -> Result<()> {
        let engine = self.engine();
        let patience = Duration::from_millis(engine.config.stop_timeout);
        let stop = async {
            engine.stopping.cancel();
            engine.handlers.close();
            // Handlers may take their time, so what is done by now is saved before.
            let handlers = async {
                let _ = engine.saver.flush(engine).await;
                engine.handlers.wait().await;
            };
            if tokio::time::timeout(patience, handlers).await.is_err() {
                tracing::warn!(
                    handlers = engine.handlers.len(),
                    "stopping without waiting for handlers any longer"
                );
            }
            engine.end_members();
            let closed = tokio::time::timeout(patience, engine.close()).await;
            engine.abandon();
            closed.unwrap_or_else(|_| {
                Err(Error::unavailable("the store did not answer while the hub was stopping"))
            })
        };
        self.inner.stopped.get_or_init(|| stop).await.clone()
    }

    /// What the store calls itself: `memory`, `embedded`, `mongodb`.
    pub fn store_name(&self) -> &'static str {
        self.engine().store.name()
    }

    /// What payloads are checked against, if it was opened with [`BusBuilder::payload_checks`].
    pub fn payload_checks(&self) -> Option<&Arc<dyn PayloadChecks>> {
        self.engine().payload_checks.as_ref()
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.engine().config
    }

    /// Milliseconds on the hub's wall clock.
    pub fn now(&self) -> Millis {
        self.engine().clock.wall()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }
}

/// About how much one scan brings.
const MAX_SCAN_BYTES: usize = 64 << 20;

fn checked_limit(limit: Option<usize>) -> Result<usize> {
    match limit.unwrap_or(limits::SCAN_DEFAULT) {
        limit if limit == 0 || limit > limits::SCAN_MAX => {
            Err(Error::bad_request(format!("the limit is {limit}; it must be 1 to {}", limits::SCAN_MAX)))
        }
        limit => Ok(limit),
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("store", &self.engine().store.name()).finish()
    }
}
