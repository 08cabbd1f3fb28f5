//! `GET /stats`: rates over time, of a topic, of a group, or of everything that the token may see.

use super::audit::About;
use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, shown};
use super::query::Params;
use crate::Hub;
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::{GroupSample, Range, TopicSample};
use hub_proto::{Code, Error, GroupName, TopicName};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Topics and groups that are summed up before others get their turn: each can have 1,440 samples.
const STRIDE: usize = 16;

/// What happened in a time on all topics and in all groups, per second.
#[derive(Default)]
struct Total {
    topics: TopicSample,
    groups: GroupSample,
}

pub(super) async fn stats(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "group", "range"])?;
    let (range, name) = range(&params)?;
    let topic = params.get("topic").map(|_| params.topic()).transpose()?;
    let group = params.group()?;
    caller.take_one()?;
    let (bus, step) = (hub.bus(), range.step());
    let answer = |of: Value, samples: Value| {
        let mut answer = json!({"range": name, "stepMs": step, "samples": samples});
        if let (Some(answer), Value::Object(of)) = (answer.as_object_mut(), of) {
            answer.extend(of);
        }
        Ok(Json(answer).into_response())
    };
    match (topic, group) {
        (Some(topic), Some(group)) => {
            must_see(&caller, &topic, Some(&group))?;
            exists(bus, &topic)?;
            let samples = bus.group_history(&topic, &group, range);
            answer(json!({"topic": topic, "group": group}), json!(samples))
        }
        (Some(topic), None) => {
            must_see(&caller, &topic, None)?;
            exists(bus, &topic)?;
            let samples = bus.topic_history(&topic, range);
            answer(json!({"topic": topic}), json!(samples))
        }
        (None, Some(_)) => Err(Failure::bad_request("group needs topic: a group reads a topic")),
        (None, None) => {
            let (total, looked_at) = total(&hub, &caller, range).await;
            caller.owe(Work::topics(looked_at));
            answer(json!({}), json!(total))
        }
    }
}

fn range(params: &Params) -> Result<(Range, &'static str), Failure> {
    match params.get("range") {
        None | Some("15m") => Ok((Range::Quarter, "15m")),
        Some("1m") => Ok((Range::Minute, "1m")),
        Some("24h") => Ok((Range::Day, "24h")),
        Some(other) => {
            Err(Failure::bad_request(format!("range is {}; it must be 1m, 15m or 24h", shown(other))))
        }
    }
}

fn must_see(caller: &Caller, topic: &TopicName, group: Option<&GroupName>) -> Result<(), Failure> {
    let sees = match group {
        Some(group) => caller.sees_group(topic, group),
        None => caller.sees_topic(topic),
    };
    if sees {
        return Ok(());
    }
    let about = About { topic: Some(topic), group: group.map(GroupName::as_str), ..About::default() };
    let text = format!("the token allows nothing on topic {topic}");
    Err(caller.refused("read", about, Error::new(Code::Forbidden, text)))
}

/// The sum of what the caller may see. What has no samples is not looked at.
async fn total(hub: &Hub, caller: &Caller, range: Range) -> (Vec<Value>, usize) {
    let (topics, groups) = (hub.bus().measured_topics(), hub.bus().measured_groups());
    let looked_at = topics.len() + groups.len();
    let mut totals: BTreeMap<u64, Total> = BTreeMap::new();
    for (count, topic) in topics.iter().filter(|topic| caller.sees_topic(topic)).enumerate() {
        give_way(count).await;
        for rated in hub.bus().topic_history(topic, range) {
            let total = &mut totals.entry(rated.ts).or_default().topics;
            total.published += rated.sample.published;
            total.bytes += rated.sample.bytes;
        }
    }
    let groups = groups.iter().filter(|(topic, group)| caller.sees_group(topic, group));
    for (count, (topic, group)) in groups.enumerate() {
        give_way(count).await;
        for rated in hub.bus().group_history(topic, group, range) {
            let total = &mut totals.entry(rated.ts).or_default().groups;
            total.delivered += rated.sample.delivered;
            total.acked += rated.sample.acked;
            total.nacked += rated.sample.nacked;
            total.redelivered += rated.sample.redelivered;
            total.deadlettered += rated.sample.deadlettered;
        }
    }
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let sample = |(ts, Total { topics, groups }): (u64, Total)| {
        json!({
            "ts": ts, "published": rounded(topics.published), "bytes": rounded(topics.bytes),
            "delivered": rounded(groups.delivered), "acked": rounded(groups.acked), "nacked": rounded(groups.nacked),
            "redelivered": rounded(groups.redelivered), "deadlettered": rounded(groups.deadlettered),
        })
    };
    (totals.into_iter().map(sample).collect(), looked_at)
}

async fn give_way(count: usize) {
    if count % STRIDE == STRIDE - 1 {
        tokio::task::yield_now().await;
    }
}
