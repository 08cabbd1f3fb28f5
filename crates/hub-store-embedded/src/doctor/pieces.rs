//! The segments of a directory in the order of the log, and how far each of them counts.

use super::DoctorError;
use super::files::Files;
use super::model::{Here, Model, Role};
use crate::disk::{Disk, DiskFile, Wait};
use crate::format::frame::Seal;
use crate::format::header::{self, Header};
use crate::index::SegmentIndex;
use crate::manifest::Manifest;
use crate::recover::read_header;
use crate::scan::{At, Damage, Outcome, scan};
use crate::segment::SegmentId;
use crate::sidecar::Sidecar;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A segment, as it is going to be read.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub id: SegmentId,
    pub nonce: u64,
    /// Bytes that count, if something says so.
    pub end: Option<u64>,
    /// The commit before it.
    pub after: u64,
    pub role: Role,
    /// The manifest says that it is damaged.
    pub flagged: bool,
    /// What is wrong with its header.
    pub header: Option<BadHeader>,
    /// It is the one that commits go to.
    pub active: bool,
}

/// What is wrong with a header.
#[derive(Clone, Debug)]
pub(super) struct BadHeader {
    pub what: String,
    /// The hub sees through it.
    pub harmless: bool,
}

/// Something that belongs to the log and cannot be read at all.
#[derive(Clone, Debug)]
pub(super) enum Absent {
    /// The file of a segment that the manifest knows: with its nonce and its end.
    File(SegmentId, u64, u64),
    /// The logs with these numbers.
    Logs(u64, u64),
    /// A log without a header.
    Unreadable(SegmentId, String, u64),
}

/// The log.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub list: Vec<Piece>,
    /// What is absent, and before which piece it should be.
    pub absent: Vec<(usize, Absent)>,
    /// Segments that a rewrite has replaced.
    pub replaced: Vec<SegmentId>,
}

impl Pieces {
    /// The log as a manifest knows it, and what comes after.
    pub fn known(disk: &dyn Disk, files: &Files, manifest: &Manifest) -> io::Result<Self> {
        let mut pieces = Self::default();
        for row in &manifest.segments {
            let file = match disk.open(&row.id.to_string()) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    pieces.absent.push((pieces.list.len(), Absent::File(row.id, row.nonce, row.end)));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let wrong = match read_header(&*file)? {
                (Some(header), None) if header.nonce == row.nonce => None,
                (Some(_), None) => {
                    Some("it is another segment than the one that the manifest knows".to_string())
                }
                (_, what) => what,
            };
            let header = wrong.map(|what| BadHeader { what, harmless: true });
            pieces.list.push(Piece {
                id: row.id,
                nonce: row.nonce,
                end: Some(row.end),
                after: 0,
                role: Role::Covered,
                flagged: row.damaged,
                header,
                active: false,
            });
        }
        let rows: BTreeSet<SegmentId> = manifest.segments.iter().map(|row| row.id).collect();
        let newer = |id: &SegmentId| matches!(id, SegmentId::Log(number) if *number > manifest.upto);
        pieces.replaced =
            files.segments.iter().filter(|id| !rows.contains(id) && !newer(id)).copied().collect();
        let logs: Vec<SegmentId> = files.segments.iter().copied().filter(newer).collect();
        pieces.logs(disk, &logs, Some(manifest.upto + 1), Role::After)?;
        if logs.is_empty() {
            // A segment is only sealed when the next one is there.
            let next = manifest.upto + 1;
            pieces.absent.push((pieces.list.len(), Absent::Logs(next, next)));
        }
        Ok(pieces)
    }

    /// The log without a manifest: from what the segments say about each other.
    pub fn guessed(disk: &dyn Disk, files: &Files) -> Result<Self, DoctorError> {
        let place = disk.place();
        let during = |error: io::Error| DoctorError::Io { what: format!("reading {place}"), error };
        let logs: Vec<SegmentId> =
            files.segments.iter().copied().filter(|id| matches!(id, SegmentId::Log(_))).collect();
        let mut from_logs = Self::default();
        // Logs that are missing may have been rewritten.
        let expected = if files.rewritten() { None } else { Some(1) };
        from_logs.logs(disk, &logs, expected, Role::Alone).map_err(during)?;
        let mut kept = Vec::new();
        for id in files.segments.iter().copied().filter(|id| matches!(id, SegmentId::Kept(_))) {
            let file = disk.open(&id.to_string()).map_err(during)?;
            let size = file.size().map_err(during)?;
            match header_of(&*file, id).map_err(during)? {
                Ok((header, wrong)) => kept.push(Piece {
                    id,
                    nonce: header.nonce,
                    // One commit, and nothing behind it.
                    end: Some(size),
                    after: 0,
                    role: Role::Alone,
                    flagged: false,
                    header: wrong,
                    active: false,
                }),
                Err(what) => from_logs.absent.push((0, Absent::Unreadable(id, what, size))),
            }
        }
        from_logs.merge(disk, kept).map_err(during)?;
        Ok(from_logs)
    }

    /// Logs with ascending numbers.
    fn logs(
        &mut self,
        disk: &dyn Disk,
        ids: &[SegmentId],
        expected: Option<u64>,
        role: Role,
    ) -> io::Result<()> {
        let mut found: Vec<(SegmentId, Header, Option<BadHeader>, u64)> = Vec::new();
        let mut expected = expected;
        for &id in ids {
            let number = id.number();
            let order = self.list.len() + found.len();
            if let Some(first) = expected.filter(|expected| *expected < number) {
                self.absent.push((order, Absent::Logs(first, number - 1)));
            }
            expected = Some(number + 1);
            let file = disk.open(&id.to_string())?;
            match header_of(&*file, id)? {
                Ok((header, wrong)) => found.push((id, header, wrong, file.size()?)),
                Err(what) => self.absent.push((order, Absent::Unreadable(id, what, file.size()?))),
            }
        }
        for (at, (id, header, wrong, size)) in found.iter().enumerate() {
            let known = |wrong: &Option<BadHeader>| wrong.as_ref().is_none_or(|wrong| wrong.harmless);
            let next = found.get(at + 1);
            let next = next.filter(|(next, _, wrong, _)| known(wrong) && next.number() == id.number() + 1);
            // A segment that was begun when everything before it was covered says nothing about the one before it.
            let end = next.map(|(_, next, ..)| next.prev_end).filter(|end| *end >= header::LEN as u64);
            // A segment gets shorter when a manifest covers it, not before. If there is none, the last one is the only
            // one of which that is known.
            let may_shrink = role == Role::Alone && ids.last() != Some(id);
            let cut_short = (header.bytes > *size && !may_shrink).then_some(header.bytes);
            self.list.push(Piece {
                id: *id,
                nonce: header.nonce,
                end: end.or(cut_short),
                after: header.after_commit,
                role,
                flagged: false,
                header: wrong.clone(),
                active: at + 1 == found.len(),
            });
        }
        Ok(())
    }

    /// Puts rewritten segments where they belong: records of a topic ascend from one segment to the next. A segment
    /// that has seqs of one that was written later is what that one was made of.
    fn merge(&mut self, disk: &dyn Disk, mut kept: Vec<Piece>) -> io::Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        kept.sort_by_key(|piece| std::cmp::Reverse(piece.id));
        let logs = std::mem::take(&mut self.list);
        let (mut pieces, mut extents): (Vec<Piece>, Vec<Extents>) = (Vec::new(), Vec::new());
        for piece in kept.into_iter().chain(logs) {
            let extent = extents_of(disk, &piece)?;
            let overlaps = |other: &Extents| {
                extent.iter().any(|(topic, (first, last))| {
                    other.get(topic).is_some_and(|(low, high)| first <= high && low <= last)
                })
            };
            let newer = pieces
                .iter()
                .zip(&extents)
                .any(|(other, theirs)| matches!(other.id, SegmentId::Kept(_)) && overlaps(theirs));
            if newer {
                self.replaced.push(piece.id);
            } else {
                pieces.push(piece);
                extents.push(extent);
            }
        }
        let order = sorted(&pieces, &extents);
        let mut slots: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
        self.list = order.into_iter().filter_map(|at| slots[at].take()).collect();
        // Where absent logs would have been is not known any more: before everything.
        self.absent.iter_mut().for_each(|(order, _)| *order = 0);
        Ok(())
    }
}

impl Absent {
    /// Whether it is the log with this number.
    pub fn is_log(&self, number: u64) -> bool {
        match self {
            Self::File(id, ..) | Self::Unreadable(id, ..) => *id == SegmentId::Log(number),
            Self::Logs(first, last) => (*first..=*last).contains(&number),
        }
    }
}

/// By topic: the first and the last seq.
type Extents = BTreeMap<u32, (u64, u64)>;

fn extents_of(disk: &dyn Disk, piece: &Piece) -> io::Result<Extents> {
    if let (Some(end), Ok(file)) = (piece.end, disk.open(&piece.id.sidecar()))
        && let Ok(sidecar) = Sidecar::open(file, piece.nonce, end)
    {
        return Ok(sidecar
            .topics()
            .iter()
            .map(|part| (part.number, (part.first_seq, part.last_seq)))
            .collect());
    }
    let (mut model, _) = Model::new(0, None);
    model.deep = false;
    let read = read_piece(disk, piece, 0, &mut model)?;
    let extents = read.index.topics.iter().filter_map(|(number, topic)| {
        Some((*number, (topic.entries.first()?.seq, topic.entries.last()?.seq)))
    });
    Ok(extents.collect())
}

/// An order in which the records of every topic ascend, and logs by their numbers.
fn sorted(pieces: &[Piece], extents: &[Extents]) -> Vec<usize> {
    let mut chains: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, extents) in extents.iter().enumerate() {
        for (topic, (first, _)) in extents {
            chains.entry(*topic).or_default().push((*first, at));
        }
    }
    let mut after: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); pieces.len()];
    for chain in chains.values_mut() {
        chain.sort_unstable();
        for pair in chain.windows(2) {
            after[pair[1].1].insert(pair[0].1);
        }
    }
    let mut logs: Vec<usize> =
        (0..pieces.len()).filter(|&at| matches!(pieces[at].id, SegmentId::Log(_))).collect();
    logs.sort_by_key(|&at| pieces[at].id);
    for pair in logs.windows(2) {
        after[pair[1]].insert(pair[0]);
    }
    let mut left: BTreeSet<usize> = (0..pieces.len()).collect();
    let mut order = Vec::with_capacity(pieces.len());
    while !left.is_empty() {
        // Rewritten ones first: they are older than most. If nothing is free, the order contradicts itself, which
        // the pass that follows tells as records that come out of order.
        let free = left.iter().copied().filter(|&at| after[at].is_disjoint(&left));
        let rank = |&at: &usize| (matches!(pieces[at].id, SegmentId::Log(_)), pieces[at].id);
        let next = free.min_by_key(rank).or_else(|| left.iter().copied().min_by_key(rank));
        let Some(next) = next else { break };
        left.remove(&next);
        order.push(next);
    }
    order
}

/// The header of a segment, or what it must have been: the frames tell whether the nonce is right.
fn header_of(file: &dyn DiskFile, id: SegmentId) -> io::Result<Result<(Header, Option<BadHeader>), String>> {
    let wrong = match read_header(file)? {
        (Some(header), wrong) if header.number == id.number() => {
            return Ok(Ok((header, wrong.map(|what| BadHeader { what, harmless: true }))));
        }
        (Some(_), _) => "its header has another number".to_string(),
        (None, wrong) => wrong.unwrap_or_default(),
    };
    let mut bytes = vec![0; header::LEN + 64 * 1024];
    let read = file.read_at(&mut bytes, 0, Wait::Yes)?;
    let Some((head, frames)) = bytes[..read].split_at_checked(header::LEN) else { return Ok(Err(wrong)) };
    let nonce = u64::from_le_bytes(std::array::from_fn(|byte| head[24 + byte]));
    if Seal::new(nonce).read(frames).is_err() {
        return Ok(Err(wrong));
    }
    let header = Header { number: id.number(), nonce, after_commit: 0, prev_end: 0, bytes: 0 };
    Ok(Ok((header, Some(BadHeader { what: wrong, harmless: false }))))
}

/// What a segment holds.
pub(super) struct Read {
    pub file: Arc<dyn DiskFile>,
    pub outcome: Outcome,
    pub index: SegmentIndex,
    /// Frames that are whole, and cannot be what the store wrote there.
    pub wrong: Vec<Damage>,
}

/// Reads a segment into a model.
pub(super) fn read_piece(
    disk: &dyn Disk,
    piece: &Piece,
    order: usize,
    model: &mut Model,
) -> io::Result<Read> {
    let file = disk.open(&piece.id.to_string())?;
    let here = Here { id: piece.id, order, role: piece.role };
    let (mut index, mut wrong) = (SegmentIndex::default(), Vec::new());
    let mut visit = |at: At<'_>| {
        if let Err(what) = model.frame(&at, here, &mut index) {
            wrong.push(Damage { bytes: at.offset..at.offset + at.len as u64, what });
        }
    };
    let mut outcome = scan(&*file, Seal::new(piece.nonce), piece.end, piece.after, &mut visit)?;
    if outcome.closed
        && let Some(bytes) = outcome.torn.take()
    {
        let what = "there is something behind the end of a log that was closed".into();
        outcome.damage.push(Damage { bytes, what });
    }
    Ok(Read { file, outcome, index, wrong })
}
