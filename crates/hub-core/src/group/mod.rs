//! A group on one topic: the dispatcher, and around it what finds events, hands them over and saves what was done.
//!
//! Acks, takes and deliveries run on the caller's thread under the group's lock, which is never held across an await.
//! What needs the store or a timer is done by the group's task ([`task`]), which exists while the group has members or
//! a dead letter to write. A group without members costs its memory and nothing else.

mod deadlines;
pub(crate) mod delivery;
pub(crate) mod dispatch;
mod keys;
pub(crate) mod mailbox;
pub mod options;
pub mod ranges;
pub mod state;
pub(crate) mod status;
mod task;
mod window;

use self::delivery::{Delivery, Lease};
use self::dispatch::{Admitted, Dispatcher, MemberId, Released, Rules};
use self::mailbox::{Mailbox, Slot};
use self::options::{GroupOptions, Ordering};
use self::state::GroupState;
use crate::Millis;
use crate::engine::Engine;
use crate::metrics::GroupMetrics;
use crate::store::{GroupRecord, Record, StoredGroup};
use crate::topic::{TailRead, Topic, Waiter};
use hub_proto::{Error, Event, GroupName, Result, limits};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use tokio::sync::Notify;

/// Events looked at per visit to the tail: enough to share its lock, few enough to stay in the processor's cache.
const CHUNK: usize = 256;
/// Redeliveries fetched from the store at once.
const FETCH: usize = 256;

pub(crate) struct Group {
    pub topic: Arc<Topic>,
    pub name: GroupName,
    engine: Arc<Engine>,
    metrics: GroupMetrics,
    inner: Mutex<Inner>,
    /// Wakes the task.
    wake: Notify,
    /// Stands in the topic's list of those who wait for the next event.
    listed: AtomicBool,
}

struct Inner {
    record: GroupRecord,
    disp: Dispatcher,
    members: BTreeMap<MemberId, Slot>,
    /// Members with staged deliveries.
    touched: Vec<MemberId>,
    /// Events read ahead of the dispatcher.
    ahead: VecDeque<Arc<Event>>,
    /// How far `ahead` reaches; above its last event lie holes.
    ahead_upto: u64,
    /// Redeliveries that have left the tail: to be fetched, and fetched.
    missing: BTreeSet<u64>,
    fetched: BTreeMap<u64, Arc<Event>>,
    /// Raised when what was read ahead is no longer what comes next.
    generation: u64,
    /// The next event has left the tail (or has to be looked at with the store's help): the task reads.
    behind: bool,
    /// The store failed; not asked again before then.
    retry_at: Option<Millis>,
    /// The task sleeps until then at the latest.
    armed: Option<Millis>,
    has_task: bool,
    /// Listed with the saver.
    dirty: bool,
    record_dirty: bool,
    saved: GroupState,
    deleted: bool,
}

/// How far a pump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pump {
    /// Redeliveries and unblocked keys only.
    Ready,
    /// New events, too.
    All,
}

impl Group {
    pub fn new(engine: Arc<Engine>, topic: Arc<Topic>, stored: StoredGroup, record_dirty: bool) -> Arc<Self> {
        let StoredGroup { record, state } = stored;
        let rules = rules(&record);
        let metrics = engine.metrics.group(&topic.name, &record.name);
        let name = record.name.clone();
        let inner = Inner {
            record,
            disp: Dispatcher::restore(state.clone(), rules),
            members: BTreeMap::new(),
            touched: Vec::new(),
            ahead: VecDeque::new(),
            ahead_upto: 0,
            missing: BTreeSet::new(),
            fetched: BTreeMap::new(),
            generation: 0,
            behind: false,
            retry_at: None,
            armed: None,
            has_task: false,
            dirty: false,
            record_dirty,
            // The record is not stored, or not as it is: what is stored beside it may be from an earlier life.
            saved: if record_dirty { GroupState::unknown() } else { state },
            deleted: false,
        };
        let group = Arc::new(Self {
            topic,
            name,
            engine,
            metrics,
            inner: Mutex::new(inner),
            wake: Notify::new(),
            listed: AtomicBool::new(false),
        });
        if record_dirty {
            group.mark(&mut group.inner.lock());
        }
        group
    }

    // ---- members ----

    /// Adds a member and starts to deliver to it.
    pub fn join(self: &Arc<Self>, id: MemberId, mailbox: Arc<Mailbox>, ack_timeout: Millis) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.deleted {
            return Err(deleted(&self.name));
        }
        inner.members.insert(id, Slot { mailbox, staged: Vec::new() });
        inner.disp.join(id, ack_timeout);
        if inner.record.idle_since.take().is_some() {
            inner.record_dirty = true;
            self.mark(&mut inner);
        }
        self.ensure_task(&mut inner);
        self.pump(&mut inner, Pump::All);
        Ok(())
    }

    /// Removes a member. `blame`: it vanished, so its oldest event in hand counts a failure.
    pub fn leave(self: &Arc<Self>, id: MemberId, blame: bool) {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.members.remove(&id) else { return };
        let now = self.engine.clock.steady();
        let released = inner.disp.leave(id, blame, now);
        slot.mailbox.release(released);
        self.metrics.inflight.dec_by(released as i64);
        if inner.members.is_empty() {
            inner.record.idle_since = Some(self.engine.now_unset());
            inner.record_dirty = true;
        }
        self.mark(&mut inner);
        if inner.disp.has_burials() {
            self.ensure_task(&mut inner);
        }
        self.pump(&mut inner, Pump::All);
        self.wake.notify_one();
    }

    pub fn set_paused(self: &Arc<Self>, id: MemberId, paused: bool) {
        let mut inner = self.inner.lock();
        inner.disp.set_paused(id, paused);
        self.pump(&mut inner, Pump::All);
    }

    /// A member's mailbox has room again.
    pub fn roomy(self: &Arc<Self>, id: MemberId) {
        let mut inner = self.inner.lock();
        inner.disp.roomy(id);
        self.pump(&mut inner, Pump::All);
    }

    /// When the member got its oldest unsettled event in hand.
    pub fn oldest_taken(&self, id: MemberId) -> Option<Millis> {
        self.inner.lock().disp.oldest_taken(id)
    }

    pub fn has_members(&self) -> bool {
        !self.inner.lock().members.is_empty()
    }

    // ---- leases ----

    /// The consumer gets a queued event in hand. False if its lease is over: the consumer never sees it.
    pub fn take(self: &Arc<Self>, lease: Lease, event: &Event) -> bool {
        let mut inner = self.inner.lock();
        let now = self.engine.clock.steady();
        if lease.epoch != inner.disp.epoch() || !inner.disp.take(lease.member, lease.seq, lease.attempt, now)
        {
            return false;
        }
        self.mark(&mut inner);
        drop(inner);
        self.metrics.delivered.inc();
        if lease.attempt > 1 {
            self.metrics.redelivered.inc();
        }
        self.metrics.waited(self.engine.clock.wall().saturating_sub(event.committed()), 1);
        true
    }

    /// Whether the lease is in force.
    pub fn is_held(&self, lease: Lease) -> bool {
        let mut inner = self.inner.lock();
        lease.epoch == inner.disp.epoch() && inner.disp.is_held(lease.member, lease.seq, lease.attempt)
    }

    pub fn ack(self: &Arc<Self>, lease: Lease) -> Result<()> {
        let mut inner = self.inner.lock();
        let acked = match lease.epoch == inner.disp.epoch() {
            true => inner.disp.ack(lease.member, lease.seq, Some(lease.attempt)),
            false => None,
        };
        let Some(acked) = acked else { return Err(self.not_held(lease)) };
        if let Some(taken) = acked.taken {
            self.metrics.handled(self.engine.clock.steady().saturating_sub(taken));
        }
        self.metrics.acked.inc();
        self.settled(inner, lease.member);
        Ok(())
    }

    pub fn nack(self: &Arc<Self>, lease: Lease, delay: Option<Millis>, reason: &str) -> Result<()> {
        let mut inner = self.inner.lock();
        let now = self.engine.clock.steady();
        let reason = shorten(reason, limits::REASON_BYTES);
        let nacked = match lease.epoch == inner.disp.epoch() {
            true => inner.disp.nack(lease.member, lease.seq, Some(lease.attempt), delay, reason, now),
            false => None,
        };
        if nacked.is_none() {
            return Err(self.not_held(lease));
        }
        self.metrics.nacked.inc();
        if inner.disp.has_burials() {
            self.ensure_task(&mut inner);
            self.wake.notify_one();
        }
        self.settled(inner, lease.member);
        Ok(())
    }

    pub fn extend(&self, lease: Lease, extend: Millis) -> Result<Millis> {
        let mut inner = self.inner.lock();
        let now = self.engine.clock.steady();
        let left = match lease.epoch == inner.disp.epoch() {
            true => inner.disp.extend(lease.member, lease.seq, Some(lease.attempt), extend, now),
            false => None,
        };
        left.ok_or_else(|| self.not_held(lease))
    }

    /// A member's lease ended by its own word: it has room for one more.
    fn settled(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, member: MemberId) {
        self.metrics.inflight.dec();
        self.mark(&mut inner);
        let waiting = inner.members.get(&member).map(|slot| {
            slot.mailbox.release(1);
            slot.mailbox.clone()
        });
        let waiting = waiting.filter(|mailbox| mailbox.is_waiting());
        if waiting.is_some() {
            inner.disp.roomy(member);
            self.pump(&mut inner, Pump::All);
        } else if inner.disp.has_ready() || inner.disp.in_backoff() {
            self.pump(&mut inner, Pump::Ready);
        }
        drop(inner);
        if let Some(mailbox) = waiting {
            mailbox.feed();
        }
    }

    fn not_held(&self, lease: Lease) -> Error {
        Error::unknown_id(format!(
            "event {} of topic {} is not held by this member of group {} (attempt {}): it was settled, its lease ran \
             out, or the cursor was set",
            lease.seq, self.topic.name, self.name, lease.attempt
        ))
    }

    // ---- delivering ----

    /// A new event is there, or something the task has to see to.
    pub fn wake(&self) {
        self.listed.store(false, Release);
        self.wake.notify_one();
    }

    /// Delivers what can be delivered now, and calls the task for the rest.
    fn pump(self: &Arc<Self>, inner: &mut Inner, how: Pump) {
        let now = self.engine.clock.steady();
        if self.deliver(inner, how, now) || inner.disp.next_deadline().is_some_and(|at| inner.is_sooner(at)) {
            self.wake.notify_one();
        }
    }

    /// Delivers what can be delivered now; true if the task has something to do.
    fn deliver(self: &Arc<Self>, inner: &mut Inner, how: Pump, now: Millis) -> bool {
        self.expire(inner, now);
        let mut task = self.redeliver(inner, now);
        if how == Pump::All {
            task |= self.deliver_new(inner, now);
        }
        for id in std::mem::take(&mut inner.touched) {
            if let Some(slot) = inner.members.get_mut(&id) {
                slot.mailbox.push(&mut slot.staged);
            }
        }
        task
    }

    fn expire(self: &Arc<Self>, inner: &mut Inner, now: Millis) {
        while let Some(Released { member, .. }) = inner.disp.expire(now) {
            self.metrics.inflight.dec();
            if let Some(slot) = inner.members.get(&member) {
                slot.mailbox.release(1);
                if slot.mailbox.has_room() {
                    inner.disp.roomy(member);
                }
            }
            self.mark(inner);
        }
    }

    fn redeliver(self: &Arc<Self>, inner: &mut Inner, now: Millis) -> bool {
        let mut after = 0;
        while let Some(seq) = inner.disp.next_ready(after, now) {
            after = seq;
            let Some(member) = self.pick(inner) else { return false };
            match inner.fetched.remove(&seq).or_else(|| self.topic.get(seq)) {
                Some(event) => self.hand_over(inner, member, event, now),
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

    fn deliver_new(self: &Arc<Self>, inner: &mut Inner, now: Millis) -> bool {
        let rules = inner.disp.rules();
        while inner.disp.parked() < self.engine.config.max_parked {
            let Some(member) = self.pick(inner) else { return false };
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
            let key = event.key().filter(|_| !rules.coalesce || event.audience().is_none());
            match inner.disp.admit(seq, key) {
                Admitted::Ready => self.hand_over(inner, member, event, now),
                Admitted::Parked | Admitted::Settled => {}
            }
        }
        // Too much is parked. A consumer that runs dry has us look again: by then it may be less.
        if let Some(member) = self.pick(inner)
            && let Some(slot) = inner.members.get(&member)
        {
            slot.mailbox.starve(Arc::downgrade(self), member, true);
        }
        false
    }

    /// Fills `ahead` from the tail. `Behind` means that the task has to.
    fn look_ahead(self: &Arc<Self>, inner: &mut Inner, rules: Rules) -> TailRead {
        // A coalescing group asks the store which events are overtaken, so it only wants to know whether there are any.
        let max = if rules.coalesce { 0 } else { CHUNK };
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
    fn pick(self: &Arc<Self>, inner: &mut Inner) -> Option<MemberId> {
        let (members, touched) = (&inner.members, &inner.touched);
        inner.disp.pick(|id| {
            let Some(slot) = members.get(&id) else { return false };
            slot.mailbox.has_room() || {
                slot.mailbox.starve(Arc::downgrade(self), id, touched.contains(&id));
                slot.mailbox.has_room()
            }
        })
    }

    fn hand_over(self: &Arc<Self>, inner: &mut Inner, member: MemberId, event: Arc<Event>, now: Millis) {
        let seq = event.seq();
        let epoch = inner.disp.epoch();
        let max_attempts = inner.record.options.max_attempts;
        let slot = inner.members.get_mut(&member).expect("a picked member has a slot");
        let attempt = inner.disp.lease(seq, member, now);
        slot.mailbox.reserve(event.size());
        if slot.staged.is_empty() {
            inner.touched.push(member);
        }
        let lease = Lease { member, seq, attempt, epoch };
        slot.staged.push(Delivery { event, group: self.clone(), lease, max_attempts });
        self.metrics.inflight.inc();
    }

    fn ensure_task(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.has_task {
            inner.has_task = true;
            self.engine.spawn(task::run(self.clone()));
        }
    }

    // ---- cursor ----

    /// Everything up to here is settled.
    pub fn floor(&self) -> u64 {
        self.inner.lock().disp.floor()
    }

    /// Places the group after `seq`. The caller saves it.
    pub fn set_cursor(self: &Arc<Self>, seq: u64) {
        let mut inner = self.inner.lock();
        for (member, leases) in inner.disp.set_cursor(seq) {
            self.metrics.inflight.dec_by(leases as i64);
            if let Some(slot) = inner.members.get(&member) {
                slot.mailbox.release(leases);
            }
            inner.disp.roomy(member);
        }
        inner.forget_ahead();
        self.mark(&mut inner);
        self.pump(&mut inner, Pump::All);
    }

    /// The log now starts at `first`.
    pub fn truncate(self: &Arc<Self>, first: u64) {
        let mut inner = self.inner.lock();
        if inner.disp.floor() + 1 >= first {
            return;
        }
        let lost = inner.disp.truncate(first);
        if lost > 0 {
            self.metrics.truncated.inc_by(lost);
            tracing::warn!(topic = %self.topic.name, group = %self.name, lost, "events were cleaned away before the group read them");
            inner.forget_ahead();
            self.mark(&mut inner);
            self.pump(&mut inner, Pump::All);
        }
    }

    // ---- options, saving, end ----

    pub fn record(&self) -> GroupRecord {
        self.inner.lock().record.clone()
    }

    /// Changes the options of a group without members; answers what to save.
    pub fn set_options(self: &Arc<Self>, options: GroupOptions) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.record.options == options {
            return Ok(());
        }
        if !inner.members.is_empty() {
            return Err(Error::group_conflict(format!("group {} got a member meanwhile", self.name)));
        }
        inner.record.options = options;
        let rules = rules(&inner.record);
        inner.disp = Dispatcher::restore(inner.disp.state(), rules);
        inner.forget_ahead();
        inner.record_dirty = true;
        self.mark(&mut inner);
        Ok(())
    }

    /// Makes sure that the saver comes by.
    fn mark(self: &Arc<Self>, inner: &mut Inner) {
        if !inner.dirty && !inner.deleted {
            inner.dirty = true;
            self.engine.saver.mark(self.clone());
        }
    }

    /// What has to be saved, and the state to confirm when it is.
    pub fn unsaved(&self) -> (Vec<Record>, GroupState) {
        let mut inner = self.inner.lock();
        inner.dirty = false;
        let state = inner.disp.state();
        let mut records = Vec::new();
        if inner.deleted {
            return (records, state);
        }
        if inner.record_dirty {
            inner.record_dirty = false;
            records.push(Record::Group(inner.record.clone()));
        }
        if let Some(progress) = state.since(&inner.saved) {
            records.push(Record::Progress(self.topic.name.clone(), self.name.clone(), progress));
        }
        (records, state)
    }

    /// A save came to its end.
    pub fn saved(self: &Arc<Self>, state: GroupState, ok: bool) {
        let mut inner = self.inner.lock();
        match ok {
            true => inner.saved = state,
            false => {
                // What the store has is unknown: say everything again.
                inner.record_dirty = true;
                inner.saved = GroupState::unknown();
                self.mark(&mut inner);
            }
        }
    }

    /// The group is no more; its members' subscriptions end with `error`.
    pub fn delete(&self, error: &Error) {
        self.inner.lock().deleted = true;
        self.end_members(error);
    }

    /// The members' subscriptions end with `error`, and what they held is given back.
    pub fn end_members(&self, error: &Error) {
        let mut inner = self.inner.lock();
        for (id, slot) in std::mem::take(&mut inner.members) {
            let released = inner.disp.leave(id, false, 0);
            self.metrics.inflight.dec_by(released as i64);
            slot.mailbox.release(released);
            slot.mailbox.end(error.clone());
        }
        drop(inner);
        self.wake.notify_one();
    }
}

impl Inner {
    fn is_sooner(&self, at: Millis) -> bool {
        self.has_task && self.armed.is_none_or(|armed| at < armed)
    }

    fn forget_ahead(&mut self) {
        self.generation += 1;
        self.ahead.clear();
        self.ahead_upto = 0;
        self.missing.clear();
        self.fetched.clear();
        self.behind = false;
    }
}

fn rules(record: &GroupRecord) -> Rules {
    let options = &record.options;
    Rules {
        key_order: options.coalesce || options.ordering == Ordering::Key,
        coalesce: options.coalesce,
        max_attempts: options.max_attempts,
        bury: !record.topic.is_dead_letter(),
    }
}

pub(crate) fn deleted(name: &str) -> Error {
    Error::new(
        hub_proto::Code::NotSubscribed,
        format!("group {name} was deleted; subscribe again to make it anew"),
    )
}

/// At most `max` bytes of `text`, cut between characters.
fn shorten(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
