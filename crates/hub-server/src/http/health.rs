//! `GET /healthz` and `GET /readyz`: for whoever restarts the process, and whoever sends it work. Open to anybody; what is
//! wrong with the store is for those who have a token, or are on this machine.

use super::auth::{is_known, is_open};
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use axum::Json;
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

/// The process runs.
pub(super) async fn healthz(RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    Ok(Json(json!({"ok": true})).into_response())
}

/// Whether the hub takes work.
#[derive(Serialize)]
struct Ready {
    ready: bool,
    store: Store,
    draining: bool,
}

/// How the store is doing.
#[derive(Serialize)]
struct Store {
    available: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

/// With paths and numbers of the machine.
#[derive(Serialize)]
pub(super) struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    warnings: Vec<String>,
    damaged: u64,
}

impl Details {
    /// Of a store that is not there.
    pub fn because(reason: String) -> Self {
        Self { reason: Some(reason), warnings: Vec::new(), damaged: 0 }
    }
}

/// The answer of a hub that has no store yet.
pub(super) fn not_ready(details: Option<Details>) -> Response {
    let ready = Ready { ready: false, store: Store { available: false, details }, draining: false };
    (StatusCode::SERVICE_UNAVAILABLE, Json(ready)).into_response()
}

pub(super) async fn readyz(State(hub): State<Hub>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let (parts, _) = request.into_parts();
    Params::read(query.as_deref(), &[])?;
    let health = hub.bus().health();
    let draining = hub.draining().is_cancelled();
    let available = health.unavailable.is_none();
    let ready = available && !draining;
    let details = (is_open(&hub, &parts) || is_known(&hub, &parts).await).then_some(Details {
        reason: health.unavailable,
        warnings: health.warnings,
        damaged: health.damaged,
    });
    let store = Store { available, details };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(Ready { ready, store, draining })).into_response())
}
