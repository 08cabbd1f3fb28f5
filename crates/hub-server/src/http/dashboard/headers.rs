//! What a browser is told about the page: where it may load and send, and that no other site may hold it in a frame or a window.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

/// The page loads scripts, styles and images of its own origin and speaks to it, and does nothing else. Nothing is inline. With Trusted
/// Types, of which there are none, the browser refuses every way to make a script or markup of a text.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY)),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Adds them to an answer.
pub(super) async fn restrict(mut answer: Response) -> Response {
    answer.headers_mut().extend(HEADERS);
    answer
}
