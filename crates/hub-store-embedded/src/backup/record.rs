//! `backup.json`: says that a directory is a backup, and what an incremental one has to know of it.

use super::BackupError;
use crate::disk::{Disk, RealDisk, read_all};
use crate::manifest::write_file;
use serde::{Deserialize, Serialize};
use std::io;

/// The file.
pub const NAME: &str = "backup.json";
/// Of the file's form.
pub(super) const VERSION: u32 = 1;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedFile {
    pub name: String,
    /// Bytes that count.
    pub bytes: u64,
    /// The checksum of those bytes; none for a hard link to a file of the hub, which nobody has read.
    pub crc32c: Option<u32>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub version: u32,
    /// When the backup was begun, in milliseconds since 1970.
    pub taken: u64,
    pub files: Vec<RecordedFile>,
}

impl Record {
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        write_file(disk, NAME, &text)
    }

    /// The record of a backup; `None` if it cannot be read, and nothing of that backup is used again.
    pub fn read(disk: &dyn Disk) -> io::Result<Option<Self>> {
        let bytes = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => read_all(&*file?)?,
        };
        let record: Option<Self> = serde_json::from_slice(&bytes).ok();
        Ok(record.filter(|record| record.version == VERSION))
    }
}

/// The backup before this one.
pub(super) struct Previous {
    pub disk: RealDisk,
    pub record: Record,
}

impl Previous {
    /// The backup in a directory, if there is one of which files can be used again.
    pub fn open(disk: RealDisk) -> Result<Option<Self>, BackupError> {
        let place = disk.place();
        let record = Record::read(&disk);
        let record = record.map_err(|error| BackupError::io(format!("reading {place}/{NAME}"), error))?;
        Ok(record.map(|record| Self { disk, record }))
    }

    /// What it knows of a file.
    pub fn file(&self, name: &str) -> Option<&RecordedFile> {
        self.record.files.iter().find(|file| file.name == name)
    }
}
