//! Web pages of other sites change nothing.
//!
//! A browser says of every request where it comes from, in `Sec-Fetch-Site`, and no page can change that. Programs do not send the
//! header and are not asked. A request that changes something needs a token, which no browser adds by itself; this check holds also for
//! a token that got into a foreign page, and for what a browser may add one day.
//!
//! `none` is what a browser sends when no page asked: the user typed an address, or opened a bookmark. That is a `GET`. A write with `none`
//! is a form that is sent again when a window is restored, or comes from an extension: nothing that the dashboard does, so it is refused.

use super::audit::{About, Trail};
use super::cors::listed_origin;
use super::error::Failure;
use crate::Hub;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hub_proto::Error;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that changes something if a browser says that it comes from another site; pages of `server.cors_origins` apart.
pub(super) async fn refuse_foreign_writes(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_write = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if !is_write || is_own_or_no_page(headers) || listed_origin(&hub.settings(), headers).is_some() {
        return next.run(request).await;
    }
    let (parts, _) = request.into_parts();
    let text = "a browser says that another site sends this request (Sec-Fetch-Site); pages of other origins that may write are \
                listed in server.cors_origins";
    let failure = Failure::from(Error::forbidden(text));
    Trail::of(&parts, &hub).refused(None, "connect", About::default(), &failure);
    failure.into_response()
}

/// Whether a request comes from a program, or from a page of the hub itself.
fn is_own_or_no_page(headers: &HeaderMap) -> bool {
    headers.get_all(SEC_FETCH_SITE).iter().all(|site| site.as_bytes() == b"same-origin")
}
