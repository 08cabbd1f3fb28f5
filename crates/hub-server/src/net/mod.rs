//! Sockets: accepting, TLS, and how many there may be.
//!
//! | to know about | look at |
//! | --- | --- |
//! | the loop that accepts, and what it does when it cannot | `accept.rs` |
//! | one connection: handshake, HTTP, how it ends | `connection.rs` |
//! | a peer that does not read | `stall.rs` |
//! | whose a request is: peers, and proxies that are trusted | [`ClientAddress`], [`TrustedProxies`] |
//! | the header with which a proxy begins a connection | `proxy_protocol` |
//! | how many there may be, and who counts them | [`Seat`] |
//! | certificates and their reload | [`Tls`] |
//! | the certificate of a client, and whom it names | [`ClientCertificate`] |
//!
//! A stranger gets a seat, a task and a few KiB before it has said a word, and [`Patience`] bounds for how long. What is
//! said afterwards is the routers' matter: how long a body may take, when a WebSocket is idle.

mod accept;
mod busy;
mod certificate;
mod client;
mod connection;
mod full;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod proxy_protocol;
mod seat;
mod seldom;
mod stall;
mod tls;
mod trusted;

pub use certificate::ClientCertificate;
pub use client::ClientAddress;
pub use seat::Seat;
pub(crate) use seat::{Capacity, Door, Origin};
pub use tls::{ClientAuthorities, PreparedTls, Tls, TlsError, TlsFiles};
pub use trusted::{BadProxy, Proxies, TrustedProxies};

use crate::limits::From;
use crate::{Hub, Settings};
use axum::Router;
use axum::http::{Extensions, HeaderMap};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// For how long a connection may say nothing.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a TLS handshake, from beginning to end, and as long for the header of a proxy before it.
    pub handshake: Duration,
    /// For the head of a request, from its connection or the request before: a connection that is kept alive is closed
    /// after this.
    pub head: Duration,
    /// For a write, from its last progress: a peer that asks and does not read is cut off after this.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            write: Duration::from_secs(120),
        }
    }
}

/// Accepts connections until the hub drains. Each listener has seats of its own: one that is full takes nothing from
/// another. Each connection is a task of [`Hub::sessions`]; requests carry
/// [`ConnectInfo<SocketAddr>`](axum::extract::ConnectInfo), which is the socket's other end, the [`ClientAddress`] that they count
/// for, a [`Seat`], and the [`ClientCertificate`] if the client has shown one.
pub async fn serve(listener: TcpListener, router: Router, tls: Option<Tls>, hub: Hub) {
    serve_with(listener, router, tls, hub, Patience::default()).await;
}

/// As [`serve`], with other patience.
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    tls: Option<Tls>,
    hub: Hub,
    patience: Patience,
) {
    let door = hub.door().beside();
    let (settings, draining, sessions) = (hub.follow(), hub.draining().clone(), hub.sessions().clone());
    let place = Place { tls, settings, draining, sessions };
    accept::Acceptor { listener: &listener, router, place, door, patience }.run().await;
}

/// What a listener needs to know of where it is.
pub(crate) struct Place {
    /// Certificates, if there are.
    pub tls: Option<Tls>,
    /// How many connections there may be.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// Cancelled when nobody is accepted any more.
    pub draining: CancellationToken,
    /// Where connections live.
    pub sessions: TaskTracker,
}

/// As [`serve`], without a hub. The listener can be used again afterwards.
pub(crate) async fn answer(listener: &TcpListener, router: Router, place: Place) {
    let door = Door::register(&mut Registry::default());
    accept::Acceptor { listener, router, place, door, patience: Patience::default() }.run().await;
}

/// Whether a request came through a proxy: its client is not the peer, and not local, whatever the peer's address is.
pub(crate) fn origin_of(headers: &HeaderMap, extensions: &Extensions) -> From {
    let client = ClientAddress::of(extensions);
    match client.map_or_else(|| client::is_forwarded(headers), |client| client.is_forwarded) {
        true => From::Proxy,
        false => From::Peer,
    }
}
