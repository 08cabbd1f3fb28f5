//! Where the clone is, and how to call cargo in it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cache::{self, Claim};

/// The clone this program runs in, and the build directory its cargo commands use.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    /// Held for as long as the commands may build; `None` leaves the build directory to cargo's own configuration.
    claim: Option<Claim>,
}

impl Workspace {
    /// Finds the clone: from what `cargo run` says, or upwards from the current directory.
    pub fn find() -> Result<Self> {
        // Read at run time on purpose: `env!` would name the clone that compiled the program, which in a shared build
        // directory can be another one.
        let start = env::var_os("CARGO_MANIFEST_DIR").map_or_else(env::current_dir, |dir| Ok(dir.into()))?;
        let root = start
            .ancestors()
            .find(|dir| dir.join("xtask/Cargo.toml").is_file())
            .context("not inside an event-hub clone: no xtask/Cargo.toml in this directory or above")?;
        let root = root.canonicalize().with_context(|| format!("cannot resolve {}", root.display()))?;
        Ok(Self { root, claim: None })
    }

    /// Moves the build directory out of the clone, unless `CARGO_TARGET_DIR` says where it is.
    ///
    /// Waits while another clone builds there.
    pub fn with_build_cache(mut self) -> Result<Self> {
        if env::var_os("CARGO_TARGET_DIR").is_some() {
            return Ok(self);
        }
        let Some(cache) = cache::dir() else { return Ok(self) };
        self.claim = Some(Claim::take(&cache, &self.root)?);
        Ok(self)
    }

    /// The build directory. Cargo's configuration files are not asked.
    pub fn target(&self) -> PathBuf {
        let set = || env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let relative = self.claim.as_ref().map(|claim| claim.target().to_owned()).or_else(set);
        self.root.join(relative.unwrap_or_else(|| "target".into()))
    }

    /// `relative`, below the root of the clone.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Whether the clone has the file `relative`.
    pub fn has(&self, relative: &str) -> bool {
        self.path(relative).is_file()
    }

    /// The text of the file `relative`.
    pub fn read(&self, relative: &str) -> Result<String> {
        let path = self.path(relative);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// `program`, to be run at the root of the clone, with no input and the build directory set.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.root).stdin(Stdio::null());
        if let Some(claim) = &self.claim {
            command.env("CARGO_TARGET_DIR", claim.target());
        }
        command
    }

    /// `cargo`, likewise.
    pub fn cargo<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command("cargo");
        command.args(args);
        command
    }
}
