//! Databases, drivers and a browser for the tests, through the program of the crate `hub-testbed`. This one stays free of them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;
use crate::steps::Report;
use crate::workspace::Workspace;

/// A service that some tests need.
#[derive(Debug)]
pub struct Service {
    /// What people call it.
    name: &'static str,
    /// What the program calls it.
    word: &'static str,
    /// Tests that need it are in modules of this name, in any crate.
    pub module: &'static str,
    /// All tests of a run share one server; otherwise each test starts its own.
    is_shared: bool,
}

/// MongoDB.
pub const MONGO: Service =
    Service { name: "MongoDB", word: "mongo", module: "with_mongo::", is_shared: true };
/// PostgreSQL.
pub const POSTGRES: Service =
    Service { name: "PostgreSQL", word: "postgres", module: "with_postgres::", is_shared: true };
/// Prometheus.
pub const PROMETHEUS: Service =
    Service { name: "Prometheus", word: "prometheus", module: "with_prometheus::", is_shared: false };
/// Schemathesis, a package for Python: [`drivers`] gets it, and no server runs.
pub const SCHEMATHESIS: Service =
    Service { name: "Schemathesis", word: "schemathesis", module: "with_schemathesis::", is_shared: false };

/// Chromium, for the tests of the dashboard and the TypeScript SDK, which are not written in Rust.
pub const CHROMIUM: Service =
    Service { name: "Chromium", word: "chromium", module: "with_chromium::", is_shared: true };

impl Service {
    /// Gets it, if the machine has none. The tests are built by now, and the program with them.
    pub fn get(&self, workspace: &Workspace) -> Result<Report> {
        let mut command = workspace.command(program(workspace)?);
        command.args([self.word, "get"]);
        Ok(if process::succeeds(&mut command)? {
            Report::check(true)
        } else {
            Report::failed(format!("no {}: its tests were left out", self.name))
        })
    }

    /// `command` with a server (or the path of a program) that its tests share, which is gone when the command is; the command itself if they
    /// share none.
    pub fn around(&self, workspace: &Workspace, command: Command) -> Result<Command> {
        if !self.is_shared {
            return Ok(command);
        }
        let mut around = workspace.command(program(workspace)?);
        around.args([self.word, "run", "--"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => around.env(name, value),
                None => around.env_remove(name),
            };
        }
        Ok(around)
    }
}

/// Gets the databases' drivers for other languages, as far as the machine has those.
pub fn drivers(workspace: &Workspace) -> Result<Report> {
    let mut command = workspace.command(program(workspace)?);
    process::succeeds(command.args(["drivers", "get"])).map(Report::check)
}

/// Where building the tests has put it. `cargo run` would build its dependencies again, for another set of features.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    let path = workspace.target().join("debug/hub-testbed");
    ensure!(path.is_file(), "building the tests should have made {}", path.display());
    Ok(path)
}
