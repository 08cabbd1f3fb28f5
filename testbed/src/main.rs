//! `hub-testbed`: the testbed for programs that are not written in Rust, and for `cargo xtask test`.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use hub_testbed::postgres::{self, Postgres};
use hub_testbed::programs::Programs;
use hub_testbed::{ReplicaSet, URI_VARIABLE, chromium, drivers, prometheus};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

const USAGE: &str = "\
usage: hub-testbed mongo|postgres get
       hub-testbed mongo|postgres run [--shared] -- COMMAND [ARGUMENT…]
       hub-testbed drivers|prometheus|chromium get
       hub-testbed chromium run -- COMMAND [ARGUMENT…]

  mongo      MongoDB; its address is EVENT_HUB_TEST_MONGO
  postgres   PostgreSQL; its address is EVENT_HUB_TEST_POSTGRES
  drivers    the databases' drivers for Python and Node
  prometheus Prometheus and promtool
  chromium   Chromium; its path is EVENT_HUB_TEST_CHROMIUM

  get        gets it into the cache, unless it is there or the machine has its own, and says which one it is
  run        runs COMMAND with the variable set to the path, or the address of a new server (MongoDB: a replica set of one
             node), which is gone afterwards; the exit code is the command's. If the variable is set already, nothing is started
  --shared   with the server that tests share when they run by themselves";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        ["mongo", "get"] => get(|| Ok(Programs::get()?.describe())).await,
        ["postgres", "get"] => get(|| Ok(postgres::Programs::get()?.describe())).await,
        ["drivers", "get"] => get(drivers::describe).await,
        ["prometheus", "get"] => get(|| prometheus::Programs::get()?.describe()).await,
        ["chromium", "get"] => get(chromium::describe).await,
        ["chromium", "run", "--", ref command @ ..] if !command.is_empty() => with_chromium(command).await,
        ["mongo", "run", ref rest @ ..] => match what_to_run(rest) {
            Some((shared, command)) => with_mongo(shared, command).await,
            None => return refuse(),
        },
        ["postgres", "run", ref rest @ ..] => match what_to_run(rest) {
            Some((shared, command)) => with_postgres(shared, command).await,
            None => return refuse(),
        },
        _ => return refuse(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn refuse() -> ExitCode {
    eprintln!("error: no such command\n\n{USAGE}");
    ExitCode::from(2)
}

/// Whether the server is to be the shared one, and the command.
fn what_to_run<'a>(words: &'a [&'a str]) -> Option<(bool, &'a [&'a str])> {
    match words {
        ["--", command @ ..] if !command.is_empty() => Some((false, command)),
        ["--shared", "--", command @ ..] if !command.is_empty() => Some((true, command)),
        _ => None,
    }
}

async fn get(it: impl FnOnce() -> Result<String> + Send + 'static) -> Result<ExitCode> {
    println!("{}", spawn_blocking(it).await??);
    Ok(ExitCode::SUCCESS)
}

async fn with_mongo(shared: bool, command: &[&str]) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let set = if shared || is_set(URI_VARIABLE) { None } else { Some(ReplicaSet::start(1).await?) };
    let uri = match &set {
        Some(set) => set.uri(),
        None => hub_testbed::mongo().await?,
    };
    run(command, URI_VARIABLE, &uri, signals).await
}

async fn with_postgres(shared: bool, command: &[&str]) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let server = if shared || is_set(postgres::URL_VARIABLE) { None } else { Some(Postgres::start().await?) };
    let url = match &server {
        Some(server) => server.url(),
        None => postgres::url().await?,
    };
    run(command, postgres::URL_VARIABLE, &url, signals).await
}

async fn with_chromium(command: &[&str]) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let path = spawn_blocking(chromium::get).await??;
    run(command, chromium::VARIABLE, path.to_str().context("the path of Chromium is not UTF-8")?, signals)
        .await
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|address| !address.is_empty())
}

/// What would end us, and must not before we have cleaned up.
struct Signals {
    /// A Ctrl-C reaches the command as well. It is the command's to end, and ours to clean up afterwards.
    _interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        Ok(Self { _interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }
}

async fn run(command: &[&str], variable: &str, address: &str, mut signals: Signals) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("no command")?;
    let child = Command::new(program).args(arguments).env(variable, address).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = signals.terminate.recv() => {
                let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                // It may have ended in this moment.
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
        }
    };
    Ok(code_of(status))
}

/// As a shell says it: 128 and the signal for a command that was killed.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
