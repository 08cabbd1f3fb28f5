//! `GET /outbox` and `POST /outbox/retry`.

use super::audit::About;
use super::auth::Caller;
use super::body;
use super::error::{Answer, Failure, in_time, shown};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use crate::outboxes::Outbox;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::outbox::{Counts, RowId, RowStatus, Shown};
use hub_core::store::StoreError;
use hub_proto::{Error, Pattern, TopicName};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Parked rows that are shown of each outbox, unless somebody asks for another number, and at most.
const ROWS: usize = 100;
const MOST_ROWS: usize = 1000;
/// Rows that one retry names.
const IDS: usize = 10_000;

/// One outbox.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    /// Whether its database answers.
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_age_ms: Option<u64>,
    /// What this hub has done since it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<u64>,
    /// Parked rows, the oldest first.
    rows: Vec<Shown>,
}

pub(super) async fn outbox(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["outbox", "limit"])?;
    let allowed = format!("a number from 1 to {MOST_ROWS}");
    let limit = params.number("limit", &allowed)?.unwrap_or(ROWS);
    if !(1..=MOST_ROWS).contains(&limit) {
        return Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}")));
    }
    caller.take_one()?;
    if caller.visible_prefixes().is_empty() {
        // It sees no row, and nobody's database is asked for it.
        return Ok(Json(json!({ "outboxes": [] })).into_response());
    }
    let (wanted, sees_everything) = (params.get("outbox"), caller.administrates_everything());
    let all = hub.outboxes().all().into_iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
    let mut entries = Vec::new();
    for (name, outbox) in all {
        // Of those that are looked at, a caller sees what it has a right to.
        let asked = in_time(async { Ok::<_, Failure>(look(&outbox, MOST_ROWS).await) }).await;
        let asked = asked.unwrap_or_else(|error| Err(error.to_string()));
        let entry = entry(name, &outbox, asked, &caller, limit);
        // An outbox has rows of any topic: that it exists, and how it is doing, is for administrators of all topics. Others see the
        // outboxes that have parked rows of theirs.
        if sees_everything || !entry.rows.is_empty() {
            entries.push(entry);
        }
        caller.owe(Work::groups(limit));
    }
    if let Some(wanted) = wanted.filter(|_| entries.is_empty() && sees_everything) {
        return Err(unknown(&hub, wanted));
    }
    Ok(Json(json!({ "outboxes": entries })).into_response())
}

async fn look(outbox: &Outbox, limit: usize) -> Result<(Counts, Vec<Shown>), String> {
    let Some(store) = &outbox.store else {
        return Err(outbox.trouble.clone().unwrap_or_else(|| "it has not been reached yet".into()));
    };
    let words = |error: StoreError| error.to_string();
    Ok((
        store.counts().await.map_err(words)?,
        store.list(Some(RowStatus::Error), limit).await.map_err(words)?,
    ))
}

fn entry(
    name: String,
    outbox: &Outbox,
    asked: Result<(Counts, Vec<Shown>), String>,
    caller: &Caller,
    limit: usize,
) -> Entry {
    let all = caller.administrates_everything();
    let drained = Some(outbox.progress.drained()).filter(|_| all);
    let (counts, rows, reason) = match asked {
        Ok((counts, rows)) => (Some(counts), rows, outbox.trouble.clone()),
        Err(reason) => (None, Vec::new(), Some(reason)),
    };
    let connected = counts.is_some();
    // The reason may name hosts, and the counts are of rows of all topics.
    let (counts, reason) = (counts.filter(|_| all), reason.filter(|_| all));
    Entry {
        name,
        connected,
        reason,
        pending: counts.map(|counts| counts.pending),
        parked: counts.map(|counts| counts.errors),
        oldest_age_ms: counts.and_then(|counts| counts.oldest_age),
        sent: drained.map(|drained| drained.sent),
        retries: drained.map(|drained| drained.retried),
        rows: rows.into_iter().filter(|row| sees(caller, &row.topic)).take(limit).collect(),
    }
}

/// A row shows a key and an error: it is for those who may read its topic, or administrate it. A topic that could not be one is
/// for administrators of all topics.
fn sees(caller: &Caller, topic: &str) -> bool {
    match TopicName::readable(topic) {
        Ok(topic) => {
            let may = |action| caller.may(action, Target::Topic(&topic), None);
            may(Action::Subscribe) || may(Action::Admin)
        }
        Err(_) => caller.administrates_everything(),
    }
}

fn unknown(hub: &Hub, name: &str) -> Failure {
    let known: Vec<String> = hub.outboxes().all().into_iter().map(|(name, _)| name).collect();
    let known = if known.is_empty() { "none is drained here".into() } else { known.join(", ") };
    Failure::not_found(format!("outbox {} is not known; there are: {known}", shown(name)))
}

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retry {
    outbox: String,
    ids: Option<Vec<String>>,
}

pub(super) async fn retry(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let asked: Retry = body::object(&body, "{outbox, ids?}")?;
    if asked.ids.as_ref().is_some_and(|ids| ids.len() > IDS) {
        return Err(Failure::bad_request(format!("ids has more than {IDS}; leave it out to retry all")));
    }
    // Rows are of any topic.
    let target = format!("outbox:{}", asked.outbox);
    let about = About { target: Some(&target), ..About::default() };
    caller.administrate(Target::Pattern(&Pattern::parse("**")?), about)?;
    let Some(outbox) = hub.outboxes().get(&asked.outbox) else { return Err(unknown(&hub, &asked.outbox)) };
    let Some(store) = outbox.store else {
        let why = outbox.trouble.unwrap_or_else(|| "it has not been reached yet".into());
        return Err(Error::unavailable(format!("outbox {} cannot be reached: {why}", asked.outbox)).into());
    };
    let ids: Option<Vec<RowId>> =
        asked.ids.map(|ids| ids.iter().map(|id| RowId::from(id.as_str())).collect());
    let retried = in_time(async {
        let retried = store.retry(ids.as_deref()).await;
        retried.map_err(|error| Error::unavailable(error.to_string()))
    });
    Ok(Json(json!({ "outbox": asked.outbox, "retried": retried.await? })).into_response())
}
