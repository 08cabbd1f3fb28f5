//! The group dispatcher: who gets which event, and what becomes of it.
//!
//! A plain state machine. It knows sequence numbers, keys, members and times that it is told; it has no clock, does no
//! I/O and holds no event. [`Group`](super::Group) around it finds the events and carries out what is decided here; the
//! simulator and the tests below drive it directly.
//!
//! # The invariant
//! `pos` is how far the log was looked at. An event up to `pos` is either in `window` (unsettled) or settled. So the
//! floor, the acks above it and the number of unsettled events all follow from those two, and cannot disagree.

use super::deadlines::Deadlines;
use super::keys::Keys;
use super::state::{GroupState, Tries};
use super::window::{Entry, State, Window};
use crate::Millis;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::Key;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A member of a group; never reused within one life of the hub.
pub(crate) type MemberId = u64;

/// What identifies a lease: a later one of the same event has another attempt, or another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub member: MemberId,
    pub seq: u64,
    pub attempt: u32,
    pub epoch: u64,
}

/// The first backoff after a nack; it doubles with each failure.
const FIRST_BACKOFF: Millis = 20;
/// The longest backoff.
const LONGEST_BACKOFF: Millis = 30_000;

/// The options of a group that decide how it dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Two events of one key are never in flight at once, and go in order.
    pub key_order: bool,
    /// An event that a newer one of its key has overtaken is settled without delivery. Implies `key_order`.
    pub coalesce: bool,
    /// Failures after which an event is given up.
    pub max_attempts: u32,
    /// Whether what is given up becomes a dead letter; on dead-letter topics it is retried for ever.
    pub bury: bool,
}

#[derive(Debug)]
struct Member {
    ack_timeout: Millis,
    leased: usize,
    paused: bool,
    /// Stands in `rotation`.
    listed: bool,
}

/// What became of an event that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Deliverable now: the caller leases it at once, or defers it.
    Ready,
    /// Waits inside the dispatcher.
    Parked,
    /// Was settled in an earlier life.
    Settled,
}

/// A lease that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub seq: u64,
    pub member: MemberId,
    /// When the consumer got the event in hand; `None`: never, so nothing is counted.
    pub taken: Option<Millis>,
}

/// An event that failed too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Burial {
    pub seq: u64,
    pub epoch: u64,
    pub attempts: u32,
    pub err: Box<str>,
}

/// The last failures that are kept of a group, and how much of each reason.
const RECENT_FAILURES: usize = 10;
const RECENT_REASON_BYTES: usize = 200;

/// A delivery that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub seq: u64,
    pub attempt: u32,
    pub at: Millis,
    pub reason: Box<str>,
}

/// When a returned event may go out again.
#[derive(Clone, Copy)]
enum Again {
    AtOnce,
    After(Millis),
}

#[derive(Debug)]
pub(crate) struct Dispatcher {
    rules: Rules,
    epoch: u64,
    pos: u64,
    /// The highest event that was ever in a consumer's hands.
    high: u64,
    window: Window,
    leased: usize,
    /// What an earlier life left above `pos`; shrinks as `pos` passes it.
    restored: GroupState,
    ready: BTreeSet<u64>,
    backoff: BTreeSet<(Millis, u64)>,
    deadlines: Deadlines,
    keys: Keys,
    members: BTreeMap<MemberId, Member>,
    /// Members believed to have room, next first.
    rotation: VecDeque<MemberId>,
    dying: VecDeque<u64>,
    /// The last failure of events that had one.
    errors: HashMap<u64, Box<str>, RandomState>,
    /// The last failures, oldest first.
    recent: VecDeque<Failure>,
}

impl Dispatcher {
    /// A dispatcher that goes on where `state` ends.
    pub fn restore(state: GroupState, rules: Rules) -> Self {
        let mut this = Self {
            rules,
            epoch: state.epoch,
            pos: state.floor,
            high: state.high,
            window: Window::default(),
            leased: 0,
            restored: state,
            ready: BTreeSet::new(),
            backoff: BTreeSet::new(),
            deadlines: Deadlines::default(),
            keys: Keys::default(),
            members: BTreeMap::new(),
            rotation: VecDeque::new(),
            dying: VecDeque::new(),
            errors: HashMap::default(),
            recent: VecDeque::new(),
        };
        this.skip_restored();
        this
    }

    /// What has to survive. See [`GroupState`].
    pub fn state(&self) -> GroupState {
        let floor = self.floor();
        // What lies above `high` was in nobody's hands; a new life finds it anew.
        let high = self.high.max(floor);
        let mut state = GroupState {
            epoch: self.epoch,
            floor,
            high,
            settled: self.restored.settled.clone(),
            tries: self.restored.tries.range(self.pos + 1..).map(|(&seq, &tries)| (seq, tries)).collect(),
        };
        let mut settled_from = floor + 1;
        for entry in self.window.iter().take_while(|entry| entry.seq <= high) {
            state.settled.insert(settled_from, entry.seq - 1);
            settled_from = entry.seq + 1;
            let queued = matches!(entry.state, State::Leased { taken: None, .. });
            let tries = Tries { attempts: entry.attempts - u32::from(queued), failures: entry.failures };
            if tries != Tries::ONCE {
                state.tries.insert(entry.seq, tries);
            }
        }
        state.settled.insert(settled_from, self.pos.min(high));
        state.settled.remove_upto(floor);
        state
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// How far the log was looked at.
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Everything up to here is settled.
    pub fn floor(&self) -> u64 {
        self.window.first().map_or(self.pos, |first| first - 1)
    }

    pub fn leased(&self) -> usize {
        self.leased
    }

    /// Unsettled events that no member holds.
    pub fn parked(&self) -> usize {
        self.window.live() - self.leased
    }

    /// Events that wait for an older one of their key.
    pub fn behind(&self) -> usize {
        self.parked() - self.ready.len() - self.backoff.len() - self.dying.len()
    }

    pub fn in_backoff(&self) -> bool {
        !self.backoff.is_empty()
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    pub fn all_paused(&self) -> bool {
        self.members.values().all(|member| member.paused)
    }

    /// The oldest event that is not settled, as far as the log was looked at.
    pub fn oldest_unsettled(&self) -> Option<u64> {
        self.window.first()
    }

    /// The last failures, oldest first.
    pub(super) fn recent_failures(&self) -> impl Iterator<Item = &Failure> {
        self.recent.iter()
    }

    /// Where an event stands, and how often it was delivered and has failed. `None`: it is settled.
    pub(super) fn look(&self, seq: u64) -> Option<(State, Tries)> {
        if seq > self.pos {
            let tries = match seq <= self.restored.high {
                true => self.restored.tries.get(&seq).copied().unwrap_or(Tries::ONCE),
                false => Tries { attempts: 0, failures: 0 },
            };
            return (!self.restored.settled.contains(seq)).then_some((State::Ready, tries));
        }
        let entry = self.window.get(seq)?;
        Some((entry.state, Tries { attempts: entry.attempts, failures: entry.failures }))
    }

    /// The event that the oldest event behind its key waits for.
    pub(super) fn blocking(&self) -> Option<u64> {
        let behind = self.window.iter().find(|entry| entry.state == State::Behind)?;
        self.keys.line(behind.key?).next()
    }

    /// A member: how many events it holds, whether it is paused, its time to ack.
    pub(super) fn member(&self, id: MemberId) -> Option<(usize, bool, Millis)> {
        self.members.get(&id).map(|member| (member.leased, member.paused, member.ack_timeout))
    }

    // ---- members ----

    pub fn join(&mut self, id: MemberId, ack_timeout: Millis) {
        self.members.insert(id, Member { ack_timeout, leased: 0, paused: false, listed: true });
        self.rotation.push_back(id);
    }

    /// A member goes; what it held is deliverable at once. With `blame` its oldest event in hand counts a failure: it
    /// may be what killed the consumer.
    pub fn leave(&mut self, id: MemberId, blame: bool, now: Millis) -> usize {
        let Some(member) = self.members.remove(&id) else { return 0 };
        self.rotation.retain(|&listed| listed != id);
        if member.leased == 0 {
            return 0;
        }
        let held: Vec<u64> = self
            .window
            .iter()
            .filter(|entry| matches!(entry.state, State::Leased { member, .. } if member == id))
            .map(|entry| entry.seq)
            .collect();
        let mut blame = blame;
        for &seq in &held {
            let Some(Released { taken, .. }) = self.unlease(seq) else { continue };
            if blame && taken.is_some() {
                blame = false;
                self.fail(seq, now, Again::AtOnce, "the consumer disconnected while it held the event");
            } else {
                self.give_back(seq, taken.is_some());
            }
        }
        held.len()
    }

    /// When the member got its oldest unsettled event in hand.
    pub fn oldest_taken(&self, id: MemberId) -> Option<Millis> {
        self.window.iter().find_map(|entry| match entry.state {
            State::Leased { member, taken, .. } if member == id => taken,
            _ => None,
        })
    }

    /// A member wants nothing more for now, or goes on. What is queued for it and not in its hands goes to others;
    /// answers how many events that were.
    pub fn set_paused(&mut self, id: MemberId, paused: bool) -> usize {
        if let Some(member) = self.members.get_mut(&id) {
            member.paused = paused;
        }
        self.roomy(id);
        if !paused {
            return 0;
        }
        let queued = |state| matches!(state, State::Leased { member, taken: None, .. } if member == id);
        let queued: Vec<u64> =
            self.window.iter().filter(|entry| queued(entry.state)).map(|entry| entry.seq).collect();
        for &seq in &queued {
            self.unlease(seq);
            self.give_back(seq, false);
        }
        queued.len()
    }

    /// The member may have room again.
    pub fn roomy(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id)
            && !member.listed
            && !member.paused
        {
            member.listed = true;
            self.rotation.push_back(id);
        }
    }

    /// The member whose turn it is, of those that have room.
    pub fn pick(&mut self, has_room: impl Fn(MemberId) -> bool) -> Option<MemberId> {
        while let Some(&id) = self.rotation.front() {
            let Some(member) = self.members.get_mut(&id) else {
                self.rotation.pop_front();
                continue;
            };
            if !member.paused && has_room(id) {
                return Some(id);
            }
            member.listed = false;
            self.rotation.pop_front();
        }
        None
    }

    // ---- looking at the log ----

    /// The event `seq`, and every hole before it, concerns nobody here.
    pub fn pass(&mut self, seq: u64) {
        debug_assert!(seq >= self.pos, "the log is read forwards");
        self.pos = seq;
        self.skip_restored();
    }

    /// Takes note of the event `seq`; `key`, with its hash, is `None` for events that are not to be ordered.
    pub fn admit(&mut self, seq: u64, key: Option<(u64, &Key)>) -> Admitted {
        debug_assert!(seq > self.pos, "the log is read forwards");
        if self.restored.settled.contains(seq) {
            self.pass(seq);
            return Admitted::Settled;
        }
        let tries = match seq <= self.restored.high {
            true => self.restored.tries.remove(&seq).unwrap_or(Tries::ONCE),
            false => Tries { attempts: 0, failures: 0 },
        };
        let key = key.filter(|_| self.rules.key_order);
        let exact = key.filter(|_| self.rules.coalesce);
        if let Some((hash, exact)) = exact {
            self.overtake(hash, exact);
        }
        let alone = key.is_none_or(|(hash, _)| self.keys.enter(hash, seq));
        let given_up = self.rules.bury && tries.failures >= self.rules.max_attempts;
        let state = match (given_up, alone) {
            (true, _) => State::Dying,
            (false, true) => State::Ready,
            (false, false) => State::Behind,
        };
        let Tries { attempts, failures } = tries;
        let (key, exact) = (key.map(|(hash, _)| hash), exact.map(|(_, exact)| exact.clone()));
        self.window.push(Entry { seq, attempts, failures, state, key, exact });
        self.pos = seq;
        self.skip_restored();
        if given_up {
            self.dying.push_back(seq);
        }
        if state == State::Ready { Admitted::Ready } else { Admitted::Parked }
    }

    /// Keeps an admitted event for a member to come.
    pub fn defer(&mut self, seq: u64) {
        debug_assert!(matches!(self.window.get(seq), Some(Entry { state: State::Ready, .. })));
        self.ready.insert(seq);
    }

    /// The log now begins at `first`. Answers how many events nobody will see.
    pub fn truncate(&mut self, first: u64) -> u64 {
        let gone: Vec<u64> = self
            .window
            .iter()
            .take_while(|entry| entry.seq < first)
            .filter(|entry| !matches!(entry.state, State::Leased { .. } | State::Dying))
            .map(|entry| entry.seq)
            .collect();
        for &seq in &gone {
            self.settle(seq);
        }
        let unread = (first.saturating_sub(1)).saturating_sub(self.pos);
        if unread > 0 {
            self.pass(first - 1);
        }
        gone.len() as u64 + unread
    }

    /// A deliverable event turned out to be cleaned away.
    pub fn gone(&mut self, seq: u64) {
        if let Some(Entry { state: State::Ready, .. }) = self.window.get(seq) {
            self.settle(seq);
        }
    }

    /// Places the group anew: leases end, acks above the floor and failures are forgotten. Answers how many leases each
    /// member lost.
    pub fn set_cursor(&mut self, seq: u64) -> Vec<(MemberId, usize)> {
        self.epoch += 1;
        self.pos = seq;
        self.high = seq;
        self.restored = GroupState::default();
        self.window.clear();
        self.leased = 0;
        self.ready.clear();
        self.backoff.clear();
        self.deadlines.clear();
        self.keys.clear();
        self.dying.clear();
        self.errors.clear();
        self.members.iter_mut().map(|(&id, member)| (id, std::mem::take(&mut member.leased))).collect()
    }

    // ---- leases ----

    /// The lowest deliverable event above `after`, once what has served its backoff is let in.
    pub fn next_ready(&mut self, after: u64, now: Millis) -> Option<u64> {
        while let Some(&(due, seq)) = self.backoff.first()
            && due <= now
        {
            self.backoff.pop_first();
            if let Some(entry) = self.window.get_mut(seq) {
                entry.state = State::Ready;
                self.ready.insert(seq);
            }
        }
        self.ready.range(after + 1..).next().copied()
    }

    /// Whether an event is neither settled nor in anybody's hands, as far as the log was looked at.
    pub fn is_open(&self, seq: u64) -> bool {
        match seq > self.pos {
            true => !self.restored.settled.contains(seq),
            false => matches!(self.window.get(seq), Some(Entry { state: State::Ready, .. })),
        }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// An event was settled with another owner, which may not have saved that.
    pub fn settle_brought(&mut self, seq: u64) {
        if seq <= self.pos {
            return self.gone(seq);
        }
        self.high = self.high.max(seq);
        self.restored.high = self.restored.high.max(seq);
        self.restored.tries.remove(&seq);
        self.restored.settled.insert(seq, seq);
        self.skip_restored();
    }

    /// Goes on with a lease that a member has from another owner; `None` if it has ended: the event is settled, or was
    /// delivered again since. The time to ack begins anew, and lasts until `until` if that is later.
    pub fn adopt(
        &mut self,
        seq: u64,
        id: MemberId,
        attempt: u32,
        until: Millis,
        now: Millis,
    ) -> Option<Lease> {
        let member = self.members.get_mut(&id)?;
        let entry = self.window.get_mut(seq)?;
        if entry.state != State::Ready || entry.attempts > attempt {
            return None;
        }
        let usual = now + member.ack_timeout;
        entry.attempts = attempt;
        entry.state = State::Leased { member: id, deadline: usual.max(until), taken: Some(now) };
        member.leased += 1;
        self.leased += 1;
        self.high = self.high.max(seq);
        // A later one is found when this falls due.
        self.deadlines.push(member.ack_timeout, usual, (seq, attempt));
        self.ready.remove(&seq);
        Some(Lease { member: id, seq, attempt, epoch: self.epoch })
    }

    /// A lease ends because its holder vanished with this event in hand: it counts a failure.
    pub fn blame(&mut self, lease: Lease, now: Millis) -> Option<Released> {
        self.find(lease)?;
        let released = self.unlease(lease.seq)?;
        self.fail(lease.seq, now, Again::AtOnce, "the consumer disconnected while it held the event");
        Some(released)
    }

    /// A lease ends because its event never reached the consumer: it was not delivered, and nothing counts.
    pub fn unsent(&mut self, lease: Lease) -> Option<Released> {
        self.find(lease)?;
        let released = self.unlease(lease.seq)?;
        self.give_back(lease.seq, false);
        Some(released)
    }

    /// Leases a deliverable event to a member whose turn it is.
    pub fn lease(&mut self, seq: u64, id: MemberId, now: Millis) -> Lease {
        let member = self.members.get_mut(&id).expect("a picked member is a member");
        let entry = self.window.get_mut(seq).expect("a deliverable event is in the window");
        debug_assert_eq!(entry.state, State::Ready);
        let deadline = now + member.ack_timeout;
        entry.attempts += 1;
        entry.state = State::Leased { member: id, deadline, taken: None };
        member.leased += 1;
        self.leased += 1;
        let attempt = entry.attempts;
        self.deadlines.push(member.ack_timeout, deadline, (seq, attempt));
        if !self.ready.is_empty() {
            self.ready.remove(&seq);
        }
        if self.rotation.len() > 1 && self.rotation.front() == Some(&id) {
            self.rotation.rotate_left(1);
        }
        let window = &self.window;
        self.deadlines.sweep(|(seq, attempt)| {
            window
                .get(seq)
                .is_some_and(|entry| entry.attempts == attempt && matches!(entry.state, State::Leased { .. }))
        });
        Lease { member: id, seq, attempt, epoch: self.epoch }
    }

    /// The consumer gets a leased event in hand: the time to ack runs from now. False if the lease is over.
    pub fn take(&mut self, lease: Lease, now: Millis) -> bool {
        let Some(timeout) = self.members.get(&lease.member).map(|member| member.ack_timeout) else {
            return false;
        };
        let Some((deadline, taken @ None)) = self.find(lease) else { return false };
        *deadline = (*deadline).max(now + timeout);
        *taken = Some(now);
        self.high = self.high.max(lease.seq);
        true
    }

    /// Whether the lease is in force.
    pub fn is_held(&mut self, lease: Lease) -> bool {
        self.find(lease).is_some()
    }

    /// Settles an event; `None` if the lease is over.
    pub fn ack(&mut self, lease: Lease) -> Option<Released> {
        self.find(lease)?;
        let released = self.unlease(lease.seq)?;
        self.settle(lease.seq);
        Some(released)
    }

    /// Hands an event back as failed; it returns after `delay`, or after its backoff. `None` if the lease is over.
    pub fn nack(
        &mut self,
        lease: Lease,
        delay: Option<Millis>,
        reason: &str,
        now: Millis,
    ) -> Option<Released> {
        self.find(lease)?;
        let released = self.unlease(lease.seq)?;
        let failures = self.window.get(lease.seq).map_or(0, |entry| entry.failures);
        let backoff = (FIRST_BACKOFF << failures.min(16)).min(LONGEST_BACKOFF);
        self.fail(lease.seq, now, Again::After(delay.unwrap_or(backoff)), reason);
        Some(released)
    }

    /// Gives an event back that did nothing wrong; it returns after `delay`. `None` if the lease is over.
    pub fn return_after(&mut self, lease: Lease, delay: Millis, now: Millis) -> Option<Released> {
        self.find(lease)?;
        let released = self.unlease(lease.seq)?;
        self.give_back(lease.seq, released.taken.is_some());
        // One that was overtaken is settled by now.
        if delay > 0 && self.ready.remove(&lease.seq) {
            let entry = self.window.get_mut(lease.seq).expect("what is ready is in the window");
            entry.state = State::Backoff(now + delay);
            self.backoff.insert((now + delay, lease.seq));
        }
        Some(released)
    }

    /// Puts a lease's end off until `now + extend`, never closer. Answers the time left.
    pub fn extend(&mut self, lease: Lease, extend: Millis, now: Millis) -> Option<Millis> {
        let (deadline, _) = self.find(lease)?;
        *deadline = (*deadline).max(now + extend);
        Some(*deadline - now)
    }

    /// What is left of a lease, if that is more than what its member has for a new one.
    pub fn more_left(&mut self, lease: Lease, now: Millis) -> Option<Millis> {
        let usual = self.members.get(&lease.member)?.ack_timeout;
        self.time_left(lease, now).filter(|left| *left > usual)
    }

    /// What is left of a lease.
    pub fn time_left(&mut self, lease: Lease, now: Millis) -> Option<Millis> {
        let (deadline, _) = self.find(lease)?;
        Some(deadline.saturating_sub(now))
    }

    /// Ends the leases that ran out, one per call.
    pub fn expire(&mut self, now: Millis) -> Option<Released> {
        while let Some((seq, attempt)) = self.deadlines.pop_due(now) {
            let Some(Entry { state: State::Leased { deadline, .. }, attempts, .. }) = self.window.get(seq)
            else {
                continue;
            };
            if *attempts != attempt {
                continue;
            }
            if *deadline > now {
                self.deadlines.refile(*deadline, (seq, attempt));
                continue;
            }
            let released = self.unlease(seq)?;
            match released.taken {
                Some(_) => self.fail(seq, now, Again::AtOnce, "no ack before the deadline"),
                None => self.give_back(seq, false),
            }
            return Some(released);
        }
        None
    }

    /// When to call [`expire`](Self::expire) and [`next_ready`](Self::next_ready) next, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Millis> {
        if self.members.is_empty() {
            return None;
        }
        let backoff = self.backoff.first().map(|&(due, _)| due);
        self.deadlines.next().into_iter().chain(backoff).min()
    }

    // ---- dead letters ----

    /// Events that are to be written to the dead-letter topic, oldest failure first.
    pub fn burials(&self) -> impl Iterator<Item = Burial> + '_ {
        self.dying.iter().filter_map(|&seq| {
            let entry = self.window.get(seq)?;
            let err = self
                .errors
                .get(&seq)
                .cloned()
                .unwrap_or_else(|| "failed before the hub was restarted".into());
            Some(Burial { seq, epoch: self.epoch, attempts: entry.attempts, err })
        })
    }

    pub fn has_burials(&self) -> bool {
        !self.dying.is_empty()
    }

    /// The dead letter is written: the event is settled.
    pub fn buried(&mut self, epoch: u64, seq: u64) {
        if epoch == self.epoch && matches!(self.window.get(seq), Some(Entry { state: State::Dying, .. })) {
            if let Some(at) = self.dying.iter().position(|&dying| dying == seq) {
                self.dying.remove(at);
            }
            self.settle(seq);
        }
    }

    // ---- inside ----

    /// The deadline of a lease that is in force, and when its event was taken in hand.
    fn find(&mut self, lease: Lease) -> Option<(&mut Millis, &mut Option<Millis>)> {
        if lease.epoch != self.epoch {
            return None;
        }
        let entry = self.window.get_mut(lease.seq)?;
        match &mut entry.state {
            State::Leased { member, deadline, taken }
                if *member == lease.member && entry.attempts == lease.attempt =>
            {
                Some((deadline, taken))
            }
            _ => None,
        }
    }

    /// Ends a lease; the caller decides at once what becomes of the event, which is `Ready` and unlisted meanwhile.
    fn unlease(&mut self, seq: u64) -> Option<Released> {
        let entry = self.window.get_mut(seq)?;
        let State::Leased { member, taken, .. } = entry.state else { return None };
        entry.state = State::Ready;
        self.leased -= 1;
        if let Some(member) = self.members.get_mut(&member) {
            member.leased -= 1;
        }
        Some(Released { seq, member, taken })
    }

    fn settle(&mut self, seq: u64) {
        if let Some(Entry { state: State::Backoff(due), .. }) = self.window.get(seq) {
            self.backoff.remove(&(*due, seq));
        }
        let key = self.window.remove(seq);
        if !self.ready.is_empty() {
            self.ready.remove(&seq);
        }
        if !self.errors.is_empty() {
            self.errors.remove(&seq);
        }
        if let Some(next) = key.and_then(|key| self.keys.leave(key, seq))
            && let Some(entry) = self.window.get_mut(next)
            && entry.state == State::Behind
        {
            entry.state = State::Ready;
            self.ready.insert(next);
        }
    }

    /// Counts a failure and decides between another try and the dead letters.
    fn fail(&mut self, seq: u64, now: Millis, again: Again, err: &str) {
        let Rules { max_attempts, bury, .. } = self.rules;
        let Some(entry) = self.window.get_mut(seq) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let (given_up, attempt) = (entry.failures >= max_attempts, entry.attempts);
        if self.recent.len() == RECENT_FAILURES {
            self.recent.pop_front();
        }
        let reason = err[..err.floor_char_boundary(RECENT_REASON_BYTES)].into();
        self.recent.push_back(Failure { seq, attempt, at: now, reason });
        if self.is_overtaken(seq) {
            return self.settle(seq);
        }
        // Reasons are for people; a flood of them is cut short.
        let most = if self.errors.len() < 1000 { err.len() } else { err.floor_char_boundary(100) };
        self.errors.insert(seq, err[..most].into());
        let entry = self.window.get_mut(seq).expect("found above");
        match again {
            _ if given_up && bury => {
                entry.state = State::Dying;
                self.dying.push_back(seq);
            }
            _ if given_up => {
                entry.state = State::Backoff(now + LONGEST_BACKOFF);
                self.backoff.insert((now + LONGEST_BACKOFF, seq));
            }
            Again::AtOnce | Again::After(0) => drop(self.ready.insert(seq)),
            Again::After(delay) => {
                entry.state = State::Backoff(now + delay);
                self.backoff.insert((now + delay, seq));
            }
        }
    }

    /// Returns an event that did nothing wrong. One that nobody had in hand was not delivered.
    fn give_back(&mut self, seq: u64, was_taken: bool) {
        if !was_taken && let Some(entry) = self.window.get_mut(seq) {
            entry.attempts -= 1;
        }
        match self.is_overtaken(seq) {
            true => self.settle(seq),
            false => drop(self.ready.insert(seq)),
        }
    }

    /// Whether a newer event of the same key is known to a group that coalesces.
    fn is_overtaken(&self, seq: u64) -> bool {
        let Some(entry) = self.window.get(seq) else { return false };
        let (Some(hash), Some(exact)) = (entry.key, &entry.exact) else { return false };
        self.keys.line(hash).any(|newer| newer > seq && self.has_key(newer, exact))
    }

    fn has_key(&self, seq: u64, exact: &Key) -> bool {
        self.window.get(seq).is_some_and(|entry| entry.exact.as_ref() == Some(exact))
    }

    /// A newer event of a key is there: settles what waits.
    fn overtake(&mut self, hash: u64, exact: &Key) {
        let waits = |seq: &u64| {
            let state = self.window.get(*seq).map(|entry| entry.state);
            matches!(state, Some(State::Ready | State::Backoff(_) | State::Behind))
                && self.has_key(*seq, exact)
        };
        let waiting: Vec<u64> = self.keys.line(hash).filter(waits).collect();
        // Newest first, so that none of them becomes deliverable on the way.
        for seq in waiting.into_iter().rev() {
            self.settle(seq);
        }
    }

    /// Moves `pos` over what an earlier life settled.
    fn skip_restored(&mut self) {
        if self.restored.high <= self.pos {
            if self.restored.high > 0 {
                self.restored = GroupState::default();
            }
            return;
        }
        if let Some(end) = self.restored.settled.end_of(self.pos + 1) {
            self.pos = end;
        }
        self.restored.settled.remove_upto(self.pos);
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
