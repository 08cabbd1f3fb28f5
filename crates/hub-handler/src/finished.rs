//! Events that were handled here a short time ago.
//!
//! An ack may be lost with its connection, or with the hub. The event comes again then, and is acked again instead of handled again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use hub_proto::bus::Delivery;
use hub_proto::{EventId, TopicName};
use tokio::time::Instant;

/// For how long an event is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How many events are remembered at most.
const MOST: usize = 100_000;

#[derive(Default)]
pub(crate) struct Finished {
    /// The topic of each, and the epoch under which it was delivered.
    events: HashMap<EventId, (TopicName, u64)>,
    order: VecDeque<(Instant, EventId)>,
}

impl Finished {
    pub fn add(&mut self, delivery: &Delivery) {
        let now = Instant::now();
        let is_old = |&(at, _): &(Instant, EventId)| now.duration_since(at) > REMEMBERED;
        while self.order.len() >= MOST || self.order.front().is_some_and(is_old) {
            let Some((_, id)) = self.order.pop_front() else { break };
            self.events.remove(&id);
        }
        let event = delivery.event();
        let seen = (event.topic().clone(), delivery.epoch());
        if self.events.insert(event.id(), seen).is_none() {
            self.order.push_back((now, event.id()));
        }
    }

    /// Whether this event was handled already. Under a higher epoch it is to be handled again.
    pub fn has(&self, delivery: &Delivery) -> bool {
        let event = delivery.event();
        let seen = self.events.get(&event.id());
        seen.is_some_and(|(topic, epoch)| topic == event.topic() && *epoch == delivery.epoch())
    }
}
