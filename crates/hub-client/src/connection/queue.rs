//! Events between the connection's task and the program that takes them.
//!
//! Three bounds, one for each way of reading. None of them loses what is not told:
//!
//! - **A group** is bounded by its window: a hub has at most `maxInFlight` events leased to a member, so a queue of that
//!   length never has to make the reader wait. If it is full all the same, leases have run out while nobody took the
//!   events (or the group was put elsewhere): the oldest is no longer ours, comes again anyway, and gives way.
//! - **Without a group** there is no window. The oldest give way, and the program gets [`Arrival::Lagged`].
//! - **Without a group, [`WhenFull::Wait`]**: the task reads nothing more until there is room. TCP then makes the hub wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hub_proto::{Event, TopicName};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Error, Name, Result, SubscribeOptions, WhenFull};

/// Events that wait for a program that has no group.
const EVENTS: usize = 1000;
/// And their bytes: few large ones are as much as many small ones.
const BYTES: usize = 8 << 20;

/// What comes of a subscription.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// An event.
    Event(Delivered),
    /// Events that were missed, by a subscription without a group: the program did not take them as fast as they came.
    Lagged {
        /// The topic they were of; `None` if they were left out on this side, and can be of any topic of the
        /// subscription.
        topic: Option<Box<str>>,
        /// How many.
        missed: u64,
    },
}

/// An event that was delivered.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The event. Its commit time is not known here: `committed()` is its `ts()`.
    pub event: Event,
    /// The subscription that it came by.
    pub name: Arc<Name>,
    /// How often it was delivered, this time included; 0 without a group.
    pub attempt: u32,
    /// How many failures make it a dead letter; 0 without a group.
    pub max_attempts: u32,
    /// When its lease ends unless it is settled or extended; `None` without a group.
    pub ack_deadline: Option<Instant>,
    /// The group's epoch: how often it was placed anew. An event that comes again under a higher one is wanted again.
    pub epoch: u64,
}

/// What to do when it is full.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Window(usize),
    Lag,
    Wait,
}

/// The events of one subscription that nobody has taken yet.
pub(crate) struct Queue {
    pub name: Arc<Name>,
    /// The topic, if it is just one: events share it.
    pub topic: Option<TopicName>,
    bound: Bound,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrivals: VecDeque<Arrival>,
    bytes: usize,
    /// Events that gave way; older than all that is in `arrivals`.
    missed: u64,
    ended: Option<Error>,
    /// The program has left.
    gone: bool,
    reader: Option<Waker>,
    task: Option<Waker>,
}

impl Queue {
    pub fn new(name: Arc<Name>, options: &SubscribeOptions) -> Self {
        let topic = match options.topics.is_empty() {
            true => TopicName::stored(&name.topic).ok(),
            false => None,
        };
        let bound = match (&name.group, options.when_full) {
            (Some(_), _) => Bound::Window(options.window()),
            (None, WhenFull::Lag) => Bound::Lag,
            (None, WhenFull::Wait) => Bound::Wait,
        };
        Self { name, topic, bound, state: Mutex::default() }
    }

    /// Adds something; whether the task is to wait for room before it reads on.
    pub fn push(&self, arrival: Arrival) -> bool {
        let mut state = self.state.lock();
        if state.gone || state.ended.is_some() {
            return false;
        }
        let bytes = size(&arrival);
        match self.bound {
            Bound::Window(events) => {
                while state.arrivals.len() >= events {
                    state.give_way();
                }
            }
            Bound::Lag => {
                while state.is_full(bytes) {
                    state.give_way();
                }
            }
            Bound::Wait => {}
        }
        state.bytes += bytes;
        state.arrivals.push_back(arrival);
        let full = matches!(self.bound, Bound::Wait) && state.is_full(0);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        full
    }

    /// Waits until the program has taken something, or left.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.gone || !state.is_full(0) {
            return Poll::Ready(());
        }
        state.task = Some(context.waker().clone());
        Poll::Pending
    }

    /// Nothing more comes.
    pub fn end(&self, why: Error) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        if self.name.group.is_some() {
            // Their leases went with the subscription: they come again, to somebody.
            state.arrivals.clear();
            state.bytes = 0;
        }
        state.ended = Some(why);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The program takes nothing more.
    pub fn leave(&self) {
        let mut state = self.state.lock();
        state.gone = true;
        state.arrivals.clear();
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Result<Arrival>> {
        // Who takes one event after the other lets others have a turn, as with the channels of tokio.
        let turn = std::task::ready!(tokio::task::coop::poll_proceed(context));
        let taken = self.poll_take(context);
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    fn poll_take(&self, context: &mut Context<'_>) -> Poll<Result<Arrival>> {
        let mut state = self.state.lock();
        if state.missed > 0 {
            let missed = std::mem::take(&mut state.missed);
            if self.name.group.is_none() {
                return Poll::Ready(Ok(Arrival::Lagged { topic: None, missed }));
            }
            tracing::debug!(topic = &*self.name.topic, missed, "leases ran out before the events were taken");
        }
        if let Some(arrival) = state.arrivals.pop_front() {
            state.bytes -= size(&arrival);
            let roomy = state.arrivals.len() <= EVENTS / 2 && state.bytes <= BYTES / 2;
            let task = if roomy { state.task.take() } else { None };
            drop(state);
            if let Some(task) = task {
                task.wake();
            }
            return Poll::Ready(Ok(arrival));
        }
        if let Some(why) = &state.ended {
            return Poll::Ready(Err(why.clone()));
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl State {
    fn is_full(&self, more: usize) -> bool {
        !self.arrivals.is_empty() && (self.arrivals.len() >= EVENTS || self.bytes + more > BYTES)
    }

    /// Leaves the oldest out.
    fn give_way(&mut self) {
        let Some(oldest) = self.arrivals.pop_front() else { return };
        self.bytes -= size(&oldest);
        self.missed += match oldest {
            Arrival::Event(_) => 1,
            Arrival::Lagged { missed, .. } => missed,
        };
    }
}

fn size(arrival: &Arrival) -> usize {
    match arrival {
        Arrival::Event(delivered) => delivered.event.size(),
        Arrival::Lagged { .. } => 0,
    }
}
