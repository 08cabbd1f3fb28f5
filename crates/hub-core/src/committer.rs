//! The committer: everything that waits, of whatever topic, becomes one commit of the store.
//!
//! While one batch is being made durable the next one gathers; nothing waits for a timer. The queue is bounded in bytes:
//! publishers wait for room before it, in the order they came.
//!
//! The committer is a task, where a lone publisher is, and nobody has to be woken for one event. As soon as events keep
//! coming it is a thread, if the store can do with one: see [`here`].
//!
//! A store that commits topics independently of each other gets several commits at once, one per topic: see [`lanes`].

mod answer;
pub(crate) mod here;
mod lanes;
mod queue;
mod room;
mod spans;
mod topics_in_flight;

pub(crate) use room::{NoRoom, Room};
pub(crate) use topics_in_flight::{TakenTopics, TopicsInFlight};

use answer::{Answer, Asker, Comparison, Joint, Place, Reply, Twin, conflict, reply, unknown_outcome};
use lanes::{Lanes, answer_all};
use queue::{Batch, Queue};
use room::Rooms;
use spans::{CommitTime, PublishSpan, record_publishes};
use topics_in_flight::MAX_TOPICS;

use crate::Millis;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::store::{Appended, Bounds, Commit, Committed, EventStore, Record, StoreError, StoreResult};
use crate::topic::{TailBudget, Topic, Waiter};
use crate::trace::SpanRecorder;
use hub_proto::{Draft, Error, Event, EventId, Receipt, Result, TopicName};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

/// How long a store that does not say what it has stored is left alone.
const RETRY: Millis = 200;
/// Topics that are asked about at once: those of a shard that does not answer do not hold up the others.
const LOOKS: usize = 8;

/// The answer to an event that is in line. Dropping it takes nothing back.
pub(crate) struct Pending {
    id: EventId,
    answer: oneshot::Receiver<Result<Receipt>>,
}

impl Future for Pending {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| Err(cut_off().with_id(self.id))))
    }
}

/// Events that are in line: what became of them, in their order, when they are committed. Dropping it takes nothing back.
#[derive(Debug)]
#[must_use = "it has what became of the events"]
pub struct Sent {
    ids: Vec<EventId>,
    /// Or why they were not taken.
    answer: Result<oneshot::Receiver<Vec<Result<Receipt>>>>,
}

impl Sent {
    /// Events that did not get into line.
    pub(crate) fn refused(ids: Vec<EventId>, error: Error) -> Self {
        Self { ids, answer: Err(error) }
    }

    /// The ids of the events, in their order.
    pub fn ids(&self) -> &[EventId] {
        &self.ids
    }

    /// Whether the events did not get into line: nothing is stored of them.
    pub fn is_refused(&self) -> bool {
        self.answer.is_err()
    }
}

impl Future for Sent {
    type Output = Vec<Result<Receipt>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let error = match &mut self.answer {
            Ok(answer) => match ready!(Pin::new(answer).poll(context)) {
                Ok(results) => return Poll::Ready(results),
                Err(_) => cut_off(),
            },
            Err(error) => error.clone(),
        };
        Poll::Ready(self.ids.iter().map(|&id| Err(error.clone().with_id(id))).collect())
    }
}

/// Whether events keep coming: how often some were waiting already when a commit was over, of late. With a lone publisher
/// there never are.
struct Crowd(u32);

impl Crowd {
    const ALWAYS: u32 = 256;
    /// A commit that does not wait for a disk is over so soon that it takes so many to be worth a thread.
    const MANY: usize = 24;

    fn add(&mut self, waiting: usize, on_disk: bool) {
        let is_crowd = waiting >= if on_disk { 1 } else { Self::MANY };
        self.0 = (self.0 * 7 + if is_crowd { Self::ALWAYS } else { 0 }) / 8;
    }

    /// More often than not.
    fn is_there(&self) -> bool {
        self.0 > Self::ALWAYS / 2
    }

    /// Not even every fourth time.
    fn is_gone(&self) -> bool {
        self.0 < Self::ALWAYS / 4
    }
}

/// Why the committer came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The queue is closed and empty.
    Closed,
    /// Events keep coming, and a thread should go on; or they do not, and a task should.
    Crowd,
}

/// Those who wait for one commit.
type Answers = Mutex<Vec<Answer>>;

/// The queue before the store.
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    /// The lines that take its place, if the store commits topics independently of each other.
    lanes: Option<Mutex<Lanes>>,
    /// Wakes the committer when it is a task.
    wake: Notify,
    /// Wakes it when it is a thread, which it is now if this is so.
    ready: Condvar,
    is_here: AtomicBool,
    /// Who waits for the commits that are under way, oldest first. Some may be over.
    under_way: Mutex<VecDeque<Weak<Answers>>>,
    /// Told when a commit begins, and when the last one is over.
    began: Notify,
    over: Notify,
    /// Nobody watches for who is late, until a commit begins.
    idle: AtomicBool,
    rooms: Rooms,
    timeout: Millis,
    doubtful: Mutex<BTreeMap<TopicName, Arc<Topic>>>,
    doubt: Notify,
}

/// What the committing task works with.
pub(crate) struct Target {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub tails: Arc<TailBudget>,
    pub metrics: Arc<Metrics>,
    pub rates: Arc<Rates>,
    /// Others commit to the same store.
    pub is_shared: bool,
    pub comparer: Comparer,
    /// Where spans of traced events go.
    pub spans: Option<Arc<dyn SpanRecorder>>,
}

impl Committer {
    /// `lanes`: how many commits the store takes at once, see [`EventStore::lanes`].
    pub fn new(capacity: usize, timeout: Millis, lanes: Option<usize>) -> Self {
        Self {
            queue: Mutex::default(),
            lanes: lanes.map(|at_once| Mutex::new(Lanes::new(at_once))),
            wake: Notify::new(),
            ready: Condvar::new(),
            is_here: AtomicBool::new(false),
            under_way: Mutex::default(),
            began: Notify::new(),
            over: Notify::new(),
            idle: AtomicBool::new(false),
            rooms: Rooms::new(capacity),
            timeout,
            doubtful: Mutex::default(),
            doubt: Notify::new(),
        }
    }

    /// Puts one event in line for which there is room.
    pub fn publish(&self, room: Room, topic: Arc<Topic>, draft: Draft, now: Millis) -> Result<Pending> {
        let id = draft.id();
        let (reply, answer) = oneshot::channel();
        let to = topic.clone();
        self.enqueue(Some(&to), 1, room, |batch, room| batch.add_event(now, (topic, draft), room, reply))
            .map_err(|error| error.with_id(id))?;
        self.nudge();
        Ok(Pending { id, answer })
    }

    /// Something was put in line.
    fn nudge(&self) {
        if self.is_here.load(SeqCst) {
            self.ready.notify_one();
        } else {
            self.wake.notify_one();
        }
    }

    /// Puts several events in line for which there is room. Their topics stay taken until they are committed.
    pub fn send(
        &self,
        room: Room,
        taken: Option<TakenTopics>,
        drafts: Vec<(Arc<Topic>, Draft)>,
        now: Millis,
    ) -> Sent {
        let ids = ids_of(&drafts);
        let (reply, answer) = oneshot::channel();
        let is_split =
            self.lanes.is_some() && drafts.iter().any(|(topic, _)| !Arc::ptr_eq(topic, &drafts[0].0));
        let queued = match drafts.first() {
            Some(_) if is_split => {
                self.send_parts(room, taken, drafts, now, &Joint::new(ids.clone(), reply));
                Ok(())
            }
            first => {
                let topic = first.map(|(topic, _)| topic.clone());
                let (more, asker) = (drafts.len(), Asker::Events(ids.clone(), Some(Reply::Whole(reply))));
                let add = |batch: &mut Batch, room| batch.add_events(now, asker, drafts, room, taken);
                self.enqueue(topic.as_ref(), more, room, add)
            }
        };
        self.nudge();
        Sent { ids, answer: queued.map(|()| answer) }
    }

    /// Puts the events of each topic in the line of that topic.
    fn send_parts(
        &self,
        mut room: Room,
        mut taken: Option<TakenTopics>,
        drafts: Vec<(Arc<Topic>, Draft)>,
        now: Millis,
        joint: &Arc<Joint>,
    ) {
        for TopicPart { topic, places, drafts } in topic_parts_of(drafts) {
            let bytes = drafts.iter().map(|(_, draft)| draft.len()).sum();
            let room = match topic.is_held_up() {
                true => room.split_held_up(bytes),
                false => room.split(bytes),
            };
            let taken = taken.as_mut().map(|taken| taken.split(topic.number));
            let (more, ids) = (drafts.len(), ids_of(&drafts));
            let reply = Reply::Part(places.clone(), joint.clone());
            let asker = Asker::Events(ids.clone(), Some(reply));
            let add = |batch: &mut Batch, room| batch.add_events(now, asker, drafts, room, taken);
            if let Err(error) = self.enqueue(Some(&topic), more, room, add) {
                let receipts = ids.iter().map(|&id| Err(error.clone().with_id(id))).collect();
                Reply::Part(places, joint.clone()).send(receipts);
            }
        }
    }

    /// Puts several events in line when there is room, if that is in time.
    pub async fn send_later(&self, drafts: Vec<(Arc<Topic>, Draft)>, now: Millis) -> Sent {
        match self.wait_for_room(&drafts).await {
            Ok(room) => self.send(room, None, drafts, now),
            Err(error) => Sent::refused(ids_of(&drafts), error),
        }
    }

    /// Puts the events of a subject in line when there is room for them and for their topics, if that is in time. If they have more
    /// topics than a subject may have in line, a part follows the other: each once the one before is committed.
    pub async fn send_in_parts(
        &self,
        topics: &Arc<TopicsInFlight>,
        subject: &Arc<str>,
        drafts: Vec<(Arc<Topic>, Draft)>,
        now: Millis,
    ) -> Sent {
        let mut parts = parts_of(drafts).into_iter();
        let (ids, mut results) =
            (parts.as_slice().iter().flat_map(|part| ids_of(&part.drafts)).collect(), Vec::new());
        while let Some(Part { numbers, drafts }) = parts.next() {
            let mut taken = TakenTopics::new(topics, subject);
            let wait = tokio::time::timeout(Duration::from_millis(self.timeout), taken.take(&numbers));
            let room = match wait.await {
                Ok(()) => self.wait_for_room(&drafts).await,
                Err(_) => Err(Error::unavailable(
                    "this subject has too many topics in line: the event was not stored, try again later",
                )),
            };
            let sent = match room {
                Ok(room) => self.send(room, Some(taken), drafts, now),
                Err(error) => Sent::refused(ids_of(&drafts), error),
            };
            if results.is_empty() && parts.len() == 0 {
                return sent;
            }
            results.extend(sent.await);
        }
        let (reply, answer) = oneshot::channel();
        // The receiver is in the same answer.
        let _ = reply.send(results);
        Sent { ids, answer: Ok(answer) }
    }

    /// Makes several events durable; each has a result of its own.
    pub async fn publish_all(&self, drafts: Vec<(Arc<Topic>, Draft)>, now: Millis) -> Vec<Result<Receipt>> {
        if drafts.is_empty() {
            return Vec::new();
        }
        self.send_later(drafts, now).await.await
    }

    /// Makes groups or subscriptions durable; each has a result of its own. See [`Commit::epochs`].
    pub async fn write(&self, records: Vec<Record>, epochs: Vec<u64>, now: Millis) -> Vec<Result<()>> {
        let (reply, answer) = oneshot::channel();
        let more = records.len();
        let add = |batch: &mut Batch, _: Room| batch.add_records(now, records, epochs, reply);
        if let Err(error) = self.enqueue(None, more, Room::default(), add) {
            return vec![Err(error); more];
        }
        self.nudge();
        let told = |result| match result {
            Ok(()) => Ok(()),
            Err(StoreError::Fenced(group)) => Err(crate::cluster::not_owner(&group)),
            Err(error) => Err(Error::unavailable(error.to_string())),
        };
        match answer.await {
            Ok(results) => results.into_iter().map(told).collect(),
            Err(_) => vec![Err(stopped()); more],
        }
    }

    /// Room for an event, if there is some at once: see [`Rooms::try_take`].
    pub fn try_room(&self, topic: &Topic, bytes: usize) -> Result<Room, NoRoom> {
        self.rooms.try_take(topic.is_held_up(), bytes)
    }

    /// Room for events. Those who ask get it in the order in which they asked.
    pub async fn wait_for_room(&self, drafts: &[(Arc<Topic>, Draft)]) -> Result<Room> {
        match tokio::time::timeout(Duration::from_millis(self.timeout), self.rooms.take(drafts)).await {
            Ok(Some(room)) => Ok(room),
            Ok(None) => Err(stopped()),
            Err(_) => Err(Error::unavailable(
                "the store does not keep up: the event was not stored, try again later",
            )),
        }
    }

    /// Adds so many events of a topic, or records, to the line.
    fn enqueue(
        &self,
        topic: Option<&Arc<Topic>>,
        more: usize,
        mut room: Room,
        add: impl FnOnce(&mut Batch, Room),
    ) -> Result<()> {
        let Some(lanes) = &self.lanes else {
            let mut queue = self.queue.lock();
            if queue.closed {
                return Err(stopped());
            }
            add(queue.batch(more, room.bytes()), room);
            return Ok(());
        };
        let mut lanes = lanes.lock();
        if lanes.closed {
            return Err(stopped());
        }
        let batch = lanes.batch(topic, more, &mut room, &self.rooms)?;
        add(batch, room);
        Ok(())
    }

    /// Nobody commits any more: whoever is in line hears that the outcome is unknown, whoever comes that nothing is stored.
    pub fn abandon(&self) {
        self.close();
        let left = self.queue.lock().clear();
        let lanes = self.lanes.as_ref().map(|lanes| lanes.lock().clear());
        drop((left, lanes));
    }

    /// Takes nothing more; what is queued is still committed.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        if let Some(lanes) = &self.lanes {
            lanes.lock().closed = true;
        }
        self.rooms.close();
        self.nudge();
    }

    /// Commits until the queue is closed and empty, or until a thread should go on: see [`Committer::run_here`].
    pub async fn run(&self, target: &Target) -> Left {
        if let Some(lanes) = &self.lanes {
            return self.run_lanes(lanes, target).await;
        }
        let may_leave = target.store.here().is_some();
        let mut crowd = Crowd(0);
        while !crowd.is_there() {
            match self.next(target) {
                (Some(batch), _) => {
                    let (commit, mut aboard) = self.board(batch, target);
                    if self.idle.swap(false, SeqCst) {
                        // Before the store is asked: it may keep this thread until its disk has answered, and with it
                        // whoever was woken last and is to run here next.
                        self.began.notify_one();
                        tokio::task::yield_now().await;
                    }
                    let committed = target.store.commit(commit).await;
                    aboard.complete(target);
                    if may_leave {
                        crowd.add(self.queue.lock().len(), committed.is_on_disk());
                    }
                    self.land(aboard, committed, target);
                }
                (None, true) => return Left::Closed,
                (None, false) => self.wake.notified().await,
            }
        }
        Left::Crowd
    }

    /// Asks the store what became of commits that failed, for as long as it does not say. An event that was stored
    /// although its publisher got an error is an event: its readers get it now, not with the next one.
    ///
    /// An event that was committed while its topic was deleted is an event, too: `revive` creates the topic again.
    pub async fn clear_up(&self, target: &Target, revive: impl Fn(&TopicName, Bounds) -> Option<Arc<Topic>>) {
        let mut looks = JoinSet::new();
        let (mut last, mut asked) = (None, BTreeSet::new());
        loop {
            while looks.len() < LOOKS
                && let Some(topic) = self.next_doubtful(&mut last, &asked)
            {
                asked.insert(topic.name.clone());
                let store = target.store.clone();
                looks.spawn(async move {
                    let bounds = store.bounds(&topic.name).await;
                    if bounds.is_err() {
                        tokio::time::sleep(Duration::from_millis(RETRY)).await;
                    }
                    (topic, bounds)
                });
            }
            let (topic, bounds) = tokio::select! {
                Some(Ok(look)) = looks.join_next() => look,
                () = self.doubt.notified(), if looks.len() < LOOKS => continue,
            };
            asked.remove(&topic.name);
            match bounds {
                Ok(bounds) => {
                    let there = if topic.is_removed() { revive(&topic.name, bounds) } else { Some(topic) };
                    there.into_iter().flat_map(|topic| topic.learn(bounds)).for_each(Waiter::wake);
                }
                Err(error) => {
                    tracing::warn!(topic = %topic.name, %error, "what a failed commit has stored is still unknown");
                    self.doubtful.lock().insert(topic.name.clone(), topic);
                }
            }
        }
    }

    /// Takes out the next topic of which nobody knows what it has got, by name: none is passed over for another. A commit that
    /// fails from here on brings it back; it is not asked about twice at the same time.
    fn next_doubtful(&self, last: &mut Option<TopicName>, asked: &BTreeSet<TopicName>) -> Option<Arc<Topic>> {
        let mut doubtful = self.doubtful.lock();
        let after = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = doubtful.range::<TopicName, _>((after, Bound::Unbounded));
        let next = rest.chain(doubtful.iter()).find(|(name, _)| !asked.contains(*name));
        *last = next.map(|(name, _)| name.clone());
        doubtful.remove(last.as_ref()?)
    }

    /// The next commit, if there is one, and whether the line is closed.
    fn next(&self, target: &Target) -> (Option<Batch>, bool) {
        let (batch, closed) = {
            let mut queue = self.queue.lock();
            (queue.take(), queue.closed)
        };
        let batch = batch.map(|mut batch| {
            batch.commit.now = target.clock.wall();
            batch
        });
        (batch, closed)
    }

    /// A commit begins: takes note of who waits for it.
    fn board(&self, batch: Batch, target: &Target) -> (Commit, Aboard) {
        let Batch { commit, topics, answers, room, .. } = batch;
        let (started, count, answers) = (Instant::now(), commit.events.len(), Arc::new(Mutex::new(answers)));
        let mut under_way = self.under_way.lock();
        while under_way.front().is_some_and(|answers| answers.strong_count() == 0) {
            under_way.pop_front();
        }
        under_way.push_back(Arc::downgrade(&answers));
        drop(under_way);
        if target.is_shared {
            topics.iter().for_each(|topic| topic.set_committing(true));
        }
        let traced = match target.spans {
            Some(_) => PublishSpan::all_of(&commit.events),
            None => Vec::new(),
        };
        (commit, Aboard { started, took: Duration::ZERO, count, topics, answers, room, traced })
    }

    /// Tells everybody what came of a commit.
    fn land(&self, aboard: Aboard, committed: Committed, target: &Target) {
        let Aboard { started, took, count, topics, answers, mut room, traced } = aboard;
        let Admission { results, waiters, doubtful } = admit(committed.events, &topics, target);
        if let Some(recorder) = target.spans.as_deref().filter(|_| !traced.is_empty()) {
            let commit = CommitTime { started, took, events: count };
            record_publishes(recorder, traced, &commit, &topics, &results);
        }
        if target.is_shared {
            topics.iter().for_each(|topic| topic.set_committing(false));
        }
        let answers = std::mem::take(&mut *answers.lock());
        let mut comparisons = reply(answers, results, committed.records);
        // What is still to be compared keeps its room in the queue: that bounds how much there is.
        for comparison in &mut comparisons {
            comparison.room = room.split(comparison.bytes);
        }
        drop(room);
        target.comparer.add(comparisons);
        waiters.into_iter().for_each(Waiter::wake);
        if !doubtful.is_empty() {
            self.doubtful.lock().extend(doubtful);
            self.doubt.notify_one();
        }
    }

    /// Nobody commits any more.
    pub fn is_over(&self) {
        self.over.notify_one();
    }

    /// Answers whoever has waited too long, for a commit or in the queue behind one; the commits themselves are left to
    /// come to their end. Until [`Committer::is_over`], in a task of its own: the one that commits may be held up by the disk.
    pub async fn watch(&self, target: &Target) {
        loop {
            let patience = match self.oldest() {
                None => {
                    self.idle.store(true, SeqCst);
                    // One that began meanwhile did not see that.
                    if self.oldest().is_some() {
                        continue;
                    }
                    None
                }
                Some(since) => {
                    let left = self.timeout.saturating_sub(target.clock.steady().saturating_sub(since));
                    // Who waits for it was answered; others come to be late behind it.
                    Some(if left > 0 { left } else { (self.timeout / 20).clamp(1, 1000) })
                }
            };
            tokio::select! {
                biased;
                () = self.over.notified() => return,
                () = self.began.notified(), if patience.is_none() => {}
                () = tokio::time::sleep(Duration::from_millis(patience.unwrap_or(0))), if patience.is_some() => {
                    self.answer_late(target.clock.steady());
                }
            }
        }
    }

    /// Since when the oldest commit that is under way is waited for; with lanes, also since when somebody waits in one.
    fn oldest(&self) -> Option<Millis> {
        let under_way = self.under_way.lock();
        let under_way = under_way.iter().filter_map(Weak::upgrade);
        let under_way = under_way.filter_map(|answers| answers.lock().first().map(|first| first.since)).min();
        let waiting = self.lanes.as_ref().and_then(|lanes| lanes.lock().oldest());
        under_way.into_iter().chain(waiting).min()
    }

    fn answer_late(&self, now: Millis) {
        let late = |since: Millis| now.saturating_sub(since) >= self.timeout;
        let under_way: Vec<Arc<Answers>> = self.under_way.lock().iter().filter_map(Weak::upgrade).collect();
        if under_way.is_empty() && self.lanes.is_none() {
            return;
        }
        let error = StoreError::Unavailable("the commit takes too long".into());
        for answers in under_way {
            answers
                .lock()
                .iter_mut()
                .filter(|answer| late(answer.since))
                .for_each(|answer| answer.fail(&error));
        }
        let behind = match &self.lanes {
            Some(lanes) => lanes.lock().take_late(late),
            None => self.queue.lock().take_late(late),
        };
        answer_all(behind, &StoreError::Unavailable("an earlier commit takes too long".into()));
    }
}

/// Compares events whose ids were known, one answer after the other and away from the one that commits.
#[derive(Clone)]
pub(crate) struct Comparer {
    runtime: Handle,
    /// `None` while nobody is at it.
    waiting: Arc<Mutex<Option<VecDeque<Comparison>>>>,
}

impl Comparer {
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, waiting: Arc::default() }
    }

    fn add(&self, comparisons: Vec<Comparison>) {
        if comparisons.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        match &mut *waiting {
            Some(waiting) => waiting.extend(comparisons),
            idle => {
                *idle = Some(comparisons.into());
                let this = self.clone();
                self.runtime.spawn_blocking(move || this.run());
            }
        }
    }

    /// Until nothing waits any more.
    fn run(&self) {
        loop {
            let next = {
                let mut waiting = self.waiting.lock();
                let next = waiting.as_mut().and_then(VecDeque::pop_front);
                if next.is_none() {
                    *waiting = None;
                }
                next
            };
            let Some(comparison) = next else { return };
            // One that fails is not answered; the others are.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| comparison.settle()));
        }
    }
}

/// Who waits for a commit that is under way.
struct Aboard {
    started: Instant,
    /// How long the store took, once it has answered.
    took: Duration,
    count: usize,
    /// The topic of each event.
    topics: Vec<Arc<Topic>>,
    answers: Arc<Answers>,
    /// Room in the queue, kept until the commit has come to its end.
    room: Room,
    /// Events that belong to a trace.
    traced: Vec<PublishSpan>,
}

impl Aboard {
    /// The commit has come to its end.
    fn complete(&mut self, target: &Target) {
        self.took = self.started.elapsed();
        target.metrics.committed(self.took, self.count);
    }
}

fn ids_of(drafts: &[(Arc<Topic>, Draft)]) -> Vec<EventId> {
    drafts.iter().map(|(_, draft)| draft.id()).collect()
}

/// Events with no more topics than a subject may have in line.
struct Part {
    /// Of the topics.
    numbers: Vec<u64>,
    drafts: Vec<(Arc<Topic>, Draft)>,
}

/// Cuts events into parts, in their order.
fn parts_of(drafts: Vec<(Arc<Topic>, Draft)>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (topic, draft) in drafts {
        let number = topic.number;
        match parts.last_mut() {
            Some(part) if part.numbers.contains(&number) => part.drafts.push((topic, draft)),
            Some(part) if part.numbers.len() < MAX_TOPICS => {
                part.numbers.push(number);
                part.drafts.push((topic, draft));
            }
            _ => parts.push(Part { numbers: vec![number], drafts: vec![(topic, draft)] }),
        }
    }
    parts
}

/// Events of one topic, and their places among those of several.
struct TopicPart {
    topic: Arc<Topic>,
    places: Vec<usize>,
    drafts: Vec<(Arc<Topic>, Draft)>,
}

/// The events of each topic, in their order.
fn topic_parts_of(drafts: Vec<(Arc<Topic>, Draft)>) -> Vec<TopicPart> {
    let mut parts: Vec<TopicPart> = Vec::new();
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    for (place, (topic, draft)) in drafts.into_iter().enumerate() {
        let at = *numbers.entry(topic.number).or_insert_with(|| {
            parts.push(TopicPart { topic: topic.clone(), places: Vec::new(), drafts: Vec::new() });
            parts.len() - 1
        });
        parts[at].places.push(place);
        parts[at].drafts.push((topic, draft));
    }
    parts
}

/// The committer went away with the event in its hands.
fn cut_off() -> Error {
    Error::unavailable(unknown_outcome(&StoreError::Unavailable("the hub went down".into())))
}

/// Nothing is taken any more.
pub(crate) fn stopped() -> Error {
    Error::unavailable("the hub is stopping: the event was not stored, try again later")
}

/// What a committed batch led to.
struct Admission {
    /// Per event: its place, or the error. The id is filled in with the answer.
    results: Vec<Result<Place>>,
    waiters: Vec<Waiter>,
    /// Topics of which nobody knows what they have got.
    doubtful: BTreeMap<TopicName, Arc<Topic>>,
}

/// Brings committed events into the tails, so that whoever is answered finds them there.
fn admit(events: Vec<StoreResult<Appended>>, topics: &[Arc<Topic>], target: &Target) -> Admission {
    let mut runs: Vec<(&Arc<Topic>, Vec<Arc<Event>>)> = Vec::new();
    let mut results = Vec::with_capacity(events.len());
    let mut doubtful = BTreeMap::new();
    for (appended, topic) in events.into_iter().zip(topics) {
        results.push(match appended {
            Ok(Appended::New { event, durability }) => {
                let (seq, ts) = (event.seq(), event.ts());
                let place = Place { seq, ts, durable: durability, duplicate: false, twin: None };
                match runs.last_mut() {
                    // A gap within a topic: the event between has an unknown outcome.
                    Some((last, events))
                        if Arc::ptr_eq(last, topic)
                            && events.last().is_some_and(|last| last.seq() + 1 == event.seq()) =>
                    {
                        events.push(event);
                    }
                    _ => runs.push((topic, vec![event])),
                }
                Ok(place)
            }
            Ok(Appended::Known { seq, ts, same: true, durability }) => {
                Ok(Place { seq, ts, durable: durability, duplicate: true, twin: None })
            }
            Ok(Appended::Known { seq, same: false, .. }) => Err(conflict(&topic.name, seq)),
            Ok(Appended::Twin { first, draft, durability }) => {
                let (seq, ts) = first.place();
                let twin = Some(Box::new(Twin { topic: topic.name.clone(), first, draft }));
                Ok(Place { seq, ts, durable: durability, duplicate: true, twin })
            }
            Err(error) => {
                doubtful.insert(topic.name.clone(), topic.clone());
                Err(Error::unavailable(unknown_outcome(&error)))
            }
        });
    }
    let mut waiters = Vec::new();
    for (topic, events) in runs {
        topic.metrics.published.inc_by(events.len() as u64);
        if target.rates.is_on() {
            let bytes: usize = events.iter().map(|event| event.json().len()).sum();
            target.rates.published(topic, events.len() as u64, bytes as u64);
        }
        if topic.is_removed() {
            doubtful.insert(topic.name.clone(), topic.clone());
        }
        waiters.append(&mut target.tails.append(topic, events));
    }
    Admission { results, waiters, doubtful }
}
