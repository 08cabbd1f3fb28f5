//! What a directory says, taken together: topics, groups, and which seqs are where.
//!
//! It follows what opening does (`recover.rs`), with more memory for what it has seen and no effect on any file.

use super::pieces::Absent;
use crate::catalog::{Catalog, Topic};
use crate::format::entry::{Entry as Content, event};
use crate::index::SegmentIndex;
use crate::manifest::Manifest;
use crate::rebuild;
use crate::scan::At;
use crate::segment::SegmentId;
use bytes::Bytes;
use hub_core::store::Record;
use hub_proto::{Event, TopicName};
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most gaps that are remembered.
const MOST_GAPS: usize = 10_000;

/// A place in the log: which segment, in its order, and where in it.
pub(super) type Place = (usize, u64);

/// What a segment's frames are to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The manifest knows what they did.
    Covered,
    /// They come after the manifest.
    After,
    /// There is no manifest: they are all there is.
    Alone,
}

/// A segment that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    pub id: SegmentId,
    pub order: usize,
    pub role: Role,
}

/// What was seen of a topic.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Events that can be read, cleaned away or not.
    pub present: RoaringTreemap,
    /// The highest seq that was given, as far as the segments say.
    pub last: u64,
    /// Where that was.
    pub place: Option<(SegmentId, Place)>,
}

/// Seqs that should be there and are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub topic: u32,
    pub first: u64,
    pub last: u64,
    /// The record before it; none if that is in an earlier part of the log.
    pub after: Option<Place>,
    /// The record behind it; none if there is none.
    pub before: Option<Place>,
}

impl Gap {
    pub fn spans(&self, place: Place) -> bool {
        self.after.is_none_or(|after| after < place) && self.before.is_none_or(|before| place < before)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Model {
    pub seed: u64,
    pub catalog: Catalog,
    pub seen: BTreeMap<u32, Seen>,
    /// The life of the machine in which the store was opened last.
    pub boot: u64,
    pub gaps: Vec<Gap>,
    /// Events read.
    pub events: u64,
    /// The log is there from its very beginning.
    pub whole_history: bool,
    /// The highest seqs that groups were handed, known or not: by topic.
    pub handed: BTreeMap<TopicName, u64>,
    /// Progress of groups whose beginning is not in the log.
    pub orphans: u64,
    /// Seqs reserved by topics whose names are not known yet.
    reserved: BTreeMap<u32, u64>,
    /// What should be there and is not.
    pub absent: Vec<Absent>,
    /// Whether the payloads are parsed, too.
    pub deep: bool,
}

impl Model {
    /// What a manifest says, or nothing. Answers what cannot be in it.
    pub fn new(seed: u64, manifest: Option<&Manifest>) -> (Self, Vec<String>) {
        let mut model = Self { seed, deep: true, ..Self::default() };
        let Some(manifest) = manifest else { return (model, Vec::new()) };
        model.boot = manifest.boot;
        let wrong = model.catalog.load(manifest);
        (model, wrong)
    }

    /// A topic's name, for people.
    pub fn name(&self, number: u32) -> String {
        self.catalog.numbered(number).map_or(format!("number {number}"), |topic| topic.name.to_string())
    }

    /// Whether a reader would be shown a seq that is there.
    pub fn serves(topic: &Topic, seq: u64) -> bool {
        let state = topic.state.lock();
        seq > state.meta.floor && !state.meta.dead.contains(seq)
    }

    /// Those of some seqs that were not cleaned away.
    pub fn not_cleaned(&self, topic: u32, seqs: &RoaringTreemap) -> RoaringTreemap {
        let Some(topic) = self.catalog.numbered(topic) else { return seqs.clone() };
        let state = topic.state.lock();
        let mut left = seqs - &state.meta.dead;
        left.remove_range(..=state.meta.floor);
        left
    }

    /// Takes a frame over, and its record into an index. An error says why it cannot be what the store wrote there.
    pub fn frame(&mut self, at: &At<'_>, here: Here, index: &mut SegmentIndex) -> Result<(), String> {
        let covered = here.role == Role::Covered;
        match &at.entry {
            Content::Topic(number, name) => {
                self.catalog.take_number(*number);
                self.catalog.add(*number, name, Default::default())?;
            }
            Content::Event(number, committed, json) => {
                self.catalog.take_number(*number);
                let bytes = Bytes::copy_from_slice(json);
                let topic = self.topic_of(*number, *committed, &bytes)?;
                let event =
                    event(bytes.clone(), *committed, &topic.name).map_err(|error| error.to_string())?;
                if self.deep {
                    let whole = Event::from_json(bytes, *committed);
                    let whole = whole.map_err(|error| format!("its JSON is wrong: {}", error.msg))?;
                    if (whole.seq(), whole.id()) != (event.seq(), event.id()) {
                        return Err("its JSON says two things about its seq or its id".into());
                    }
                }
                let (seq, place) = (event.seq(), (here.order, at.offset));
                if self.seen.get(number).is_some_and(|seen| seen.present.contains(seq)) {
                    return Err(format!("seq {seq} of {} comes again", topic.name));
                }
                rebuild::add(index, self.seed, at, |_| Some(topic.clone()))?;
                self.gap(&topic, seq, here, place);
                let seen = self.seen.entry(*number).or_default();
                seen.present.insert(seq);
                if seq > seen.last {
                    (seen.last, seen.place) = (seq, Some((here.id, place)));
                }
                self.events += 1;
                let mut state = topic.state.lock();
                if !covered {
                    state.meta.last_committed = state.meta.last_committed.max(*committed);
                }
                if !covered && seq > state.meta.last {
                    state.meta.last = seq;
                    state.meta.events += 1;
                    state.meta.bytes += json.len() as u64;
                }
            }
            Content::Past(number, past) => {
                self.catalog.take_number(*number);
                if matches!(here.id, SegmentId::Log(_)) {
                    return Err("what is left of a record, in a log".into());
                }
                let topic = self.topic(*number)?;
                rebuild::add(index, self.seed, at, |_| Some(topic.clone()))?;
                if here.role == Role::Alone {
                    let mut state = topic.state.lock();
                    state.meta.last = state.meta.last.max(past.seq);
                    state.meta.last_committed = state.meta.last_committed.max(past.committed);
                }
            }
            Content::Cleaned(number, cleaned) => {
                let topic = self.topic(*number)?;
                if !covered {
                    topic.state.lock().clean(cleaned);
                }
            }
            Content::Reserved(number, upto) => {
                if !covered {
                    match self.catalog.numbered(*number) {
                        Some(topic) => {
                            let mut state = topic.state.lock();
                            state.meta.reserved = state.meta.reserved.max(*upto);
                        }
                        None => drop(self.reserved.insert(*number, *upto)),
                    }
                }
            }
            Content::Jump(number, last) => {
                let topic = self.topic(*number)?;
                let seen = self.seen.entry(*number).or_default();
                if *last > seen.last {
                    (seen.last, seen.place) = (*last, Some((here.id, (here.order, at.offset))));
                }
                if !covered {
                    topic.state.lock().jump(*last);
                }
            }
            Content::Opened(boot) => {
                if !covered {
                    self.boot = *boot;
                }
            }
            Content::Record(record) => {
                if !covered {
                    self.record(record);
                }
            }
            Content::Mark(_) => {}
        }
        Ok(())
    }

    /// The topic of an event. If the frame that names it is damaged, the event does.
    fn topic_of(&mut self, number: u32, committed: u64, json: &Bytes) -> Result<Arc<Topic>, String> {
        if let Some(topic) = self.catalog.numbered(number) {
            return Ok(topic);
        }
        let event = Event::from_json(json.clone(), committed);
        let event = event
            .map_err(|error| format!("an event of topic {number}, whose name is nowhere: {}", error.msg))?;
        let topic = self.catalog.add(number, event.topic(), Default::default())?;
        topic.state.lock().meta.reserved = self.reserved.remove(&number).unwrap_or_default();
        Ok(topic)
    }

    fn topic(&self, number: u32) -> Result<Arc<Topic>, String> {
        let topic = self.catalog.numbered(number);
        topic.ok_or_else(|| format!("a frame of topic {number}, whose name is nowhere"))
    }

    fn record(&mut self, record: &Record) {
        if let Record::Progress(topic, group, progress) = record {
            let handed = self.handed.entry(topic.clone()).or_default();
            *handed = (*handed).max(progress.high);
            if !self.catalog.groups.lock().groups.contains_key(&(topic.clone(), group.clone())) {
                self.orphans += 1;
            }
        }
        self.catalog.groups.lock().apply(record.clone());
    }

    /// Whether there is nothing between two logs but what should be there and is not.
    fn adjacent(&self, one: u64, other: u64) -> bool {
        (one + 1..other).all(|number| self.absent.iter().any(|absent| absent.is_log(number)))
    }

    /// Takes note of seqs that are missing before an event. Where segments were rewritten nothing can be said: what was
    /// cleaned away is not there any more, and nothing tells.
    fn gap(&mut self, topic: &Topic, seq: u64, here: Here, place: Place) {
        let SegmentId::Log(number) = here.id else { return };
        let seen = self.seen.get(&topic.number);
        let before = seen.and_then(|seen| seen.place).and_then(|(id, place)| match id {
            SegmentId::Log(last) if last <= number && self.adjacent(last, number) => Some(place),
            _ => None,
        });
        let last = match (here.role, before) {
            (Role::After, _) => topic.state.lock().meta.last,
            (_, Some(_)) => seen.map_or(0, |seen| seen.last),
            (_, None) if self.whole_history && seen.is_none() => 0,
            _ => return,
        };
        if seq > last + 1 && self.gaps.len() < MOST_GAPS {
            let gap = Gap {
                topic: topic.number,
                first: last + 1,
                last: seq - 1,
                after: before,
                before: Some(place),
            };
            self.gaps.push(gap);
        }
    }
}
