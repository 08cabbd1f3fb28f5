//! Benchmarks of event-hub, run as `cargo xtask bench NAME`.
//!
//! A benchmark measures, compares and prints; it passes no judgement by its exit code, because the machine it runs on may
//! be busy. So what counts are ratios: things that are compared take turns within one run, several times, and a ratio is
//! the median over those turns. See [`report`] for what is printed, [`measure`] for how.

mod bus;
mod cli;
mod measure;
mod report;

use anyhow::Result;
use cli::{Command, Options};
use report::Report;
use std::process::ExitCode;

/// Threads that run tasks: what the smallest machine has, so that figures of different machines compare.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let options = match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Help) => {
            println!("{}", cli::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let mut report = Report::new("bus", options.json);
    runtime.block_on(bus::run(options, &mut report))?;
    report.finish();
    Ok(())
}
