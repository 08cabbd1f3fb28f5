//! Between the groups that deliver and the one consumer that receives.
//!
//! A subscription has one mailbox, however many topics it covers. It is bounded: by the events that are out and not
//! settled, by the events that wait in it, and by their bytes. A group that finds it full leaves a note and is asked
//! again when there is room, so events of a slow consumer stay in the log.
//!
//! # No wake-up is lost
//! The consumer says `waiting` and then asks the groups once more; whoever makes room looks at `waiting` afterwards. A
//! group that finds no room leaves its note and then looks once more. Both are store-then-load on either side, hence
//! the sequentially consistent orderings.

use super::Group;
use super::delivery::Delivery;
use super::dispatch::MemberId;
use super::status::Reason;
use hub_proto::Error;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// See the module.
pub(crate) struct Mailbox {
    max_in_flight: usize,
    max_bytes: usize,
    /// Whom the consumer counts for.
    subject: Option<Arc<str>>,
    /// Leased and not settled, over all groups.
    outstanding: AtomicUsize,
    queued: AtomicUsize,
    queued_bytes: AtomicUsize,
    /// Nothing more is handed out.
    is_ended: AtomicBool,
    /// The consumer sleeps because nothing was here.
    waiting: AtomicBool,
    /// Why the member takes nothing, or little, if it said so.
    reason: Mutex<Option<Reason>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Delivery>,
    waker: Option<Waker>,
    ended: Option<Error>,
    /// Groups that found no room and got nothing in: first in line.
    starved: Vec<(Weak<Group>, MemberId)>,
    /// Groups that found no room after they got something in.
    served: Vec<(Weak<Group>, MemberId)>,
}

impl Mailbox {
    pub fn new(max_in_flight: usize, max_bytes: usize) -> Self {
        Self {
            max_in_flight,
            max_bytes,
            subject: None,
            outstanding: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            reason: Mutex::new(None),
            inner: Mutex::default(),
        }
    }

    /// Says why the member takes nothing, or little.
    pub fn set_reason(&self, reason: Option<Reason>) {
        *self.reason.lock() = reason;
    }

    /// Why the member takes nothing, or little, if it said so.
    pub fn reason(&self) -> Option<Reason> {
        *self.reason.lock()
    }

    /// For a consumer of a subject.
    pub fn of_subject(self, subject: Option<Arc<str>>) -> Self {
        Self { subject, ..self }
    }

    pub fn subject(&self) -> Option<&Arc<str>> {
        self.subject.as_ref()
    }

    /// Whether one more event may come. An expired lease leaves its event in the queue, hence both counts.
    pub fn has_room(&self) -> bool {
        !self.is_ended.load(SeqCst)
            && self.outstanding.load(SeqCst) < self.max_in_flight
            && self.queued.load(SeqCst) < self.max_in_flight
            && self.queued_bytes.load(SeqCst) < self.max_bytes
    }

    /// Reserves room for one event that will be pushed; false if another group was faster.
    pub fn reserve(&self, bytes: usize) -> bool {
        let one_more = |out: usize| (out < self.max_in_flight).then_some(out + 1);
        if self.outstanding.fetch_update(SeqCst, SeqCst, one_more).is_err() {
            return false;
        }
        self.queued.fetch_add(1, SeqCst);
        self.queued_bytes.fetch_add(bytes, SeqCst);
        true
    }

    /// The consumer has an event in hand already, whether there is room for it or not.
    pub fn hold(&self) {
        self.outstanding.fetch_add(1, SeqCst);
    }

    /// An event that is [held](Self::hold) will be pushed.
    pub fn requeue(&self, bytes: usize) {
        self.queued.fetch_add(1, SeqCst);
        self.queued_bytes.fetch_add(bytes, SeqCst);
    }

    /// Leases ended.
    pub fn release(&self, leases: usize) {
        self.outstanding.fetch_sub(leases, SeqCst);
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.load(SeqCst)
    }

    /// Hands over events for which room was reserved.
    pub fn push(&self, deliveries: &mut Vec<Delivery>) {
        let waker = {
            let mut inner = self.inner.lock();
            inner.queue.extend(deliveries.drain(..));
            self.waiting.store(false, SeqCst);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Remembers a group that found no room.
    pub fn starve(&self, group: Weak<Group>, member: MemberId, got_something: bool) {
        let mut inner = self.inner.lock();
        match got_something {
            true => inner.served.push((group, member)),
            false => inner.starved.push((group, member)),
        }
    }

    /// Asks the groups that found no room again, those that got nothing first.
    pub fn feed(&self) {
        let (starved, served) = {
            let mut inner = self.inner.lock();
            (std::mem::take(&mut inner.starved), std::mem::take(&mut inner.served))
        };
        for (group, member) in starved.into_iter().chain(served) {
            if let Some(group) = group.upgrade() {
                group.roomy(member);
            }
        }
    }

    /// Ends the subscription: nothing more is handed out, the consumer gets `error`.
    pub fn end(&self, error: Error) {
        let mut inner = self.inner.lock();
        inner.ended.get_or_insert(error);
        self.is_ended.store(true, SeqCst);
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            waker.wake();
        }
    }

    /// What the subscription ended with.
    pub fn ended(&self) -> Option<Error> {
        if !self.is_ended.load(SeqCst) {
            return None;
        }
        self.inner.lock().ended.clone()
    }

    /// Waits for the end; nothing is taken. Whoever polls for events is woken instead of this one.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<Error> {
        let mut inner = self.inner.lock();
        match &inner.ended {
            Some(error) => Poll::Ready(error.clone()),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Moves everything that is queued into `into`; waits if there is nothing.
    pub fn poll(&self, into: &mut VecDeque<Delivery>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.ended() {
            return Poll::Ready(Err(error));
        }
        if self.drain(into) {
            return Poll::Ready(Ok(()));
        }
        self.feed();
        if self.drain(into) {
            return Poll::Ready(Ok(()));
        }
        // From here on an ack makes room at once, instead of waiting for the next call.
        self.waiting.store(true, SeqCst);
        {
            let mut inner = self.inner.lock();
            if let Some(error) = &inner.ended {
                return Poll::Ready(Err(error.clone()));
            }
            if inner.queue.is_empty() {
                inner.waker = Some(cx.waker().clone());
            }
        }
        if self.drain(into) {
            return Poll::Ready(Ok(()));
        }
        // Room that was made before `waiting` was seen.
        self.feed();
        if self.drain(into) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Moves everything that is queued into `into`; false if there is nothing.
    pub fn drain(&self, into: &mut VecDeque<Delivery>) -> bool {
        let mut inner = self.inner.lock();
        if inner.queue.is_empty() {
            return false;
        }
        let bytes: usize = inner.queue.iter().map(|delivery| delivery.event().size()).sum();
        self.queued.fetch_sub(inner.queue.len(), SeqCst);
        self.queued_bytes.fetch_sub(bytes, SeqCst);
        self.waiting.store(false, SeqCst);
        if into.is_empty() {
            std::mem::swap(into, &mut inner.queue);
        } else {
            into.append(&mut inner.queue);
        }
        true
    }
}

/// A member's end of a mailbox, as the group keeps it.
pub(super) struct Slot {
    pub mailbox: Arc<Mailbox>,
    /// Deliveries decided on and not yet pushed.
    pub staged: Vec<Delivery>,
    /// The group's note is with the mailbox; one is enough.
    pub noted: Cell<bool>,
}

impl Slot {
    pub fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox, staged: Vec::new(), noted: Cell::new(false) }
    }

    /// Has the group asked again when the member has room, or runs dry.
    pub fn note(&self, group: &Arc<Group>, member: MemberId, got_something: bool) {
        if !self.noted.replace(true) {
            self.mailbox.starve(Arc::downgrade(group), member, got_something);
        }
    }
}
