//! The subscriptions of one connection.
//!
//! Each has a bell of its own: who has something to deliver rings it, and only those that rang are looked at. A thousand
//! idle ones cost nothing but their memory.

use super::answer::Heading;
use super::request::Name;
use crate::acl::{Action, Policy, Target};
use crate::edge::Member;
use foldhash::fast::RandomState;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use hashbrown::HashMap;
use hub_core::{Millis, Pattern, TopicName, Watch, Watched};
use hub_proto::{EventId, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};
use std::task::{Context, Poll, Wake, Waker};
use tokio::time::Instant;

/// One subscription.
pub(crate) struct Subscription {
    pub name: Name,
    pub heading: Heading,
    pub feed: Feed,
    /// Which rights it needs.
    pub reads: Reads,
    /// Events of one `EVENTS`; `None`: each in a frame of its own.
    pub batch: Option<usize>,
    pub ack_timeout: Millis,
    /// How many topics it covered when it was opened.
    pub topics: usize,
    /// Events that it had in flight when that was looked at last.
    in_flight: usize,
    /// Of a subscription without a group: the bus does not know that it rests.
    pub paused: bool,
    /// Its topics have no bytes left of this second; events follow at this time.
    held_until: Option<Instant>,
    /// It stands in the line of those to be looked at.
    in_line: bool,
    /// It was looked at to the end: its bell rings when there is more, or when it ends.
    pub listens: bool,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Where events come from.
pub(crate) enum Feed {
    Group(Box<Member>),
    Watch(Watching),
}

impl Feed {
    /// Events that were delivered and are not settled, as far as this hub knows.
    fn in_flight(&self) -> usize {
        match self {
            Self::Group(member) => member.in_flight(),
            Self::Watch(_) => 0,
        }
    }

    /// How many topics it covered when it was opened, as far as this hub knows.
    pub fn topics(&self) -> usize {
        match self {
            Self::Group(member) => member.topics(),
            Self::Watch(Watching::Here(watch)) => watch.topics(),
            Self::Watch(_) => 1,
        }
    }
}

/// What a subscription reads, for the question whether it may.
pub(crate) enum Reads {
    Topics(Vec<TopicName>),
    Pattern(Pattern),
}

impl Reads {
    /// Whether it may have events of another topic than its name.
    pub fn is_wide(&self, name: &Name) -> bool {
        !matches!(self, Self::Topics(topics) if topics.len() == 1 && topics[0].as_str() == name.topic)
    }

    /// Whether it reads topics of a pattern.
    pub fn intersects(&self, pattern: &Pattern) -> bool {
        match self {
            Self::Topics(topics) => topics.iter().any(|topic| pattern.matches(topic)),
            Self::Pattern(own) => own.intersects(pattern),
        }
    }

    /// Whether `policy` allows it, with a group or without.
    pub fn allowed(&self, policy: &Policy, group: Option<&str>) -> bool {
        let ask = |target: Target<'_>| policy.allows(Action::Subscribe, target, group);
        match self {
            Self::Topics(topics) => topics.iter().all(|topic| ask(Target::Topic(topic))),
            Self::Pattern(pattern) => ask(Target::Pattern(pattern)),
        }
    }
}

impl Reads {
    /// Whether a rule names the group for all of it, or the topics may be administrated: then the group may be another subject's.
    pub fn names_group(&self, policy: &Policy, group: &str) -> bool {
        let is_named = |target: Target<'_>| {
            let decision = policy.decide(Action::Subscribe, target, Some(group));
            let rule = decision.rule.and_then(|at| policy.rules().get(at));
            rule.is_some_and(|rule| rule.groups.is_some()) || policy.allows(Action::Admin, target, None)
        };
        match self {
            Self::Topics(topics) => topics.iter().all(|topic| is_named(Target::Topic(topic))),
            Self::Pattern(pattern) => is_named(Target::Pattern(pattern)),
        }
    }
}

/// A watch, or the wait for its next event.
pub(crate) enum Watching {
    Here(Box<Watch>),
    Waiting(BoxFuture<'static, (Box<Watch>, Result<Watched>)>),
    /// Only within a poll.
    Nowhere,
}

impl Watching {
    /// The next event. What was read from the log in one go is given out without a wait.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Watched>> {
        if let Self::Here(watch) = self
            && let Some(watched) = watch.queued()
        {
            return Poll::Ready(Ok(watched));
        }
        let mut waiting = match std::mem::replace(self, Self::Nowhere) {
            Self::Here(mut watch) => Box::pin(async move {
                let watched = watch.recv().await;
                (watch, watched)
            }),
            Self::Waiting(waiting) => waiting,
            Self::Nowhere => return Poll::Pending,
        };
        match waiting.as_mut().poll(context) {
            Poll::Ready((watch, watched)) => {
                *self = Self::Here(watch);
                Poll::Ready(watched)
            }
            Poll::Pending => {
                *self = Self::Waiting(waiting);
                Poll::Pending
            }
        }
    }
}

/// Rung when there is something to deliver.
struct Bell {
    at: u32,
    rung: AtomicBool,
    rung_by: Arc<Rung>,
}

/// Which bells were rung, and who listens.
#[derive(Default)]
struct Rung {
    list: Mutex<Vec<u32>>,
    listener: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, AcqRel) {
            self.rung_by.list.lock().push(self.at);
            self.rung_by.listener.wake();
        }
    }
}

/// All of a connection.
#[derive(Default)]
pub(crate) struct Subscriptions {
    slots: Vec<Option<Subscription>>,
    free: Vec<u32>,
    by_name: HashMap<Name, u32, RandomState>,
    /// Those with this group that cover several topics: an event's own topic names them, too.
    by_group: HashMap<String, Vec<u32>, RandomState>,
    rung: Arc<Rung>,
    /// Events of all of them that are in flight.
    in_flight: usize,
    /// Rung before, not yet empty.
    ready: VecDeque<u32>,
}

impl Subscriptions {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Events of all of them that were delivered and are not settled.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Counts anew what one has in flight: after every change, so that the sum needs no walk.
    pub fn recount(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut(at as usize).and_then(Option::as_mut) {
            let before = std::mem::replace(&mut slot.in_flight, slot.feed.in_flight());
            self.in_flight = self.in_flight - before + slot.in_flight;
        }
    }

    pub fn has(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds one, and looks at it as soon as possible.
    pub fn add(&mut self, name: Name, feed: Feed, reads: Reads, batch: Option<usize>, ack_timeout: Millis) {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        let bell = Arc::new(Bell { at, rung: AtomicBool::new(true), rung_by: self.rung.clone() });
        let waker = Waker::from(bell.clone());
        let covers_several = reads.is_wide(&name);
        if let Some(group) = name.group.as_ref().filter(|_| covers_several) {
            self.by_group.entry(group.clone()).or_default().push(at);
        }
        self.by_name.insert(name.clone(), at);
        let (heading, topics) = (Heading::new(&name), feed.topics());
        let (paused, in_line, listens, held_until) = (false, true, false, None);
        // A member that was resumed has some.
        let in_flight = feed.in_flight();
        self.in_flight += in_flight;
        let slot = Some(Subscription {
            name,
            heading,
            feed,
            reads,
            batch,
            ack_timeout,
            topics,
            in_flight,
            paused,
            held_until,
            in_line,
            listens,
            bell,
            waker,
        });
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.ready.push_back(at);
    }

    /// One, and where it is.
    pub fn named(&mut self, name: &Name) -> Option<(u32, &mut Subscription)> {
        let at = *self.by_name.get(name)?;
        Some((at, self.slots[at as usize].as_mut()?))
    }

    /// How many with this group cover several topics.
    pub fn wide(&self, group: &str) -> usize {
        self.by_group.get(group).map_or(0, Vec::len)
    }

    /// Where an event that is named so may be: in the subscription of that name, and in those of its group that have the
    /// topic among others.
    pub fn candidates(&self, name: &Name) -> Vec<u32> {
        let named = self.by_name.get(name).copied();
        let wide = name.group.as_ref().and_then(|group| self.by_group.get(group));
        let covering = wide
            .into_iter()
            .flatten()
            .copied()
            .filter(|&at| Some(at) != named && self.covers(at, &name.topic));
        named.into_iter().chain(covering).collect()
    }

    /// Does something to the event `id` with the one of some that holds it; `None` if none does. An event goes by its own name
    /// whatever its topic is, else by that.
    pub fn settle<T>(
        &mut self,
        candidates: &[u32],
        name: &Name,
        id: EventId,
        act: impl FnOnce(&mut Member) -> T,
    ) -> Option<T> {
        let holds = |at: &u32| match self.slots[*at as usize].as_ref() {
            Some(Subscription { name: own, feed: Feed::Group(feed), .. }) => {
                feed.topic_of(id).is_some_and(|of| own == name || of.as_str() == name.topic)
            }
            _ => false,
        };
        let at = candidates.iter().copied().find(|at| holds(at))?;
        let Some(Feed::Group(feed)) = self.slots[at as usize].as_mut().map(|slot| &mut slot.feed) else {
            return None;
        };
        let done = act(feed);
        self.recount(at);
        Some(done)
    }

    /// Whether one has a topic among its own.
    fn covers(&self, at: u32, topic: &str) -> bool {
        self.slots[at as usize].as_ref().is_some_and(|slot| match &slot.reads {
            Reads::Topics(topics) => topics.iter().any(|name| name.as_str() == topic),
            Reads::Pattern(pattern) => pattern.matches(topic),
        })
    }

    pub fn remove(&mut self, name: &Name) -> Option<Subscription> {
        let at = self.by_name.remove(name)?;
        let slot = self.slots[at as usize].take()?;
        self.free.push(at);
        self.in_flight -= slot.in_flight;
        if let Some(group) = &name.group
            && let Some(wide) = self.by_group.get_mut(group)
        {
            wide.retain(|&other| other != at);
            if wide.is_empty() {
                self.by_group.remove(group);
            }
        }
        Some(slot)
    }

    /// What they are called.
    pub fn names(&self) -> Vec<Name> {
        self.by_name.keys().cloned().collect()
    }

    /// Every one.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.slots.iter_mut().flatten()
    }

    /// Every one, taken out.
    pub fn take_all(&mut self) -> Vec<Subscription> {
        self.by_name.clear();
        self.by_group.clear();
        self.free.clear();
        self.ready.clear();
        self.in_flight = 0;
        std::mem::take(&mut self.slots).into_iter().flatten().collect()
    }

    /// Those that `policy` does not allow any more, by name.
    pub fn forbidden(&self, policy: &Policy) -> Vec<Name> {
        let lost = |slot: &&Subscription| !slot.reads.allowed(policy, slot.name.group.as_deref());
        self.slots.iter().flatten().filter(lost).map(|slot| slot.name.clone()).collect()
    }

    /// The next one that has something to deliver, or may have.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<u32> {
        if self.ready.is_empty() {
            self.rung.listener.register(context.waker());
        }
        // Not only when nobody else is left: one that always has more would be the only one ever.
        let rung = std::mem::take(&mut *self.rung.list.lock());
        rung.into_iter().for_each(|at| self.again(at));
        match self.ready.pop_front() {
            Some(at) => {
                if let Some(slot) = &mut self.slots[at as usize] {
                    slot.in_line = false;
                }
                Poll::Ready(at)
            }
            None => Poll::Pending,
        }
    }

    /// Those whose end would not be heard of while nothing is delivered: they have rung, or were not looked at to the end.
    /// They stay in line.
    pub fn untended(&mut self, context: &Context<'_>) -> Vec<u32> {
        self.rung.listener.register(context.waker());
        let rung = std::mem::take(&mut *self.rung.list.lock());
        rung.into_iter().for_each(|at| self.again(at));
        let is_untended = |at: &u32| {
            let slot = self.slots[*at as usize].as_ref();
            slot.is_some_and(|slot| !slot.listens || slot.bell.rung.load(Acquire))
        };
        self.ready.iter().copied().filter(is_untended).collect()
    }

    /// Looks at one again later: it has more.
    pub fn again(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut(at as usize).and_then(Option::as_mut)
            && !std::mem::replace(&mut slot.in_line, true)
        {
            self.ready.push_back(at);
        }
    }

    /// Looks at one again at `until` at the latest.
    pub fn hold(&mut self, at: u32, until: Instant) {
        if let Some(slot) = self.slots.get_mut(at as usize).and_then(Option::as_mut) {
            slot.held_until = Some(until);
        }
    }

    /// Looks again at those that were held until `now`, or at all of them; when the next one is due.
    pub fn release(&mut self, now: Option<Instant>) -> Option<Instant> {
        let is_due = |until: &mut Instant| now.is_none_or(|now| *until <= now);
        for at in 0..self.slots.len() {
            if let Some(slot) = &mut self.slots[at]
                && slot.held_until.take_if(is_due).is_some()
            {
                self.again(at as u32);
            }
        }
        self.slots.iter().flatten().filter_map(|slot| slot.held_until).min()
    }

    /// One that has rung, with the bell that it is to ring next; `None` if it is gone.
    pub fn at(&mut self, at: u32) -> Option<(&mut Subscription, Waker)> {
        let slot = self.slots.get_mut(at as usize)?.as_mut()?;
        slot.bell.rung.store(false, std::sync::atomic::Ordering::Release);
        let waker = slot.waker.clone();
        Some((slot, waker))
    }
}
