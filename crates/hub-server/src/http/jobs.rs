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
    let job = find(&hub, &caller, id)?;
    let target = format!("job:{}", job.id);
    caller.administrate(Target::Topic(&job.topic), About { target: Some(&target), ..About::default() })?;
    job.cancel();
    job.end(Ended::Cancelled, hub.bus().now());
    Ok(Json(Entry::of(&job)).into_response())
}

/// A job that the caller may see. Who may not learns nothing of it.
fn find(hub: &Hub, caller: &Caller, id: Result<Path<String>, PathRejection>) -> Result<Arc<Job>, Failure> {
    let Path(id) = id.map_err(|_| Failure::bad_request("the job in the path is not UTF-8"))?;
    let parsed = EventId::parse(&id).map_err(|_| {
        Failure::bad_request(format!(
            "job {} is not a UUID, as the request that began it answered",
            shown(&id)
        ))
    })?;
    let job = hub.jobs().get(parsed).filter(|job| sees(caller, job));
    job.ok_or_else(|| {
        Failure::not_found(format!(
            "job {parsed} is not known to this hub: jobs are kept for an hour, by the hub that began them"
        ))
    })
}
