//! The committer: everything that waits, of whatever topic, becomes one commit of the store.
//!
//! While one batch is being made durable the next one gathers; nothing waits for a timer. The queue is bounded in bytes:
//! publishers wait for room before it, in the order they came.
//!
//! The committer is a task, where a lone publisher is, and nobody has to be woken for one event. As soon as events keep
//! coming it is a thread, if the store can do with one: see [`here`].

mod answer;
pub(crate) mod here;
mod queue;
mod topics_in_flight;

pub(crate) use topics_in_flight::{TakenTopics, TopicsInFlight};

use answer::{Answer, Asker, Comparison, Place, Twin, conflict, reply, unknown_outcome};
use queue::{Batch, Queue};
use topics_in_flight::MAX_TOPICS;

use crate::Millis;
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::store::{
    Appended, Bounds, Commit, Committed, Durability, EventStore, Record, StoreError, StoreResult,
};
use crate::topic::{TailBudget, Topic, Waiter};
use hub_proto::{Draft, Error, Event, EventId, Result, TopicName};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a store that does not say what it has stored is left alone.
const RETRY: Millis = 200;

/// The answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// Its place in the topic.
    pub seq: u64,
    /// Its timestamp.
    pub ts: Millis,
    /// How safe it is.
    pub durable: Durability,
    /// The topic had this id already; `seq` and `ts` are those of the first one.
    pub duplicate: bool,
}

/// Room in the queue.
pub(crate) struct Room(OwnedSemaphorePermit);

impl Room {
    pub fn bytes(&self) -> usize {
        self.0.num_permits()
    }

    pub fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

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
    room: Arc<Semaphore>,
    capacity: usize,
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
    /// Others commit to the same store.
    pub is_shared: bool,
    pub comparer: Comparer,
}

impl Committer {
    pub fn new(capacity: usize, timeout: Millis) -> Self {
        let room = Arc::new(Semaphore::new(capacity));
        Self {
            queue: Mutex::default(),
            wake: Notify::new(),
            ready: Condvar::new(),
            is_here: AtomicBool::new(false),
            under_way: Mutex::default(),
            began: Notify::new(),
            over: Notify::new(),
            idle: AtomicBool::new(false),
            room,
            capacity,
            timeout,
            doubtful: Mutex::default(),
            doubt: Notify::new(),
        }
    }

    /// Puts one event in line for which there is room.
    pub fn publish(&self, room: Room, topic: Arc<Topic>, draft: Draft, now: Millis) -> Result<Pending> {
        let (id, bytes) = (draft.id(), room.0.num_permits());
        let (reply, answer) = oneshot::channel();
        self.enqueue(1, bytes, |batch| batch.add_event(now, (topic, draft), room.0, reply))
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
        let (more, bytes, asker) = (drafts.len(), room.bytes(), Asker::Events(ids.clone(), Some(reply)));
        let queued = self.enqueue(more, bytes, |batch| batch.add_events(now, asker, drafts, room.0, taken));
        self.nudge();
        Sent { ids, answer: queued.map(|()| answer) }
    }

    /// Puts several events in line when there is room, if that is in time.
    pub async fn send_later(&self, drafts: Vec<(Arc<Topic>, Draft)>, now: Millis) -> Sent {
        match self.wait_for_room(drafts.iter().map(|(_, draft)| draft.len()).sum()).await {
            Ok(room) => self.send(room, None, drafts, now),
            Err(error) => Sent { ids: ids_of(&drafts), answer: Err(error) },
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
                Ok(()) => self.wait_for_room(drafts.iter().map(|(_, draft)| draft.len()).sum()).await,
                Err(_) => Err(Error::unavailable(
                    "this subject has too many topics in line: the event was not stored, try again later",
                )),
            };
            let sent = match room {
                Ok(room) => self.send(room, Some(taken), drafts, now),
                Err(error) => Sent { ids: ids_of(&drafts), answer: Err(error) },
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

    /// Makes groups or subscriptions durable: all of them, or an error. See [`Commit::epochs`].
    pub async fn write(&self, records: Vec<Record>, epochs: Vec<u64>, now: Millis) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(records.len(), 0, |batch| batch.add_records(now, records, epochs, reply))?;
        self.nudge();
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StoreError::Fenced(group))) => Err(crate::cluster::not_owner(&group)),
            Ok(Err(error)) => Err(Error::unavailable(error.to_string())),
            Err(_) => Err(stopped()),
        }
    }

    /// Room for so many bytes, if there is some at once. Free room is given to those who wait first, so taking it is no
    /// jumping of the queue.
    pub fn try_room(&self, bytes: usize) -> Option<Room> {
        self.room.clone().try_acquire_many_owned(self.permits(bytes)).ok().map(Room)
    }

    /// Room for so many bytes. Those who ask get it in the order in which they asked.
    pub async fn wait_for_room(&self, bytes: usize) -> Result<Room> {
        if let Some(room) = self.try_room(bytes) {
            return Ok(room);
        }
        let acquire = self.room.clone().acquire_many_owned(self.permits(bytes));
        match tokio::time::timeout(Duration::from_millis(self.timeout), acquire).await {
            Ok(Ok(room)) => Ok(Room(room)),
            Ok(Err(_)) => Err(stopped()),
            Err(_) => Err(Error::unavailable(
                "the store does not keep up: the event was not stored, try again later",
            )),
        }
    }

    /// More than the whole queue is admitted alone.
    fn permits(&self, bytes: usize) -> u32 {
        bytes.clamp(1, self.capacity) as u32
    }

    /// Adds so many events or records, with so many bytes, to the line.
    fn enqueue(&self, more: usize, bytes: usize, add: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(stopped());
        }
        add(queue.batch(more, bytes));
        Ok(())
    }

    /// Nobody commits any more: whoever is in line hears that the outcome is unknown, whoever comes that nothing is stored.
    pub fn abandon(&self) {
        self.close();
        let left = self.queue.lock().clear();
        drop(left);
    }

    /// Takes nothing more; what is queued is still committed.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.room.close();
        self.nudge();
    }

    /// Commits until the queue is closed and empty, or until a thread should go on: see [`Committer::run_here`].
    pub async fn run(&self, target: &Target) -> Left {
        let may_leave = target.store.here().is_some();
        let mut crowd = Crowd(0);
        while !crowd.is_there() {
            if let Some(turn_of_others) = target.store.give_way() {
                turn_of_others.await;
            }
            match self.next(target) {
                (Some(batch), _) => {
                    let (commit, aboard) = self.board(batch, target);
                    if self.idle.swap(false, SeqCst) {
                        // Before the store is asked: it may keep this thread until its disk has answered, and with it
                        // whoever was woken last and is to run here next.
                        self.began.notify_one();
                        tokio::task::yield_now().await;
                    }
                    let committed = target.store.commit(commit).await;
                    aboard.is_over(target);
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
        loop {
            let Some(topic) = self.doubtful.lock().first_key_value().map(|(_, topic)| topic.clone()) else {
                self.doubt.notified().await;
                continue;
            };
            // Taken out first: a commit that fails from here on brings it back.
            self.doubtful.lock().remove(&topic.name);
            match target.store.bounds(&topic.name).await {
                Ok(bounds) => {
                    let there = if topic.is_removed() { revive(&topic.name, bounds) } else { Some(topic) };
                    there.into_iter().flat_map(|topic| topic.learn(bounds)).for_each(Waiter::wake);
                }
                Err(error) => {
                    tracing::warn!(topic = %topic.name, %error, "what a failed commit has stored is still unknown");
                    self.doubtful.lock().insert(topic.name.clone(), topic);
                    tokio::time::sleep(Duration::from_millis(RETRY)).await;
                }
            }
        }
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
        (commit, Aboard { started, count, topics, answers, room })
    }

    /// Tells everybody what came of a commit.
    fn land(&self, aboard: Aboard, committed: Committed, target: &Target) {
        let Aboard { topics, answers, mut room, .. } = aboard;
        let Admission { results, waiters, doubtful } = admit(committed.events, &topics, target);
        if target.is_shared {
            topics.iter().for_each(|topic| topic.set_committing(false));
        }
        let answers = std::mem::take(&mut *answers.lock());
        let mut comparisons = reply(answers, results, committed.records);
        // What is still to be compared keeps its room in the queue: that bounds how much there is.
        for comparison in &mut comparisons {
            comparison.room = room.as_mut().and_then(|room| room.split(comparison.bytes));
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

    /// Since when the oldest commit that is under way is waited for.
    fn oldest(&self) -> Option<Millis> {
        let under_way = self.under_way.lock();
        let mut under_way = under_way.iter().filter_map(Weak::upgrade);
        under_way.find_map(|answers| answers.lock().first().map(|first| first.since))
    }

    fn answer_late(&self, now: Millis) {
        let late = |since: Millis| now.saturating_sub(since) >= self.timeout;
        let under_way: Vec<Arc<Answers>> = self.under_way.lock().iter().filter_map(Weak::upgrade).collect();
        if under_way.is_empty() {
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
        let mut behind = self.queue.lock().take_late(late);
        let error = StoreError::Unavailable("an earlier commit takes too long".into());
        let answers = behind.iter_mut().flat_map(|batch| &mut batch.answers);
        answers.for_each(|answer| answer.fail(&error));
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
    count: usize,
    /// The topic of each event.
    topics: Vec<Arc<Topic>>,
    answers: Arc<Answers>,
    /// Room in the queue, kept until the commit has come to its end.
    room: Option<OwnedSemaphorePermit>,
}

impl Aboard {
    /// The commit has come to its end.
    fn is_over(&self, target: &Target) {
        target.metrics.committed(self.started.elapsed(), self.count);
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

/// The committer went away with the event in its hands.
fn cut_off() -> Error {
    Error::unavailable(unknown_outcome(&StoreError::Unavailable("the hub went down".into())))
}

fn stopped() -> Error {
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
        if topic.is_removed() {
            doubtful.insert(topic.name.clone(), topic.clone());
        }
        waiters.append(&mut target.tails.append(topic, events));
    }
    Admission { results, waiters, doubtful }
}
