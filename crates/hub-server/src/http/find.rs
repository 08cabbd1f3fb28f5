//! `GET /event/find`: the topics that have an event, by its id alone.
//!
//! Stores look up an id within a topic, so the search asks topic by topic. One request asks a bounded number of topics for a bounded
//! time, and names the topic after which the next one goes on.

use super::auth::Caller;
use super::error::{Answer, Failure, in_time};
use super::page::FILTERED;
use super::query::Params;
use super::visible::Visible;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use futures_util::future::try_join_all;
use hub_core::Bus;
use hub_proto::{EventId, TopicName};
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// Topics that one request asks for the id.
const MAX_TOPICS: usize = 1000;
/// How long one request goes on with further topics.
const MAX_TIME: Duration = Duration::from_secs(2);
/// Topics that are asked at the same time.
const CONCURRENT_LOOKUPS: usize = 8;

/// A topic that has the id.
#[derive(Serialize)]
struct Place {
    topic: TopicName,
    seq: u64,
}

#[derive(Serialize)]
struct Found {
    id: EventId,
    topics: Vec<Place>,
    /// How many topics were asked.
    searched: usize,
    /// There are further topics: the `after` of the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<TopicName>,
}

pub(super) async fn find(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["id", "after"])?;
    let id = EventId::parse(params.required("id")?)?;
    caller.take_one()?;
    let (began, mut visible) = (Instant::now(), Visible::from(&caller, params.get("after"), false));
    let (mut topics, mut searched, mut last) = (Vec::new(), 0, None);
    let next = 'search: loop {
        let page = visible.next(hub.bus(), &caller).await;
        let Some(end) = page.last().cloned() else { break None };
        let may_read = |topic: &TopicName| caller.may(Action::Subscribe, Target::Topic(topic), None);
        let readable: Vec<TopicName> = page.into_iter().filter(may_read).collect();
        for names in readable.chunks(CONCURRENT_LOOKUPS) {
            if searched >= MAX_TOPICS || began.elapsed() >= MAX_TIME {
                break 'search last;
            }
            let found = try_join_all(names.iter().map(|topic| look_up(hub.bus(), topic, id)));
            topics.extend(in_time(found).await?.into_iter().flatten());
            searched += names.len();
            last = names.last().cloned();
        }
        // Behind topics that the caller may not read.
        last = Some(end);
        if visible.looked_at() >= FILTERED {
            break last;
        }
    };
    caller.owe(Work { topics: visible.looked_at(), groups: 0, bytes: 0 });
    Ok(Json(Found { id, topics, searched, next }).into_response())
}

async fn look_up(bus: &Bus, topic: &TopicName, id: EventId) -> Result<Option<Place>, Failure> {
    match bus.seq_of(topic, id).await {
        Ok(seq) => Ok(seq.map(|seq| Place { topic: topic.clone(), seq })),
        // It was deleted meanwhile.
        Err(_) if !bus.has_topic(topic) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
