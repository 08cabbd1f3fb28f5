//! From HTTP to WebSocket (RFC 6455, section 4.2).

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The connection, once HTTP has given it up.
pub(crate) type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// A request that asks for a WebSocket.
pub(super) struct Handshake {
    key: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// The handshake of a request; `None` if it asks for something else.
    pub fn of(request: &mut Request) -> Option<Self> {
        let headers = request.headers();
        let is_one = request.method() == Method::GET
            && lists(headers, header::CONNECTION, "upgrade")
            && lists(headers, header::UPGRADE, "websocket")
            && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_one)?.clone();
        let upgrade = request.extensions_mut().remove::<OnUpgrade>()?;
        Some(Self { key, upgrade })
    }

    /// The answer that ends HTTP on this connection, and the connection after it.
    pub fn accept(self) -> (Response, impl Future<Output = Result<Upgraded, hyper::Error>> + Send + 'static) {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let accept = derive_accept_key(self.key.as_bytes());
        let headers = answer.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        // Base64 is a header's value.
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).expect("it is ASCII"));
        (answer, async { self.upgrade.await.map(TokioIo::new) })
    }
}

/// Whether a header, which may be there several times, lists a word.
fn lists(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(word))
}
