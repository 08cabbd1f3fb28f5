//! Looking for a number among sorted rows in a file, by few reads.

use super::read::SidecarError;

/// Rows that one read of a search takes: 8 KiB of 12 bytes. Half of it is more than a search by proportion is wrong
/// by, mostly, among as many hashes as a segment has.
const ROWS: u64 = 8192 / 12;

/// Sorted rows, of which the number decides.
pub(super) struct Sorted<R, N> {
    /// How many there are.
    pub count: u64,
    /// Bytes of each.
    pub stride: usize,
    /// The lowest and the highest number there may be.
    pub span: (u64, u64),
    /// Reads `.1` rows from row `.0` on.
    pub read: R,
    /// The number of a row.
    pub number: N,
}

impl<R, N> Sorted<R, N>
where
    R: Fn(u64, u64) -> Result<Vec<u8>, SidecarError>,
    N: Fn(&[u8]) -> u64,
{
    /// The first row whose number is not below `target`; and those of the rows from there on that happen to be read.
    ///
    /// Guesses by proportion, every other time halves: numbers that are not uniform, or not sorted, cost some more
    /// reads and no more than that.
    pub fn seek(&self, target: u64) -> Result<(u64, Vec<u8>), SidecarError> {
        // Rows before `low` are below the target, rows from `high` on are not.
        let (mut low, mut high) = (0, self.count);
        let (mut floor, mut ceiling) = self.span;
        let mut guess = true;
        while low < high {
            let (wide, count) = (high - low, ROWS.min(high - low));
            let middle = if guess { proportion(target, floor, ceiling, wide) } else { wide / 2 };
            guess = !guess;
            let at = low + middle.saturating_sub(count / 2).min(wide - count);
            let mut rows = (self.read)(at, count)?;
            let number = |row: usize| (self.number)(&rows[row * self.stride..(row + 1) * self.stride]);
            let below = partition_point(count as usize, |row| number(row) < target);
            if below == 0 && at > low {
                (high, ceiling) = (at, number(0));
            } else if below as u64 == count && at + count < high {
                (low, floor) = (at + count, number(below - 1));
            } else {
                rows.drain(..below * self.stride);
                return Ok((at + below as u64, rows));
            }
        }
        Ok((high, Vec::new()))
    }
}

/// How far into `wide` rows the target is, if their numbers are spread evenly.
fn proportion(target: u64, floor: u64, ceiling: u64, wide: u64) -> u64 {
    let span = u128::from(ceiling.saturating_sub(floor)).max(1);
    let into = u128::from(target.saturating_sub(floor)).min(span);
    (into * u128::from(wide) / span) as u64
}

/// As that of a slice, over numbers from 0.
fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
