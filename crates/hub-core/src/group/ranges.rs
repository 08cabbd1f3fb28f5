//! A set of sequence numbers kept as ranges: small however many events it covers.

use std::collections::BTreeMap;

/// Disjoint, non-adjacent, inclusive ranges of sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds `from..=to`, merging what it touches. An empty range (`from > to`) adds nothing.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from > to {
            return;
        }
        let (mut from, mut to) = (from, to);
        if let Some((&start, &end)) = self.0.range(..=from).next_back()
            && end >= from.saturating_sub(1)
        {
            from = start;
            to = to.max(end);
        }
        while let Some((&start, &end)) = self.0.range(from..=to.saturating_add(1)).next() {
            to = to.max(end);
            self.0.remove(&start);
        }
        self.0.insert(from, to);
    }

    /// Whether `seq` is in the set.
    pub fn contains(&self, seq: u64) -> bool {
        self.end_of(seq).is_some()
    }

    /// The last number of the range that holds `seq`.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        self.0.range(..=seq).next_back().and_then(|(_, &end)| (end >= seq).then_some(end))
    }

    /// Forgets everything up to and including `floor`.
    pub fn remove_upto(&mut self, floor: u64) {
        while let Some((&start, &end)) = self.0.first_key_value() {
            if start > floor {
                break;
            }
            self.0.remove(&start);
            if end > floor {
                self.0.insert(floor + 1, end);
                break;
            }
        }
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(&from, &to)| (from, to))
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(u64, u64)> for RangeSet {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::default();
        for (from, to) in ranges {
            set.insert(from, to);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(ops in prop::collection::vec((any::<bool>(), 1u64..60, 0u64..8), 0..40)) {
            let (mut ranges, mut model) = (RangeSet::default(), BTreeSet::new());
            for (add, from, len) in ops {
                if add {
                    ranges.insert(from, from + len);
                    model.extend(from..=from + len);
                } else {
                    ranges.remove_upto(from);
                    model.retain(|&seq| seq > from);
                }
                for seq in 0..80 {
                    prop_assert_eq!(ranges.contains(seq), model.contains(&seq));
                }
                let flat: Vec<_> = ranges.iter().collect();
                prop_assert!(flat.windows(2).all(|w| w[0].1 + 1 < w[1].0), "adjacent ranges are merged");
            }
        }
    }
}
