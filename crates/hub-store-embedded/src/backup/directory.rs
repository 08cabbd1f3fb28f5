//! Where a backup is made, and how it takes the place of the one before.
//!
//! A backup in `DIR` is made in `DIR.partial` beside it, which gets the name `DIR` when it is whole.

use super::record::{self, Previous};
use super::{BackupError, RECORD};
use crate::disk::{Disk, RealDisk};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file that a hub has locked, and leaves behind.
const LOCK: &str = "lock";
/// Says that a directory is a backup in the making.
const UNFINISHED: &str = "unfinished";

/// See the module.
pub(super) struct StagingDirectory {
    target: PathBuf,
    partial: PathBuf,
    /// Where the backup before is for a moment, on file systems that cannot exchange two names.
    replaced: PathBuf,
    /// The lock of the directory in the making: one backup at a time.
    _lock: File,
}

impl StagingDirectory {
    /// Checks the target, and makes an empty directory beside it. `source` is the data directory.
    pub fn prepare(target: &Path, source: Option<&Path>) -> Result<Self, BackupError> {
        let target = absolute(target)?;
        let shown = target.display();
        if let Some(source) = source {
            let data = source.display();
            if target == source {
                return Err(refused(format!("{shown} is the data directory itself; choose another one")));
            }
            if target.starts_with(source) {
                return Err(refused(format!(
                    "{shown} is inside the data directory {data}; choose another one"
                )));
            }
            if source.starts_with(&target) {
                return Err(refused(format!(
                    "the data directory {data} is inside {shown}; choose another one"
                )));
            }
        }
        let (partial, replaced) = (beside(&target, ".partial"), beside(&target, ".replaced"));
        if !target.exists() && is_backup(&replaced) {
            // The last run ended between two names.
            fs::rename(&replaced, &target).map_err(|error| BackupError::target(&shown.to_string(), error))?;
        }
        check_target(&target)?;
        let lock = make_partial(&partial, &target)?;
        let staging = Self { target, partial, replaced, _lock: lock };
        staging.empty().map_err(|error| BackupError::target(&staging.shown(), error))?;
        Ok(staging)
    }

    /// Where the copy will be.
    pub fn shown(&self) -> String {
        self.target.display().to_string()
    }

    /// Where it is made.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// The backup that is there.
    pub fn previous(&self) -> Result<Option<Previous>, BackupError> {
        match RealDisk::read_only(&self.target) {
            Ok(disk) => Previous::open(disk),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::io(format!("reading {}", self.shown()), error)),
        }
    }

    /// Removes what a run before has left, and marks the directory as unfinished.
    fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.partial)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        fs::write(self.partial.join(UNFINISHED), "the next `event-hub backup` removes this directory\n")
    }

    /// Gives the copy its name.
    pub fn finish(&self) -> Result<(), BackupError> {
        let during = |error| BackupError::target(&self.shown(), error);
        fs::remove_file(self.partial.join(UNFINISHED)).map_err(during)?;
        sync(&self.partial).map_err(during)?;
        // A hub may have been started on the backup before meanwhile.
        check_target(&self.target)?;
        let old = self.rename().map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::XDEV) => mount_point(&self.target),
            _ => during(error),
        })?;
        if let Some(parent) = self.target.parent() {
            sync(parent).map_err(during)?;
        }
        match old {
            // The next run removes what is left.
            Some(old) => fs::remove_dir_all(old).map_err(during),
            None => Ok(()),
        }
    }

    /// Puts the copy in the place of the backup before; answers where that is now.
    fn rename(&self) -> io::Result<Option<&Path>> {
        if !is_backup(&self.target) {
            // Nothing is there, or an empty directory.
            return fs::rename(&self.partial, &self.target).map(|()| None);
        }
        match exchange(&self.partial, &self.target) {
            Err(error) if is_unsupported(&error) => {}
            exchanged => return exchanged.map(|()| Some(&*self.partial)),
        }
        match fs::remove_dir_all(&self.replaced) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(&self.target, &self.replaced)?;
        if let Err(error) = fs::rename(&self.partial, &self.target) {
            // The backup before is one again. If that fails, too, the next run does it.
            let _ = fs::rename(&self.replaced, &self.target);
            return Err(error);
        }
        Ok(Some(&self.replaced))
    }

    /// Removes what was made.
    pub fn discard(&self) {
        if let Err(error) = fs::remove_dir_all(&self.partial) {
            tracing::warn!(%error, directory = %self.partial.display(), "unfinished backup not removed");
        }
    }
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

fn refused(what: String) -> BackupError {
    BackupError::Refused(what)
}

/// The target without links and dots, where its parent is there or can be made.
fn absolute(target: &Path) -> Result<PathBuf, BackupError> {
    let shown = target.display();
    let during = |error| BackupError::target(&shown.to_string(), error);
    if target.exists() {
        return target.canonicalize().map_err(during);
    }
    let Some(name) = target.file_name() else {
        return Err(refused(format!("{shown} is no name of a directory")));
    };
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Its names are made durable, too.
    RealDisk::new(parent).map_err(during)?;
    Ok(parent.canonicalize().map_err(during)?.join(name))
}

fn beside(target: &Path, end: &str) -> PathBuf {
    let mut name = target.file_name().map_or_else(OsString::new, OsString::from);
    name.push(end);
    target.with_file_name(name)
}

/// Whether a directory is on another file system than the one above it.
fn is_mount_point(path: &Path) -> io::Result<bool> {
    let Some(parent) = path.parent() else { return Ok(true) };
    Ok(fs::metadata(path)?.dev() != fs::metadata(parent)?.dev())
}

fn mount_point(path: &Path) -> BackupError {
    let shown = path.display();
    refused(format!(
        "{shown} is a mount point, which no copy can take the place of; choose a directory below it"
    ))
}

fn is_backup(path: &Path) -> bool {
    path.join(RECORD).exists()
}

fn is_empty(path: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(path)?.next().is_none())
}

/// Refuses a target whose content is not for a backup to replace.
fn check_target(target: &Path) -> Result<(), BackupError> {
    let shown = target.display();
    let during = |error| BackupError::io(format!("reading {shown}"), error);
    if target.file_name().is_none() {
        return Err(refused(format!("{shown} cannot be replaced by a copy; choose a directory below it")));
    }
    if !target.exists() {
        return Ok(());
    }
    if is_mount_point(target).map_err(during)? {
        return Err(mount_point(target));
    }
    if !target.is_dir() {
        return Err(refused(format!("{shown} is not a directory")));
    }
    if target.join(LOCK).exists() {
        let disk = RealDisk::read_only(target).map_err(during)?;
        return Err(refused(match disk.lock() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("{shown} is the data directory of a hub that runs ({error}); choose another one")
            }
            _ => format!(
                "{shown} is a data directory: a hub was started on it, and it may hold events that are nowhere else; choose \
                 another one"
            ),
        }));
    }
    if !is_backup(target) && !is_empty(target).map_err(during)? {
        return Err(refused(format!(
            "{shown} is not empty, and not a backup (it has no {}); choose another one",
            record::NAME
        )));
    }
    Ok(())
}

/// Makes the directory that the copy is made in, for this user only, and locks it.
fn make_partial(partial: &Path, target: &Path) -> Result<File, BackupError> {
    let shown = partial.display();
    let during = |error| BackupError::target(&shown.to_string(), error);
    match DirBuilder::new().mode(0o700).create(partial) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(during(error)),
        _ => {}
    }
    let directory = File::open(partial).map_err(during)?;
    match directory.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(refused(format!("another backup to {} is being made", target.display())));
        }
        Err(TryLockError::Error(error)) => return Err(during(error)),
    }
    let is_ours = partial.join(UNFINISHED).exists() || is_backup(partial);
    if !is_ours && !is_empty(partial).map_err(during)? {
        return Err(refused(format!(
            "{shown} is in the way: the copy is made there, and it holds something else; move it away"
        )));
    }
    Ok(directory)
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
