//! cargo-deny: licences, sources, and the same bans that [`crate::layering`] checks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::cache;
use crate::process;
use crate::steps::Report;
use crate::workspace::Workspace;

/// What `cargo install` gets when the machine has no cargo-deny. Pinned, so that a new release cannot fail an old commit.
const VERSION: &str = "0.20.2";

/// Checks `deny.toml`. Without cargo-deny on the machine, builds one into the cache first (a minute on two cores, once), or skips the
/// check if `install` is false.
pub fn check(workspace: &Workspace, install: bool) -> Result<Report> {
    let on_path = PathBuf::from("cargo-deny");
    if works(&on_path) {
        return run(workspace, on_path);
    }
    let Some(root) = cache::dir().map(|cache| cache.join("tools").join(format!("cargo-deny-{VERSION}")))
    else {
        return Ok(Report::skipped("cargo-deny is not installed, and there is no cache to build it into"));
    };
    let cached = root.join("bin/cargo-deny");
    if works(&cached) {
        return run(workspace, cached);
    }
    if !install {
        return Ok(Report::skipped("cargo-deny is not installed, and --quick does not build it"));
    }
    println!("    building cargo-deny {VERSION} into the cache: a minute or two, once");
    // Not optimised: it runs for a second, and building it takes longer than anything it could save.
    let mut build = workspace.cargo([
        "install",
        "cargo-deny",
        "--locked",
        "--quiet",
        "--debug",
        "--version",
        VERSION,
        "--root",
    ]);
    build.env("CARGO_PROFILE_DEV_DEBUG", "0");
    // In a directory of cargo's own choice, which it removes afterwards: half a gigabyte that nothing needs again.
    build.arg(&root).env_remove("CARGO_TARGET_DIR");
    if process::succeeds(&mut build)? {
        run(workspace, cached)
    } else {
        Ok(Report::failed("cargo-deny could not be built"))
    }
}

fn works(program: &PathBuf) -> bool {
    process::succeeds_quietly(Command::new(program).arg("--version"))
}

fn run(workspace: &Workspace, program: PathBuf) -> Result<Report> {
    let mut check = workspace.command(program);
    // Wrappers that are "unused" are the crates still to come.
    check.args(["check", "--allow", "unused-wrapper", "bans", "licenses", "sources"]);
    process::succeeds(&mut check).map(Report::check)
}
