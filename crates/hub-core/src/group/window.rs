//! The events a group has looked at and not settled.
//!
//! A deque sorted by seq. Acks mostly come in order, so the common operation is "the front is settled, pop it", and a
//! lookup is mostly `seq - front`. What is settled out of order becomes a tombstone, and when tombstones outnumber the
//! living they are swept: memory follows the number of unsettled events, not the distance they span.

use hub_proto::Key;
use std::collections::VecDeque;

use super::dispatch::MemberId;
use crate::Millis;

/// Where an unsettled event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Deliverable; waits for a member with room. Listed in `ready`.
    Ready,
    /// Waits for its time. Listed in `backoff`.
    Backoff(Millis),
    /// Waits for an older event of its key.
    Behind,
    /// Leased. `taken` is the time at which the member's consumer got it in hand, `None` while it is queued.
    Leased { member: MemberId, deadline: Millis, taken: Option<Millis> },
    /// Failed too often; is being written to the dead-letter topic.
    Dying,
    /// Gone: a tombstone.
    Settled,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub seq: u64,
    pub attempts: u32,
    pub failures: u32,
    pub state: State,
    /// Kept only where order or coalescing needs it.
    pub key: Option<Key>,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    live: usize,
}

impl Window {
    pub fn live(&self) -> usize {
        self.live
    }

    /// The oldest unsettled seq.
    pub fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.seq)
    }

    /// Unsettled entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.state != State::Settled)
    }

    /// Appends an entry; seqs only ever grow.
    pub fn push(&mut self, entry: Entry) {
        debug_assert!(self.entries.back().is_none_or(|last| last.seq < entry.seq), "seqs ascend");
        self.entries.push_back(entry);
        self.live += 1;
    }

    pub fn get(&self, seq: u64) -> Option<&Entry> {
        self.index_of(seq).map(|at| &self.entries[at])
    }

    pub fn get_mut(&mut self, seq: u64) -> Option<&mut Entry> {
        self.index_of(seq).map(|at| &mut self.entries[at])
    }

    /// Takes an entry out. Afterwards the front, if any, is unsettled.
    pub fn remove(&mut self, seq: u64) -> Option<Key> {
        let at = self.index_of(seq)?;
        let entry = &mut self.entries[at];
        entry.state = State::Settled;
        let key = entry.key.take();
        self.live -= 1;
        while self.entries.front().is_some_and(|entry| entry.state == State::Settled) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.live + 64 {
            self.entries.retain(|entry| entry.state != State::Settled);
        }
        key
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Nothing is left out between front and `seq` in a dense window, so the distance is the index; in a sparse one it
    /// bounds the search from above.
    fn index_of(&self, seq: u64) -> Option<usize> {
        let distance = usize::try_from(seq.checked_sub(self.entries.front()?.seq)?).ok()?;
        let at = match self.entries.get(distance) {
            Some(entry) if entry.seq == seq => distance,
            _ => {
                let end = self.entries.len().min(distance);
                let at = self.entries.partition_point(|entry| entry.seq < seq);
                (at < end && self.entries[at].seq == seq).then_some(at)?
            }
        };
        (self.entries[at].state != State::Settled).then_some(at)
    }
}
