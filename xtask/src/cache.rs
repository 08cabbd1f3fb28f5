//! The cache outside the clone: a build directory that stays warm over fresh clones, and tools that were built once.
//!
//! Sharing a build directory between clones is not safe by itself. Cargo names the artifacts of a workspace member by its
//! path *inside* the workspace and trusts modification times, so a clone checked out before another one was built gets
//! that other clone's artifacts: its tests pass or fail for code that is not its own. Cargo's own lock does not help, as
//! it is held per command. So a clone *claims* the directory for as long as it runs: the claim names its owner, a new
//! owner first removes what the workspace's members left there (dependencies stay, and they are what takes long), and
//! another clone waits. Commands of one clone share the claim.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};

use crate::process;

/// The profiles that a command here builds with, so the ones in which a former owner may have left artifacts.
const PROFILES: [&str; 2] = ["dev", "release"];

/// The cache of this user: `$EVENT_HUB_CACHE`, else `$XDG_CACHE_HOME/event-hub`, else `~/.cache/event-hub`.
///
/// `None` if the environment names none of them.
pub fn dir() -> Option<PathBuf> {
    dir_from(|name| env::var_os(name))
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("EVENT_HUB_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|dir| dir.join("event-hub")))
        .or_else(|| path("HOME").map(|dir| dir.join(".cache/event-hub")))
}

/// The right of one clone to build in the cache. Given up on drop, or when the process ends in any other way.
#[derive(Debug)]
pub struct Claim {
    target: PathBuf,
    /// Locked shared while the clone whose identity it holds builds, exclusively while the owner changes.
    owner: File,
}

impl Claim {
    /// Claims the build directory in `cache` for the clone at `root`; waits while another clone has it.
    pub fn take(cache: &Path, root: &Path) -> Result<Self> {
        let clean = |target: &Path| remove_members(root, target);
        Self::take_with(cache, &identity(root), clean, || {
            eprintln!("waiting: another clone is building in {}", cache.display());
        })
    }

    /// The directory to build in.
    pub fn target(&self) -> &Path {
        &self.target
    }

    fn take_with(
        cache: &Path,
        identity: &str,
        clean: impl Fn(&Path) -> Result<()>,
        before_waiting: impl Fn(),
    ) -> Result<Self> {
        fs::create_dir_all(cache).with_context(|| format!("cannot create the cache {}", cache.display()))?;
        let path = cache.join("target.owner");
        let owner = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let owner = owner.with_context(|| format!("cannot open {}", path.display()))?;
        let mut claim = Self { target: cache.join("target"), owner };
        loop {
            claim.owner.lock_shared()?;
            if claim.read_owner()? == identity {
                return Ok(claim);
            }
            // A lock cannot be raised in one step. Whoever gets in between is seen when the loop looks again.
            claim.owner.unlock()?;
            match claim.owner.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    before_waiting();
                    claim.owner.lock()?;
                }
                Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the build cache"),
            }
            if claim.read_owner()? != identity {
                // Nobody's, until it is clean: we may be killed in the middle.
                claim.write_owner("")?;
                clean(&claim.target)?;
                claim.write_owner(identity)?;
            }
            claim.owner.unlock()?;
        }
    }

    fn read_owner(&mut self) -> Result<String> {
        let mut text = String::new();
        self.owner.rewind()?;
        self.owner.read_to_string(&mut text)?;
        Ok(text)
    }

    fn write_owner(&mut self, identity: &str) -> Result<()> {
        self.owner.set_len(0)?;
        self.owner.rewind()?;
        self.owner.write_all(identity.as_bytes())?;
        Ok(())
    }
}

/// What tells clones apart: the path, and when it was made, since a path can be used again.
fn identity(root: &Path) -> String {
    let made = fs::metadata(root).and_then(|data| data.created()).ok();
    let made = made.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{} {}", root.display(), made.as_nanos())
}

fn remove_members(root: &Path, target: &Path) -> Result<()> {
    if !target.exists() {
        return Ok(());
    }
    for profile in PROFILES {
        let mut clean = Command::new("cargo");
        clean.args(["clean", "--quiet", "--workspace", "--profile", profile, "--target-dir"]).arg(target);
        let done = process::succeeds(clean.current_dir(root))?;
        anyhow::ensure!(done, "cannot remove another clone's artifacts from {}", target.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("event-hub-xtask-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("a scratch directory can be made");
        dir
    }

    #[test]
    fn the_most_particular_variable_names_the_cache() {
        let with = |set: &'static [(&str, &str)]| {
            dir_from(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
        };
        let all = &[("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("EVENT_HUB_CACHE", "/e")];
        assert_eq!(with(all), Some("/e".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/event-hub".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "")]), Some("/h/.cache/event-hub".into()));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn only_a_new_owner_cleans() {
        let cache = scratch("clean");
        let cleaned = Cell::new(0);
        let take = |who: &str| {
            let clean = |_: &Path| {
                cleaned.set(cleaned.get() + 1);
                Ok(())
            };
            Claim::take_with(&cache, who, clean, || {}).expect("the claim is free")
        };
        let first = take("a");
        let same_clone = take("a");
        assert_eq!(cleaned.get(), 1);
        drop((first, same_clone));
        drop(take("a"));
        assert_eq!(cleaned.get(), 1);
        drop(take("b"));
        drop(take("a"));
        assert_eq!(cleaned.get(), 3);
        fs::remove_dir_all(cache).expect("the scratch directory can be removed");
    }

    #[test]
    fn another_clone_waits_until_the_claim_is_given_up() {
        let cache = scratch("wait");
        let first = Claim::take_with(&cache, "a", |_| Ok(()), || {}).expect("the claim is free");
        let (says, hears) = mpsc::channel();
        let second = thread::spawn({
            let cache = cache.clone();
            move || {
                let waits = || says.send("waits").expect("the test listens");
                let claim = Claim::take_with(&cache, "b", |_| Ok(()), waits);
                says.send("has it").expect("the test listens");
                claim.is_ok()
            }
        });
        assert_eq!(hears.recv(), Ok("waits"));
        assert!(hears.recv_timeout(Duration::from_millis(50)).is_err());
        drop(first);
        assert_eq!(hears.recv(), Ok("has it"));
        assert!(second.join().is_ok_and(|got_it| got_it));
        fs::remove_dir_all(cache).expect("the scratch directory can be removed");
    }

    #[test]
    fn a_clean_that_fails_leaves_the_directory_to_nobody() {
        let cache = scratch("fails");
        let failing = |_: &Path| anyhow::bail!("disk on fire");
        assert!(Claim::take_with(&cache, "a", failing, || {}).is_err());
        let cleaned = Cell::new(false);
        let clean = |_: &Path| {
            cleaned.set(true);
            Ok(())
        };
        assert!(Claim::take_with(&cache, "a", clean, || {}).is_ok());
        assert!(cleaned.get());
        fs::remove_dir_all(cache).expect("the scratch directory can be removed");
    }
}
