//! A sidecar from an index.

use super::{
    DIRECTORY, ENTRIES, ENTRY_REST, FILTER, HEADER, ID_ROW, IDS, KEY_ROW, KEYS, MAGIC, SECTIONS_AT, TEXTS,
    TOPIC_ROW, VERSION, filter,
};
use crate::format::bytes::Put;
use crate::index::{Entry, SegmentIndex, TopicIndex};
use crc32c::crc32c;

/// The bytes of the sidecar of a segment. `nonce` and `covered` (the bytes of the segment that it describes) tie it to
/// that very segment.
pub fn encode(index: &SegmentIndex, nonce: u64, covered: u64) -> Vec<u8> {
    let mut topics: Vec<_> = index.topics.iter().map(|(number, topic)| (*number, topic)).collect();
    topics.retain(|(_, topic)| !topic.entries.is_empty());
    topics.sort_unstable_by_key(|(number, _)| *number);
    let wide = topics.iter().any(|(_, topic)| u32::try_from(last(topic).seq - first(topic).seq).is_err());

    let mut out = Sections::new(index, &topics, wide);
    for (number, topic) in &topics {
        put_topic(*number, topic, &mut out.bytes);
    }
    out.end(DIRECTORY);
    for (_, topic) in &topics {
        put_entries(topic, wide, &mut out.bytes);
    }
    out.end(ENTRIES);
    let mut texts = 0;
    for (key, entry) in topics.iter().flat_map(|(_, topic)| &topic.keys) {
        out.bytes.put_u32(count(texts));
        out.bytes.put_u32(*entry);
        texts += key.len();
    }
    out.end(KEYS);
    for key in topics.iter().flat_map(|(_, topic)| topic.keys.keys()) {
        out.bytes.extend_from_slice(key.as_bytes());
    }
    out.end(TEXTS);
    let mut ids: Vec<_> = index.ids.iter().collect();
    ids.sort_unstable_by_key(|slot| (slot.hash, slot.offset));
    for slot in &ids {
        out.bytes.put_u64(slot.hash);
        out.bytes.put_u32(slot.offset);
    }
    out.end(IDS);
    ids.dedup_by_key(|slot| slot.hash);
    filter::put(ids.iter().map(|slot| slot.hash), &mut out.bytes);
    out.end(FILTER);
    out.finish(index, nonce, covered, wide)
}

fn first(topic: &TopicIndex) -> &Entry {
    topic.entries.first().expect("empty topics were left out")
}

fn last(topic: &TopicIndex) -> &Entry {
    topic.entries.last().expect("empty topics were left out")
}

fn count(of: usize) -> u32 {
    u32::try_from(of).expect("a segment is smaller than 4 GiB")
}

fn put_topic(number: u32, topic: &TopicIndex, into: &mut Vec<u8>) {
    into.put_u32(number);
    into.put_u64(first(topic).seq);
    into.put_u64(last(topic).seq);
    into.put_u32(count(topic.entries.len()));
    into.put_u32(count(topic.keys.len()));
    into.put_u64(topic.first_committed);
    into.put_u64(topic.last_committed);
}

fn put_entries(topic: &TopicIndex, wide: bool, into: &mut Vec<u8>) {
    let base = first(topic).seq;
    for entry in &topic.entries {
        let seq = entry.seq - base;
        if wide {
            into.put_u64(seq);
        } else {
            into.put_u32(seq as u32);
        }
        into.put_u32(entry.offset);
        debug_assert!(entry.len < 1 << 24, "a frame is smaller than that");
        into.put_u32(entry.len | u32::from(entry.flags.0) << 24);
    }
}

/// The file as it grows: room for the header, and what is known of the sections.
struct Sections {
    bytes: Vec<u8>,
    /// Lengths and checksums, as the header has them.
    table: Vec<u8>,
    /// Where the section that is being written begins.
    from: usize,
}

impl Sections {
    fn new(index: &SegmentIndex, topics: &[(u32, &TopicIndex)], wide: bool) -> Self {
        let entries: usize = topics.iter().map(|(_, topic)| topic.entries.len()).sum();
        let keys = topics.iter().flat_map(|(_, topic)| topic.keys.keys()).map(|key| key.len() + KEY_ROW);
        let room = HEADER
            + topics.len() * TOPIC_ROW
            + entries * (seq_bytes(wide) + ENTRY_REST)
            + keys.sum::<usize>()
            + index.len() * ID_ROW
            + index.len() * 5 / 2;
        let mut bytes = Vec::with_capacity(room + 1024);
        bytes.resize(HEADER, 0);
        Self { bytes, table: Vec::with_capacity(HEADER - SECTIONS_AT), from: HEADER }
    }

    /// Ends a section. They come in the order of their numbers.
    fn end(&mut self, section: usize) {
        debug_assert_eq!(self.table.len(), section * 12, "in order");
        let bytes = &self.bytes[self.from..];
        self.table.put_u64(bytes.len() as u64);
        self.table.put_u32(crc32c(bytes));
        self.from = self.bytes.len();
    }

    fn finish(mut self, index: &SegmentIndex, nonce: u64, covered: u64, wide: bool) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.put_u32(VERSION);
        header.put_u32(seq_bytes(wide) as u32);
        header.put_u64(nonce);
        header.put_u64(covered);
        header.put_u32(count(index.len()));
        header.put_u32(u32::from(index.v7.is_some()));
        let (low, high) =
            index.v7.map_or_else(Default::default, |(low, high)| (low.to_bytes(), high.to_bytes()));
        header.extend_from_slice(&low);
        header.extend_from_slice(&high);
        header.extend_from_slice(&self.table);
        header.put_u32(crc32c(&header));
        self.bytes[..HEADER].copy_from_slice(&header);
        self.bytes
    }
}

const fn seq_bytes(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

/// Makes every checksum right again after bytes were changed, as far as the lengths of the sections allow: so that
/// tests get past the checksums.
#[cfg(feature = "testkit")]
pub fn reseal(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    let mut start = HEADER;
    for at in (SECTIONS_AT..HEADER - 4).step_by(12) {
        let len = bytes[at..at + 8].iter().rev().fold(0, |len, byte| len << 8 | u64::from(*byte));
        let Some(end) = usize::try_from(len).ok().and_then(|len| start.checked_add(len)) else { break };
        let Some(section) = bytes.get(start..end) else { break };
        let sum = crc32c(section);
        bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        start = end;
    }
    let sum = crc32c(&bytes[..HEADER - 4]);
    bytes[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
}
