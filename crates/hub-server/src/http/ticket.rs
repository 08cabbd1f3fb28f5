//! `POST /ticket`: what a page that cannot send headers shows instead of its token, once.

use super::auth::Caller;
use super::body;
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::auth::tickets::TICKET_LIFETIME;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_proto::TopicName;
use serde::Deserialize;
use serde_json::json;

/// What is asked for.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    topic: Option<String>,
}

pub(super) async fn ticket(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let asked = match body.is_empty() {
        true => Asked::default(),
        false => body::object(&body, "{topic?}")?,
    };
    let topic = asked.topic.as_deref().map(TopicName::readable).transpose()?;
    if let Some(topic) = &topic {
        caller.must(Action::Subscribe, Target::Topic(topic), None)?;
    }
    let ticket = caller.issue_ticket(&hub, topic)?;
    Ok(Json(json!({ "ticket": ticket, "expiresInMs": TICKET_LIFETIME })).into_response())
}
