//! The events a group has looked at and not settled.
//!
//! A deque sorted by seq. Acks mostly come in order, so the common operation is "the front is settled, pop it", and a
//! lookup is mostly a subtraction. What is settled out of order becomes a tombstone, and when tombstones outnumber the
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
    /// The hash of its key, where order matters.
    pub key: Option<u64>,
    /// The key itself, where it decides about coalescing.
    pub exact: Option<Key>,
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
    pub fn remove(&mut self, seq: u64) -> Option<u64> {
        let at = self.index_of(seq)?;
        let entry = &mut self.entries[at];
        entry.state = State::Settled;
        let key = entry.key.take();
        entry.exact = None;
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

    /// Where nothing is left out between `seq` and one end of the window, its distance to that end is its index; else the
    /// search goes on between the two.
    fn index_of(&self, seq: u64) -> Option<usize> {
        let (first, last) = (self.entries.front()?.seq, self.entries.back()?.seq);
        let from_front = usize::try_from(seq.checked_sub(first)?).ok()?;
        let from_back = usize::try_from(last.checked_sub(seq)?).ok()?;
        let end = self.entries.len() - 1;
        let is_at = |at: &usize| self.entries.get(*at).is_some_and(|entry| entry.seq == seq);
        let at = Some(from_front)
            .filter(is_at)
            .or_else(|| end.checked_sub(from_back).filter(is_at))
            .or_else(|| self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok())?;
        (self.entries[at].state != State::Settled).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// However the window thins out, every unsettled seq is found and no other.
        #[test]
        fn what_is_unsettled_is_found(
            steps in prop::collection::vec((1u64..4, any::<prop::sample::Index>(), any::<bool>()), 0..400)
        ) {
            let (mut window, mut unsettled, mut seq) = (Window::default(), BTreeSet::new(), 0);
            for (gap, pick, settle) in steps {
                seq += gap;
                window.push(Entry { seq, attempts: 0, failures: 0, state: State::Ready, key: None, exact: None });
                unsettled.insert(seq);
                for _ in 0..if settle { 2 } else { 0 } {
                    let Some(&gone) = unsettled.iter().nth(pick.index(unsettled.len().max(1))) else { break };
                    unsettled.remove(&gone);
                    window.remove(gone);
                }
                prop_assert_eq!(window.live(), unsettled.len());
                prop_assert_eq!(window.first(), unsettled.first().copied());
            }
            for seq in 0..=seq + 1 {
                prop_assert_eq!(window.get(seq).map(|entry| entry.seq), unsettled.get(&seq).copied());
            }
        }
    }
}
