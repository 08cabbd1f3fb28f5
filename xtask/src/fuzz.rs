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
breaks a target is kept in fuzz/artifacts/. Needs a nightly toolchain and cargo-fuzz.";

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
    ensure_tools()?;

    let mut broken = Vec::new();
    for target in targets {
        println!("==> {target}, {seconds} s");
        let mut fuzz = workspace.command("rustup");
        fuzz.args(["run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir", "fuzz", &target, "--"]);
        fuzz.arg(format!("-max_total_time={seconds}"));
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

fn ensure_tools() -> Result<()> {
    let nightly =
        |args: &[&str]| process::succeeds_quietly(Command::new("rustup").args(["run", "nightly"]).args(args));
    ensure!(
        nightly(&["rustc", "--version"]),
        "fuzzing needs a nightly toolchain; install one with\n\n    rustup toolchain install nightly --profile minimal\n"
    );
    ensure!(
        nightly(&["cargo", "fuzz", "--version"]),
        "fuzzing needs cargo-fuzz; install it with\n\n    cargo install cargo-fuzz --locked\n"
    );
    Ok(())
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
