//! Examining a directory, and repairing it: what `event-hub doctor` and `event-hub store stat` run.
//!
//! [`examine`] reads every file from its first byte to its last and writes nothing; [`repair`] does what it is asked to
//! and no more, and puts a copy of whatever it changes into `quarantine/` first; [`stat`] answers with figures, from the
//! manifest and the sidecars where they are. Memory is bounded by one segment's index and a compressed set of seqs per
//! topic, however large the directory is.
//!
//! | | |
//! | --- | --- |
//! | `files` | what is in the directory, by name |
//! | `pieces` | the segments in the order of the log, with a manifest or without |
//! | `model` | what they say, taken together |
//! | `examine`, `sidecars` | what is wrong with them, in words |
//! | `repair`, `cover` | the repairs |
//! | [`report`] | the answer |
//! | `stat` | figures |

mod cover;
mod examine;
mod files;
mod model;
mod pieces;
mod repair;
pub mod report;
mod sidecars;
mod stat;

pub use report::{Action, Report};
pub use stat::{SegmentStat, Stat, TopicStat, Totals};

use crate::disk::Disk;
use crate::format::header::VERSION;
use std::io;

/// The repairs, as the command line names them.
pub mod flags {
    /// Writes missing and bad sidecars anew.
    pub const REBUILD_SIDECARS: &str = "--rebuild-sidecars";
    /// Makes the manifest from the segments, or from its other copy.
    pub const REBUILD_MANIFEST: &str = "--rebuild-manifest";
    /// Writes the format file anew.
    pub const RESTORE_FORMAT: &str = "--restore-format";
    /// Writes damaged segments anew, without what is damaged.
    pub const DROP_DAMAGED: &str = "--drop-damaged";
}

/// Why a directory could not be examined.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// It is not what a store leaves behind.
    #[error(
        "{0} is not an event-hub data directory: it has no file `format`, no manifest (`manifest.1`) and no segment \
         (`log-00000001`)"
    )]
    NotAStore(String),
    /// Somebody uses it.
    #[error("a hub is using {place} ({who}); stop it first, or look at a copy of the directory")]
    InUse {
        /// Where.
        place: String,
        /// Which process.
        who: String,
    },
    /// A later version wrote it.
    #[error(
        "{place} has format {found}, this program knows format {VERSION}; use the version that wrote it, or a later one"
    )]
    Newer {
        /// Where.
        place: String,
        /// The format found.
        found: u32,
    },
    /// A repair was not carried out: nothing was changed by it.
    #[error("{0}")]
    Refused(String),
    /// The disk.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        error: io::Error,
    },
}

/// Told which segment is being read, how many bytes are done, and how many there are.
pub type Progress<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// What is to be repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// [`flags::RESTORE_FORMAT`].
    pub restore_format: bool,
    /// [`flags::REBUILD_MANIFEST`].
    pub rebuild_manifest: bool,
    /// [`flags::DROP_DAMAGED`].
    pub drop_damaged: bool,
    /// [`flags::REBUILD_SIDECARS`].
    pub rebuild_sidecars: bool,
}

impl Repairs {
    /// Whether anything is asked for.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Reads every file of a directory that no hub uses, and says what is wrong. Writes nothing, on a disk that cannot be
/// written to either.
///
/// # Errors
/// If it is in use, cannot be read, or is no data directory.
pub fn examine(disk: &dyn Disk, progress: &mut Progress<'_>) -> Result<Report, DoctorError> {
    let _lock = lock(disk)?;
    examine::examine(disk, progress).map(|examination| examination.report)
}

/// The same for a copy that is being made; answers the number of the last commit, too.
pub(crate) fn examine_copy(
    disk: &dyn Disk,
    progress: &mut Progress<'_>,
) -> Result<(Report, u64), DoctorError> {
    let examination = examine::examine(disk, progress)?;
    Ok((examination.report, examination.last_commit))
}

/// Carries out repairs, one after the other, and examines again. `stamp` goes into the names of copies: when they were
/// made.
///
/// # Errors
/// As [`examine`]; and if a repair cannot be carried out, above all because the copy that comes first fails.
pub fn repair(
    disk: &dyn Disk,
    repairs: Repairs,
    stamp: &str,
    progress: &mut Progress<'_>,
) -> Result<(Vec<Action>, Report), DoctorError> {
    // A lock is a file: none is made where there is no store.
    files::Files::read(disk)?;
    let _lock = lock(disk)?;
    repair::repair(disk, repairs, stamp, progress)
}

/// Figures about a directory, which a hub may be using.
///
/// # Errors
/// If it cannot be read, or is no data directory.
pub fn stat(disk: &dyn Disk) -> Result<Stat, DoctorError> {
    stat::stat(disk)
}

fn lock(disk: &dyn Disk) -> Result<Box<dyn Send + Sync>, DoctorError> {
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => DoctorError::InUse { place: disk.place(), who: error.to_string() },
        _ => DoctorError::Io { what: format!("locking {}", disk.place()), error },
    })
}
