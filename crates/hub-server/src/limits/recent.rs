//! A table of what was set last, of bounded size.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::hash::Hash;

/// Keeps at least the `half` entries that were set last, and at most twice as many: once the young half is full it becomes the old one,
/// and what was old is dropped. So each step takes constant time, and no sweep over a full table.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    half: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    pub fn new(half: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), half }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub fn set(&mut self, key: K, value: V) {
        if let Some(entry) = self.young.get_mut(&key) {
            *entry = value;
            return;
        }
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_set_last_stay_and_there_are_never_more_than_two_halves() {
        let mut recent = Recent::new(10);
        recent.set(0, 0);
        for n in 1..1_000u64 {
            recent.set(n, n);
            recent.set(0, n);
            assert!(recent.len() <= 20, "{}", recent.len());
            assert_eq!(recent.get(&0), Some(&n), "it is set all the time");
            let kept = (n.saturating_sub(8)..=n).filter(|n| recent.get(n).is_some()).count();
            assert_eq!(kept, (n as usize + 1).min(9));
        }
        assert_eq!(recent.get(&1), None);
        recent.remove(&0);
        assert_eq!(recent.get(&0), None);
    }
}
