//! `GET /replay`: events of a topic from a position on, in pages.

use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::events_page::{self, BLOCK, Block, Next, Source, Then};
use super::page::Page;
use super::position::{self, position};
use super::query::Params;
use super::record::RecordFormat;
use super::search::{SEARCH_EVENTS, SEARCH_TIME, Wanted};
use crate::Hub;
use crate::acl::{Action, Target};
use crate::cloudevents::Accepted;
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use hub_core::store::ReadLimit;
use hub_core::{Millis, Position};
use hub_proto::TopicName;
use tokio::time::Instant;

pub(super) async fn replay(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [from, ts, after_id, after_seq] = position::PARAMETERS;
    let allowed = ["topic", from, ts, after_id, after_seq, "toTs", "limit", "correlationId", "traceId"];
    let params = Params::read(query.as_deref(), &allowed)?;
    let (topic, page) = (params.topic()?, Page::of(&params)?);
    let from = position(&params, &[("earliest", Position::Earliest)])?.unwrap_or(Position::Earliest);
    let until = params.number("toTs", position::MILLIS)?;
    let search = Search::of(&params)?;
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

/// A search for the events that belong together.
struct Search {
    wanted: Wanted,
    /// How many events it may still look at, and until when.
    events_left: usize,
    ends_at: Instant,
}

impl Search {
    /// That of a request; `None` if it wants every event.
    fn of(params: &Params) -> Result<Option<Self>, Failure> {
        let (events_left, ends_at) = (SEARCH_EVENTS, Instant::now() + SEARCH_TIME);
        Ok(Wanted::of(params)?.map(|wanted| Self { wanted, events_left, ends_at }))
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
                        if search.wanted.finds(&event) {
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
