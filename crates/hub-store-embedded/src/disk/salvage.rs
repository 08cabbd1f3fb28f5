//! Sectors that cannot be read: what they held is lost, and everything around them is not.

use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// What a disk reads in one piece or not at all.
const SECTOR: u64 = 512;
/// A sector that cannot be read is asked for so many times in all.
const TRIES: usize = 3;

/// Whether an error says that the disk cannot read these bytes, now or ever.
pub fn is_unreadable(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NODATA))
}

/// Reads a file around its bad sectors, and remembers them.
pub(super) struct Salvage {
    /// The file, for people.
    name: String,
    /// Between two tries.
    pause: Duration,
    /// Where sectors begin that cannot be read.
    bad: Mutex<BTreeSet<u64>>,
}

impl Salvage {
    pub fn new(name: impl Into<String>, pause: Duration) -> Self {
        Self { name: name.into(), pause, bad: Mutex::default() }
    }

    /// The sectors that could not be read so far.
    pub fn unreadable(&self) -> Vec<Range<u64>> {
        self.bad.lock().iter().map(|&at| at..at + SECTOR).collect()
    }

    /// Reads with `read`, again where that fails. Bytes that cannot be read are zeros, which no checksum holds for; if
    /// the first and the last sector of the file cannot be read either, it is not for a bad sector: that is an error.
    pub fn read(
        &self,
        into: &mut [u8],
        offset: u64,
        size: impl Fn() -> io::Result<u64>,
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let tried = self.tried(into, offset, &read);
        if !tried.as_ref().is_err_and(is_unreadable) {
            return tried;
        }
        let size = size()?;
        let ends = [0, size.saturating_sub(1) / SECTOR * SECTOR];
        if ends.iter().all(|&at| self.tried(&mut [0; SECTOR as usize], at, &read).is_err()) {
            return tried;
        }
        let wanted = (into.len() as u64).min(size.saturating_sub(offset));
        let mut done = 0;
        while done < wanted {
            let at = offset + done;
            let len = (SECTOR - at % SECTOR).min(wanted - done);
            let piece = &mut into[done as usize..(done + len) as usize];
            match self.tried(piece, at, &read) {
                Ok(_) => {}
                Err(error) if is_unreadable(&error) => {
                    piece.fill(0);
                    self.note(at / SECTOR * SECTOR, &error);
                }
                Err(error) => return Err(error),
            }
            done += len;
        }
        Ok(wanted as usize)
    }

    fn tried(
        &self,
        into: &mut [u8],
        offset: u64,
        read: &impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let is_known = self.bad.lock().contains(&(offset / SECTOR * SECTOR));
        let tries = if is_known { 1 } else { TRIES };
        let mut answer = read(into, offset);
        for _ in 1..tries {
            if !answer.as_ref().is_err_and(is_unreadable) {
                break;
            }
            std::thread::sleep(self.pause);
            answer = read(into, offset);
        }
        answer
    }

    fn note(&self, at: u64, error: &io::Error) {
        if self.bad.lock().insert(at) {
            tracing::error!(file = self.name, at, bytes = SECTOR, %error, "the disk cannot read a sector");
        }
    }
}
