//! `GET /openapi.json`: what can be asked for, for programs.

use super::api::Document;
use super::auth::{Caller, is_open};
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use crate::limits::Work;
use axum::Extension;
use axum::extract::{FromRequestParts, RawQuery, Request, State};
use axum::http::header;
use axum::response::IntoResponse;

pub(super) async fn openapi(
    State(hub): State<Hub>,
    Extension(Document(text)): Extension<Document>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Answer {
    let (mut parts, _) = request.into_parts();
    if !is_open(&hub, &parts) {
        let mut caller = Caller::from_request_parts(&mut parts, &hub).await?;
        caller.take_one()?;
        caller.owe(Work::bytes(text.len()));
    }
    Params::read(query.as_deref(), &[])?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
