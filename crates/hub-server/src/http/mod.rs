//! HTTP: one file per thing that can be asked for.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which paths there are, what every answer carries | here |
//! | who asks, and what that one may do | `auth` |
//! | what the audit log has of a request | `audit` |
//! | how a refusal looks | `error` |
//! | parameters, bodies, pages | `query`, `body`, `page` |
//! | which topics a caller may see | `visible` |
//! | `POST /publish/{topic}` | `publish`, `headers`, `cloudevent` |
//! | `/cursors`, `/lag` | `cursors` |
//! | `/topics` | `topics` |
//! | `/groups`, `/groups/seek` | `groups`, `seek` |
//! | `/export` | `export` |
//! | `/dlq…` | `dlq` |
//! | `/jobs…` | `jobs` |
//! | `/event` | `event` |
//! | `/stats`, the rates in lists | `stats` |
//! | `/groups/detail` | `group_detail` |
//! | `/hubs` | `hubs` |
//! | `/quotas`, `/revoke` | `quotas`, `revoke` |
//! | `/outbox`, `/outbox/retry` | `outbox` |
//! | `/healthz`, `/readyz`, `/metrics` | `health`, `metrics` |
//! | a hub that waits for its store | [`Waiting`] |
//!
//! The order of checks is the same everywhere: who (401), the request's shape (400), may it (403), is it there (404). So a
//! stranger learns of no topic that it may not see. `docs/http.md` has every request with its answer.

mod audit;
mod auth;
mod body;
mod cloudevent;
mod cursors;
mod dlq;
mod error;
mod event;
mod export;
mod group_detail;
mod groups;
mod headers;
mod health;
mod hubs;
mod jobs;
mod metrics;
mod outbox;
mod page;
mod publish;
mod query;
mod quotas;
mod revoke;
mod rfc3339;
mod seek;
mod stats;
mod topics;
mod visible;
mod waiting;

pub(crate) use dlq::Outcome;
pub use waiting::Waiting;

use crate::Hub;
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};
use error::Failure;
use tower_http::compression::CompressionLayer;

impl Hub {
    /// The HTTP side: publish, export, groups, health, metrics.
    ///
    /// It has no CORS headers on purpose: a web page of another origin cannot read its answers.
    pub fn ops(&self) -> Router {
        self.sample_rates();
        Router::new()
            .route("/publish/{topic}", post(publish::publish))
            .route("/cursors", get(cursors::cursors))
            .route("/lag", get(cursors::lag))
            // Only an export is worth compressing, and has nothing in it that an attacker could guess by its length.
            .route("/export", get(export::export).layer(CompressionLayer::new()))
            .route("/topics", get(topics::topics).delete(topics::delete))
            .route("/groups", get(groups::groups).delete(groups::delete))
            .route("/groups/seek", post(seek::seek))
            .route("/groups/detail", get(group_detail::detail))
            .route("/event", get(event::event))
            .route("/stats", get(stats::stats))
            .route("/dlq", get(dlq::list).delete(dlq::delete))
            .route("/dlq/show", get(dlq::show))
            .route("/dlq/summary", get(dlq::summary))
            .route("/dlq/replay", post(dlq::replay))
            .route("/dlq/delete", post(dlq::discard))
            .route("/jobs", get(jobs::jobs))
            .route("/jobs/{id}", get(jobs::job).delete(jobs::cancel))
            .route("/hubs", get(hubs::hubs))
            .route("/quotas", get(quotas::quotas))
            .route("/revoke", post(revoke::revoke))
            .route("/outbox", get(outbox::outbox))
            .route("/outbox/retry", post(outbox::retry))
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(metrics::metrics))
            .fallback(async || Failure::no_such_path())
            .method_not_allowed_fallback(async || Failure::no_such_method())
            .layer(map_response(every_answer))
            .with_state(self.clone())
    }
}

/// What an answer says of itself: it is for this request alone, and is what it says it is.
async fn every_answer(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
