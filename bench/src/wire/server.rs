//! The other process: a hub on the embedded store, and beside it bare axum, for what sockets cost by themselves.

use crate::child;
use crate::store::place::Place;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::routing::any;
use futures_util::{SinkExt, StreamExt};
use hub_core::{Bus, ClusterConfig};
use hub_schema::Schemas;
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::{Hub, Settings, limits::Limits};
use hub_store_embedded::{EmbeddedStore, Options};
use hub_store_mongo::MongoStore;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

/// The word on the command line.
pub const SERVER: &str = "wire-server";
/// The token of all clients.
pub const TOKEN: &str = "the token of the benchmark";

/// Where its sockets are.
#[derive(Debug, Serialize, Deserialize)]
struct Ports {
    hub: u16,
    ops: u16,
    bare: u16,
}

/// Serves until its parent is gone.
pub async fn serve(store: &str) -> Result<()> {
    raise_limit();
    let bus = if store.starts_with("mongodb://") {
        let store = MongoStore::connect(hub_store_mongo::Options::new(store)).await?;
        Bus::builder(store).cluster(ClusterConfig::default()).open().await?
    } else {
        let store = EmbeddedStore::open(Path::new(store), Options::default())?;
        Bus::builder(store).payload_checks(Arc::new(Schemas::default())).open().await?
    };
    let auth = AuthConfig { static_token: Some(Secret::new(TOKEN)), ..AuthConfig::default() };
    let limits = Limits { connections: 30_000, connections_per_address: 30_000, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let hub = Hub::builder(bus.clone(), Authenticator::new(auth)?).settings(settings).build();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (ops, bare) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let ports = Ports { hub: port(&listener)?, ops: port(&ops)?, bare: port(&bare)? };
    let (serving, drained) = (hub.clone(), hub.clone());
    let ops = tokio::spawn(hub_server::net::serve(ops, hub.ops(), None, serving.clone()));
    let hub = tokio::spawn(hub_server::net::serve(listener, hub.gateway(), None, serving));
    let bare = tokio::spawn(async move { axum::serve(bare, bare_router()).await });
    println!("{}", serde_json::to_string(&ports)?);
    // Its parent says when: by closing this.
    tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0])).await??;
    drained.drain(std::time::Duration::from_secs(3)).await;
    bus.stop().await?;
    hub.abort();
    ops.abort();
    bare.abort();
    Ok(())
}

/// What axum does by itself: `/echo` sends back what it gets; what comes to `/fan` goes to all who are there.
fn bare_router() -> Router {
    let (all, _) = broadcast::channel::<Utf8Bytes>(1 << 16);
    Router::new()
        .route("/echo", any(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(echo) }))
        .route("/fan", any(fan))
        .with_state(all)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.next().await {
        if matches!(message, Message::Text(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn fan(
    State(all): State<broadcast::Sender<Utf8Bytes>>,
    upgrade: WebSocketUpgrade,
) -> axum::response::Response {
    upgrade.on_upgrade(move |mut socket| async move {
        let mut events = all.subscribe();
        loop {
            tokio::select! {
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => drop(all.send(text)),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
                event = events.recv() => {
                    let Ok(event) = event else { return };
                    let mut fed = socket.feed(Message::Text(event)).await;
                    // One flush for all that are here.
                    while let Ok(event) = events.try_recv() {
                        fed = fed.and(socket.feed(Message::Text(event)).await);
                    }
                    if fed.is_err() || socket.flush().await.is_err() {
                        return;
                    }
                }
            }
        }
    })
}

/// A running server; it goes with this.
pub struct Server {
    child: Child,
    ports: Ports,
    /// Where its store is, if that is a directory.
    _directory: Option<TempDir>,
}

impl Server {
    /// Starts one on an empty store.
    pub fn start(place: &Place) -> Result<Self> {
        let directory = place.fresh()?;
        let data = directory.path().join("data");
        Self::on(data.as_os_str(), Some(directory))
    }

    /// Starts one on a MongoDB.
    pub fn on_mongo(uri: &str) -> Result<Self> {
        Self::on(uri.as_ref(), None)
    }

    fn on(store: &OsStr, directory: Option<TempDir>) -> Result<Self> {
        raise_limit();
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVER)
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it was piped")?).read_line(&mut line)?;
        let ports = serde_json::from_str(&line).context("the server did not start")?;
        Ok(Self { child, ports, _directory: directory })
    }

    /// The address of the hub.
    pub fn hub(&self) -> String {
        format!("ws://127.0.0.1:{}/", self.ports.hub)
    }

    /// The address of its HTTP side.
    pub fn ops(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.ops).into()
    }

    /// Processor time that it has taken.
    pub fn cpu(&self) -> Result<Duration> {
        child::cpu(&self.child)
    }

    /// An address of bare axum.
    pub fn bare(&self, path: &str) -> String {
        format!("ws://127.0.0.1:{}/{path}", self.ports.bare)
    }

    /// Memory of its own, file cache aside.
    pub fn anonymous_mib(&self) -> Result<f64> {
        child::anonymous_mib(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        child::end(&mut self.child);
    }
}

/// As many sockets as the machine allows.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
