//! The index of one segment, in memory: what the active segment has, and what a sidecar is made of.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
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

/// Ids by their hash. In many small tables, because a table that grows is moved as a whole, and commits wait meanwhile.
#[derive(Clone, Debug)]
pub struct Ids {
    tables: Box<[HashTable<IdSlot>]>,
    len: usize,
}

/// A power of two.
const TABLES: usize = 128;

impl Default for Ids {
    fn default() -> Self {
        Self { tables: (0..TABLES).map(|_| HashTable::new()).collect(), len: 0 }
    }
}

impl Ids {
    /// The table of a hash: by bits that the table itself makes no use of.
    fn table(hash: u64) -> usize {
        (hash >> 40) as usize % TABLES
    }

    /// Adds an id; the same hash may be there.
    pub fn insert(&mut self, slot: IdSlot) {
        self.tables[Self::table(slot.hash)].insert_unique(slot.hash, slot, |slot| slot.hash);
        self.len += 1;
    }

    /// The ids with a hash.
    pub fn of(&self, hash: u64) -> impl Iterator<Item = &IdSlot> {
        self.tables[Self::table(hash)].iter_hash(hash).filter(move |slot| slot.hash == hash)
    }

    /// All ids.
    pub fn iter(&self) -> impl Iterator<Item = &IdSlot> {
        self.tables.iter().flatten()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
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

/// The index of one segment.
#[derive(Clone, Debug, Default)]
pub struct SegmentIndex {
    /// By the topic's number.
    pub topics: HashMap<u32, TopicIndex, FixedState>,
    /// Every record's id.
    pub ids: Ids,
    /// The lowest and the highest of the ids that are UUIDs v7: what the hub makes is outside of what is old.
    pub v7: Option<(EventId, EventId)>,
}

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
        let topic = self.topics.entry(item.topic).or_default();
        debug_assert!(topic.entries.last().is_none_or(|last| last.seq < item.entry.seq), "in order");
        if let Some(key) = item.key {
            let at = topic.entries.len() as u32;
            match topic.keys.get_mut(key) {
                Some(newest) => *newest = at,
                None => drop(topic.keys.insert(key.clone(), at)),
            }
        }
        if !item.entry.flags.has(Flags::PAST) {
            if topic.last_committed == 0 {
                topic.first_committed = item.committed;
            }
            topic.last_committed = item.committed;
        }
        topic.entries.push(item.entry);
        let slot = IdSlot { hash: item.hash, offset: item.entry.offset };
        self.ids.insert(slot);
        if is_v7(item.id) {
            let (low, high) = self.v7.unwrap_or((item.id, item.id));
            self.v7 = Some((low.min(item.id), high.max(item.id)));
        }
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
