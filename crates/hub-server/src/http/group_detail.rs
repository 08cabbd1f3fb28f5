//! `GET /groups/detail`: a closer look at one group.

use super::audit::About;
use super::auth::Caller;
use super::cursors::{exists, no_such_group};
use super::error::{Answer, Failure, in_time};
use super::groups::Unsettled;
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_core::{
    EventState, GroupDetail, GroupSample, GroupStatus, KeyBlock, MeasuredRates, MemberStatus, RecentFailure,
};
use hub_proto::{Code, Error, GroupName, TopicName};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Members that are shown.
const MAX_MEMBERS: usize = 1000;

/// One member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    member: u64,
    inflight: usize,
    paused: bool,
    has_room: bool,
    ack_timeout_ms: u64,
    /// How long it has held its oldest event.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_held_ms: Option<u64>,
    /// To those who administrate the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Arc<str>>,
}

#[derive(Serialize)]
struct Failed {
    seq: u64,
    attempt: u32,
    ts: u64,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(flatten)]
    status: Value,
    epoch: u64,
    rates: MeasuredRates<GroupSample>,
    members: Vec<Member>,
    /// What failed last, the newest first.
    failures: Vec<Failed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_deadline_ms: Option<u64>,
    /// What the oldest event behind its key waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocking: Option<Value>,
}

pub(super) async fn detail(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "group"])?;
    let (topic, group) = (params.topic()?, GroupName::parse(params.required("group")?)?);
    caller.take_one()?;
    must_see(&caller, &topic, &group)?;
    exists(hub.bus(), &topic)?;
    let text = look(&hub, &mut caller, &topic, &group).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Refuses those who may neither join the group nor administrate its topic.
pub(super) fn must_see(caller: &Caller, topic: &TopicName, group: &GroupName) -> Result<(), Failure> {
    if caller.sees_group(topic, group) {
        return Ok(());
    }
    let about = About { topic: Some(topic), group: Some(group), ..About::default() };
    let text = format!(
        "the token allows neither to join group {group} on topic {topic} nor to administrate the topic"
    );
    Err(caller.refused("read", about, Error::new(Code::Forbidden, text)))
}

/// The answer about a group that the caller may see, as JSON.
pub(super) async fn look(
    hub: &Hub,
    caller: &mut Caller,
    topic: &TopicName,
    group: &GroupName,
) -> Result<Vec<u8>, Failure> {
    let unwritable = |_| Error::internal("a group cannot be written");
    let is_admin = caller.may(Action::Admin, Target::Topic(topic), None);
    let Some(found) = in_time(hub.bus().group_detail(topic, group)).await? else {
        let others = in_time(hub.bus().elsewhere(std::slice::from_ref(topic))).await?;
        let other = others.into_iter().find(|other| other.status.group == *group);
        let other = other.ok_or_else(|| no_such_group(topic, group))?;
        let mut answer = status(&other.status);
        if let Some(owner) = other.owner.filter(|_| is_admin) {
            answer["owner"] = json!(owner.address);
        }
        return Ok(serde_json::to_vec(&answer).map_err(unwritable)?);
    };
    let GroupDetail { status: of, epoch, members, failures, next_deadline, blocking } = found;
    caller.owe(Work::groups(members.len()));
    let rates = hub.bus().group_rates(topic, group).unwrap_or_default();
    let failed =
        |RecentFailure { seq, attempt, ts, reason }: RecentFailure| Failed { seq, attempt, ts, reason };
    let answer = Detail {
        status: status(&of),
        epoch,
        rates,
        members: members.into_iter().take(MAX_MEMBERS).map(|one| member(one, is_admin)).collect(),
        failures: failures.into_iter().rev().map(failed).collect(),
        next_deadline_ms: next_deadline,
        blocking: blocking.map(block),
    };
    Ok(serde_json::to_vec(&answer).map_err(unwritable)?)
}

fn member(status: MemberStatus, is_admin: bool) -> Member {
    Member {
        member: status.member,
        inflight: status.inflight,
        paused: status.paused,
        has_room: status.has_room,
        ack_timeout_ms: status.ack_timeout,
        oldest_held_ms: status.oldest_held,
        subject: status.subject.filter(|_| is_admin),
    }
}

fn status(status: &GroupStatus) -> Value {
    let mut answer = json!({
        "topic": status.topic, "group": status.group, "floor": status.floor, "last": status.last, "lag": status.lag,
        "inflight": status.inflight, "parked": status.parked, "reason": status.reason.map(|reason| reason.as_str()),
    });
    if let Some(since) = status.since {
        answer["since"] = json!(since);
    }
    if let Some(oldest) = status.oldest {
        answer["oldestUnsettled"] = json!(Unsettled::from(oldest));
    }
    answer
}

fn block(KeyBlock { seq, id, key, state }: KeyBlock) -> Value {
    let mut answer = json!({"seq": seq, "id": id, "key": key.as_deref()});
    let (word, left, member) = match state {
        EventState::Leased { member, left, .. } => ("leased", Some(left), Some(member)),
        EventState::Backoff { left } => ("parked", Some(left), None),
        EventState::Dying => ("dead_lettering", None, None),
        _ => ("pending", None, None),
    };
    answer["state"] = json!(word);
    if let Some(left) = left {
        answer["leftMs"] = json!(left);
    }
    if let Some(member) = member {
        answer["member"] = json!(member);
    }
    answer
}
