//! What a consumer does with an event it was given: take it in hand, settle it, ask for more time.

use super::dispatch::{Lease, MemberId};
use super::pump::Pump;
use super::{Group, Inner};
use crate::Millis;
use crate::cluster::not_owner;
use crate::trace::LeaseEnd;
use hub_proto::{Error, Event, Result, limits};
use std::sync::Arc;

impl Group {
    /// The consumer gets a queued event in hand. False if its lease is over: the consumer never sees it.
    pub fn take(self: &Arc<Self>, lease: Lease, event: &Event) -> bool {
        let mut inner = self.inner.lock();
        let now = self.engine.clock.steady();
        if inner.lost || !inner.disp.take(lease, now) {
            return false;
        }
        self.mark(&mut inner);
        let waited = self.engine.clock.wall().saturating_sub(event.committed());
        self.count(&mut inner, |activity| {
            activity.delivered += 1;
            activity.redelivered += u64::from(lease.attempt > 1);
            activity.latency.add(waited);
        });
        if let Some(spans) = &mut inner.spans {
            spans.delivered(lease, event);
        }
        drop(inner);
        self.metrics.delivered.inc();
        if lease.attempt > 1 {
            self.metrics.redelivered.inc();
        }
        self.metrics.waited(waited, 1);
        true
    }

    /// Whether the lease is in force.
    pub fn is_held(&self, lease: Lease) -> bool {
        self.inner.lock().disp.is_held(lease)
    }

    pub fn ack(self: &Arc<Self>, lease: Lease) -> Result<()> {
        self.locked(|inner| {
            self.check_owned(inner)?;
            let acked = inner.disp.ack(lease).ok_or_else(|| self.not_held(lease))?;
            let took = acked.taken.map(|taken| self.engine.clock.steady().saturating_sub(taken));
            if let Some(took) = took {
                self.metrics.handled(took);
            }
            self.metrics.acked.inc();
            inner.end_span(lease.seq, LeaseEnd::Acked, None);
            self.count(inner, |activity| {
                activity.acked += 1;
                took.into_iter().for_each(|took| activity.handler.add(took));
            });
            self.settled(inner, lease.member);
            Ok(())
        })
    }

    pub fn nack(self: &Arc<Self>, lease: Lease, delay: Option<Millis>, reason: &str) -> Result<()> {
        self.locked(|inner| {
            self.check_owned(inner)?;
            let now = self.engine.clock.steady();
            let reason = shorten(reason, limits::REASON_BYTES);
            inner.disp.nack(lease, delay, reason, now).ok_or_else(|| self.not_held(lease))?;
            self.metrics.nacked.inc();
            inner.end_span(lease.seq, LeaseEnd::Nacked, Some(reason));
            self.count(inner, |activity| activity.nacked += 1);
            if inner.disp.has_burials() {
                self.ensure_task(inner);
                self.wake.notify_one();
            }
            self.settled(inner, lease.member);
            Ok(())
        })
    }

    /// The holder gives the event back, which is not its failure: it returns after `delay`.
    pub fn return_after(self: &Arc<Self>, lease: Lease, delay: Millis) -> Result<()> {
        self.locked(|inner| {
            self.check_owned(inner)?;
            let now = self.engine.clock.steady();
            inner.disp.return_after(lease, delay, now).ok_or_else(|| self.not_held(lease))?;
            inner.end_span(lease.seq, LeaseEnd::Returned, None);
            self.settled(inner, lease.member);
            Ok(())
        })
    }

    /// The holder vanished, and this event may be what killed it.
    pub fn blame(self: &Arc<Self>, lease: Lease) {
        self.locked(|inner| {
            if inner.lost || inner.disp.blame(lease, self.engine.clock.steady()).is_none() {
                return;
            }
            inner.end_span(lease.seq, LeaseEnd::Disconnected, None);
            if inner.disp.has_burials() {
                self.ensure_task(inner);
                self.wake.notify_one();
            }
            self.settled(inner, lease.member);
        });
    }

    /// The event never reached the consumer: others may have it, as if nobody had.
    pub fn unsent(self: &Arc<Self>, lease: Lease) -> Result<()> {
        self.locked(|inner| {
            self.check_owned(inner)?;
            inner.disp.unsent(lease).ok_or_else(|| self.not_held(lease))?;
            inner.end_span(lease.seq, LeaseEnd::Unsent, None);
            self.settled(inner, lease.member);
            Ok(())
        })
    }

    pub fn extend(&self, lease: Lease, extend: Millis) -> Result<Millis> {
        let mut inner = self.inner.lock();
        self.check_owned(&inner)?;
        let now = self.engine.clock.steady();
        inner.disp.extend(lease, extend, now).ok_or_else(|| self.not_held(lease))
    }

    /// What is left of the lease, if that is more than what a new one has.
    pub fn more_left(&self, lease: Lease) -> Option<Millis> {
        self.inner.lock().disp.more_left(lease, self.engine.clock.steady())
    }

    /// What is left of the lease.
    pub fn time_left(&self, lease: Lease) -> Option<Millis> {
        self.inner.lock().disp.time_left(lease, self.engine.clock.steady())
    }

    /// Nothing is settled that the next owner would not hear of.
    fn check_owned(&self, inner: &Inner) -> Result<()> {
        if inner.lost { Err(not_owner(&self.name)) } else { Ok(()) }
    }

    /// A member's lease ended by its own word: it has room for one more.
    pub(super) fn settled(self: &Arc<Self>, inner: &mut Inner, member: MemberId) {
        self.mark(inner);
        self.release(inner, member, 1);
        if !inner.freed.is_empty() {
            inner.disp.roomy(member);
            self.pump(inner, Pump::All);
        } else if inner.disp.has_ready() || inner.disp.in_backoff() || inner.stalled {
            self.pump(inner, Pump::Ready);
        }
    }

    pub(super) fn not_held(&self, lease: Lease) -> Error {
        Error::unknown_id(format!(
            "event {} of topic {} is not held by this member of group {} (attempt {}): it was settled, its lease ran \
             out, or the cursor was set",
            lease.seq, self.topic.name, self.name, lease.attempt
        ))
    }
}

/// At most `max` bytes of `text`, cut between characters.
fn shorten(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
