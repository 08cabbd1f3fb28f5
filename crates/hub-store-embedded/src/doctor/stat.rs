//! Figures about a directory, which a hub may be using: from the manifest, the sidecars, and the segments that neither
//! of them covers.
//!
//! Nothing is locked. A hub that makes room meanwhile takes segments away that the manifest named a moment ago: then
//! everything is read again.

use super::DoctorError;
use super::files::Files;
use super::model::{Model, Role};
use super::pieces::{Piece, Pieces, read_piece};
use crate::catalog::Topic;
use crate::disk::{Disk, DiskFile, Wait};
use crate::format::entry::Entry as Content;
use crate::format::frame::{HEADER, MAX, Seal};
use crate::index::{Entry, Flags};
use crate::sidecar::Sidecar;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// How often everything is read again before it is an error.
const TRIES: usize = 5;
/// Entries looked at together.
const CHUNK: usize = 1024;

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicStat {
    /// Its name.
    pub name: String,
    /// Events that readers see.
    pub events: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
    /// The first of them; none if there are none.
    pub first_seq: Option<u64>,
    /// The highest seq ever given.
    pub last_seq: u64,
    /// Everything up to here is gone.
    pub floor: u64,
    /// The commit time of the first, in milliseconds since 1970.
    pub oldest: Option<u64>,
    /// The commit time of the last.
    pub newest: Option<u64>,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentStat {
    /// Its file.
    pub name: String,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of it that are written.
    pub used: u64,
    /// Records in it; what is left of events that were cleaned away counts, too.
    pub records: u64,
    /// Events in it that readers see.
    pub live: u64,
    /// Their share of the records, 0 to 1.
    pub live_share: f64_share::Share,
    /// Whether the figures came from its sidecar.
    pub sidecar: bool,
    /// The manifest says that it is damaged.
    pub damaged: bool,
}

/// The directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Events that readers see.
    pub events: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
    /// Bytes of all files.
    pub on_disk: u64,
    /// Bytes of segments.
    pub segments: u64,
    /// Bytes of sidecars.
    pub sidecars: u64,
    /// Bytes of files that are prepared for the log to go on.
    pub prepared: u64,
    /// Files in quarantine.
    pub quarantine_files: u64,
    /// Their bytes.
    pub quarantine: u64,
    /// Records in all segments.
    pub records: u64,
    /// Events among them that readers see.
    pub live: u64,
    /// Their share, 0 to 1.
    pub live_share: f64_share::Share,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The directory.
    pub directory: String,
    /// A hub is using it: the figures are as of the manifest and the log when they were read.
    pub in_use: bool,
    /// The generation of the manifest; none if there is none.
    pub manifest: Option<u64>,
    /// Topics by name.
    pub topics: Vec<TopicStat>,
    /// How many groups there are.
    pub groups: u64,
    /// How many subscriptions to patterns and lists there are.
    pub subscriptions: u64,
    /// Segments in the order of the log.
    pub segments: Vec<SegmentStat>,
    /// All together.
    pub totals: Totals,
}

/// A share of a whole.
pub mod f64_share {
    use serde::{Serialize, Serializer};

    /// In thousandths, so that it can be compared; written as a number from 0 to 1.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Share(pub u32);

    impl Share {
        /// Of nothing, all is left.
        pub fn of(part: u64, whole: u64) -> Self {
            Self((u128::from(part) * 1000).checked_div(u128::from(whole)).unwrap_or(1000) as u32)
        }
    }

    impl Serialize for Share {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.serialize_f64(f64::from(self.0) / 1000.0)
        }
    }
}
use f64_share::Share;

/// Reads the figures.
pub(super) fn stat(disk: &dyn Disk) -> Result<Stat, DoctorError> {
    let mut tries = 0;
    loop {
        let in_use = match disk.lock() {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => return Err(DoctorError::Io { what: format!("locking {}", disk.place()), error }),
        };
        match try_stat(disk, in_use) {
            Err(DoctorError::Io { error, .. })
                if error.kind() == io::ErrorKind::NotFound && tries < TRIES =>
            {
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// Entries of a segment, by topic.
enum Entries {
    Sealed(Box<Sidecar>),
    Open(BTreeMap<u32, Vec<Entry>>),
}

impl Entries {
    fn topics(&self) -> Vec<u32> {
        match self {
            Self::Sealed(sidecar) => sidecar.topics().iter().map(|part| part.number).collect(),
            Self::Open(topics) => topics.keys().copied().collect(),
        }
    }

    fn records(&self) -> u64 {
        match self {
            Self::Sealed(sidecar) => sidecar.len() as u64,
            Self::Open(topics) => topics.values().map(|entries| entries.len() as u64).sum(),
        }
    }

    /// Calls back with every entry of a topic until told to stop; false if the sidecar is bad.
    fn each(&self, topic: u32, look: &mut dyn FnMut(&Entry) -> bool) -> bool {
        match self {
            Self::Open(topics) => {
                let _ = topics.get(&topic).into_iter().flatten().all(look);
                true
            }
            Self::Sealed(sidecar) => {
                let mut from = 0;
                loop {
                    let Ok(entries) = sidecar.entries(topic, from, CHUNK, Wait::Yes) else { return false };
                    let Some(last) = entries.last() else { return true };
                    from = last.seq + 1;
                    if !entries.iter().all(&mut *look) {
                        return true;
                    }
                }
            }
        }
    }
}

fn try_stat(disk: &dyn Disk, in_use: bool) -> Result<Stat, DoctorError> {
    let place = disk.place();
    let during = |error: io::Error| DoctorError::Io { what: format!("reading {place}"), error };
    let files = Files::read(disk)?;
    if files.needs_manifest() {
        return Err(DoctorError::Refused(format!(
            "no copy of the manifest of {place} can be read: `event-hub doctor` says what can be done"
        )));
    }
    let manifest = files.manifest();
    let pieces = match manifest {
        Some(manifest) => Pieces::known(disk, &files, manifest).map_err(during)?,
        None => Pieces::guessed(disk, &files)?,
    };
    let (mut model, _) = Model::new(0, manifest);
    model.deep = false;
    let mut read = Vec::new();
    for (order, piece) in pieces.list.iter().enumerate() {
        let read_now = match sealed(disk, piece) {
            // Opened again when its turn comes: not all of them are open at once.
            Some(_) => None,
            None => Some(open_entries(disk, piece, order, &mut model).map_err(during)?),
        };
        read.push((piece, read_now));
    }
    let mut first: BTreeMap<u32, (u64, Option<u64>)> = BTreeMap::new();
    let mut segments = Vec::new();
    for (piece, read_now) in read {
        let file = disk.open(&piece.id.to_string()).map_err(during)?;
        let entries = read_now.or_else(|| sealed(disk, piece));
        let (entries, used) = entries.ok_or_else(|| during(io::ErrorKind::NotFound.into()))?;
        let mut live = 0;
        for number in entries.topics() {
            let Some(topic) = model.catalog.numbered(number) else { continue };
            let known = first.contains_key(&number);
            let mut at = None;
            let whole = entries.each(number, &mut |entry| {
                if serves(&topic, entry) {
                    live += 1;
                    at.get_or_insert(*entry);
                }
                true
            });
            if let Some(entry) = at.filter(|_| !known && whole) {
                let committed = committed(&*file, piece.nonce, entry).map_err(during)?;
                first.insert(number, (entry.seq, committed));
            }
        }
        segments.push(SegmentStat {
            name: piece.id.to_string(),
            size: file.size().map_err(during)?,
            used,
            records: entries.records(),
            live,
            live_share: Share::of(live, entries.records()),
            sidecar: matches!(entries, Entries::Sealed(_)),
            damaged: piece.flagged,
        });
    }
    let mut topics: Vec<TopicStat> = Vec::new();
    for topic in model.catalog.topics() {
        let meta = &topic.state.lock().meta;
        let first = first.get(&topic.number);
        topics.push(TopicStat {
            name: topic.name.to_string(),
            events: meta.events,
            bytes: meta.bytes,
            first_seq: first.map(|(seq, _)| *seq),
            last_seq: meta.last,
            floor: meta.floor,
            oldest: first.and_then(|(_, committed)| *committed),
            newest: Some(meta.last_committed).filter(|time| *time > 0),
        });
    }
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    let size =
        |names: &mut dyn Iterator<Item = String>| names.map(|name| Files::size(disk, &name)).sum::<u64>();
    let (records, live) = segments
        .iter()
        .fold((0, 0), |(records, live), segment| (records + segment.records, live + segment.live));
    let totals = Totals {
        events: topics.iter().map(|topic| topic.events).sum(),
        bytes: topics.iter().map(|topic| topic.bytes).sum(),
        on_disk: size(&mut files.names.iter().cloned()),
        segments: size(&mut files.segments.iter().map(ToString::to_string)),
        sidecars: size(&mut files.sidecars.iter().map(|id| id.sidecar())),
        prepared: size(&mut files.prepared.iter().cloned()),
        quarantine_files: files.quarantine.len() as u64,
        quarantine: size(&mut files.quarantine.iter().cloned()),
        records,
        live,
        live_share: Share::of(live, records),
    };
    let groups = model.catalog.groups.lock();
    Ok(Stat {
        directory: place,
        in_use,
        manifest: manifest.map(|manifest| manifest.generation),
        topics,
        groups: groups.groups.len() as u64,
        subscriptions: groups.subscriptions.len() as u64,
        segments,
        totals,
    })
}

/// What the sidecar of a segment says, if there is a good one, and how much of the segment it describes.
fn sealed(disk: &dyn Disk, piece: &Piece) -> Option<(Entries, u64)> {
    let end = piece.end.filter(|_| piece.role == Role::Covered)?;
    let file = disk.open(&piece.id.sidecar()).ok()?;
    let sidecar = Sidecar::open(file, piece.nonce, end).ok()?;
    sidecar.verify(Wait::Yes).ok()?;
    Some((Entries::Sealed(Box::new(sidecar)), end))
}

/// Reads a segment that no sidecar describes.
fn open_entries(
    disk: &dyn Disk,
    piece: &Piece,
    order: usize,
    model: &mut Model,
) -> io::Result<(Entries, u64)> {
    let read = read_piece(disk, piece, order, model)?;
    let entries = read.index.topics.into_iter().map(|(number, topic)| (number, topic.entries)).collect();
    Ok((Entries::Open(entries), read.outcome.end))
}

fn serves(topic: &Arc<Topic>, entry: &Entry) -> bool {
    !entry.flags.has(Flags::PAST) && Model::serves(topic, entry.seq)
}

/// The commit time of a record.
fn committed(file: &dyn DiskFile, nonce: u64, entry: Entry) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; (entry.len as usize).clamp(HEADER, MAX)];
    let read = file.read_at(&mut bytes, u64::from(entry.offset), Wait::Yes)?;
    let frame = Seal::new(nonce).read(&bytes[..read]).ok();
    Ok(frame.and_then(|frame| match Content::read(frame.kind, frame.content) {
        Ok(Content::Event(_, committed, _)) => Some(committed),
        _ => None,
    }))
}
