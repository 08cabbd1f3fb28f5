//! `GET /groups` and `DELETE /groups`.

use super::audit::About;
use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, in_time, shown};
use super::page::{self, FILTERED, Page};
use super::query::Params;
use super::visible::Visible;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::edge::{Act, act, list_at_owner};
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::{Bus, Elsewhere, GroupOptions, GroupSample, GroupStatus, MeasuredRates, Oldest, Reason};
use hub_proto::{Code, Error, GroupName, Pattern, TopicName};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// One group on one topic.
#[derive(Serialize)]
struct Entry {
    topic: TopicName,
    group: GroupName,
    floor: u64,
    last: u64,
    lag: u64,
    inflight: usize,
    parked: usize,
    members: usize,
    /// Why nothing is delivered at the moment.
    reason: Option<&'static str>,
    /// Since when nothing was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    /// The oldest event that is not settled.
    #[serde(skip_serializing_if = "Option::is_none", rename = "oldestUnsettled")]
    oldest: Option<Unsettled>,
    options: GroupOptions,
    /// Of a group that another hub serves: where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// What it does; of a group that this hub serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<MeasuredRates<GroupSample>>,
}

/// An event that is not settled.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unsettled {
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

impl From<Oldest> for Unsettled {
    fn from(Oldest { seq, age }: Oldest) -> Self {
        Self { seq, age_ms: age }
    }
}

impl Entry {
    /// `None` if the group was deleted meanwhile.
    fn of(bus: &Bus, topic: &TopicName, group: &GroupName) -> Option<Self> {
        let entry = Self::new(bus.group(topic, group)?, bus.group_options(topic, group)?, None);
        let rates = Some(bus.group_rates(topic, group).unwrap_or_default());
        Some(Self { rates, ..entry })
    }

    fn new(status: GroupStatus, options: GroupOptions, owner: Option<String>) -> Self {
        Self {
            topic: status.topic,
            group: status.group,
            floor: status.floor,
            last: status.last,
            lag: status.lag,
            inflight: status.inflight,
            parked: status.parked,
            members: status.members,
            reason: status.reason.map(|reason| reason.as_str()),
            since: status.since,
            oldest: status.oldest.map(Unsettled::from),
            options,
            owner,
            rates: None,
        }
    }
}

/// A page of them.
#[derive(Serialize)]
struct Groups {
    groups: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn groups(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "q", "reason", "after", "limit"])?;
    let mut page = Page::of(&params)?;
    let (text, reason) = (params.get("q"), reason(&params)?);
    let is_filtered = text.is_some() || reason.is_some();
    // A slash is in no name of a topic or a group.
    let after = page.after.as_deref().map(|after| {
        let place = after.split_once('/').map(|(topic, group)| (topic.to_owned(), group.to_owned()));
        place.ok_or_else(|| {
            Failure::bad_request(format!("after is {}; it must be next of a page before", shown(after)))
        })
    });
    let after = after.transpose()?;
    caller.take_one()?;
    let mut only = match params.get("topic") {
        Some(_) => {
            let topic = params.topic()?;
            if !caller.sees_topic(&topic) {
                let text = format!("the token allows nothing on topic {topic}");
                let about = About { topic: Some(&topic), ..About::default() };
                return Err(caller.refused("read", about, Error::new(Code::Forbidden, text)));
            }
            exists(hub.bus(), &topic)?;
            Some(vec![topic])
        }
        None => None,
    };
    let is_one = only.is_some();
    let is_behind = |topic: &TopicName, group: &GroupName| {
        after.as_ref().is_none_or(|(t, g)| (topic.as_str(), group.as_str()) > (t.as_str(), g.as_str()))
    };
    let mut visible = Visible::from(&caller, after.as_ref().map(|(topic, _)| topic.as_str()), true);
    let mut entries: Vec<Entry> = Vec::new();
    let (mut next, mut last) = (None, None);
    'page: loop {
        let topics = match only.take() {
            Some(topics) => topics,
            None if is_one => break,
            None => visible.next(hub.bus(), &caller).await,
        };
        if topics.is_empty() {
            break;
        }
        let mut elsewhere = elsewhere(&hub, &caller, &topics).await?;
        for topic in &topics {
            let mut others = elsewhere.remove(topic).unwrap_or_default();
            let mut names = hub.bus().group_names(topic);
            if !others.is_empty() {
                names.extend(others.keys().cloned());
                names.sort_unstable();
                names.dedup();
            }
            for group in names {
                page.look().await;
                if !is_behind(topic, &group) || !caller.sees_group(topic, &group) {
                    continue;
                }
                if page.is_full(entries.len()) || page.looked_at() >= FILTERED && is_filtered {
                    next = last;
                    break 'page;
                }
                last = Some(format!("{topic}/{group}"));
                if text.is_some_and(|text| !topic.contains(text) && !group.contains(text)) {
                    continue;
                }
                let entry = Entry::of(hub.bus(), topic, &group).or_else(|| others.remove(&group));
                entries
                    .extend(entry.filter(|entry| reason.is_none_or(|reason| entry.reason == Some(reason))));
            }
        }
    }
    caller.owe(Work { topics: visible.looked_at(), groups: page.looked_at(), bytes: 0 });
    let count = entries.len();
    page::answer(Groups { groups: entries, next }, count).await
}

/// The reason that groups are to have.
fn reason(params: &Params) -> Result<Option<&'static str>, Failure> {
    let Some(wanted) = params.get("reason") else { return Ok(None) };
    let known = Reason::ALL.map(Reason::as_str);
    match known.iter().find(|known| **known == wanted) {
        Some(known) => Ok(Some(known)),
        None => Err(Failure::bad_request(format!(
            "reason is {}; it must be one of {}",
            shown(wanted),
            known.join(", ")
        ))),
    }
}

/// The groups on these topics that this hub does not serve, by topic and name. Where they are is for those who administrate them.
async fn elsewhere(
    hub: &Hub,
    caller: &Caller,
    topics: &[TopicName],
) -> Result<BTreeMap<TopicName, BTreeMap<GroupName, Entry>>, Failure> {
    let mut found: BTreeMap<TopicName, BTreeMap<GroupName, Entry>> = BTreeMap::new();
    for Elsewhere { status, options, owner } in in_time(hub.bus().elsewhere(topics)).await? {
        let (topic, group) = (status.topic.clone(), status.group.clone());
        let owner = owner.filter(|_| caller.may(Action::Admin, Target::Topic(&topic), None));
        let entry = Entry::new(status, options, owner.map(|owner| owner.address));
        found.entry(topic).or_default().insert(group, entry);
    }
    Ok(found)
}

/// Deletes a group on one topic, or a subscription to a pattern or a list with all its groups.
pub(super) async fn delete(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "label", "group"])?;
    let group = GroupName::parse(params.required("group")?)?;
    let bus = hub.bus();
    match (params.get("topic"), params.get("label")) {
        (Some(pattern), None) if pattern.contains('*') => {
            let parsed = Pattern::parse(pattern)?;
            caller.take_one()?;
            caller
                .administrate(Target::Pattern(&parsed), About { group: Some(&group), ..About::default() })?;
            let deleted = in_time(act(&hub, &group, &Act::Delete(pattern.to_owned()))).await?;
            Ok(Json(json!({"topic": pattern, "group": group, "deleted": deleted})).into_response())
        }
        (Some(_), None) => {
            let topic = params.topic()?;
            caller.take_one()?;
            caller.administrate(Target::Topic(&topic), About { group: Some(&group), ..About::default() })?;
            exists(bus, &topic)?;
            let deleted = in_time(act(&hub, &group, &Act::Delete(topic.to_string()))).await?;
            Ok(Json(json!({"topic": topic, "group": group, "deleted": deleted})).into_response())
        }
        (None, Some(label)) => {
            caller.take_one()?;
            let is_allowed = may_delete_list(&hub, &caller, label, &group).await?;
            let list = format!("list:{label}");
            let about = About { group: Some(&group), target: Some(&list), ..About::default() };
            caller.administrate_if(is_allowed, about, || {
                let (label, group) = (shown(label), shown(&group));
                let text = format!(
                    "the token does not allow admin on every topic of the list {label} with group {group}"
                );
                Error::new(Code::Forbidden, text).into()
            })?;
            let deleted = in_time(act(&hub, &group, &Act::DeleteList(label.to_owned()))).await?;
            Ok(Json(json!({"label": label, "group": group, "deleted": deleted})).into_response())
        }
        (Some(_), Some(_)) => {
            Err(Failure::bad_request("both topic and label are there; give topic, or the label of a list"))
        }
        (None, None) => {
            Err(Failure::bad_request("parameter topic is missing (a topic or a pattern), or label (a list)"))
        }
    }
}

/// A list goes by its topics: what its label says does not count. Only who may do everything learns that there is none.
async fn may_delete_list(
    hub: &Hub,
    caller: &Caller,
    label: &str,
    group: &GroupName,
) -> Result<bool, Failure> {
    // Looking makes this hub the owner of a group that nobody serves: not for everybody.
    if !caller.administrates() {
        return Ok(false);
    }
    match in_time(list_at_owner(hub, label, group)).await? {
        Some(topics) => Ok(topics.iter().all(|topic| caller.may(Action::Admin, Target::Topic(topic), None))),
        None => Ok(caller.may(Action::Admin, Target::Pattern(&Pattern::parse("**")?), None)),
    }
}
