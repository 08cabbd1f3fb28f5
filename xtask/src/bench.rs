//! `cargo xtask bench`: benchmarks are programs of the package `hub-bench`, but for that of the dashboard, which is in `web/bench`; this finds
//! and starts them.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::args::{Args, UsageError};
use crate::browser;
use crate::dashboard::WEB;
use crate::npm::Project;
use crate::process;
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask bench NAME [--json] [ARGS...]

  bus    the bus in one process: publish, deliver, ack
  store  the embedded store on a disk, beside what that disk can do
  wire   the hub over sockets, beside publishers in its own process and bare axum
  mongo  hubs on MongoDB, beside what its driver does by itself
  outbox outboxes, beside what their databases can do
  tenants what one subject notices while another attacks
  push   push subscriptions, beside a bare HTTP client
  http   the HTTP side: exports, server-sent events, what viewers cost
  dashboard  the dashboard in a real Chromium: paint, payload, seen, busy, heap, viewers, topics; --quick

With --json each figure is one line of JSON. Other arguments go to the benchmark, which has a --help of its own:
`cargo xtask bench NAME --help`.";

/// The benchmark that runs in a browser.
const DASHBOARD: &str = "dashboard";
const NAMES: [&str; 8] = ["bus", "store", "wire", "mongo", "outbox", "tenants", "push", "http"];

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut words = args.rest().into_iter();
    let name = words.next().ok_or_else(|| UsageError::new("which benchmark?"))?;
    if !NAMES.contains(&name.as_str()) && name != DASHBOARD {
        let known = NAMES.join(", ");
        return Err(UsageError::new(format!("no benchmark `{name}`; there is: {known}, {DASHBOARD}")).into());
    }
    let workspace = Workspace::find()?.with_build_cache()?;
    if name == DASHBOARD {
        return of_dashboard(&workspace, words);
    }
    ensure!(
        workspace.has("bench/Cargo.toml"),
        "the benchmarks are not there yet: bench/Cargo.toml does not exist"
    );
    let mut bench = workspace.cargo(["run", "--release", "--quiet", "-p", "hub-bench", "--"]);
    let ran = process::succeeds(bench.arg(name).args(words))?;
    Ok(if ran { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the hub as users run it, and looks at it in a browser.
fn of_dashboard(workspace: &Workspace, words: impl Iterator<Item = String>) -> Result<ExitCode> {
    if let Some(why) = Project::missing() {
        bail!("the benchmark of the dashboard needs Node: {why}");
    }
    ensure!(WEB.install(workspace)?.is_none(), "the packages of {} could not be installed", WEB.home);
    ensure!(
        process::succeeds(&mut workspace.cargo(["build", "--release", "-p", "event-hub"]))?,
        "the hub did not build"
    );
    // It gets the browser.
    let testbed = ["build", "--workspace", "--all-features", "--bin", "hub-testbed"];
    ensure!(process::succeeds(&mut workspace.cargo(testbed))?, "the testbed did not build");
    let program = workspace.target().join("release/event-hub");
    let mut command = browser::node(workspace, &program, &["bench/dashboard.ts"])?;
    let ran = process::succeeds(command.args(words))?;
    Ok(if ran { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::{NAMES, USAGE};

    /// The program that runs the benchmarks, which names each in its help text.
    const PROGRAM: &str = include_str!("../../bench/src/cli.rs");

    #[test]
    fn every_benchmark_of_the_program_can_be_started_and_is_in_the_help_text() {
        let reports = include_str!("../../bench/src/main.rs").split("Report::new(\"").skip(1);
        let benchmarks: Vec<&str> = reports.filter_map(|rest| rest.split('"').next()).collect();
        assert!(benchmarks.contains(&"http"), "{benchmarks:?}");
        for name in &benchmarks {
            assert!(NAMES.contains(name), "`cargo xtask bench {name}` is refused");
        }
        for name in NAMES {
            assert!(benchmarks.contains(&name), "{name} is no benchmark");
            assert!(PROGRAM.contains(&format!("\"{name}\"")), "{name} is no command of the program");
            assert!(USAGE.lines().any(|line| line.starts_with(&format!("  {name} "))), "{name} has no line");
        }
    }
}
