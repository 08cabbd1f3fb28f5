//! `GET /quotas`: what a subject may use, and what it uses.

use super::audit::About;
use super::auth::Caller;
use super::error::{Answer, Failure, shown};
use super::page::Page;
use super::query::Params;
use crate::Hub;
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::{Quota, QuotaOf, QuotaUse};
use serde::Serialize;
use serde_json::{Value, json};

/// What is used of something, and how much there may be.
#[derive(Serialize)]
struct Of {
    used: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
}

impl Of {
    fn count(used: usize, max: Option<usize>) -> Self {
        Self { used: used as u64, max: max.map(|max| max as u64) }
    }
}

fn kept(used: &QuotaUse, quota: Option<&Quota>) -> Value {
    json!({
        "topics": Of::count(used.topics, quota.and_then(|quota| quota.topics)),
        "groups": Of::count(used.groups, quota.and_then(|quota| quota.groups)),
        "storedBytes": Of { used: used.stored_bytes, max: quota.and_then(|quota| quota.stored_bytes) },
    })
}

fn of_subject(hub: &Hub, subject: &str) -> Value {
    let (quota, used) = hub.bus().quota_of(subject);
    let (open, settings) = (hub.live().of(subject), hub.settings());
    let live = settings.limits.quota_of(subject);
    let mut entry = kept(&used, quota.as_ref());
    entry["subject"] = json!(subject);
    entry["connections"] = json!(Of::count(open.connections, live.and_then(|live| live.connections)));
    entry["subscriptions"] = json!(Of::count(open.subscriptions, live.and_then(|live| live.subscriptions)));
    add_byte_rates(&mut entry, live.and_then(|live| live.bytes_in), live.and_then(|live| live.bytes_out));
    entry
}

fn add_byte_rates(entry: &mut Value, bytes_in: Option<u32>, bytes_out: Option<u32>) {
    for (name, max) in [("bytesIn", bytes_in), ("bytesOut", bytes_out)] {
        if let Some(max) = max {
            entry[name] = json!({ "maxPerSecond": max });
        }
    }
}

/// The caller's own subject; with `subject=`, or all of them with `all=1`, for those who may administrate something.
pub(super) async fn quotas(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["subject", "all", "after", "limit"])?;
    let page = Page::of(&params)?;
    let (named, all) = (params.get("subject"), params.flag("all")?.unwrap_or(false));
    caller.take_one()?;
    if (all || named.is_some_and(|named| named != caller.subject())) && !caller.administrates() {
        let text = "quotas of others are shown to those who may administrate something";
        return Err(caller.refused("admin", About::default(), hub_proto::Error::forbidden(text)));
    }
    if !all {
        if let Some(after) = &page.after {
            return Err(Failure::bad_request(format!("after is {}; it goes with all=1", shown(after))));
        }
        let subject = named.unwrap_or_else(|| caller.subject());
        return Ok(Json(json!({ "subjects": [of_subject(&hub, subject)] })).into_response());
    }
    let found = hub.bus().subjects(page.after.as_deref(), page.limit());
    caller.owe(Work::groups(found.len()));
    let next = found.last().filter(|_| found.len() == page.limit()).map(|(subject, _)| subject.clone());
    let subjects: Vec<Value> = found.iter().map(|(subject, _)| of_subject(&hub, subject)).collect();
    let settings = hub.settings();
    let topics = hub.bus().topic_quotas().into_iter().map(|(quota, used)| {
        let mut entry = kept(&used, Some(&quota));
        if let QuotaOf::Topics(pattern) = &quota.of {
            entry["pattern"] = json!(pattern);
            let rates = settings.limits.topic_quotas.iter().find(|rates| rates.pattern == *pattern);
            if let Some(rates) = rates {
                add_byte_rates(&mut entry, rates.bytes_in, rates.bytes_out);
            }
        }
        entry
    });
    let mut answer = json!({ "subjects": subjects, "patterns": topics.collect::<Vec<_>>() });
    if let Some(next) = next {
        answer["next"] = json!(next);
    }
    Ok(Json(answer).into_response())
}
