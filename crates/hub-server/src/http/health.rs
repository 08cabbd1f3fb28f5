//! `GET /healthz` and `GET /readyz`: for whoever restarts the process, and whoever sends it work. Open to anybody.

use super::error::Answer;
use super::query::Params;
use crate::Hub;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    warnings: Vec<String>,
    damaged: u64,
}

pub(super) async fn readyz(State(hub): State<Hub>, RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    let health = hub.bus().health();
    let draining = hub.draining().is_cancelled();
    let available = health.unavailable.is_none();
    let ready = available && !draining;
    let store =
        Store { available, reason: health.unavailable, warnings: health.warnings, damaged: health.damaged };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(Ready { ready, store, draining })).into_response())
}
