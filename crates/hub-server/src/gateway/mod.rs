//! The WebSocket gateway: one JSON object per text frame, one session per connection.
//!
//! A connection is one task (`session`): it reads requests, answers them, delivers events, and flushes once per round
//! whatever has come together. Requests are carried out in the order in which they came; a publish does not hold up the
//! next one, but the answers of publishes come in their order, too.
//!
//! What a connection can cost is bounded: frames by their size, answers by `session::OUT_BYTES` (beyond, nothing more is
//! read), events by what the bus lets a member have and by the socket: a client that does not read gets no more, they stay
//! in the log.

mod alarm;
mod answer;
mod audit;
mod deadlines;
mod deliver;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handle;
mod handshake;
mod origin;
mod peer;
mod publishing;
mod request;
mod session;
mod socket;
mod subscriptions;

pub(crate) use origin::allowed as origin_allowed;
pub(crate) use request::Name;

use crate::Hub;
use crate::net::{Capacity, ClientCertificate};
use crate::peer::address_of;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use handshake::Handshake;
use serde_json::json;
use socket::Socket;

impl Hub {
    /// The WebSocket side.
    pub fn gateway(&self) -> Router {
        Router::new().route("/", any(upgrade)).with_state(self.clone())
    }
}

async fn upgrade(State(hub): State<Hub>, mut request: Request) -> Response {
    match Handshake::of(&mut request) {
        Some(handshake) => accept(hub, handshake, request),
        None => {
            let text = "this is the hub's WebSocket; HTTP is on the other port\n";
            (StatusCode::UPGRADE_REQUIRED, [("upgrade", "websocket")], text).into_response()
        }
    }
}

/// `/ws` of the HTTP port: the same gateway, for those who have one port only.
pub(crate) async fn upgrade_at_ops(State(hub): State<Hub>, mut request: Request) -> Response {
    match Handshake::of(&mut request) {
        Some(handshake) => accept(hub, handshake, request),
        None => {
            let error = "this path is the hub's WebSocket; ask for an upgrade to \"websocket\", version 13";
            let body = Json(json!({ "error": error, "code": "upgrade_required" }));
            (StatusCode::UPGRADE_REQUIRED, [("upgrade", "websocket")], body).into_response()
        }
    }
}

fn accept(hub: Hub, handshake: Handshake, mut request: Request) -> Response {
    let settings = hub.settings();
    let address = address_of(request.extensions());
    if !origin::allowed(&settings, request.headers()) {
        audit::refused_origin(&hub, address);
        return (StatusCode::FORBIDDEN, "pages of this origin may not connect\n").into_response();
    }
    if hub.draining().is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the hub is stopping\n").into_response();
    }
    let capacity = Capacity::unauthenticated(&settings.limits);
    let waiting = match address.map(|peer| hub.waiting_room().enter(peer.ip(), capacity)).transpose() {
        Ok(waiting) => waiting,
        Err(_) => {
            let text = "too many connections have not authenticated yet; try again later\n";
            return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")], text).into_response();
        }
    };
    let seat = request.extensions_mut().remove::<crate::net::Seat>();
    let from = crate::net::origin_of(request.headers(), request.extensions());
    let certificate = ClientCertificate::of(request.extensions()).cloned();
    // A stop waits for the session.
    let tracked = hub.sessions().token();
    let (answer, upgraded) = handshake.accept();
    tokio::spawn(async move {
        let _tracked = tracked;
        match upgraded.await {
            Ok(stream) => {
                let socket = Socket::new(stream, settings.limits.frame_bytes_before_auth());
                session::Session::new(hub, socket, from, address, certificate, (seat, waiting)).run().await;
            }
            Err(error) => tracing::debug!(%error, "connection gone before it was a websocket"),
        }
    });
    answer
}
