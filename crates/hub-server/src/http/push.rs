//! `/push`: groups that the hub delivers by HTTP POST.

use super::audit::About;
use super::auth::Caller;
use super::body;
use super::error::{Answer, Failure, in_time, shown};
use super::page::{self, Page};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use crate::push::{
    Entry, LastFailure, Origin, PushDefinition, PushEndpoint, PushFrom, PushMode, PushState, PushTarget,
};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State, rejection::PathRejection};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::{Filter, Millis, Ordering, Reason};
use hub_proto::{Code, Error, GroupName, Pattern};
use serde::Serialize;
use serde_json::json;

/// An endpoint as its administrators see it: without secrets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct View {
    name: String,
    topic: String,
    group: GroupName,
    url: String,
    /// How many.
    secrets: usize,
    mode: PushMode,
    concurrency: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    ordering: Ordering,
    filter: Filter,
    max_attempts: u32,
    timeout_ms: Millis,
    allow_private: bool,
    from: PushFrom,
    /// `file` or `api`.
    origin: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<Millis>,
    /// The hub that delivers, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    inflight: usize,
    delivered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<LastFailure>,
}

impl From<Entry> for View {
    fn from(entry: Entry) -> Self {
        let Entry { endpoint, origin, paused, status } = entry;
        let url = endpoint.shown_url();
        let PushEndpoint { name, group, definition, .. } = (*endpoint).clone();
        let state = status.state();
        let (reason, owner) = match (&paused, &state) {
            (_, PushState::Elsewhere(address)) => {
                (paused.as_ref().map(|pause| pause.reason.clone()), Some(address.clone()))
            }
            (Some(pause), _) => (Some(pause.reason.clone()), None),
            (None, PushState::Failing) => (Some(Reason::EndpointFailing.as_str().to_owned()), None),
            (None, PushState::Deferred) => (Some(Reason::RateLimited.as_str().to_owned()), None),
            (None, PushState::Trouble(error)) => (Some(error.clone()), None),
            (None, _) => (None, None),
        };
        Self {
            name,
            topic: definition.topic,
            group,
            url,
            secrets: definition.secrets.map_or(0, |secrets| secrets.len()),
            mode: definition.mode,
            concurrency: definition.concurrency,
            rate: definition.rate,
            ordering: definition.ordering,
            filter: definition.filter,
            max_attempts: definition.max_attempts,
            timeout_ms: definition.timeout_ms,
            allow_private: definition.allow_private,
            from: definition.from,
            origin: match origin {
                Origin::File => "file",
                Origin::Stored => "api",
            },
            state: if paused.is_some() { PushState::Paused.as_str() } else { state.as_str() },
            reason,
            paused_at: paused.map(|pause| pause.at),
            owner,
            inflight: status.in_flight(),
            delivered: status.delivered(),
            last_failure: status.last_failure(),
        }
    }
}

/// A page of them.
#[derive(Serialize)]
struct Endpoints {
    endpoints: Vec<View>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn list(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["after", "limit"])?;
    let mut page = Page::of(&params)?;
    caller.take_one()?;
    let mut endpoints: Vec<View> = Vec::new();
    let mut next = None;
    // Only administrators see any.
    if caller.administrates() {
        in_time(hub.push().load(hub.bus())).await?;
        let behind = |entry: &Entry| page.after.as_deref().is_none_or(|after| entry.endpoint.name() > after);
        let entries: Vec<Entry> = hub.push().all().into_iter().filter(behind).collect();
        for entry in entries {
            page.look().await;
            if !may_administrate(&caller, &entry.endpoint.target) {
                continue;
            }
            if page.is_full(endpoints.len()) {
                next = endpoints.last().map(|last| last.name.clone());
                break;
            }
            endpoints.push(entry.into());
        }
    }
    caller.owe(Work::groups(page.looked_at()));
    let entries = endpoints.len();
    page::answer(Endpoints { endpoints, next }, entries).await
}

pub(super) async fn show(
    State(hub): State<Hub>,
    mut caller: Caller,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let name = name_of(name)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let entry = find(&hub, &caller, &name).await?;
    Ok(Json(View::from(entry)).into_response())
}

pub(super) async fn put(
    State(hub): State<Hub>,
    mut caller: Caller,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let name = name_of(name)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    caller.owe(Work::bytes(body.len()));
    let mut definition: PushDefinition = body::object(&body, "{topic, url, secrets, …}, see docs/push.md")?;
    in_time(hub.push().load(hub.bus())).await?;
    let known = hub.push().get(&name);
    let target = PushTarget::parse(&definition.topic)?;
    let is_allowed = may_administrate(&caller, &target)
        && known.as_ref().is_none_or(|known| may_administrate(&caller, &known.endpoint.target));
    if !is_allowed {
        // Before anything else is looked at: what is stored under the name is none of the caller's business.
        administrate(&caller, &name, false, &definition.topic)?;
    }
    // Secrets that are left out stay, as nobody can read them to send them again.
    if let (None, Some(known)) = (&definition.secrets, &known) {
        definition.secrets.clone_from(&known.endpoint.definition.secrets);
    }
    definition.maker = known
        .as_ref()
        .map_or_else(|| Some(caller.subject().to_owned()), |known| known.endpoint.definition.maker.clone());
    let allow_private = definition.allow_private;
    let endpoint = PushEndpoint::new(&name, definition)?;
    administrate(&caller, &name, true, &endpoint.definition.topic)?;
    if allow_private && !caller.may(Action::Admin, Target::Pattern(&Pattern::parse("**")?), None) {
        let text = "allowPrivate lets the hub send requests into its own network; it needs the admin right for all topics";
        let about = About { target: Some(&target_of(&name)), ..About::default() };
        return Err(caller.refused("admin", about, Error::new(Code::Forbidden, text)));
    }
    in_time(hub.push().store(hub.bus(), &endpoint)).await?;
    tracing::info!(push = name, topic = endpoint.definition.topic, "push subscription stored");
    answer(&hub, &name)
}

pub(super) async fn delete(
    State(hub): State<Hub>,
    mut caller: Caller,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let name = name_of(name)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let entry = find_to_change(&hub, &caller, &name).await?;
    in_time(hub.push().delete(hub.bus(), &name)).await?;
    tracing::info!(push = name, "push subscription deleted");
    let group = &entry.endpoint.group;
    Ok(Json(json!({ "name": name, "topic": entry.endpoint.definition.topic, "group": group, "deleted": 1 }))
        .into_response())
}

pub(super) async fn resume(
    State(hub): State<Hub>,
    mut caller: Caller,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    let name = name_of(name)?;
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    find_to_change(&hub, &caller, &name).await?;
    in_time(hub.push().resume(hub.bus(), &name)).await?;
    tracing::info!(push = name, "push subscription resumed");
    answer(&hub, &name)
}

fn name_of(name: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    let Path(name) = name.map_err(|_| Failure::bad_request("the name in the path is not UTF-8"))?;
    Ok(name)
}

fn answer(hub: &Hub, name: &str) -> Answer {
    // Somebody may have deleted it in this moment.
    let entry = hub.push().get(name).ok_or_else(|| unknown(name))?;
    Ok(Json(View::from(entry)).into_response())
}

/// An endpoint that the caller may administrate. Others learn nothing of it, not even whether it is there.
async fn find(hub: &Hub, caller: &Caller, name: &str) -> Result<Entry, Failure> {
    if !caller.administrates() {
        administrate(caller, name, false, name)?;
    }
    in_time(hub.push().load(hub.bus())).await?;
    let entry = hub.push().get(name).filter(|entry| may_administrate(caller, &entry.endpoint.target));
    entry.ok_or_else(|| unknown(name))
}

/// The same for an admin action. An attempt on an endpoint that the caller may not administrate is recorded, whether there is one or not.
async fn find_to_change(hub: &Hub, caller: &Caller, name: &str) -> Result<Entry, Failure> {
    match find(hub, caller, name).await {
        Ok(entry) => {
            administrate(caller, name, true, &entry.endpoint.definition.topic)?;
            Ok(entry)
        }
        Err(failure) if failure.is_not_found() => {
            let about = About { target: Some(&target_of(name)), ..About::default() };
            caller.administrate_if(false, about, || unknown(name))?;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::not_found(format!(
        "there is no push subscription {} whose topics the token may administrate; GET /push lists them",
        shown(name)
    ))
}

/// An endpoint shows everything of its topics to the administrator who makes it.
pub(super) fn may_administrate(caller: &Caller, target: &PushTarget) -> bool {
    caller.reads_as_administrator(match target {
        PushTarget::Topic(topic) => Target::Topic(topic),
        PushTarget::Pattern(pattern) => Target::Pattern(pattern),
    })
}

fn target_of(name: &str) -> String {
    format!("push:{name}")
}

fn administrate(caller: &Caller, name: &str, is_allowed: bool, topic: &str) -> Result<(), Failure> {
    let target = target_of(name);
    let about = About { target: Some(&target), ..About::default() };
    caller.administrate_if(is_allowed, about, || {
        let text = format!("the token does not allow admin on {}", shown(topic));
        Error::new(Code::Forbidden, text).into()
    })
}
