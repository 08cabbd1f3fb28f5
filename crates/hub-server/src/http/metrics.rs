//! `GET /metrics`, as OpenMetrics text.

use super::auth::{Caller, is_open};
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use axum::extract::{FromRequestParts, RawQuery, Request, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_proto::Error;
use prometheus_client::encoding::text::encode;

/// What `encode` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(hub): State<Hub>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let (mut parts, _) = request.into_parts();
    if !is_open(&hub, &parts) {
        Caller::from_request_parts(&mut parts, &hub).await?.take_one()?;
    }
    Params::read(query.as_deref(), &[])?;
    let mut text = String::new();
    encode(&mut text, hub.registry()).map_err(|_| Error::internal("the metrics cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
