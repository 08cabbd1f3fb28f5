//! A member of a group in the simulator: a stream of deliveries, or one that settles by id, as hubs serve their clients.

use super::model::Lease;
use super::world::At;
use crate::Millis;
use crate::group::delivery::Delivery;
use crate::subscribe::{ById, Subscription};
use hub_proto::{Error, Event, EventId, Result};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};

pub(super) struct Member {
    pub(super) id: u64,
    pub(super) target: usize,
    pub(super) feed: Feed,
    pub(super) window: u64,
    pub(super) ack_timeout: Millis,
    pub(super) paused: bool,
    pub(super) hand: Vec<Held>,
    /// How many events it got.
    pub(super) handed: u64,
    /// Its connection is lost: it takes and settles nothing. The event that is to blame if it does not come back.
    pub(super) detached: Option<Option<EventId>>,
    /// Waits in `recv`, and is not looked at before it is woken: a wake-up that is lost is lost here, too.
    pub(super) asleep: bool,
    pub(super) alarm: Arc<Alarm>,
}

/// How a member gets its events.
pub(super) enum Feed {
    Stream(Subscription),
    ById(SharedById),
}

/// What is in hand is settled through the member, which may be gone by then.
#[derive(Clone)]
pub(super) struct SharedById(Rc<RefCell<Option<ById>>>);

impl SharedById {
    pub(super) fn new(feed: ById) -> Self {
        Self(Rc::new(RefCell::new(Some(feed))))
    }

    /// Does something with it, if it is still there.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut ById) -> T) -> Option<T> {
        self.0.borrow_mut().as_mut().map(act)
    }

    pub(super) fn take(&self) -> Option<ById> {
        self.0.borrow_mut().take()
    }

    fn settle<T>(&self, act: impl FnOnce(&mut ById) -> Result<T>) -> Result<T> {
        self.with(act).unwrap_or_else(|| Err(Error::unknown_id("its member is gone")))
    }
}

/// A waker that remembers.
#[derive(Default)]
pub(super) struct Alarm(AtomicBool);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// An event that came.
pub(super) struct Came {
    pub(super) event: Arc<Event>,
    pub(super) attempt: u32,
    pub(super) epoch: u64,
    grip: Grip,
}

impl Member {
    /// Looks for the next event, as a consumer would: not while it sleeps.
    pub(super) fn poll(&mut self) -> Option<Result<Came>> {
        if self.is_waiting() || self.detached.is_some() {
            return None;
        }
        self.alarm.0.store(false, SeqCst);
        let waker = self.alarm.clone().into();
        let context = &mut Context::from_waker(&waker);
        let polled = match &mut self.feed {
            Feed::Stream(subscription) => subscription.poll_recv(context).map_ok(|delivery| {
                let (event, attempt, epoch) =
                    (delivery.event().clone(), delivery.attempt(), delivery.lease.epoch);
                Came { event, attempt, epoch, grip: Grip::Delivery(delivery) }
            }),
            Feed::ById(feed) => match feed.with(|feed| feed.poll_recv(context)) {
                None => Poll::Pending,
                Some(polled) => polled.map_ok(|handed| {
                    let (event, attempt, epoch) = (handed.event, handed.attempt, handed.epoch);
                    let grip = Grip::Id(feed.clone(), event.id(), attempt);
                    Came { event, attempt, epoch, grip }
                }),
            },
        };
        self.asleep = polled.is_pending();
        match polled {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        }
    }

    /// Sleeps, and nobody has woken it.
    pub(super) fn is_waiting(&self) -> bool {
        self.asleep && !self.alarm.0.load(SeqCst)
    }

    /// Whether nothing is given to it.
    pub(super) fn rests(&self) -> bool {
        self.paused || self.detached.is_some()
    }

    /// It gets an event in hand.
    pub(super) fn hold(&mut self, came: Came, at: At, lease: Lease, since: Millis) {
        let Came { event, grip, .. } = came;
        self.handed += 1;
        self.hand.push(Held { grip, seq: event.seq(), at, lease, since, order: self.handed });
    }
}

impl Feed {
    pub(super) fn set_paused(&self, paused: bool) {
        let set = |subscription: &Subscription| match paused {
            true => subscription.pause(),
            false => subscription.resume(),
        };
        match self {
            Self::Stream(subscription) => set(subscription),
            Self::ById(feed) => drop(feed.with(|feed| set(feed.subscription()))),
        }
    }

    /// Leaves the group properly.
    pub(super) fn close(self) {
        match self {
            Self::Stream(subscription) => subscription.close(),
            Self::ById(feed) => feed.take().into_iter().for_each(ById::close),
        }
    }

    /// Vanishes: the oldest event in hand is to blame.
    pub(super) fn vanish(self) {
        match self {
            Self::Stream(subscription) => drop(subscription),
            Self::ById(feed) => drop(feed.take()),
        }
    }
}

/// A delivery somebody has, or had, in hand.
pub(super) struct Held {
    grip: Grip,
    seq: u64,
    pub(super) at: At,
    pub(super) lease: Lease,
    /// When it came.
    pub(super) since: Millis,
    /// Its place among all that its member got.
    pub(super) order: u64,
}

/// By what it is settled.
enum Grip {
    Delivery(Delivery),
    Id(SharedById, EventId, u32),
}

impl Held {
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The delivery, of a member that is a stream.
    pub(super) fn delivery(&self) -> Option<&Delivery> {
        match &self.grip {
            Grip::Delivery(delivery) => Some(delivery),
            Grip::Id(..) => None,
        }
    }

    /// The id, of a member that settles by id.
    pub(super) fn id(&self) -> Option<EventId> {
        match &self.grip {
            Grip::Delivery(_) => None,
            Grip::Id(_, id, _) => Some(*id),
        }
    }

    /// Whether what is said of one counts for the other: an id and an attempt say nothing of the epoch.
    pub(super) fn is_taken_for(&self, other: &Self) -> bool {
        match (&self.grip, &other.grip) {
            (Grip::Id(feed, id, attempt), Grip::Id(of, other, at)) => {
                Rc::ptr_eq(&feed.0, &of.0) && (id, attempt) == (other, at)
            }
            _ => false,
        }
    }

    pub(super) fn ack(&self) -> Result<()> {
        match &self.grip {
            Grip::Delivery(delivery) => delivery.ack(),
            Grip::Id(feed, id, attempt) => feed.settle(|feed| feed.ack(*id, Some(*attempt))),
        }
    }

    pub(super) fn nack(&self, delay: Option<Millis>) -> Result<()> {
        match (&self.grip, delay) {
            (Grip::Delivery(delivery), Some(delay)) => delivery.nack_after(delay, "simulated"),
            (Grip::Delivery(delivery), None) => delivery.nack("simulated"),
            (Grip::Id(feed, id, attempt), delay) => {
                feed.settle(|feed| feed.nack(*id, Some(*attempt), delay, "simulated"))
            }
        }
    }

    pub(super) fn give_back(&self, delay: Millis) -> Result<()> {
        match &self.grip {
            Grip::Delivery(delivery) => delivery.return_after(delay),
            Grip::Id(feed, id, attempt) => feed.settle(|feed| feed.give_back(*id, Some(*attempt), delay)),
        }
    }

    pub(super) fn extend(&self, millis: Millis) -> Result<Millis> {
        match &self.grip {
            Grip::Delivery(delivery) => delivery.extend(millis),
            Grip::Id(feed, id, attempt) => feed.settle(|feed| feed.extend(*id, Some(*attempt), millis)),
        }
    }
}

/// What a consumer says that it still works on.
pub(super) type Named = HashSet<EventId>;
