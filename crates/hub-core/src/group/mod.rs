//! A group on one topic: the dispatcher, and around it what finds events, hands them over and saves what was done.
//!
//! Acks, takes and deliveries run on the caller's thread under the group's lock, which is never held across an await.
//! What needs the store or a timer is done by the group's task ([`task`]), which exists while the group has members or
//! a dead letter to write. A group without members costs its memory and nothing else.

mod adopt;
mod deadlines;
pub(crate) mod delivery;
pub(crate) mod dispatch;
mod keys;
mod lease;
pub(crate) mod look;
pub(crate) mod mailbox;
pub mod options;
mod pump;
pub mod ranges;
mod spans;
pub mod state;
pub(crate) mod status;
mod task;
mod window;

use self::adopt::Adopted;
pub(crate) use self::adopt::{Carried, HeldLease};
use self::delivery::Delivery;
use self::dispatch::{Dispatcher, MemberId, Rules};
use self::mailbox::{Mailbox, Slot};
use self::options::GroupOptions;
use self::pump::Pump;
use self::spans::LeaseSpans;
use self::state::GroupState;
use crate::Millis;
use crate::cluster::Tenure;
use crate::engine::Engine;
use crate::metrics::{GroupMetrics, LabelOwner};
use crate::rates::Activity;
use crate::store::{GroupRecord, Record, StoredGroup};
use crate::topic::Topic;
use crate::trace::LeaseEnd;
use hub_proto::{Error, Event, GroupName, Ordering, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::Notify;

/// Redeliveries fetched from the store at once.
const FETCH: usize = 256;

pub(crate) struct Group {
    pub topic: Arc<Topic>,
    pub name: GroupName,
    /// The subject that it counts for.
    pub maker: Option<Arc<str>>,
    /// Under what this hub owns it.
    pub tenure: Arc<Tenure>,
    engine: Arc<Engine>,
    pub metrics: GroupMetrics,
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
    /// Nobody joins any more: the group is being deleted, or changed.
    going: bool,
    deleted: bool,
    /// Another hub has the group: leases are as they were, and nothing is settled any more.
    lost: bool,
    /// Reading stopped because too much is parked.
    stalled: bool,
    /// Since when the task waits for the store.
    working_since: Option<Millis>,
    /// What members brought along from another owner, until the log is read that far.
    adopted: BTreeMap<u64, Adopted>,
    /// Nothing may be delivered for now: the task looks again.
    gated: bool,
    /// Mailboxes that got room while their consumer waits: whoever unlocks the group feeds them.
    freed: Vec<Arc<Mailbox>>,
    /// When something was delivered last, or the group came to this hub.
    delivered_at: Millis,
    /// What was done since the last sample, if somebody takes samples.
    activity: Option<Box<Activity>>,
    /// The leases of traced events, if somebody records spans.
    spans: Option<Box<LeaseSpans>>,
}

impl Group {
    pub fn new(engine: Arc<Engine>, topic: Arc<Topic>, stored: StoredGroup, record_dirty: bool) -> Arc<Self> {
        let StoredGroup { record, state } = stored;
        let rules = rules(&record);
        let name = record.name.clone();
        let tenure = engine.tenure(&name);
        let maker = engine.quotas.maker_of_group(&record);
        let owner = LabelOwner::of(maker.as_ref());
        let metrics = engine.metrics.group(&topic.name, &topic.metrics, &name, &owner);
        let delivered_at = engine.clock.steady();
        let spans = engine
            .spans
            .as_ref()
            .map(|recorder| Box::new(LeaseSpans::new(recorder.clone(), topic.name.clone(), name.clone())));
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
            going: false,
            deleted: false,
            lost: false,
            stalled: false,
            working_since: None,
            adopted: BTreeMap::new(),
            gated: false,
            freed: Vec::new(),
            delivered_at,
            activity: None,
            spans,
        };
        let group = Arc::new(Self {
            topic,
            name,
            maker,
            tenure,
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

    /// Adds a member, with what it brings along, and starts to deliver to it.
    pub fn join(
        self: &Arc<Self>,
        id: MemberId,
        mailbox: Arc<Mailbox>,
        ack_timeout: Millis,
        carried: &Carried,
    ) -> Result<()> {
        self.locked(|inner| {
            if inner.deleted || inner.going {
                return Err(deleted(&self.name));
            }
            inner.members.insert(id, Slot::new(mailbox));
            inner.disp.join(id, ack_timeout);
            self.adopt(inner, id, carried);
            if inner.record.idle_since.take().is_some() {
                inner.record_dirty = true;
                self.mark(inner);
            }
            self.ensure_task(inner);
            self.pump(inner, Pump::All);
            Ok(())
        })
    }

    /// Does something under the group's lock; afterwards groups of other topics get the room that it made.
    fn locked<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let done = act(&mut inner);
        let freed = std::mem::take(&mut inner.freed);
        drop(inner);
        freed.iter().for_each(|mailbox| mailbox.feed());
        done
    }

    /// Removes a member. `blame`: it vanished, so its oldest event in hand counts a failure.
    pub fn leave(self: &Arc<Self>, id: MemberId, blame: bool) {
        self.locked(|inner| {
            if !inner.members.contains_key(&id) {
                return;
            }
            let now = self.engine.clock.steady();
            // A lease that ran out has failed, although its timer has not fired yet.
            self.expire(inner, now);
            let released = inner.disp.leave(id, blame, now);
            if let Some(spans) = &mut inner.spans {
                spans.member_left(id, if blame { LeaseEnd::Disconnected } else { LeaseEnd::Returned });
            }
            self.release(inner, id, released);
            self.disown(inner, Some(id));
            inner.members.remove(&id);
            if inner.members.is_empty() {
                inner.record.idle_since = Some(self.engine.now_unset());
                inner.record_dirty = true;
            }
            self.mark(inner);
            if inner.disp.has_burials() {
                self.ensure_task(inner);
            }
            self.pump(inner, Pump::All);
            self.wake.notify_one();
        });
    }

    pub fn set_paused(self: &Arc<Self>, id: MemberId, paused: bool) {
        self.locked(|inner| {
            let released = inner.disp.set_paused(id, paused);
            self.release(inner, id, released);
            self.pump(inner, Pump::All);
        });
    }

    /// A member's mailbox has room again.
    pub fn roomy(self: &Arc<Self>, id: MemberId) {
        self.locked(|inner| {
            if let Some(slot) = inner.members.get(&id) {
                slot.noted.set(false);
            }
            inner.disp.roomy(id);
            self.pump(inner, Pump::All);
        });
    }

    /// When the member got its oldest unsettled event in hand.
    pub fn oldest_taken(&self, id: MemberId) -> Option<Millis> {
        self.inner.lock().disp.oldest_taken(id)
    }

    pub fn has_members(&self) -> bool {
        !self.inner.lock().members.is_empty()
    }

    // ---- cursor ----

    /// Everything up to here is settled.
    pub fn floor(&self) -> u64 {
        self.inner.lock().disp.floor()
    }

    /// Places the group after `seq`. The caller saves it.
    pub fn set_cursor(self: &Arc<Self>, seq: u64) {
        self.locked(|inner| {
            for (member, leases) in inner.disp.set_cursor(seq) {
                self.release(inner, member, leases);
                inner.disp.roomy(member);
            }
            inner.cancel_spans();
            inner.forget_ahead();
            self.disown(inner, None);
            self.mark(inner);
            self.pump(inner, Pump::All);
        });
    }

    /// The log now starts at `first`.
    pub fn truncate(self: &Arc<Self>, first: u64) {
        self.locked(|inner| {
            if inner.disp.floor() + 1 >= first {
                return;
            }
            let lost = inner.disp.truncate(first);
            if lost > 0 {
                self.metrics.truncated.inc_by(lost);
                tracing::warn!(topic = %self.topic.name, group = %self.name, lost, "events were cleaned away before the group read them");
                inner.forget_ahead();
                self.mark(inner);
                self.pump(inner, Pump::All);
            }
        });
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

    /// No subscription drives the group any more: it is an ordinary one, and expires as such.
    pub fn set_free(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.record.driven = false;
        inner.record_dirty = true;
        self.mark(&mut inner);
    }

    /// Counts what was done, for rates.
    fn count(self: &Arc<Self>, inner: &mut Inner, add: impl FnOnce(&mut Activity)) {
        if inner.activity.is_none() && self.engine.rates.is_on() && self.engine.rates.wake_group(self) {
            inner.activity = Some(Box::default());
        }
        if let Some(activity) = &mut inner.activity {
            add(activity);
        }
    }

    /// What was done since it was asked last.
    pub fn take_activity(&self) -> Activity {
        self.inner.lock().activity.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Nothing is counted until something is done.
    pub fn sleep_activity(&self) {
        self.inner.lock().activity = None;
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
        if inner.deleted || self.tenure.is_lost() {
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

    /// From now on nobody joins, until [`stay`](Self::stay). With `only_if_idle`: unless somebody is there already, which
    /// is answered with false.
    pub fn go(&self, only_if_idle: bool) -> bool {
        let mut inner = self.inner.lock();
        let goes = !only_if_idle || inner.members.is_empty();
        inner.going |= goes;
        goes
    }

    /// The group is not deleted after all.
    pub fn stay(&self) {
        self.inner.lock().going = false;
    }

    /// The group is no more; its members' subscriptions end with `error`.
    pub fn delete(&self, error: &Error) {
        self.delete_with(error, |_| false);
    }

    /// The group is no more. What members held is given back. Their subscriptions end with `error`, but for members that
    /// `stay`: their subscription covers other topics, too.
    pub fn delete_with(&self, error: &Error, stay: impl Fn(MemberId) -> bool) {
        self.inner.lock().deleted = true;
        self.remove_members(error, stay);
    }

    /// Another hub has the group now: its members' subscriptions end with `error`. What they hold stays theirs, to be
    /// brought along; nothing of it can be settled here any more.
    pub fn lose(&self, error: &Error) {
        let mut inner = self.inner.lock();
        (inner.deleted, inner.lost) = (true, true);
        inner.cancel_spans();
        self.metrics.inflight.dec_by(inner.disp.leased() as i64);
        for slot in std::mem::take(&mut inner.members).into_values() {
            slot.mailbox.end(error.clone());
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// The members' subscriptions end with `error`, and what they held is given back.
    pub fn end_members(&self, error: &Error) {
        self.remove_members(error, |_| false);
    }

    fn remove_members(&self, error: &Error, stay: impl Fn(MemberId) -> bool) {
        let mut inner = self.inner.lock();
        inner.cancel_spans();
        for (id, slot) in std::mem::take(&mut inner.members) {
            let released = inner.disp.leave(id, false, 0);
            self.metrics.inflight.dec_by(released as i64);
            slot.mailbox.release(released);
            if !stay(id) {
                slot.mailbox.end(error.clone());
            }
        }
        drop(inner);
        self.wake.notify_one();
    }
}

impl Inner {
    fn is_sooner(&self, at: Millis) -> bool {
        self.has_task && self.armed.is_none_or(|armed| at < armed)
    }

    /// The lease of an event ended.
    fn end_span(&mut self, seq: u64, outcome: LeaseEnd, reason: Option<&str>) {
        if let Some(spans) = &mut self.spans {
            spans.settled(seq, outcome, reason);
        }
    }

    /// All leases ended.
    fn cancel_spans(&mut self) {
        if let Some(spans) = &mut self.spans {
            spans.cancelled();
        }
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
