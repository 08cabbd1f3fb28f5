//! What a group remembers between two lives of the hub, as plain data.
//!
//! Stores keep a [`GroupState`] per group and bring it forward with [`Progress`]: every store merges in the same way,
//! by [`GroupState::apply`].

use super::ranges::RangeSet;
use std::collections::BTreeMap;

/// How often an unsettled event was delivered, and how often that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Deliveries so far.
    pub attempts: u32,
    /// Nacks, expiries and suspicious disconnects so far.
    pub failures: u32,
}

impl Tries {
    /// What an unsettled event below `high` has when nothing else is recorded: one delivery, nothing gone wrong.
    pub const ONCE: Self = Self { attempts: 1, failures: 0 };
}

/// The durable state of one group on one topic.
///
/// Invariants: `floor <= high`; everything in `settled` and every key of `tries` lies in `floor + 1..=high`; nothing
/// is in both; `floor + 1` is not in `settled`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// Raised by `set_cursor`: part of a dead letter's id, so that a replayed event can be buried anew.
    pub epoch: u64,
    /// Everything up to here is settled.
    pub floor: u64,
    /// Nothing above was ever handed out.
    pub high: u64,
    /// What is settled above the floor.
    pub settled: RangeSet,
    /// Unsettled events whose tries are not [`Tries::ONCE`].
    pub tries: BTreeMap<u64, Tries>,
}

impl GroupState {
    /// A group that starts after `seq`.
    pub fn at(seq: u64) -> Self {
        Self { floor: seq, high: seq, ..Self::default() }
    }

    /// What is stored is not known: every state differs from it, and replaces it.
    pub(crate) fn unknown() -> Self {
        Self { epoch: u64::MAX, ..Self::default() }
    }

    /// What has to be written so that `saved` becomes `self`; `None` when they are equal.
    pub fn since(&self, saved: &Self) -> Option<Progress> {
        if self == saved {
            return None;
        }
        let reset = self.epoch != saved.epoch || self.floor < saved.floor || self.high < saved.high;
        let (settled, tries) = if reset {
            (self.settled.iter().collect(), self.tries.iter().map(|(&seq, &tries)| (seq, tries)).collect())
        } else {
            let known = |from: u64, to: u64| saved.settled.end_of(from).is_some_and(|end| end >= to);
            let changed = self.tries.iter().filter(|(seq, tries)| saved.tries.get(seq) != Some(tries));
            // An event that went from "parked" to "delivered once" leaves `tries`: that has to be said, too.
            let back_to_once = saved.tries.keys().filter(|&&seq| {
                seq > self.floor && !self.settled.contains(seq) && !self.tries.contains_key(&seq)
            });
            (
                self.settled.iter().filter(|&(from, to)| !known(from, to)).collect(),
                changed
                    .map(|(&seq, &tries)| (seq, tries))
                    .chain(back_to_once.map(|&seq| (seq, Tries::ONCE)))
                    .collect(),
            )
        };
        Some(Progress { epoch: self.epoch, reset, floor: self.floor, high: self.high, settled, tries })
    }

    /// Brings the state forward. Applying the same progress twice changes nothing more.
    pub fn apply(&mut self, progress: &Progress) {
        if progress.reset {
            *self = Self::default();
        }
        self.epoch = progress.epoch;
        self.floor = progress.floor;
        self.high = progress.high;
        for &(from, to) in &progress.settled {
            self.settled.insert(from, to);
        }
        self.settled.remove_upto(self.floor);
        for &(seq, tries) in &progress.tries {
            self.tries.insert(seq, tries);
        }
        let (floor, settled) = (self.floor, &self.settled);
        self.tries.retain(|&seq, tries| seq > floor && *tries != Tries::ONCE && !settled.contains(seq));
    }
}

/// A step of a [`GroupState`]: what changed since the last save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The epoch after this step.
    pub epoch: u64,
    /// Forget what was stored before: the cursor was set, or moved back.
    pub reset: bool,
    /// The new floor.
    pub floor: u64,
    /// The new highest seq ever handed out.
    pub high: u64,
    /// Ranges settled above the floor (at least the new ones).
    pub settled: Vec<(u64, u64)>,
    /// Tries that changed.
    pub tries: Vec<(u64, Tries)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = GroupState> {
        (0u64..3, 0u64..20, prop::collection::vec(0u8..4, 0..20)).prop_map(|(epoch, floor, kinds)| {
            let mut state =
                GroupState { epoch, floor, high: floor + kinds.len() as u64, ..Default::default() };
            for (seq, kind) in (floor + 1..).zip(kinds) {
                match kind {
                    0 if seq > floor + 1 => state.settled.insert(seq, seq),
                    1 => drop(state.tries.insert(seq, Tries { attempts: 0, failures: 0 })),
                    2 => drop(state.tries.insert(seq, Tries { attempts: 3, failures: 2 })),
                    _ => {}
                }
            }
            state
        })
    }

    proptest! {
        /// Only what can follow each other is diffed without a reset: settled events stay settled.
        #[test]
        fn a_diff_applied_to_the_old_state_gives_the_new_one(old in state(), new in state()) {
            let mut new = new;
            if new.epoch == old.epoch && new.floor >= old.floor && new.high >= old.high {
                for (from, to) in old.settled.iter() {
                    new.settled.insert(from, to);
                }
                new.settled.remove_upto(new.floor);
                if let Some(end) = new.settled.end_of(new.floor + 1) {
                    new.floor = end;
                    new.settled.remove_upto(end);
                }
                let (floor, settled) = (new.floor, new.settled.clone());
                new.tries.retain(|&seq, _| seq > floor && !settled.contains(seq));
            }
            let mut merged = old.clone();
            if let Some(progress) = new.since(&old) {
                merged.apply(&progress);
                let again = merged.clone();
                merged.apply(&progress);
                prop_assert_eq!(&merged, &again);
            }
            prop_assert_eq!(merged, new);
        }
    }
}
