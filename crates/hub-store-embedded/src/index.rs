//! The index of one segment, in memory: what the active segment has, and what a sidecar is made of.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hub_proto::{EventId, Key};
use std::collections::BTreeMap;
use std::ops::BitOr;

/// What is known of a record without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// It counts for the state of its key.
    pub const KEYED: Self = Self(1);
    /// It deletes its key.
    pub const TOMBSTONE: Self = Self(2);
    /// The record itself was cleaned away; what is there answers a resend.
    pub const PAST: Self = Self(4);

    /// Whether all of these are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Where a record of a topic is in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the topic.
    pub seq: u64,
    /// Where its frame begins.
    pub offset: u32,
    /// Bytes of the frame, header included; below 2^24.
    pub len: u32,
    /// What it is.
    pub flags: Flags,
}

/// Where the record with an id is: `hash` is [`id_hash`], and may belong to several ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSlot {
    /// The hash of topic and id.
    pub hash: u64,
    /// Where the frame begins.
    pub offset: u32,
}

/// Ids by their hash: a list of them, with chains through it of those that share a bucket.
///
/// A commit adds many at once, each to a bucket that is far from the last one's and in no cache. Nothing has to be decided
/// for that, so the processor fetches many of them at a time; a table that looks for a free place waits for each.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    links: Vec<Link>,
    /// The place of the newest link of each bucket, counted from 1. As many as a power of two, or none.
    buckets: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u64,
    offset: u32,
    /// The next older one of the same bucket, counted from 1.
    next: u32,
}

/// There are at least so many buckets, and so many times more when they are full.
const BUCKETS: usize = 1024;
const STEP: usize = 4;
/// There are never more: chains of a few are as good, and commits wait while links are put into others.
const MAX_BUCKETS: usize = 1 << 18;

impl Ids {
    /// Adds an id; the same hash may be there.
    pub fn insert(&mut self, IdSlot { hash, offset }: IdSlot) {
        if self.links.len() >= self.buckets.len() && self.buckets.len() < MAX_BUCKETS {
            self.spread();
        }
        let bucket = self.bucket(hash);
        let next = std::mem::replace(&mut self.buckets[bucket], self.links.len() as u32 + 1);
        self.links.push(Link { hash, offset, next });
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// Makes more buckets.
    #[cold]
    fn spread(&mut self) {
        self.buckets = vec![0; (self.buckets.len() * STEP).max(BUCKETS)];
        for at in 0..self.links.len() {
            let bucket = self.bucket(self.links[at].hash);
            self.links[at].next = std::mem::replace(&mut self.buckets[bucket], at as u32 + 1);
        }
    }

    /// The ids with a hash, newest first.
    pub fn of(&self, hash: u64) -> impl Iterator<Item = IdSlot> {
        let link = |at: u32| at.checked_sub(1).map(|at| &self.links[at as usize]);
        let first = if self.buckets.is_empty() { 0 } else { self.buckets[self.bucket(hash)] };
        let chain = std::iter::successors(link(first), move |last| link(last.next));
        chain.filter(move |link| link.hash == hash).map(Link::slot)
    }

    /// Takes them out; their memory stays.
    fn clear(&mut self) {
        self.links.clear();
        self.buckets.fill(0);
    }

    /// All ids, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = IdSlot> {
        self.links.iter().map(Link::slot)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

impl Link {
    fn slot(&self) -> IdSlot {
        IdSlot { hash: self.hash, offset: self.offset }
    }
}

/// The records of one topic in one segment.
#[derive(Clone, Debug, Default)]
pub struct TopicIndex {
    /// Ascending by seq.
    pub entries: Vec<Entry>,
    /// The newest keyed record of each key: an index into `entries`.
    pub keys: BTreeMap<Key, u32>,
    /// The commit time of the first record; [`Flags::PAST`] aside.
    pub first_committed: u64,
    /// The commit time of the last record.
    pub last_committed: u64,
}

impl TopicIndex {
    fn add(&mut self, item: &Item<'_>) {
        debug_assert!(self.entries.last().is_none_or(|last| last.seq < item.entry.seq), "in order");
        if let Some(key) = item.key {
            let at = self.entries.len() as u32;
            match self.keys.get_mut(key) {
                Some(newest) => *newest = at,
                None => drop(self.keys.insert(key.clone(), at)),
            }
        }
        if !item.entry.flags.has(Flags::PAST) {
            if self.last_committed == 0 {
                self.first_committed = item.committed;
            }
            self.last_committed = item.committed;
        }
        self.entries.push(item.entry);
    }
}

/// The index of one segment.
#[derive(Clone, Debug, Default)]
pub struct SegmentIndex {
    /// By the topic's number.
    pub topics: HashMap<u32, TopicIndex, FixedState>,
    /// Every record's id.
    pub ids: Ids,
    /// The lowest and the highest of the ids that are UUIDs v7: what the hub makes is outside of what is old.
    pub v7: Option<(EventId, EventId)>,
    /// Memory for entries of topics to come, the largest last.
    spare: Vec<Vec<Entry>>,
}

/// A topic with fewer entries gets by without.
const SPARE_ENTRIES: usize = 4096;
/// Memory is kept if at least one in so many of its places was used: what is kept is never much more than was needed.
const SPARE_USED: usize = 4;

/// A record, for the index.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The topic's number.
    pub topic: u32,
    /// Where it is, and what.
    pub entry: Entry,
    /// Its id.
    pub id: EventId,
    /// [`id_hash`] of it.
    pub hash: u64,
    /// Its key, if [`Flags::KEYED`].
    pub key: Option<&'a Key>,
    /// Its commit time.
    pub committed: u64,
}

impl SegmentIndex {
    /// Adds a record; those of one topic come in the order of their seqs.
    pub fn add(&mut self, item: Item<'_>) {
        self.extend(std::iter::once(item));
    }

    /// Adds records, in the order of the seqs of each topic.
    pub fn extend<'a>(&mut self, items: impl Iterator<Item = Item<'a>>) {
        let mut items = items.peekable();
        while let Some(number) = items.peek().map(|item| item.topic) {
            let topic = self.topics.entry(number).or_default();
            while let Some(item) = items.next_if(|item| item.topic == number) {
                if topic.entries.len() == SPARE_ENTRIES
                    && let Some(mut entries) = self.spare.pop()
                {
                    entries.append(&mut topic.entries);
                    topic.entries = entries;
                }
                topic.add(&item);
                self.ids.insert(IdSlot { hash: item.hash, offset: item.entry.offset });
                if is_v7(item.id) {
                    let (low, high) = self.v7.unwrap_or((item.id, item.id));
                    self.v7 = Some((low.min(item.id), high.max(item.id)));
                }
            }
        }
    }

    /// Takes everything out. Its memory stays, for as many records: commits do not wait for more to be found.
    pub fn clear(&mut self) {
        let entries = self.topics.drain().map(|(_, topic)| topic.entries);
        let mut spare: Vec<Vec<Entry>> = entries
            .filter(|entries| {
                entries.len() > SPARE_ENTRIES && entries.len() * SPARE_USED >= entries.capacity()
            })
            .collect();
        spare.sort_unstable_by_key(Vec::capacity);
        spare.iter_mut().for_each(Vec::clear);
        self.ids.clear();
        (self.spare, self.v7) = (spare, None);
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Whether an id is a UUID v7.
pub fn is_v7(id: EventId) -> bool {
    id.to_bytes()[6] >> 4 == 7
}

/// A hash of a topic's number and an id, under the store's own secret `seed`, so that nobody can choose ids that
/// collide. Sidecars hold it: it never changes.
pub fn id_hash(seed: u64, topic: u32, id: EventId) -> u64 {
    let id = u128::from_be_bytes(id.to_bytes());
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let first = fold((id as u64) ^ seed, 0x9e37_79b9_7f4a_7c15 ^ u64::from(topic));
    fold(((id >> 64) as u64) ^ first, 0xd6e8_feb8_6659_fd93 ^ seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_are_found_by_their_hashes_also_when_those_collide(
            // Few hashes, of which many share a bucket.
            hashes in prop::collection::vec((0u64..40, 0u64..40).prop_map(|(high, low)| high << 40 | low), 0..200),
        ) {
            let mut ids = Ids::default();
            for (hash, offset) in hashes.iter().zip(0..) {
                ids.insert(IdSlot { hash: *hash, offset });
            }
            for hash in hashes.iter().copied().chain([u64::MAX]) {
                let mut found: Vec<u32> = ids.of(hash).map(|slot| slot.offset).collect();
                found.reverse();
                let there = hashes.iter().zip(0..).filter(|(other, _)| **other == hash);
                prop_assert_eq!(found, there.map(|(_, offset)| offset).collect::<Vec<u32>>());
            }
        }
    }

    /// Adds so many records to a topic.
    fn fill(index: &mut SegmentIndex, topic: u32, count: u64) {
        let first = index.topics.get(&topic).map_or(0, |topic| topic.entries.len() as u64);
        for seq in first + 1..=first + count {
            let offset = index.len() as u32;
            let entry = Entry { seq, offset, len: 100, flags: Flags::default() };
            let id = EventId::derived(&[&topic.to_be_bytes(), &seq.to_be_bytes()]);
            index.add(Item { topic, entry, id, hash: id_hash(1, topic, id), key: None, committed: seq });
        }
    }

    #[test]
    fn an_index_that_was_cleared_is_as_good_as_a_new_one() {
        let (mut used, mut fresh) = (SegmentIndex::default(), SegmentIndex::default());
        fill(&mut used, 1, 3 * SPARE_ENTRIES as u64);
        fill(&mut used, 2, 5);
        used.clear();
        assert!(used.is_empty() && used.ids.of(id_hash(1, 2, EventId::derived(&[b"x"]))).next().is_none());
        let memory = used.spare[0].as_ptr();
        for index in [&mut used, &mut fresh] {
            fill(index, 7, 2 * SPARE_ENTRIES as u64 + 3);
            fill(index, 1, 2);
        }
        let entries = |index: &SegmentIndex, topic| index.topics[&topic].entries.clone();
        assert_eq!(entries(&used, 7), entries(&fresh, 7));
        assert_eq!(entries(&used, 1), entries(&fresh, 1));
        assert!(used.ids.iter().eq(fresh.ids.iter()));
        for slot in fresh.ids.iter() {
            assert!(used.ids.of(slot.hash).eq(fresh.ids.of(slot.hash)));
        }
        assert_eq!(used.v7, fresh.v7);
        assert_eq!(used.topics[&7].entries.as_ptr(), memory, "it has the memory of the other one");
    }

    #[test]
    fn an_index_keeps_no_more_memory_than_it_has_needed() {
        let (mut index, many) = (SegmentIndex::default(), 40 * SPARE_ENTRIES as u64);
        for _ in 0..20 {
            // Small ones first: whoever comes first is not to have what the large one needs.
            (1..20).for_each(|topic| fill(&mut index, topic, SPARE_ENTRIES as u64 / 8));
            (20..23).for_each(|topic| fill(&mut index, topic, SPARE_ENTRIES as u64 + 1));
            fill(&mut index, 99, many);
            let records = index.len();
            index.clear();
            let kept: usize = index.spare.iter().map(Vec::capacity).sum();
            assert!(kept <= SPARE_USED * records, "{kept} places are kept of {records}");
        }
    }

    #[test]
    fn ids_are_found_while_there_come_to_be_more_buckets_and_when_there_are_enough() {
        let (mut ids, count) = (Ids::default(), MAX_BUCKETS as u32 * 2 + 5);
        let hash = |n: u32| id_hash(1, 2, EventId::derived(&[&(n / 2).to_be_bytes()]));
        let hashes: Vec<u64> = (0..count).step_by(2).map(hash).collect();
        for n in 0..count {
            ids.insert(IdSlot { hash: hashes[n as usize / 2], offset: n });
            if n.is_power_of_two() || n + 1 == count {
                let some = (0..=n).step_by((n as usize / 50).max(1));
                for m in some {
                    let found: Vec<u32> = ids.of(hashes[m as usize / 2]).map(|slot| slot.offset).collect();
                    assert!(
                        found.contains(&m) && found.iter().all(|offset| offset / 2 == m / 2),
                        "{m} of {n}"
                    );
                }
            }
        }
        assert_eq!((ids.len(), ids.buckets.len()), (count as usize, MAX_BUCKETS));
        assert!(ids.iter().map(|slot| slot.offset).eq(0..count));
    }
}
