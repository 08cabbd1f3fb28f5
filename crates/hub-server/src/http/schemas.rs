//! `/schemas`: what payloads of topics have to look like.

use super::auth::Caller;
use super::body;
use super::error::{Answer, Failure, in_time, shown};
use super::page;
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State, rejection::PathRejection};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::Millis;
use hub_proto::{TopicName, limits};
use hub_schema::{SchemaTarget, SchemaVersion, Schemas};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Schemas of a page: each has up to 64 KiB.
const PAGE: usize = 100;

/// A version.
#[derive(Serialize)]
struct Version {
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
    /// The text that was stored: no number in it is rounded.
    schema: Option<Box<RawValue>>,
}

impl Version {
    /// `knows_who`: the caller may see who stored it.
    fn of(version: SchemaVersion, knows_who: bool) -> Self {
        let SchemaVersion { version, at, by, forced, text } = version;
        Self {
            version,
            ts: (version > 0).then_some(at),
            by: by.filter(|by| knows_who && !by.is_empty()),
            forced,
            schema: RawValue::from_string(text.to_string()).ok(),
        }
    }
}

/// One of the list.
#[derive(Serialize)]
struct Entry {
    topic: String,
    /// `file` or `api`.
    origin: &'static str,
    #[serde(flatten)]
    version: Version,
}

/// A page of them.
#[derive(Serialize)]
struct Page {
    schemas: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn list(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["after", "limit"])?;
    let allowed = format!("a number from 1 to {}", limits::BATCH_EVENTS);
    let limit: usize = params.number("limit", &allowed)?.unwrap_or(PAGE);
    if !(1..=limits::BATCH_EVENTS).contains(&limit) {
        return Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}")));
    }
    let limit = limit.min(PAGE);
    caller.take_one()?;
    let all = hub.schemas().map(|schemas| schemas.after(params.get("after"), usize::MAX)).unwrap_or_default();
    caller.owe(Work::groups(all.len()));
    let (mut entries, mut next, mut last) = (Vec::new(), None, None);
    for schema in all.iter().filter(|schema| sees(&caller, &schema.target)) {
        if entries.len() == limit {
            next = last;
            break;
        }
        last = Some(schema.target.to_string());
        entries.push(Entry {
            topic: schema.target.to_string(),
            origin: schema.origin.as_str(),
            version: Version::of(schema.current.clone(), knows_who(&caller, &schema.target)),
        });
    }
    let count = entries.len();
    page::answer(Page { schemas: entries, next }, count).await
}

pub(super) async fn show(
    State(hub): State<Hub>,
    mut caller: Caller,
    target: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let target = target_of(target)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    if !sees(&caller, &target) {
        // Any right on it is enough; what is missing is named as one of them.
        with_target(&target, |named| caller.must(Action::Subscribe, named, None))?;
    }
    let schemas = hub.schemas();
    let Some(schema) = schemas.and_then(|schemas| schemas.get(target.as_str())) else {
        return Err(unknown(&target));
    };
    let knows_who = knows_who(&caller, &target);
    let versions: Vec<Version> = schemas
        .map(|schemas| schemas.versions(target.as_str()))
        .unwrap_or_default()
        .into_iter()
        .map(|version| Version::of(version, knows_who))
        .collect();
    let answer = Versions { topic: target.to_string(), origin: schema.origin.as_str(), versions };
    let count = answer.versions.len();
    page::answer(answer, count).await
}

/// The versions of one schema.
#[derive(Serialize)]
struct Versions {
    topic: String,
    origin: &'static str,
    versions: Vec<Version>,
}

pub(super) async fn put(
    State(hub): State<Hub>,
    mut caller: Caller,
    target: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let target = target_of(target)?;
    let params = Params::read(query.as_deref(), &["force"])?;
    let forced = match params.get("force") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(Failure::bad_request(format!("force is {}; it must be true or false", shown(other))));
        }
    };
    caller.take_one()?;
    administrate(&caller, &target)?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    caller.owe(Work::bytes(body.len()));
    let (hub, by) = (hub.clone(), caller.named_subject().map(str::to_owned));
    let (to, stored) = (target.clone(), schemas_of(&hub)?.clone());
    // To compile and to compare takes a while: not on a thread that serves others.
    let runtime = tokio::runtime::Handle::current();
    let storing = tokio::task::spawn_blocking(move || {
        runtime.block_on(stored.put(hub.bus(), &to, &body, forced, by.as_deref()))
    });
    let put = in_time(async {
        storing
            .await
            .map_err(|_| Failure::from(hub_proto::Error::internal("a schema was not stored")))?
            .map_err(Failure::from)
    })
    .await?;
    if put.is_new {
        tracing::info!(topic = %target, version = put.version, forced, "schema stored");
    }
    Ok(Json(json!({ "topic": target.as_str(), "version": put.version, "new": put.is_new })).into_response())
}

pub(super) async fn delete(
    State(hub): State<Hub>,
    mut caller: Caller,
    target: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let target = target_of(target)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    administrate(&caller, &target)?;
    let deleted = match hub.schemas() {
        Some(schemas) => in_time(schemas.delete(hub.bus(), &target)).await?,
        None => 0,
    };
    if deleted == 0 {
        return Err(unknown(&target));
    }
    tracing::info!(topic = %target, versions = deleted, "schema deleted");
    Ok(Json(json!({ "topic": target.as_str(), "deleted": deleted })).into_response())
}

fn schemas_of(hub: &Hub) -> Result<&Schemas, Failure> {
    hub.schemas().ok_or_else(|| Failure::bad_request("this hub was built without schemas"))
}

fn target_of(target: Result<Path<String>, PathRejection>) -> Result<SchemaTarget, Failure> {
    let Path(target) = target.map_err(|_| Failure::bad_request("the topic in the path is not UTF-8"))?;
    Ok(SchemaTarget::parse(&target)?)
}

fn unknown(target: &SchemaTarget) -> Failure {
    Failure::not_found(format!(
        "{} has no schema; GET /schemas lists those that there are",
        shown(target.as_str())
    ))
}

/// What rules are asked about.
fn with_target<T>(target: &SchemaTarget, ask: impl FnOnce(Target<'_>) -> T) -> T {
    match TopicName::stored(target.as_str()).ok().filter(|_| target.is_topic()) {
        Some(topic) => ask(Target::Topic(&topic)),
        None => ask(Target::Pattern(target.pattern())),
    }
}

/// Who may publish to a topic, read it or administrate it sees what its payloads look like.
fn sees(caller: &Caller, target: &SchemaTarget) -> bool {
    with_target(target, |named| match named {
        Target::Topic(_) => TopicName::stored(target.as_str()).is_ok_and(|topic| caller.sees_topic(&topic)),
        Target::Pattern(pattern) => caller.sees_pattern(pattern),
    })
}

fn knows_who(caller: &Caller, target: &SchemaTarget) -> bool {
    with_target(target, |named| caller.may(Action::Admin, named, None))
}

fn administrate(caller: &Caller, target: &SchemaTarget) -> Result<(), Failure> {
    with_target(target, |named| caller.must(Action::Admin, named, None))
}
