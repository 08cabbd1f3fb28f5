//! What the store knows of topics, groups and subscriptions, in memory.

use crate::format::entry::Cleaned;
use crate::index::{Entry, Flags};
use crate::manifest::Manifest;
use crate::segment::Segment;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::store::{Bounds, GroupState, Record, StoredGroup, SubscriptionRecord};
use hub_proto::{GroupName, TopicName};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its number in frames and sidecars.
    pub number: u32,
    /// Its name.
    pub name: TopicName,
    /// The rest.
    pub state: Mutex<TopicState>,
}

/// What is stored about a topic beside its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicMeta {
    /// The highest seq ever given.
    pub last: u64,
    /// Its commit time.
    pub last_committed: Millis,
    /// Everything up to here is gone.
    pub floor: u64,
    /// Records kept.
    pub events: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
    /// Ids of what is gone are remembered for events committed since.
    pub ids_since: Millis,
    /// Seqs up to here may have been seen by somebody when the power failed.
    pub reserved: u64,
    /// What is gone above the floor and still in some segment.
    pub dead: RoaringTreemap,
}

/// Where records of a topic are: `first..=last`, some of them perhaps gone.
#[derive(Clone, Debug)]
pub struct Span {
    /// The segment.
    pub segment: Arc<Segment>,
    /// The lowest seq it has of the topic.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

/// A topic's state in memory.
#[derive(Debug, Default)]
pub struct TopicState {
    /// What is stored.
    pub meta: TopicMeta,
    /// Where its records are, ascending and disjoint.
    pub spans: Vec<Span>,
    /// Records that turned out to be damaged: skipped.
    pub lost: RoaringTreemap,
    /// Raised when records change places or go: whoever read an index before looks again.
    pub moves: u64,
}

impl TopicState {
    /// The extent of the log.
    pub fn bounds(&self) -> Bounds {
        let TopicMeta { last, last_committed, floor, events, bytes, .. } = self.meta;
        Bounds { first: floor + 1, last, events, bytes, last_committed }
    }

    /// Whether a reader may see a record.
    pub fn serves(&self, entry: &Entry) -> bool {
        self.keeps(entry) && !self.lost.contains(entry.seq)
    }

    /// Whether a record should be there and is damaged.
    pub fn is_lost(&self, entry: &Entry) -> bool {
        self.keeps(entry) && self.lost.contains(entry.seq)
    }

    fn keeps(&self, entry: &Entry) -> bool {
        let seq = entry.seq;
        seq > self.meta.floor
            && seq <= self.meta.last
            && !entry.flags.has(Flags::PAST)
            && !self.meta.dead.contains(seq)
    }

    /// Takes note of records that went into a segment.
    pub fn extend(&mut self, segment: &Arc<Segment>, first: u64, last: u64) {
        match self.spans.last_mut() {
            Some(span) if Arc::ptr_eq(&span.segment, segment) => span.last = last,
            _ => self.spans.push(Span { segment: segment.clone(), first, last }),
        }
    }

    /// Goes on with the numbering above `last`.
    pub fn jump(&mut self, last: u64) {
        if last > self.meta.last {
            if self.meta.floor == self.meta.last {
                self.meta.floor = last;
            }
            self.meta.last = last;
        }
    }

    /// Takes note of what was cleaned away.
    pub fn clean(&mut self, cleaned: &Cleaned) {
        let meta = &mut self.meta;
        meta.floor = meta.floor.max(cleaned.floor);
        meta.ids_since = meta.ids_since.max(cleaned.ids_since);
        meta.events = meta.events.saturating_sub(cleaned.events);
        meta.bytes = meta.bytes.saturating_sub(cleaned.bytes);
        meta.dead |= &cleaned.dead;
        meta.dead.remove_range(..=meta.floor);
        // Who holds the newest record of a key, as of before, looks for the one that has overtaken it.
        self.moves += 1;
    }
}

/// Groups and subscriptions.
#[derive(Debug, Default)]
pub struct Groups {
    /// Every group with how far it is.
    pub groups: BTreeMap<(TopicName, GroupName), StoredGroup>,
    /// Every subscription.
    pub subscriptions: BTreeMap<(String, GroupName), SubscriptionRecord>,
}

impl Groups {
    /// Carries a change out.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Group(record) => {
                let at = (record.topic.clone(), record.name.clone());
                match self.groups.get_mut(&at) {
                    Some(stored) => stored.record = record,
                    None => {
                        self.groups.insert(at, StoredGroup { record, state: GroupState::default() });
                    }
                }
            }
            Record::Progress(topic, group, progress) => {
                if let Some(stored) = self.groups.get_mut(&(topic, group)) {
                    stored.state.apply(&progress);
                }
            }
            Record::GroupGone(topic, group) => drop(self.groups.remove(&(topic, group))),
            Record::Subscription(record) => {
                let at = (record.label.clone(), record.group.clone());
                self.subscriptions.insert(at, record);
            }
            Record::SubscriptionGone(label, group) => drop(self.subscriptions.remove(&(label, group))),
        }
    }
}

/// All topics, and all groups.
#[derive(Default)]
pub struct Catalog {
    names: RwLock<HashMap<TopicName, Arc<Topic>, RandomState>>,
    numbers: RwLock<BTreeMap<u32, Arc<Topic>>>,
    /// Numbers up to here are somebody's, even if their name was lost.
    taken: AtomicU32,
    /// Groups and subscriptions.
    pub groups: Mutex<Groups>,
}

impl Catalog {
    /// Takes over what a manifest says; answers what contradicts itself in it.
    pub fn load(&self, manifest: &Manifest) -> Vec<String> {
        let add =
            |(number, name, meta): &(u32, TopicName, TopicMeta)| self.add(*number, name, meta.clone()).err();
        let wrong = manifest.topics.iter().filter_map(add).collect();
        let mut groups = self.groups.lock();
        for group in &manifest.groups {
            let at = (group.record.topic.clone(), group.record.name.clone());
            groups.groups.insert(at, group.clone());
        }
        for record in &manifest.subscriptions {
            groups.subscriptions.insert((record.label.clone(), record.group.clone()), record.clone());
        }
        wrong
    }

    /// A topic by its name.
    pub fn named(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.names.read().get(name).cloned()
    }

    /// A topic by its number.
    pub fn numbered(&self, number: u32) -> Option<Arc<Topic>> {
        self.numbers.read().get(&number).cloned()
    }

    /// The number of the next topic.
    pub fn next_number(&self) -> u32 {
        let last = self.numbers.read().last_key_value().map_or(0, |(&last, _)| last);
        last.max(self.taken.load(Relaxed)) + 1
    }

    /// A number was found in a frame: it is never given again.
    pub fn take_number(&self, number: u32) {
        self.taken.fetch_max(number, Relaxed);
    }

    /// Adds a topic; an error if its number or its name is another one's.
    pub fn add(&self, number: u32, name: &TopicName, meta: TopicMeta) -> Result<Arc<Topic>, String> {
        let (mut names, mut numbers) = (self.names.write(), self.numbers.write());
        match (numbers.get(&number), names.get(name)) {
            (Some(one), Some(other)) if Arc::ptr_eq(one, other) => return Ok(one.clone()),
            (None, None) => {}
            (known, _) => {
                let known = known.map_or("another number".to_string(), |topic| topic.name.to_string());
                return Err(format!("topic {number} is {name} here and {known} elsewhere"));
            }
        }
        let state = Mutex::new(TopicState { meta, ..TopicState::default() });
        let topic = Arc::new(Topic { number, name: name.clone(), state });
        names.insert(name.clone(), topic.clone());
        numbers.insert(number, topic.clone());
        Ok(topic)
    }

    /// Adds a topic that was made outside.
    pub fn adopt(&self, topic: &Arc<Topic>) {
        self.names.write().insert(topic.name.clone(), topic.clone());
        self.numbers.write().insert(topic.number, topic.clone());
    }

    /// Every topic, by number.
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.numbers.read().values().cloned().collect()
    }
}
