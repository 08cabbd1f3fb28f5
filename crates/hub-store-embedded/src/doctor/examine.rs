//! The examination: every file is read, nothing is written.

use super::files::{Files, Format, read_through};
use super::model::{Gap, Model, Place, Role};
use super::pieces::{Absent, Piece, Pieces, read_piece};
use super::report::{Affected, Examined, Finding, MOST_FINDINGS, Report, Severity};
use super::sidecars::{Verdict, compare, records_of};
use super::{DoctorError, Progress, flags};
use crate::disk::Disk;
use crate::format::header;
use crate::manifest::{COPIES, Copy, Manifest};
use crate::recover::FORMAT;
use crate::segment::SegmentId;
use roaring::RoaringTreemap;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// What kind of damage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DamageKind {
    /// Bytes between frames that are none.
    Stretch,
    /// The segment's header, which the hub sees through.
    Header,
    /// The segment's header, which the hub cannot do without.
    LostHeader,
    /// Nothing of a segment can be read.
    Segment,
}

/// Damage in its place.
#[derive(Clone, Debug)]
pub(super) struct DamageAt {
    pub place: Place,
    pub file: String,
    pub bytes: Range<u64>,
    pub what: String,
    pub kind: DamageKind,
    pub role: Role,
    pub active: bool,
    /// Records that were there.
    pub victims: BTreeMap<u32, RoaringTreemap>,
    /// A sidecar has told which.
    pub from_sidecar: bool,
}

/// A segment that is gone is taken to have been at least this long.
const SEGMENT: u64 = 128 << 20;

impl DamageAt {
    /// Bytes of records that may have been there, or more.
    fn size(&self) -> u64 {
        let bytes = self.bytes.end - self.bytes.start;
        match self.kind {
            DamageKind::Stretch => bytes,
            DamageKind::Header | DamageKind::LostHeader => 0,
            DamageKind::Segment => bytes.max(SEGMENT),
        }
    }
}

/// What is known of a segment after it was read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub piece: Piece,
    /// Bytes that count.
    pub end: u64,
    /// Up to here it is known to be durable.
    pub synced_end: u64,
    /// Something in it cannot be read.
    pub damaged: bool,
    /// Its sidecar has to be written.
    pub sidecar: bool,
    /// Where frames begin that cannot be what the store wrote there.
    pub wrong: RoaringTreemap,
}

/// An examination with everything that repairs need to know.
pub(super) struct Examination {
    pub report: Report,
    pub files: Files,
    pub manifest: Option<Manifest>,
    pub model: Model,
    pub known: Vec<Known>,
    pub absent: Vec<Absent>,
    pub replaced: Vec<SegmentId>,
    /// Where something may have been that no manifest knows of, and how many bytes of it.
    pub holes: Vec<(Place, u64)>,
    pub closed: bool,
    pub last_commit: u64,
    /// The seed that the sidecars were made with.
    pub seed: u64,
}

impl Examination {
    pub fn damaged(&self) -> bool {
        !self.absent.is_empty()
            || !self.files.moved.is_empty()
            || self.known.iter().any(|known| known.damaged)
    }
}

struct Pass<'a> {
    disk: &'a dyn Disk,
    findings: Vec<Finding>,
    more: u64,
    worst: Severity,
    damages: Vec<DamageAt>,
}

/// Reads everything.
pub(super) fn examine(disk: &dyn Disk, progress: &mut Progress<'_>) -> Result<Examination, DoctorError> {
    let place = disk.place();
    let files = Files::read(disk)?;
    let manifest = files.manifest().cloned();
    let mut pass = Pass { disk, findings: Vec::new(), more: 0, worst: Severity::Note, damages: Vec::new() };
    let seed = pass.format(&files, manifest.as_ref());
    pass.manifests(&files);
    let during = |error: io::Error| DoctorError::Io { what: format!("reading {place}"), error };
    let pieces = match &manifest {
        Some(manifest) => Pieces::known(disk, &files, manifest).map_err(during)?,
        None => Pieces::guessed(disk, &files)?,
    };
    let (mut model, wrong) = Model::new(seed, manifest.as_ref());
    for what in wrong {
        let finding = Finding::new(Severity::Problem, "manifest_contradicts", COPIES[0]);
        pass.tell(finding.what(what).means("events of that topic may not be readable"));
    }
    model.whole_history = files.whole_history();
    model.absent = pieces.absent.iter().map(|(_, absent)| absent.clone()).collect();
    pass.absent(&pieces);
    let total = pieces.list.iter().map(|piece| Files::size(disk, &piece.id.to_string())).sum();
    let (mut known, mut done) = (Vec::new(), 0);
    let (mut closed, mut last_commit) = (true, manifest.as_ref().map_or(0, |manifest| manifest.last_commit));
    for (order, piece) in pieces.list.iter().enumerate() {
        progress(&piece.id.to_string(), done, total);
        let first = pass.damages.len();
        let read = read_piece(disk, piece, order, &mut model).map_err(during)?;
        pass.damage(order, piece, &read.outcome.damage, &read.wrong);
        if piece.role != Role::Covered {
            (closed, last_commit) = (read.outcome.closed, last_commit.max(read.outcome.last));
        }
        if let Some(torn) = &read.outcome.torn {
            pass.torn(piece, torn);
        }
        let (end, bad) = (read.outcome.end, pass.damages.len() > first);
        let wrong = read.wrong.iter().map(|wrong| wrong.bytes.start).collect();
        let synced_end = if piece.role == Role::Covered { end } else { read.outcome.synced_end };
        let mut entry = Known { piece: piece.clone(), end, synced_end, damaged: bad, sidecar: true, wrong };
        if piece.role != Role::After {
            let verdict =
                compare(disk, (piece.id, piece.nonce, end), &read.index, &mut pass.damages[first..]);
            let verdict = verdict.map_err(during)?;
            entry.sidecar = !matches!(verdict, Verdict::Good);
            if piece.role == Role::Covered {
                pass.sidecar(piece.id, verdict);
            }
            if piece.flagged && !bad {
                let finding = Finding::new(Severity::Note, "segment_flagged", piece.id.to_string());
                pass.tell(
                    finding
                        .what("the manifest says that it was found damaged once; it reads well now")
                        .means("the hub leaves it as it is, and does not make it smaller"),
                );
            }
        }
        done += read.file.size().map_err(during)?;
        known.push(entry);
    }
    progress("", total, total);
    let uncovered = |damage: &&DamageAt| damage.role != Role::Covered;
    let holes = pass.damages.iter().filter(uncovered).map(|damage| (damage.place, damage.size())).collect();
    let lost_events = pass.losses(&model, &known);
    pass.counts(&model);
    pass.leftovers(&files, &pieces).map_err(during)?;
    let examined = Examined {
        files: files.names.len() as u64,
        bytes: files.names.iter().map(|name| Files::size(disk, name)).sum(),
        segments: known.len() as u64,
        events: model.events,
        topics: model.catalog.topics().len() as u64,
        groups: model.catalog.groups.lock().groups.len() as u64,
    };
    let report = Report {
        directory: place,
        healthy: pass.worst == Severity::Note,
        examined,
        findings: pass.findings,
        more_findings: pass.more,
        lost_events,
    };
    let absent = pieces.absent.into_iter().map(|(_, absent)| absent).collect();
    let replaced = pieces.replaced;
    Ok(Examination {
        report,
        files,
        manifest,
        model,
        known,
        absent,
        replaced,
        holes,
        closed,
        last_commit,
        seed,
    })
}

impl Pass<'_> {
    fn tell(&mut self, finding: Finding) {
        self.worst = self.worst.max(finding.severity);
        if self.findings.len() < MOST_FINDINGS { self.findings.push(finding) } else { self.more += 1 }
    }

    /// Looks at the format file; answers the seed that counts.
    fn format(&mut self, files: &Files, manifest: Option<&Manifest>) -> u64 {
        let from = manifest.map(|manifest| manifest.seed);
        let remedy = match from {
            Some(_) => "`--restore-format` writes it anew; the seed of the ids is in the manifest, too",
            None => {
                "`--restore-format` writes it anew, with another seed; sidecars are made again with it, as no \
                 manifest says what the old one was"
            }
        };
        let (code, what) = match &files.format {
            Format::Seed(seed) => match from {
                Some(known) if known != *seed => {
                    ("format_seed", "its seed is not the one that the manifest has".to_string())
                }
                _ => return *seed,
            },
            Format::Missing => ("format_missing", "it is missing".to_string()),
            Format::Bad(what) => ("format_bad", format!("it {what}")),
        };
        let means = if code == "format_seed" {
            "the hub believes the manifest, which has a checksum, and says so at every start; no event is lost"
        } else {
            "the hub refuses to open the directory; no event is lost"
        };
        let finding = Finding::new(Severity::Problem, code, FORMAT).what(what).means(means);
        self.tell(finding.remedy(remedy).repair(flags::RESTORE_FORMAT));
        from.unwrap_or(0)
    }

    fn manifests(&mut self, files: &Files) {
        let needed = files.needs_manifest();
        let newest = files.manifest().map(|manifest| manifest.generation);
        for (name, copy) in COPIES.iter().zip(&files.copies) {
            let (code, what) = match copy {
                Copy::Good(manifest) => {
                    if Some(manifest.generation) != newest {
                        let finding = Finding::new(Severity::Note, "manifest_copy_old", *name);
                        let what =
                            format!("it is older than the other copy (generation {})", manifest.generation);
                        self.tell(finding.what(what).means("normal after a crash: the newer one is used"));
                    }
                    continue;
                }
                // It was killed before it had written the first one.
                Copy::Missing if newest.is_none() && !needed => continue,
                // The first one is written one copy after the other.
                Copy::Missing if newest == Some(1) => continue,
                Copy::Missing => ("manifest_copy_missing", "it is missing".to_string()),
                Copy::Bad(what) => ("manifest_copy_bad", what.clone()),
            };
            let finding = match (newest, files.whole_history()) {
                (Some(_), _) => Finding::new(Severity::Problem, code, *name)
                    .means("the other copy is good and is used: nothing is lost")
                    .remedy("`--rebuild-manifest` writes it anew from the other copy"),
                (None, true) => Finding::new(Severity::Problem, code, *name)
                    .means(
                        "the hub refuses to open the directory; the log is there from its first segment on, and \
                         everything can be read out of it again",
                    )
                    .remedy("`--rebuild-manifest` makes it from the segments"),
                (None, false) => Finding::new(Severity::Loss, code, *name)
                    .means(
                        "the hub refuses to open the directory; events are in the segments, but the positions of \
                         groups and what was cleaned away were written down here alone for segments that have been \
                         rewritten since",
                    )
                    .remedy(
                        "put it back from a copy of the same directory, taken at the same moment; or \
                         `--rebuild-manifest` makes it from the segments, as far as they tell",
                    ),
            };
            self.tell(finding.what(what).repair(flags::REBUILD_MANIFEST));
        }
    }

    /// Segments that are not there.
    fn absent(&mut self, pieces: &Pieces) {
        for (order, absent) in &pieces.absent {
            let (file, what, bytes) = match absent {
                Absent::File(id, ..) => {
                    (id.to_string(), "it is missing; the manifest lists it".to_string(), 0)
                }
                Absent::Logs(first, last) if first == last => {
                    (SegmentId::Log(*first).to_string(), "it is missing".to_string(), 0)
                }
                Absent::Logs(first, last) => (
                    SegmentId::Log(*first).to_string(),
                    format!("it is missing, and everything up to {}", SegmentId::Log(*last)),
                    0,
                ),
                Absent::Unreadable(id, what, bytes) => (id.to_string(), what.clone(), *bytes),
            };
            let mut damage = DamageAt {
                // Before the first record of the piece that follows.
                place: (*order, 0),
                file,
                bytes: 0..bytes,
                what,
                kind: DamageKind::Segment,
                role: if matches!(absent, Absent::File(..)) { Role::Covered } else { Role::After },
                active: *order == pieces.list.len(),
                victims: BTreeMap::new(),
                from_sidecar: false,
            };
            if let Absent::File(id, nonce, end) = absent {
                records_of(self.disk, (*id, *nonce, *end), &mut damage);
            }
            self.damages.push(damage);
        }
    }

    /// Takes note of what is wrong with a segment.
    fn damage(
        &mut self,
        order: usize,
        piece: &Piece,
        stretches: &[crate::scan::Damage],
        wrong: &[crate::scan::Damage],
    ) {
        let mut add = |bytes: Range<u64>, what: String, kind: DamageKind| {
            self.damages.push(DamageAt {
                place: (order, bytes.start),
                file: piece.id.to_string(),
                bytes,
                what,
                kind,
                role: piece.role,
                active: piece.active,
                victims: BTreeMap::new(),
                from_sidecar: false,
            });
        };
        if let Some(wrong) = &piece.header {
            let kind = if wrong.harmless { DamageKind::Header } else { DamageKind::LostHeader };
            add(0..header::LEN as u64, wrong.what.clone(), kind);
        }
        let mut all: Vec<_> = stretches.iter().chain(wrong).collect();
        all.sort_by_key(|damage| damage.bytes.start);
        for run in all.chunk_by(|one, next| one.what == next.what && one.bytes.end == next.bytes.start) {
            add(run[0].bytes.start..run[run.len() - 1].bytes.end, run[0].what.clone(), DamageKind::Stretch);
        }
    }

    fn torn(&mut self, piece: &Piece, torn: &Range<u64>) {
        let finding = Finding::new(Severity::Note, "torn_tail", piece.id.to_string());
        self.tell(
            finding
                .at(torn.start, torn.end - torn.start)
                .what("the last commit is not whole: the hub or the machine stopped in the middle of it")
                .means("normal after a crash: nobody was told that it is safe")
                .remedy("nothing: it will be cut when the hub starts, and kept in quarantine"),
        );
    }

    fn sidecar(&mut self, id: SegmentId, verdict: Verdict) {
        let (code, what) = match verdict {
            Verdict::Good => return,
            Verdict::Missing => ("sidecar_missing", "it is missing".to_string()),
            Verdict::Bad(what) => ("sidecar_bad", what),
            Verdict::Differs(what) => ("sidecar_differs", format!("it is not what {id} says: {what}")),
        };
        let means = match code {
            "sidecar_differs" => "no event is lost, but the hub would answer wrongly from it",
            _ => {
                "no event is lost: it is an index of the segment, and the hub makes it again when it needs it"
            }
        };
        let finding = Finding::new(Severity::Problem, code, id.sidecar()).what(what).means(means);
        self.tell(
            finding
                .remedy("`--rebuild-sidecars` writes it anew from the segment")
                .repair(flags::REBUILD_SIDECARS),
        );
    }

    /// Says what the damage means; answers how many events are known to be lost.
    fn losses(&mut self, model: &Model, known: &[Known]) -> u64 {
        let mut gaps = model.gaps.clone();
        // What a topic has lost at its end shows in nothing that follows.
        if !self.damages.is_empty() {
            for topic in model.catalog.topics() {
                let last = topic.state.lock().meta.last;
                let seen = model.seen.get(&topic.number);
                let seen_last = seen.map_or(0, |seen| seen.last);
                let after = seen.and_then(|seen| seen.place).map(|(_, place)| place);
                if last > seen_last {
                    gaps.push(Gap { topic: topic.number, first: seen_last + 1, last, after, before: None });
                }
            }
        }
        let set = |gap: &Gap| {
            let mut seqs = RoaringTreemap::new();
            seqs.insert_range(gap.first..=gap.last);
            if let Some(seen) = model.seen.get(&gap.topic) {
                seqs -= &seen.present;
            }
            model.not_cleaned(gap.topic, &seqs)
        };
        let mut lost: BTreeMap<u32, RoaringTreemap> = BTreeMap::new();
        let mut explained = vec![false; gaps.len()];
        let mut damages = std::mem::take(&mut self.damages);
        damages.sort_by_key(|damage| damage.place);
        for damage in &mut damages {
            if damage.kind == DamageKind::Header {
                self.tell(header_finding(damage));
                continue;
            }
            let mut victims: BTreeMap<u32, RoaringTreemap> = BTreeMap::new();
            for (number, seqs) in &damage.victims {
                victims.insert(*number, model.not_cleaned(*number, seqs));
            }
            for (gap, explained) in gaps.iter().zip(&mut explained) {
                if gap.spans(damage.place) {
                    *explained = true;
                    // A sidecar knows exactly.
                    if !damage.from_sidecar {
                        *victims.entry(gap.topic).or_default() |= set(gap);
                    }
                }
            }
            victims.retain(|_, seqs| !seqs.is_empty());
            for (number, seqs) in &victims {
                *lost.entry(*number).or_default() |= seqs;
            }
            let affected: Vec<Affected> =
                victims.iter().map(|(number, seqs)| Affected::new(model.name(*number), seqs)).collect();
            self.tell(damage_finding(damage, affected));
        }
        for (gap, explained) in gaps.iter().zip(explained) {
            let seqs = set(gap);
            let Some(before) = gap.before.filter(|_| !explained && !seqs.is_empty()) else { continue };
            let affected = Affected::new(model.name(gap.topic), &seqs);
            *lost.entry(gap.topic).or_default() |= &seqs;
            let file = known.get(before.0).map_or(String::new(), |known| known.piece.id.to_string());
            let mut finding = Finding::new(Severity::Loss, "seqs_missing", file);
            finding.offset = Some(before.1);
            finding = finding
                .what(format!("before it, events are missing: {}", affected.words()))
                .means("they are nowhere in the log, and nothing there is damaged")
                .remedy("put the directory back from a copy; the hub passes the seqs over");
            finding.lost = vec![affected];
            self.tell(finding);
        }
        lost.values().map(RoaringTreemap::len).sum()
    }

    /// Figures that are kept beside the records.
    fn counts(&mut self, model: &Model) {
        if self.worst == Severity::Loss {
            return;
        }
        for topic in model.catalog.topics() {
            let none = RoaringTreemap::new();
            let present = model.seen.get(&topic.number).map_or(&none, |seen| &seen.present);
            let there = model.not_cleaned(topic.number, present).len();
            let counted = topic.state.lock().meta.events;
            if there != counted {
                let finding = Finding::new(Severity::Problem, "count_wrong", COPIES[0]);
                self.tell(
                    finding
                        .what(format!("{counted} events are counted for {}, {there} are there", topic.name))
                        .means("no event is lost; figures and limits by size are off by that much")
                        .remedy("nothing needs to be done; it stays until the topic is empty"),
                );
            }
        }
    }

    /// Files that are not part of the log.
    fn leftovers(&mut self, files: &Files, pieces: &Pieces) -> io::Result<()> {
        let note = |code, file: &str| Finding::new(Severity::Note, code, file);
        for name in &files.moved {
            self.tell(
                Finding::new(Severity::Loss, "segment_quarantined", name)
                    .what("a segment without a header that can be read; the hub has moved it here")
                    .means("what was in it is not served, and the hub says so at every start")
                    .remedy(
                        "put the segment back from a copy of the directory; or `--drop-damaged` has the log go on \
                         without it",
                    )
                    .repair(flags::DROP_DAMAGED),
            );
        }
        for id in &pieces.replaced {
            self.tell(
                note("segment_replaced", &id.to_string())
                    .what("what counts of it is in a segment that was written since")
                    .means("normal after a crash while the store was making room")
                    .remedy("nothing: it is removed when the hub starts"),
            );
        }
        let absent = |id: SegmentId| {
            pieces.absent.iter().any(|(_, absent)| matches!(absent, Absent::File(file, ..) if *file == id))
        };
        for id in files.sidecars.iter().filter(|id| !files.segments.contains(id) && !absent(**id)) {
            self.tell(
                note("sidecar_alone", &id.sidecar())
                    .what("its segment is not there")
                    .means("it is of no use"),
            );
        }
        for name in &files.unfinished {
            self.tell(
                note("unfinished", name)
                    .what("a file that was being written when the hub or the machine stopped")
                    .means("nothing depends on it")
                    .remedy("nothing: it is removed when the hub starts"),
            );
        }
        for name in &files.unknown {
            self.tell(
                note("unknown_file", name)
                    .what("it is no file of the store")
                    .means("the hub leaves it alone"),
            );
        }
        for name in files.prepared.iter().chain(&files.unfinished).chain(&files.unknown) {
            self.unreadable(name)?;
        }
        let mut bytes = 0;
        for name in &files.quarantine {
            bytes += self.unreadable(name)?;
        }
        if !files.quarantine.is_empty() {
            let count = files.quarantine.len();
            let mut names: Vec<&str> = files.quarantine.iter().take(10).map(|name| &name[11..]).collect();
            if count > names.len() {
                names.push("…");
            }
            let files = if count == 1 { "1 file".to_string() } else { format!("{count} files") };
            let what = format!("{files}, {bytes} bytes: {}", names.join(", "));
            self.tell(
                note("quarantine", "quarantine")
                    .what(what)
                    .means("put aside by the hub or by a repair; nothing reads them")
                    .remedy("look at them, or keep a copy, and remove them when nobody needs them"),
            );
        }
        Ok(())
    }

    /// Reads a file that nothing depends on, to its end.
    fn unreadable(&mut self, name: &str) -> io::Result<u64> {
        let read = read_through(self.disk, name, |_, _| true);
        Ok(read.unwrap_or_else(|error| {
            let finding = Finding::new(Severity::Problem, "unreadable", name);
            self.tell(
                finding
                    .what(format!("it cannot be read: {error}"))
                    .means("nothing depends on it; the disk may be failing"),
            );
            0
        }))
    }
}

const COPY_OR_DROP: &str = "put the file back from a copy of the directory; or `--drop-damaged` writes the segment \
                            anew without the damaged bytes, and keeps the original in quarantine";

fn header_finding(damage: &DamageAt) -> Finding {
    Finding::new(Severity::Problem, "header_bad", &damage.file)
        .at(damage.bytes.start, damage.bytes.end - damage.bytes.start)
        .what(&damage.what)
        .means("no event is lost: the hub knows what the header said")
        .remedy(COPY_OR_DROP)
        .repair(flags::DROP_DAMAGED)
}

fn damage_finding(damage: &DamageAt, lost: Vec<Affected>) -> Finding {
    let words: Vec<String> = lost.iter().map(Affected::words).collect();
    let code = match damage.kind {
        DamageKind::Stretch => "damage",
        DamageKind::Header | DamageKind::LostHeader => "header_bad",
        DamageKind::Segment if damage.bytes.is_empty() => "segment_missing",
        DamageKind::Segment => "segment_unreadable",
    };
    let newest = "the newest events of any topic may have been there";
    let (severity, means) = match damage.kind {
        DamageKind::Header | DamageKind::LostHeader => (
            Severity::Loss,
            "its records are there, but the hub would move the whole segment to quarantine when it starts, and not \
             serve them"
                .to_string(),
        ),
        _ if !lost.is_empty() && damage.active => {
            (Severity::Loss, format!("acknowledged events are lost: {}; and {newest}", words.join("; ")))
        }
        _ if !lost.is_empty() => (Severity::Loss, format!("acknowledged events are lost: {}", words.join("; "))),
        DamageKind::Stretch if damage.from_sidecar => {
            (Severity::Problem, "no event is lost that was not cleaned away before".to_string())
        }
        DamageKind::Stretch if !damage.active => (
            Severity::Problem,
            "no seq is missing: no event is lost; the progress of a group may be, which then gets events again"
                .to_string(),
        ),
        _ if damage.active => (Severity::Loss, format!("what was there is not known: {newest}")),
        _ => (Severity::Loss, "which events were in it is not known".to_string()),
    };
    let remedy = match damage.kind {
        DamageKind::Header | DamageKind::LostHeader => {
            "before the hub is started: put the file back from a copy of the directory, or `--drop-damaged` writes \
             the segment anew with everything that is in it, and keeps the original in quarantine"
        }
        DamageKind::Segment => {
            "put the file back from a copy of the directory; or `--drop-damaged` has the log go on without it"
        }
        DamageKind::Stretch => COPY_OR_DROP,
    };
    let mut finding = Finding::new(severity, code, &damage.file)
        .what(&damage.what)
        .means(means)
        .remedy(remedy)
        .repair(flags::DROP_DAMAGED);
    if !damage.bytes.is_empty() {
        finding = finding.at(damage.bytes.start, damage.bytes.end - damage.bytes.start);
    }
    finding.lost = lost;
    finding
}
