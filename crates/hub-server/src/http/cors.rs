//! Which pages of other origins may read answers: those of `server.cors_origins`, and nobody's by default.
//!
//! A page sends its token itself. Cookies and client certificates, which a browser would add, are not let in:
//! `Access-Control-Allow-Credentials` is never sent.

use crate::{Hub, Settings};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// What a page may send beside what every page may.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");
const HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, last-event-id, if-none-match");
/// What a page may read beside what every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static("retry-after, etag");
/// How long a browser remembers the answer to a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers preflights, and adds to every answer what the page that asks may do with it.
pub(super) async fn cors(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let settings = hub.settings();
    if settings.cors_origins.is_empty() {
        return next.run(request).await;
    }
    let origin = listed_origin(&settings, request.headers()).cloned();
    drop(settings);
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut answer = match is_preflight && origin.is_some() {
        true => preflight(),
        false => next.run(request).await,
    };
    let headers = answer.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    answer
}

/// The origin of the page that sends a request, if pages of it may read answers.
pub(super) fn listed_origin<'a>(settings: &Settings, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    headers.get(header::ORIGIN).filter(|origin| {
        let is_listed =
            |listed: &String| listed.trim_end_matches('/').as_bytes().eq_ignore_ascii_case(origin.as_bytes());
        settings.cors_origins.iter().any(is_listed)
    })
}

/// The answer to the question of a browser whether a page may send a request. It needs no token: it says nothing but what is configured.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
