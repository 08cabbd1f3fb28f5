//! What the program has in hand of a [member](crate::SubscribeOptions::member): the next connection names it.
//!
//! Acks are not answered, so one that was said may have been lost with its connection. It is kept until the lease would have run out,
//! and said again if the hub answers that the member still holds the event.

use std::collections::HashMap;

use hub_proto::EventId;
use tokio::time::Instant;

use crate::Delivered;

/// The most ids that a hub takes.
const NAMED: usize = 10_000;
/// What has run out is looked for when there is more than this.
const SWEEP: usize = 4096;

#[derive(Default)]
pub(super) struct InHand {
    events: HashMap<EventId, Entry>,
    /// Counts deliveries.
    delivered: u64,
    sweep_at: usize,
}

struct Entry {
    attempt: u32,
    /// The lease ends at about this time.
    until: Instant,
    is_acked: bool,
    /// The lease comes from an earlier connection. The hub may have delivered the event again over that connection, with a higher attempt.
    is_resumed: bool,
    order: u64,
}

impl InHand {
    /// The program gets an event.
    pub fn add(&mut self, delivered: &Delivered) {
        let now = Instant::now();
        if self.events.len() >= self.sweep_at.max(SWEEP) {
            self.sweep(now);
            self.sweep_at = 2 * self.events.len();
        }
        self.delivered += 1;
        let (attempt, until) = (delivered.attempt, delivered.ack_deadline.unwrap_or(now));
        let entry = Entry { attempt, until, is_acked: false, is_resumed: false, order: self.delivered };
        self.events.insert(delivered.event.id(), entry);
    }

    /// The program acks this delivery; false if its lease was lost, or it was acked before.
    pub fn ack(&mut self, id: EventId, attempt: u32) -> bool {
        match self.events.get_mut(&id).filter(|entry| entry.attempt == attempt) {
            Some(entry) => !std::mem::replace(&mut entry.is_acked, true),
            None => false,
        }
    }

    /// Which attempt the hub is told when this delivery is settled or extended; `None`: whichever it is.
    pub fn told_attempt(&self, id: EventId, attempt: u32) -> Option<u32> {
        let is_resumed =
            self.events.get(&id).is_some_and(|entry| entry.attempt == attempt && entry.is_resumed);
        (!is_resumed).then_some(attempt)
    }

    /// The lease lasts until then.
    pub fn extend(&mut self, id: EventId, attempt: u32, until: Instant) {
        if let Some(entry) = self.events.get_mut(&id).filter(|entry| entry.attempt == attempt) {
            entry.until = entry.until.max(until);
        }
    }

    /// When the lease ends; `None` if it was lost.
    pub fn until(&self, id: EventId, attempt: u32) -> Option<Instant> {
        self.events.get(&id).filter(|entry| entry.attempt == attempt).map(|entry| entry.until)
    }

    /// The hub has settled this delivery, or is to give it to others.
    pub fn remove(&mut self, id: EventId, attempt: u32) {
        if self.events.get(&id).is_some_and(|entry| entry.attempt == attempt) {
            self.events.remove(&id);
        }
    }

    /// What the hub is told that the member holds: what is not acked, oldest first, and the acks that it may not have heard.
    pub fn named(&mut self) -> Vec<EventId> {
        self.sweep(Instant::now());
        let mut named: Vec<(&EventId, &Entry)> = self.events.iter().collect();
        // Of the acks the newest are the most likely to be lost.
        let acks_last = |entry: &Entry| if entry.is_acked { u64::MAX - entry.order } else { entry.order };
        named.sort_unstable_by_key(|(_, entry)| (entry.is_acked, acks_last(entry)));
        named.into_iter().take(NAMED).map(|(id, _)| *id).collect()
    }

    /// The hub has answered what the member goes on holding. Answers the acks that are to be said again.
    pub fn resume(&mut self, held: &[EventId]) -> Vec<EventId> {
        let mut events = std::mem::take(&mut self.events);
        let mut again = Vec::new();
        for id in held {
            let Some(mut entry) = events.remove(id) else { continue };
            entry.is_resumed = true;
            if entry.is_acked {
                again.push(*id);
            }
            self.events.insert(*id, entry);
        }
        again
    }

    fn sweep(&mut self, now: Instant) {
        self.events.retain(|_, entry| entry.until > now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    fn id(n: u8) -> EventId {
        EventId::from_bytes([n; 16])
    }

    fn in_hand(count: u8) -> InHand {
        let until = Instant::now() + Duration::from_secs(60);
        let entry = |order| Entry { attempt: 1, until, is_acked: false, is_resumed: false, order };
        let events = (1..=count).map(|n| (id(n), entry(n.into()))).collect();
        InHand { events, delivered: count.into(), sweep_at: 0 }
    }

    #[test]
    fn what_is_not_acked_is_named_first_and_then_the_newest_acks() {
        let mut in_hand = in_hand(4);
        assert!(in_hand.ack(id(1), 1) && in_hand.ack(id(3), 1));
        assert!(!in_hand.ack(id(3), 1), "it was acked before");
        assert!(!in_hand.ack(id(2), 2), "it was not delivered so often");
        assert_eq!(in_hand.named(), [id(2), id(4), id(3), id(1)]);
    }

    #[test]
    fn an_ack_is_said_again_if_the_hub_has_not_heard_it() {
        let mut in_hand = in_hand(4);
        assert!(in_hand.ack(id(1), 1) && in_hand.ack(id(2), 1));
        assert_eq!(in_hand.resume(&[id(2), id(4)]), [id(2)]);
        assert_eq!(in_hand.named(), [id(4), id(2)]);
        assert!(!in_hand.ack(id(3), 1), "its lease was lost");
    }

    #[test]
    fn what_is_held_over_a_reconnect_is_settled_whatever_the_hub_counts() {
        let mut in_hand = in_hand(2);
        in_hand.resume(&[id(2)]);
        assert_eq!((in_hand.told_attempt(id(1), 1), in_hand.told_attempt(id(2), 1)), (Some(1), None));
    }

    #[test]
    fn what_has_run_out_is_not_named() {
        let mut in_hand = in_hand(2);
        in_hand.events.get_mut(&id(1)).unwrap().until = Instant::now();
        in_hand.remove(id(2), 2);
        assert_eq!(in_hand.named(), [id(2)]);
        in_hand.remove(id(2), 1);
        assert!(in_hand.named().is_empty());
    }
}
