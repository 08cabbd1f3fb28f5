//! The questions a [`Sidecar`](super::Sidecar) answers, asked of an index in memory.

use crate::index::{Entry, SegmentIndex};
use hub_proto::Key;
use std::ops::Bound;

impl SegmentIndex {
    /// Up to `max` entries of the topic with a seq of at least `from`, ascending.
    pub fn entries(&self, topic: u32, from: u64, max: usize) -> &[Entry] {
        let entries = self.topics.get(&topic).map_or(&[][..], |topic| &topic.entries);
        let rest = &entries[entries.partition_point(|entry| entry.seq < from)..];
        &rest[..max.min(rest.len())]
    }

    /// One of the topic's entries, counted from 0.
    pub fn entry(&self, topic: u32, at: u32) -> Option<Entry> {
        self.topics.get(&topic)?.entries.get(at as usize).copied()
    }

    /// Where the frames with this hash begin, ascending: usually one or none.
    pub fn offsets(&self, hash: u64) -> Vec<u32> {
        let mut offsets: Vec<_> = self.ids.of(hash).map(|slot| slot.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// The newest entry of a key.
    pub fn newest(&self, topic: u32, key: &str) -> Option<Entry> {
        let at = *self.topics.get(&topic)?.keys.get(key)?;
        self.entry(topic, at)
    }

    /// Up to `max` keys of the topic above `after`, in byte order, each with its newest entry.
    pub fn keys(&self, topic: u32, after: Option<&str>, max: usize) -> Vec<(Key, Entry)> {
        let Some(topic) = self.topics.get(&topic) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = topic.keys.range::<str, _>((from, Bound::Unbounded));
        keys.take(max)
            .filter_map(|(key, at)| Some((key.clone(), *topic.entries.get(*at as usize)?)))
            .collect()
    }
}
