//! A member of a group, as its consumer sees it.

use super::Predicate;
use crate::cluster::{Held, Stay};
use crate::engine::Engine;
use crate::group::Group;
use crate::group::delivery::Delivery;
use crate::group::dispatch::MemberId;
use crate::group::mailbox::Mailbox;
use crate::group::status::Reason;
use hub_proto::{Error, GroupName, Result};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A stream of events leased to this member. Each is to be acked, or nacked, in any order and from any task.
///
/// Dropping it without [`close`](Self::close) counts as a disconnect: what the member held goes to others at once, and
/// its oldest unsettled event counts a failure.
pub struct Subscription {
    engine: Arc<Engine>,
    mailbox: Arc<Mailbox>,
    id: MemberId,
    place: Option<Place>,
    topics: usize,
    /// Taken out of the mailbox in one go, given out one by one.
    queue: VecDeque<Delivery>,
    predicate: Option<Predicate>,
    batch_size: usize,
    /// The group's name stays this hub's for as long as there is a member.
    stay: Stay,
}

/// What the member has joined.
pub(super) struct Joined {
    pub place: Place,
    /// How many topics there were.
    pub topics: usize,
}

/// Where the member is.
pub(super) enum Place {
    One(Arc<Group>),
    Many(String, GroupName),
}

impl Subscription {
    pub(super) fn new(
        engine: Arc<Engine>,
        mailbox: Arc<Mailbox>,
        id: MemberId,
        Joined { place, topics }: Joined,
        predicate: Option<Predicate>,
        batch_size: usize,
        stay: Stay,
    ) -> Self {
        let queue = VecDeque::new();
        Self { engine, mailbox, id, place: Some(place), topics, queue, predicate, batch_size, stay }
    }

    /// How many topics it covered when it was opened.
    pub fn topics(&self) -> usize {
        self.topics
    }

    /// The next event; waits for one. An error ends the subscription: its group was deleted, or the hub stopped.
    ///
    /// Cancel safe: an event is leased to this member before it is answered, and one that is not answered stays first
    /// in line.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let mut work = bus.subscribe("jobs").group("workers").ack_timeout(5_000).open().await?;
    /// bus.publish("jobs", json!("sweep the floor")).await?;
    /// let job = work.recv().await?;
    /// match job.event().decode::<String>() {
    ///     Ok(text) => { println!("{text}"); job.ack()? }
    ///     Err(error) => job.nack(&error.to_string())?,
    /// }
    /// # bus.stop().await }
    /// ```
    pub async fn recv(&mut self) -> Result<Delivery> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next events: waits for one, and brings what else is here already, up to the member's batch size.
    ///
    /// Cancel safe, like [`recv`](Self::recv).
    pub async fn recv_batch(&mut self) -> Result<Vec<Delivery>> {
        let mut batch = vec![self.recv().await?];
        while batch.len() < self.batch_size
            && let Some(Ok(delivery)) = self.try_recv()
        {
            batch.push(delivery);
        }
        Ok(batch)
    }

    /// The next event if one is here already.
    pub fn try_recv(&mut self) -> Option<Result<Delivery>> {
        match self.poll_taken(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(delivery) => Some(delivery),
            Poll::Pending => None,
        }
    }

    /// See [`recv`](Self::recv).
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery>> {
        // A consumer with a backlog lets others run now and then: the committer shares its thread.
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        self.poll_taken(cx).map(|delivery| {
            budget.made_progress();
            delivery
        })
    }

    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery>> {
        if let Some(error) = self.mailbox.ended() {
            // What was held goes to others now, not when the consumer gets round to dropping this.
            self.leave(false);
            return Poll::Ready(Err(error));
        }
        loop {
            while let Some(delivery) = self.queue.pop_front() {
                if !delivery.in_hand && !delivery.group.take(delivery.lease, &delivery.event) {
                    continue;
                }
                if self.refuses(&delivery) {
                    continue;
                }
                return Poll::Ready(Ok(delivery));
            }
            match self.mailbox.poll(&mut self.queue, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether the member's own filter refuses a delivery that was just taken; then it is acked.
    pub(super) fn refuses(&self, delivery: &Delivery) -> bool {
        let refused = self.predicate.as_ref().is_some_and(|wants| !wants(&delivery.event));
        if refused {
            // The lease was taken a moment ago; should it be gone, the event comes again.
            let _ = delivery.ack();
        }
        refused
    }

    /// Takes the next queued delivery without starting its time to ack.
    pub(super) fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery>> {
        loop {
            if let Some(delivery) = self.queue.pop_front() {
                return Poll::Ready(Ok(delivery));
            }
            match self.mailbox.poll(&mut self.queue, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes everything that waits.
    pub(super) fn take_queued(&mut self) -> VecDeque<Delivery> {
        let mut queued = std::mem::take(&mut self.queue);
        self.mailbox.drain(&mut queued);
        queued
    }

    /// See [`ById::poll_ended`](super::ById::poll_ended).
    pub(super) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<Error> {
        self.mailbox.poll_ended(cx)
    }

    /// Gives this member nothing more until [`resume`](Self::resume). What it has in hand stays leased; what was queued
    /// for it goes to others.
    pub fn pause(&self) {
        self.set_paused(true);
    }

    /// Has the status of its groups show a reason in place of the one they find, for as long as all their members give one.
    pub fn show_reason(&self, reason: Option<Reason>) {
        self.mailbox.set_reason(reason);
    }

    /// Goes on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.set_paused(false);
    }

    /// Leaves the group. What the member held goes to others at once; nothing counts as failed.
    pub fn close(mut self) {
        self.leave(false);
    }

    /// Ends the subscription from outside with `error`, as losing a right does.
    pub fn end(&self, error: Error) {
        self.mailbox.end(error);
    }

    pub(super) fn save_mark(&self) -> u64 {
        self.engine.saver.save_mark()
    }

    pub(super) fn is_saved(&self, mark: u64) -> bool {
        // In this order: groups of a name that is lost are not saved, and nobody notices.
        self.engine.saver.is_saved(mark) && !self.stay.tenure.is_lost()
    }

    /// Acks an event that the member brought along from another owner.
    pub(super) fn ack_brought(&self, held: &Held) {
        let group = match &self.place {
            Some(Place::One(group)) => Some(group.clone()),
            Some(Place::Many(_, group)) => self.engine.find(&held.topic).and_then(|topic| topic.group(group)),
            None => None,
        };
        group.into_iter().for_each(|group| group.ack_brought(self.id, held.seq, held.attempt, held.epoch));
    }

    fn set_paused(&self, paused: bool) {
        match &self.place {
            Some(Place::One(group)) => group.set_paused(self.id, paused),
            Some(Place::Many(label, group)) => {
                self.engine.fans.set_paused(&self.engine, label, group, self.id, paused);
            }
            None => {}
        }
    }

    fn leave(&mut self, blame: bool) {
        // A hub that stops blames nobody, nor does a right that was lost.
        let blame = blame && !self.engine.stopping.is_cancelled() && self.mailbox.ended().is_none();
        match self.place.take() {
            Some(Place::One(group)) => group.leave(self.id, blame),
            Some(Place::Many(label, group)) => {
                self.engine.fans.leave(&self.engine, &label, &group, self.id, blame);
            }
            None => {}
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.leave(true);
    }
}

impl futures_core::Stream for Subscription {
    type Item = Result<Delivery>;

    /// Ends after the first error.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.place.is_none() {
            return Poll::Ready(None);
        }
        self.poll_recv(cx).map(Some)
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("member", &self.id).finish()
    }
}
