//! The cache of this user, which `cargo xtask` uses too: what was downloaded, and what test processes share.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The directory: `$EVENT_HUB_CACHE`, else `$XDG_CACHE_HOME/event-hub`, else `~/.cache/event-hub`. It exists afterwards.
pub fn dir() -> Result<PathBuf> {
    let dir = dir_from(|name| env::var_os(name)).context(
        "there is no place for a cache: set EVENT_HUB_CACHE, XDG_CACHE_HOME or HOME to a directory that can be written",
    )?;
    created(dir)
}

/// `name` below the cache, as a directory that exists.
pub fn subdir(name: &str) -> Result<PathBuf> {
    created(dir()?.join(name))
}

fn created(dir: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("EVENT_HUB_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|dir| dir.join("event-hub")))
        .or_else(|| path("HOME").map(|dir| dir.join(".cache/event-hub")))
}

/// A file to lock, made if it is not there. The lock ends with the last handle to it, so with the process at the latest.
pub fn lock_file(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
