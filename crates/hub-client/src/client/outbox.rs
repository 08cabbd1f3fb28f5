//! Publishes without an answer. Each has an id, so it can be sent again on the next connection and is stored once.

use std::collections::BTreeMap;
use std::time::Duration;

use hub_proto::NewEvent;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::{Error, ErrorKind, Receipt, Result};

/// An event on its way.
pub(super) struct Entry {
    pub event: NewEvent,
    pub answer: oneshot::Sender<Result<Receipt>>,
    /// Its part of what the client may keep.
    pub room: [OwnedSemaphorePermit; 2],
}

struct Kept {
    entry: Entry,
    deadline: Instant,
    /// How often the hub has refused it for a reason that passes.
    tries: u32,
}

/// In the order in which they were published, which is the order in which they are sent, also the next time.
pub(super) struct Outbox {
    kept: BTreeMap<u64, Kept>,
    next: u64,
    patience: Duration,
}

impl Outbox {
    pub fn new(patience: Duration) -> Self {
        Self { kept: BTreeMap::new(), next: 0, patience }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Keeps an event; its number.
    pub fn add(&mut self, entry: Entry) -> u64 {
        self.next += 1;
        self.kept.insert(self.next, Kept { entry, deadline: Instant::now() + self.patience, tries: 0 });
        self.next
    }

    pub fn event(&self, number: u64) -> Option<&NewEvent> {
        self.kept.get(&number).map(|kept| &kept.entry.event)
    }

    /// Counts one more try; how many there were before.
    pub fn tried(&mut self, number: u64) -> u32 {
        let Some(kept) = self.kept.get_mut(&number) else { return 0 };
        kept.tries += 1;
        kept.tries - 1
    }

    /// All numbers, in their order.
    pub fn numbers(&self) -> Vec<u64> {
        self.kept.keys().copied().collect()
    }

    /// It is over, one way or the other.
    pub fn settle(&mut self, number: u64, result: Result<Receipt>) {
        if let Some(Kept { entry, .. }) = self.kept.remove(&number) {
            let Entry { answer, room, .. } = entry;
            // Room first: who gets the answer may want to publish the next one.
            drop(room);
            let _ = answer.send(result);
        }
    }

    /// When the first of them has waited for too long.
    pub fn deadline(&self) -> Option<Instant> {
        self.kept.first_key_value().map(|(_, kept)| kept.deadline)
    }

    /// Gives up those that have waited for too long.
    pub fn expire(&mut self, now: Instant) {
        while let Some((&number, kept)) = self.kept.first_key_value()
            && kept.deadline <= now
        {
            let id = kept.entry.event.options.id.map(|id| id.to_string()).unwrap_or_default();
            let text = format!(
                "event {id} has no answer after {} s; it may be stored or not, and to publish it again with that id is safe",
                self.patience.as_secs_f32()
            );
            self.settle(number, Err(Error::new(ErrorKind::TimedOut, text)));
        }
    }

    /// Gives up the largest: the hub has closed the connection because of a frame that was too large, and would do so
    /// again.
    pub fn give_up_largest(&mut self) {
        let largest = self.kept.iter().max_by_key(|(_, kept)| kept.entry.event.payload.len());
        if let Some((&number, kept)) = largest {
            let bytes = kept.entry.event.payload.len();
            let text = format!("the hub takes no frame with a payload of {bytes} bytes");
            let error = hub_proto::Error::too_large(text);
            self.settle(number, Err(Error::refused(error, "too_large")));
        }
    }

    /// Gives up all of them.
    pub fn fail(&mut self, error: &Error) {
        for number in self.numbers() {
            self.settle(number, Err(error.clone()));
        }
    }
}
