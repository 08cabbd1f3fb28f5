//! A topic in memory: the newest events, and who waits for the next one.

use crate::config::{TopicDurability, TopicSettings};
use crate::group::Group;
use crate::metrics::TopicMetrics;
use crate::payload_checks::FoundCheck;
use crate::rates::TopicCounters;
use crate::store::{Bounds, ReadLimit};
use hub_proto::{Event, GroupName, TopicName};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A topic: its tail, its groups.
pub(crate) struct Topic {
    pub name: TopicName,
    /// Counts the topics of this process: a topic that is born later has a higher number.
    pub number: u64,
    /// What it keeps; a reload can change it.
    settings: RwLock<Arc<TopicSettings>>,
    /// The one setting that every publish asks for, so it is asked without a lock.
    relaxed: AtomicBool,
    pub metrics: TopicMetrics,
    pub activity: TopicCounters,
    pub groups: RwLock<BTreeMap<GroupName, Arc<Group>>>,
    tail: Mutex<Tail>,
    /// What its payloads are checked against.
    pub payload_check: FoundCheck,
    /// A quota of its bytes is used up.
    full: AtomicBool,
    /// The bytes that it keeps, as last counted for quotas, and the seq up to which.
    counted: Mutex<(u64, u64)>,
    /// Everything up to this seq was deleted before the topic was created again.
    pub deleted_upto: u64,
    /// A [`Life`].
    life: AtomicU8,
    /// Commits of this hub that are under way.
    committing: AtomicUsize,
    /// A commit takes long, or has failed, and none has succeeded since: see `committer::lanes`.
    held_up: AtomicBool,
    /// One cleaner at a time: a snapshot is written in order.
    pub cleaning: tokio::sync::Mutex<()>,
}

/// Whether a topic is there, is being deleted, or is gone from memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
enum Life {
    There,
    Deleting,
    Removed,
}

/// The newest events of a topic. Contiguous: the last one in `events` is `last`.
struct Tail {
    events: VecDeque<Arc<Event>>,
    last: u64,
    waiting: Vec<Waiter>,
}

/// Somebody who has seen everything and wants to know when there is more.
pub(crate) enum Waiter {
    Group(Weak<Group>),
    Watch(Weak<dyn Fn() + Send + Sync>),
}

impl Waiter {
    fn is_there(&self) -> bool {
        match self {
            Self::Group(group) => group.strong_count() > 0,
            Self::Watch(wake) => wake.strong_count() > 0,
        }
    }

    pub fn wake(self) {
        match self {
            Self::Group(group) => {
                if let Some(group) = group.upgrade() {
                    group.wake();
                }
            }
            Self::Watch(wake) => {
                if let Some(wake) = wake.upgrade() {
                    wake();
                }
            }
        }
    }
}

/// What a look at the tail gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailRead {
    /// Events were added to the buffer.
    Some,
    /// Nothing newer exists; the waiter is kept.
    CaughtUp,
    /// What comes next has left memory: read the store.
    Behind,
}

impl Topic {
    pub fn new(
        name: TopicName,
        number: u64,
        settings: TopicSettings,
        metrics: TopicMetrics,
        bounds: Bounds,
        deleted_upto: u64,
    ) -> Self {
        let last = bounds.last.max(deleted_upto);
        let tail = Tail { events: VecDeque::new(), last, waiting: Vec::new() };
        let (groups, cleaning) = (RwLock::default(), tokio::sync::Mutex::default());
        let relaxed = AtomicBool::new(settings.durability == TopicDurability::Interval);
        let settings = RwLock::new(Arc::new(settings));
        let committing = AtomicUsize::new(0);
        Self {
            name,
            number,
            settings,
            relaxed,
            metrics,
            activity: TopicCounters::default(),
            groups,
            tail: Mutex::new(tail),
            payload_check: FoundCheck::default(),
            full: AtomicBool::new(false),
            counted: Mutex::default(),
            deleted_upto,
            life: AtomicU8::new(Life::There as u8),
            committing,
            held_up: AtomicBool::new(false),
            cleaning,
        }
    }

    /// What it keeps, as set now.
    pub fn settings(&self) -> Arc<TopicSettings> {
        self.settings.read().clone()
    }

    /// Whether a publisher is answered before the sync.
    pub fn is_relaxed(&self) -> bool {
        self.relaxed.load(Relaxed)
    }

    /// Other settings from now on. What is on its way to the store keeps the durability it had.
    pub fn set(&self, settings: TopicSettings) {
        self.relaxed.store(settings.durability == TopicDurability::Interval, Relaxed);
        *self.settings.write() = Arc::new(settings);
    }

    /// Whether a quota of its bytes is used up.
    pub fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    pub fn set_full(&self, full: bool) {
        self.full.store(full, Relaxed);
    }

    /// The bytes that it keeps, as last counted for quotas, and the seq up to which.
    pub fn counted(&self) -> (u64, u64) {
        *self.counted.lock()
    }

    pub fn set_counted(&self, bytes: u64, last: u64) {
        *self.counted.lock() = (bytes, last);
    }

    /// Whether the topic is being deleted, or was: nothing is published to it, and no group is made on it.
    pub fn is_deleting(&self) -> bool {
        self.life.load(Relaxed) >= Life::Deleting as u8
    }

    pub fn set_deleting(&self, deleting: bool) {
        self.life.store(if deleting { Life::Deleting } else { Life::There } as u8, Relaxed);
    }

    /// Whether the topic was deleted and is gone from memory. Another one of the same name may have taken its place.
    pub fn is_removed(&self) -> bool {
        self.life.load(Relaxed) == Life::Removed as u8
    }

    /// The topic is gone from memory. Answers those that waited for its next event.
    pub fn set_removed(&self) -> Vec<Waiter> {
        self.life.store(Life::Removed as u8, Relaxed);
        self.trim(u64::MAX - 1);
        std::mem::take(&mut self.tail.lock().waiting)
    }

    /// The highest seq committed.
    pub fn last(&self) -> u64 {
        self.tail.lock().last
    }

    /// See [`TailBudget::append`].
    fn append(&self, events: Vec<Arc<Event>>) -> Vec<Waiter> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Vec::new() };
        debug_assert_eq!(last.seq() - first.seq() + 1, events.len() as u64, "a run has no gaps");
        let mut tail = self.tail.lock();
        if last.seq() <= tail.last {
            // The store told us already; whoever reads finds them there.
            return std::mem::take(&mut tail.waiting);
        }
        if first.seq() != tail.last + 1 {
            // Something in between was committed without us knowing: the cache has to stay contiguous.
            tail.events.clear();
        }
        tail.last = last.seq();
        tail.events.extend(events);
        std::mem::take(&mut tail.waiting)
    }

    /// The store says how far the log goes. Answers who waited for what is new in that.
    pub fn learn(&self, bounds: Bounds) -> Vec<Waiter> {
        let mut tail = self.tail.lock();
        if bounds.last <= tail.last {
            return Vec::new();
        }
        tail.events.clear();
        tail.last = bounds.last;
        std::mem::take(&mut tail.waiting)
    }

    /// A commit of this hub begins, or has come to its end.
    pub fn set_committing(&self, under_way: bool) {
        match under_way {
            true => self.committing.fetch_add(1, Relaxed),
            false => self.committing.fetch_sub(1, Relaxed),
        };
    }

    /// Whether a commit of this hub is under way.
    pub fn is_committing(&self) -> bool {
        self.committing.load(Relaxed) > 0
    }

    /// Whether the store does not commit its events as it should.
    pub fn is_held_up(&self) -> bool {
        self.held_up.load(Relaxed)
    }

    pub fn set_held_up(&self, held_up: bool) {
        self.held_up.store(held_up, Relaxed);
    }

    /// Whether somebody has seen everything and wants more.
    pub fn is_waited_for(&self) -> bool {
        self.tail.lock().waiting.iter().any(Waiter::is_there)
    }

    /// Gives memory back: events up to `seq` go.
    fn trim(&self, seq: u64) {
        let mut tail = self.tail.lock();
        let first = tail.events.front().map_or(0, |event| event.seq());
        let count = (seq + 1).saturating_sub(first).min(tail.events.len() as u64) as usize;
        let gone: Vec<Arc<Event>> = tail.events.drain(..count).collect();
        if tail.events.is_empty() {
            tail.events = VecDeque::new();
        }
        drop(tail);
        // That takes a while, and nobody has to wait for it.
        drop(gone);
    }

    /// Copies events above `after`, up to a limit; at the end of the log the waiter is kept until the next append.
    pub fn read(
        &self,
        after: u64,
        max: ReadLimit,
        into: &mut VecDeque<Arc<Event>>,
        waiter: impl FnOnce() -> Option<Waiter>,
    ) -> TailRead {
        let mut tail = self.tail.lock();
        if after >= tail.last {
            let waiter = waiter();
            if tail.waiting.len() == tail.waiting.capacity() {
                // Before the list grows: those who are gone leave it.
                tail.waiting.retain(Waiter::is_there);
            }
            tail.waiting.extend(waiter);
            return TailRead::CaughtUp;
        }
        match tail.events.front().and_then(|first| (after + 1).checked_sub(first.seq())) {
            Some(at) => {
                let mut fits = max.gate();
                let events = tail.events.range(at as usize..).take_while(|event| fits(event.size()));
                into.extend(events.cloned());
                TailRead::Some
            }
            None => TailRead::Behind,
        }
    }

    /// One event, if it is still in memory.
    pub fn get(&self, seq: u64) -> Option<Arc<Event>> {
        let tail = self.tail.lock();
        let at = seq.checked_sub(tail.events.front()?.seq())?;
        tail.events.get(usize::try_from(at).ok()?).cloned()
    }

    pub fn group(&self, name: &str) -> Option<Arc<Group>> {
        self.groups.read().get(name).cloned()
    }
}

/// The memory of all tails together: what was committed first leaves first, whichever topic it is in.
pub(crate) struct TailBudget {
    limit: usize,
    runs: Mutex<Runs>,
}

#[derive(Default)]
struct Runs {
    queue: VecDeque<Run>,
    bytes: usize,
}

/// Events of a topic that were committed together.
struct Run {
    topic: Arc<Topic>,
    upto: u64,
    bytes: usize,
}

impl TailBudget {
    pub fn new(limit: usize) -> Self {
        Self { limit, runs: Mutex::default() }
    }

    /// Adds committed events to a topic, oldest first, and trims the oldest of all if it is too much. Answers who waited
    /// for them.
    pub fn append(&self, topic: &Arc<Topic>, events: Vec<Arc<Event>>) -> Vec<Waiter> {
        let Some(upto) = events.last().map(|event| event.seq()) else { return Vec::new() };
        let run = Run { topic: topic.clone(), upto, bytes: events.iter().map(|event| event.size()).sum() };
        let waiters = topic.append(events);
        let mut trimmed = Vec::new();
        {
            let mut runs = self.runs.lock();
            runs.bytes += run.bytes;
            runs.queue.push_back(run);
            while runs.bytes > self.limit
                && let Some(run) = runs.queue.pop_front()
            {
                runs.bytes -= run.bytes;
                trimmed.push(run);
            }
        }
        for run in trimmed {
            run.topic.trim(run.upto);
        }
        waiters
    }

    /// Lets go of every topic.
    pub fn clear(&self) {
        *self.runs.lock() = Runs::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bus;
    use crate::engine::By;

    #[tokio::test]
    async fn a_publish_follows_the_durability_that_is_set() {
        let bus = Bus::in_memory().await.expect("a bus");
        let topic = bus.engine().topic(&"t".parse().expect("a name"), By::User(None)).expect("a topic");
        assert!(!topic.is_relaxed());
        let interval = TopicSettings { durability: TopicDurability::Interval, ..TopicSettings::default() };
        bus.set_topics(vec![("*".parse().expect("a pattern"), interval)]).expect("they are good");
        assert!(topic.is_relaxed());
        bus.set_topics(Vec::new()).expect("none are good, too");
        assert!(!topic.is_relaxed());
        bus.stop().await.expect("it stops");
    }
}
