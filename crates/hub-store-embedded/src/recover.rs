//! Opening a directory: what is there, what of it counts, and where the log goes on.

use crate::catalog::Topic;
use crate::disk::{Disk, DiskFile, Wait, read_all};
use crate::format::entry::{Entry as Content, event};
use crate::format::header::{self, Header, VERSION};
use crate::index::SegmentIndex;
use crate::keeper;
use crate::manifest::{self, Copy, Manifest, write_file};
use crate::options::Options;
use crate::rebuild;
use crate::rewrite::extent;
use crate::scan::{At, Damage, Outcome, scan};
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Shared, Tail, explain};
use crate::sidecar::{Sidecar, SidecarError};
use crate::writer::{begin_segment, random};
use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use hub_proto::TopicName;
use std::collections::BTreeMap;
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
    for name in names.iter().filter(|name| name.ends_with(".tmp") || name.ends_with(".new")) {
        match disk.remove(name) {
            // What a first start left of the file above has been written anew.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(during(error)),
            _ => {}
        }
    }
    let (manifest, bad) = read_manifest(&*disk)?;
    let shared = Arc::new(Shared::new(disk, options, seed, lock));
    for what in &bad {
        shared.health.found(what.clone(), 0);
    }
    let mut recovery = Recovery { shared: shared.clone(), boot: manifest.boot, jumps: Vec::new() };
    recovery.load(&manifest).map_err(during)?;
    if !bad.is_empty() {
        manifest.write(&*shared.disk).map_err(during)?;
    }
    recovery.remove_leftovers(&names, &manifest).map_err(during)?;
    let (sealed, named) = recovery.replay(&names, &manifest)?;
    let generation = manifest.generation;
    Ok(Recovered { shared, sealed, named, jumps: recovery.jumps, generation })
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
        let text = format!("{TITLE}\nformat {VERSION}\nseed {seed:016x}\n");
        write_file(disk, FORMAT, text.as_bytes()).map_err(during)?;
        return Ok(seed);
    }
    let bytes = disk.open(FORMAT).and_then(|file| read_all(&*file)).map_err(during)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let (title, format, seed) = (lines.next(), lines.next(), lines.next());
    let format = format.and_then(|line| line.strip_prefix("format ")).and_then(|number| number.parse().ok());
    match (title, format) {
        (Some(TITLE), Some(found)) if found > VERSION => return Err(OpenError::Newer { place, found }),
        (Some(TITLE), Some(VERSION)) => {}
        _ => {
            return Err(OpenError::Damaged(format!(
                "{place}/{FORMAT} is not what an event-hub store writes"
            )));
        }
    }
    let seed = seed.and_then(|line| line.strip_prefix("seed "));
    seed.and_then(|seed| u64::from_str_radix(seed, 16).ok())
        .ok_or_else(|| OpenError::Damaged(format!("{place}/{FORMAT} has no seed")))
}

/// The newest manifest that can be read, and what is wrong with copies.
fn read_manifest(disk: &dyn Disk) -> Result<(Manifest, Vec<String>), OpenError> {
    let place = disk.place();
    let (mut newest, mut bad): (Option<Manifest>, Vec<String>) = (None, Vec::new());
    for name in manifest::COPIES {
        let copy = manifest::read_copy(disk, name)
            .map_err(|error| OpenError::Io { what: format!("reading {place}/{name}"), error })?;
        match copy {
            Copy::Missing => {}
            Copy::Bad(what) => bad.push(format!("{place}/{name}: {what}")),
            Copy::Good(copy) if newest.as_ref().is_none_or(|newest| newest.generation < copy.generation) => {
                newest = Some(*copy);
            }
            Copy::Good(_) => {}
        }
    }
    if newest.is_none() && !bad.is_empty() {
        return Err(OpenError::Damaged(format!(
            "no copy of the manifest can be read ({}): `event-hub doctor` says what can be done",
            bad.join("; ")
        )));
    }
    Ok((newest.unwrap_or_default(), bad))
}

struct Recovery {
    shared: Arc<Shared>,
    /// The machine's life in which the store was opened before.
    boot: u64,
    jumps: Vec<(Arc<Topic>, u64)>,
}

impl Recovery {
    /// Takes over what the manifest says.
    fn load(&mut self, manifest: &Manifest) -> io::Result<()> {
        let shared = self.shared.clone();
        shared.next_kept.store(manifest.next_kept.max(1), Relaxed);
        for (number, name, meta) in &manifest.topics {
            if let Err(what) = shared.catalog.add(*number, name, meta.clone()) {
                shared.health.found(format!("{}: the manifest: {what}", shared.disk.place()), 0);
            }
        }
        {
            let mut groups = shared.catalog.groups.lock();
            for group in &manifest.groups {
                let at = (group.record.topic.clone(), group.record.name.clone());
                groups.groups.insert(at, group.clone());
            }
            for record in &manifest.subscriptions {
                groups.subscriptions.insert((record.label.clone(), record.group.clone()), record.clone());
            }
        }
        for row in &manifest.segments {
            let name = row.id.to_string();
            let file = match shared.disk.open(&name) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let what =
                        format!("{}/{name} is missing: its records cannot be read", shared.disk.place());
                    shared.health.found(what, 1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.check_header(&*file, row.id, row.nonce)?;
            let segment = Arc::new(Segment::new(row.id, file, row.nonce, row.end, Shared::empty_index()));
            segment.damaged.store(row.damaged, Relaxed);
            let index = self.sidecar(&segment)?;
            *segment.index.write() = index;
            self.enlist(segment);
        }
        Ok(())
    }

    fn check_header(&self, file: &dyn DiskFile, id: SegmentId, nonce: u64) -> io::Result<()> {
        let wrong = match read_header(file)? {
            Ok(header) if header.nonce == nonce => return Ok(()),
            Ok(_) => "it is another one than the manifest knows".to_string(),
            Err(what) => what,
        };
        self.shared.health.found(format!("{}/{id}: {wrong}", self.shared.disk.place()), 0);
        Ok(())
    }

    /// The sidecar of a segment, or its index made anew.
    fn sidecar(&self, segment: &Segment) -> io::Result<Index> {
        let name = segment.id.sidecar();
        let opened = match self.shared.disk.open(&name) {
            Ok(file) => Sidecar::open(file, segment.nonce, segment.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(SidecarError::Io(error)),
            Err(error) => return Err(error),
        };
        match opened {
            Ok(sidecar) => return Ok(Index::Sealed(sidecar)),
            Err(SidecarError::Io(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(SidecarError::Io(_)) => tracing::info!(name, "a sidecar is missing, it is made again"),
            Err(SidecarError::Bad(what)) => tracing::warn!(name, %what, "a sidecar is bad, it is made again"),
        }
        Ok(Index::Open(rebuild::index(&self.shared, segment)?))
    }

    /// Makes a segment part of the log, and its topics know of it.
    fn enlist(&self, segment: Arc<Segment>) {
        let topics: Vec<u32> = match &*segment.index.read() {
            Index::Open(index) => index.topics.keys().copied().collect(),
            Index::Sealed(sidecar) => sidecar.topics().iter().map(|part| part.number).collect(),
        };
        for number in topics {
            match (self.shared.catalog.numbered(number), extent(&segment, number)) {
                (Some(topic), Some((first, last))) => topic.state.lock().extend(&segment, first, last),
                _ => self.shared.health.found(
                    format!("{}/{}: topic {number} is unknown", self.shared.disk.place(), segment.id),
                    1,
                ),
            }
        }
        self.shared.push_segment(segment);
    }

    /// Files of a rewrite that came to its end or did not, and that the manifest does not know.
    fn remove_leftovers(&self, names: &[String], manifest: &Manifest) -> io::Result<()> {
        for name in names {
            let segment = name.strip_suffix(".idx").unwrap_or(name);
            let Some(id) = SegmentId::parse(segment) else { continue };
            let known = manifest.segments.iter().any(|row| row.id == id);
            let newer = matches!(id, SegmentId::Log(number) if number > manifest.upto);
            if !known && !newer {
                tracing::info!(name, "removing what a rewrite has left over");
                self.shared.disk.remove(name)?;
            }
        }
        Ok(())
    }

    /// Reads the segments that the manifest does not cover, and finds the end of the log.
    #[expect(clippy::type_complexity, reason = "two answers, used once")]
    fn replay(
        &mut self,
        names: &[String],
        manifest: &Manifest,
    ) -> Result<(Option<(Vec<Arc<Segment>>, Manifest)>, HashSet<u32, RandomState>), OpenError> {
        let place = self.shared.disk.place();
        let during = |error: io::Error| OpenError::Io { what: format!("reading {place}"), error };
        let logs = self.logs(names, manifest).map_err(during)?;
        let (mut number, mut last_end) = (manifest.last_commit, 0);
        let (mut sealed, mut image) = (Vec::new(), None);
        let mut active = None;
        let (mut closed, mut expected) = (true, manifest.upto + 1);
        for (at, log) in logs.iter().enumerate() {
            if log.header.number != expected {
                let what =
                    format!("{place}: the segments {expected} to {} are missing", log.header.number - 1);
                self.shared.health.found(what, 1);
            }
            expected = log.header.number + 1;
            let end = logs.get(at + 1).map(|next| next.header.prev_end);
            let end = end.filter(|_| logs.get(at + 1).is_some_and(|next| next.header.number == expected));
            number = number.max(log.header.after_commit);
            let (segment, outcome, named) = self.fold(log, end, number).map_err(during)?;
            (number, last_end, closed) = (outcome.last.max(number), outcome.end, outcome.closed);
            if at + 1 < logs.len() {
                image = Some(self.shared.image(log.header.number, number));
                sealed.push(segment.clone());
            } else {
                self.cut(&segment, &outcome).map_err(during)?;
                active = Some((segment.clone(), named));
            }
            self.shared.push_segment(segment);
        }
        self.raise(closed);
        let (segment, named) = match active {
            Some(active) => active,
            None => {
                let bytes = self.shared.options.segment_bytes;
                let prepared = keeper::prepare(&self.shared, expected, bytes).map_err(during)?;
                let begun = begin_segment(&self.shared, prepared.file, expected, number, last_end);
                let segment = begun.map_err(during)?.segment;
                self.shared.push_segment(segment.clone());
                (segment, HashSet::default())
            }
        };
        let spare = self.shared.disk.open(&segment.id.to_string()).map_err(during)?;
        let end = segment.len();
        self.shared.set_tail(Tail::at(segment, spare, number, end));
        Ok((image.map(|image| (sealed, image)), named))
    }

    /// The log's files above the manifest, in order, with their headers.
    fn logs(&self, names: &[String], manifest: &Manifest) -> io::Result<Vec<Log>> {
        let above = |name: &String| match SegmentId::parse(name) {
            Some(SegmentId::Log(number)) if number > manifest.upto => Some(number),
            _ => None,
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(above).collect();
        numbers.sort_unstable();
        let mut logs = Vec::new();
        for (at, &number) in numbers.iter().enumerate() {
            let name = SegmentId::Log(number).to_string();
            let file = self.shared.disk.open(&name)?;
            match read_header(&*file)? {
                Ok(header) if header.number == number => logs.push(Log { header, file }),
                // Nothing is written to a segment before its header is durable.
                _ if at + 1 == numbers.len() && is_blank(&*file)? => {
                    drop(file);
                    self.shared.disk.remove(&name)?;
                }
                other => {
                    let what = other.err().unwrap_or_else(|| "its header has another number".into());
                    self.shared.disk.rename(&name, &format!("quarantine/{name}"))?;
                    self.shared.disk.sync_names()?;
                    let place = self.shared.disk.place();
                    let what = format!("{place}/{name}: {what}; it was moved to quarantine/{name}");
                    self.shared.health.found(what, 1);
                }
            }
        }
        Ok(logs)
    }

    /// Takes over what a segment says.
    fn fold(
        &mut self,
        log: &Log,
        end: Option<u64>,
        after: u64,
    ) -> io::Result<(Arc<Segment>, Outcome, HashSet<u32, RandomState>)> {
        let shared = self.shared.clone();
        let id = SegmentId::Log(log.header.number);
        let segment =
            Segment::new(id, log.file.clone(), log.header.nonce, header::LEN as u64, Shared::empty_index());
        let segment = Arc::new(segment);
        let mut fold = Fold {
            recovery: self,
            segment: &segment,
            index: SegmentIndex::default(),
            named: HashSet::default(),
        };
        let outcome = scan(&*segment.file, segment.seal, end, after, &mut |at| fold.frame(&at))?;
        let Fold { index, named, .. } = fold;
        segment.end.store(outcome.end, Relaxed);
        for Damage { bytes, what } in &outcome.damage {
            segment.damaged.store(true, Relaxed);
            let place = shared.place(&segment, bytes.start);
            shared.health.found(format!("{place}, {} bytes: {what}", bytes.end - bytes.start), 1);
        }
        if !outcome.damage.is_empty() && end.is_none() {
            // What was in there may have had the highest seqs of any topic: nobody gets them again.
            let bytes: u64 = outcome.damage.iter().map(|damage| damage.bytes.end - damage.bytes.start).sum();
            let lost = bytes / SMALLEST_EVENT + 1;
            for topic in shared.catalog.topics() {
                let last = topic.state.lock().meta.last + lost;
                self.jump(&topic, last);
            }
        }
        *segment.index.write() = Index::Open(index);
        Ok((segment, outcome, named))
    }

    fn jump(&mut self, topic: &Arc<Topic>, last: u64) {
        topic.state.lock().jump(last);
        self.jumps.push((topic.clone(), last));
    }

    /// Takes what was torn off out of the segment, so that it can be written to.
    fn cut(&self, segment: &Segment, outcome: &Outcome) -> io::Result<()> {
        let shared = &self.shared;
        if let Some(torn) = &outcome.torn {
            let mut bytes = vec![0; (torn.end - torn.start) as usize];
            let read = segment.file.read_at(&mut bytes, torn.start, Wait::Yes)?;
            let name = format!("quarantine/{}.torn-{}", segment.id, torn.start);
            if !shared.disk.list()?.contains(&name) {
                write_file(&*shared.disk, &name, &bytes[..read])?;
            }
            bytes.fill(0);
            segment.file.write_at(&bytes, torn.start)?;
            segment.file.sync()?;
            tracing::warn!(
                segment = %segment.id, at = torn.start, bytes = bytes.len(), name,
                "the last commit was cut short, nobody was told that it is safe: it is in quarantine"
            );
        }
        if outcome.synced_end < outcome.end {
            // After a killed process this may be in memory only, and after a failed sync no sync would write it: it is
            // handed out from here on, so it is written once more.
            let mut bytes = vec![0; (outcome.end - outcome.synced_end) as usize];
            let read = segment.file.read_at(&mut bytes, outcome.synced_end, Wait::Yes)?;
            segment.file.write_at(&bytes[..read], outcome.synced_end)?;
            segment.file.sync()?;
        }
        let size = segment.file.size()?;
        if size < shared.options.segment_bytes {
            segment.file.set_len(shared.options.segment_bytes)?;
            segment.file.sync()?;
        }
        Ok(())
    }

    /// After a power loss the numbering of relaxed topics goes on above whatever a reader can have seen.
    fn raise(&mut self, closed: bool) {
        let same_life = self.boot != 0 && self.boot == self.shared.boot;
        let lost_power = !closed && !same_life;
        // A disk that lies about its syncs can have lost more; who has settled an event has seen it.
        let mut seen: BTreeMap<TopicName, u64> = BTreeMap::new();
        for ((topic, _), group) in &self.shared.catalog.groups.lock().groups {
            let seen = seen.entry(topic.clone()).or_default();
            *seen = (*seen).max(group.state.high);
        }
        for topic in self.shared.catalog.topics() {
            let (last, reserved) = {
                let state = topic.state.lock();
                (state.meta.last, state.meta.reserved)
            };
            let seen = seen.get(&topic.name).copied().unwrap_or_default();
            let next = if lost_power { seen.max(reserved) } else { seen };
            if next > last {
                tracing::warn!(topic = %topic.name, last, next, "events were lost, their seqs are not given again");
                self.jump(&topic, next);
            }
        }
    }
}

/// Less than any event takes on disk.
const SMALLEST_EVENT: u64 = 100;

struct Log {
    header: Header,
    file: Arc<dyn DiskFile>,
}

fn read_header(file: &dyn DiskFile) -> io::Result<Result<Header, String>> {
    let mut bytes = [0; header::LEN];
    let read = file.read_at(&mut bytes, 0, Wait::Yes)?;
    Ok(Header::decode(&bytes[..read]).map_err(|error| error.to_string()))
}

/// Whether nothing but a header was ever written to a file.
fn is_blank(file: &dyn DiskFile) -> io::Result<bool> {
    let (size, mut at) = (file.size()?, header::LEN as u64);
    let mut bytes = vec![0; 1 << 20];
    while at < size {
        let read = file.read_at(&mut bytes, at, Wait::Yes)?;
        if read == 0 || bytes[..read].iter().any(|&byte| byte != 0) {
            return Ok(read == 0);
        }
        at += read as u64;
    }
    Ok(true)
}

/// Takes over the frames of one segment.
struct Fold<'a> {
    recovery: &'a mut Recovery,
    segment: &'a Arc<Segment>,
    index: SegmentIndex,
    named: HashSet<u32, RandomState>,
}

impl Fold<'_> {
    fn frame(&mut self, at: &At<'_>) {
        if let Err(what) = self.try_frame(at) {
            let shared = &self.recovery.shared;
            self.segment.damaged.store(true, Relaxed);
            shared.health.found(format!("{}: {what}", shared.place(self.segment, at.offset)), 1);
        }
    }

    fn try_frame(&mut self, at: &At<'_>) -> Result<(), String> {
        let shared = self.recovery.shared.clone();
        let topic = |number| {
            let topic = shared.catalog.numbered(number);
            topic.ok_or_else(|| format!("a frame of topic {number}, which is unknown"))
        };
        match &at.entry {
            Content::Topic(number, name) => {
                shared.catalog.take_number(*number);
                shared.catalog.add(*number, name, Default::default())?;
                self.named.insert(*number);
            }
            Content::Event(number, committed, json) => {
                shared.catalog.take_number(*number);
                let topic = topic(*number)?;
                let event = event(Bytes::copy_from_slice(json), *committed, &topic.name)
                    .map_err(|error| error.to_string())?;
                let mut state = topic.state.lock();
                let expected = state.meta.last + 1;
                if event.seq() < expected {
                    // Readers had seen it, a sync failed, and it was written again here: it was counted before.
                    if state.spans.last().is_some_and(|span| span.last >= event.seq()) {
                        return Err(format!("seq {} of {} comes again", event.seq(), topic.name));
                    }
                    state.extend(self.segment, event.seq(), event.seq());
                    drop(state);
                    return rebuild::add(&mut self.index, shared.seed, at, |_| Some(topic.clone()));
                }
                if event.seq() > expected {
                    let what =
                        format!("seqs {expected} to {} of {} are missing", event.seq() - 1, topic.name);
                    let place = shared.place(self.segment, at.offset);
                    shared.health.found(format!("{place}: before it, {what}"), event.seq() - expected);
                }
                let meta = &mut state.meta;
                (meta.last, meta.last_committed) = (event.seq(), *committed);
                meta.events += 1;
                meta.bytes += json.len() as u64;
                state.extend(self.segment, event.seq(), event.seq());
                drop(state);
                rebuild::add(&mut self.index, shared.seed, at, |_| Some(topic.clone()))?;
            }
            Content::Past(..) => return Err("what is left of a record, in a log".into()),
            Content::Cleaned(number, cleaned) => topic(*number)?.state.lock().clean(cleaned),
            Content::Reserved(number, upto) => {
                let topic = topic(*number)?;
                let mut state = topic.state.lock();
                state.meta.reserved = state.meta.reserved.max(*upto);
            }
            Content::Jump(number, last) => topic(*number)?.state.lock().jump(*last),
            Content::Opened(boot) => self.recovery.boot = *boot,
            Content::Record(record) => shared.catalog.groups.lock().apply(Clone::clone(record)),
            Content::Mark(_) => {}
        }
        Ok(())
    }
}
