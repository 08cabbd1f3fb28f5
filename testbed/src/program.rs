//! A program that is not ours: what it needs in order to run here.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::download;
use crate::user::User;

/// A program, and what it needs.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Where to look for libraries first.
    pub libraries: Option<PathBuf>,
    /// Who it has to run as, if it does not run as whoever we are.
    pub user: Option<User>,
}

impl Program {
    /// Sets up `command`, which is the program or becomes it.
    pub fn prepare(&self, command: &mut Command) {
        if let Some(path) = &self.libraries {
            command.env("LD_LIBRARY_PATH", path);
        }
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
    }

    /// What it says when it is asked for its version.
    pub fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.path);
        self.prepare(command.arg("--version").current_dir("/"));
        download::run(&mut command, "is it a program for this machine?")
    }
}

/// The first file `name` in a directory of `PATH`.
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    let dirs = env::var_os("PATH")?;
    env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}
