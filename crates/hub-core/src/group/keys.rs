//! Who holds a key: at most one event of a key is in flight, the others wait behind it.
//!
//! Keys are told apart by their hash, so that dispatching never looks at the key itself: it is cold memory. Two keys with
//! the same hash wait for each other, which does no harm. Where a mistake would do harm, in coalescing, the dispatcher
//! compares the keys themselves.

use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};

/// The unsettled events of one key, oldest first. Most keys have one, so the rest is allocated apart.
#[derive(Debug)]
struct Line {
    head: u64,
    rest: VecDeque<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Keys {
    lines: HashMap<u64, Line, BuildHasherDefault<Hashed>>,
}

/// What is hashed already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Keys {
    /// Puts an event at the end of its key's line; true if it stands alone there.
    pub fn enter(&mut self, key: u64, seq: u64) -> bool {
        match self.lines.get_mut(&key) {
            Some(line) => {
                line.rest.push_back(seq);
                false
            }
            None => {
                self.lines.insert(key, Line { head: seq, rest: VecDeque::new() });
                true
            }
        }
    }

    /// Takes an event out of its line; answers the one that becomes head by it.
    pub fn leave(&mut self, key: u64, seq: u64) -> Option<u64> {
        let line = self.lines.get_mut(&key)?;
        if line.head != seq {
            if let Ok(at) = line.rest.binary_search(&seq) {
                line.rest.remove(at);
            }
            return None;
        }
        match line.rest.pop_front() {
            Some(next) => {
                line.head = next;
                Some(next)
            }
            None => {
                self.lines.remove(&key);
                None
            }
        }
    }

    /// The key's events, oldest first.
    pub fn line(&self, key: u64) -> impl Iterator<Item = u64> + '_ {
        let line = self.lines.get(&key).into_iter();
        line.flat_map(|line| std::iter::once(line.head).chain(line.rest.iter().copied()))
    }

    pub fn clear(&mut self) {
        self.lines.clear();
    }
}
