//! What a user acked and no owner is known to have saved. The owner may be gone before it has; the next one hears of it.

use hub_core::{ById, Held};
use std::collections::VecDeque;

/// Acks that are kept: as many as a member may hold leases. Beyond that the oldest are forgotten, and their events may come again.
const MOST_ACKS: usize = 100_000;
/// Marks that are kept. A store that takes no saves for long leaves the newest in the place of the one before.
const MOST_MARKS: usize = 8;

/// See the module. Acks are numbered in their order, from 1.
#[derive(Default)]
pub(super) struct Settled {
    acks: VecDeque<Held>,
    /// The number of the newest.
    last: u64,
}

impl Settled {
    /// Keeps an ack; answers its number.
    pub fn push(&mut self, held: Held) -> u64 {
        if self.acks.len() >= MOST_ACKS {
            self.acks.pop_front();
        }
        self.acks.push_back(held);
        self.last += 1;
        self.last
    }

    /// The number of the newest ack there ever was.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn is_empty(&self) -> bool {
        self.acks.is_empty()
    }

    /// Everything up to this number is saved.
    pub fn saved(&mut self, upto: u64) {
        let unsaved = usize::try_from(self.last.saturating_sub(upto)).unwrap_or(usize::MAX);
        self.acks.drain(..self.acks.len().saturating_sub(unsaved));
        if self.acks.is_empty() {
            self.acks.shrink_to(64);
        }
    }

    pub fn list(&self) -> Vec<Held> {
        self.acks.iter().cloned().collect()
    }
}

/// Which acks of a member are saved, at the hub that serves it: numbers, and the marks that stand for them.
#[derive(Default)]
pub(super) struct SaveMarks(VecDeque<(u64, u64)>);

impl SaveMarks {
    /// Everything up to the ack `number` was said by now. Answers up to which number all is known to be saved that was not known
    /// to be before; 0 if none is.
    pub fn ask(&mut self, number: u64, feed: &ById) -> u64 {
        if self.0.len() >= MOST_MARKS {
            self.0.pop_back();
        }
        self.0.push_back((number, feed.save_mark()));
        let mut saved = 0;
        while let Some((number, _)) = self.0.pop_front_if(|(_, mark)| feed.is_saved(*mark)) {
            saved = number;
        }
        saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub_proto::EventId;

    fn held(seq: u64) -> Held {
        let id = EventId::derived(&[&seq.to_be_bytes()]);
        Held { topic: "t".parse().expect("a name"), id, seq, attempt: 1, epoch: 0, left: None }
    }

    #[test]
    fn an_ack_is_kept_until_it_is_saved() {
        let mut settled = Settled::default();
        assert_eq!([settled.push(held(7)), settled.push(held(5)), settled.push(held(9))], [1, 2, 3]);
        settled.saved(0);
        assert_eq!(settled.list(), [held(7), held(5), held(9)]);
        settled.saved(2);
        settled.saved(1);
        assert_eq!(settled.list(), [held(9)]);
        settled.saved(3);
        assert!(settled.is_empty());
        assert_eq!(settled.push(held(2)), 4, "numbers are not given twice");
        assert_eq!(settled.list(), [held(2)]);
    }

    #[test]
    fn acks_that_nobody_saves_are_bounded() {
        let mut settled = Settled::default();
        for seq in 0..MOST_ACKS as u64 + 10 {
            settled.push(held(seq));
        }
        assert_eq!((settled.list().len(), settled.list()[0].seq), (MOST_ACKS, 10));
        settled.saved(settled.last() - 1);
        assert_eq!(settled.list().len(), 1);
    }
}
