//! Opening a directory: what is there, what of it counts, and where the log goes on.

use crate::catalog::Topic;
use crate::disk::salvage::is_unreadable;
use crate::disk::{Disk, DiskFile, Wait, read_all};
use crate::format::header::{self, Header, VERSION};
use crate::index::SegmentIndex;
use crate::losses::Losses;
use crate::manifest::{self, Copy, Manifest, write_file};
use crate::options::Options;
use crate::quarantine;
use crate::rebuild;
use crate::reserve;
use crate::rewrite::extent;
use crate::scan::Damage;
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Shared, explain};
use crate::sidecar::{Sidecar, SidecarError};
use crate::writer::random;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The file that says what the directory is.
pub const FORMAT: &str = "format";
const TITLE: &str = "event-hub embedded store";

/// Why a directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has it.
    #[error("{0} is in use by another process; a data directory has one hub at a time")]
    Locked(String),
    /// It was written by a later version.
    #[error(
        "{place} has format {found}, this program knows format {VERSION}; use the version that wrote it, or a later one"
    )]
    Newer {
        /// Where.
        place: String,
        /// The format found.
        found: u32,
    },
    /// It is not what a store leaves behind.
    #[error("{0}")]
    Damaged(String),
    /// The disk.
    #[error("{what}: {}", explain(.error))]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        error: io::Error,
    },
}

/// An opened directory.
pub struct Recovered {
    /// Everything, in memory.
    pub shared: Arc<Shared>,
    /// Segments that are full and have no sidecar, and everything as it was at their end.
    pub sealed: Option<(Vec<Arc<Segment>>, Manifest)>,
    /// Topics that the last segment has named.
    pub named: HashSet<u32, RandomState>,
    /// Topics whose numbering goes on higher up.
    pub jumps: Vec<(Arc<Topic>, u64)>,
    /// Of the manifest.
    pub generation: u64,
    /// The last segment that it covers.
    pub upto: u64,
}

/// Opens a directory.
pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Recovered, OpenError> {
    let place = disk.place();
    let lock = disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked(place.clone()),
        _ => OpenError::Io { what: format!("locking {place}"), error },
    })?;
    let during = |error: io::Error| OpenError::Io { what: format!("opening {place}"), error };
    // A killed process may have left names that are not durable yet; what goes into these files has to be.
    disk.sync_names().map_err(during)?;
    let names = disk.list().map_err(during)?;
    let seed = read_format(&*disk, &names)?;
    for name in names.iter().filter(|name| is_unfinished(name)) {
        match disk.remove(name) {
            // What a first start left of the file above has been written anew.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(during(error)),
            _ => {}
        }
    }
    let Found { newest, bad, lags } = read_manifest(&*disk, &names)?;
    let known = newest.is_some();
    let manifest = newest.unwrap_or_else(|| Manifest { generation: 1, seed, ..Manifest::default() });
    let shared = Arc::new(Shared::new(disk, options, manifest.seed, lock));
    find_reserve(&shared, &names).map_err(during)?;
    if seed != manifest.seed {
        let what = "its seed is another one than the manifest's, which has a checksum and is believed";
        shared.health.found(format!("{place}/{FORMAT}: {what}; no record is missing"), 1);
    }
    for (name, what) in &bad {
        shared.health.found(keep_bad_copy(&*shared.disk, name, what).map_err(during)?, 1);
    }
    if lags {
        // Before anything is removed that the older copy knows, or the newer one alone.
        manifest.write(&*shared.disk).map_err(during)?;
    }
    for name in names.iter().filter(|name| quarantine::segment(name).is_some()) {
        let what =
            "a damaged segment, found earlier; what it has is not served: `event-hub doctor` says more";
        shared.health.found(format!("{place}/{name}: {what}"), 1);
    }
    let mut recovery = Recovery {
        shared: shared.clone(),
        boot: manifest.boot,
        jumps: Vec::new(),
        found: Vec::new(),
        absent: Vec::new(),
    };
    recovery.load(&manifest).map_err(during)?;
    recovery.remove_leftovers(&names, &manifest).map_err(during)?;
    let (sealed, named) = recovery.replay(&names, &manifest, known)?;
    recovery.report();
    if !known {
        // From here on the first segment is known to have been there.
        manifest.write(&*shared.disk).map_err(during)?;
    }
    let Manifest { generation, upto, .. } = manifest;
    Ok(Recovered { shared, sealed, named, jumps: recovery.jumps, generation, upto })
}

/// Finds out whether there is a reserve of the right size. One that is not wanted any more goes.
fn find_reserve(shared: &Shared, names: &[String]) -> io::Result<()> {
    if !names.iter().any(|name| name == reserve::NAME) {
        return Ok(());
    }
    let wanted = shared.options.disk_reserve;
    if wanted == 0 {
        return reserve::give_up(&*shared.disk).map(drop);
    }
    let size = shared.disk.open(reserve::NAME)?.size()?;
    shared.has_reserve.store(size == wanted, Relaxed);
    Ok(())
}

/// Whether a file is one of ours that was not finished.
fn is_unfinished(name: &str) -> bool {
    let ours = |name: &str| {
        let segment = name.strip_suffix(".idx").unwrap_or(name);
        name == FORMAT
            || name == reserve::NAME
            || manifest::COPIES.contains(&name)
            || SegmentId::parse(segment).is_some()
    };
    match (name.strip_suffix(".tmp"), name.strip_suffix(".new")) {
        (Some(name), _) => ours(name) || name.starts_with("quarantine/"),
        (_, Some(name)) => matches!(SegmentId::parse(name), Some(SegmentId::Log(_))),
        _ => false,
    }
}

/// Puts a copy of the manifest that cannot be read where it is kept; answers what to say about it.
fn keep_bad_copy(disk: &dyn Disk, name: &str, what: &str) -> io::Result<String> {
    let place = disk.place();
    let what = format!("{place}/{name} at byte 0: {what}; the other copy is whole: no record is missing");
    match disk.open(name) {
        Ok(file) => {
            let kept = match read_all(&*file) {
                Ok(bytes) => quarantine::copy(disk, name, &bytes)?,
                // Nothing can be copied: the file itself goes there.
                Err(error) if is_unreadable(&error) => quarantine::take(disk, name)?,
                Err(error) => return Err(error),
            };
            Ok(format!("{what}, and the bad one is {kept}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(what),
        Err(error) => Err(error),
    }
}

/// Checks, or writes, the file that says what the directory is; answers the seed of the ids' hashes.
fn read_format(disk: &dyn Disk, names: &[String]) -> Result<u64, OpenError> {
    let place = disk.place();
    let during = |error: io::Error| OpenError::Io { what: format!("reading {place}/{FORMAT}"), error };
    if !names.iter().any(|name| name == FORMAT) {
        if let Some(name) =
            names.iter().find(|name| SegmentId::parse(name).is_some() || name.starts_with("manifest."))
        {
            return Err(OpenError::Damaged(format!(
                "{place} has {name} but no file {FORMAT}: `event-hub doctor` says what can be done"
            )));
        }
        let seed = random();
        write_file(disk, FORMAT, format_text(seed).as_bytes()).map_err(during)?;
        return Ok(seed);
    }
    let bytes = disk.open(FORMAT).and_then(|file| read_all(&*file)).map_err(during)?;
    match parse_format(&bytes) {
        Ok(seed) => Ok(seed),
        Err(BadFormat::Newer(found)) => Err(OpenError::Newer { place, found }),
        Err(BadFormat::Wrong(what)) => Err(OpenError::Damaged(format!(
            "{place}/{FORMAT} {what}: `event-hub doctor` says what can be done"
        ))),
    }
}

/// What is wrong with the file that says what the directory is.
pub enum BadFormat {
    /// A later version wrote it.
    Newer(u32),
    /// It is not what a store writes.
    Wrong(&'static str),
}

/// Reads the file that says what the directory is: the seed of the ids' hashes.
pub fn parse_format(bytes: &[u8]) -> Result<u64, BadFormat> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let (title, format, seed) = (lines.next(), lines.next(), lines.next());
    let format = format.and_then(|line| line.strip_prefix("format ")).and_then(|number| number.parse().ok());
    match (title, format) {
        (Some(TITLE), Some(found)) if found > VERSION => return Err(BadFormat::Newer(found)),
        (Some(TITLE), Some(VERSION)) => {}
        _ => return Err(BadFormat::Wrong("is not what an event-hub store writes")),
    }
    let seed = seed.and_then(|line| line.strip_prefix("seed "));
    seed.and_then(|seed| u64::from_str_radix(seed, 16).ok()).ok_or(BadFormat::Wrong("has no seed"))
}

/// The text of the file that says what the directory is.
pub fn format_text(seed: u64) -> String {
    format!("{TITLE}\nformat {VERSION}\nseed {seed:016x}\n")
}

/// The copies of the manifest, as found.
struct Found {
    /// The newest that can be read.
    newest: Option<Manifest>,
    /// What is wrong with copies.
    bad: Vec<(&'static str, String)>,
    /// A copy is not the newest: the power failed when one was written and the other was not, or it is bad.
    lags: bool,
}

fn read_manifest(disk: &dyn Disk, names: &[String]) -> Result<Found, OpenError> {
    let place = disk.place();
    let mut newest: Option<Manifest> = None;
    let (mut bad, mut missing) = (Vec::new(), Vec::new());
    let mut generations = Vec::new();
    for name in manifest::COPIES {
        let copy = manifest::read_copy(disk, name)
            .map_err(|error| OpenError::Io { what: format!("reading {place}/{name}"), error })?;
        match copy {
            Copy::Missing => missing.push(name),
            Copy::Bad(what) => bad.push((name, what)),
            Copy::Good(copy) => {
                generations.push(copy.generation);
                if newest.as_ref().is_none_or(|newest| newest.generation < copy.generation) {
                    newest = Some(*copy);
                }
            }
        }
    }
    let doctor = "`event-hub doctor` says what can be done";
    match &newest {
        // The first one is written one copy after the other.
        Some(newest) if newest.generation > 1 => {
            bad.extend(missing.into_iter().map(|name| (name, "it is missing".to_string())));
        }
        Some(_) => {}
        None if !bad.is_empty() => {
            let bad: Vec<String> = bad.iter().map(|(name, what)| format!("{place}/{name}: {what}")).collect();
            let bad = bad.join("; ");
            return Err(OpenError::Damaged(format!("no copy of the manifest can be read ({bad}): {doctor}")));
        }
        None => {
            // Before there is a manifest there is one segment, at most.
            let stray = names.iter().find(|name| {
                SegmentId::parse(name).is_some_and(|id| id != SegmentId::Log(1)) && !is_unfinished(name)
            });
            if let Some(stray) = stray {
                let both = manifest::COPIES.join(" and ");
                return Err(OpenError::Damaged(format!(
                    "{place} has {stray}, but {both} are missing: {doctor}"
                )));
            }
        }
    }
    let current = |newest: &Manifest| generations == vec![newest.generation; manifest::COPIES.len()];
    let lags = newest.as_ref().is_some_and(|newest| !current(newest));
    Ok(Found { newest, bad, lags })
}

/// Fills a store.
pub struct Recovery {
    /// The store.
    pub shared: Arc<Shared>,
    /// The machine's life in which the store was opened before.
    pub boot: u64,
    /// Topics whose numbering goes on higher up.
    pub jumps: Vec<(Arc<Topic>, u64)>,
    /// Segments of which parts could not be read.
    found: Vec<(Arc<Segment>, SegmentIndex, Vec<Damage>)>,
    /// Segments whose files are gone.
    absent: Vec<Arc<Segment>>,
}

impl Recovery {
    /// Takes over what the manifest says.
    fn load(&mut self, manifest: &Manifest) -> io::Result<()> {
        let shared = self.shared.clone();
        shared.next_kept.store(manifest.next_kept.max(1), Relaxed);
        for what in shared.catalog.load(manifest) {
            shared.health.found(format!("{}/{}: {what}", shared.disk.place(), manifest::COPIES[0]), 1);
        }
        for row in &manifest.segments {
            let name = row.id.to_string();
            let file = match shared.files.file(&name) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let segment = self.absent(row)?;
                    self.absent.push(segment);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let segment = Arc::new(Segment::new(row.id, file, row.nonce, row.end, Shared::empty_index()));
            segment.damaged.store(row.damaged, Relaxed);
            self.check_header(&segment)?;
            let (index, rebuilt) = match self.sidecar(&segment)? {
                Some(sidecar) => (Index::Sealed(sidecar), None),
                None => {
                    let (index, damage) = rebuild::read(&shared, &segment, row.end)?;
                    let rebuilt = (!damage.is_empty()).then(|| (index.clone(), damage));
                    (Index::Open(index), rebuilt)
                }
            };
            *segment.index.write() = index;
            let damaged = segment.damaged.load(Relaxed) || segment.file.size()? < row.end;
            let rebuilt = match rebuilt {
                // Read as a whole, to say what it has cost.
                None if damaged => Some(rebuild::read(&shared, &segment, row.end)?),
                rebuilt => rebuilt,
            };
            self.found.extend(rebuilt.map(|(index, damage)| (segment.clone(), index, damage)));
            self.enlist(segment);
        }
        Ok(())
    }

    /// A segment whose file is gone. It stays part of the log: it may come back.
    fn absent(&self, row: &manifest::Row) -> io::Result<Arc<Segment>> {
        let shared = &self.shared;
        let sidecar = match shared.files.file(&row.id.sidecar()) {
            Ok(file) => {
                Sidecar::open(file, row.nonce, row.end).ok().filter(|it| it.verify(Wait::Yes).is_ok())
            }
            Err(_) => None,
        };
        let index = sidecar.map_or_else(Shared::empty_index, Index::Sealed);
        let segment = Arc::new(Segment::absent(row.id, row.nonce, row.end, index));
        let lost = Losses::indexed(shared, &segment, std::slice::from_ref(&(0..row.end)));
        let lost = lost.into_iter().next().unwrap_or_default();
        if !lost.is_empty() {
            let what =
                format!("{} is missing; its sidecar tells what it had: {lost}", shared.place(&segment, 0));
            shared.health.found(what, lost.count());
        }
        self.enlist(segment.clone());
        for topic in segment.topics().into_iter().filter_map(|number| shared.catalog.numbered(number)) {
            // Known to be gone: nobody has to find out.
            let entries = segment.entries(topic.number, 0, usize::MAX, Wait::Yes).unwrap_or_default();
            topic.state.lock().lost.extend(entries.iter().map(|entry| entry.seq));
        }
        Ok(segment)
    }

    /// Says what is wrong with segments, now that all of them are known.
    fn report(&self) {
        let shared = &self.shared;
        for (segment, index, damage) in &self.found {
            rebuild::report(shared, segment, index, damage);
        }
        for segment in self.absent.iter().filter(|segment| segment.topics().is_empty()) {
            let lost = rebuild::missing(shared, segment.id);
            let what = match lost.is_empty() {
                true => "no record is missing".to_string(),
                false => format!("its neighbours leave out {lost}, as far as it was not cleaned away"),
            };
            let what = format!("{} is missing, and so is its sidecar; {what}", shared.place(segment, 0));
            shared.health.found(what, lost.count().max(1));
        }
    }

    fn check_header(&self, segment: &Segment) -> io::Result<()> {
        let wrong = match read_header(&*segment.file)? {
            (Some(header), None) if header.nonce == segment.nonce => return Ok(()),
            (Some(_), None) => "it is another one than the manifest knows".to_string(),
            (_, what) => what.unwrap_or_default(),
        };
        segment.damaged.store(true, Relaxed);
        let place = self.shared.place(segment, 0);
        self.shared.health.found(format!("{place}: {wrong}; the manifest knows what it said"), 1);
        Ok(())
    }

    /// The sidecar of a segment, unless it has to be made anew.
    fn sidecar(&self, segment: &Segment) -> io::Result<Option<Sidecar>> {
        let name = segment.id.sidecar();
        let opened = match self.shared.files.file(&name) {
            Ok(file) => Sidecar::open(file, segment.nonce, segment.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SidecarError::Io(error)),
            Err(error) => return Err(error),
        };
        match opened {
            Ok(sidecar) => return Ok(Some(sidecar)),
            Err(SidecarError::Io(error)) if is_unreadable(&error) => {
                tracing::warn!(name, %error, "a sidecar cannot be read, it is made again");
            }
            Err(SidecarError::Io(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(SidecarError::Io(_)) => tracing::info!(name, "a sidecar is missing, it is made again"),
            Err(SidecarError::Bad(what)) => tracing::warn!(name, %what, "a sidecar is bad, it is made again"),
        }
        Ok(None)
    }

    /// Makes a segment part of the log, and its topics know of it.
    fn enlist(&self, segment: Arc<Segment>) {
        for number in segment.topics() {
            match (self.shared.catalog.numbered(number), extent(&segment, number)) {
                (Some(topic), Some((first, last))) => topic.state.lock().extend(&segment, first, last),
                _ => {
                    segment.damaged.store(true, Relaxed);
                    let what = format!("{}: topic {number} is unknown", self.shared.place(&segment, 0));
                    self.shared.health.found(what, 1);
                }
            }
        }
        self.shared.push_segment(segment);
    }

    /// Files of a rewrite that came to its end or did not, and that the manifest does not know. If others are missing
    /// that it does know, it may be an old one, and these may be all there is: then they are kept.
    fn remove_leftovers(&self, names: &[String], manifest: &Manifest) -> io::Result<()> {
        let shared = &self.shared;
        let rows: HashSet<SegmentId, RandomState> = manifest.segments.iter().map(|row| row.id).collect();
        let (mut newer, mut strange) = (Vec::new(), Vec::new());
        for name in names {
            let segment = name.strip_suffix(".idx").unwrap_or(name);
            match SegmentId::parse(segment) {
                Some(SegmentId::Log(number)) if number > manifest.upto => newer.push(number),
                Some(id) if !rows.contains(&id) => strange.push(name),
                _ => {}
            }
        }
        newer.sort_unstable();
        newer.dedup();
        let complete =
            self.absent.is_empty() && newer.iter().zip(manifest.upto + 1..).all(|(is, to_be)| *is == to_be);
        for name in strange {
            if complete {
                tracing::info!(name, "removing what a rewrite has left over");
                shared.disk.remove(name)?;
                continue;
            }
            let kept = quarantine::take_as(&*shared.disk, name, &format!("{name}.unknown"))?;
            let what = "the manifest does not know it, and knows others that are missing";
            shared.health.found(format!("{}/{name}: {what}; it was moved to {kept}", shared.disk.place()), 1);
        }
        Ok(())
    }
}

/// The header of a segment, and what is wrong with it. One flipped bit is seen through.
pub fn read_header(file: &dyn DiskFile) -> io::Result<(Option<Header>, Option<String>)> {
    let mut bytes = [0; header::LEN];
    let read = file.read_at(&mut bytes, 0, Wait::Yes)?;
    Ok(match Header::decode(&bytes[..read]) {
        Ok(header) => (Some(header), None),
        Err(error) => match Header::decode_flipped(&bytes[..read]) {
            Some((header, bit)) => {
                (Some(header), Some(format!("bit {} of byte {} of its header is flipped", bit % 8, bit / 8)))
            }
            None => (None, Some(error.to_string())),
        },
    })
}
