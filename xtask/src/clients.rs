//! Clients that are not ours, under Node: npm's packages go to the cache, the tests are those of `hub-server` that are
//! ignored otherwise.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::args::Args;
use crate::cache;
use crate::process;
use crate::rust_tests::RustTests;
use crate::steps::{Report, Steps};
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask clients

Runs clients that are not ours against a hub, under Node, as `cargo xtask test` does. Their npm packages are installed
into the cache, outside the clone.";

/// What is installed: pinned, with a lock file.
const PACKAGES: &str = "protocol/node";
/// The page with the client that the protocol has to suit, beside the clone; it is no part of it.
const SEEDS: &str = "../shared/seeds/mongo-outbox.md";

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    let mut steps = Steps::default();
    steps.run("clients", || check(&workspace));
    Ok(steps.finish())
}

/// Runs them, or says what is missing.
pub fn check(workspace: &Workspace) -> Result<Report> {
    if !workspace.has(SEEDS) {
        return Ok(Report::skipped(format!("{SEEDS} is not there: the seeds' client was not tried")));
    }
    for program in ["node", "npm"] {
        if !process::succeeds_quietly(Command::new(program).arg("--version")) {
            return Ok(Report::skipped(format!("{program} is not installed")));
        }
    }
    let Some(cache) = cache::dir() else {
        return Ok(Report::skipped("there is no cache to install npm's packages into"));
    };
    let Some(modules) = install(workspace, &cache)? else {
        return Ok(Report::failed(format!("the packages of {PACKAGES} could not be installed")));
    };
    RustTests::new(workspace).run_ignored("node::", |tests| {
        tests.env("NODE_PATH", modules).env("EVENT_HUB_SEEDS", workspace.path(SEEDS));
    })
}

/// The directory with the packages, by the lock file's content; made if need be.
fn install(workspace: &Workspace, cache: &Path) -> Result<Option<PathBuf>> {
    let mut hash = DefaultHasher::new();
    workspace.read(&format!("{PACKAGES}/package-lock.json"))?.hash(&mut hash);
    let home = cache.join("npm").join(format!("protocol-{:016x}", hash.finish()));
    let modules = home.join("node_modules");
    if modules.is_dir() {
        return Ok(Some(modules));
    }
    // Aside and moved into place as a whole: an install that is cut off, or another clone's, does no harm.
    let aside = home.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&aside).with_context(|| format!("cannot create {}", aside.display()))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(workspace.path(PACKAGES).join(name), aside.join(name))?;
    }
    let mut npm = workspace.command("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&aside);
    println!("    {}", process::shown(&npm));
    let installed = process::succeeds(&mut npm)? && (fs::rename(&aside, &home).is_ok() || modules.is_dir());
    if aside.is_dir() {
        fs::remove_dir_all(&aside)?;
    }
    Ok(installed.then_some(modules))
}
