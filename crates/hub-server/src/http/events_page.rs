//! `{topic, events, count, next}`, read and written block by block: no page is in memory as a whole.
//!
//! What ends a page before its time (the token expires, a right is lost, the hub drains, the store fails) cuts the transfer off without
//! its last chunk, as it does with an export.

use super::auth::Caller;
use super::error::{Answer, Failure, in_time};
use super::record::{RecordFormat, put_record};
use super::stream::{check, while_valid};
use crate::Hub;
use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use bytes::{BufMut, Bytes};
use futures_util::{StreamExt, stream};
use hub_core::Event;
use hub_core::store::ReadLimit;
use hub_proto::TopicName;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How much is read at a time; one event may be larger.
pub(super) const BLOCK: ReadLimit = ReadLimit { events: 1000, bytes: 256 << 10 };
/// A page ends with the block in which it reaches so many bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Where the events of a page come from.
pub(super) trait Source: Send + 'static {
    /// Reads the next block. `room` is how many events the page still takes. What the search costs beside the bytes that are sent is charged
    /// to `caller`.
    fn next_block(
        &mut self,
        hub: &Hub,
        caller: &mut Caller,
        room: usize,
    ) -> impl Future<Output = Result<Block, Failure>> + Send;

    /// Where the next page begins, if this one ends here: `None` if nothing follows.
    fn next_page(&mut self, hub: &Hub) -> impl Future<Output = Result<Option<Next>, Failure>> + Send;

    /// Further members of the answer, as JSON without braces.
    fn more(&self) -> Option<String> {
        None
    }
}

/// A part of a page.
pub(super) struct Block {
    pub events: Vec<Arc<Event>>,
    pub then: Then,
}

/// What follows a block.
pub(super) enum Then {
    /// Perhaps another block.
    More,
    /// The end of the page, because the source looks no further in this request.
    EndOfPage,
    /// The end of everything that was asked for.
    End,
}

/// Where the next page begins.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Next {
    AfterSeq(u64),
    AfterKey(String),
    BeforeSeq(u64),
}

/// Answers with a page of at most `limit` events.
pub(super) async fn answer(
    hub: Hub,
    caller: Caller,
    topic: TopicName,
    source: impl Source,
    (limit, format): (usize, RecordFormat),
) -> Answer {
    let mut page = EventsPage {
        hub,
        caller,
        topic,
        source,
        limit,
        format,
        has_begun: false,
        is_over: false,
        count: 0,
        bytes: 0,
        wait: None,
    };
    // The first block is read before the answer begins: what is wrong by now still has a status.
    let first = page.text().await?;
    let rest = stream::try_unfold(page, |mut page| async move {
        if page.is_over {
            return Ok(None);
        }
        let text = page.text().await.map_err(|failure| {
            let reason = failure.to_string();
            tracing::info!(topic = %page.topic, reason, "a page of events was cut off");
            CutOff(reason)
        })?;
        Ok(Some((text, page)))
    });
    let body = Body::from_stream(stream::iter([Ok::<_, CutOff>(first)]).chain(rest));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Why a page was cut off. The client sees that it was, and the log why.
#[derive(Debug, thiserror::Error)]
#[error("the page was cut off: {0}")]
struct CutOff(String);

/// A page under way.
struct EventsPage<S> {
    hub: Hub,
    caller: Caller,
    topic: TopicName,
    source: S,
    limit: usize,
    format: RecordFormat,
    /// The text has its beginning.
    has_begun: bool,
    /// The text has its end.
    is_over: bool,
    /// Events and bytes that were written.
    count: usize,
    bytes: usize,
    /// How long the next block has to wait, if it has to: the caller was sent as many bytes as it may.
    wait: Option<Duration>,
}

impl<S: Source> EventsPage<S> {
    /// The next part of the text.
    async fn text(&mut self) -> Result<Bytes, Failure> {
        let hub = self.hub.clone();
        let time_left = check(&hub, &mut self.caller, &self.topic)?;
        let (source, caller) = (&mut self.source, &mut self.caller);
        let (room, wait) = (self.limit - self.count, self.wait.take());
        let (block, next) = while_valid(&hub, time_left, async {
            if let Some(wait) = wait {
                tokio::time::sleep(wait).await;
            }
            let block = in_time(source.next_block(&hub, caller, room)).await?;
            let bytes: usize = block.events.iter().map(|event| event.json().len()).sum();
            let is_full = block.events.len() >= room || self.bytes + bytes >= PAGE_BYTES;
            let next = match block.then {
                Then::More if !is_full => None,
                Then::More | Then::EndOfPage => Some(in_time(source.next_page(&hub)).await?),
                Then::End => Some(None),
            };
            Ok((block, next))
        })
        .await?;
        let mut text = self.write(&block.events);
        if let Some(next) = next {
            self.is_over = true;
            self.write_end(&mut text, next.as_ref());
        }
        self.wait = self.caller.send_bytes(&self.topic, text.len());
        Ok(text.into())
    }

    fn write(&mut self, events: &[Arc<Event>]) -> Vec<u8> {
        let bytes: usize = events.iter().map(|event| event.json().len() + 2).sum();
        let mut text = Vec::with_capacity(bytes + 512);
        if !self.has_begun {
            self.has_begun = true;
            text.put_slice(b"{\"topic\":\"");
            // The alphabet of topics needs no escapes.
            text.put_slice(self.topic.as_str().as_bytes());
            text.put_slice(b"\",\"events\":[");
        }
        for event in events {
            if self.count > 0 {
                text.put_slice(b",\n");
            }
            put_record(event, self.format, &mut text);
            self.count += 1;
        }
        self.bytes += bytes;
        text
    }

    fn write_end(&self, text: &mut Vec<u8>, next: Option<&Next>) {
        text.put_slice(format!("],\"count\":{}", self.count).as_bytes());
        if let Some(next) = next.and_then(|next| serde_json::to_vec(next).ok()) {
            text.put_slice(b",\"next\":");
            text.put_slice(&next);
        }
        if let Some(more) = self.source.more() {
            text.put_slice(b",");
            text.put_slice(more.as_bytes());
        }
        text.put_slice(b"}\n");
    }
}
