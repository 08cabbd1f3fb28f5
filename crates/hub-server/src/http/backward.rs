//! Reads a log from a place backwards, the newest events first.
//!
//! Stores read forwards. So a window of seqs is read as a whole and turned around. It grows where the log has holes and shrinks where
//! events are large: what is in memory is about [`WINDOW_BYTES`], or one event.

use super::error::Failure;
use hub_core::store::ReadLimit;
use hub_core::{Bus, Event};
use hub_proto::TopicName;
use std::sync::Arc;

/// A window, in bytes and in events.
const WINDOW_BYTES: usize = 1 << 20;
const WINDOW_EVENTS: usize = 1000;
/// A window in seqs: at first, and at most.
const FIRST_WINDOW: u64 = 256;
const MAX_WINDOW: u64 = 1 << 16;

/// See the module.
pub(super) struct Backward {
    topic: TopicName,
    /// Everything above this seq was read.
    upto: u64,
    window: u64,
    /// What was read in all.
    events: usize,
    bytes: usize,
}

impl Backward {
    /// From a seq on, down to the oldest.
    pub fn from(topic: TopicName, upto: u64) -> Self {
        Self { topic, upto, window: FIRST_WINDOW, events: 0, bytes: 0 }
    }

    /// Everything above this seq was read.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// How many events were read, and their bytes; also those that were read in vain because a window was too large.
    pub fn read(&self) -> (usize, usize) {
        (self.events, self.bytes)
    }

    /// The next events, the newest first; none in a hole. `None` at the beginning of the log. Events at or below `oldest` may be left
    /// out.
    pub async fn next(&mut self, bus: &Bus, oldest: u64) -> Result<Option<Vec<Arc<Event>>>, Failure> {
        loop {
            if self.upto <= oldest {
                return Ok(None);
            }
            let after = self.upto.saturating_sub(self.window).max(oldest);
            let (mut block, mut bytes, mut last) = (Vec::new(), 0, after);
            let is_whole = loop {
                let room = usize::try_from(self.upto - last).unwrap_or(WINDOW_EVENTS);
                let limit = ReadLimit { events: WINDOW_EVENTS.min(room), bytes: WINDOW_BYTES };
                let more = bus.read(&self.topic, last, limit).await?;
                let Some(newest) = more.last() else { break true };
                last = newest.seq();
                let size: usize = more.iter().map(|event| event.json().len()).sum();
                (self.events, self.bytes, bytes) =
                    (self.events + more.len(), self.bytes + size, bytes + size);
                block.extend(more);
                if last >= self.upto {
                    break true;
                }
                if bytes >= WINDOW_BYTES || block.len() >= WINDOW_EVENTS {
                    break false;
                }
            };
            if !is_whole && self.upto - after > 1 {
                // The newest of the window were not reached.
                self.window = ((self.upto - after) / 4).max(1);
                continue;
            }
            block.retain(|event: &Arc<Event>| event.seq() <= self.upto);
            block.reverse();
            let is_thin = (block.len() as u64) < self.window / 4 && bytes < WINDOW_BYTES / 4;
            self.window = if is_thin { (self.window * 4).min(MAX_WINDOW) } else { self.window };
            self.upto = after;
            return Ok(Some(block));
        }
    }

    /// Goes on below a seq that was among those read last.
    pub fn go_back_to(&mut self, seq: u64) {
        self.upto = seq.saturating_sub(1);
    }
}
