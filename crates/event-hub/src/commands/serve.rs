//! `event-hub serve`: the hub itself.

mod ready;

use crate::config::Config;
use crate::config::sources::Flags;
use crate::serving::{Signals, run as serve, start};
use crate::{limits, log};
use anyhow::{Context, Result};
use hub_store_mongo::ConnectError;
use ready::Ready;
use std::process::ExitCode;

/// Run a hub
///
/// Without any configuration it keeps its events in ./event-hub-data, listens on this machine only, makes a secret for
/// development and prints a token that may do everything, and a link that opens the dashboard with it. Flags count more than
/// the environment, the environment more than the file. Logs go to standard error, by RUST_LOG.
///
/// SIGTERM and SIGINT stop it cleanly within 10 seconds, a second one at once. SIGHUP reads the configuration again: keys,
/// rules, topics and limits change without a stop.
///
/// With MONGO_URL the events are in MongoDB, and any number of hubs share them. A MongoDB that cannot be reached is waited
/// for; /readyz says so.
///
/// Exit code: 0 after a clean stop; 1 after one that was not: a second signal, a port that broke, a committer that
/// panicked, or acks of the last moments that may not be saved; also if MongoDB is there and will not do. 2 if it could not start.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,

    /// Print one line of JSON when ready, instead of text
    #[arg(long)]
    json: bool,

    /// Open the dashboard in the browser when ready
    #[arg(long)]
    open: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let config = Config::load(&args.flags, &|name| std::env::var_os(name))?;
    log::start()?;
    if let Some(warning) = limits::raise_open_files() {
        tracing::warn!("{warning}");
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let served = runtime.block_on(async {
        // Before anything is opened: a stop in the middle of that is a stop, too.
        let mut signals = Signals::new().context("listening for signals")?;
        let running = tokio::select! {
            running = start(config) => match running {
                Ok(running) => running,
                Err(error) if is_refusal(&error) => {
                    note!("error: {error:#}");
                    return Ok(ExitCode::FAILURE);
                }
                Err(error) => return Err(error),
            },
            by = signals.end() => {
                tracing::info!(by, "stopped before it was ready");
                return Ok(ExitCode::SUCCESS);
            }
        };
        serve(running, signals, &args.flags, |running| {
            let ready = Ready::of(running)?;
            ready.print(args.json)?;
            if args.open {
                ready.open_browser();
            }
            Ok(())
        })
        .await
    });
    // Whatever still hangs has had its time.
    runtime.shutdown_background();
    served
}

/// Whether MongoDB is there, and will not do.
fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ConnectError>().is_some_and(|error| !matches!(error, ConnectError::Settings(_)))
}
