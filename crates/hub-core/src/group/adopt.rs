//! Members that come from another owner bring along what they hold.
//!
//! A group that was taken over reads its log again from the floor. When it comes by an event that a member brought along,
//! the lease goes on where it was, instead of a delivery to somebody. What was acked with the owner before, and perhaps not
//! saved, is settled at once.

use super::dispatch::{Lease, MemberId};
use super::{Delivery, Group, Inner};
use crate::Millis;
use hub_proto::{Event, limits};
use std::sync::Arc;

/// What a member brings along of one topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    /// Events that the member holds leases of.
    pub held: Vec<HeldLease>,
    /// What was acked: seqs, and the epochs they were delivered under.
    pub settled: Vec<(u64, u64)>,
}

/// A lease that a member has from another owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLease {
    pub seq: u64,
    pub attempt: u32,
    /// The group's epoch when it was delivered.
    pub epoch: u64,
    /// What is left of its time, if that is more than usual.
    pub left: Option<Millis>,
}

/// An event in a member's hands that the log was not read up to yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adopted {
    member: MemberId,
    attempt: u32,
    /// Its lease lasts until then at least.
    until: Millis,
}

impl Group {
    /// Takes note of what a member brings along. What was delivered before a seek is to be delivered again.
    pub(super) fn adopt(self: &Arc<Self>, inner: &mut Inner, id: MemberId, carried: &Carried) {
        // A higher one is of a seek that was not saved, and so never answered.
        let current = inner.disp.epoch();
        for &(seq, _) in carried.settled.iter().filter(|(_, epoch)| *epoch >= current) {
            inner.disp.settle_brought(seq);
            self.mark(inner);
        }
        let now = self.engine.clock.steady();
        for &HeldLease { seq, attempt, left, .. } in carried.held.iter().filter(|held| held.epoch >= current)
        {
            // One that came late may have been read past: then it is found again when its turn comes.
            if inner.disp.is_open(seq) && !inner.adopted.contains_key(&seq) {
                let until = now + left.unwrap_or(0).min(limits::MAX_DELAY_MS);
                inner.adopted.insert(seq, Adopted { member: id, attempt, until });
                inner.members.get(&id).into_iter().for_each(|slot| slot.mailbox.hold());
            }
        }
    }

    /// Forgets what a member, or everybody, brought along.
    pub(super) fn disown(&self, inner: &mut Inner, id: Option<MemberId>) {
        let members = &inner.members;
        inner.adopted.retain(|_, adopted| {
            let stays = id.is_some_and(|id| id != adopted.member);
            if !stays {
                members.get(&adopted.member).into_iter().for_each(|slot| slot.mailbox.release(1));
            }
            stays
        });
    }

    /// Forgets what the log was read past and is not open: it was settled meanwhile, or is gone.
    pub(super) fn disown_settled(&self, inner: &mut Inner) {
        if inner.adopted.is_empty() {
            return;
        }
        let (members, disp) = (&inner.members, &inner.disp);
        inner.adopted.retain(|&seq, adopted| {
            let stays = disp.is_open(seq);
            if !stays {
                members.get(&adopted.member).into_iter().for_each(|slot| slot.mailbox.release(1));
            }
            stays
        });
    }

    /// Goes on with a lease that was brought along. False if the event is to be delivered like any other.
    pub(super) fn take_up(self: &Arc<Self>, inner: &mut Inner, event: &Arc<Event>, now: Millis) -> bool {
        let seq = event.seq();
        let Some(Adopted { member, attempt, until }) = inner.adopted.remove(&seq) else { return false };
        match inner.disp.adopt(seq, member, attempt, until, now) {
            Some(lease) => self.hand_back(inner, event.clone(), lease),
            None => {
                inner.members.get(&member).into_iter().for_each(|slot| slot.mailbox.release(1));
                return false;
            }
        }
        true
    }

    /// The member has the event in hand already; its subscription gets the lease to it.
    fn hand_back(self: &Arc<Self>, inner: &mut Inner, event: Arc<Event>, lease: Lease) {
        let max_attempts = inner.record.options.max_attempts;
        let Some(slot) = inner.members.get_mut(&lease.member) else { return };
        if let Some(spans) = &mut inner.spans {
            spans.held(lease, &event);
        }
        slot.mailbox.requeue(event.size());
        if slot.staged.is_empty() {
            inner.touched.push(lease.member);
        }
        slot.staged.push(Delivery { event, group: self.clone(), lease, max_attempts, in_hand: true });
        self.metrics.inflight.inc();
    }

    /// An ack of an event that was brought along, which may not have been come by yet.
    pub fn ack_brought(self: &Arc<Self>, member: MemberId, seq: u64, attempt: u32, epoch: u64) {
        let epoch = self.locked(|inner| {
            if inner.adopted.get(&seq).is_none_or(|adopted| adopted.member != member) {
                return Some(epoch.min(inner.disp.epoch()));
            }
            inner.adopted.remove(&seq);
            inner.disp.settle_brought(seq);
            self.metrics.acked.inc();
            self.metrics.inflight.inc();
            self.settled(inner, member);
            None
        });
        if let Some(epoch) = epoch {
            // Should the lease have ended, the event comes again, as after any late ack.
            let _ = self.ack(Lease { member, seq, attempt, epoch });
        }
    }
}
