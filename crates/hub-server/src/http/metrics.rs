//! `GET /metrics`, in the text format that the scraper asks for.

mod format;

use super::auth::{Caller, is_open};
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use crate::limits::Work;
use axum::extract::{FromRequestParts, RawQuery, Request, State};
use axum::http::header;
use axum::response::IntoResponse;
use format::Format;
use hub_proto::Error;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use std::fmt;

pub(super) async fn metrics(State(hub): State<Hub>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let (mut parts, _) = request.into_parts();
    let format = Format::wanted(&parts.headers);
    let mut caller = None;
    if !is_open(&hub, &parts) {
        let caller = caller.insert(Caller::from_request_parts(&mut parts, &hub).await?);
        caller.take_one()?;
    }
    Params::read(query.as_deref(), &[])?;
    // Callers on the hub's own machine and tokens with an admin right may see other subjects.
    let sees_subjects = caller.as_ref().is_none_or(Caller::administrates);
    let text = write(&hub, sees_subjects).map_err(|_| Error::internal("the metrics cannot be written"))?;
    let text = format.convert(text);
    if let Some(caller) = &mut caller {
        caller.owe(Work::bytes(text.len()));
    }
    Ok(([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")], text).into_response())
}

fn write(hub: &Hub, sees_subjects: bool) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode_registry(&mut text, hub.registry())?;
    if sees_subjects {
        encode_registry(&mut text, hub.quota_registry())?;
    }
    encode_eof(&mut text)?;
    Ok(text)
}
