//! The files of a store, held in place for a copy.

use std::fmt;
use std::path::PathBuf;

/// The files of a store as of one moment, for a copy that is made while the store is used.
///
/// Files that the manifest names, and those of the log up to [`LogEnd`], are not removed before this is dropped.
pub struct PinnedFiles {
    /// The directory, as an absolute path.
    pub directory: PathBuf,
    /// The store's own list of its sealed files, in the store's own format.
    pub manifest: Vec<u8>,
    /// How far the log went at that moment.
    pub end: LogEnd,
    /// Releases the files when it is dropped.
    pub guard: Box<dyn Send + Sync>,
}

/// The end of a log: everything that was acknowledged before lies in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The number of the segment that is written to.
    pub segment: u64,
    /// The random number in the header of that segment, which tells the file from another one of the same name.
    pub nonce: u64,
    /// Bytes of the segment that count.
    pub bytes: u64,
    /// The number of the last commit.
    pub commit: u64,
}

impl fmt::Debug for PinnedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, end, .. } = self;
        f.debug_struct("PinnedFiles").field("directory", directory).field("end", end).finish_non_exhaustive()
    }
}
