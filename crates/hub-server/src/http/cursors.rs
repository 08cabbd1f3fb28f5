//! `GET /cursors` and `GET /lag`: how far groups are.

use super::auth::Caller;
use super::error::{Answer, Failure, in_time};
use super::page::Page;
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::store::ReadLimit;
use hub_core::{Bus, Cursor, Event, GroupStatus};
use hub_proto::{EventId, GroupName, TopicName};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A group's floor. The event there may be gone by now.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Floor {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupName>,
    last_id: Option<EventId>,
    last_ts: Option<u64>,
    seq: u64,
}

impl Floor {
    fn of(group: Option<GroupName>, cursor: &Cursor) -> Self {
        Self { group, last_id: cursor.last_id, last_ts: cursor.last_ts, seq: cursor.seq }
    }
}

/// A page of them.
#[derive(Serialize)]
struct Cursors {
    topic: TopicName,
    cursors: Vec<Floor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<GroupName>,
}

pub(super) async fn cursors(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "group", "after", "limit"])?;
    let (topic, group, mut page) = (params.topic()?, params.group()?, Page::of(&params)?);
    caller.take_one()?;
    let mut others = BTreeMap::new();
    let groups = match group {
        Some(group) => {
            caller.must(Action::Subscribe, Target::Topic(&topic), Some(&group))?;
            exists(hub.bus(), &topic)?;
            others = elsewhere(hub.bus(), &topic).await?;
            if hub.bus().group_options(&topic, &group).is_none() && !others.contains_key(&group) {
                return Err(no_such_group(&topic, &group));
            }
            vec![group]
        }
        None => {
            let mut groups = hub.bus().group_names(&topic);
            if hub.bus().has_topic(&topic) {
                others = elsewhere(hub.bus(), &topic).await?;
                groups.extend(others.keys().cloned());
                groups.sort_unstable();
                groups.dedup();
            }
            groups.retain(|group| caller.may(Action::Subscribe, Target::Topic(&topic), Some(group)));
            if groups.is_empty() {
                caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
            }
            exists(hub.bus(), &topic)?;
            groups.retain(|group| page.after.as_deref().is_none_or(|after| group.as_str() > after));
            groups
        }
    };
    let (mut cursors, mut next) = (Vec::new(), None);
    for group in groups {
        if page.is_full(cursors.len()) {
            next = cursors.last().and_then(|last: &Floor| last.group.clone());
            break;
        }
        page.look().await;
        // One that was deleted meanwhile is left out.
        let cursor = match in_time(hub.bus().get_cursor(&topic, &group)).await? {
            None => match others.get(&group) {
                Some(status) => Some(in_time(saved(hub.bus(), status)).await?),
                None => None,
            },
            here => here,
        };
        cursors.extend(cursor.map(|cursor| Floor::of(Some(group), &cursor)));
    }
    Ok(Json(Cursors { topic, cursors, next }).into_response())
}

/// How far behind a group is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Lag {
    topic: TopicName,
    group: GroupName,
    last_cursor: Floor,
    /// The newest event's id, while it is kept.
    tail: Option<EventId>,
    lag_ms: u64,
    lag: u64,
    inflight: usize,
    parked: usize,
    reason: Option<&'static str>,
}

pub(super) async fn lag(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "group"])?;
    let (topic, group) = (params.topic()?, GroupName::parse(params.required("group")?)?);
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), Some(&group))?;
    exists(hub.bus(), &topic)?;
    Ok(Json(in_time(measure(hub.bus(), topic, group)).await?).into_response())
}

async fn measure(bus: &Bus, topic: TopicName, group: GroupName) -> Result<Lag, Failure> {
    let here = bus.get_cursor(&topic, &group).await?.zip(bus.group(&topic, &group));
    let (cursor, status) = match here {
        Some(here) => here,
        None => {
            let status = elsewhere(bus, &topic).await?.remove(&group);
            let status = status.ok_or_else(|| no_such_group(&topic, &group))?;
            (saved(bus, &status).await?, status)
        }
    };
    // Asked last, so that the end is never before the floor.
    let bounds = bus.bounds(&topic).await?;
    let tail = at_or_after(bus, &topic, bounds.last).await?;
    let lag = bounds.last.saturating_sub(cursor.seq);
    let lag_ms = match lag {
        0 => 0,
        // The floor's event; if there is none, or it is gone, the oldest that is still there.
        _ => at_or_after(bus, &topic, cursor.seq)
            .await?
            .map_or(0, |from| bounds.last_committed.saturating_sub(from.committed())),
    };
    Ok(Lag {
        last_cursor: Floor::of(None, &cursor),
        tail: tail.map(|event| event.id()),
        lag_ms,
        lag,
        inflight: status.inflight,
        parked: status.parked,
        reason: status.reason.map(|reason| reason.as_str()),
        topic,
        group,
    })
}

/// The first event that is kept at a seq or above it.
async fn at_or_after(bus: &Bus, topic: &TopicName, seq: u64) -> Result<Option<Arc<Event>>, Failure> {
    let one = ReadLimit { events: 1, bytes: 1 };
    Ok(bus.read(topic, seq.saturating_sub(1), one).await?.into_iter().next())
}

/// Refuses a topic that is not there.
pub(super) fn exists(bus: &Bus, topic: &TopicName) -> Result<(), Failure> {
    match bus.has_topic(topic) {
        true => Ok(()),
        false => Err(Failure::no_such_topic(topic)),
    }
}

/// The groups of a topic that this hub does not serve.
pub(super) async fn elsewhere(
    bus: &Bus,
    topic: &TopicName,
) -> Result<BTreeMap<GroupName, GroupStatus>, Failure> {
    let groups = in_time(bus.elsewhere(std::slice::from_ref(topic))).await?;
    Ok(groups.into_iter().map(|group| (group.status.group.clone(), group.status)).collect())
}

/// The floor of one of those, as it was last saved.
async fn saved(bus: &Bus, status: &GroupStatus) -> Result<Cursor, Failure> {
    let event = match status.floor {
        0 => None,
        floor => at_or_after(bus, &status.topic, floor).await?.filter(|event| event.seq() == floor),
    };
    Ok(Cursor {
        topic: status.topic.clone(),
        seq: status.floor,
        last_id: event.as_ref().map(|event| event.id()),
        last_ts: event.as_ref().map(|event| event.ts()),
    })
}

pub(super) fn no_such_group(topic: &TopicName, group: &GroupName) -> Failure {
    Failure::bad_request(format!("topic {topic} has no group {group}"))
}
