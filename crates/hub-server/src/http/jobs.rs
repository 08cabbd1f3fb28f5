//! `/jobs`: what goes on behind requests at this hub.

use super::audit::About;
use super::auth::Caller;
use super::dlq::Outcome;
use super::error::{Answer, Failure, shown};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::jobs::{Ended, Job};
use crate::limits::Work;
use axum::Json;
use axum::extract::{Path, RawQuery, State, rejection::PathRejection};
use axum::response::IntoResponse;
use hub_core::Millis;
use hub_proto::{EventId, TopicName};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// One of them.
#[derive(Serialize)]
struct Entry<'a> {
    job: EventId,
    kind: &'static str,
    topic: &'a TopicName,
    /// Who began it.
    subject: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    total: u64,
    /// Whether `total` counts everything; else there is at least so much.
    complete: bool,
    started: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Millis>,
    #[serde(flatten)]
    outcome: Outcome,
}

impl<'a> Entry<'a> {
    fn of(job: &'a Job) -> Self {
        let progress = job.progress();
        let (state, ended) = (progress.state(), progress.ended);
        let (reason, ended) = match ended {
            Some((Ended::Failed(reason), at)) => (Some(reason), Some(at)),
            Some((Ended::CutOff, at)) => (Some("the hub stopped; start it again".to_owned()), Some(at)),
            Some((_, at)) => (None, Some(at)),
            None => (None, None),
        };
        Self {
            job: job.id,
            kind: "dlq_replay",
            topic: &job.topic,
            subject: &job.subject,
            state,
            reason,
            total: job.total,
            complete: job.is_counted,
            started: job.started,
            ended,
            outcome: progress.outcome,
        }
    }
}

fn sees(caller: &Caller, job: &Job) -> bool {
    caller.may(Action::Admin, Target::Topic(&job.topic), None)
}

pub(super) async fn jobs(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let all = hub.jobs().all();
    caller.owe(Work::groups(all.len()));
    let entries: Vec<Entry<'_>> =
        all.iter().filter(|job| sees(&caller, job)).map(|job| Entry::of(job)).collect();
    Ok(Json(json!({ "jobs": entries })).into_response())
}

pub(super) async fn job(
    State(hub): State<Hub>,
    mut caller: Caller,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let job = find(&hub, &caller, id)?;
    Ok(Json(Entry::of(&job)).into_response())
}

pub(super) async fn cancel(
    State(hub): State<Hub>,
    mut caller: Caller,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let id = read_id(id)?;
    let target = format!("job:{id}");
    let about = About { target: Some(&target), ..About::default() };
    let job = hub.jobs().get(id).filter(|job| sees(&caller, job));
    // A caller that may not cancel the job learns nothing of it; the attempt is recorded.
    caller.administrate_if(job.is_some(), about, || unknown(id))?;
    let Some(job) = job else { return Err(unknown(id)) };
    job.cancel();
    job.end(Ended::Cancelled, hub.bus().now());
    Ok(Json(Entry::of(&job)).into_response())
}

/// A job that the caller may see. Who may not learns nothing of it.
fn find(hub: &Hub, caller: &Caller, id: Result<Path<String>, PathRejection>) -> Result<Arc<Job>, Failure> {
    let id = read_id(id)?;
    hub.jobs().get(id).filter(|job| sees(caller, job)).ok_or_else(|| unknown(id))
}

fn read_id(id: Result<Path<String>, PathRejection>) -> Result<EventId, Failure> {
    let Path(id) = id.map_err(|_| Failure::bad_request("the job in the path is not UTF-8"))?;
    EventId::parse(&id).map_err(|_| {
        Failure::bad_request(format!(
            "job {} is not a UUID, as the request that began it answered",
            shown(&id)
        ))
    })
}

fn unknown(id: EventId) -> Failure {
    Failure::not_found(format!(
        "job {id} is not known to this hub: jobs are kept for an hour, by the hub that began them"
    ))
}
