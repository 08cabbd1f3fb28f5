//! `POST /dlq/delete` and `DELETE /dlq`: discards letters.

use super::super::audit::About;
use super::super::auth::Caller;
use super::super::body;
use super::super::cursors::exists;
use super::super::error::{Answer, Failure, in_time};
use super::super::query::Params;
use super::replay::{Cut, Which};
use super::{job, which};
use crate::Hub;
use crate::acl::Target;
use crate::limits::Work;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::LetterFilter;
use hub_proto::{TopicName, limits};
use serde::Deserialize;
use serde_json::json;

/// What is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discard {
    #[serde(flatten)]
    which: Which,
    /// Every letter of the topic is meant.
    #[serde(default)]
    all: bool,
    #[serde(default)]
    dry_run: bool,
    after: Option<String>,
}

const SHAPE: &str = "{topic, ids?, group?, err?, q?, key?, fromTs?, toTs?, upto?, all?, dryRun?, after?}";

pub(in super::super) async fn discard(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let known =
        ["topic", "ids", "group", "err", "q", "key", "fromTs", "toTs", "upto", "all", "dryRun", "after"];
    let asked: Discard = super::replay::read_known(&body, SHAPE, &known)?;
    let cut = Cut::read(asked.after.as_deref(), asked.which.upto)?;
    let (topic, filter) = asked.which.read()?;
    if filter.is_empty() != asked.all {
        return Err(Failure::bad_request(match asked.all {
            true => "all is for every letter of the topic; leave out ids and filters, or all",
            false => {
                "which letters are meant is missing: give ids or a filter, or \"all\": true for every letter"
            }
        }));
    }
    act(&hub, caller, topic, filter, cut, asked.dry_run).await
}

pub(in super::super) async fn delete(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "ids"])?;
    let topic = which::source(params.required("topic")?)?;
    let ids = which::ids(params.required("ids")?.split(','))?;
    caller.take_one()?;
    let filter = LetterFilter { ids: Some(ids), ..LetterFilter::default() };
    act(&hub, caller, topic, filter, Cut::default(), false).await
}

async fn act(
    hub: &Hub,
    mut caller: Caller,
    topic: TopicName,
    filter: LetterFilter,
    cut: Cut,
    is_dry: bool,
) -> Answer {
    let about = About { group: filter.group.as_deref(), is_dry_run: is_dry, ..About::default() };
    caller.administrate(Target::Topic(&topic), about)?;
    exists(hub.bus(), &topic)?;
    let range = in_time(cut.range(hub.bus(), &topic)).await?;
    if is_dry {
        let counted = in_time(job::count(hub.bus(), &topic, &filter, range, 1)).await?;
        caller.owe(Work::bytes(counted.bytes));
        return Ok(Json(counted.answer(&topic, range)).into_response());
    }
    let page = in_time(hub.bus().dead_letters(&topic, &filter, range, limits::BATCH_EVENTS)).await?;
    let discarded = in_time(hub.bus().discard_dead_letters(&page.letters)).await?;
    caller.owe(Work { bytes: page.bytes, ..Work::publishes(discarded) });
    if discarded > 0 {
        tracing::info!(%topic, letters = discarded, "dead letters discarded");
    }
    let mut answer = json!({"topic": topic, "discarded": discarded});
    if let Some(after) = page.next {
        answer["next"] = json!(Cut::write(after, range.upto));
    }
    Ok(Json(answer).into_response())
}
