//! The manifest: which segments there are, and what everything else was when the last of them was sealed.
//!
//! It is written anew, twice, whenever a segment is sealed or rewritten: `manifest.1` and `manifest.2`, each to a
//! temporary name first. The copy with the higher generation counts. What came after is in the segments with higher
//! numbers than [`Manifest::upto`].
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 8 | `EVHUBMAN` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | crc32c of everything after it |
//! | 16 | 48 | `u64` each: generation, seed of the ids' hashes, last segment covered, last commit covered, number of the next kept segment, boot of the machine |
//! | 64 | … | segments: count `u32`, then each: kind `u8` (0 log, 1 kept), number `u64`, nonce `u64`, bytes that count `u64`, 1 if damaged `u8` |
//! | | … | topics: count `u32`, then each: number `u32`, name (length `u32`, bytes), `u64` each: last, its commit time, floor, events, bytes, ids since, reserved; dead seqs (length `u32`, RoaringTreemap) |
//! | | … | groups: count `u32`, then each as in [`record`](crate::format::record) |
//! | | … | subscriptions: count `u32`, then each as in [`record`](crate::format::record) |

use crate::catalog::TopicMeta;
use crate::disk::salvage::is_unreadable;
use crate::disk::{Disk, read_all};
use crate::format::bytes::{Malformed, Put, Take};
use crate::format::entry::{read_set, write_set};
use crate::format::header::VERSION;
use crate::format::record::{read_group, read_subscription, write_group, write_subscription};
use crate::segment::SegmentId;
use hub_core::store::{StoredGroup, SubscriptionRecord};
use hub_proto::TopicName;
use std::io;

const MAGIC: &[u8; 8] = b"EVHUBMAN";

/// The two copies.
pub const COPIES: [&str; 2] = ["manifest.1", "manifest.2"];

/// A segment that is part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub id: SegmentId,
    /// The nonce in its header.
    pub nonce: u64,
    /// Bytes that count.
    pub end: u64,
    /// It was found damaged.
    pub damaged: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Which of two copies is newer.
    pub generation: u64,
    /// The seed of [`id_hash`](crate::index::id_hash).
    pub seed: u64,
    /// The last segment that is covered.
    pub upto: u64,
    /// The last commit that is covered.
    pub last_commit: u64,
    /// The number of the next kept segment.
    pub next_kept: u64,
    /// The machine's life in which the store was opened last.
    pub boot: u64,
    /// The segments, in the order of the log.
    pub segments: Vec<Row>,
    /// The topics by number.
    pub topics: Vec<(u32, TopicName, TopicMeta)>,
    /// The groups.
    pub groups: Vec<StoredGroup>,
    /// The subscriptions.
    pub subscriptions: Vec<SubscriptionRecord>,
}

impl Manifest {
    /// The bytes of a copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.put_u32(VERSION);
        bytes.put_u32(0);
        for value in [self.generation, self.seed, self.upto, self.last_commit, self.next_kept, self.boot] {
            bytes.put_u64(value);
        }
        bytes.put_u32(self.segments.len() as u32);
        for row in &self.segments {
            bytes.put_u8(u8::from(matches!(row.id, SegmentId::Kept(_))));
            bytes.put_u64(row.id.number());
            bytes.put_u64(row.nonce);
            bytes.put_u64(row.end);
            bytes.put_u8(u8::from(row.damaged));
        }
        bytes.put_u32(self.topics.len() as u32);
        let mut set = Vec::new();
        for (number, name, meta) in &self.topics {
            bytes.put_u32(*number);
            bytes.put_bytes(name.as_bytes());
            let TopicMeta { last, last_committed, floor, events, bytes: size, ids_since, reserved, dead } =
                meta;
            for value in [last, last_committed, floor, events, size, ids_since, reserved] {
                bytes.put_u64(*value);
            }
            set.clear();
            write_set(dead, &mut set);
            bytes.put_bytes(&set);
        }
        bytes.put_u32(self.groups.len() as u32);
        self.groups.iter().for_each(|group| write_group(group, &mut bytes));
        bytes.put_u32(self.subscriptions.len() as u32);
        self.subscriptions.iter().for_each(|record| write_subscription(record, &mut bytes));
        let sum = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a copy.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Take(bytes);
        if from.take(8)? != MAGIC {
            return Err(Malformed("it does not begin as a manifest does".into()));
        }
        let (version, sum) = (from.u32()?, from.u32()?);
        if sum != crc32c::crc32c(from.0) {
            return Err(Malformed("its checksum is wrong".into()));
        }
        if version != VERSION {
            return Err(Malformed(format!("it has format {version}, this program knows {VERSION}")));
        }
        let mut manifest = Self {
            generation: from.u64()?,
            seed: from.u64()?,
            upto: from.u64()?,
            last_commit: from.u64()?,
            next_kept: from.u64()?,
            boot: from.u64()?,
            ..Self::default()
        };
        for _ in 0..from.u32()? {
            let (kind, number) = (from.u8()?, from.u64()?);
            let id = if kind == 0 { SegmentId::Log(number) } else { SegmentId::Kept(number) };
            let (nonce, end) = (from.u64()?, from.u64()?);
            manifest.segments.push(Row { id, nonce, end, damaged: from.u8()? == 1 });
        }
        for _ in 0..from.u32()? {
            let (number, name) = (from.u32()?, from.text()?);
            let name = TopicName::stored(name).map_err(|error| Malformed(error.msg.to_string()))?;
            let meta = TopicMeta {
                last: from.u64()?,
                last_committed: from.u64()?,
                floor: from.u64()?,
                events: from.u64()?,
                bytes: from.u64()?,
                ids_since: from.u64()?,
                reserved: from.u64()?,
                dead: read_set(from.bytes()?)?,
            };
            manifest.topics.push((number, name, meta));
        }
        for _ in 0..from.u32()? {
            manifest.groups.push(read_group(&mut from)?);
        }
        for _ in 0..from.u32()? {
            manifest.subscriptions.push(read_subscription(&mut from)?);
        }
        from.end()?;
        Ok(manifest)
    }

    /// Writes both copies.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let bytes = self.encode();
        COPIES.iter().try_for_each(|name| write_file(disk, name, &bytes))
    }
}

/// Bytes written and synced at once: what commits sync meanwhile has to wait behind it.
pub const STRIDE: usize = 256 << 10;

/// Writes a file so that it is there as a whole, or as it was before.
pub fn write_file(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!("{name}.tmp");
    match disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let write = || {
        let file = disk.create(&unfinished)?;
        for (step, part) in bytes.chunks(STRIDE).enumerate() {
            file.write_at(part, (step * STRIDE) as u64)?;
            file.sync()?;
        }
        disk.rename(&unfinished, name)?;
        disk.sync_names()
    };
    write().inspect_err(|_| {
        // Room for the next try; it is removed at the next start otherwise.
        let _ = disk.remove(&unfinished);
    })
}

/// A copy as found.
#[derive(Debug)]
pub enum Copy {
    /// There is none.
    Missing,
    /// It cannot be read: why.
    Bad(String),
    /// It can.
    Good(Box<Manifest>),
}

/// Reads a copy.
pub fn read_copy(disk: &dyn Disk, name: &str) -> io::Result<Copy> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Copy::Missing),
        Err(error) => return Err(error),
    };
    let bytes = match read_all(&*file) {
        Err(error) if is_unreadable(&error) => return Ok(Copy::Bad(error.to_string())),
        bytes => bytes?,
    };
    Ok(match Manifest::decode(&bytes) {
        Ok(manifest) => Copy::Good(Box::new(manifest)),
        Err(error) => Copy::Bad(error.to_string()),
    })
}

/// The newest copy that can be read.
pub fn newest(disk: &dyn Disk) -> io::Result<Option<Box<Manifest>>> {
    let mut newest: Option<Box<Manifest>> = None;
    for name in COPIES {
        if let Copy::Good(copy) = read_copy(disk, name)?
            && newest.as_ref().is_none_or(|newest| newest.generation < copy.generation)
        {
            newest = Some(copy);
        }
    }
    Ok(newest)
}
