//! A sidecar on disk: opening it, and its entries and ids.

use super::header::{Header, Section, TopicPart, directory};
use super::search::Sorted;
use super::{DIRECTORY, ENTRIES, FILTER, HEADER, ID_ROW, IDS, KEYS, TEXTS, filter};
use crate::disk::{DiskFile, Wait};
use crate::format::bytes::Malformed;
use crate::index::{Entry, Flags};
use crc32c::{crc32c, crc32c_append};
use hub_proto::EventId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt, io};
use xorf::BinaryFuse16;

/// Bytes that are checked at a time.
const CHUNK: u64 = 256 * 1024;

/// Why a sidecar does not answer.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The file cannot be read; [`io::ErrorKind::WouldBlock`] if it was not to wait and would have to.
    #[error("the sidecar cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not the sidecar of this segment, or not as it was written. It can be made anew.
    #[error("the sidecar is bad: {0}")]
    Bad(#[from] Malformed),
}

impl SidecarError {
    pub(super) fn bad(what: impl Into<String>) -> Self {
        Self::Bad(Malformed(what.into()))
    }
}

/// The index of a sealed segment, on disk.
///
/// Every method that reads takes a [`Wait`] and hands [`io::ErrorKind::WouldBlock`] on. Whatever the bytes are, the
/// answer is [`SidecarError::Bad`] at worst; all methods may be called at the same time.
pub struct Sidecar {
    file: Arc<dyn DiskFile>,
    header: Header,
    topics: Box<[TopicPart]>,
    filter: Option<BinaryFuse16>,
    /// Whether the sections that are not in memory were found good.
    verified: AtomicBool,
}

impl fmt::Debug for Sidecar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sidecar")
            .field("header", &self.header)
            .field("topics", &self.topics.len())
            .field("verified", &self.verified)
            .finish_non_exhaustive()
    }
}

impl Sidecar {
    /// Opens the sidecar of the segment with this nonce and this many bytes. Header, directory and filter are checked
    /// now, the rest by [`Sidecar::verify`]. Waits for the disk.
    ///
    /// # Errors
    /// [`SidecarError::Bad`] if it belongs to another segment, or what was checked is not as it was written.
    pub fn open(file: Arc<dyn DiskFile>, nonce: u64, covered: u64) -> Result<Self, SidecarError> {
        let size = file.size()?;
        let header = read(&*file, 0, size.min(HEADER as u64), Wait::Yes)?;
        let header = Header::take(&header, size)?;
        if (header.nonce, header.covered) != (nonce, covered) {
            return Err(SidecarError::bad(format!(
                "it describes {} bytes of segment {:016x}, not {covered} bytes of {nonce:016x}",
                header.covered, header.nonce
            )));
        }
        let section = |number: usize| -> Result<Vec<u8>, SidecarError> {
            let section = &header.sections[number];
            let bytes = read(&*file, section.start, section.len, Wait::Yes)?;
            section.check(number, crc32c(&bytes))?;
            Ok(bytes)
        };
        let topics = directory(&section(DIRECTORY)?, &header)?;
        let filter = filter::take(&section(FILTER)?)?;
        Ok(Self { file, header, topics, filter, verified: AtomicBool::new(false) })
    }

    /// Checks the sections that [`Sidecar::open`] did not: it reads all of them, once. When they are good that is
    /// remembered, and further calls cost nothing. Every method that reads calls this first.
    ///
    /// # Errors
    /// [`SidecarError::Bad`] if they are not as they were written.
    pub fn verify(&self, wait: Wait) -> Result<(), SidecarError> {
        if self.verified.load(Relaxed) {
            return Ok(());
        }
        let longest =
            [ENTRIES, KEYS, TEXTS, IDS].iter().map(|number| self.header.sections[*number].len).max();
        let mut buffer = vec![0; longest.unwrap_or(0).min(CHUNK) as usize];
        for number in [ENTRIES, KEYS, TEXTS, IDS] {
            let section = &self.header.sections[number];
            let (mut sum, mut done) = (0, 0);
            while done < section.len {
                let chunk = &mut buffer[..(section.len - done).min(CHUNK) as usize];
                read_into(&*self.file, chunk, section.start + done, wait)?;
                sum = crc32c_append(sum, chunk);
                done += chunk.len() as u64;
            }
            section.check(number, sum)?;
        }
        self.verified.store(true, Relaxed);
        Ok(())
    }

    /// Keeps its file open: see [`DiskFile::hold`].
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn hold(&self) -> io::Result<()> {
        self.file.hold()
    }

    /// How many records the segment has.
    pub fn len(&self) -> usize {
        self.header.records as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.header.records == 0
    }

    /// The lowest and the highest of the ids that are UUIDs v7.
    pub fn v7(&self) -> Option<(EventId, EventId)> {
        self.header.v7
    }

    /// The topics it has records of, ascending by number.
    pub fn topics(&self) -> &[TopicPart] {
        &self.topics
    }

    /// What it has of a topic.
    pub fn topic(&self, number: u32) -> Option<&TopicPart> {
        let at = self.topics.binary_search_by_key(&number, |part| part.number).ok()?;
        self.topics.get(at)
    }

    /// Up to `max` entries of the topic with a seq of at least `from`, ascending.
    ///
    /// # Errors
    /// See [`SidecarError`].
    pub fn entries(&self, topic: u32, from: u64, max: usize, wait: Wait) -> Result<Vec<Entry>, SidecarError> {
        let Some(part) = self.topic(topic).filter(|part| from <= part.last_seq && max > 0) else {
            return Ok(Vec::new());
        };
        self.verify(wait)?;
        let into = from.saturating_sub(part.first_seq);
        let (at, mut rows) = if into == 0 || part.is_dense() {
            (into, Vec::new())
        } else {
            let sorted = Sorted {
                count: u64::from(part.count),
                stride: self.header.entry_row(),
                span: (0, part.last_seq - part.first_seq),
                read: |at, count| self.entry_rows(part, at, count, wait),
                number: |row: &[u8]| self.header.seq(row),
            };
            sorted.seek(into)?
        };
        let count = (u64::from(part.count) - at).min(max as u64);
        let there = (rows.len() / self.header.entry_row()) as u64;
        if there == 0 {
            rows = self.entry_rows(part, at, count, wait)?;
        } else if there < count {
            rows.extend(self.entry_rows(part, at + there, count - there, wait)?);
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(count as usize);
        for row in rows.chunks_exact(self.header.entry_row()).take(count as usize) {
            let entry = self.decode(part, row)?;
            if entry.seq < from || entries.last().is_some_and(|last| last.seq >= entry.seq) {
                return Err(SidecarError::bad(format!("seq {} of topic {topic} is out of order", entry.seq)));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// One of the topic's entries, counted from 0.
    ///
    /// # Errors
    /// See [`SidecarError`].
    pub fn entry(&self, topic: u32, at: u32, wait: Wait) -> Result<Option<Entry>, SidecarError> {
        let Some(part) = self.topic(topic).filter(|part| at < part.count) else { return Ok(None) };
        self.verify(wait)?;
        let row = self.entry_rows(part, u64::from(at), 1, wait)?;
        self.decode(part, &row).map(Some)
    }

    /// Whether a record with this hash may be there. Does not read.
    pub fn may_have(&self, hash: u64) -> bool {
        !self.is_empty() && filter::may_have(self.filter.as_ref(), hash)
    }

    /// Where the frames with this hash begin, ascending: usually one or none. Reads only if
    /// [`Sidecar::may_have`] says so.
    ///
    /// # Errors
    /// See [`SidecarError`].
    pub fn offsets(&self, hash: u64, wait: Wait) -> Result<Vec<u32>, SidecarError> {
        if !self.may_have(hash) {
            return Ok(Vec::new());
        }
        self.verify(wait)?;
        let read = |at, count| self.rows(IDS, ID_ROW, at, count, wait);
        let number = |row: &[u8]| le(&row[..8]);
        let count = u64::from(self.header.records);
        let sorted = Sorted { count, stride: ID_ROW, span: (0, u64::MAX), read, number };
        let (mut at, mut rows) = sorted.seek(hash)?;
        let mut offsets = Vec::new();
        loop {
            for row in rows.chunks_exact(ID_ROW) {
                if number(row) != hash {
                    return Ok(offsets);
                }
                let offset = le(&row[8..]);
                if offset >= self.header.covered {
                    return Err(SidecarError::bad(format!("an id is at {offset}, which the segment is not")));
                }
                offsets.push(offset as u32);
            }
            at += (rows.len() / ID_ROW) as u64;
            if at >= count {
                return Ok(offsets);
            }
            rows = read(at, (count - at).min(64))?;
        }
    }

    /// Rows of the topic's entries.
    pub(super) fn entry_rows(
        &self,
        part: &TopicPart,
        at: u64,
        count: u64,
        wait: Wait,
    ) -> Result<Vec<u8>, SidecarError> {
        self.rows(ENTRIES, self.header.entry_row(), u64::from(part.entries_from) + at, count, wait)
    }

    /// Bytes of an entry.
    pub(super) fn entry_row(&self) -> usize {
        self.header.entry_row()
    }

    /// An entry of the topic from its row.
    pub(super) fn decode(&self, part: &TopicPart, row: &[u8]) -> Result<Entry, SidecarError> {
        let (seq, rest) = (self.header.seq(row), &row[self.header.seq_bytes..]);
        let (offset, len) = (le(&rest[..4]), le(&rest[4..7]));
        let seq = part.first_seq.checked_add(seq).filter(|seq| *seq <= part.last_seq);
        match seq {
            Some(seq) if offset + len <= self.header.covered => {
                Ok(Entry { seq, offset: offset as u32, len: len as u32, flags: Flags(rest[7]) })
            }
            Some(seq) => Err(SidecarError::bad(format!(
                "seq {seq} of topic {} is at {offset} and {len} bytes long, in a segment of {}",
                part.number, self.header.covered
            ))),
            None => Err(SidecarError::bad(format!(
                "a seq of topic {} is above the last one, {}",
                part.number, part.last_seq
            ))),
        }
    }

    /// Rows of a section.
    pub(super) fn rows(
        &self,
        section: usize,
        stride: usize,
        at: u64,
        count: u64,
        wait: Wait,
    ) -> Result<Vec<u8>, SidecarError> {
        self.piece(section, at * stride as u64, count * stride as u64, wait)
    }

    /// Bytes of a section.
    pub(super) fn piece(
        &self,
        section: usize,
        from: u64,
        len: u64,
        wait: Wait,
    ) -> Result<Vec<u8>, SidecarError> {
        let Section { start, len: whole, .. } = self.header.sections[section];
        if from.checked_add(len).is_none_or(|end| end > whole) {
            return Err(SidecarError::bad(format!(
                "{len} bytes from {from} on are more than the {whole} of section {section}"
            )));
        }
        read(&*self.file, start + from, len, wait)
    }

    /// Bytes of a section, all of them.
    pub(super) fn section_len(&self, section: usize) -> u64 {
        self.header.sections[section].len
    }
}

/// A number of up to eight bytes.
pub(super) fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn read(file: &dyn DiskFile, from: u64, len: u64, wait: Wait) -> Result<Vec<u8>, SidecarError> {
    let len =
        usize::try_from(len).map_err(|_| SidecarError::bad(format!("{len} bytes are too many to read")))?;
    let mut bytes = vec![0; len];
    read_into(file, &mut bytes, from, wait)?;
    Ok(bytes)
}

fn read_into(file: &dyn DiskFile, into: &mut [u8], from: u64, wait: Wait) -> Result<(), SidecarError> {
    let read = file.read_at(into, from, wait)?;
    if read < into.len() {
        return Err(SidecarError::bad(format!(
            "{} bytes from {from} on are expected, {read} are there",
            into.len()
        )));
    }
    Ok(())
}
