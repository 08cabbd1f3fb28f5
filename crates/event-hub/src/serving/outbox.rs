//! Draining outboxes into the hub's own bus.
//!
//! A database that cannot be reached is tried again for ever: it may be a service's own, and the hub has other things to do
//! meanwhile. `/outbox` and the log say so.

use super::spans::Spans;
use crate::config::Config;
use crate::config::outbox::Outbox;
use hub_core::outbox::{Drainer, OutboxStore};
use hub_server::Hub;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines in the log.
const SILENCE: Duration = Duration::from_secs(60);
/// How often rows are counted, for the metrics.
const COUNTING: Duration = Duration::from_secs(10);

/// The drainers of a hub.
pub struct Drainers {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Drainers {
    /// Starts one for each outbox of the configuration.
    pub fn start(config: &Config, hub: &Hub, spans: &Spans) -> Self {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        for outbox in config.outboxes.clone() {
            hub.outboxes().set(&outbox.name, |_| {});
            tasks.spawn(drain(outbox, hub.clone(), spans.clone(), stop.clone()));
        }
        Self { tasks, stop }
    }

    /// Waits until they have given back what they held.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn drain(outbox: Outbox, hub: Hub, spans: Spans, stop: CancellationToken) {
    let store = tokio::select! {
        store = connect(&outbox, &hub) => store,
        () = stop.cancelled() => return,
    };
    let mut drainer = Drainer::new(store.clone(), Arc::new(hub.bus().clone()), outbox.options);
    if let Some(recorder) = spans.recorder() {
        drainer = drainer.spans(recorder);
    }
    let progress = drainer.progress();
    hub.outboxes().set(&outbox.name, |known| {
        (known.store, known.progress, known.trouble) = (Some(store.clone()), progress, None);
    });
    tracing::info!(outbox = outbox.name, "draining");
    tokio::select! {
        drained = drainer.run(stop) => {
            let (sent, parked) = (drained.sent, drained.parked);
            tracing::info!(outbox = outbox.name, sent, parked, "not draining any more");
        }
        () = count(&outbox.name, &*store, &hub) => {}
    }
    store.close().await;
}

async fn connect(outbox: &Outbox, hub: &Hub) -> Arc<dyn OutboxStore> {
    let mut told: Option<Instant> = None;
    loop {
        let error = match outbox.place.open(&outbox.name).await {
            Ok(store) => return store,
            Err(error) => format!("{error:#}"),
        };
        if told.is_none_or(|told| told.elapsed() >= SILENCE) {
            tracing::warn!(outbox = outbox.name, error, "an outbox cannot be drained; trying again");
            told = Some(Instant::now());
        }
        hub.outboxes().set(&outbox.name, |known| known.trouble = Some(error));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Keeps the metrics fresh, for ever.
async fn count(name: &str, store: &dyn OutboxStore, hub: &Hub) {
    loop {
        let counted = store.counts().await;
        hub.outboxes().set(name, |known| match counted {
            Ok(counts) => (known.counts, known.trouble) = (counts, None),
            Err(error) => known.trouble = Some(error.to_string()),
        });
        tokio::time::sleep(COUNTING).await;
    }
}
