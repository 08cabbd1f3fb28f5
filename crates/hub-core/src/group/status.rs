//! How a group is doing, in words and numbers.

use super::Group;
use crate::Millis;
use hub_proto::{GroupName, TopicName};

/// Why a group delivers nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nobody is subscribed.
    NoMembers,
    /// Every member asked for a pause.
    Paused,
    /// Every member has as many events, or bytes, as it may.
    WindowFull,
    /// What is left waits for its time.
    Backoff,
    /// Everything was delivered.
    CaughtUp,
    /// Too many events wait for their time or their key.
    ParkedFull,
    /// The store does not answer.
    StoreUnavailable,
    /// What is left waits for an older event of its key, which a member holds.
    KeyBlocked,
    /// A rate limit holds the members back.
    RateLimited,
    /// Another hub had the group, and its members have not said yet what they hold.
    TakingOver,
    /// Another hub serves it.
    Elsewhere,
    /// The endpoint that the group is pushed to fails again and again.
    EndpointFailing,
}

impl Reason {
    /// Every reason there is.
    pub const ALL: [Self; 12] = [
        Self::NoMembers,
        Self::Paused,
        Self::WindowFull,
        Self::Backoff,
        Self::CaughtUp,
        Self::ParkedFull,
        Self::StoreUnavailable,
        Self::KeyBlocked,
        Self::RateLimited,
        Self::TakingOver,
        Self::Elsewhere,
        Self::EndpointFailing,
    ];

    /// The word on the wire and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoMembers => "no_members",
            Self::Paused => "paused",
            Self::WindowFull => "window_full",
            Self::Backoff => "backoff",
            Self::CaughtUp => "caught_up",
            Self::ParkedFull => "parked_full",
            Self::StoreUnavailable => "store_unavailable",
            Self::KeyBlocked => "key_blocked",
            Self::RateLimited => "rate_limited",
            Self::TakingOver => "taking_over",
            Self::Elsewhere => "elsewhere",
            Self::EndpointFailing => "endpoint_failing",
        }
    }
}

/// The oldest event that a group has not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its seq. There may be a hole in its place.
    pub seq: u64,
    /// How long ago it was committed, if it is in memory.
    pub age: Option<Millis>,
}

/// A look at one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// The topic it reads.
    pub topic: TopicName,
    /// Its name.
    pub group: GroupName,
    /// Everything up to here is settled.
    pub floor: u64,
    /// The topic's newest seq.
    pub last: u64,
    /// How many events the floor is behind the newest.
    pub lag: u64,
    /// Events that members hold.
    pub inflight: usize,
    /// Events that wait for their time, their key or a member.
    pub parked: usize,
    /// Subscribed consumers.
    pub members: usize,
    /// Why nothing is being delivered; `None` while something is.
    pub reason: Option<Reason>,
    /// Since when nothing was delivered, by the wall clock; `None` while something is, and for a group that another hub serves.
    pub since: Option<Millis>,
    /// The oldest event that is not settled.
    pub oldest: Option<Oldest>,
}

impl Group {
    /// Looks at the group.
    pub fn status(&self) -> GroupStatus {
        let last = self.topic.last();
        let wall = self.engine.clock.wall();
        let inner = self.inner.lock();
        let disp = &inner.disp;
        let now = self.engine.clock.steady();
        let is_late = inner.working_since.is_some_and(|since| now.saturating_sub(since) > 1000);
        let has_room = || inner.members.values().any(|slot| slot.mailbox.has_room());
        let given = || inner.members.values().map(|slot| slot.mailbox.reason()).reduce(Option::and).flatten();
        let reason = if !disp.has_members() {
            Some(Reason::NoMembers)
        } else if let Some(given) = given() {
            Some(given)
        } else if disp.all_paused() {
            Some(Reason::Paused)
        } else if !self.tenure.is_open(now) {
            Some(Reason::TakingOver)
        } else if inner.retry_at.is_some() || is_late || !self.engine.serves(now) {
            Some(Reason::StoreUnavailable)
        } else if !has_room() {
            Some(Reason::WindowFull)
        } else if disp.parked() >= self.engine.config.max_parked {
            Some(Reason::ParkedFull)
        } else if disp.has_ready() || disp.pos() < last {
            None
        } else if disp.in_backoff() {
            Some(Reason::Backoff)
        } else if disp.behind() > 0 {
            Some(Reason::KeyBlocked)
        } else {
            Some(Reason::CaughtUp)
        };
        let delivered = wall.saturating_sub(now.saturating_sub(inner.delivered_at));
        let since = match reason {
            None => None,
            Some(Reason::NoMembers) => Some(inner.record.idle_since.unwrap_or(delivered)),
            Some(_) => Some(delivered),
        };
        let oldest = disp.oldest_unsettled().or_else(|| (disp.pos() < last).then(|| disp.pos() + 1));
        let oldest = oldest.map(|seq| {
            let event = self.topic.get(seq);
            Oldest { seq, age: event.map(|event| wall.saturating_sub(event.committed())) }
        });
        GroupStatus {
            topic: self.topic.name.clone(),
            group: self.name.clone(),
            floor: disp.floor(),
            last,
            lag: last.saturating_sub(disp.floor()),
            inflight: disp.leased(),
            parked: disp.parked(),
            members: inner.members.len(),
            reason,
            since,
            oldest,
        }
    }
}
