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
//! | `POST /publish/{topic}` | `publish`, `headers`; CloudEvents in [`crate::cloudevents`] |
//! | `/cursors`, `/lag` | `cursors` |
//! | `/topics` | `topics` |
//! | `/groups`, `/groups/seek` | `groups`, `seek` |
//! | `/export` | `export` |
//! | `/replay`, `/latest-by-key` | `replay`, `latest`, `events_page`, `position` |
//! | `/events`, `/ticket` | `events`, `ticket` |
//! | how one event is written | `record` |
//! | what ends a long answer | `stream` |
//! | pages of other origins, compression | `cors`, `compression` |
//! | `/dlq…` | `dlq` |
//! | `/jobs…` | `jobs` |
//! | `/hubs` | `hubs` |
//! | `/quotas`, `/revoke` | `quotas`, `revoke` |
//! | `/push` | `push` |
//! | `/outbox`, `/outbox/retry` | `outbox` |
//! | `/healthz`, `/readyz`, `/metrics` | `health`, `metrics` |
//! | a hub that waits for its store | [`Waiting`] |
//!
//! The order of checks is the same everywhere: who (401), the request's shape (400), may it (403), is it there (404). So a
//! stranger learns of no topic that it may not see. `docs/http.md` has every request with its answer.

mod audit;
mod auth;
mod body;
mod compression;
mod cors;
mod cursors;
mod dlq;
mod error;
mod events;
mod events_page;
mod export;
mod groups;
mod headers;
mod health;
mod hubs;
mod jobs;
mod latest;
mod metrics;
mod outbox;
mod page;
mod position;
mod publish;
mod push;
mod query;
mod quotas;
mod record;
mod replay;
mod revoke;
mod seek;
mod stream;
mod ticket;
mod topics;
mod visible;
mod waiting;

pub(crate) use dlq::Outcome;
pub use waiting::Waiting;

use crate::{Hub, gateway};
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{any, get, post};
use error::Failure;
use tower_http::compression::CompressionLayer;

impl Hub {
    /// The HTTP side: publish, read, groups, health, metrics, and the gateway at `/ws`.
    pub fn ops(&self) -> Router {
        // Pages and lists can be long. What is safe to compress, and for whom: see `compression`.
        let compressed = Router::new()
            .route("/replay", get(replay::replay))
            .route("/latest-by-key", get(latest::latest_by_key))
            .route("/topics", get(topics::topics).delete(topics::delete))
            .route("/groups", get(groups::groups).delete(groups::delete))
            .layer(compression::compression())
            .layer(from_fn(compression::only_with_token));
        Router::new()
            .merge(compressed)
            .route("/publish/{topic}", post(publish::publish))
            .route("/cursors", get(cursors::cursors))
            .route("/lag", get(cursors::lag))
            .route(
                "/export",
                get(export::export)
                    .layer(CompressionLayer::new())
                    .layer(from_fn(compression::only_with_token)),
            )
            // Never compressed: events have to go out at once, and tickets are credentials.
            .route("/events", get(events::events))
            .route("/ticket", post(ticket::ticket))
            .route("/ws", any(gateway::upgrade_at_ops))
            .route("/groups/seek", post(seek::seek))
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
            .route("/push", get(push::list))
            .route("/push/{name}", get(push::show).put(push::put).delete(push::delete))
            .route("/push/{name}/resume", post(push::resume))
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(metrics::metrics))
            .fallback(async || Failure::no_such_path())
            .method_not_allowed_fallback(async || Failure::no_such_method())
            .layer(from_fn_with_state(self.clone(), cors::cors))
            .layer(map_response(every_answer))
            .with_state(self.clone())
    }
}

/// What an answer says of itself: it is for this request alone, and is what it says it is.
async fn every_answer(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    // But for what says otherwise: an answer with a tag, which the client may keep and has to ask about.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
