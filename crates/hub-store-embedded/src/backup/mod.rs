//! A copy of a data directory, made while a hub uses it or while none does: what `event-hub backup` runs.
//!
//! The copy is what a crash at one moment would have left: the manifest of that moment, the segments that it names, and the log
//! behind them up to the last commit ([`LogEnd`]). Opening it replays the log as after a crash.
//!
//! # Invariants
//!
//! 1. Segments that the manifest names are never written to again, only shortened to the bytes that count: a hard link is as good as
//!    a copy. Those behind the manifest are copied, because a start on the copy may write to them.
//! 2. Files keep their identity in their first bytes: a segment's header has a random number that no other one has, a sidecar's has
//!    the checksums of everything in it. A file of an earlier backup is used again only if these bytes, its length and its checksum
//!    are the same.
//! 3. `format` is written last, when everything else is durable and verified. A directory without it does not open.
//! 4. The copy gets its name when it is whole; until then the earlier backup stays as it is.
//!
//! | | |
//! | --- | --- |
//! | `source` | what is copied: the manifest and the end of the log |
//! | `files` | the list of files, with how many bytes of each count |
//! | `transfer` | linking, reusing and copying them |
//! | `record` | `backup.json`: what an incremental backup has to know of the one before |
//! | `verify` | the examination of the copy |
//! | `directory` | where the copy is made, and how it takes the place of the one before |

mod directory;
mod files;
mod outcome;
mod record;
mod source;
mod transfer;
mod verify;

pub use hub_core::store::LogEnd;
pub use outcome::{Amount, Outcome, Verified};
pub use record::NAME as RECORD;
pub use source::Source;

use crate::disk::{Disk, RealDisk};
use crate::doctor::DoctorError;
use crate::doctor::report::Finding;
use crate::manifest::write_file;
use crate::recover::FORMAT;
use directory::StagingDirectory;
use record::Record;
use std::io;
use std::path::Path;

/// Settings of a backup.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupOptions {
    /// Copies files also where a hard link would do.
    pub copy: bool,
    /// Finishes the backup although something in it is damaged.
    pub allow_damage: bool,
}

/// What a backup is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Files are linked or copied.
    Copying,
    /// The copy is read from its first byte to its last.
    Verifying,
}

/// Told of the phase, the file, and how many of how many bytes are done.
pub type Progress<'a> = dyn FnMut(Phase, &str, u64, u64) + 'a;

/// Why there is no backup. The earlier one, if there is one, is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The source or the target is not fit for it.
    #[error("{0}")]
    Refused(String),
    /// Something in the source is damaged.
    #[error("a part of the store is damaged: {}", describe(.0))]
    Damaged(Vec<Finding>),
    /// The target's disk has no room left.
    #[error("the disk of {0} is full: make room, or choose a directory on another disk")]
    Full(String),
    /// The disk.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        error: io::Error,
    },
}

impl BackupError {
    fn io(what: impl Into<String>, error: io::Error) -> Self {
        Self::Io { what: what.into(), error }
    }

    /// An error of the disk that the copy is on.
    fn target(place: &str, error: io::Error) -> Self {
        match crate::reserve::is_disk_full(&error) {
            true => Self::Full(place.to_owned()),
            false => Self::io(format!("writing {place}"), error),
        }
    }
}

impl From<DoctorError> for BackupError {
    fn from(error: DoctorError) -> Self {
        match error {
            DoctorError::Io { what, error } => Self::Io { what, error },
            error => Self::Refused(error.to_string()),
        }
    }
}

fn describe(findings: &[Finding]) -> String {
    let told: Vec<String> =
        findings.iter().map(|finding| format!("{}: {}", finding.place(), finding.what)).collect();
    told.join("; ")
}

/// Makes a backup in a directory of the file system, or brings the one that is there up to date. `now` is the time in milliseconds
/// since 1970.
///
/// # Errors
/// If the directory is not fit for it, the source is damaged, or a disk fails. Then an earlier backup in it is as it was.
pub fn run(
    source: &Source<'_>,
    target: &Path,
    options: BackupOptions,
    now: u64,
    progress: &mut Progress<'_>,
) -> Result<Outcome, BackupError> {
    let staging = StagingDirectory::prepare(target, source.directory().as_deref())?;
    let previous = staging.previous()?;
    let made = RealDisk::existing(staging.partial())
        .map_err(|error| BackupError::target(&staging.shown(), error))
        .and_then(|disk| copy_from(source, previous.as_ref(), &disk, options, now, progress));
    let finished = made.and_then(|outcome| staging.finish().map(|()| outcome));
    match finished {
        Ok(outcome) => Ok(Outcome { directory: staging.shown(), ..outcome }),
        Err(error) => {
            // Room for others; the next run removes what is left.
            staging.discard();
            match error {
                BackupError::Full(_) => Err(BackupError::Full(staging.shown())),
                error => Err(error),
            }
        }
    }
}

/// Makes a copy on an empty disk. It opens from the moment on at which this succeeds.
///
/// # Errors
/// As [`run`]; what was written does not open then.
pub fn copy_to(
    source: &Source<'_>,
    target: &dyn Disk,
    options: BackupOptions,
    now: u64,
    progress: &mut Progress<'_>,
) -> Result<Outcome, BackupError> {
    copy_from(source, None, target, options, now, progress)
}

fn copy_from(
    source: &Source<'_>,
    previous: Option<&record::Previous>,
    target: &dyn Disk,
    options: BackupOptions,
    now: u64,
    progress: &mut Progress<'_>,
) -> Result<Outcome, BackupError> {
    let place = target.place();
    let format = source.format()?;
    let files = files::list(source)?;
    let transfer = transfer::Transfer { source: source.disk, previous, target, copy: options.copy };
    let (mut outcome, recorded) = transfer.run(&files, progress)?;
    let during = |error| BackupError::target(&place, error);
    source.manifest.write(target).map_err(during)?;
    outcome.taken = now;
    Record { version: record::VERSION, taken: now, files: recorded }.write(target).map_err(during)?;
    target.sync_names().map_err(during)?;
    outcome.verified = verify::verify(source, target, options.allow_damage, progress)?;
    write_file(target, FORMAT, &format).map_err(during)?;
    Ok(outcome)
}
