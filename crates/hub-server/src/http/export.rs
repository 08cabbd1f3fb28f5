//! `GET /export`: a topic, or a part of it, as it was when the export began.
//!
//! One block of events is in memory at a time, and the next is read when the client has taken this one. What ends an
//! export before its time (the token ran out, a right was lost, the hub drains, the store fails) cuts the transfer off
//! without its last chunk: a client can tell half an export from a whole one.

use super::auth::{Caller, CallerOrTicket};
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::query::Params;
use super::record::{RecordFormat, put_record};
use super::stream::passed;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::cloudevents::{self, Accepted};
use crate::connections::{ConnectionKind, OpenConnection};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use hub_core::store::ReadLimit;
use hub_core::{Bus, Event, Millis, Position};
use hub_proto::{Code, Error, TopicName};
use std::sync::Arc;
use std::time::Duration;

/// How much is read at a time; one event may be larger.
const BLOCK: ReadLimit = ReadLimit { events: 1000, bytes: 256 << 10 };

const MILLIS: &str = "milliseconds since 1970";

pub(super) async fn export(
    State(hub): State<Hub>,
    CallerOrTicket(mut caller): CallerOrTicket,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let allowed = ["topic", "fromTs", "toTs", "afterSeq", "ndjson", "ticket"];
    let params = Params::read(query.as_deref(), &allowed)?;
    let topic = params.topic()?;
    let from = params.number("fromTs", MILLIS)?;
    let until = params.number("toTs", MILLIS)?;
    let after = params.number("afterSeq", "a seq of the topic, or 0")?;
    let format = Format::of(params.flag("ndjson")?, Accepted::of(&headers));
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    let (after, end) = in_time(range(hub.bus(), &topic, from, after)).await?;
    let open = caller.open_stream(&hub, ConnectionKind::Export);
    let mut export = Export {
        hub,
        caller,
        topic,
        after,
        end,
        until,
        format,
        has_begun: false,
        is_over: false,
        wait: None,
        open,
    };
    // The first block is read before the answer begins: what is wrong by now still has a status.
    let first = in_time(export.read()).await?;
    let first = export.write(&first);
    let rest = stream::try_unfold(export, |mut export| async move {
        Ok(export.next().await?.map(|chunk| (chunk, export)))
    });
    let body = Body::from_stream(stream::iter([Ok::<_, Cut>(first)]).chain(rest));
    Ok(([(header::CONTENT_TYPE, format.content_type())], body).into_response())
}

/// After which seq an export begins, and with which it ends.
async fn range(
    bus: &Bus,
    topic: &TopicName,
    from: Option<Millis>,
    after: Option<u64>,
) -> Result<(u64, u64), Failure> {
    let end = bus.bounds(topic).await?.last;
    let mut start = 0;
    if let Some(seq) = after {
        if seq > end {
            return Err(Failure::bad_request(format!(
                "afterSeq is {seq}, beyond the end of topic {topic}; allowed is 0 to {end}"
            )));
        }
        start = seq;
    }
    if let Some(time) = from {
        let first = bus.scan(topic, Position::Time(time), Some(1)).await?;
        start = start.max(first.first().map_or(end, |first| first.seq() - 1));
    }
    Ok((start, end))
}

/// How events are written one behind the other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Format {
    /// A JSON array; else one event per line.
    is_array: bool,
    record: RecordFormat,
}

impl Format {
    fn of(ndjson: Option<bool>, accepted: Option<Accepted>) -> Self {
        let is_array = !ndjson.unwrap_or(accepted != Some(Accepted::Batch));
        Self { is_array, record: RecordFormat::of(accepted) }
    }

    const fn content_type(self) -> &'static str {
        match (self.is_array, self.record) {
            (false, _) => "application/x-ndjson",
            (true, RecordFormat::Native) => "application/json",
            (true, RecordFormat::CloudEvent) => cloudevents::BATCH,
        }
    }
}

/// Why an export was cut off. The client sees that it was, and the log why.
#[derive(Debug, thiserror::Error)]
#[error("the export was cut off: {0}")]
struct Cut(String);

/// An export under way.
struct Export {
    hub: Hub,
    caller: Caller,
    topic: TopicName,
    /// The last seq that was read.
    after: u64,
    /// The end of the topic when the export began.
    end: u64,
    /// Events committed at this time or later are left out.
    until: Option<Millis>,
    format: Format,
    /// An event was written.
    has_begun: bool,
    /// The last block was read.
    is_over: bool,
    /// How long the next block has to wait, if it has to: the caller has been sent as many bytes as it may.
    wait: Option<Duration>,
    /// Its place among the open connections.
    open: OpenConnection,
}

impl Export {
    /// The next chunk; `None` once everything was written.
    async fn next(&mut self) -> Result<Option<Bytes>, Cut> {
        self.open.sent();
        if self.is_over {
            return Ok(None);
        }
        let hub = self.hub.clone();
        let allowed = self.caller.still_must(&hub, Action::Subscribe, Target::Topic(&self.topic));
        let left = self.caller.expires().map(|expires| expires.saturating_sub(hub.bus().now()));
        let next = async {
            allowed?;
            if let Some(wait) = self.wait.take() {
                tokio::time::sleep(wait).await;
            }
            in_time(self.read()).await
        };
        let next = tokio::select! {
            biased;
            () = hub.draining().cancelled() => Err(Error::unavailable("the hub is stopping").into()),
            () = passed(left) => Err(Error::new(Code::TokenExpired, "the token ran out").into()),
            next = next => next,
        };
        let block = next.map_err(|failure| {
            let reason = failure.to_string();
            tracing::info!(topic = %self.topic, after = self.after, reason, "an export was cut off");
            Cut(reason)
        })?;
        let text = self.write(&block);
        self.wait = self.caller.send_bytes(&self.topic, text.len());
        Ok(Some(text))
    }

    /// The next block, up to where the export ends.
    async fn read(&mut self) -> Result<Vec<Arc<Event>>, Failure> {
        if self.after >= self.end {
            self.is_over = true;
            return Ok(Vec::new());
        }
        let mut block = self.hub.bus().read(&self.topic, self.after, BLOCK).await?;
        // Commit times never decrease: the first that is too late is the end.
        let is_in = |event: &Event| {
            event.seq() <= self.end && self.until.is_none_or(|until| event.committed() < until)
        };
        let count = block.iter().take_while(|event| is_in(event)).count();
        self.is_over = count < block.len() || block.last().is_none_or(|last| last.seq() >= self.end);
        block.truncate(count);
        self.after = block.last().map_or(self.after, |last| last.seq());
        Ok(block)
    }

    /// A block as text, with what comes before the first event and behind the last.
    fn write(&mut self, block: &[Arc<Event>]) -> Bytes {
        let bytes: usize = block.iter().map(|event| event.json().len() + 2).sum();
        let mut text = Vec::with_capacity(bytes + 4);
        let is_array = self.format.is_array;
        for event in block {
            if is_array {
                text.extend_from_slice(if self.has_begun { b",\n" } else { b"[" });
            }
            put_record(event, self.format.record, &mut text);
            if !is_array {
                text.push(b'\n');
            }
            self.has_begun = true;
        }
        if is_array && self.is_over {
            text.extend_from_slice(if self.has_begun { b"]\n" } else { b"[]\n" });
        }
        self.open.queue(text.len());
        text.into()
    }
}
