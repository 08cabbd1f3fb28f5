//! `hub-testbed`: the testbed for programs that are not written in Rust, and for `cargo xtask test`.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context, Result};
use hub_testbed::programs::Programs;
use hub_testbed::{ReplicaSet, URI_VARIABLE};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
usage: hub-testbed mongo get
       hub-testbed mongo run [--shared] -- COMMAND [ARGUMENT…]

  get        gets MongoDB into the cache, unless it is there or on PATH, and says which one it is
  run        runs COMMAND with EVENT_HUB_TEST_MONGO set to the address of a new replica set of one node, which is gone
             afterwards; the exit code is the command's. If the variable is set already, nothing is started
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
        ["mongo", "get"] => get().await,
        ["mongo", "run", "--", program, ref arguments @ ..] => run(program, arguments, false).await,
        ["mongo", "run", "--shared", "--", program, ref arguments @ ..] => {
            run(program, arguments, true).await
        }
        _ => {
            eprintln!("error: no such command\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn get() -> Result<ExitCode> {
    println!("{}", tokio::task::spawn_blocking(Programs::get).await??.describe());
    Ok(ExitCode::SUCCESS)
}

async fn run(program: &str, arguments: &[&str], shared: bool) -> Result<ExitCode> {
    // A Ctrl-C reaches the command as well. It is the command's to end, and ours to clean up afterwards.
    let _interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let given = env::var(URI_VARIABLE).is_ok_and(|uri| !uri.is_empty());
    let set = if shared || given { None } else { Some(ReplicaSet::start(1).await?) };
    let uri = match &set {
        Some(set) => set.uri(),
        None => hub_testbed::mongo().await?,
    };
    let child = Command::new(program).args(arguments).env(URI_VARIABLE, uri).spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = terminate.recv() => {
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
