//! Which answers are compressed, and for whom.
//!
//! The length of a compressed answer tells whether two parts of it are alike. Somebody who can write one part (publish an event, make a
//! topic), make the victim ask for the answer again and again, and see the length of what is sent over TLS could guess the other part.
//! So a request is answered compressed only if it shows a token or a ticket: no page can have a browser add one, as it can a client
//! certificate, and who has the token needs no guesses. Answers that carry a credential (`/ticket`) and those that repeat what was asked for
//! (refusals) are never compressed: the first have no compression on their path, the others are too short.

use super::auth::shows_token;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

/// Shorter answers are sent as they are: a packet is a packet. A refusal is shorter.
const LEAST_BYTES: u16 = 2048;

/// Compresses pages and lists for clients that ask for it. Fast rather than small: it happens between other requests.
pub(super) fn compression() -> CompressionLayer<SizeAbove> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(LEAST_BYTES))
}

/// Sends no compressed answer to a request that does not show a token.
pub(super) async fn only_with_token(request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if !shows_token(&parts) {
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    next.run(Request::from_parts(parts, body)).await
}
