//! `GET /metrics`, as OpenMetrics text.

use super::auth::{Caller, is_open};
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use crate::limits::Work;
use axum::extract::{FromRequestParts, RawQuery, Request, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_proto::Error;
use prometheus_client::encoding::text::encode;

/// What `encode` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(hub): State<Hub>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let (mut parts, _) = request.into_parts();
    let mut caller = None;
    if !is_open(&hub, &parts) {
        let caller = caller.insert(Caller::from_request_parts(&mut parts, &hub).await?);
        caller.take_one()?;
    }
    Params::read(query.as_deref(), &[])?;
    let mut text = String::new();
    encode(&mut text, hub.registry()).map_err(|_| Error::internal("the metrics cannot be written"))?;
    if let Some(caller) = &mut caller {
        caller.owe(Work::bytes(text.len()));
    }
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
