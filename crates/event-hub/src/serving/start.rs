//! The start: everything that can go wrong says what to do about it.

use crate::config::Config;
use crate::secret;
use anyhow::{Context, Result, anyhow, bail};
use hub_core::prometheus_client::registry::Registry;
use hub_core::{Bus, Millis};
use hub_server::Hub;
use hub_server::auth::{Authenticator, Secret};
use hub_server::net::Tls;
use hub_store_embedded::{EmbeddedStore, OpenError, Options};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
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
}

/// Opens everything.
///
/// # Errors
/// With what to do about it.
pub async fn start(mut config: Config) -> Result<Running> {
    // Ports and certificates first: they fail at once, while opening a large log takes its time.
    let tls = config.tls.as_ref().map(|(cert, key)| Tls::from_files(cert, key)).transpose()?;
    let gateway = listen(SocketAddr::new(config.bind, config.ws_port), "WebSocket", "--ws-port").await?;
    let ops = listen(SocketAddr::new(config.bind, config.ops_port), "HTTP", "--ops-port").await?;
    let store = open(&config).await?;
    let made = match config.auth.is_real() {
        true => None,
        false => {
            let secret = secret::load_or_make(&config.data)?;
            config.auth.secret = Some(secret.clone());
            config.auth.secret_is_made = true;
            Some(secret)
        }
    };
    let auth = Authenticator::new(config.auth.clone()).map_err(|error| anyhow!("{}", error.msg))?;
    for warning in config.open_files() {
        tracing::warn!("{warning}");
    }
    let mut registry = Registry::default();
    let mut bus = config.bus.clone();
    bus.stop_timeout = STOP_TIMEOUT;
    let bus = Bus::builder(store).config(bus).open_with(&mut registry).await;
    let bus = bus.map_err(|error| anyhow!("{}", error.msg)).context("the bus did not start")?;
    for warning in bus.health().warnings {
        tracing::warn!("store: {warning}");
    }
    let hub = Hub::builder(bus, auth).settings(config.settings.clone()).registry(registry).build();
    Ok(Running { config, hub, gateway, ops, tls, made })
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

async fn open(config: &Config) -> Result<EmbeddedStore> {
    let options = Options { segment_bytes: config.segment_bytes, ..Options::default() };
    let data = config.data.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let what = format!("making {}", data.display());
        make(&data).map_err(|error| OpenError::Io { what, error })?;
        EmbeddedStore::open(&data, options)
    });
    let opened = opened.await;
    opened.context("opening the store")?.or_else(|error| refused(&config.data, &error))
}

/// Makes a data directory that is not there, for this user only: nothing in it is encrypted. One that is there stays as it
/// is.
fn make(data: &Path) -> io::Result<()> {
    if let Some(parent) = data.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(data) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn refused<T>(data: &Path, error: &OpenError) -> Result<T> {
    let data = data.display();
    match error {
        OpenError::Locked(_) => bail!(
            "{data} is in use by another process; a data directory has one hub at a time: stop that one, or choose \
             another directory with --data"
        ),
        OpenError::Damaged(_) => {
            bail!("{error}; `event-hub doctor {data}` says what is wrong and what can be done")
        }
        OpenError::Io { .. } => bail!("{error}; check that {data} can be read and written by this user"),
        OpenError::Newer { .. } => bail!("{error}"),
    }
}
