//! HTTP: one file per thing that can be asked for.
//!
//! | to know about | look at |
//! | --- | --- |
//! | which paths there are, what every answer carries | here |
//! | parameters, bodies and answers of every path; `/openapi.json` | `api`, `openapi` |
//! | who asks, and what that one may do | `auth` |
//! | what the audit log has of a request | `audit` |
//! | how a refusal looks | `error` |
//! | parameters, bodies, pages | `query`, `body`, `page` |
//! | which topics a caller may see | `visible` |
//! | `POST /publish/{topic}` | `publish`, `headers`; CloudEvents in `crate::cloudevents` |
//! | `/cursors`, `/lag` | `cursors` |
//! | `/topics` | `topics` |
//! | `/groups`, `/groups/seek` | `groups`, `seek` |
//! | `/export` | `export` |
//! | `/replay`, `/latest-by-key` | `replay`, `latest`, `events_page`, `position` |
//! | `/history` | `history`, `backward` |
//! | `/live` | `live` |
//! | `/events`, `/ticket` | `events`, `ticket` |
//! | how one event is written | `record` |
//! | what ends a long answer | `stream` |
//! | pages of other origins, compression | `cors`, `fetch_site`, `compression` |
//! | the dashboard's page at `/` | `dashboard` |
//! | `/whoami`, `/connections`, `/audit` | `whoami`, `connections`, `audit_lines` |
//! | `/dlq…` | `dlq` |
//! | `/jobs…` | `jobs` |
//! | `/event`, `/event/find`, `/event/search` | `event`, `find`, `search` |
//! | `/stats`, the rates in lists | `stats` |
//! | `/groups/detail` | `group_detail` |
//! | `/hubs` | `hubs` |
//! | `/quotas`, `/revoke` | `quotas`, `revoke` |
//! | `/backup` | `backup` |
//! | `/push` | `push` |
//! | `/schemas` | `schemas` |
//! | `/outbox`, `/outbox/retry` | `outbox` |
//! | `/healthz`, `/readyz`, `/metrics` | `health`, `metrics` |
//! | a hub that waits for its store | [`Waiting`] |
//!
//! The order of checks is the same everywhere: who (401), the request's shape (400), may it (403), is it there (404). So a
//! stranger learns of no topic that it may not see. `docs/http.md` has every request with its answer.

mod api;
mod audit;
mod audit_lines;
mod auth;
mod backup;
mod backward;
mod body;
mod compression;
mod connections;
mod cors;
mod cursors;
mod dashboard;
mod dlq;
mod error;
mod etag;
mod event;
mod events;
mod events_page;
mod export;
mod fetch_site;
mod find;
mod group_detail;
mod groups;
mod headers;
mod health;
mod history;
mod hubs;
mod jobs;
mod latest;
mod live;
mod metrics;
mod openapi;
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
mod schemas;
mod search;
mod seek;
mod stats;
mod stream;
mod ticket;
mod topics;
mod visible;
mod waiting;
mod whoami;

pub(crate) use dlq::Outcome;
pub(crate) use live::Sampler;
pub use waiting::Waiting;

use crate::{Hub, gateway};
use api::Api;
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{any, delete, get, post, put};
use error::Failure;
use tower_http::compression::CompressionLayer;

impl Hub {
    /// The HTTP side: publish, read, groups, health, metrics, the dashboard at `/`, and the gateway at `/ws`.
    pub fn ops(&self) -> Router {
        self.sample_rates();
        // Pages and lists can be long. What is safe to compress, and for whom: see `compression`.
        let compressed = Api::default()
            .at(&api::REPLAY, get(replay::replay))
            .at(&api::LATEST_BY_KEY, get(latest::latest_by_key))
            .at(&api::HISTORY, get(history::history))
            .at(&api::TOPICS, get(topics::topics))
            .at(&api::DELETE_TOPIC, delete(topics::delete))
            .at(&api::GROUPS, get(groups::groups))
            .at(&api::DELETE_GROUPS, delete(groups::delete))
            .layer(compression::compression())
            .layer(from_fn(compression::only_with_token));
        let export =
            get(export::export).layer(CompressionLayer::new()).layer(from_fn(compression::only_with_token));
        Api::default()
            .merge(compressed)
            .at(&api::PUBLISH, post(publish::publish))
            .at(&api::CURSORS, get(cursors::cursors))
            .at(&api::LAG, get(cursors::lag))
            .at(&api::EXPORT, export)
            // Never compressed: events have to go out at once, and tickets are credentials.
            .at(&api::EVENTS, get(events::events))
            .at(&api::TICKET_ISSUED, post(ticket::ticket))
            .at(&api::WS, any(gateway::upgrade_at_ops))
            .at(&api::SEEK, post(seek::seek))
            .at(&api::GROUP_DETAIL, get(group_detail::detail))
            .at(&api::EVENT, get(event::event))
            .at(&api::FIND_EVENT, get(find::find))
            .at(&api::SEARCH_EVENTS, get(search::search))
            .at(&api::STATS, get(stats::stats))
            .at(&api::LIVE, get(live::live))
            .at(&api::DLQ, get(dlq::list))
            .at(&api::DELETE_DLQ, delete(dlq::delete))
            .at(&api::DLQ_SHOW, get(dlq::show))
            .at(&api::DLQ_SUMMARY, get(dlq::summary))
            .at(&api::DLQ_REPLAY, post(dlq::replay))
            .at(&api::DLQ_DELETE, post(dlq::discard))
            .at(&api::JOBS, get(jobs::jobs))
            .at(&api::JOB, get(jobs::job))
            .at(&api::CANCEL_JOB, delete(jobs::cancel))
            .at(&api::WHOAMI, get(whoami::whoami))
            .at(&api::CONNECTIONS, get(connections::connections))
            .at(&api::AUDIT, get(audit_lines::audit))
            .at(&api::HUBS, get(hubs::hubs))
            .at(&api::QUOTAS, get(quotas::quotas))
            .at(&api::REVOKE, post(revoke::revoke))
            .at(&api::BACKUP, post(backup::backup))
            .at(&api::OUTBOX, get(outbox::outbox))
            .at(&api::OUTBOX_RETRY, post(outbox::retry))
            .at(&api::PUSH_LIST, get(push::list))
            .at(&api::PUSH, get(push::show))
            .at(&api::PUT_PUSH, put(push::put))
            .at(&api::DELETE_PUSH, delete(push::delete))
            .at(&api::RESUME_PUSH, post(push::resume))
            .at(&api::SCHEMAS, get(schemas::list))
            .at(&api::SCHEMA, get(schemas::show))
            .at(&api::PUT_SCHEMA, put(schemas::put))
            .at(&api::DELETE_SCHEMA, delete(schemas::delete))
            .at(&api::HEALTHZ, get(health::healthz))
            .at(&api::READYZ, get(health::readyz))
            .at(&api::METRICS, get(metrics::metrics))
            .at(&api::OPENAPI, get(openapi::openapi))
            .finish()
            .merge(dashboard::routes(self.follow()))
            .fallback(async || Failure::no_such_path())
            .method_not_allowed_fallback(async || Failure::no_such_method())
            .layer(from_fn_with_state(self.clone(), fetch_site::refuse_foreign_writes))
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
