//! `GET /replay`: events of a topic from a position on, in pages.

use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::events_page::{self, BLOCK, Block, Next, Source, Then};
use super::page::Page;
use super::position::{self, position};
use super::query::Params;
use super::record::RecordFormat;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::cloudevents::Accepted;
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use hub_core::store::ReadLimit;
use hub_core::{Event, Millis, Position};
use hub_proto::{TopicName, limits};
use std::time::Duration;
use tokio::time::Instant;

/// A request that searches looks at no more events than this, or than it gets through in the time.
const SEARCH_EVENTS: usize = 50_000;
const SEARCH_TIME: Duration = Duration::from_secs(2);
/// The headers that a correlation id is looked for in. A publish by HTTP brings headers that begin with `x-` only.
const CORRELATION_HEADERS: [&str; 2] = ["correlationId", "x-correlation-id"];

pub(super) async fn replay(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [from, ts, after_id, after_seq] = position::PARAMETERS;
    let allowed = ["topic", from, ts, after_id, after_seq, "toTs", "limit", "correlationId"];
    let params = Params::read(query.as_deref(), &allowed)?;
    let (topic, page) = (params.topic()?, Page::of(&params)?);
    let from = position(&params, &[("earliest", Position::Earliest)])?.unwrap_or(Position::Earliest);
    let until = params.number("toTs", position::MILLIS)?;
    let search = params.get("correlationId").map(Search::new).transpose()?;
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    // The end first: what is committed in between is for the next page.
    let end = in_time(hub.bus().bounds(&topic)).await?.last;
    let after = in_time(hub.bus().resolve(&topic, from)).await?;
    let source = Replay { topic: topic.clone(), after, end, until, search };
    let format = RecordFormat::of(Accepted::of(&headers));
    events_page::answer(hub, caller, topic, source, (page.limit(), format)).await
}

/// The part of a log that a page is made of.
struct Replay {
    topic: TopicName,
    /// The last seq that was looked at.
    after: u64,
    /// The end of the topic when the request came.
    end: u64,
    /// Events committed at this time or later are left out.
    until: Option<Millis>,
    search: Option<Search>,
}

/// A search for the events with a correlation id.
struct Search {
    wanted: String,
    /// How many events it may still look at, and until when.
    events_left: usize,
    ends_at: Instant,
}

impl Search {
    fn new(wanted: &str) -> Result<Self, Failure> {
        if wanted.len() > limits::HEADERS_BYTES {
            let (bytes, most) = (wanted.len(), limits::HEADERS_BYTES);
            return Err(Failure::bad_request(format!(
                "correlationId has {bytes} bytes; a header has at most {most}"
            )));
        }
        let (wanted, ends_at) = (wanted.to_owned(), Instant::now() + SEARCH_TIME);
        Ok(Self { wanted, events_left: SEARCH_EVENTS, ends_at })
    }

    fn finds(&self, event: &Event) -> bool {
        CORRELATION_HEADERS.iter().any(|name| event.header(name) == Some(&self.wanted))
    }

    fn is_used_up(&self) -> bool {
        self.events_left == 0 || Instant::now() >= self.ends_at
    }
}

impl Source for Replay {
    async fn next_block(&mut self, hub: &Hub, caller: &mut Caller, room: usize) -> Result<Block, Failure> {
        let mut events = Vec::new();
        loop {
            if self.after >= self.end {
                return Ok(Block { events, then: Then::End });
            }
            let most = self.search.as_ref().map_or(room, |search| search.events_left);
            let limit = ReadLimit { events: BLOCK.events.min(most), ..BLOCK };
            let block = hub.bus().read(&self.topic, self.after, limit).await?;
            caller.owe(Work::bytes(block.iter().map(|event| event.json().len()).sum()));
            if block.is_empty() {
                return Ok(Block { events, then: Then::End });
            }
            for event in block {
                // Commit times never decrease: the first that is too late is the end.
                if event.seq() > self.end || self.until.is_some_and(|until| event.committed() >= until) {
                    return Ok(Block { events, then: Then::End });
                }
                self.after = event.seq();
                match &mut self.search {
                    None => events.push(event),
                    Some(search) => {
                        search.events_left -= 1;
                        if search.finds(&event) {
                            events.push(event);
                        }
                        if events.len() >= room {
                            return Ok(Block { events, then: Then::EndOfPage });
                        }
                    }
                }
            }
            if self.search.as_ref().is_some_and(Search::is_used_up) {
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
        Ok((self.after < self.end).then_some(Next::AfterSeq(self.after)))
    }
}
