//! Delivering: from the tail, or from what was read ahead, through the dispatcher into the mailboxes.

use super::delivery::Delivery;
use super::dispatch::{Admitted, MemberId, Released, Rules};
use super::{FETCH, Group, Inner, task};
use crate::Millis;
use crate::store::ReadLimit;
use crate::topic::{TailRead, Waiter};
use crate::trace::LeaseEnd;
use hub_proto::Event;
use std::sync::Arc;
use std::sync::atomic::{Ordering::AcqRel, Ordering::Release};

/// Events looked at per visit to the tail: enough to share its lock, few enough to stay in the processor's cache.
const CHUNK: ReadLimit = ReadLimit { events: 256, bytes: 1 << 20 };

/// How far a pump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pump {
    /// Redeliveries and unblocked keys only, unless reading had stopped because too much was parked.
    Ready,
    /// New events, too.
    All,
}

impl Group {
    /// A new event is there, or something the task has to see to.
    pub fn wake(&self) {
        self.listed.store(false, Release);
        self.wake.notify_one();
    }

    /// Delivers what can be delivered now, and calls the task for the rest.
    pub(super) fn pump(self: &Arc<Self>, inner: &mut Inner, how: Pump) {
        let now = self.engine.clock.steady();
        if self.deliver(inner, how, now) || inner.disp.next_deadline().is_some_and(|at| inner.is_sooner(at)) {
            self.wake.notify_one();
        }
    }

    /// Delivers what can be delivered now; true if the task has something to do.
    pub(super) fn deliver(self: &Arc<Self>, inner: &mut Inner, how: Pump, now: Millis) -> bool {
        self.expire(inner, now);
        if !self.tenure.is_open(now) || !self.engine.serves(now) {
            // The task has to hear of it once; then it looks again by itself.
            return !std::mem::replace(&mut inner.gated, true);
        }
        inner.gated = false;
        let mut task = self.redeliver(inner, now);
        let parks_less = inner.stalled && inner.disp.parked() < self.engine.config.max_parked;
        if how == Pump::All || parks_less {
            task |= self.deliver_new(inner, now);
        }
        self.disown_settled(inner);
        for id in std::mem::take(&mut inner.touched) {
            if let Some(slot) = inner.members.get_mut(&id) {
                slot.mailbox.push(&mut slot.staged);
            }
        }
        task
    }

    pub(super) fn expire(self: &Arc<Self>, inner: &mut Inner, now: Millis) {
        while let Some(Released { seq, member, .. }) = inner.disp.expire(now) {
            inner.end_span(seq, LeaseEnd::Expired, None);
            self.release(inner, member, 1);
            inner.disp.roomy(member);
            self.mark(inner);
        }
    }

    pub(super) fn redeliver(self: &Arc<Self>, inner: &mut Inner, now: Millis) -> bool {
        let coalesce = inner.disp.rules().coalesce;
        let mut after = 0;
        while let Some(seq) = inner.disp.next_ready(after, now) {
            after = seq;
            if inner.adopted.contains_key(&seq)
                && let Some(event) = self.topic.get(seq).or_else(|| inner.fetched.remove(&seq))
                && self.take_up(inner, &event, now)
            {
                continue;
            }
            let Some(member) = self.pick(inner) else {
                if coalesce {
                    // By the time there is room they may be overtaken.
                    inner.fetched.clear();
                }
                return false;
            };
            // A coalescing group has the task fetch them: on the way it asks which are overtaken.
            let in_tail = || if coalesce { None } else { self.topic.get(seq) };
            match inner.fetched.remove(&seq).or_else(in_tail) {
                Some(event) => drop(self.hand_over(inner, member, event, now)),
                None if inner.missing.len() < FETCH => drop(inner.missing.insert(seq)),
                None => break,
            }
        }
        if !inner.disp.has_ready() {
            inner.fetched.clear();
            inner.missing.clear();
        }
        !inner.missing.is_empty()
    }

    pub(super) fn deliver_new(self: &Arc<Self>, inner: &mut Inner, now: Millis) -> bool {
        let rules = inner.disp.rules();
        inner.stalled = false;
        while inner.disp.parked() < self.engine.config.max_parked {
            let member = self.pick(inner);
            if member.is_none() && inner.adopted.range(inner.disp.pos() + 1..).next().is_none() {
                return false;
            }
            let Some(event) = inner.ahead.pop_front() else {
                if inner.ahead_upto > inner.disp.pos() {
                    inner.disp.pass(inner.ahead_upto);
                    self.mark(inner);
                }
                match self.look_ahead(inner, rules) {
                    TailRead::Some => continue,
                    TailRead::CaughtUp => return false,
                    TailRead::Behind => return true,
                }
            };
            let seq = event.seq();
            if seq <= inner.disp.pos() {
                continue;
            }
            self.mark(inner);
            let for_us = event.audience().is_none_or(|audience| audience == self.name.as_str());
            if !for_us || !inner.record.options.filter.matches(&event) {
                inner.disp.pass(seq);
                continue;
            }
            // What is replayed for this group alone overtakes nothing and is not overtaken.
            let key = event.key_hash().zip(event.key());
            let key = key.filter(|_| !rules.coalesce || event.audience().is_none());
            match inner.disp.admit(seq, key) {
                Admitted::Ready if self.take_up(inner, &event, now) => {}
                Admitted::Ready => {
                    if !member.is_some_and(|member| self.hand_over(inner, member, event, now)) {
                        inner.disp.defer(seq);
                    }
                }
                Admitted::Parked | Admitted::Settled => {}
            }
        }
        // Too much is parked. Whoever settles something, and a consumer that runs dry, has us look again.
        inner.stalled = true;
        if let Some(member) = self.pick(inner)
            && let Some(slot) = inner.members.get(&member)
        {
            slot.note(self, member, true);
        }
        false
    }

    /// Fills `ahead` from the tail. `Behind` means that the task has to.
    pub(super) fn look_ahead(self: &Arc<Self>, inner: &mut Inner, rules: Rules) -> TailRead {
        // A coalescing group asks the store which events are overtaken, so it only wants to know whether there are any.
        let max = if rules.coalesce { ReadLimit { events: 0, bytes: 0 } } else { CHUNK };
        let pos = inner.disp.pos();
        let waiter = || (!self.listed.swap(true, AcqRel)).then(|| Waiter::Group(Arc::downgrade(self)));
        match self.topic.read(pos, max, &mut inner.ahead, waiter) {
            TailRead::Some if !rules.coalesce => {
                inner.ahead_upto = inner.ahead.back().map_or(pos, |event| event.seq());
                TailRead::Some
            }
            TailRead::CaughtUp => TailRead::CaughtUp,
            TailRead::Some | TailRead::Behind => {
                inner.behind = true;
                TailRead::Behind
            }
        }
    }

    /// The member whose turn it is; members without room ask to be told when they have some.
    pub(super) fn pick(self: &Arc<Self>, inner: &mut Inner) -> Option<MemberId> {
        let (members, touched) = (&inner.members, &inner.touched);
        inner.disp.pick(|id| {
            let Some(slot) = members.get(&id) else { return false };
            slot.mailbox.has_room() || {
                slot.note(self, id, touched.contains(&id));
                slot.mailbox.has_room()
            }
        })
    }

    /// Leases an event to a member and stages it; false if the member's room was taken by another topic meanwhile.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        inner: &mut Inner,
        member: MemberId,
        event: Arc<Event>,
        now: Millis,
    ) -> bool {
        let seq = event.seq();
        let max_attempts = inner.record.options.max_attempts;
        let slot = inner.members.get_mut(&member).expect("a picked member has a slot");
        if !slot.mailbox.reserve(event.size()) {
            return false;
        }
        let lease = inner.disp.lease(seq, member, now);
        inner.delivered_at = now;
        if slot.staged.is_empty() {
            inner.touched.push(member);
        }
        slot.staged.push(Delivery { event, group: self.clone(), lease, max_attempts, in_hand: false });
        self.metrics.inflight.inc();
        true
    }

    /// Leases of a member ended. Room in its mailbox may be what groups of other topics wait for.
    pub(super) fn release(&self, inner: &mut Inner, member: MemberId, leases: usize) {
        self.metrics.inflight.dec_by(leases as i64);
        if let Some(slot) = inner.members.get(&member)
            && leases > 0
        {
            slot.mailbox.release(leases);
            if slot.mailbox.is_waiting() {
                inner.freed.push(slot.mailbox.clone());
            }
        }
    }

    pub(super) fn ensure_task(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.has_task {
            inner.has_task = true;
            self.engine.spawn(task::run(self.clone()));
        }
    }
}
