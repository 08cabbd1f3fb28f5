//! Waiting for MongoDB.
//!
//! Nobody answers: the hub waits, listens on its ports and says there, and now and then in the log, what it waits for. Somebody
//! answers who will not do: the start is over, because waiting would not change that.

use super::spans::Spans;
use super::start::open_bus;
use crate::config::Config;
use anyhow::{Context, Result, anyhow, bail};
use hub_core::prometheus_client::registry::Registry;
use hub_core::store::EventStore;
use hub_core::{Bus, ClusterConfig, Code};
use hub_server::auth::Authenticator;
use hub_server::http::Waiting;
use hub_server::net::Tls;
use hub_store_mongo::{MongoStore, Options};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Between two tries. A try itself takes up to some seconds while nobody answers.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two lines in the log.
const SILENCE: Duration = Duration::from_secs(30);

/// What is listened on meanwhile.
pub struct Ports<'a> {
    pub gateway: &'a TcpListener,
    pub ops: &'a TcpListener,
    pub tls: Option<&'a Tls>,
}

/// Connects, however long it takes, and opens the bus as one of several hubs.
///
/// # Errors
/// A [`hub_store_mongo::ConnectError`] that does not get better by waiting.
pub async fn open(
    config: &Config,
    auth: &Authenticator,
    spans: &Spans,
    ports: &Ports<'_>,
) -> Result<(Bus, Registry)> {
    let mongo = config.mongo.as_ref().context("no address of MongoDB")?;
    let cluster = ClusterConfig {
        address: mongo.reached_at(ports.gateway.local_addr()?, ports.tls.is_some()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..ClusterConfig::default()
    };
    // For whoever wants to ask how it is going, on a port that was picked.
    let ops = ports.ops.local_addr()?;
    tracing::info!(store = %mongo.address, %ops, "connecting to MongoDB");
    let options = mongo.options();
    let waiting = Waiting::new(auth.clone(), config.settings.clone(), "MongoDB has not answered yet");
    let opened = tokio::select! {
        opened = wait(config, &options, &cluster, spans, &waiting) => opened,
        () = waiting.serve(ports.gateway, ports.ops, ports.tls) => bail!("the ports are not served any more"),
    };
    waiting.end().await;
    opened
}

async fn wait(
    config: &Config,
    options: &Options,
    cluster: &ClusterConfig,
    spans: &Spans,
    waiting: &Waiting,
) -> Result<(Bus, Registry)> {
    let began = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        let why = match attempt(config, options, cluster, spans).await? {
            Attempt::Open(bus, registry) => {
                if told.is_some() {
                    tracing::info!(waited_s = began.elapsed().as_secs(), "MongoDB is there");
                }
                return Ok((bus, registry));
            }
            Attempt::Later(why) => why,
        };
        if told.is_none_or(|told| told.elapsed() >= SILENCE) {
            tracing::warn!(why, waited_s = began.elapsed().as_secs(), "waiting for MongoDB");
            told = Some(Instant::now());
        }
        waiting.say(why);
        tokio::time::sleep(PAUSE).await;
    }
}

enum Attempt {
    Open(Bus, Registry),
    Later(String),
}

async fn attempt(
    config: &Config,
    options: &Options,
    cluster: &ClusterConfig,
    spans: &Spans,
) -> Result<Attempt> {
    let store = match MongoStore::connect(options.clone()).await {
        Ok(store) => store,
        Err(error) if error.is_unreachable() => return Ok(Attempt::Later(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    // A registry forgets nothing, so each try has its own.
    let mut registry = Registry::default();
    let bus = Bus::builder(store.clone()).cluster(cluster.clone());
    let opened = open_bus(bus, config, spans, &mut registry).await;
    if opened.is_err() {
        // Nothing has started that would.
        let _ = store.close().await;
    }
    match opened {
        Ok(bus) => Ok(Attempt::Open(bus, registry)),
        // It went away again.
        Err(error) if error.code == Code::Unavailable => Ok(Attempt::Later(error.msg.into_owned())),
        Err(error) => Err(anyhow!("{}", error.msg)).context("the bus did not start"),
    }
}
