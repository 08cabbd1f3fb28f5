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
mod deadlines;
mod deliver;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handle;
mod origin;
mod peer;
mod publishing;
mod request;
mod room;
mod session;
mod subscriptions;

pub(crate) use request::Name;
pub(crate) use room::{Room, Seat};

use crate::Hub;
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

/// What is read from a socket in one go. Every idle connection keeps one of these.
const READ_BYTES: usize = 8 << 10;
/// Frames gather up to here before they are written without a flush.
const WRITE_BYTES: usize = 64 << 10;

impl Hub {
    /// The WebSocket side.
    pub fn gateway(&self) -> Router {
        Router::new().route("/", any(upgrade)).with_state(self.clone())
    }
}

async fn upgrade(
    State(hub): State<Hub>,
    headers: HeaderMap,
    seat: Option<Extension<crate::net::Seat>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(_) => {
            let text = "this is the hub's WebSocket; HTTP is on the other port\n";
            return (StatusCode::UPGRADE_REQUIRED, [("upgrade", "websocket")], text).into_response();
        }
    };
    let settings = hub.settings();
    if !origin::allowed(&settings, &headers) {
        return (StatusCode::FORBIDDEN, "pages of this origin may not connect\n").into_response();
    }
    if hub.draining().is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the hub is stopping\n").into_response();
    }
    let limit = settings.limits.frame_bytes;
    let upgrade = upgrade
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_frame_size(limit)
        .max_message_size(limit);
    // A stop waits for the session.
    let tracked = hub.sessions().token();
    upgrade.on_upgrade(move |socket| async move {
        session::Session::new(hub, socket, seat.map(|Extension(seat)| seat)).run().await;
        drop(tracked);
    })
}
