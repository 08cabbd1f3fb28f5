//! `POST /groups/seek`: places a group anew.

use super::audit::About;
use super::auth::Caller;
use super::body;
use super::cursors::{elsewhere, exists, no_such_group};
use super::error::{Answer, Failure, in_time, shown};
use super::query::Params;
use crate::Hub;
use crate::acl::Target;
use crate::edge::{Act, act};
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::Position;
use hub_proto::{Error, EventId, GroupName, Result, TopicName};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seek {
    topic: String,
    group: String,
    to: Value,
    /// Says where the group would go, and leaves it where it is.
    #[serde(default, rename = "dryRun")]
    dry_run: bool,
}

pub(super) async fn seek(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let (topic, group, to, is_dry) = read(&body)?;
    let about = About { group: Some(&group), is_dry_run: is_dry, ..About::default() };
    caller.administrate(Target::Topic(&topic), about)?;
    exists(hub.bus(), &topic)?;
    if is_dry {
        return Ok(Json(in_time(look(&hub, &topic, &group, to)).await?).into_response());
    }
    let seq = in_time(act(&hub, &group, &Act::Seek(topic.clone(), to))).await?;
    Ok(Json(json!({"topic": topic, "group": group, "seq": seq})).into_response())
}

/// Where the group is, where it would go, and how many events lie between.
async fn look(hub: &Hub, topic: &TopicName, group: &GroupName, to: Position) -> Result<Value, Failure> {
    let from = match hub.bus().group(topic, group) {
        Some(status) => status.floor,
        None => {
            let saved = elsewhere(hub.bus(), topic).await?.remove(group);
            saved.ok_or_else(|| no_such_group(topic, group))?.floor
        }
    };
    let to = hub.bus().resolve(topic, to).await?;
    let events = from.abs_diff(to);
    Ok(json!({"topic": topic, "group": group, "dryRun": true, "from": from, "to": to, "events": events}))
}

fn read(body: &[u8]) -> Result<(TopicName, GroupName, Position, bool), Failure> {
    let asked: Seek = body::object(body, "{topic, group, to, dryRun?}")?;
    if asked.topic.contains('*') {
        return Err(Failure::bad_request(format!(
            "topic {} is a pattern; a group is placed on one topic at a time, /groups lists them",
            shown(&asked.topic)
        )));
    }
    let (topic, group) = (TopicName::readable(&asked.topic)?, GroupName::parse(&asked.group)?);
    Ok((topic, group, position(&asked.to)?, asked.dry_run))
}

fn position(to: &Value) -> Result<Position> {
    let bad = || {
        Error::bad_request(
            "to is none of \"earliest\", \"latest\", {\"ts\": milliseconds}, {\"afterId\": \"uuid\"}, {\"afterSeq\": number}",
        )
    };
    let fields = match to {
        Value::String(word) if word == "earliest" => return Ok(Position::Earliest),
        Value::String(word) if word == "latest" => return Ok(Position::Latest),
        Value::Object(fields) if fields.len() == 1 => fields,
        _ => return Err(bad()),
    };
    match fields.iter().next().map(|(name, value)| (name.as_str(), value)) {
        Some(("ts", value)) => value.as_u64().map(Position::Time).ok_or_else(bad),
        Some(("afterSeq", value)) => value.as_u64().map(Position::AfterSeq).ok_or_else(bad),
        Some(("afterId", value)) => {
            value.as_str().ok_or_else(bad).and_then(EventId::parse).map(Position::AfterId)
        }
        _ => Err(bad()),
    }
}
