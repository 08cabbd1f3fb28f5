//! The contents of the frames that are not records.
//!
//! | kind | content |
//! | --- | --- |
//! | topic (1) | number `u32`, name |
//! | event (2) | topic `u32`, commit time `u64`, the record's JSON |
//! | past (3) | topic `u32`, seq `u64`, ts `u64`, commit time `u64`, id 16 bytes, hash of the content 16 bytes |
//! | cleaned (4) | topic `u32`, floor `u64`, ids since `u64`, events removed `u64`, bytes removed `u64`, set of seqs |
//! | reserved (5) | topic `u32`, up to seq `u64` |
//! | opened (6) | the machine's boot `u64`, time `u64` |
//! | jump (7) | topic `u32`, last `u64`: the seqs up to it are given, or lost |
//! | mark (15) | number `u64`, last synced number `u64`, offset of the commit's first frame `u32`, 1 if closed `u8` |
//!
//! The set of seqs is a RoaringTreemap in its portable serialisation.

use super::bytes::{Malformed, Put, Take};
use super::frame::{self, Seal, kind};
use super::record;
use crate::index::{Entry as Place, Flags};
use bytes::Bytes;
use hub_core::Millis;
use hub_core::store::Record;
use hub_proto::{Event, EventId, TopicName};
use roaring::RoaringTreemap;

/// Bytes of an event's frame beside its JSON.
pub const EVENT_OVERHEAD: usize = frame::HEADER + 12;

/// Bytes of a mark's frame.
pub const MARK: usize = frame::HEADER + 21;

/// The end of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The commit's number; they ascend.
    pub number: u64,
    /// The highest number that was known to be durable when this was written.
    pub synced: u64,
    /// Where the commit's first frame begins.
    pub start: u32,
    /// The store was closed: nothing follows that was not synced.
    pub closed: bool,
}

/// What stays of an event that was cleaned away: enough to answer a resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its place.
    pub seq: u64,
    /// Its time.
    pub ts: Millis,
    /// Its commit time.
    pub committed: Millis,
    /// Its id.
    pub id: EventId,
    /// [`Event::content`].
    pub content: EventId,
}

/// Events of a topic that are gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Cleaned {
    /// Everything up to here.
    pub floor: u64,
    /// Ids of what goes are remembered for events committed since.
    pub ids_since: Millis,
    /// How many went with this.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What went above the floor with this.
    pub dead: RoaringTreemap,
}

impl Cleaned {
    /// The same in parts whose sets have at most `max` bytes each, so that each fits into a frame. Taken together, in any
    /// order, they say what the whole does.
    pub fn into_parts(self, max: usize) -> Vec<Self> {
        let ends = self.dead.min().zip(self.dead.max()).filter(|(first, last)| first < last);
        let Some((first, last)) = ends.filter(|_| self.dead.serialized_size() > max) else {
            return vec![self];
        };
        let middle = first + (last - first) / 2;
        let mut above = self.dead.clone();
        above.remove_range(..=middle);
        let mut below = self.dead;
        below.remove_range(middle + 1..);
        let Self { floor, ids_since, events, bytes, .. } = self;
        let mut parts = Self { floor, ids_since, events, bytes, dead: below }.into_parts(max);
        // What went is counted once.
        parts.extend(Self { floor, ids_since, events: 0, bytes: 0, dead: above }.into_parts(max));
        parts
    }
}

/// The content of a frame.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    /// A topic.
    Topic(u32, TopicName),
    /// An event: its topic, its commit time and its JSON.
    Event(u32, Millis, &'a [u8]),
    /// An event that was cleaned away.
    Past(u32, Past),
    /// Events went.
    Cleaned(u32, Cleaned),
    /// Seqs a relaxed topic may give.
    Reserved(u32, u64),
    /// The numbering of a topic goes on higher up.
    Jump(u32, u64),
    /// The store was opened in this life of the machine.
    Opened(u64),
    /// A group or subscription changed.
    Record(Box<Record>),
    /// A commit ends.
    Mark(Mark),
}

impl<'a> Entry<'a> {
    /// Reads the content of a frame.
    #[inline]
    pub fn read(kind: u8, content: &'a [u8]) -> Result<Self, Malformed> {
        let mut from = Take(content);
        let entry = match kind {
            kind::TOPIC => {
                let number = from.u32()?;
                let name =
                    std::str::from_utf8(from.0).map_err(|_| Malformed("a name is not UTF-8".into()))?;
                return match TopicName::stored(name) {
                    Ok(name) => Ok(Self::Topic(number, name)),
                    Err(error) => Err(Malformed(error.msg.to_string())),
                };
            }
            kind::EVENT => return Ok(Self::Event(from.u32()?, from.u64()?, from.0)),
            kind::PAST => {
                let topic = from.u32()?;
                let (seq, ts, committed) = (from.u64()?, from.u64()?, from.u64()?);
                let mut id =
                    || from.take(16).map(|id| EventId::from_bytes(id.try_into().expect("16 of them")));
                Self::Past(topic, Past { seq, ts, committed, id: id()?, content: id()? })
            }
            kind::CLEANED => {
                let topic = from.u32()?;
                let (floor, ids_since) = (from.u64()?, from.u64()?);
                let (events, bytes) = (from.u64()?, from.u64()?);
                let dead = read_set(from.take(from.0.len())?)?;
                Self::Cleaned(topic, Cleaned { floor, ids_since, events, bytes, dead })
            }
            kind::RESERVED => Self::Reserved(from.u32()?, from.u64()?),
            kind::JUMP => Self::Jump(from.u32()?, from.u64()?),
            kind::OPENED => {
                let boot = from.u64()?;
                from.u64()?;
                Self::Opened(boot)
            }
            kind::MARK => {
                let (number, synced, start) = (from.u64()?, from.u64()?, from.u32()?);
                Self::Mark(Mark { number, synced, start, closed: from.u8()? == 1 })
            }
            kind => Self::Record(Box::new(record::read(kind, from.take(from.0.len())?)?)),
        };
        from.end()?;
        Ok(entry)
    }
}

/// Appends frames of one segment.
impl Seal {
    /// A topic.
    pub fn topic(self, into: &mut Vec<u8>, number: u32, name: &TopicName) {
        self.write(into, kind::TOPIC, |into| {
            into.put_u32(number);
            into.extend_from_slice(name.as_bytes());
        });
    }

    /// An event.
    pub fn event(self, into: &mut Vec<u8>, topic: u32, committed: Millis, json: &[u8]) {
        self.write(into, kind::EVENT, |into| {
            into.put_u32(topic);
            into.put_u64(committed);
            into.extend_from_slice(json);
        });
    }

    /// An event that was cleaned away.
    pub fn past(self, into: &mut Vec<u8>, topic: u32, past: &Past) {
        self.write(into, kind::PAST, |into| {
            into.put_u32(topic);
            into.put_u64(past.seq);
            into.put_u64(past.ts);
            into.put_u64(past.committed);
            into.extend_from_slice(&past.id.to_bytes());
            into.extend_from_slice(&past.content.to_bytes());
        });
    }

    /// Events that went.
    pub fn cleaned(self, into: &mut Vec<u8>, topic: u32, cleaned: &Cleaned) {
        self.write(into, kind::CLEANED, |into| {
            into.put_u32(topic);
            into.put_u64(cleaned.floor);
            into.put_u64(cleaned.ids_since);
            into.put_u64(cleaned.events);
            into.put_u64(cleaned.bytes);
            write_set(&cleaned.dead, into);
        });
    }

    /// Seqs a relaxed topic may give.
    pub fn reserved(self, into: &mut Vec<u8>, topic: u32, upto: u64) {
        self.write(into, kind::RESERVED, |into| {
            into.put_u32(topic);
            into.put_u64(upto);
        });
    }

    /// The numbering of a topic goes on higher up.
    pub fn jump(self, into: &mut Vec<u8>, topic: u32, last: u64) {
        self.write(into, kind::JUMP, |into| {
            into.put_u32(topic);
            into.put_u64(last);
        });
    }

    /// The store was opened.
    pub fn opened(self, into: &mut Vec<u8>, boot: u64, now: Millis) {
        self.write(into, kind::OPENED, |into| {
            into.put_u64(boot);
            into.put_u64(now);
        });
    }

    /// A group or subscription.
    pub fn record(self, into: &mut Vec<u8>, record: &Record) {
        self.write_kind(into, |into| record::write(record, into));
    }

    /// The end of a commit.
    pub fn mark(self, into: &mut Vec<u8>, mark: Mark) {
        self.write(into, kind::MARK, |into| {
            into.put_u64(mark.number);
            into.put_u64(mark.synced);
            into.put_u32(mark.start);
            into.put_u8(u8::from(mark.closed));
        });
    }
}

/// Appends a set of seqs.
pub fn write_set(set: &RoaringTreemap, into: &mut Vec<u8>) {
    set.serialize_into(into).expect("a buffer takes everything");
}

/// Reads a set of seqs.
pub fn read_set(bytes: &[u8]) -> Result<RoaringTreemap, Malformed> {
    RoaringTreemap::deserialize_from(bytes).map_err(|error| Malformed(format!("a set of seqs: {error}")))
}

/// What the index keeps of an event.
pub fn place_of(event: &Event, offset: u32) -> Place {
    let mut flags = Flags::default();
    if event.key().is_some() && event.audience().is_none() {
        flags = Flags::KEYED;
        if event.is_tombstone() {
            flags = flags | Flags::TOMBSTONE;
        }
    }
    let len = (event.json().len() + EVENT_OVERHEAD) as u32;
    Place { seq: event.seq(), offset, len, flags }
}

/// Reads an event's JSON out of a frame that was checked.
pub fn event(json: Bytes, committed: Millis, topic: &TopicName) -> Result<Event, Malformed> {
    Event::from_trusted(json, committed, topic).map_err(|error| Malformed(error.msg.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_cleaned_away_is_the_same_in_parts_that_fit(
            seqs in prop::collection::btree_set(0u64..1 << 40, 0..300), max in 40usize..2000,
        ) {
            let dead: RoaringTreemap = seqs.into_iter().collect();
            let whole = Cleaned { floor: 3, ids_since: 4, events: 500, bytes: 600, dead };
            let mut again =
                Cleaned { floor: 3, ids_since: 4, events: 0, bytes: 0, dead: RoaringTreemap::new() };
            for part in whole.clone().into_parts(max) {
                prop_assert!(part.dead.serialized_size() <= max || part.dead.len() == 1);
                prop_assert_eq!((part.floor, part.ids_since), (3, 4));
                again.events += part.events;
                again.bytes += part.bytes;
                again.dead |= part.dead;
            }
            prop_assert_eq!(again, whole);
        }
    }
}
