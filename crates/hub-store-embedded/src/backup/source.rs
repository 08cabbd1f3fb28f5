//! What a backup copies.

use super::BackupError;
use crate::disk::{Disk, read_all};
use crate::manifest::{self, Manifest};
use crate::recover::{BadFormat, FORMAT, parse_format};
use hub_core::store::LogEnd;
use std::path::PathBuf;

/// A data directory as of one moment.
pub struct Source<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) manifest: Manifest,
    /// Where the log ends; `None` for a directory that no hub uses, where everything counts.
    pub(super) end: Option<LogEnd>,
}

impl<'a> Source<'a> {
    /// The directory of a hub that runs and has [pinned](hub_core::store::EventStore::pin_files) its files.
    ///
    /// # Errors
    /// If the manifest is none that this program can read.
    pub fn pinned(disk: &'a dyn Disk, manifest: &[u8], end: LogEnd) -> Result<Self, BackupError> {
        let manifest = Manifest::decode(manifest)
            .map_err(|error| BackupError::Refused(format!("the hub's manifest cannot be read: {error}")))?;
        Ok(Self { disk, manifest, end: Some(end) })
    }

    /// A directory that no hub uses. Its lock has to be held until the backup is over.
    ///
    /// # Errors
    /// If it is no data directory, or its manifest cannot be read.
    pub fn stopped(disk: &'a dyn Disk) -> Result<Self, BackupError> {
        let place = disk.place();
        let newest = manifest::newest(disk)
            .map_err(|error| BackupError::io(format!("reading the manifest in {place}"), error))?;
        let manifest = *newest.ok_or_else(|| {
            BackupError::Refused(format!(
                "{place} has no manifest that can be read; `event-hub doctor {place}` says what is wrong"
            ))
        })?;
        Ok(Self { disk, manifest, end: None })
    }

    /// Where it is in the file system.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.disk.path_of("").and_then(|path| path.canonicalize().ok())
    }

    /// The bytes of the file that says what the directory is.
    pub(super) fn format(&self) -> Result<Vec<u8>, BackupError> {
        let place = self.disk.place();
        let bytes = self.disk.open(FORMAT).and_then(|file| read_all(&*file));
        let bytes = bytes.map_err(|error| BackupError::io(format!("reading {place}/{FORMAT}"), error))?;
        match parse_format(&bytes) {
            Ok(_) => Ok(bytes),
            Err(BadFormat::Newer(found)) => Err(BackupError::Refused(format!(
                "{place} has format {found}, which a later version wrote; use that version"
            ))),
            Err(BadFormat::Wrong(what)) => Err(BackupError::Refused(format!(
                "{place}/{FORMAT} {what}; `event-hub doctor {place}` says what can be done"
            ))),
        }
    }
}
