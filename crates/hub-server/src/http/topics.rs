//! `GET /topics`: which topics there are, and how large.

use super::auth::Caller;
use super::error::{Answer, in_time};
use super::page::Page;
use super::query::Params;
use crate::Hub;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_proto::TopicName;
use serde::Serialize;

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
}

/// A page of them.
#[derive(Serialize)]
struct Topics {
    topics: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<TopicName>,
}

pub(super) async fn topics(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["after", "limit"])?;
    let mut page = Page::of(&params)?;
    caller.take_one()?;
    let names = hub.bus().topics();
    let start =
        names.partition_point(|name| page.after.as_deref().is_some_and(|after| name.as_str() <= after));
    let mut topics: Vec<Entry> = Vec::new();
    let mut next = None;
    for name in &names[start..] {
        page.look().await;
        if !caller.sees_topic(name) {
            continue;
        }
        if page.is_full(topics.len()) {
            next = topics.last().map(|last| last.name.clone());
            break;
        }
        let bounds = in_time(hub.bus().bounds(name)).await?;
        let groups =
            hub.bus().group_names(name).iter().filter(|group| caller.sees_group(name, group)).count();
        topics.push(Entry {
            name: name.clone(),
            first: bounds.first,
            last: bounds.last,
            events: bounds.events,
            bytes: bounds.bytes,
            last_committed: (bounds.last > 0).then_some(bounds.last_committed),
            groups,
        });
    }
    Ok(Json(Topics { topics, next }).into_response())
}
