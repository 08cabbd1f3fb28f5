//! `GET /event/search`: events by the trace or the correlation id in their headers, in all topics that the caller may read.
//!
//! Headers have no index, so the search reads logs, topic by topic in the order of their names. One request looks at a bounded number
//! of events for a bounded time, and names the place behind which the next one goes on.

use super::auth::Caller;
use super::dlq::Place;
use super::error::{Answer, Failure, in_time, shown};
use super::events_page::BLOCK;
use super::page::FILTERED;
use super::position;
use super::query::Params;
use super::visible::Visible;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::store::ReadLimit;
use hub_core::{Event, Millis, Position};
use hub_proto::{EventId, TopicName, TraceContext, limits};
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

/// A request looks at no more events than this, or than it gets through in the time, and begins with no more topics.
pub(super) const SEARCH_EVENTS: usize = 50_000;
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(2);
const MAX_TOPICS: usize = 1000;
/// Events that one answer has.
const MAX_FOUND: usize = 1000;
const TRACE_ID_DIGITS: usize = 32;
/// The headers that a correlation id is looked for in. A publish by HTTP brings headers that begin with `x-` only.
const CORRELATION_HEADERS: [&str; 2] = ["correlationId", "x-correlation-id"];

/// What the headers of an event have to say.
pub(super) struct Wanted {
    correlation: Option<String>,
    trace: Option<u128>,
}

impl Wanted {
    /// The parameters that it is read from.
    pub const PARAMETERS: [&str; 3] = ["correlationId", "traceId", "traceparent"];

    /// That of a request; `None` if every event is wanted.
    pub fn of(params: &Params) -> Result<Option<Self>, Failure> {
        let [correlation, trace, parent] = Self::PARAMETERS;
        let correlation = params.get(correlation).map(correlation_id).transpose()?;
        let trace = match (params.get(trace), params.get(parent)) {
            (Some(_), Some(_)) => {
                return Err(Failure::bad_request(
                    "traceId and traceparent both name a trace; leave out one of them",
                ));
            }
            (Some(id), None) => Some(trace_id(id)?),
            (None, Some(parent)) => Some(trace_of(parent)?),
            (None, None) => None,
        };
        Ok((correlation.is_some() || trace.is_some()).then_some(Self { correlation, trace }))
    }

    /// Whether an event has all of it.
    pub fn finds(&self, event: &Event) -> bool {
        let has = |wanted: &String| CORRELATION_HEADERS.iter().any(|name| event.header(name) == Some(wanted));
        let is_of = |wanted: u128| {
            TraceContext::of_headers(event.headers()).is_some_and(|trace| trace.trace_id == wanted)
        };
        self.correlation.as_ref().is_none_or(has) && self.trace.is_none_or(is_of)
    }
}

fn correlation_id(given: &str) -> Result<String, Failure> {
    let (bytes, most) = (given.len(), limits::HEADERS_BYTES);
    match bytes <= most {
        true => Ok(given.to_owned()),
        false => {
            Err(Failure::bad_request(format!("correlationId has {bytes} bytes; a header has at most {most}")))
        }
    }
}

fn trace_id(given: &str) -> Result<u128, Failure> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = Some(given).filter(|text| text.len() == TRACE_ID_DIGITS && text.bytes().all(is_digit));
    digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        Failure::bad_request(format!(
            "traceId is {}; it must be the second part of a traceparent: {TRACE_ID_DIGITS} hexadecimal digits in lower case",
            shown(given)
        ))
    })
}

fn trace_of(given: &str) -> Result<u128, Failure> {
    let trace = TraceContext::parse(given).map(|trace| trace.trace_id);
    trace.ok_or_else(|| {
        Failure::bad_request(format!(
            "traceparent is {}; it must be one as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            shown(given)
        ))
    })
}

/// An event that was found.
#[derive(Serialize)]
struct Match {
    topic: TopicName,
    seq: u64,
    id: EventId,
    committed: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl Match {
    fn of(topic: &TopicName, event: &Event) -> Self {
        let (seq, id, committed) = (event.seq(), event.id(), event.committed());
        Self { topic: topic.clone(), seq, id, committed, key: event.key().map(|key| key.to_string()) }
    }
}

#[derive(Serialize)]
struct Found {
    /// By topic, the oldest first.
    events: Vec<Match>,
    /// Topics that were searched to their end.
    searched: usize,
    /// Events that were looked at.
    #[serde(rename = "lookedAt")]
    looked_at: usize,
    /// There may be more: the `after` of the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn search(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params =
        Params::read(query.as_deref(), &[&["fromTs", "toTs", "after"][..], &Wanted::PARAMETERS].concat())?;
    let wanted = Wanted::of(&params)?.ok_or_else(|| {
        Failure::bad_request("give traceId, traceparent or correlationId: which events are meant")
    })?;
    let from = params.number("fromTs", position::MILLIS)?;
    let until = params.number("toTs", position::MILLIS)?;
    let place = Place::of(&params)?;
    caller.take_one()?;
    let mut search = Search {
        wanted,
        from,
        until,
        found: Found { events: Vec::new(), searched: 0, looked_at: 0, next: None },
        bytes: 0,
        ends_at: Instant::now() + SEARCH_TIME,
    };
    let mut visible = Visible::from(&caller, place.topic.as_deref(), true);
    let mut begun = 0;
    'search: loop {
        let page = visible.next(hub.bus(), &caller).await;
        let Some(end) = page.last().cloned() else { break };
        for topic in page {
            if !caller.may(Action::Subscribe, Target::Topic(&topic), None) {
                continue;
            }
            let after = if place.topic.as_ref() == Some(&topic) { place.seq } else { 0 };
            let next = match search.is_used_up() || begun >= MAX_TOPICS {
                true => Some(after),
                false => search.topic(&hub, &topic, after).await?,
            };
            if let Some(seq) = next {
                search.found.next = Some(Place::write(&topic, seq));
                break 'search;
            }
            begun += 1;
            search.found.searched += 1;
        }
        // Behind topics that the caller may not read.
        if visible.looked_at() >= FILTERED {
            search.found.next = Some(Place::write(&end, u64::MAX));
            break;
        }
    }
    caller.owe(Work { topics: visible.looked_at(), groups: 0, bytes: search.bytes });
    Ok(Json(search.found).into_response())
}

/// One request, as far as it is.
struct Search {
    wanted: Wanted,
    from: Option<Millis>,
    until: Option<Millis>,
    found: Found,
    /// Bytes that were read.
    bytes: usize,
    ends_at: Instant,
}

impl Search {
    /// A request that takes long looks at a block or a topic in any case: else the next one would begin at the same place.
    fn is_used_up(&self) -> bool {
        let Found { events, looked_at, searched, .. } = &self.found;
        let is_late = || *looked_at + *searched > 0 && Instant::now() >= self.ends_at;
        *looked_at >= SEARCH_EVENTS || events.len() >= MAX_FOUND || is_late()
    }

    /// Searches a topic behind a seq. Answers the seq behind which the next request goes on, if this one does not come to the end.
    async fn topic(&mut self, hub: &Hub, topic: &TopicName, after: u64) -> Result<Option<u64>, Failure> {
        match self.read(hub, topic, after).await {
            // It was deleted meanwhile.
            Err(_) if !hub.bus().has_topic(topic) => Ok(None),
            result => result,
        }
    }

    async fn read(&mut self, hub: &Hub, topic: &TopicName, after: u64) -> Result<Option<u64>, Failure> {
        let bus = hub.bus();
        // The end first: what is committed in between is not searched for.
        let end = in_time(bus.bounds(topic)).await?.last;
        let mut after = match self.from {
            Some(from) if after < end => after.max(in_time(bus.resolve(topic, Position::Time(from))).await?),
            _ => after,
        };
        while after < end {
            if self.is_used_up() {
                return Ok(Some(after));
            }
            let left = SEARCH_EVENTS - self.found.looked_at;
            let limit = ReadLimit { events: BLOCK.events.min(left), ..BLOCK };
            let block = in_time(bus.read(topic, after, limit)).await?;
            if block.is_empty() {
                break;
            }
            for event in block {
                // Commit times never decrease: the first that is too late is the end.
                if event.seq() > end || self.until.is_some_and(|until| event.committed() >= until) {
                    return Ok(None);
                }
                after = event.seq();
                self.found.looked_at += 1;
                self.bytes += event.json().len();
                if self.wanted.finds(&event) {
                    self.found.events.push(Match::of(topic, &event));
                    if self.found.events.len() >= MAX_FOUND {
                        break;
                    }
                }
            }
            // A search lets others have their turn.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }
}
