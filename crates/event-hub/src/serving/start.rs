//! The start: everything that can go wrong says what to do about it.

use super::audit;
use super::embedded;
use super::mongo::{self, Ports};
use super::spans::Spans;
use crate::config::Config;
use crate::secret;
use anyhow::{Context, Result, anyhow};
use hub_core::prometheus_client::registry::Registry;
use hub_core::{Bus, BusBuilder, Millis};
use hub_schema::Schemas;
use hub_server::Hub;
use hub_server::auth::{Authenticator, Secret};
use hub_server::net::Tls;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// How long the bus may take for its own stop; twice that and the sessions' time have to fit into ten seconds.
const STOP_TIMEOUT: Millis = 2_000;

/// A hub that is ready, but does not accept connections yet.
pub struct Running {
    /// What it goes by.
    pub config: Config,
    /// The hub.
    pub hub: Hub,
    /// The WebSocket port.
    pub gateway: TcpListener,
    /// The HTTP port.
    pub ops: TcpListener,
    /// Certificates, if there are.
    pub tls: Option<Tls>,
    /// The development secret, if that is what tokens are signed with.
    pub made: Option<Secret>,
    /// Where spans of traced events go.
    pub spans: Spans,
}

/// Opens everything. On MongoDB that may take as long as nobody answers there.
///
/// # Errors
/// With what to do about it.
pub async fn start(mut config: Config) -> Result<Running> {
    // Ports and certificates first: they fail at once, while opening a large log takes its time.
    let tls = config.tls.as_ref().map(Tls::new).transpose()?;
    let audit = audit::open(&config.audit)?;
    let spans = Spans::start(config.tracing.as_ref())?;
    let gateway = listen(SocketAddr::new(config.bind, config.ws_port), "WebSocket", "--ws-port").await?;
    let ops = listen(SocketAddr::new(config.bind, config.ops_port), "HTTP", "--ops-port").await?;
    // Before the secret is made: the directory is this hub's alone.
    let embedded = match config.mongo {
        None => Some(embedded::open(&config).await?),
        Some(_) => None,
    };
    let made = made(&mut config)?;
    let auth = Authenticator::new(config.auth.clone()).map_err(|error| anyhow!("{}", error.msg))?;
    for warning in config.open_files() {
        tracing::warn!("{warning}");
    }
    let (bus, registry) = match embedded {
        Some(store) => {
            let mut registry = Registry::default();
            let bus = open_bus(Bus::builder(store), &config, &spans, &mut registry).await;
            (bus.map_err(|error| anyhow!("{}", error.msg)).context("the bus did not start")?, registry)
        }
        None => {
            let ports = Ports { gateway: &gateway, ops: &ops, tls: tls.as_ref() };
            mongo::open(&config, &auth, &spans, &ports).await?
        }
    };
    for warning in bus.health().warnings {
        tracing::warn!("store: {warning}");
    }
    let mut hub = Hub::builder(bus, auth).settings(config.settings.clone()).registry(registry).audit(audit);
    if let Some(mongo) = &config.mongo {
        if let Some(key) = mongo.key(config.auth.secret.as_ref()) {
            hub = hub.cluster_key(key);
        }
        let own = config.tls.as_ref().map(|files| &files.cert);
        if let Some(roots) = mongo.roots(own).context("reading the certificates of other hubs")? {
            hub = hub.cluster_roots(roots);
        }
        let certificate = mongo.certificate(config.tls.as_ref()).map_err(|error| anyhow!("{error}"));
        if let Some(certificate) = certificate.context("reading the certificate for other hubs")? {
            hub = hub.cluster_certificate(certificate);
        }
    }
    Ok(Running { config, hub: hub.build(), gateway, ops, tls, made, spans })
}

/// The development secret, if nothing else says whose tokens hold.
fn made(config: &mut Config) -> Result<Option<Secret>> {
    if config.auth.is_real() {
        return Ok(None);
    }
    let data = &config.data;
    embedded::make(data).with_context(|| format!("{} cannot be made", data.display()))?;
    let secret = secret::load_or_make(data)?;
    config.auth.secret = Some(secret.clone());
    config.auth.secret_is_made = true;
    Ok(Some(secret))
}

/// Opens a bus as the configuration says.
pub async fn open_bus(
    mut bus: BusBuilder,
    config: &Config,
    spans: &Spans,
    registry: &mut Registry,
) -> hub_core::Result<Bus> {
    let mut settings = config.bus.clone();
    settings.stop_timeout = STOP_TIMEOUT;
    if let Some(recorder) = spans.recorder() {
        bus = bus.spans(recorder);
    }
    let schemas = Schemas::default();
    schemas.set_configured(config.schemas.clone());
    bus.payload_checks(Arc::new(schemas)).config(settings).open_with(registry).await
}

async fn listen(address: SocketAddr, what: &str, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "port {} of {} is in use, so {what} cannot listen there; stop what uses it, or choose another with {flag} (0 \
             picks a free one)",
            address.port(),
            address.ip()
        ),
        io::ErrorKind::AddrNotAvailable => anyhow!(
            "{} is no address of this machine; server.bind (BIND, --bind) has to be one, such as 127.0.0.1",
            address.ip()
        ),
        io::ErrorKind::PermissionDenied => anyhow!(
            "port {} needs rights that this process does not have; choose one from 1024 on with {flag}",
            address.port()
        ),
        _ => anyhow!("{what} cannot listen on {address}: {error}"),
    })
}
