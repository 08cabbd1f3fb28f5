//! The bytes of one file: durable, current, and the changes between them.

use super::SECTOR;
use super::luck::{Luck, Span};
use std::collections::BTreeSet;
use std::ops::Range;

/// A file without its name.
#[derive(Default)]
pub(super) struct Inode {
    /// What a power loss leaves if it leaves nothing of `pending`.
    durable: Vec<u8>,
    /// What reads see.
    current: Vec<u8>,
    /// What `current` has and `durable` has not, in order; but for what a failed sync has lost.
    pending: Vec<(u64, Change)>,
    /// How many changes left `pending` so far.
    settled: u64,
    /// All differences of `durable` and `current` are in here.
    differs: Option<Range<usize>>,
    /// Whether a failed sync lost changes that `current` still has.
    astray: bool,
    /// Sectors that cannot be read.
    pub(super) unreadable: BTreeSet<usize>,
    /// How many handles of this life are open.
    pub(super) handles: usize,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => overwrite(to, *offset, bytes),
            Self::SetLen(len) => to.resize(*len, 0),
        }
    }
}

/// Writes into the bytes; a gap before them is zeros.
fn overwrite(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if to.len() < offset {
        to.resize(offset, 0);
    }
    let (inside, beyond) = bytes.split_at(bytes.len().min(to.len() - offset));
    to[offset..offset + inside.len()].copy_from_slice(inside);
    to.extend_from_slice(beyond);
}

/// The pieces of a write that a disk writes in one.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let (first, rest) = bytes.split_at(bytes.len().min(SECTOR - offset % SECTOR));
    let start = offset + first.len();
    let rest = rest.chunks(SECTOR).enumerate().map(move |(n, piece)| (start + n * SECTOR, piece));
    std::iter::once((offset, first)).chain(rest)
}

impl Inode {
    /// A file that is durable.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self { durable: bytes.clone(), current: bytes, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn write(&mut self, op: u64, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.touch(offset.min(self.current.len())..offset + bytes.len());
            let sectors = offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR);
            self.unreadable.retain(|sector| !sectors.contains(sector));
            overwrite(&mut self.current, offset, bytes);
            self.pending.push((op, Change::Write { offset, bytes: bytes.to_vec() }));
        }
    }

    pub(super) fn set_len(&mut self, op: u64, len: usize) {
        let before = self.current.len();
        self.touch(len.min(before)..len.max(before));
        self.current.resize(len, 0);
        self.pending.push((op, Change::SetLen(len)));
    }

    fn touch(&mut self, range: Range<usize>) {
        self.differs = Some(match self.differs.take() {
            Some(known) => known.start.min(range.start)..known.end.max(range.end),
            None => range,
        });
    }

    /// Stands for all changes so far.
    pub(super) fn mark(&self) -> u64 {
        self.settled + self.pending.len() as u64
    }

    fn take(&mut self, mark: u64) -> Vec<(u64, Change)> {
        let count = mark.saturating_sub(self.settled);
        self.settled += count;
        self.pending.drain(..count as usize).collect()
    }

    /// Makes the changes before the mark durable.
    pub(super) fn sync(&mut self, mark: u64) {
        for (_, change) in self.take(mark) {
            change.apply(&mut self.durable);
        }
        if self.pending.is_empty() && !self.astray {
            self.differs = None;
        }
    }

    /// The changes before the mark are seen, but never become durable.
    pub(super) fn lose(&mut self, mark: u64) {
        self.astray |= !self.take(mark).is_empty();
    }

    /// From the first to the last pending change.
    pub(super) fn span(&self) -> Option<Span> {
        Some((self.pending.first()?.0, self.pending.last()?.0))
    }

    pub(super) fn power_loss(&mut self, luck: &mut Luck) {
        if let Some(span) = self.span() {
            let mut survives = luck.of(span);
            for (op, change) in self.take(self.mark()) {
                match &change {
                    Change::Write { offset, bytes } => {
                        for (offset, piece) in sectors(*offset, bytes) {
                            if survives.of(op) {
                                overwrite(&mut self.durable, offset, piece);
                            }
                        }
                        // The length can survive without the bytes, which are zeros then.
                        let end = offset + bytes.len();
                        if end > self.durable.len() && survives.of(op) {
                            self.durable.resize(end, 0);
                        }
                    }
                    Change::SetLen(_) if survives.of(op) => change.apply(&mut self.durable),
                    Change::SetLen(_) => {}
                }
            }
        }
        self.current.resize(self.durable.len(), 0);
        if let Some(Range { start, end }) = self.differs.take() {
            let end = end.min(self.current.len());
            let start = start.min(end);
            self.current[start..end].copy_from_slice(&self.durable[start..end]);
        }
        self.astray = false;
    }

    /// Flips the bits of a mask.
    pub(super) fn flip(&mut self, at: usize, mask: u8) {
        self.current[at] ^= mask;
        if let Some(byte) = self.durable.get_mut(at) {
            *byte ^= mask;
        }
        for (_, change) in &mut self.pending {
            if let Change::Write { offset, bytes } = change
                && let Some(byte) = at.checked_sub(*offset).and_then(|at| bytes.get_mut(at))
            {
                *byte ^= mask;
            }
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.current.truncate(len);
        self.durable.truncate(len);
        for (_, change) in &mut self.pending {
            match change {
                Change::Write { offset, bytes } => {
                    *offset = len.min(*offset);
                    bytes.truncate(len - *offset);
                }
                Change::SetLen(to) => *to = len.min(*to),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }
}
