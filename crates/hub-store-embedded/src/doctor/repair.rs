//! The repairs. Each begins with a copy of what it is going to change, made durable in `quarantine/`; if that fails,
//! nothing is changed. A repair that is broken off can be asked for again.

use super::cover::{self, MARGIN};
use super::examine::{Examination, Known, examine};
use super::files::Format;
use super::model::{Model, Role};
use super::pieces::{Absent, Piece, Read, read_piece};
use super::report::{Action, Report};
use super::{DoctorError, Progress, Repairs, flags};
use crate::disk::{Disk, DiskFile, Wait};
use crate::format::entry::{Entry, Mark};
use crate::format::frame::Seal;
use crate::format::header::{self, Header};
use crate::manifest::{COPIES, Copy, Manifest, Row, write_file};
use crate::recover::{FORMAT, format_text};
use crate::scan::{At, scan};
use crate::segment::SegmentId;
use crate::sidecar;
use crate::writer::random;
use hub_proto::TopicName;
use roaring::RoaringTreemap;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Bytes copied, or written, at a time.
const BUFFER: usize = 1 << 20;

pub(super) fn repair<'a>(
    disk: &'a dyn Disk,
    repairs: Repairs,
    stamp: &str,
    progress: &mut Progress<'_>,
) -> Result<(Vec<Action>, Report), DoctorError> {
    let mut exam = examine(disk, progress)?;
    let mut actions = Vec::new();
    let steps: [(bool, Repair<'a>); 4] = [
        (repairs.restore_format, Surgery::restore_format),
        (repairs.rebuild_manifest, Surgery::rebuild_manifest),
        (repairs.drop_damaged, Surgery::drop_damaged),
        (repairs.rebuild_sidecars, Surgery::rebuild_sidecars),
    ];
    for (_, step) in steps.into_iter().filter(|(wanted, _)| *wanted) {
        let mut surgery = Surgery { disk, stamp: stamp.to_string(), repair: "", copies: Vec::new() };
        let what = step(&mut surgery, &exam)?;
        let Surgery { repair, copies, .. } = surgery;
        let changed = what.is_ok();
        let what = what.unwrap_or_else(|why| why);
        actions.push(Action { repair, what, changed, copies });
        if changed {
            exam = examine(disk, progress)?;
        }
    }
    Ok((actions, exam.report))
}

type Repair<'a> = fn(&mut Surgery<'a>, &Examination) -> Step;

/// What was done, or why there was nothing to do.
type Step = Result<Result<String, String>, DoctorError>;

struct Surgery<'a> {
    disk: &'a dyn Disk,
    /// When, in the names of copies.
    stamp: String,
    repair: &'static str,
    copies: Vec<String>,
}

impl Surgery<'_> {
    fn during(&self, what: &str) -> impl Fn(io::Error) -> DoctorError + use<> {
        let what = format!("{what} in {}", self.disk.place());
        move |error| DoctorError::Io { what: what.clone(), error }
    }

    /// Copies a file to quarantine; nothing is changed if that fails.
    fn keep(&mut self, name: &str) -> Result<(), DoctorError> {
        let place = self.disk.place();
        let refuse = |error: io::Error| {
            DoctorError::Refused(format!(
                "{name} could not be copied to quarantine ({error}): {} changed nothing in {place}",
                self.repair
            ))
        };
        let copy = self.free(name).map_err(refuse)?;
        copy_file(self.disk, name, &copy).map_err(|error| {
            // Room for the next try.
            let _ = self.disk.remove(&copy);
            refuse(error)
        })?;
        self.copies.push(copy);
        Ok(())
    }

    fn restore_format(&mut self, exam: &Examination) -> Step {
        self.repair = flags::RESTORE_FORMAT;
        let known = exam.manifest.as_ref().map(|manifest| manifest.seed);
        match exam.files.format {
            Format::Seed(seed) if known.is_none_or(|known| known == seed) => {
                return Ok(Err("the format file is as it should be".into()));
            }
            Format::Missing => {}
            _ => self.keep(FORMAT)?,
        }
        let seed = known.unwrap_or_else(random);
        write_file(self.disk, FORMAT, format_text(seed).as_bytes())
            .map_err(self.during("writing the format file"))?;
        Ok(Ok(match known {
            Some(_) => "the format file was written anew, with the seed that is in the manifest".into(),
            None => "the format file was written anew, with a new seed".into(),
        }))
    }

    fn rebuild_manifest(&mut self, exam: &Examination) -> Step {
        self.repair = flags::REBUILD_MANIFEST;
        let good = |copy: &Copy| matches!(copy, Copy::Good(_));
        if let Some(manifest) = &exam.manifest {
            if exam.files.copies.iter().all(good) {
                return Ok(Err("both copies of the manifest can be read".into()));
            }
            self.keep_manifests(exam)?;
            manifest.write(self.disk).map_err(self.during("writing the manifest"))?;
            return Ok(Ok("the good copy of the manifest was written twice".into()));
        }
        if !exam.files.needs_manifest() {
            return Ok(Err("there is no manifest, and none is needed: the hub was stopped before it had written the first one".into()));
        }
        if !matches!(exam.files.format, Format::Seed(_)) {
            return Ok(Err(format!("the format file comes first: {} as well", flags::RESTORE_FORMAT)));
        }
        self.keep_manifests(exam)?;
        let unreadable = unreadable(exam);
        for id in exam.replaced.iter().chain(&unreadable) {
            self.keep(&id.to_string())?;
        }
        for known in exam.known.iter().filter(|known| known.sidecar) {
            self.write_sidecar(exam, known)?;
        }
        for known in &exam.known {
            self.make_durable(known)?;
        }
        let rows = exam.known.iter().map(|known| row(known, known.damaged)).collect();
        let manifest = cover::manifest(self.disk, exam, rows, next_kept(exam));
        let manifest = manifest.map_err(self.during("counting events"))?;
        self.begin_log(exam, &manifest)?;
        manifest.write(self.disk).map_err(self.during("writing the manifest"))?;
        self.remove(exam.replaced.iter().chain(&unreadable).copied())?;
        let lost: Vec<String> =
            unreadable.iter().map(|id| format!(". {id} cannot be read, and is in quarantine")).collect();
        Ok(Ok(rebuilt(exam) + &lost.concat()))
    }

    fn drop_damaged(&mut self, exam: &Examination) -> Step {
        self.repair = flags::DROP_DAMAGED;
        if !exam.damaged() {
            return Ok(Err("nothing is damaged".into()));
        }
        if exam.files.needs_manifest() {
            return Ok(Err(format!("the manifest comes first: {} as well", flags::REBUILD_MANIFEST)));
        }
        if !matches!(exam.files.format, Format::Seed(_)) {
            return Ok(Err(format!("the format file comes first: {} as well", flags::RESTORE_FORMAT)));
        }
        let damaged: Vec<&Known> = exam.known.iter().filter(|known| known.damaged).collect();
        let unreadable = unreadable(exam);
        let gone: Vec<SegmentId> =
            damaged.iter().map(|known| known.piece.id).chain(unreadable.iter().copied()).collect();
        for id in &gone {
            self.keep(&id.to_string())?;
            if exam.files.sidecars.contains(id) {
                self.keep(&id.sidecar())?;
            }
        }
        self.keep_manifests(exam)?;
        let (mut rows, mut next) = (Vec::new(), next_kept(exam));
        let mut written = Vec::new();
        for known in &exam.known {
            if !known.damaged {
                if known.sidecar {
                    self.write_sidecar(exam, known)?;
                }
                self.make_durable(known)?;
                rows.push(row(known, false));
                continue;
            }
            let id = SegmentId::Kept(next);
            next += 1;
            let kept = rewrite(self.disk, exam, known, id);
            if let Some(kept) =
                kept.map_err(self.during(&format!("writing {} anew as {id}", known.piece.id)))?
            {
                rows.push(kept);
                written.push(format!("{} is now {id}", known.piece.id));
            } else {
                written.push(format!("nothing was left of {}", known.piece.id));
            }
        }
        written.extend(unreadable.iter().map(|id| format!("{id} is in quarantine")));
        written.extend(exam.files.moved.iter().map(|name| format!("{name} has another name")));
        written.extend(exam.absent.iter().filter_map(|absent| match absent {
            Absent::File(id, ..) => Some(format!("{id} is not expected any more")),
            Absent::Logs(first, last) if first == last => {
                Some(format!("{} is not expected any more", SegmentId::Log(*first)))
            }
            Absent::Logs(first, last) => Some(format!(
                "{} to {} are not expected any more",
                SegmentId::Log(*first),
                SegmentId::Log(*last)
            )),
            Absent::Unreadable(..) => None,
        }));
        let manifest =
            cover::manifest(self.disk, exam, rows, next).map_err(self.during("counting events"))?;
        self.begin_log(exam, &manifest)?;
        manifest.write(self.disk).map_err(self.during("writing the manifest"))?;
        self.remove(gone.into_iter())?;
        for name in &exam.files.moved {
            self.set_aside(name)?;
        }
        Ok(Ok(format!(
            "{}; the numbering of topics goes on above whatever may have been lost",
            written.join(", ")
        )))
    }

    fn rebuild_sidecars(&mut self, exam: &Examination) -> Step {
        self.repair = flags::REBUILD_SIDECARS;
        if exam.files.needs_manifest() {
            return Ok(Err(format!("the manifest comes first: {} as well", flags::REBUILD_MANIFEST)));
        }
        if !matches!(exam.files.format, Format::Seed(seed) if seed == exam.seed) {
            return Ok(Err(format!("the format file comes first: {} as well", flags::RESTORE_FORMAT)));
        }
        let bad = exam.known.iter().filter(|known| known.sidecar && known.piece.role == Role::Covered);
        let bad: Vec<&Known> = bad.collect();
        if bad.is_empty() {
            return Ok(Err("every sidecar is there and good".into()));
        }
        for known in &bad {
            self.write_sidecar(exam, known)?;
        }
        let names: Vec<String> = bad.iter().map(|known| known.piece.id.sidecar()).collect();
        Ok(Ok(format!("written anew: {}", names.join(", "))))
    }

    fn keep_manifests(&mut self, exam: &Examination) -> Result<(), DoctorError> {
        for (name, copy) in COPIES.iter().zip(&exam.files.copies) {
            if !matches!(copy, Copy::Missing) {
                self.keep(name)?;
            }
        }
        Ok(())
    }

    /// Writes the sidecar of a segment from what can be read of it.
    fn write_sidecar(&mut self, exam: &Examination, known: &Known) -> Result<(), DoctorError> {
        let name = known.piece.id.sidecar();
        if exam.files.sidecars.contains(&known.piece.id) {
            self.keep(&name)?;
        }
        let during = self.during(&format!("writing {name}"));
        let index = read_again(self.disk, exam, known).map_err(&during)?.index;
        let bytes = sidecar::encode(&index, known.piece.nonce, known.end);
        write_file(self.disk, &name, &bytes).map_err(&during)
    }

    /// What a killed process wrote may be in memory only, and no sync would write it after one that failed: the same
    /// bytes are written once more before a manifest counts them.
    fn make_durable(&self, known: &Known) -> Result<(), DoctorError> {
        let during = self.during(&format!("making {} durable", known.piece.id));
        if known.synced_end >= known.end {
            return Ok(());
        }
        let again = || {
            let file = self.disk.open(&known.piece.id.to_string())?;
            let (mut at, mut bytes) = (known.synced_end, vec![0; BUFFER]);
            while at < known.end {
                let len = BUFFER.min((known.end - at) as usize);
                let read = file.read_at(&mut bytes[..len], at, Wait::Yes)?;
                if read == 0 {
                    break;
                }
                file.write_at(&bytes[..read], at)?;
                at += read as u64;
            }
            file.sync()
        };
        again().map_err(during)
    }

    /// Makes the segment that the log goes on in: opening expects one behind what a manifest covers. It begins with
    /// where the numbering goes on, so that nobody looks for what lies between.
    fn begin_log(&self, exam: &Examination, manifest: &Manifest) -> Result<(), DoctorError> {
        let number = manifest.upto + 1;
        let before = exam.known.iter().find(|known| known.piece.id == SegmentId::Log(manifest.upto));
        let (nonce, after_commit) = (random(), manifest.last_commit);
        let prev_end = before.map_or(0, |known| known.end);
        let header = Header { number, nonce, after_commit, prev_end, bytes: header::LEN as u64 };
        let (mut bytes, seal) = (header.encode(), Seal::new(nonce));
        for (topic, name, meta) in &manifest.topics {
            let seen = exam.model.seen.get(topic).map_or(0, |seen| seen.last);
            if meta.last > seen {
                seal.topic(&mut bytes, *topic, name);
                seal.jump(&mut bytes, *topic, meta.last);
            }
        }
        if bytes.len() > header::LEN {
            let (number, start) = (after_commit + 1, header::LEN as u32);
            seal.mark(&mut bytes, Mark { number, synced: after_commit, start, closed: true });
        }
        let name = SegmentId::Log(number).to_string();
        write_file(self.disk, &name, &bytes).map_err(self.during(&format!("writing {name}")))
    }

    /// Has the hub say nothing more about a segment that it has moved to quarantine: it stays, with another name.
    fn set_aside(&mut self, name: &str) -> Result<(), DoctorError> {
        let during = self.during(&format!("renaming {name}"));
        let kept = self.free(name.trim_start_matches("quarantine/")).map_err(&during)?;
        let rename = || self.disk.rename(name, &kept).and_then(|()| self.disk.sync_names());
        rename().map_err(&during)?;
        self.copies.push(kept);
        Ok(())
    }

    /// A name in quarantine that nobody has.
    fn free(&self, name: &str) -> io::Result<String> {
        let taken = self.disk.list()?;
        let base = format!("quarantine/{name}.{}.{}", self.stamp, self.repair.trim_start_matches('-'));
        let others = (2..).map(|number| format!("{base}-{number}"));
        let free = std::iter::once(base.clone()).chain(others).find(|copy| !taken.contains(copy));
        free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// Removes segments that were copied and that no manifest knows any more.
    fn remove(&self, ids: impl Iterator<Item = SegmentId>) -> Result<(), DoctorError> {
        let during = self.during("removing what was replaced");
        for id in ids {
            self.disk.remove(&id.to_string()).map_err(&during)?;
            match self.disk.remove(&id.sidecar()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(during(error)),
                _ => {}
            }
        }
        self.disk.sync_names().map_err(&during)
    }
}

fn rebuilt(exam: &Examination) -> String {
    let segments = exam.known.len();
    if exam.files.whole_history() {
        return format!(
            "the manifest was made from {segments} segments, which are the whole log: nothing is missing"
        );
    }
    let orphans = match exam.model.orphans {
        0 => String::new(),
        orphans => format!(" ({orphans} records of progress belong to groups that are not known any more)"),
    };
    format!(
        "the manifest was made from {segments} segments. Events in them are served again. What cannot be known: \
         groups and positions whose records were in segments that were rewritten{orphans}: such a group begins anew; \
         what was cleaned away and is still in a segment may be there again; a topic without any record left is \
         forgotten. The numbering of every topic goes on {MARGIN} above the highest seq that was found, so that none \
         is given twice"
    )
}

/// Segments in which nothing can be read.
fn unreadable(exam: &Examination) -> Vec<SegmentId> {
    let unreadable = exam.absent.iter().filter_map(|absent| match absent {
        Absent::Unreadable(id, ..) => Some(*id),
        _ => None,
    });
    unreadable.collect()
}

fn row(known: &Known, damaged: bool) -> Row {
    Row { id: known.piece.id, nonce: known.piece.nonce, end: known.end, damaged }
}

fn next_kept(exam: &Examination) -> u64 {
    let on_disk = exam.files.segments.iter().chain(&exam.files.sidecars).filter_map(|id| match id {
        SegmentId::Kept(number) => Some(number + 1),
        SegmentId::Log(_) => None,
    });
    on_disk.max().unwrap_or(1).max(exam.manifest.as_ref().map_or(1, |manifest| manifest.next_kept))
}

/// A segment with its index, from its frames.
fn read_again(disk: &dyn Disk, exam: &Examination, known: &Known) -> io::Result<Read> {
    // Topics that are named elsewhere; nothing else of the model.
    let (mut model, _) = Model::new(exam.seed, None);
    for topic in exam.model.catalog.topics() {
        // They come from a catalog, so they do not contradict each other.
        let _ = model.catalog.add(topic.number, &topic.name, Default::default());
    }
    model.deep = false;
    let piece = Piece { end: Some(known.end), role: Role::Covered, ..known.piece.clone() };
    read_piece(disk, &piece, 0, &mut model)
}

/// Writes what can be read of a segment to another one; `None` if no record is left.
fn rewrite(disk: &dyn Disk, exam: &Examination, known: &Known, id: SegmentId) -> io::Result<Option<Row>> {
    let unfinished = format!("{id}.tmp");
    match disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let nonce = random();
    let file = disk.create(&unfinished)?;
    let header = Header { number: id.number(), nonce, after_commit: 0, prev_end: 0, bytes: 0 };
    let mut out = Out {
        exam,
        wrong: &known.wrong,
        file: file.clone(),
        seal: Seal::new(nonce),
        buffer: header.encode(),
        at: 0,
        named: BTreeSet::new(),
        failed: None,
    };
    let source = disk.open(&known.piece.id.to_string())?;
    scan(&*source, Seal::new(known.piece.nonce), Some(known.end), known.piece.after, &mut |at| {
        out.frame(&at);
    })?;
    let end = out.finish()?;
    let piece = Piece { id, nonce, end: Some(end), after: 0, header: None, ..known.piece.clone() };
    let new =
        Known { piece, end, synced_end: end, damaged: false, sidecar: true, wrong: RoaringTreemap::new() };
    disk.rename(&unfinished, &id.to_string())?;
    disk.sync_names()?;
    let Read { index, outcome, wrong, .. } = read_again(disk, exam, &new)?;
    if let Some(damage) = outcome.damage.iter().chain(&wrong).next() {
        let _ = disk.remove(&id.to_string());
        return Err(io::Error::other(format!("it cannot be read back: {}", damage.what)));
    }
    if index.is_empty() {
        disk.remove(&id.to_string())?;
        return Ok(None);
    }
    write_file(disk, &id.sidecar(), &sidecar::encode(&index, nonce, end))?;
    Ok(Some(row(&new, false)))
}

struct Out<'a> {
    exam: &'a Examination,
    wrong: &'a RoaringTreemap,
    file: Arc<dyn DiskFile>,
    seal: Seal,
    buffer: Vec<u8>,
    at: u64,
    named: BTreeSet<u32>,
    failed: Option<io::Error>,
}

impl Out<'_> {
    fn frame(&mut self, at: &At<'_>) {
        if self.wrong.contains(at.offset) || self.failed.is_some() {
            return;
        }
        match &at.entry {
            // Named before its first record, which may be where it was not.
            Entry::Topic(..) | Entry::Mark(_) => return,
            Entry::Event(topic, committed, json) => {
                self.name(*topic);
                self.seal.event(&mut self.buffer, *topic, *committed, json);
            }
            Entry::Past(topic, past) => {
                self.name(*topic);
                self.seal.past(&mut self.buffer, *topic, past);
            }
            Entry::Cleaned(topic, cleaned) => {
                self.name(*topic);
                self.seal.cleaned(&mut self.buffer, *topic, cleaned);
            }
            Entry::Reserved(topic, upto) => {
                self.name(*topic);
                self.seal.reserved(&mut self.buffer, *topic, *upto);
            }
            Entry::Jump(topic, last) => {
                self.name(*topic);
                self.seal.jump(&mut self.buffer, *topic, *last);
            }
            Entry::Opened(boot) => self.seal.opened(&mut self.buffer, *boot, 0),
            Entry::Record(record) => self.seal.record(&mut self.buffer, record),
        }
        if self.buffer.len() > BUFFER {
            self.failed = self.flush().err();
        }
    }

    fn name(&mut self, topic: u32) {
        let name: Option<TopicName> = self.exam.model.catalog.numbered(topic).map(|topic| topic.name.clone());
        if let Some(name) = name.filter(|_| self.named.insert(topic)) {
            self.seal.topic(&mut self.buffer, topic, &name);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mark = Mark { number: 1, synced: 0, start: header::LEN as u32, closed: true };
        self.seal.mark(&mut self.buffer, mark);
        self.flush()?;
        self.file.sync()?;
        Ok(self.at)
    }
}

/// Copies a file, makes the copy durable and reads it again.
fn copy_file(disk: &dyn Disk, from: &str, to: &str) -> io::Result<()> {
    let (source, copy) = (disk.open(from)?, disk.create(to)?);
    let (mut at, mut bytes, mut sum) = (0, vec![0; BUFFER], 0);
    loop {
        let read = source.read_at(&mut bytes, at, Wait::Yes)?;
        if read == 0 {
            break;
        }
        sum = crc32c::crc32c_append(sum, &bytes[..read]);
        copy.write_at(&bytes[..read], at)?;
        at += read as u64;
    }
    copy.sync()?;
    disk.sync_names()?;
    let (size, mut again, mut from) = (at, 0, 0);
    while from < size {
        let read = copy.read_at(&mut bytes, from, Wait::Yes)?;
        if read == 0 {
            break;
        }
        again = crc32c::crc32c_append(again, &bytes[..read]);
        from += read as u64;
    }
    if (from, again) != (size, sum) {
        Err(io::Error::other("the copy is not what was copied"))
    } else {
        Ok(())
    }
}
