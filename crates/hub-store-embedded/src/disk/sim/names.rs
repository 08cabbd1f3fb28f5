//! Names: durable, current, and the changes between them.
//!
//! A file has one name or none. A change that survives a power loss is done to its file whatever became of the changes
//! before it: a renamed file has its new name and no other, though its creation be lost.

use super::luck::{Luck, Span};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Names {
    durable: BTreeMap<String, u64>,
    current: BTreeMap<String, u64>,
    pending: Vec<(u64, Change)>,
    /// How many changes left `pending` so far.
    settled: u64,
}

struct Change {
    file: u64,
    /// Its name from then on, taken from the file that had it; none if it was removed.
    name: Option<String>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        names.retain(|_, file| *file != self.file);
        if let Some(name) = &self.name {
            names.insert(name.clone(), self.file);
        }
    }
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.current.get(name).copied()
    }

    pub(super) fn current(&self) -> impl Iterator<Item = &str> {
        self.current.keys().map(String::as_str)
    }

    /// The files that have a name now.
    pub(super) fn files(&self) -> impl Iterator<Item = u64> {
        self.current.values().copied()
    }

    /// The files that have a name, or may have one after a power loss.
    pub(super) fn all_files(&self) -> impl Iterator<Item = u64> {
        self.files()
            .chain(self.durable.values().copied())
            .chain(self.pending.iter().map(|(_, change)| change.file))
    }

    /// Creates or renames.
    pub(super) fn link(&mut self, op: u64, file: u64, name: &str) {
        self.change(op, Change { file, name: Some(name.to_owned()) });
    }

    pub(super) fn unlink(&mut self, op: u64, file: u64) {
        self.change(op, Change { file, name: None });
    }

    fn change(&mut self, op: u64, change: Change) {
        change.apply(&mut self.current);
        self.pending.push((op, change));
    }

    /// Gives a file a name that is durable at once.
    pub(super) fn put(&mut self, file: u64, name: &str) {
        self.pending.retain(|(_, change)| change.file != file && change.name.as_deref() != Some(name));
        let change = Change { file, name: Some(name.to_owned()) };
        change.apply(&mut self.current);
        change.apply(&mut self.durable);
    }

    /// Stands for all changes so far.
    pub(super) fn mark(&self) -> u64 {
        self.settled + self.pending.len() as u64
    }

    fn take(&mut self, mark: u64) -> Vec<(u64, Change)> {
        // A `put` may have taken some away.
        let count = mark.saturating_sub(self.settled).min(self.pending.len() as u64);
        self.settled += count;
        self.pending.drain(..count as usize).collect()
    }

    /// Makes the changes before the mark durable.
    pub(super) fn sync(&mut self, mark: u64) {
        for (_, change) in self.take(mark) {
            change.apply(&mut self.durable);
        }
    }

    /// From the first to the last pending change.
    pub(super) fn span(&self) -> Option<Span> {
        Some((self.pending.first()?.0, self.pending.last()?.0))
    }

    pub(super) fn power_loss(&mut self, luck: &mut Luck) {
        let Some(span) = self.span() else { return };
        let mut survives = luck.of(span);
        for (op, change) in self.take(self.mark()) {
            if survives.of(op) {
                change.apply(&mut self.durable);
            }
        }
        self.current.clone_from(&self.durable);
    }
}
