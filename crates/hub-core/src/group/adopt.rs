//! Members that come from another owner bring along what they hold.
//!
//! A group that was taken over reads its log again from the floor. When it comes by an event that a member brought along,
//! the lease goes on where it was, instead of a delivery to somebody; one that was acked with the owner before, and
//! perhaps not saved, is settled.

use super::dispatch::{Lease, MemberId};
use super::{Delivery, Group, Inner};
use crate::Millis;
use hub_proto::Event;
use std::sync::Arc;

/// What a member brings along of one topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    /// Seqs in hand, with their attempts.
    pub held: Vec<(u64, u32)>,
    /// Seqs that were acked.
    pub settled: Vec<u64>,
}

/// What is to become of an event when the log is read that far.
#[derive(Clone, Copy, Debug)]
pub(super) enum Adopted {
    Held(MemberId, u32),
    Settled,
}

impl Group {
    /// Takes note of what a member brings along.
    pub(super) fn adopt(self: &Arc<Self>, inner: &mut Inner, id: MemberId, carried: &Carried) {
        for &seq in &carried.settled {
            match seq > inner.disp.pos() {
                true => drop(inner.adopted.insert(seq, Adopted::Settled)),
                false => inner.disp.gone(seq),
            }
            self.mark(inner);
        }
        for &(seq, attempt) in &carried.held {
            // One that came late may have been read past: then it is found again when its turn comes.
            let is_open = seq > inner.disp.pos() || inner.disp.is_deliverable(seq);
            if is_open && !inner.adopted.contains_key(&seq) {
                inner.adopted.insert(seq, Adopted::Held(id, attempt));
                inner.members.get(&id).into_iter().for_each(|slot| slot.mailbox.hold());
            }
        }
    }

    /// Forgets what a member, or everybody, brought along.
    pub(super) fn disown(&self, inner: &mut Inner, id: Option<MemberId>) {
        let members = &inner.members;
        inner.adopted.retain(|_, adopted| match *adopted {
            Adopted::Held(member, _) if id.is_none_or(|id| id == member) => {
                members.get(&member).into_iter().for_each(|slot| slot.mailbox.release(1));
                false
            }
            Adopted::Held(..) => true,
            Adopted::Settled => id.is_some(),
        });
    }

    /// Goes on with what was brought along. False if the event is to be delivered like any other.
    pub(super) fn take_up(self: &Arc<Self>, inner: &mut Inner, event: &Arc<Event>, now: Millis) -> bool {
        let seq = event.seq();
        match inner.adopted.remove(&seq) {
            None => false,
            Some(Adopted::Settled) => {
                inner.disp.gone(seq);
                true
            }
            Some(Adopted::Held(member, attempt)) => {
                match inner.disp.adopt(seq, member, attempt, now) {
                    Some(lease) => self.hand_back(inner, event.clone(), lease),
                    None => {
                        inner.members.get(&member).into_iter().for_each(|slot| slot.mailbox.release(1));
                        return false;
                    }
                }
                true
            }
        }
    }

    /// The member has the event in hand already; its subscription gets the lease to it.
    fn hand_back(self: &Arc<Self>, inner: &mut Inner, event: Arc<Event>, lease: Lease) {
        let max_attempts = inner.record.options.max_attempts;
        let Some(slot) = inner.members.get_mut(&lease.member) else { return };
        slot.mailbox.requeue(event.size());
        if slot.staged.is_empty() {
            inner.touched.push(lease.member);
        }
        slot.staged.push(Delivery { event, group: self.clone(), lease, max_attempts, in_hand: true });
        self.metrics.inflight.inc();
    }
}
