//! What a user that is served through another hub has in hand. Its own hub knows, so that strange ids are refused at
//! once, and so that the next owner can be told.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::{Held, Millis};
use hub_proto::{Error, EventId, Result, TopicName};
use std::time::Duration;
use tokio::time::Instant;

/// Where sweeping starts.
const SWEEP: usize = 4096;

/// See the module.
pub(super) struct Hand {
    events: HashMap<EventId, InHand, RandomState>,
    /// Counts deliveries: the oldest is the one to blame if the user vanishes.
    delivered: u64,
    /// Sweep what was not settled in time when there is more than this.
    sweep_at: usize,
    /// There is no owner: nothing runs out until there is one.
    away: bool,
}

/// One event.
pub(super) struct InHand {
    pub held: Held,
    /// The lease ends at about this time; the owner knows.
    pub until: Instant,
    order: u64,
}

impl Default for Hand {
    fn default() -> Self {
        Self { events: HashMap::default(), delivered: 0, sweep_at: SWEEP, away: false }
    }
}

impl Hand {
    /// Those that this hub's own member had, on their way to another owner.
    pub fn of(held: Vec<Held>) -> Self {
        let mut hand = Self { away: true, ..Self::default() };
        let now = Instant::now();
        for held in held {
            let until = now + Duration::from_millis(held.left.unwrap_or(0));
            hand.add(held, until);
        }
        hand
    }

    /// The user gets an event.
    pub fn add(&mut self, held: Held, until: Instant) {
        if self.events.len() >= self.sweep_at && !self.away {
            let now = Instant::now();
            self.events.retain(|_, event| event.until > now);
            self.sweep_at = SWEEP.max(2 * self.events.len());
        }
        self.delivered += 1;
        self.events.insert(held.id, InHand { held, until, order: self.delivered });
    }

    /// How many events there are. Those whose time ran out count until that is noticed.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The event, if its time has not run out.
    pub fn get(&self, id: EventId) -> Option<&InHand> {
        self.events.get(&id).filter(|event| self.away || event.until > Instant::now())
    }

    /// Takes the event out; `attempt` refuses when it was delivered again since.
    pub fn take(&mut self, id: EventId, attempt: Option<u32>) -> Result<Held> {
        self.check(id, attempt)?;
        self.events.remove(&id).map(|event| event.held).ok_or_else(|| unknown(id, attempt))
    }

    /// The event, if it is this delivery of it.
    pub fn check(&self, id: EventId, attempt: Option<u32>) -> Result<&Held> {
        let event = self.get(id).map(|event| &event.held);
        let event = event.filter(|held| attempt.is_none_or(|attempt| attempt == held.attempt));
        event.ok_or_else(|| unknown(id, attempt))
    }

    pub fn topic_of(&self, id: EventId) -> Option<&TopicName> {
        self.get(id).map(|event| &event.held.topic)
    }

    pub fn seq_of(&self, id: EventId) -> Option<u64> {
        self.get(id).map(|event| event.held.seq)
    }

    /// The lease lasts longer.
    pub fn extend(&mut self, id: EventId, until: Instant) {
        if let Some(event) = self.events.get_mut(&id) {
            event.until = event.until.max(until);
        }
    }

    /// The owner is gone. What has run out is let go of; the rest does not run out on the way.
    pub fn set_out(&mut self) {
        let now = Instant::now();
        if !std::mem::replace(&mut self.away, true) {
            self.events.retain(|_, event| event.until > now);
        }
    }

    /// There is an owner. Another one begins leases anew: all of them last until then at least.
    pub fn arrive(&mut self, anew: Option<Instant>) {
        self.away = false;
        if let Some(until) = anew {
            self.events.values_mut().for_each(|event| event.until = event.until.max(until));
        }
    }

    /// All of them, for an owner that grants `usual`: more is told.
    pub fn list(&self, usual: Millis) -> Vec<Held> {
        let mut events: Vec<&InHand> = self.events.values().collect();
        events.sort_unstable_by_key(|event| event.order);
        let now = Instant::now();
        let held = |event: &InHand| {
            let left = event.until.saturating_duration_since(now).as_millis();
            let left = Millis::try_from(left).ok().filter(|left| *left > usual);
            Held { left, ..event.held.clone() }
        };
        events.into_iter().map(held).collect()
    }

    /// The event that the user has had for longest.
    pub fn oldest(&self) -> Option<EventId> {
        let now = Instant::now();
        let held = self.events.values().filter(|event| self.away || event.until > now);
        held.min_by_key(|event| event.order).map(|event| event.held.id)
    }
}

pub(super) fn unknown(id: EventId, attempt: Option<u32>) -> Error {
    let attempt = attempt.map(|attempt| format!(" (attempt {attempt})")).unwrap_or_default();
    Error::unknown_id(format!("event {id}{attempt} is not held by this subscription")).with_id(id)
}
