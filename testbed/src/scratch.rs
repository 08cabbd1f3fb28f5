//! Directories for the data of servers, which do not pile up.
//!
//! A directory has a file `lock`, locked by whoever uses it: the process that made it, its watchdog and its servers, since
//! a lock belongs to all handles of one opening. A directory whose lock is free is what a crash has left, and the next
//! one who makes a directory removes it.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cache;

const PREFIX: &str = "event-hub-testbed-";
/// A directory without a lock file is being made, unless it is older than this.
const BEING_MADE: Duration = Duration::from_secs(60);

/// A directory that is ours. It is removed by its watchdog, or by a later process.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    lock: File,
}

impl Scratch {
    /// Makes one in the system's directory for temporary files, and removes those that nobody uses any more.
    pub fn new() -> Result<Self> {
        Self::new_in(&env::temp_dir())
    }

    fn new_in(parent: &Path) -> Result<Self> {
        remove_stale(parent);
        for _ in 0..10 {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
            let dir = dir.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
            let lock = cache::lock_file(&dir.path().join("lock"))?;
            lock.lock().context("cannot lock a directory of our own")?;
            // Somebody who cleans may have been faster with the lock; then the file is gone.
            if lock.metadata()?.nlink() > 0 {
                return Ok(Self { path: dir.keep(), lock });
            }
        }
        bail!("directories made in {} are removed at once; by whom?", parent.display())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For the standard output of a child: as long as the child lives, the directory counts as used.
    pub fn held_by_child(&self) -> Result<Stdio> {
        Ok(self.lock.try_clone().context("cannot pass a lock on")?.into())
    }
}

/// Removes what nobody holds. What cannot be removed (another user's, say) stays.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match File::open(path.join("lock")) {
            // Removed while the lock is held: its maker, if there still is one, sees that it is gone.
            Ok(lock) if lock.try_lock().is_ok() => {
                let _ = fs::remove_dir_all(&path);
            }
            Ok(_) => {}
            Err(_) => {
                let age = entry.metadata().and_then(|data| data.modified()).ok();
                if age.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > BEING_MADE) {
                    let _ = fs::remove_dir_all(&path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_by_the_next_and_what_is_held_stays() {
        let parent = tempfile::tempdir().unwrap();
        let left = Scratch::new_in(parent.path()).unwrap();
        let held = Scratch::new_in(parent.path()).unwrap();
        let left_path = left.path().to_owned();
        fs::create_dir(left_path.join("data")).unwrap();
        drop(left);
        assert!(left_path.exists());
        let new = Scratch::new_in(parent.path()).unwrap();
        assert!(!left_path.exists());
        assert!(held.path().exists() && new.path().exists());
    }

    #[test]
    fn other_directories_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let other = parent.path().join("something-else");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("lock"), "").unwrap();
        Scratch::new_in(parent.path()).unwrap();
        assert!(other.exists());
    }
}
