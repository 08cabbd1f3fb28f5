//! Sockets: accepting, TLS, and how many there may be.
//!
//! | to know about | look at |
//! | --- | --- |
//! | the loop that accepts, and what it does when it cannot | `accept.rs` |
//! | one connection: handshake, HTTP, how it ends | `connection.rs` |
//! | a peer that does not read | `stall.rs` |
//! | how many there may be, and who counts them | [`Seat`] |
//! | certificates and their reload | [`Tls`] |
//!
//! A stranger gets a seat, a task and a few KiB before it has said a word, and [`Patience`] bounds for how long. What is
//! said afterwards is the routers' matter: how long a body may take, when a WebSocket is idle.

mod accept;
mod busy;
mod connection;
mod seat;
mod seldom;
mod stall;
mod tls;

pub(crate) use seat::Door;
pub use seat::Seat;
pub use tls::{PreparedTls, Tls, TlsError};

use crate::Hub;
use axum::Router;
use std::time::Duration;
use tokio::net::TcpListener;

/// For how long a connection may say nothing.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a TLS handshake, from beginning to end.
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
/// [`ConnectInfo<SocketAddr>`](axum::extract::ConnectInfo) and a [`Seat`].
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
    accept::Acceptor { listener, router, tls, hub, door, patience }.run().await;
}
