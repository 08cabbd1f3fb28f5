//! The address that a request comes from.

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use std::net::SocketAddr;

/// The address of the client, for the audit log and for what is counted per address; `None` if the router is served without it.
pub(crate) fn address_of(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| *peer)
}
