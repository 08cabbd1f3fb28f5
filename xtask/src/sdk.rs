//! The TypeScript SDK: types, lint, its bundles and their size, and its tests: with a hub in memory, and with a real one under Node, Deno and
//! Bun and in Chromium.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::args::Args;
use crate::npm::Project;
use crate::steps::{Report, Steps};
use crate::testbed::{CHROMIUM, MONGO, POSTGRES};
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask sdk

Checks the TypeScript SDK as `cargo xtask test` does: types, lint, the bundles and their size, its tests, and its tests with
a hub that this builds, kills and starts again, under Node, Deno and Bun and in a real Chromium.";

/// Where it is.
const SDK: Project = Project { home: "sdk/typescript" };

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    let mut steps = Steps::default();
    steps.run("sdk", || check(&workspace));
    let programs = ["build", "--workspace", "--all-features", "--bin", "event-hub", "--bin", "hub-testbed"];
    steps.command("build", &mut workspace.cargo(programs));
    steps.run("sdk-hub", || with_hub(&workspace, |_| ()));
    steps.run("sdk-web", || in_browser(&workspace, |_| ()));
    Ok(steps.finish())
}

/// What needs no hub.
pub fn check(workspace: &Workspace) -> Result<Report> {
    let checks: &[(&[&str], &str)] = &[
        (&["npm", "run", "--silent", "check"], "the types or the lint"),
        (&["npm", "run", "--silent", "build"], "the bundles"),
        (&["npm", "run", "--silent", "size"], "the size of the bundle for browsers"),
    ];
    if let Some(report) = SDK.install(workspace)? {
        return Ok(report);
    }
    if let Some(report) = SDK.check(workspace, checks)? {
        return Ok(report);
    }
    SDK.test(SDK.command(workspace, &["npm", "test", "--silent"]))
}

/// The tests with the hub that the tests have built, and with databases whose outboxes it drains.
pub fn with_hub(workspace: &Workspace, settings: impl FnOnce(&mut Command)) -> Result<Report> {
    if let Some(report) = SDK.install(workspace)? {
        return Ok(report);
    }
    let command = POSTGRES.around(workspace, hub_tests(workspace, "test:hub", settings))?;
    let mut command = MONGO.around(workspace, command)?;
    command.current_dir(workspace.path(SDK.home));
    SDK.test(command)
}

/// The tests in Chromium, with the same hub.
pub fn in_browser(workspace: &Workspace, settings: impl FnOnce(&mut Command)) -> Result<Report> {
    if let Some(report) = SDK.install(workspace)? {
        return Ok(report);
    }
    let mut command = CHROMIUM.around(workspace, hub_tests(workspace, "test:browser", settings))?;
    command.current_dir(workspace.path(SDK.home));
    SDK.test(command)
}

fn hub_tests(workspace: &Workspace, script: &str, settings: impl FnOnce(&mut Command)) -> Command {
    let mut command = SDK.command(workspace, &["npm", "run", script, "--silent"]);
    command.env("EVENT_HUB_BIN", workspace.target().join("debug/event-hub"));
    settings(&mut command);
    command
}
