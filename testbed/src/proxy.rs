//! A network that fails on demand.
//!
//! A client of a replica set learns the members' own addresses and goes around anything that stands before them. So a
//! client is sent through a proxy with `directConnection=true`, which fits a set of one node.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::database::with_path;
use crate::ports::Port;

/// What one connection may carry at once.
const CHUNK: usize = 64 << 10;

/// A proxy on loopback. Its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: mpsc::Sender<(State, oneshot::Sender<Result<()>>)>,
    task: JoinHandle<()>,
}

/// What the proxy does with traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Silent,
    Cut,
}

impl Proxy {
    /// Starts one before the server that `uri` names, as in [`mongo`](crate::mongo) or
    /// [`ReplicaSet::uri`](crate::ReplicaSet::uri) of a set of one node, or a PostgreSQL's.
    pub async fn start(uri: &str) -> Result<Self> {
        let server = server_in(uri)?;
        let server = tokio::net::lookup_host(&server).await.ok().and_then(|mut found| found.next());
        let server = server.context("the server of the address cannot be found")?;
        let port = Port::take()?;
        let address = port.address();
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let (orders, inbox) = mpsc::channel(1);
        let task = tokio::spawn(run(port, listener, server, inbox));
        Ok(Self { address, orders, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How a MongoDB client goes through it.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?directConnection=true", self.address)
    }

    /// The same with the database `name` in the path: what `MONGO_URL` takes.
    pub fn database_uri(&self, name: &str) -> String {
        with_path(&self.uri(), name)
    }

    /// Drops all connections, and refuses new ones.
    pub async fn cut(&self) -> Result<()> {
        self.order(State::Cut).await
    }

    /// Keeps connections open, and lets nothing through in either direction. Nothing that was sent is lost: it waits.
    pub async fn silence(&self) -> Result<()> {
        self.order(State::Silent).await
    }

    /// Ends [`Proxy::cut`] or [`Proxy::silence`].
    pub async fn heal(&self) -> Result<()> {
        self.order(State::Open).await
    }

    async fn order(&self, state: State) -> Result<()> {
        let (done, wait) = oneshot::channel();
        self.orders.send((state, done)).await.context("the proxy has ended")?;
        wait.await.context("the proxy has ended")?
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `host:port` of an address with one server.
fn server_in(uri: &str) -> Result<String> {
    let (scheme, rest) = uri.split_once("://").unwrap_or_default();
    let usual_port = match scheme {
        "mongodb" => 27017,
        "postgres" | "postgresql" => 5432,
        _ => bail!("a proxy needs an address that starts with mongodb:// or postgres://"),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    if hosts.is_empty() || hosts.contains(',') {
        bail!("a proxy stands before one server, and the address names {}", hosts.split(',').count());
    }
    Ok(if hosts.contains(':') { hosts.to_owned() } else { format!("{hosts}:{usual_port}") })
}

async fn run(
    port: Port,
    listener: TcpListener,
    server: SocketAddr,
    mut inbox: mpsc::Receiver<(State, oneshot::Sender<Result<()>>)>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    let (silent, hears) = watch::channel(false);
    loop {
        tokio::select! {
            order = inbox.recv() => {
                let Some((state, done)) = order else { return };
                silent.send_replace(state == State::Silent);
                if state == State::Cut {
                    listener = None;
                    connections.shutdown().await;
                } else if listener.is_none() {
                    listener = TcpListener::bind(port.address()).await.ok();
                }
                let works = (state == State::Cut) == listener.is_none();
                let _ = done.send(if works { Ok(()) } else { Err(anyhow::anyhow!("the proxy's port is taken")) });
            }
            Ok(client) = accept(listener.as_ref()) => {
                connections.spawn(relay(client, server, hears.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Carries one connection until either side fails, or both have said all.
async fn relay(client: TcpStream, server: SocketAddr, silent: watch::Receiver<bool>) {
    let mut hears = silent.clone();
    if hears.wait_for(|silent| !silent).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    // As the two would do between themselves; otherwise small messages wait for each other.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = carry(from_client, to_server, silent.clone());
    let back = carry(from_server, to_client, silent);
    let _ = tokio::try_join!(there, back);
}

async fn carry(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut silent: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let closed = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let mut buffer = vec![0; CHUNK];
    loop {
        from.readable().await?;
        let read = match from.try_read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            to.writable().await?;
            // The borrow is held while we write: once silence has begun, not one byte more gets through.
            let quiet = silent.wait_for(|silent| !silent).await.map_err(closed)?;
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            drop(quiet);
        }
        if read == 0 {
            silent.wait_for(|silent| !silent).await.map_err(closed)?;
            return to.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_server_is_read_from_any_address_with_one() {
        for (uri, wanted) in [
            ("mongodb://127.0.0.1:5/?replicaSet=x", "127.0.0.1:5"),
            ("mongodb://localhost", "localhost:27017"),
            ("mongodb://user:secret@h:1/db?x=y", "h:1"),
            ("postgres://user@h/db", "h:5432"),
        ] {
            assert_eq!(server_in(uri).unwrap(), wanted);
        }
        let error = server_in("mongodb://user:secret@a:1,b:2/").unwrap_err().to_string();
        assert!(error.contains("names 2") && !error.contains("secret"), "{error}");
        assert!(server_in("http://a:1").is_err());
    }
}
