//! `cargo xtask sim`: the simulator of hub-core over every store that can lose power, alone and at any length.

use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::process;
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask sim [--seeds N] [--from SEED] [--steps N]

Drives the engine through random histories (publishes, acks, crashes, clock jumps, store errors) and compares it with a
model after every step: over the memory store, and over the embedded one on a disk that loses power. A failure prints
its seed; `cargo xtask sim --from SEED --seeds 1` runs it again.

  --seeds N     how many seeds
  --from SEED   the first one
  --steps N     how many steps per seed

What is not given is up to the test itself.";

/// The test that is the simulator. Its own step in `cargo xtask test`, so its own binary.
pub const SOURCE: &str = "crates/hub-core/tests/sim.rs";

/// Which histories to run; what is `None` is up to the test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    /// How many seeds.
    pub seeds: Option<u64>,
    /// The first seed.
    pub from: Option<u64>,
    /// How many steps per seed.
    pub steps: Option<u64>,
}

/// The simulator over `scope`, printing as it goes.
pub fn command(workspace: &Workspace, scope: Scope) -> Command {
    // As the other tests are built, so that nothing is built twice.
    let mut command = workspace.cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.args(["--test", "sim", "--", "--nocapture"]);
    let variables = [
        ("EVENT_HUB_SIM_SEEDS", scope.seeds),
        ("EVENT_HUB_SIM_FROM", scope.from),
        ("EVENT_HUB_SIM_STEPS", scope.steps),
    ];
    for (name, value) in variables {
        if let Some(value) = value {
            command.env(name, value.to_string());
        }
    }
    command
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode> {
    let scope =
        Scope { seeds: args.value("--seeds")?, from: args.value("--from")?, steps: args.value("--steps")? };
    args.finish()?;
    let workspace = Workspace::find()?.with_build_cache()?;
    ensure!(workspace.has(SOURCE), "there is no simulator yet: {SOURCE} does not exist");
    let held = process::succeeds(&mut command(&workspace, scope))?;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
