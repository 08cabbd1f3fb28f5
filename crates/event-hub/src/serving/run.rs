//! Signals, and the way out.

use super::Running;
use super::reload::Changing;
use crate::config::sources::Flags;
use anyhow::{Context, Result, bail};
use hub_server::net;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// How long sessions have to end.
const SESSIONS: Duration = Duration::from_secs(4);
/// Whatever hangs: then the process ends.
const AT_LATEST: Duration = Duration::from_millis(9_500);

/// What ends a hub.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// The name of the next signal that ends the hub.
    async fn end(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

/// Serves until a signal comes. `ready` is called once connections are accepted and signals heard.
pub async fn run(running: Running, flags: &Flags, ready: impl FnOnce(&Running) -> Result<()>) -> Result<()> {
    let mut signals = Signals::new().context("listening for signals")?;
    let mut hangup = signal(SignalKind::hangup()).context("listening for signals")?;
    ready(&running)?;
    let Running { config, hub, gateway, ops, tls, made } = running;
    let mut serving = JoinSet::new();
    serving.spawn(net::serve(gateway, hub.gateway(), tls.clone(), hub.clone()));
    serving.spawn(net::serve(ops, hub.ops(), tls.clone(), hub.clone()));
    let changing = Changing { config, hub: hub.clone(), tls, made };
    let by = loop {
        tokio::select! {
            by = signals.end() => break by,
            _ = hangup.recv() => changing.reload(flags),
            ended = serving.join_next() => {
                hub.bus().stop().await.ok();
                bail!("a port is not served any more: {ended:?}")
            }
        }
    };
    tracing::info!(by, sessions = hub.sessions().len(), "stopping");
    give_up_in_time();
    tokio::select! {
        biased;
        again = signals.end() => {
            tracing::warn!(by = again, "ending at once");
            std::process::exit(1);
        }
        () = stop(&hub) => {}
    }
    Ok(())
}

async fn stop(hub: &hub_server::Hub) {
    let left = hub.drain(SESSIONS).await;
    if left > 0 {
        tracing::warn!(sessions = left, "stopping without waiting for sessions any longer");
    }
    match hub.bus().stop().await {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => {
            tracing::error!(error = %error.msg, "the bus did not stop cleanly; nothing acknowledged is lost");
        }
    }
}

/// Ends the process even if the runtime hangs.
fn give_up_in_time() {
    let give_up = || {
        std::thread::sleep(AT_LATEST);
        tracing::error!("stopping took too long; ending");
        std::process::exit(0);
    };
    // Without a thread to be had the stop goes on all the same; its parts have limits of their own.
    let _ = std::thread::Builder::new().name("give-up".into()).spawn(give_up);
}
