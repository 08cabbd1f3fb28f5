//! The dashboard's sources: types, what they must not contain, unit tests, and that the files in `web/dist` are made of them.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::args::Args;
use crate::browser;
use crate::counts;
use crate::process::{self, Stream};
use crate::steps::{Report, Steps};
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask dashboard [--screenshots] [NAME…]

Checks the dashboard as `cargo xtask test` does: types, lint, unit tests, and that web/dist is what web/src makes. Then builds
the hub and runs the tests in a real Chromium.

  NAME            only the browser tests of web/tests/browser/NAME.test.ts
  --screenshots   the tests also make the pictures of the documentation anew, in docs/images";

/// Where its sources are.
pub const HOME: &str = "web";
/// The oldest Node that its tools run on.
const LEAST_NODE: u32 = 20;
/// Beside the packages: the lock file that they were installed by.
const STAMP: &str = "web/node_modules/.installed-by";

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
    if let Some(why) = missing() {
        return Ok(Report::skipped(why));
    }
    if !install(workspace)? {
        return Ok(Report::failed(format!("the packages of {HOME} could not be installed")));
    }
    for (words, what) in [
        (&["npm", "run", "--silent", "check"][..], "the types or the lint"),
        (&["node", "tools/build.mjs", "--check"], "the files in web/dist, or their size,"),
    ] {
        let mut command = self::command(workspace, words);
        println!("    {}", process::shown(&command));
        if !process::succeeds(&mut command)? {
            return Ok(Report::failed(format!("{what} did not pass")));
        }
    }
    let mut tests = command(workspace, &["npm", "test", "--silent"]);
    println!("    {}", process::shown(&tests));
    let (success, output) = process::read_along(&mut tests, Stream::Stdout)?;
    Ok(Report::tests(success, counts::of_node(&output)))
}

/// Why nothing of the dashboard can be run here.
pub fn missing() -> Option<String> {
    for program in ["node", "npm"] {
        if !process::succeeds_quietly(Command::new(program).arg("--version")) {
            return Some(format!("{program} is not installed"));
        }
    }
    let test = format!("process.exit(Number(process.versions.node.split('.')[0]) < {LEAST_NODE} ? 1 : 0)");
    let is_new = process::succeeds_quietly(Command::new("node").args(["-e", &test]));
    (!is_new).then(|| format!("node is older than version {LEAST_NODE}"))
}

/// Installs the packages of the lock file into `web/node_modules`, unless they are there; true if they are then.
pub fn install(workspace: &Workspace) -> Result<bool> {
    let lock = workspace.read(&format!("{HOME}/package-lock.json"))?;
    if workspace.has(STAMP) && workspace.read(STAMP)? == lock {
        return Ok(true);
    }
    let mut npm =
        command(workspace, &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    println!("    {}", process::shown(&npm));
    if !process::succeeds(&mut npm)? {
        return Ok(false);
    }
    fs::write(workspace.path(STAMP), lock).with_context(|| format!("cannot write {STAMP}"))?;
    Ok(true)
}

/// A command in the dashboard's directory.
pub fn command(workspace: &Workspace, words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().map_or(("true", &[][..]), |(first, rest)| (*first, rest));
    let mut command = workspace.command(program);
    command.args(arguments).current_dir(workspace.path(HOME));
    command
}
