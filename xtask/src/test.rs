//! `cargo xtask test`: every check of the project, in the order in which a mistake is cheapest to find.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::args::{Args, UsageError};
use crate::browser;
use crate::clients;
use crate::counts;
use crate::crash;
use crate::dashboard;
use crate::deny;
use crate::fuzz;
use crate::layering;
use crate::process::{self, Stream};
use crate::python;
use crate::rust_tests::RustTests;
use crate::sdk;
use crate::sim;
use crate::steps::{Report, Steps};
use crate::testbed::{self, CHROMIUM, MONGO, POSTGRES, PROMETHEUS, SCHEMATHESIS};
use crate::workspace::Workspace;

/// The help text.
pub const USAGE: &str = "\
usage: cargo xtask test [--quick | --full]

Runs every check: format, layering, clippy (also of the fuzz targets), cargo-deny, tests (with a MongoDB and a
PostgreSQL of their own), doctests, docs, the example, a client that is not ours (under Node), the dashboard (its sources,
and in a real Chromium), the TypeScript SDK (with a hub in memory and a real one, under Node, Deno and Bun and in Chromium),
the Python SDK (with a real hub), the simulator.
A check that fails does not stop the others. The last line says how many checks and tests passed and failed; the exit code
is zero only if none failed.

  --quick   a short simulation (200 seeds), no building of cargo-deny, no packages of npm or pip, no tests that
            need MongoDB, PostgreSQL, Prometheus, Schemathesis or Chromium, nothing of the dashboard or the SDKs
  --full    a long simulation (20,000 seeds; without a flag 2,000), a hub that is killed 200 times (otherwise 5),
            10,000 rounds of power losses and failing disks (otherwise 300), and 10 of every way in which hubs on MongoDB
            can fail (otherwise 1 to 4); drainers that are killed 100 times (otherwise 4), and a million rows in each database
            (otherwise 20,000); a hub that is killed 30 times under a client of each SDK (otherwise 2 or 3)

Builds go to CARGO_TARGET_DIR, or to a cache outside the clone: $EVENT_HUB_CACHE, or $XDG_CACHE_HOME/event-hub, or
~/.cache/event-hub. MongoDB, PostgreSQL and Chromium are the machine's own, or are gotten into that cache (130 MB, 23 MB and
125 MB, once), and so are the databases' drivers for Python and Node, and the packages of the Python SDK's tests; the packages
of the dashboard and the TypeScript SDK, Deno and Bun among them, go to their node_modules. Tests run under cargo-nextest if it is installed.";

/// Random power losses of the embedded store, and as many rounds of a failing disk, with `--full`.
const POWER_ROUNDS: u64 = 10_000;
/// Rounds of each way in which hubs on MongoDB fail, with `--full`.
const FAILOVER_ROUNDS: u64 = 10;
/// Drainers that are killed or frozen, and rows in an outbox, with `--full`.
const OUTBOX_ROUNDS: u64 = 100;
const OUTBOX_ROWS: u64 = 1_000_000;
/// Times that the hub is killed under a client of an SDK, with `--full`.
const SDK_RESTARTS: u64 = 30;
const NOT_BUILT: &str = "the tests did not build";

/// How much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    Quick,
    Usual,
    Full,
}

impl Effort {
    fn from_args(mut args: Args) -> Result<Self, UsageError> {
        let (quick, full) = (args.flag("--quick"), args.flag("--full"));
        args.finish()?;
        match (quick, full) {
            (false, false) => Ok(Self::Usual),
            (true, false) => Ok(Self::Quick),
            (false, true) => Ok(Self::Full),
            (true, true) => Err(UsageError::new("--quick and --full exclude each other")),
        }
    }

    fn seeds(self) -> u64 {
        match self {
            Self::Quick => 200,
            Self::Usual => 2_000,
            Self::Full => 20_000,
        }
    }

    /// Tells tests how much to do that would do little otherwise.
    fn settings(self, command: &mut Command) {
        if self == Self::Full {
            command.env(crash::ROUNDS, crash::MANY.to_string());
            command.env("EVENT_HUB_POWER_ROUNDS", POWER_ROUNDS.to_string());
            command.env("EVENT_HUB_FAILOVER_ROUNDS", FAILOVER_ROUNDS.to_string());
            command.env("EVENT_HUB_OUTBOX_ROUNDS", OUTBOX_ROUNDS.to_string());
            command.env("EVENT_HUB_OUTBOX_ROWS", OUTBOX_ROWS.to_string());
            command.env("EVENT_HUB_SDK_RESTARTS", SDK_RESTARTS.to_string());
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let effort = Effort::from_args(args)?;
    let workspace = Workspace::find()?.with_build_cache()?;
    let mut steps = Steps::default();
    read_only(&workspace, effort, &mut steps);

    let tests = RustTests::new(&workspace);
    let mut built = false;
    steps.run("build", || {
        built = tests.build()?;
        Ok(if built { Report::check(true) } else { Report::failed(NOT_BUILT) })
    });
    let unless_broken =
        |step: &dyn Fn() -> Result<Report>| if built { step() } else { Ok(Report::skipped(NOT_BUILT)) };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (step, service) in [("mongodb", &MONGO), ("postgres", &POSTGRES), ("prometheus", &PROMETHEUS)] {
        let mut is_there = false;
        steps.run(step, || match effort {
            Effort::Quick => Ok(Report::skipped("--quick leaves out what needs it")),
            _ => {
                let report = unless_broken(&|| service.get(&workspace))?;
                is_there = report.holds();
                Ok(report)
            }
        });
        if is_there { with.push(service) } else { without.push(service) }
    }
    if effort == Effort::Quick {
        without.push(&SCHEMATHESIS);
    }
    steps.run("drivers", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick leaves out what needs them")),
        _ => unless_broken(&|| testbed::drivers(&workspace)),
    });
    steps.run("tests", || unless_broken(&|| tests.run(&with, &without, |command| effort.settings(command))));
    steps.run("doctests", || unless_broken(&|| doctests(&workspace)));
    steps.run("docs", || unless_broken(&|| docs(&workspace)));
    steps.run("example", || unless_broken(&|| example(&workspace)));
    steps.run("clients", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick installs no npm packages")),
        _ => unless_broken(&|| clients::check(&workspace)),
    });
    // The sources are checked without a hub, and so also if the tests did not build.
    steps.run("dashboard", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick installs no npm packages")),
        _ => dashboard::check(&workspace),
    });
    let with_chromium = |step: &dyn Fn() -> Result<Report>| match effort {
        Effort::Quick => Ok(Report::skipped("--quick leaves out what needs Chromium")),
        _ => unless_broken(&|| {
            let chromium = CHROMIUM.get(&workspace)?;
            if chromium.holds() { step() } else { Ok(chromium) }
        }),
    };
    steps.run("browser", || with_chromium(&|| browser::check(&workspace, &[], false)));
    steps.run("sdk", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick installs no npm packages")),
        _ => sdk::check(&workspace),
    });
    steps.run("sdk-hub", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick installs no npm packages")),
        _ => unless_broken(&|| sdk::with_hub(&workspace, |command| effort.settings(command))),
    });
    steps.run("sdk-web", || {
        with_chromium(&|| sdk::in_browser(&workspace, |command| effort.settings(command)))
    });
    steps.run("python", || match effort {
        Effort::Quick => Ok(Report::skipped("--quick installs no packages of pip")),
        _ => unless_broken(&|| python::check(&workspace, |command| effort.settings(command))),
    });
    steps.run("sim", || unless_broken(&|| simulator(&workspace, effort)));
    Ok(steps.finish())
}

/// What needs no program of ours to run.
fn read_only(workspace: &Workspace, effort: Effort, steps: &mut Steps) {
    steps.command("format", &mut workspace.cargo(["fmt", "--all", "--check"]));
    steps.run("layering", || {
        let found = layering::violations(&workspace.read("deny.toml")?, &workspace.read("Cargo.lock")?)?;
        for sentence in &found {
            println!("    {sentence}");
        }
        Ok(if found.is_empty() {
            Report::check(true)
        } else {
            Report::failed("see `bans.deny` in deny.toml")
        })
    });
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    steps.command("clippy", &mut workspace.cargo(clippy));
    // As users build it: without features.
    let program = ["clippy", "-p", "event-hub", "--", "-D", "warnings"];
    steps.command("program", &mut workspace.cargo(program));
    steps.command("fuzz", &mut fuzz::clippy(workspace));
    steps.run("deny", || deny::check(workspace, effort != Effort::Quick));
}

fn doctests(workspace: &Workspace) -> Result<Report> {
    let mut command = workspace.cargo(["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
    let (success, output) = shown_and_read(&mut command, Stream::Stdout)?;
    Ok(Report::tests(success, counts::of_cargo_test(&output)))
}

fn docs(workspace: &Workspace) -> Result<Report> {
    let mut command = workspace.cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
    println!("    {}", process::shown(&command));
    process::succeeds(command.env("RUSTDOCFLAGS", "-D warnings")).map(Report::check)
}

/// The programs that a new user would start from have to run, not only to build. Building the tests has built them, too.
fn example(workspace: &Workspace) -> Result<Report> {
    let example = |name: &str| workspace.command(workspace.target().join("debug/examples").join(name));
    let in_memory = process::succeeds(&mut example("in_process"))?;
    let data = std::env::temp_dir().join(format!("event-hub-example-{}", std::process::id()));
    let durable = process::succeeds(example("durable").arg(&data))?;
    std::fs::remove_dir_all(&data).context("removing what the example has stored")?;
    Ok(Report::check(in_memory && durable))
}

fn simulator(workspace: &Workspace, effort: Effort) -> Result<Report> {
    if !workspace.has(sim::SOURCE) {
        return Ok(Report::skipped(format!("{} does not exist yet", sim::SOURCE)));
    }
    let scope = sim::Scope { seeds: Some(effort.seeds()), ..sim::Scope::default() };
    let (success, output) = shown_and_read(&mut sim::command(workspace, scope), Stream::Stdout)?;
    Ok(Report::tests(success, counts::of_cargo_test(&output)))
}

fn shown_and_read(command: &mut Command, stream: Stream) -> Result<(bool, String)> {
    println!("    {}", process::shown(command));
    process::read_along(command, stream)
}
