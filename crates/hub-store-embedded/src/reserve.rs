//! Room that is kept for the store's own records: a file of zeros that is given up when the disk is full.
//!
//! Without it a full disk could not be freed: what retention takes away has to be written down before its room comes
//! back, and a start writes that it has happened.

use crate::disk::Disk;
use std::io;

/// The file.
pub const NAME: &str = "reserve";

/// The least bytes of a segment that is begun on a full disk.
const SMALLEST_SEGMENT: u64 = 1024;

/// Whether an error says that the disk is full.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Bytes of a segment for the store's own records on a full disk: a part of the reserve, so that there is more of it
/// for the next ones and for the manifest.
pub fn small_segment(reserve: u64, segment: u64) -> u64 {
    (reserve / 4).max(SMALLEST_SEGMENT).min(segment / 2)
}

/// Removes the reserve; whether there was one.
pub fn give_up(disk: &dyn Disk) -> io::Result<bool> {
    match disk.remove(NAME) {
        Ok(()) => disk.sync_names().map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
