//! `GET /history`: records of a topic, the newest first: what a key has been, and what the state was at a time.

use super::auth::Caller;
use super::backward::Backward;
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::events_page::{self, Block, Next, Source, Then};
use super::page::Page;
use super::position;
use super::query::Params;
use super::record::RecordFormat;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use hub_core::{Bus, Position};
use hub_proto::{TopicName, limits};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A request looks at no more events than this, or than it gets through in the time.
const SEARCH_EVENTS: usize = 50_000;
const SEARCH_TIME: Duration = Duration::from_secs(2);

pub(super) async fn history(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "key", "before", "toTs", "limit"])?;
    let (topic, page) = (params.topic()?, Page::of(&params)?);
    let key = params.get("key").map(checked_key).transpose()?;
    let before = params.number("before", "a seq")?;
    let upto = params.number("toTs", position::MILLIS)?;
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    let bus = hub.bus();
    let bounds = in_time(bus.bounds(&topic)).await?;
    let mut newest = bounds.last;
    if let Some(before) = before {
        newest = newest.min(u64::saturating_sub(before, 1));
    }
    if let Some(upto) = upto {
        // Commit times never decrease: the events up to a time end before the first that is later.
        let later = Position::Time(u64::saturating_add(upto, 1));
        newest = newest.min(in_time(bus.resolve(&topic, later)).await?);
    }
    if let Some(key) = &key {
        newest = newest.min(newest_of_key(bus, &topic, key, newest).await?);
    }
    let losses = losses(bus, &topic, bounds.first);
    let source = History {
        oldest: bounds.first.saturating_sub(1),
        first: bounds.first,
        log: Backward::from(topic.clone(), newest),
        key,
        losses,
        ends_at: Instant::now() + SEARCH_TIME,
    };
    events_page::answer(hub, caller, topic, source, (page.limit(), RecordFormat::Native)).await
}

fn checked_key(key: &str) -> Result<String, Failure> {
    let (bytes, most) = (key.len(), limits::KEY_BYTES);
    match bytes <= most {
        true => Ok(key.to_owned()),
        false => Err(Failure::bad_request(format!("the key has {bytes} bytes; at most {most} are allowed"))),
    }
}

/// Above the newest record of a key there is nothing to look for. A key that was deleted, or never was there, has none.
async fn newest_of_key(bus: &Bus, topic: &TopicName, key: &str, upto: u64) -> Result<u64, Failure> {
    let newest = in_time(bus.latest_by_key(topic, &[key])).await?.into_iter().next().flatten();
    Ok(newest.map_or(upto, |event| event.seq()))
}

/// What may be missing: values that were overwritten, and what retention or a deletion has removed.
fn losses(bus: &Bus, topic: &TopicName, first: u64) -> Losses {
    let settings = bus.topic_settings(topic).unwrap_or_default();
    let is_retained = settings.retention_days.is_some() || settings.retention_bytes.is_some();
    // Compaction alone moves the first record, too.
    Losses { compacted: settings.compaction, retained: first > 1 && (is_retained || !settings.compaction) }
}

#[derive(Clone, Copy)]
struct Losses {
    compacted: bool,
    retained: bool,
}

/// The part of a log that a page is made of.
struct History {
    log: Backward,
    /// Nothing is kept at or below this seq.
    oldest: u64,
    first: u64,
    key: Option<String>,
    losses: Losses,
    ends_at: Instant,
}

impl Source for History {
    async fn next_block(&mut self, hub: &Hub, caller: &mut Caller, room: usize) -> Result<Block, Failure> {
        loop {
            let (_, before) = self.log.read();
            let block = self.log.next(hub.bus(), self.oldest).await?;
            let (looked_at, bytes) = self.log.read();
            caller.owe(Work::bytes(bytes - before));
            let Some(mut events) = block else { return Ok(Block { events: Vec::new(), then: Then::End }) };
            // What is replayed for one group is nothing new to anybody else.
            events.retain(|event| {
                let is_wanted = |key: &String| event.key().is_some_and(|own| **own == **key);
                event.audience().is_none() && self.key.as_ref().is_none_or(is_wanted)
            });
            if events.len() > room {
                events.truncate(room);
            }
            if events.len() == room
                && let Some(last) = events.last()
            {
                self.log.go_back_to(last.seq());
                return Ok(Block { events, then: Then::EndOfPage });
            }
            if looked_at >= SEARCH_EVENTS || Instant::now() >= self.ends_at {
                return Ok(Block { events, then: Then::EndOfPage });
            }
            if !events.is_empty() {
                return Ok(Block { events, then: Then::More });
            }
            // A search that finds nothing lets others have their turn.
            tokio::task::yield_now().await;
        }
    }

    async fn next_page(&mut self, _: &Hub) -> Result<Option<Next>, Failure> {
        let upto = self.log.upto();
        Ok((upto > self.oldest).then_some(Next::BeforeSeq(upto + 1)))
    }

    fn more(&self) -> Option<String> {
        let Losses { compacted, retained } = self.losses;
        let more = json!({"first": self.first, "compacted": compacted, "retained": retained}).to_string();
        // As further members of an object.
        Some(more.trim_matches(['{', '}']).to_owned())
    }
}
