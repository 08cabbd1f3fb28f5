//! `cargo xtask crash`: a hub that is killed, as often as one likes.

use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::process;
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask crash [--rounds N] [--seed SEED]

Runs a hub on the embedded store with 16 publishers over 4 topics, and kills it: while it publishes, seals, cleans and
rewrites, and while it opens what the one before has left. What it had acknowledged has to be there. One line sums
it up; a failure keeps the directory, and prints its path and its seed.

  --rounds N    how many hubs are killed; without it 200
  --seed SEED   of the moments at which they are";

/// The test that does it.
const SOURCE: &str = "crates/hub-store-embedded/tests/main/kill.rs";
/// How the test is told the number of rounds.
pub const ROUNDS: &str = "EVENT_HUB_KILL_ROUNDS";
const SEED: &str = "EVENT_HUB_KILL_SEED";
/// More than the few of an ordinary test run.
pub const MANY: u64 = 200;

fn command(workspace: &Workspace, rounds: u64, seed: Option<u64>) -> Command {
    let mut command = workspace.cargo(["test", "--release", "-p", "hub-store-embedded", "--test", "main"]);
    command.args(["--", "--nocapture", "kill::"]);
    command.env(ROUNDS, rounds.to_string());
    if let Some(seed) = seed {
        command.env(SEED, seed.to_string());
    }
    command
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode> {
    let (rounds, seed) = (args.value("--rounds")?.unwrap_or(MANY), args.value("--seed")?);
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    ensure!(workspace.has(SOURCE), "{SOURCE} does not exist");
    let held = process::succeeds(&mut command(&workspace, rounds, seed))?;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
