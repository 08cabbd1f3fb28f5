//! One file of the log, with its index.

use crate::disk::{DiskFile, Wait};
use crate::format::entry::{self, EVENT_OVERHEAD, Entry as Content, Past};
use crate::format::frame::{HEADER, Seal, kind};
use crate::index::{Entry, Flags, SegmentIndex, is_v7};
use crate::sidecar::{Sidecar, SidecarError};
use bytes::Bytes;
use hub_proto::{Event, EventId, Key, TopicName};
use parking_lot::RwLock;
use roaring::RoaringTreemap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Frames closer than this are read together.
const GAP: u64 = 4096;
/// The most that is read together, but for a frame that is larger. Events that are read together share one buffer, and
/// whoever holds on to one holds on to it.
const TOGETHER: u64 = 64 << 10;

/// Which file it is. They order as the log does only within their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentId {
    /// Written by commits.
    Log(u64),
    /// Written by the cleaner: what was kept of others.
    Kept(u64),
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(number) => write!(f, "log-{number:08}"),
            Self::Kept(number) => write!(f, "kept-{number:08}"),
        }
    }
}

impl SegmentId {
    /// The name of its sidecar.
    pub fn sidecar(self) -> String {
        format!("{self}.idx")
    }

    /// Reads a file name; `None` if it is not a segment's.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, number) = name.split_once('-')?;
        // There is always one more.
        let number = number.parse().ok().filter(|number| *number < u64::MAX)?;
        let id = match kind {
            "log" => Self::Log(number),
            "kept" => Self::Kept(number),
            _ => return None,
        };
        // `+1` is a number, too.
        (id.to_string() == name).then_some(id)
    }

    /// Its number within its kind.
    pub fn number(self) -> u64 {
        match self {
            Self::Log(number) | Self::Kept(number) => number,
        }
    }
}

/// Why a segment could not answer.
#[derive(Debug)]
pub enum Trouble {
    /// The file.
    Io(io::Error),
    /// The sidecar is not what it was: it has to be made again.
    Sidecar(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<SidecarError> for Trouble {
    fn from(error: SidecarError) -> Self {
        match error {
            SidecarError::Io(error) => Self::Io(error),
            SidecarError::Bad(what) => Self::Sidecar(what.to_string()),
        }
    }
}

/// Where a segment's index is.
pub enum Index {
    /// In memory, as long as it is written to.
    Open(SegmentIndex),
    /// On disk.
    Sealed(Sidecar),
}

impl Index {
    /// The highest of its ids that are UUIDs v7.
    pub fn highest_v7(&self) -> Option<EventId> {
        let v7 = match self {
            Self::Open(index) => index.v7,
            Self::Sealed(sidecar) => sidecar.v7(),
        };
        v7.map(|(_, highest)| highest)
    }
}

/// A file of the log.
pub struct Segment {
    /// Its name.
    pub id: SegmentId,
    /// Its bytes.
    pub file: Arc<dyn DiskFile>,
    /// The seed of its checksums.
    pub nonce: u64,
    /// Makes them.
    pub seal: Seal,
    /// Bytes that count.
    pub end: AtomicU64,
    /// Bytes that its file was made with; 0 for one that is not written to.
    pub capacity: u64,
    /// Something in it is not what was written: it is kept as it is.
    pub damaged: AtomicBool,
    /// The room that it did not use was given back.
    pub trimmed: AtomicBool,
    /// What a kept segment has of each topic.
    pub kept: OnceLock<Vec<KeptPart>>,
    /// Its index.
    pub index: RwLock<Index>,
}

/// What a kept segment has of a topic.
#[derive(Clone, Debug)]
pub struct KeptPart {
    /// The topic's number.
    pub topic: u32,
    /// The seqs of its records, gone by now or not.
    pub records: RoaringTreemap,
    /// How many records were gone when it was written: what is left of each answers a resend.
    pub pasts: u64,
    /// The commit time of the newest of those; the highest there is, if it cannot be read.
    pub pasts_committed: u64,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

/// The segments at one moment, in the order of the log; the last one is written to. A new value is made whenever one
/// comes or goes.
#[derive(Default)]
pub struct Segments {
    list: Vec<Arc<Segment>>,
    /// The sealed ones: the highest id v7 of each descending, then those without one. Most ids are
    /// higher than all of these; a single id of the far future has only its own segment searched for later ones.
    by_highest_v7: Vec<(Option<EventId>, Arc<Segment>)>,
}

impl Segments {
    /// The segments of a log.
    pub fn new(list: Vec<Arc<Segment>>) -> Self {
        let sealed = list.split_last().map_or(&[][..], |(_, sealed)| sealed);
        let sealed = sealed.iter().map(|segment| (segment.highest_v7(), segment.clone()));
        let mut by_highest_v7: Vec<_> = sealed.collect();
        by_highest_v7.sort_by_key(|(highest, _)| std::cmp::Reverse(*highest));
        Self { list, by_highest_v7 }
    }

    /// The same, with another segment at the end. `highest` is the highest id v7 of the one that is sealed now.
    pub fn followed_by(&self, next: Arc<Segment>, highest: Option<EventId>) -> Self {
        let (mut list, mut by_highest_v7) = (self.list.clone(), self.by_highest_v7.clone());
        if let Some(sealed) = list.last() {
            let at = by_highest_v7.partition_point(|(other, _)| *other >= highest);
            by_highest_v7.insert(at, (highest, sealed.clone()));
        }
        list.push(next);
        Self { list, by_highest_v7 }
    }

    /// The sealed segments that may have an id.
    pub fn sealed_with(&self, id: EventId) -> impl ExactSizeIterator<Item = &Arc<Segment>> {
        let count = match is_v7(id) {
            true => self.by_highest_v7.partition_point(|(highest, _)| *highest >= Some(id)),
            false => self.by_highest_v7.len(),
        };
        self.by_highest_v7[..count].iter().map(|(_, segment)| segment)
    }
}

impl std::ops::Deref for Segments {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

/// What a frame that the index points to turned out to be.
#[derive(Debug)]
pub enum Stored {
    /// A record.
    Event(Event),
    /// What is left of one.
    Past(Past),
}

impl Segment {
    /// A segment over its file.
    pub fn new(id: SegmentId, file: Arc<dyn DiskFile>, nonce: u64, end: u64, index: Index) -> Self {
        let (end, damaged, index) = (AtomicU64::new(end), AtomicBool::new(false), RwLock::new(index));
        let (trimmed, kept) = (AtomicBool::new(false), OnceLock::new());
        Self { id, file, nonce, seal: Seal::new(nonce), end, capacity: 0, damaged, trimmed, kept, index }
    }

    /// The same, with a file of so many bytes to write to.
    pub fn with_capacity(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    /// A segment whose file is gone; it is kept in mind.
    pub fn absent(id: SegmentId, nonce: u64, end: u64, index: Index) -> Self {
        let segment = Self::new(id, Arc::new(Absent), nonce, end, index);
        segment.damaged.store(true, Relaxed);
        segment
    }

    /// Keeps its files open, for those that still read them when their names are taken away.
    pub fn hold(&self) -> io::Result<()> {
        self.file.hold()?;
        match &*self.index.read() {
            Index::Open(_) => Ok(()),
            Index::Sealed(sidecar) => sidecar.hold(),
        }
    }

    /// Bytes that count.
    pub fn len(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// The topics it has records of.
    pub fn topics(&self) -> Vec<u32> {
        match &*self.index.read() {
            Index::Open(index) => index.topics.keys().copied().collect(),
            Index::Sealed(sidecar) => sidecar.topics().iter().map(|part| part.number).collect(),
        }
    }

    /// Entries of a topic from a seq on.
    pub fn entries(&self, topic: u32, from: u64, max: usize, wait: Wait) -> Result<Vec<Entry>, Trouble> {
        match &*self.index.read() {
            Index::Open(index) => Ok(index.entries(topic, from, max).to_vec()),
            Index::Sealed(sidecar) => Ok(sidecar.entries(topic, from, max, wait)?),
        }
    }

    /// The newest entry of a key.
    pub fn newest(&self, topic: u32, key: &str, wait: Wait) -> Result<Option<Entry>, Trouble> {
        match &*self.index.read() {
            Index::Open(index) => Ok(index.newest(topic, key)),
            Index::Sealed(sidecar) => Ok(sidecar.newest(topic, key, wait)?),
        }
    }

    /// The newest entries of the keys above `after`.
    pub fn keys(
        &self,
        topic: u32,
        after: Option<&str>,
        max: usize,
        wait: Wait,
    ) -> Result<Vec<(Key, Entry)>, Trouble> {
        match &*self.index.read() {
            Index::Open(index) => Ok(index.keys(topic, after, max)),
            Index::Sealed(sidecar) => Ok(sidecar.keys(topic, after, max, wait)?),
        }
    }

    /// The highest of its ids that are UUIDs v7.
    pub fn highest_v7(&self) -> Option<EventId> {
        self.index.read().highest_v7()
    }

    /// Where the frames are whose id has this hash.
    pub fn offsets(&self, id: EventId, hash: u64, wait: Wait) -> Result<Vec<u32>, Trouble> {
        match &*self.index.read() {
            Index::Open(index) => Ok(index.offsets(hash)),
            Index::Sealed(sidecar) => {
                let outside = is_v7(id) && sidecar.v7().is_none_or(|(low, high)| id < low || id > high);
                if outside || !sidecar.may_have(hash) {
                    return Ok(Vec::new());
                }
                Ok(sidecar.offsets(hash, wait)?)
            }
        }
    }

    /// The commit times of the first and the last record of a topic, if it has any.
    pub fn committed(&self, topic: u32) -> Option<(u64, u64)> {
        match &*self.index.read() {
            Index::Open(index) => {
                index.topics.get(&topic).map(|topic| (topic.first_committed, topic.last_committed))
            }
            Index::Sealed(sidecar) => {
                sidecar.topic(topic).map(|topic| (topic.first_committed, topic.last_committed))
            }
        }
    }

    /// Reads the frame at a place. `None` if there is none: damage, or a hash that two ids share.
    pub fn frame(&self, offset: u32, topic: &TopicName, wait: Wait) -> io::Result<Option<Stored>> {
        let mut head = [0; HEADER];
        self.file.read_at(&mut head, u64::from(offset), wait)?;
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize + 8;
        if len > crate::format::frame::MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        let read = self.file.read_at(&mut bytes, u64::from(offset), wait)?;
        bytes.truncate(read);
        Ok(self.stored(&bytes.into(), 0..read, topic))
    }

    /// The event in a part of a buffer, which it shares.
    #[inline]
    fn event(&self, buffer: &Bytes, part: Range<usize>, seq: u64, topic: &TopicName) -> Option<Arc<Event>> {
        let frame = self.seal.read(buffer.get(part)?).ok()?;
        if frame.kind != kind::EVENT {
            return None;
        }
        let Ok(Content::Event(_, committed, json)) = Content::read(kind::EVENT, frame.content) else {
            return None;
        };
        Event::shared_from_trusted(buffer.slice_ref(json), committed, topic)
            .ok()
            .filter(|event| event.seq() == seq)
    }

    /// What the frame in a part of a buffer says; an event shares the buffer.
    #[inline]
    fn stored(&self, buffer: &Bytes, part: Range<usize>, topic: &TopicName) -> Option<Stored> {
        let frame = self.seal.read(buffer.get(part)?).ok()?;
        match Content::read(frame.kind, frame.content).ok()? {
            Content::Event(_, committed, json) => {
                entry::event(buffer.slice_ref(json), committed, topic).ok().map(Stored::Event)
            }
            Content::Past(_, past) => Some(Stored::Past(past)),
            _ => None,
        }
    }

    /// Reads the events at some places, which ascend. `None` stands for one that is not there any more: damage.
    pub fn events(
        &self,
        entries: &[Entry],
        topic: &TopicName,
        wait: Wait,
    ) -> io::Result<Vec<Option<Arc<Event>>>> {
        let mut events = Vec::with_capacity(entries.len());
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let start = u64::from(first.offset);
            let mut end = start + u64::from(first.len);
            let mut count = 1;
            for next in &rest[1..] {
                let from = u64::from(next.offset);
                let to = from + u64::from(next.len);
                if from < end || from - end > GAP || to - start > TOGETHER {
                    break;
                }
                end = to;
                count += 1;
            }
            let mut buffer = vec![0; (end - start) as usize];
            let read = self.file.read_at(&mut buffer, start, wait)?;
            buffer.truncate(read);
            let buffer = Bytes::from(buffer);
            for entry in &rest[..count] {
                let at = (u64::from(entry.offset) - start) as usize;
                events.push(self.event(&buffer, at..at + entry.len as usize, entry.seq, topic));
            }
            rest = &rest[count..];
        }
        Ok(events)
    }
}

/// The file of a segment that is gone.
struct Absent;

impl DiskFile for Absent {
    fn read_at(&self, _: &mut [u8], _: u64, _: Wait) -> io::Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn begin_sync(&self, _: u64, _: usize) {}

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Bytes of an entry's JSON.
pub fn json_len(entry: &Entry) -> u64 {
    if entry.flags.has(Flags::PAST) { 0 } else { u64::from(entry.len).saturating_sub(EVENT_OVERHEAD as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v7(ms: u64) -> EventId {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
        (bytes[6], bytes[8]) = (0x70, 0x80);
        EventId::from_bytes(bytes)
    }

    fn log(number: u64, v7: Option<(EventId, EventId)>) -> Arc<Segment> {
        let mut index = SegmentIndex::default();
        index.v7 = v7;
        Arc::new(Segment::absent(SegmentId::Log(number), number, 0, Index::Open(index)))
    }

    fn searched(segments: &Segments, id: EventId) -> Vec<u64> {
        let mut numbers: Vec<u64> = segments.sealed_with(id).map(|segment| segment.id.number()).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn an_id_of_the_far_future_has_only_its_own_segment_searched_for_later_ids() {
        let times = |number: u64| (v7(number * 100), v7(number * 100 + 99));
        let mut list: Vec<_> = (1..=50).map(|number| log(number, Some(times(number)))).collect();
        list[6] = log(7, Some((v7(700), v7(1 << 47))));
        list[20] = log(21, None);
        let one_by_one = list.iter().fold(Segments::default(), |segments, next| {
            let highest = segments.last().and_then(|last| last.highest_v7());
            segments.followed_by(next.clone(), highest)
        });
        for segments in [Segments::new(list), one_by_one] {
            assert_eq!(segments.len(), 50);
            assert_eq!(searched(&segments, v7(5050)), [7]);
            assert_eq!(searched(&segments, v7(4750)), [7, 47, 48, 49]);
            assert_eq!(searched(&segments, v7((1 << 47) + 1)), [] as [u64; 0]);
            // An id without a time in it may be anywhere; the active segment, 50, is never among the sealed ones.
            let random = EventId::from_bytes([0x40; 16]);
            assert_eq!(searched(&segments, random), (1..50).collect::<Vec<u64>>());
        }
    }
}
