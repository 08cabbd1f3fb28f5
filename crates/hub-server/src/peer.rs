//! The address that a request comes from.

use crate::net::ClientAddress;
use axum::extract::ConnectInfo;
use axum::http::Extensions;
use std::net::SocketAddr;

/// The address of the client, for the audit log and for what is counted per address; `None` if the router is served without it. Of a
/// client behind a trusted proxy no port is known: it is 0.
pub(crate) fn address_of(extensions: &Extensions) -> Option<SocketAddr> {
    let peer = extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| *peer);
    match ClientAddress::of(extensions) {
        Some(client) if peer.is_none_or(|peer| peer.ip().to_canonical() != client.ip) => {
            Some(SocketAddr::new(client.ip, 0))
        }
        _ => peer,
    }
}
