//! `cargo xtask fuzz`: the targets in `fuzz/`, each for a while.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use crate::args::{Args, UsageError};
use crate::process;
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask fuzz [TARGET] [--seconds N]

Runs one fuzz target, or all of them one after the other, for N seconds each (60 unless told otherwise). An input that
breaks a target is kept in fuzz/artifacts/. Needs cargo-fuzz.";

/// Lets the toolchain of the project, which is stable, take the flags that sanitizers and coverage need.
const BOOTSTRAP: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode> {
    let seconds = args.value("--seconds")?.unwrap_or(60_u64);
    let chosen = args.positional();
    args.finish()?;

    // No build cache: cargo-fuzz builds in fuzz/target, with a sanitizer that shares nothing with other builds.
    let workspace = Workspace::find()?;
    ensure!(workspace.has("fuzz/Cargo.toml"), "there is nothing to fuzz yet: fuzz/Cargo.toml does not exist");
    let mut targets = targets(&workspace.read("fuzz/Cargo.toml")?)?;
    if let Some(chosen) = chosen {
        if !targets.contains(&chosen) {
            let known = targets.join(", ");
            return Err(UsageError::new(format!("no fuzz target `{chosen}`; there is: {known}")).into());
        }
        targets = vec![chosen];
    }
    ensure!(
        process::succeeds_quietly(&mut workspace.cargo(["fuzz", "--version"])),
        "fuzzing needs cargo-fuzz; install it with\n\n    cargo install cargo-fuzz --locked\n"
    );

    let mut broken = Vec::new();
    for target in targets {
        println!("==> {target}, {seconds} s");
        let mut fuzz = workspace.cargo(["fuzz", "run", "--fuzz-dir", "fuzz", &target, "--"]);
        fuzz.arg(format!("-max_total_time={seconds}")).env(BOOTSTRAP.0, BOOTSTRAP.1);
        if !process::succeeds(&mut fuzz)? {
            broken.push(target);
        }
    }
    if !broken.is_empty() {
        bail!("failed: {}", broken.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of the targets: the binaries of the fuzz package.
fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: Table = manifest.parse().context("fuzz/Cargo.toml is not TOML")?;
    let binaries = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<_> =
        binaries.filter_map(|binary| binary.get("name")?.as_str()).map(str::to_owned).collect();
    ensure!(!names.is_empty(), "fuzz/Cargo.toml has no [[bin]], so there is nothing to fuzz");
    Ok(names)
}

/// Lints the targets, which are no members of the workspace.
pub fn clippy(workspace: &Workspace) -> Command {
    workspace.cargo(["clippy", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--", "-D", "warnings"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_binaries_of_the_fuzz_package() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"frame\"\npath = \"a.rs\"\n[[bin]]\nname = \"topic\"\n";
        assert_eq!(targets(manifest).ok(), Some(vec!["frame".into(), "topic".into()]));
        assert!(targets("[package]\nname = \"fuzz\"\n").is_err());
    }
}
