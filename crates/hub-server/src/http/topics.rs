//! `/topics`: which topics there are, and how large; deleting one.

use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, in_time};
use super::page::{self, FILTERED, Page};
use super::query::Params;
use super::visible::Visible;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::{Bus, DeletedTopic, MeasuredRates, Millis, TopicDurability, TopicSample};
use hub_proto::TopicName;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;

/// One topic.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: TopicName,
    first: u64,
    last: u64,
    events: u64,
    bytes: u64,
    /// The commit time of `last`; nothing was published yet without it.
    last_committed: Option<u64>,
    /// Groups, of those that the token may see.
    groups: usize,
    /// What is published to it through this hub.
    rates: MeasuredRates<TopicSample>,
    settings: Settings,
    /// The subject that made it; to those who may administrate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    maker: Option<Arc<str>>,
}

/// What a topic keeps, and how safe it is, as the configuration of this hub says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// Null: events do not go for their age.
    retention_days: Option<u32>,
    /// Null: events do not go for the topic's size.
    retention_bytes: Option<u64>,
    compaction: bool,
    tombstone_grace_ms: Millis,
    durability: &'static str,
    dedupe_window_ms: Millis,
}

impl Settings {
    fn of(bus: &Bus, topic: &TopicName) -> Self {
        let settings = bus.topic_settings(topic).unwrap_or_default();
        Self {
            retention_days: settings.retention_days,
            retention_bytes: settings.retention_bytes,
            compaction: settings.compaction,
            tombstone_grace_ms: settings.tombstone_grace,
            durability: match settings.durability {
                TopicDurability::Commit => "commit",
                TopicDurability::Interval => "interval",
            },
            dedupe_window_ms: bus.dedupe_window(),
        }
    }
}

/// A page of them.
#[derive(Serialize)]
struct Topics {
    topics: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<TopicName>,
}

pub(super) async fn topics(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["q", "after", "limit"])?;
    let mut page = Page::of(&params)?;
    let text = params.get("q");
    caller.take_one()?;
    let mut visible = Visible::from(&caller, page.after.as_deref(), false);
    let mut topics: Vec<Entry> = Vec::new();
    let (mut next, mut last) = (None, None);
    'page: loop {
        let names = visible.next(hub.bus(), &caller).await;
        if names.is_empty() {
            break;
        }
        for name in names {
            if page.is_full(topics.len()) || page.looked_at() >= FILTERED && text.is_some() {
                next = last.take();
                break 'page;
            }
            page.look().await;
            last = Some(name.clone());
            if text.is_some_and(|text| !name.contains(text)) {
                continue;
            }
            let bounds = in_time(hub.bus().bounds(&name)).await?;
            let groups =
                hub.bus().group_names(&name).iter().filter(|group| caller.sees_group(&name, group)).count();
            topics.push(Entry {
                first: bounds.first,
                last: bounds.last,
                events: bounds.events,
                bytes: bounds.bytes,
                last_committed: (bounds.last > 0).then_some(bounds.last_committed),
                groups,
                rates: hub.bus().topic_rates(&name).unwrap_or_default(),
                settings: Settings::of(hub.bus(), &name),
                maker: hub
                    .bus()
                    .maker_of(&name)
                    .filter(|_| caller.may(Action::Admin, Target::Topic(&name), None)),
                name,
            });
        }
    }
    caller.owe(Work { topics: visible.looked_at(), groups: topics.len(), bytes: 0 });
    let entries = topics.len();
    page::answer(Topics { topics, next }, entries).await
}

/// `DELETE /topics?topic=`: deletes a topic with its groups and the topics derived from it.
pub(super) async fn delete(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic"])?;
    let topic = params.topic()?;
    caller.take_one()?;
    caller.must(Action::Admin, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    let DeletedTopic { topics, groups, events } = in_time(hub.bus().delete_topic(&topic)).await?;
    caller.owe(Work { topics, groups, bytes: 0 });
    tracing::info!(%topic, topics, groups, events, "topic deleted");
    let deleted = json!({ "topics": topics, "groups": groups, "events": events });
    Ok(Json(json!({ "topic": topic, "deleted": deleted })).into_response())
}
