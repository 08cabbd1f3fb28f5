//! Who holds a key: at most one event of a key is in flight, the others wait behind it.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::Key;
use std::collections::VecDeque;

/// The unsettled events of one key, oldest first. Most keys have one, so the rest is allocated apart.
#[derive(Debug)]
struct Line {
    head: u64,
    rest: VecDeque<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Keys {
    lines: HashMap<Key, Line, RandomState>,
}

impl Keys {
    /// Puts an event at the end of its key's line; true if it stands alone there.
    pub fn enter(&mut self, key: &Key, seq: u64) -> bool {
        match self.lines.get_mut(key) {
            Some(line) => {
                line.rest.push_back(seq);
                false
            }
            None => {
                self.lines.insert(key.clone(), Line { head: seq, rest: VecDeque::new() });
                true
            }
        }
    }

    /// Takes an event out of its line; answers the one that becomes head by it.
    pub fn leave(&mut self, key: &Key, seq: u64) -> Option<u64> {
        let line = self.lines.get_mut(key)?;
        if line.head != seq {
            line.rest.retain(|&waiting| waiting != seq);
            return None;
        }
        match line.rest.pop_front() {
            Some(next) => {
                line.head = next;
                Some(next)
            }
            None => {
                self.lines.remove(key);
                None
            }
        }
    }

    /// Whether a newer event of the key is known.
    pub fn is_overtaken(&self, key: &Key, seq: u64) -> bool {
        self.lines.get(key).is_some_and(|line| line.rest.back().is_some_and(|&newest| newest > seq))
    }

    /// The key's events, oldest first.
    pub fn line(&self, key: &Key) -> impl Iterator<Item = u64> + '_ {
        self.lines
            .get(key)
            .into_iter()
            .flat_map(|line| std::iter::once(line.head).chain(line.rest.iter().copied()))
    }

    pub fn clear(&mut self) {
        self.lines.clear();
    }
}
