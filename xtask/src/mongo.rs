//! MongoDB for the tests, through the program of the crate `hub-testbed`. This one stays free of database drivers.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;
use crate::steps::Report;
use crate::workspace::Workspace;

/// Tests that need it are in modules of this name, in any crate.
pub const MODULE: &str = "with_mongo::";

/// Gets it, if the machine has none. The tests are built by now, and the program with them.
pub fn get(workspace: &Workspace) -> Result<Report> {
    let mut command = workspace.command(testbed(workspace)?);
    command.args(["mongo", "get"]);
    Ok(if process::succeeds(&mut command)? {
        Report::check(true)
    } else {
        Report::failed("no MongoDB: its tests were left out")
    })
}

/// `command` with a replica set of its own, which is gone when the command is.
pub fn around(workspace: &Workspace, command: &Command) -> Result<Command> {
    let mut around = workspace.command(testbed(workspace)?);
    around.args(["mongo", "run", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => around.env(name, value),
            None => around.env_remove(name),
        };
    }
    Ok(around)
}

/// Where building the tests has put it. `cargo run` would build its dependencies again, for another set of features.
fn testbed(workspace: &Workspace) -> Result<PathBuf> {
    let path = workspace.target().join("debug/hub-testbed");
    ensure!(path.is_file(), "building the tests should have made {}", path.display());
    Ok(path)
}
