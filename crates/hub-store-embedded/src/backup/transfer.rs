//! Linking, reusing and copying files.

use super::files::{Kind, SourceFile};
use super::outcome::Outcome;
use super::record::{Previous, RecordedFile};
use super::{BackupError, Phase, Progress};
use crate::disk::{Disk, DiskFile, Wait};
use crate::reserve::is_disk_full;
use std::io;
use std::sync::Arc;

/// Bytes read and written at once.
const BLOCK: usize = 1 << 20;
/// Bytes written between two syncs: a commit of the hub that is synced to the same disk waits for no more than these.
const UNSYNCED: u64 = 4 << 20;

/// See the module.
pub(super) struct Transfer<'a> {
    pub source: &'a dyn Disk,
    pub previous: Option<&'a Previous>,
    pub target: &'a dyn Disk,
    /// Copies files also where a hard link would do.
    pub copy: bool,
}

impl Transfer<'_> {
    /// Brings all files to the target. What it answers is durable after the names are synced.
    pub fn run(
        &self,
        files: &[SourceFile],
        progress: &mut Progress<'_>,
    ) -> Result<(Outcome, Vec<RecordedFile>), BackupError> {
        let (mut outcome, mut recorded) = (Outcome::default(), Vec::new());
        let (mut done, total) = (0, files.iter().map(|file| file.bytes).sum());
        for file in files {
            progress(Phase::Copying, &file.name, done, total);
            let crc32c = if self.linked(file)? {
                outcome.linked.add(file.bytes);
                None
            } else if let Some(sum) = self.reused(file)? {
                outcome.reused.add(file.bytes);
                Some(sum)
            } else {
                let mut tell = |bytes| progress(Phase::Copying, &file.name, done + bytes, total);
                let Some((bytes, sum)) = self.copied(file, &mut tell)? else { continue };
                outcome.copied.add(bytes);
                Some(sum)
            };
            recorded.push(RecordedFile { name: file.name.clone(), bytes: file.bytes, crc32c });
            done += file.bytes;
        }
        progress(Phase::Copying, "", total, total);
        Ok((outcome, recorded))
    }

    /// Whether the file is a hard link to that of the source now.
    fn linked(&self, file: &SourceFile) -> Result<bool, BackupError> {
        if self.copy || file.kind != Kind::Sealed {
            return Ok(false);
        }
        let Some(path) = self.source.path_of(&file.name) else { return Ok(false) };
        match self.target.link(&path, &file.name) {
            Err(error) if is_disk_full(&error) => Err(BackupError::target(&self.target.place(), error)),
            // Another file system, one without links, too many of them, or no right to: a copy will do.
            linked => Ok(linked.is_ok()),
        }
    }

    /// The checksum of a file of the backup before that is the same, and that this one has now, too.
    fn reused(&self, file: &SourceFile) -> Result<Option<u32>, BackupError> {
        let Some(previous) = self.previous else { return Ok(None) };
        let Some(recorded) = previous.file(&file.name).filter(|recorded| recorded.bytes == file.bytes) else {
            return Ok(None);
        };
        if file.head.is_empty() || file.kind != Kind::Sealed {
            return Ok(None);
        }
        // What cannot be read there is copied from the source.
        let is_same = matches!(is_same(&previous.disk, file, recorded), Ok(true));
        let linked = match previous.disk.path_of(&file.name).filter(|_| is_same) {
            Some(path) => self.target.link(&path, &file.name).is_ok(),
            None => false,
        };
        Ok(recorded.crc32c.filter(|_| linked))
    }

    /// Copies a file; answers how many bytes were written, and the checksum of all. `None` if it is gone.
    fn copied(
        &self,
        file: &SourceFile,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Option<(u64, u32)>, BackupError> {
        let reading =
            |error| BackupError::io(format!("reading {}/{}", self.source.place(), file.name), error);
        let writing = |error| BackupError::target(&self.target.place(), error);
        let from = match self.source.open(&file.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            from => from.map_err(reading)?,
        };
        let to = self.target.create(&file.name).map_err(writing)?;
        let (mut at, mut sum, mut written, mut unsynced) = (0, 0, 0, 0);
        let mut block = vec![0; BLOCK];
        while at < file.bytes {
            let want = BLOCK.min((file.bytes - at) as usize);
            let read = from.read_at(&mut block[..want], at, Wait::Yes).map_err(reading)?;
            if read == 0 {
                // Shorter than it should be, which the verification names.
                break;
            }
            let bytes = &block[..read];
            sum = crc32c::crc32c_append(sum, bytes);
            // The room of a log that was not written to stays a hole.
            if file.kind != Kind::Log || bytes.iter().any(|byte| *byte != 0) {
                to.write_at(bytes, at).map_err(writing)?;
                written += read as u64;
                unsynced += read as u64;
            }
            at += read as u64;
            if unsynced >= UNSYNCED {
                to.sync().map_err(writing)?;
                unsynced = 0;
            }
            tell(at);
        }
        set_len(&to, file.len).and_then(|()| to.sync()).map_err(writing)?;
        Ok(Some((written, sum)))
    }
}

/// Makes a log as long as it was made.
fn set_len(file: &Arc<dyn DiskFile>, len: u64) -> io::Result<()> {
    if file.size()? < len { file.set_len(len) } else { Ok(()) }
}

/// Whether a file of the backup before is the one of the source, and as it was written.
fn is_same(disk: &dyn Disk, file: &SourceFile, recorded: &RecordedFile) -> io::Result<bool> {
    let Some(expected) = recorded.crc32c else { return Ok(false) };
    let copy = disk.open(&file.name)?;
    let mut head = vec![0; file.head.len()];
    let read = copy.read_at(&mut head, 0, Wait::Yes)?;
    if copy.size()? != file.bytes || head[..read] != file.head {
        return Ok(false);
    }
    let (mut at, mut sum, mut block) = (0, 0, vec![0; BLOCK]);
    loop {
        let read = copy.read_at(&mut block, at, Wait::Yes)?;
        if read == 0 {
            return Ok(at == file.bytes && sum == expected);
        }
        sum = crc32c::crc32c_append(sum, &block[..read]);
        at += read as u64;
    }
}
