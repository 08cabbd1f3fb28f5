//! The dashboard: the page at `/` and the files that it loads.
//!
//! The files are compiled into the program, so the page works without any other machine. They are no part of the API and not in
//! `/openapi.json`: what the page shows and does goes through the API, with the token of the person who looks.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which files there are, their tags and their compressed form | `file` |
//! | what a browser is told not to let the page do | `headers` |

mod file;
mod headers;

use super::error::{Answer, Failure};
use super::etag::is_listed;
use crate::limits::From;
use crate::net::origin_of;
use crate::{Settings, host};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::IntoResponse;
use axum::routing::get;
use file::{File, SOURCES};
use hub_proto::Error;
use std::sync::Arc;
use tokio::sync::watch;

/// A browser keeps a file and asks about it each time: a new version of the hub is seen at once.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("no-cache");

/// Where settings come from.
type Current = watch::Receiver<Arc<Settings>>;

/// The routes of the files. They need no token: what is in them is the same on every hub.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(settings: Current) -> Router<S> {
    let router = SOURCES.iter().enumerate().fold(Router::new(), |router, (at, source)| {
        let serve = move |State(settings): State<Current>, request: Request| serve(settings, request, at);
        router.route(source.path, get(serve))
    });
    router.layer(map_response(headers::restrict)).with_state(settings)
}

/// Answers one file: whole, compressed, or that the browser has it already.
async fn serve(settings: Current, request: Request, at: usize) -> Answer {
    check_host(&settings, &request)?;
    let file = File::at(at).await?;
    let headers = request.headers();
    let kept = [
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::ETAG, file.tag.clone()),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if is_listed(headers, &file.tag) {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(SOURCES[at].content_type))];
    Ok(match takes_gzip(headers) {
        true => {
            let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (kept, kind, encoding, file.gzipped.clone()).into_response()
        }
        false => (kept, kind, SOURCES[at].bytes).into_response(),
    })
}

/// Refuses a request that calls a hub on loopback by the name of another site. That site has its own name lead here; a token that
/// somebody typed into the page would be within its reach. Through a proxy the hub is called by the proxy's name: no site can have a
/// browser add the header of a proxy when it opens a page.
fn check_host(settings: &Current, request: &Request) -> Result<(), Failure> {
    let is_strange = settings.borrow().open_metrics
        && !host::is_local(request.headers())
        && origin_of(request.headers(), request.extensions()) == From::Peer;
    match is_strange {
        true => {
            let text =
                "this hub listens on loopback only; open the dashboard by the hub's address or as localhost";
            Err(Error::forbidden(text).into())
        }
        false => Ok(()),
    }
}

/// Whether the client takes gzip: it names it, or everything, and not with the quality 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let codings: Vec<(&str, bool)> = given.flat_map(|value| value.split(',')).map(coding).collect();
    let wanted = |name: &str| {
        let named = codings.iter().find(|(coding, _)| coding.eq_ignore_ascii_case(name));
        named.map(|(_, is_wanted)| *is_wanted)
    };
    wanted("gzip").or_else(|| wanted("*")).unwrap_or(false)
}

/// A coding of `Accept-Encoding`, and whether it is wanted.
fn coding(text: &str) -> (&str, bool) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (name, quality.is_none_or(|quality| quality.parse::<f32>().is_ok_and(|quality| quality > 0.0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn gzip_is_for_those_who_ask_for_it() {
        let ask = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT_ENCODING, value.parse().unwrap());
            }
            takes_gzip(&headers)
        };
        for values in [&["gzip"][..], &["br, GZIP;q=0.5"], &["br", "gzip"], &["*"], &["*;q=0, gzip;q=1.0"]] {
            assert!(ask(values), "{values:?}");
        }
        for values in
            [&[][..], &[""], &["br"], &["gzip;q=0"], &["*, gzip; q=0.000"], &["gzip;q=x"], &["xgzip"]]
        {
            assert!(!ask(values), "{values:?}");
        }
    }
}
