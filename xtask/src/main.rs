//! Development commands, run as `cargo xtask COMMAND`.
//!
//! A command is a module with a `USAGE` text and a `run` function. What they share: [`args`] (flags), [`workspace`] (where
//! we are, how to call cargo), [`cache`] (the build cache outside the clone), [`process`] (child programs). The checks of
//! `cargo xtask test` are listed in [`mod@test`], which is also where a check that needs a service sets it up.

mod args;
mod bench;
mod browser;
mod cache;
mod clients;
mod counts;
mod crash;
mod dashboard;
mod deny;
mod fuzz;
mod layering;
mod npm;
mod process;
mod python;
mod rust_tests;
mod sdk;
mod sim;
mod steps;
mod test;
mod testbed;
mod workspace;

use std::process::ExitCode;

use args::{Args, UsageError};

const USAGE: &str = "\
usage: cargo xtask COMMAND [OPTIONS]

  test       every check of the project, ending with a count
  sim        the simulator alone, over any range of seeds
  crash      a hub that is killed under load, any number of times
  clients    clients that are not ours, under Node
  dashboard  the dashboard's checks, and its tests in a browser
  sdk        the TypeScript SDK's checks, and its tests with a hub, also in a browser
  python     the Python SDK's checks, and its tests with a hub
  bench      a benchmark
  fuzz       the fuzz targets

`cargo xtask COMMAND --help` says more.";

/// A command: its help text, and what it does.
type Command = (&'static str, fn(Args) -> anyhow::Result<ExitCode>);

fn command(name: &str) -> Option<Command> {
    match name {
        "test" => Some((test::USAGE, test::run)),
        "sim" => Some((sim::USAGE, sim::run)),
        "crash" => Some((crash::USAGE, crash::run)),
        "clients" => Some((clients::USAGE, clients::run)),
        "dashboard" => Some((dashboard::USAGE, dashboard::run)),
        "sdk" => Some((sdk::USAGE, sdk::run)),
        "python" => Some((python::USAGE, python::run)),
        "bench" => Some((bench::USAGE, bench::run)),
        "fuzz" => Some((fuzz::USAGE, fuzz::run)),
        _ => None,
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((usage, run)) = command(&name) else {
        let problem =
            if name.is_empty() { "no command given".into() } else { format!("no command `{name}`") };
        return refuse(&problem, USAGE);
    };
    let args = Args::new(words);
    if args.asks_for_help() {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    match run(args) {
        Ok(code) => code,
        Err(error) if error.is::<UsageError>() => refuse(&error.to_string(), usage),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says what was wrong with the command line and how it should look.
fn refuse(problem: &str, usage: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n{usage}");
    ExitCode::from(2)
}
