//! A closer look at a group: its members, what failed last, what holds it up, and where one event stands.

use super::Group;
use super::dispatch::MemberId;
use super::state::{GroupState, Tries};
use super::status::GroupStatus;
use super::window::State;
use crate::Millis;
use crate::letters::DeadLetter;
use hub_proto::{EventId, GroupName, Key};
use std::sync::Arc;

/// Where an event stands in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventState {
    /// To be delivered.
    Pending,
    /// A member has it, or it is on its way to one.
    Leased {
        /// The member.
        member: MemberId,
        /// The time left to ack.
        left: Millis,
        /// Whether the consumer has taken it out of its mailbox.
        in_hand: bool,
    },
    /// It failed, and waits for its time.
    Backoff {
        /// How long.
        left: Millis,
    },
    /// It waits for an older event of its key.
    BehindKey,
    /// It failed too often, and is being written to the dead-letter topic.
    Dying,
    /// It was settled: acked, passed over, or given up.
    Settled,
}

/// One event in one group.
#[derive(Clone, Debug)]
pub struct EventInGroup {
    /// The group.
    pub group: GroupName,
    /// Where it stands.
    pub state: EventState,
    /// How often it was delivered; 0 once it is settled.
    pub attempts: u32,
    /// How often that failed.
    pub failures: u32,
    /// It does not match the group's filter as that is now, or is replayed for another group: the group passes it over.
    pub is_filtered: bool,
    /// What is told was last saved: another hub serves the group, or none does.
    pub is_saved: bool,
    /// The dead letter, if the group gave it up.
    pub letter: Option<DeadLetter>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its number; not used again while the hub runs.
    pub member: MemberId,
    /// Whom it counts for.
    pub subject: Option<Arc<str>>,
    /// Events of this topic that it holds.
    pub inflight: usize,
    /// It asked for a pause.
    pub paused: bool,
    /// It may hold more.
    pub has_room: bool,
    /// How long it may take for an event.
    pub ack_timeout: Millis,
    /// How long it has held its oldest event.
    pub oldest_held: Option<Millis>,
}

/// A delivery that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentFailure {
    /// Of this event.
    pub seq: u64,
    /// The how many-th delivery it was.
    pub attempt: u32,
    /// When, by the wall clock.
    pub ts: Millis,
    /// Why; cut at 200 bytes.
    pub reason: String,
}

/// The event that others of its key wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBlock {
    /// Its seq.
    pub seq: u64,
    /// Its id and its key, while it is kept.
    pub id: Option<EventId>,
    /// See `id`.
    pub key: Option<Key>,
    /// Where it stands.
    pub state: EventState,
}

/// A closer look at a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDetail {
    /// How it is doing.
    pub status: GroupStatus,
    /// Raised by a seek.
    pub epoch: u64,
    /// Its members.
    pub members: Vec<MemberStatus>,
    /// What failed last, oldest first; ten at most.
    pub failures: Vec<RecentFailure>,
    /// When the next lease or backoff ends, if nothing happens before.
    pub next_deadline: Option<Millis>,
    /// What the oldest event behind its key waits for.
    pub blocking: Option<KeyBlock>,
}

impl EventState {
    fn of(state: State, now: Millis) -> Self {
        match state {
            State::Ready => Self::Pending,
            State::Backoff(due) => Self::Backoff { left: due.saturating_sub(now) },
            State::Behind => Self::BehindKey,
            State::Leased { member, deadline, taken } => {
                Self::Leased { member, left: deadline.saturating_sub(now), in_hand: taken.is_some() }
            }
            State::Dying => Self::Dying,
            State::Settled => Self::Settled,
        }
    }

    /// As it was saved.
    pub(crate) fn saved(state: &GroupState, seq: u64) -> (Self, Tries) {
        let none = Tries { attempts: 0, failures: 0 };
        if seq <= state.floor || state.settled.contains(seq) {
            return (Self::Settled, none);
        }
        let tries = if seq <= state.high { Tries::ONCE } else { none };
        (Self::Pending, state.tries.get(&seq).copied().unwrap_or(tries))
    }
}

impl Group {
    /// Where an event stands, how often it was delivered and has failed, and the epoch.
    pub fn look(&self, seq: u64) -> (EventState, Tries, u64) {
        let inner = self.inner.lock();
        let now = self.engine.clock.steady();
        let settled = (EventState::Settled, Tries { attempts: 0, failures: 0 });
        let found = inner.disp.look(seq).map(|(state, tries)| (EventState::of(state, now), tries));
        let (state, tries) = found.unwrap_or(settled);
        (state, tries, inner.disp.epoch())
    }

    /// A closer look. `blocking` has neither id nor key yet: the event may be in the store alone.
    pub fn detail(&self) -> GroupDetail {
        let status = self.status();
        let (wall, now) = (self.engine.clock.wall(), self.engine.clock.steady());
        let inner = self.inner.lock();
        let disp = &inner.disp;
        let member = |(&id, slot): (&MemberId, &super::mailbox::Slot)| {
            let (inflight, paused, ack_timeout) = disp.member(id)?;
            Some(MemberStatus {
                member: id,
                subject: slot.mailbox.subject().cloned(),
                inflight,
                paused,
                has_room: slot.mailbox.has_room(),
                ack_timeout,
                oldest_held: disp.oldest_taken(id).map(|taken| now.saturating_sub(taken)),
            })
        };
        let failure = |failure: &super::dispatch::Failure| RecentFailure {
            seq: failure.seq,
            attempt: failure.attempt,
            ts: wall.saturating_sub(now.saturating_sub(failure.at)),
            reason: failure.reason.to_string(),
        };
        let blocking = disp.blocking().and_then(|seq| {
            let (state, _) = disp.look(seq)?;
            Some(KeyBlock { seq, id: None, key: None, state: EventState::of(state, now) })
        });
        GroupDetail {
            epoch: disp.epoch(),
            members: inner.members.iter().filter_map(member).collect(),
            failures: disp.recent_failures().map(failure).collect(),
            next_deadline: disp.next_deadline().map(|at| at.saturating_sub(now)),
            blocking,
            status,
        }
    }
}
