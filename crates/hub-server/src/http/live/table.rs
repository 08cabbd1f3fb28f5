//! Rows with numbers, of which a copy is cheap: the sampler changes its own, and every viewer reads one that does not change.
//!
//! Rows live in chunks that copies share until one of them changes. What changed in which sample is remembered for the last
//! [`REMEMBERED`] samples, so a viewer looks at the changed rows and not at all of them.

use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that are copied together when one of them changes.
const CHUNK: usize = 128;
/// Samples whose changes are remembered. A viewer that is further behind looks at every row.
const REMEMBERED: usize = 16;

/// What is kept beside each row, close together, so that a sum over all rows is fast.
pub(super) trait Row {
    type Figures: Copy;
    fn figures(&self) -> Self::Figures;
}

/// A row in its place.
#[derive(Debug)]
pub(super) struct Slot<R: Row> {
    pub row: Arc<R>,
    pub figures: R::Figures,
    /// The sample in which it changed last.
    pub changed_in: u64,
    /// It is there no more.
    pub is_gone: bool,
}

impl<R: Row> Clone for Slot<R> {
    fn clone(&self) -> Self {
        Self { row: self.row.clone(), ..*self }
    }
}

/// See the module.
pub(super) struct Table<R: Row> {
    chunks: Vec<Arc<Vec<Slot<R>>>>,
    len: usize,
    gone: usize,
    changes: VecDeque<(u64, Arc<Vec<u32>>)>,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0, gone: 0, changes: VecDeque::new() }
    }
}

impl<R: Row> Clone for Table<R> {
    fn clone(&self) -> Self {
        let Self { chunks, changes, .. } = self;
        Self { chunks: chunks.clone(), changes: changes.clone(), ..*self }
    }
}

impl<R: Row> Table<R> {
    /// Places that are in use, also by rows that are gone.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether most places are those of rows that are gone.
    pub fn is_sparse(&self) -> bool {
        self.gone > CHUNK && self.gone > self.len / 2
    }

    pub fn get(&self, at: u32) -> Option<&Slot<R>> {
        self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)
    }

    /// Every row that is there, in its place.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Slot<R>)> {
        self.slots().filter(|(_, slot)| !slot.is_gone)
    }

    fn slots(&self) -> impl Iterator<Item = (u32, &Slot<R>)> {
        (0..).zip(self.chunks.iter().flat_map(|chunk| chunk.iter()))
    }

    /// Adds a row, and answers its place.
    pub fn push(&mut self, row: R, sample: u64) -> u32 {
        let at = u32::try_from(self.len).unwrap_or(u32::MAX);
        let slot = Slot { figures: row.figures(), row: Arc::new(row), changed_in: sample, is_gone: false };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => Arc::make_mut(chunk).push(slot),
            _ => self.chunks.push(Arc::new(vec![slot])),
        }
        self.len += 1;
        self.note(at, sample);
        at
    }

    /// Puts another row into a place.
    pub fn set(&mut self, at: u32, row: R, sample: u64) {
        let figures = row.figures();
        self.change(at, sample, |slot| {
            slot.row = Arc::new(row);
            slot.figures = figures;
        });
    }

    /// Notes that a row is gone. Its place is not used again.
    pub fn remove(&mut self, at: u32, sample: u64) {
        self.change(at, sample, |slot| slot.is_gone = true);
        self.gone += 1;
    }

    fn change(&mut self, at: u32, sample: u64, change: impl FnOnce(&mut Slot<R>)) {
        let Some(chunk) = self.chunks.get_mut(at as usize / CHUNK) else { return };
        let Some(slot) = Arc::make_mut(chunk).get_mut(at as usize % CHUNK) else { return };
        change(slot);
        if slot.changed_in != sample {
            slot.changed_in = sample;
            self.note(at, sample);
        }
    }

    fn note(&mut self, at: u32, sample: u64) {
        match self.changes.back_mut() {
            Some((last, changed)) if *last == sample => Arc::make_mut(changed).push(at),
            _ => self.changes.push_back((sample, Arc::new(vec![at]))),
        }
        while self.changes.len() > REMEMBERED {
            self.changes.pop_front();
        }
    }

    /// The places of rows that changed after a sample, those of rows that are gone among them.
    pub fn changed_after(&self, sample: u64) -> Vec<u32> {
        // What was forgotten is older than the oldest that is remembered.
        let remembers_all = self.changes.len() < REMEMBERED
            || self.changes.front().is_some_and(|(oldest, _)| *oldest <= sample + 1);
        if !remembers_all {
            return self.slots().filter(|(_, slot)| slot.changed_in > sample).map(|(at, _)| at).collect();
        }
        let newer = self.changes.iter().filter(|(changed_in, _)| *changed_in > sample);
        let places = newer.flat_map(|(changed_in, places)| places.iter().map(move |at| (changed_in, *at)));
        // A row that changed in several samples comes once, for the last of them.
        let is_last = |(changed_in, at): &(&u64, u32)| {
            self.get(*at).is_some_and(|slot| slot.changed_in == **changed_in)
        };
        places.filter(is_last).map(|(_, at)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for u64 {
        type Figures = Self;

        fn figures(&self) -> Self {
            *self
        }
    }

    fn table(rows: u64) -> Table<u64> {
        let mut table = Table::default();
        (0..rows).for_each(|row| assert_eq!(u64::from(table.push(row, 1)), row));
        table
    }

    #[test]
    fn a_copy_does_not_change_with_the_table() {
        let mut table = table(300);
        let copy = table.clone();
        table.set(200, 7, 2);
        table.remove(3, 2);
        let row = |table: &Table<u64>| table.get(200).map(|slot| *slot.row);
        assert_eq!((row(&copy), row(&table)), (Some(200), Some(7)));
        assert_eq!((copy.iter().count(), table.iter().count(), table.len()), (300, 299, 300));
    }

    #[test]
    fn a_row_that_changed_in_several_samples_comes_once() {
        let mut table = table(300);
        for sample in 2..6 {
            table.set(5, sample, sample);
            table.set(100 + sample as u32, 0, sample);
        }
        assert_eq!(table.changed_after(3), [104, 5, 105]);
        assert_eq!(table.changed_after(5), [0_u32; 0]);
        assert_eq!(table.changed_after(0).len(), 300);
    }

    #[test]
    fn a_viewer_that_is_far_behind_gets_every_row_that_changed() {
        let mut table = table(300);
        for sample in 2..100 {
            table.set(sample as u32, 0, sample);
        }
        let mut changed = table.changed_after(50);
        changed.sort_unstable();
        assert!(changed.into_iter().eq(51..100));
    }

    #[test]
    fn a_table_of_which_most_is_gone_is_sparse() {
        let mut table = table(300);
        assert!(!table.is_sparse());
        (0..200).for_each(|at| table.remove(at, 2));
        assert!(table.is_sparse());
        assert_eq!(table.changed_after(1).len(), 200);
    }
}
