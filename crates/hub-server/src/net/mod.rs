//! Sockets: accepting, TLS, and how many there may be.

use crate::Hub;
use axum::Router;
use tokio::net::TcpListener;

/// A certificate and its key, as rustls wants them.
#[derive(Clone, Debug)]
pub struct Tls {}

/// Accepts connections until the hub drains.
pub async fn serve(listener: TcpListener, router: Router, tls: Option<Tls>, hub: Hub) {
    let _ = (listener, router, tls);
    hub.draining().cancelled().await;
}

/// Placeholder until sockets are counted.
#[derive(Clone, Debug)]
pub struct Seat;
