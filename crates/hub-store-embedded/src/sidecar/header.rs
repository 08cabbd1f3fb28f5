//! What is kept of a sidecar in memory: the header and the directory.

use super::read::le;
use super::{
    DIRECTORY, ENTRIES, ENTRY_REST, HEADER, ID_ROW, IDS, KEY_ROW, KEYS, MAGIC, SECTIONS, TOPIC_ROW, VERSION,
};
use crate::format::bytes::{Malformed, Take};
use crc32c::crc32c;
use hub_proto::EventId;

/// What a segment has of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPart {
    /// The topic's number.
    pub number: u32,
    /// Seq of its first record.
    pub first_seq: u64,
    /// Seq of its last record.
    pub last_seq: u64,
    /// How many records it has; at least one.
    pub count: u32,
    /// How many distinct keys they have.
    pub keys: u32,
    /// Commit time of the first record, those aside that are [`Flags::PAST`](crate::index::Flags::PAST).
    pub first_committed: u64,
    /// Commit time of the last record, likewise.
    pub last_committed: u64,
    /// Which row of the entries is its first.
    pub(super) entries_from: u32,
    /// Which row of the keys is its first.
    pub(super) keys_from: u32,
}

impl TopicPart {
    /// Whether no seq is missing between the first and the last: then the place of each is known.
    pub fn is_dense(&self) -> bool {
        self.last_seq - self.first_seq == u64::from(self.count) - 1
    }
}

/// The header, as far as it is not checked and done with.
#[derive(Debug)]
pub(super) struct Header {
    pub nonce: u64,
    pub covered: u64,
    pub records: u32,
    pub v7: Option<(EventId, EventId)>,
    /// Of an entry: 4 or 8.
    pub seq_bytes: usize,
    pub sections: [Section; SECTIONS],
}

/// A stretch of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub start: u64,
    pub len: u64,
    pub sum: u32,
}

impl Section {
    pub fn check(&self, number: usize, sum: u32) -> Result<(), Malformed> {
        if sum == self.sum {
            return Ok(());
        }
        Err(Malformed(format!(
            "the checksum of section {number}, {} bytes from {} on, is {sum:08x} and should be {:08x}",
            self.len, self.start, self.sum
        )))
    }

    /// How many rows it has.
    fn rows(&self, number: usize, stride: usize) -> Result<u32, Malformed> {
        let stride = stride as u64;
        match u32::try_from(self.len / stride) {
            Ok(rows) if self.len.is_multiple_of(stride) => Ok(rows),
            _ => Err(Malformed(format!("section {number} has {} bytes, in rows of {stride}", self.len))),
        }
    }
}

impl Header {
    pub fn take(bytes: &[u8], size: u64) -> Result<Self, Malformed> {
        let mut from = Take(bytes);
        if bytes.len() < HEADER || from.take(8)? != MAGIC {
            return Err(Malformed("it does not begin as a sidecar does".into()));
        }
        let version = from.u32()?;
        if version != VERSION {
            return Err(Malformed(format!("its version is {version}, {VERSION} is known")));
        }
        let (sum, is) = (Take(&bytes[HEADER - 4..]).u32()?, crc32c(&bytes[..HEADER - 4]));
        if sum != is {
            return Err(Malformed(format!("the checksum of the header is {is:08x} and should be {sum:08x}")));
        }
        let seq_bytes = from.u32()?;
        let (nonce, covered, records, has_v7) = (from.u64()?, from.u64()?, from.u32()?, from.u32()?);
        let mut id = || -> Result<_, Malformed> {
            let bytes = from.take(16)?.try_into().expect("as many as asked for");
            Ok(EventId::from_bytes(bytes))
        };
        let v7 = match (has_v7, id()?, id()?) {
            (0, ..) => None,
            (1, low, high) if low <= high => Some((low, high)),
            _ => return Err(Malformed("the range of its ids is none".into())),
        };
        let mut sections = [Section::default(); SECTIONS];
        let mut end = HEADER as u64;
        for section in &mut sections {
            *section = Section { start: end, len: from.u64()?, sum: from.u32()? };
            end = end.saturating_add(section.len);
        }
        if end != size {
            return Err(Malformed(format!("it has {size} bytes, its header says {end}")));
        }
        if !matches!(seq_bytes, 4 | 8) || sections[IDS].rows(IDS, ID_ROW)? != records {
            return Err(Malformed(format!("{records} records with seqs of {seq_bytes} bytes cannot be")));
        }
        Ok(Self { nonce, covered, records, v7, seq_bytes: seq_bytes as usize, sections })
    }

    /// Bytes of an entry.
    pub fn entry_row(&self) -> usize {
        self.seq_bytes + ENTRY_REST
    }

    /// The seq in the row of an entry, less the topic's first one.
    pub fn seq(&self, row: &[u8]) -> u64 {
        le(&row[..self.seq_bytes])
    }
}

/// Reads the directory, and checks that it shares out the entries and the keys.
pub(super) fn directory(bytes: &[u8], header: &Header) -> Result<Box<[TopicPart]>, Malformed> {
    let mut topics: Vec<TopicPart> =
        Vec::with_capacity(header.sections[DIRECTORY].rows(DIRECTORY, TOPIC_ROW)? as usize);
    let all = (
        header.sections[ENTRIES].rows(ENTRIES, header.entry_row())?,
        header.sections[KEYS].rows(KEYS, KEY_ROW)?,
    );
    let mut given = (0_u32, 0_u32);
    for row in bytes.chunks_exact(TOPIC_ROW) {
        let mut from = Take(row);
        let part = TopicPart {
            number: from.u32()?,
            first_seq: from.u64()?,
            last_seq: from.u64()?,
            count: from.u32()?,
            keys: from.u32()?,
            first_committed: from.u64()?,
            last_committed: from.u64()?,
            entries_from: given.0,
            keys_from: given.1,
        };
        let more = part.last_seq.checked_sub(part.first_seq);
        let sound = topics.last().is_none_or(|last| last.number < part.number)
            && part.count > 0
            && more.is_some_and(|more| more >= u64::from(part.count) - 1 && (more == 0) == (part.count == 1))
            && part.keys <= part.count;
        let ends = (given.0.checked_add(part.count), given.1.checked_add(part.keys));
        match ends {
            (Some(entries), Some(keys)) if sound => given = (entries, keys),
            _ => return Err(Malformed(format!("{part:?} cannot be"))),
        }
        topics.push(part);
    }
    if given != all {
        return Err(Malformed(format!(
            "the topics have {} entries and {} keys, the file has {} and {}",
            given.0, given.1, all.0, all.1
        )));
    }
    Ok(topics.into())
}
