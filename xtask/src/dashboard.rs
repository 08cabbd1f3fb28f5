//! The dashboard's sources: types, what they must not contain, unit tests, and that the files in `web/dist` are made of them.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Args;
use crate::browser;
use crate::npm::Project;
use crate::steps::{Report, Steps};
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask dashboard [--screenshots] [NAME…]

Checks the dashboard as `cargo xtask test` does: types, lint, unit tests, and that web/dist is what web/src makes. Then builds
the hub and runs the tests in a real Chromium.

  NAME            only the browser tests of web/tests/browser/NAME.test.ts
  --screenshots   the tests also make the pictures of the documentation anew, in docs/images, each with the outline of its page";

/// Where its sources are.
pub const WEB: Project = Project { home: "web" };

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode> {
    let screenshots = args.flag("--screenshots");
    let mut names = Vec::new();
    while let Some(name) = args.positional() {
        names.push(name);
    }
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    let mut steps = Steps::default();
    steps.run("dashboard", || check(&workspace));
    let programs = ["build", "--workspace", "--all-features", "--bin", "event-hub", "--bin", "hub-testbed"];
    steps.command("build", &mut workspace.cargo(programs));
    steps.run("browser", || browser::check(&workspace, &names, screenshots));
    Ok(steps.finish())
}

/// Runs the checks, or says what is missing.
pub fn check(workspace: &Workspace) -> Result<Report> {
    let checks: &[(&[&str], &str)] = &[
        (&["npm", "run", "--silent", "check"], "the types or the lint"),
        (&["node", "tools/build.mjs", "--check"], "the files in web/dist, or their size,"),
    ];
    if let Some(report) = WEB.install(workspace)? {
        return Ok(report);
    }
    if let Some(report) = WEB.check(workspace, checks)? {
        return Ok(report);
    }
    WEB.test(WEB.command(workspace, &["npm", "test", "--silent"]))
}
