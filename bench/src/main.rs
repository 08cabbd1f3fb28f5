//! Benchmarks of event-hub, run as `cargo xtask bench NAME`.
//!
//! A benchmark measures, compares and prints; it passes no judgement by its exit code, because the machine it runs on may
//! be busy. So what counts are ratios: things that are compared take turns within one run, several times, and a ratio is
//! the median over those turns. See [`report`] for what is printed, [`measure`] for how.

mod bus;
mod child;
mod cli;
mod consume;
mod load;
mod measure;
mod mongo;
mod outbox;
mod push;
mod report;
mod store;
mod tenants;
mod wire;

use anyhow::Result;
use cli::Command;
use report::Report;
use std::process::ExitCode;

/// The allocator of the program that is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Threads that run tasks: what the smallest machine has, so that figures of different machines compare.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    let report = match command {
        Command::Help => {
            println!("{}", cli::USAGE);
            return Ok(());
        }
        Command::Victim(victim) => return runtime.block_on(victim.run()),
        Command::Bus(options) => {
            let mut report = Report::new("bus", options.json);
            runtime.block_on(bus::run(&options, &mut report))?;
            report
        }
        Command::Store(options) => {
            let mut report = Report::new("store", options.json);
            runtime.block_on(store::run(&options, &mut report))?;
            report
        }
        Command::Mongo(options) => {
            let mut report = Report::new("mongo", options.json);
            runtime.block_on(mongo::run(&options, &mut report))?;
            report
        }
        Command::Outbox(options) => {
            let mut report = Report::new("outbox", options.json);
            runtime.block_on(outbox::run(&options, &mut report))?;
            report
        }
        Command::Push(options) => {
            let mut report = Report::new("push", options.json);
            runtime.block_on(push::run(&options, &mut report))?;
            report
        }
        Command::TenantsServer(data, topics) => return runtime.block_on(tenants::serve(&data, topics)),
        Command::Tenants(options) => {
            let mut report = Report::new("tenants", options.json);
            runtime.block_on(tenants::run(&options, &mut report))?;
            report
        }
        Command::Server(store) => return runtime.block_on(wire::serve(&store)),
        Command::Wire(options) => {
            let mut report = Report::new("wire", options.json);
            runtime.block_on(wire::run(&options, &mut report))?;
            report
        }
    };
    report.finish();
    Ok(())
}
