//! Signals, and the way out.

use super::Running;
use super::audit;
use super::outbox::Drainers;
use super::reload::Changing;
use crate::config::sources::Flags;
use anyhow::Result;
use hub_server::net;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, JoinSet};

/// How long sessions have to end.
const SESSIONS: Duration = Duration::from_secs(4);
/// Whatever hangs: then the process ends.
const AT_LATEST: Duration = Duration::from_millis(9_500);

/// What ends a hub, or has it read its configuration again.
pub struct Signals {
    term: Signal,
    int: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on no signal ends the process by itself; one that comes early is kept.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next signal that ends the hub.
    pub async fn end(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

/// Serves until a signal comes. `ready` is called once connections are accepted.
pub async fn run(
    running: Running,
    mut signals: Signals,
    flags: &Flags,
    ready: impl FnOnce(&Running) -> Result<()>,
) -> Result<ExitCode> {
    ready(&running)?;
    let Running { config, hub, gateway, ops, tls, made, spans } = running;
    let mut serving = JoinSet::new();
    serving.spawn(net::serve(gateway, hub.gateway(), tls.clone(), hub.clone()));
    serving.spawn(net::serve(ops, hub.ops(), tls.clone(), hub.clone()));
    let drainers = Drainers::start(&config, &hub, &spans);
    hub.push().set_configured(config.endpoints.clone());
    hub.start_push();
    let changing = Arc::new(Changing { config, hub: hub.clone(), tls, made });
    let mut reloading = None;
    let mut clean = true;
    let by = loop {
        tokio::select! {
            _ = signals.term.recv() => break "SIGTERM",
            _ = signals.int.recv() => break "SIGINT",
            // One at a time, and beside the signals: a file may be on a disk that does not answer.
            _ = signals.hangup.recv(), if reloading.is_none() => {
                let (changing, flags) = (changing.clone(), flags.clone());
                reloading = Some(tokio::task::spawn_blocking(move || changing.reload(&flags)));
            }
            () = reloaded(&mut reloading), if reloading.is_some() => reloading = None,
            () = hub.bus().failed() => {
                tracing::error!("the bus cannot go on; ending, so that the hub is started again");
                clean = false;
                break "a failure of the bus";
            }
            ended = serving.join_next() => {
                tracing::error!(?ended, "a port is not served any more");
                clean = false;
                break "a port that broke";
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
        stopped = stop(&hub, drainers) => clean &= stopped,
    }
    audit::close(&hub).await;
    spans.stop().await;
    Ok(ExitCode::from(u8::from(!clean)))
}

async fn reloaded(reloading: &mut Option<JoinHandle<()>>) {
    if let Some(Err(error)) = match reloading {
        Some(task) => Some(task.await),
        None => None,
    } {
        tracing::error!(%error, "the reload failed");
    }
}

/// Answers whether the bus has stopped cleanly.
async fn stop(hub: &hub_server::Hub, drainers: Drainers) -> bool {
    // What a drainer has given to the bus is answered and marked before that stops.
    let (left, ()) = tokio::join!(hub.drain(SESSIONS), drainers.stop());
    if left > 0 {
        tracing::warn!(sessions = left, "stopping without waiting for sessions any longer");
    }
    match hub.bus().stop().await {
        Ok(()) => {
            tracing::info!("stopped");
            true
        }
        Err(error) => {
            let error = error.msg;
            tracing::error!(%error, "the bus did not stop cleanly; what was acked in the last moments may come again");
            false
        }
    }
}

/// Ends the process even if the runtime hangs.
fn give_up_in_time() {
    let give_up = || {
        std::thread::sleep(AT_LATEST);
        tracing::error!("stopping took too long; ending; what was acked in the last moments may come again");
        std::process::exit(1);
    };
    // Without a thread to be had the stop goes on all the same; its parts have limits of their own.
    let _ = std::thread::Builder::new().name("give-up".into()).spawn(give_up);
}
