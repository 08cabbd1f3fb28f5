//! `event-hub serve`: the hub itself.

use crate::config::Config;
use crate::config::sources::Flags;
use crate::secret::developer_token;
use crate::serving::{Running, Signals, run as serve, start};
use crate::{limits, log, text};
use anyhow::{Context, Result};
use hub_store_mongo::{Address, ConnectError};
use serde_json::json;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

/// Run a hub
///
/// Without any configuration it keeps its events in ./event-hub-data, listens on this machine only, makes a secret for
/// development and prints a token that may do everything. Flags count more than the environment, the environment more
/// than the file. Logs go to standard error, by RUST_LOG.
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
        serve(running, signals, &args.flags, |running| say_ready(running, args.json)).await
    });
    // Whatever still hangs has had its time.
    runtime.shutdown_background();
    served
}

/// Whether MongoDB is there, and will not do.
fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ConnectError>().is_some_and(|error| !matches!(error, ConnectError::Settings(_)))
}

fn say_ready(running: &Running, as_json: bool) -> Result<()> {
    let secure = if running.tls.is_some() { "s" } else { "" };
    let gateway = reachable(running.gateway.local_addr()?);
    let ops = reachable(running.ops.local_addr()?);
    let (ws, http) = (format!("ws{secure}://{gateway}/"), format!("http{secure}://{ops}/"));
    let auth = &running.config.auth;
    let token =
        running.made.as_ref().map(|made| developer_token(made, &auth.audience, auth.issuer.as_deref()));
    let address = running.config.mongo.as_ref().map(|mongo| &mongo.address);
    let (label, place) = match address {
        Some(address) => ("MongoDB", address.to_string()),
        None => ("data", running.config.data.display().to_string()),
    };
    tracing::info!(%gateway, %ops, tls = running.tls.is_some(), store = place, "listening");
    let said = if as_json {
        let mut ready = json!({ "ready": true, "ws": ws, "http": http });
        match address {
            Some(Address { hosts, database }) => {
                ready["mongo"] = json!({ "hosts": hosts, "database": database });
            }
            None => ready["data"] = place.into(),
        }
        if let Some(token) = token {
            ready["token"] = token.into();
        }
        format!("{ready}\n")
    } else {
        let mut lines =
            format!("event-hub is ready\n\n  WebSocket  {ws}\n  HTTP       {http}\n  {label:<9}  {place}\n");
        if token.is_some() && !std::io::stdout().is_terminal() {
            // Whatever keeps this output would keep the token, too.
            lines += &format!(
                "\n  For a token that may do everything: event-hub token --data {} --scope 'publish:**' \
                 --scope 'subscribe:**' --scope 'admin:**'\n",
                running.config.data.display()
            );
        } else if let Some(token) = token {
            lines += &format!(
                "\n  A token for development, which may do everything and is valid for 30 days:\n\n{token}\n\n  \
                 `event-hub token` makes narrower ones; set JWT_SECRET or JWT_JWKS_URL for real ones.\n"
            );
        }
        lines
    };
    match text::print(&said) {
        // Nobody reads it, but the hub runs all the same.
        Err(error) if text::is_closed_pipe(&error) => Ok(()),
        said => Ok(said?),
    }
}

/// An address that can be connected to from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
