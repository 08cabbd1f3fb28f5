//! `GET /events`: a topic as server-sent events, from now on or from a position on.
//!
//! A stream is an ephemeral subscription: nothing is stored, and a reader that cannot keep up is told what it missed. One chunk has
//! everything that waits, and a chunk that is not full is followed by a pause, so that a busy topic costs a write per reader and pause,
//! not one per event. Each stream pauses on a grid of its own: the writes of many readers of one topic are spread over the pause and do not
//! delay publishes as one burst. A slow reader costs a block of the log and a chunk.

use super::audit::About;
use super::auth::{Caller, CallerOrTicket};
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::position::{self, position};
use super::query::Params;
use super::record::{RecordFormat, put_record};
use super::stream::{check, draining, expired, passed};
use crate::acl::{Action, Target};
use crate::cloudevents::Accepted;
use crate::connections::{ConnectionKind, OpenConnection};
use crate::limits::LiveConnection;
use crate::{Hub, Settings};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::IntoResponse;
use bytes::{BufMut, Bytes};
use foldhash::fast::RandomState;
use futures_util::{FutureExt, stream};
use hub_core::{Filter, Position, Watch, Watched};
use hub_proto::{Result, TopicName, limits};
use serde_json::json;
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A chunk of this size goes out at once, and the next one follows without a pause.
const CHUNK_BYTES: usize = 64 << 10;
/// The bytes of events that are read ahead for a stream.
const READ_AHEAD_BYTES: usize = 256 << 10;
/// The pause after a chunk that is not full, in the mean. What is published meanwhile goes out together.
const PAUSE: Duration = Duration::from_millis(50);
/// A stream that has nothing to say sends a comment this often, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again, in milliseconds: the least, and what a random part adds at most.
const RETRY: (u64, u64) = (1_000, 2_000);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Proxies of the nginx kind hold back answers that they know no end of, unless told.
pub(super) const NO_BUFFERING: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

pub(super) async fn events(
    State(hub): State<Hub>,
    CallerOrTicket(mut caller): CallerOrTicket,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let [from, ts, after_id, after_seq] = position::PARAMETERS;
    let allowed = ["topic", from, ts, after_id, after_seq, "lastEventId", "key", "tag", "ticket"];
    let params = Params::read(query.as_deref(), &allowed)?;
    let topic = params.topic()?;
    let from = position(&params, &[("earliest", Position::Earliest), ("latest", Position::Latest)])?;
    let from = last_event_id(&headers, &params)?.or(from).unwrap_or(Position::Latest);
    let filter = filter(&params)?;
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    let live = count(&hub, &caller, &topic)?;
    let subscribe = hub.bus().subscribe(&topic).from(from).filter(filter).max_bytes(READ_AHEAD_BYTES);
    let watch = in_time(subscribe.watch()).await?;
    let open = caller.open_stream(&hub, ConnectionKind::Events);
    open.set_subscriptions(1);
    let now = Instant::now();
    let events = Events {
        settings: hub.follow(),
        hub,
        caller,
        topic,
        watch,
        format: RecordFormat::of(Accepted::of(&headers)),
        has_begun: false,
        is_over: false,
        grid: Grid::from(now),
        resumes_at: now,
        speaks_at: now + KEEP_ALIVE,
        open,
        _live: live,
    };
    let chunks = stream::unfold(events, |mut events| async move {
        let chunk = events.next().await?;
        Some((Ok::<_, Infallible>(chunk), events))
    });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), NO_BUFFERING];
    Ok((head, Body::from_stream(chunks)).into_response())
}

/// The seq that a reader has seen last. The header is a browser's that connects again, and is newer than what the page wrote into the URL.
fn last_event_id(headers: &HeaderMap, params: &Params) -> Result<Option<Position>, Failure> {
    let in_query = params.number("lastEventId", position::SEQ)?;
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(in_query.map(Position::AfterSeq)) };
    let seq = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match seq.and_then(|text| text.parse().ok()) {
        Some(seq) => Ok(Some(Position::AfterSeq(seq))),
        None => Err(Failure::bad_request(format!("the header Last-Event-ID must be {}", position::SEQ))),
    }
}

fn filter(params: &Params) -> Result<Filter, Failure> {
    let bounded = |name: &str, most: usize| match params.get(name) {
        Some(text) if text.len() > most => {
            let bytes = text.len();
            Err(Failure::bad_request(format!("{name} has {bytes} bytes; at most {most} are allowed")))
        }
        given => Ok(given.map(str::to_owned)),
    };
    let key = bounded("key", limits::KEY_BYTES)?;
    let tags = bounded("tag", limits::TAG_BYTES)?.into_iter().collect();
    Ok(Filter { key, tags, ..Filter::default() })
}

/// Counts a stream as a connection of its subject, with one subscription.
fn count(hub: &Hub, caller: &Caller, topic: &TopicName) -> Result<LiveConnection, Failure> {
    let limits = &hub.settings().limits;
    let live = hub.live().connect(caller.subject(), limits).and_then(|mut live| {
        live.subscribe(1, limits)?;
        Ok(live)
    });
    live.map_err(|error| caller.refused("subscribe", About { topic: Some(topic), ..About::default() }, error))
}

/// A stream under way.
struct Events {
    hub: Hub,
    caller: Caller,
    topic: TopicName,
    watch: Watch,
    /// Changes when rights may have changed.
    settings: watch::Receiver<Arc<Settings>>,
    format: RecordFormat,
    has_begun: bool,
    is_over: bool,
    /// Where its pauses end.
    grid: Grid,
    /// When the next events may go out.
    resumes_at: Instant,
    /// When a comment is due.
    speaks_at: Instant,
    /// Its place among the open connections.
    open: OpenConnection,
    /// Its place among what its subject has open.
    _live: LiveConnection,
}

impl Events {
    /// The next chunk; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        self.open.sent();
        if self.is_over {
            return None;
        }
        let chunk = match std::mem::replace(&mut self.has_begun, true) {
            // At once, so that the client learns that the stream is open.
            false => beginning(),
            true => self.chunk().await.unwrap_or_else(|failure| {
                self.is_over = true;
                tracing::debug!(topic = %self.topic, reason = %failure, "an event stream ended");
                end(&failure)
            }),
        };
        self.speaks_at = Instant::now() + KEEP_ALIVE;
        self.open.queue(chunk.len());
        Some(chunk)
    }

    async fn chunk(&mut self) -> Result<Bytes, Failure> {
        loop {
            let time_left = check(&self.hub, &mut self.caller, &self.topic)?;
            let (watch, resumes_at) = (&mut self.watch, self.resumes_at);
            let next = async {
                // A timer of none takes until tokio comes by.
                if resumes_at > Instant::now() {
                    sleep_until(resumes_at).await;
                }
                watch.recv().await
            };
            tokio::select! {
                biased;
                () = self.hub.draining().cancelled() => return Err(draining()),
                () = passed(time_left) => return Err(expired()),
                // The hub keeps the sender; the rights are looked at again.
                Ok(()) = self.settings.changed() => {}
                watched = next => return Ok(self.gather(&watched?)),
                () = sleep_until(self.speaks_at) => return Ok(Bytes::from_static(b":\n\n")),
            }
        }
    }

    /// One chunk with everything that waits, as far as there is room.
    fn gather(&mut self, first: &Watched) -> Bytes {
        let mut text = Vec::with_capacity(first_size(first));
        self.write(first, &mut text);
        while text.len() < CHUNK_BYTES {
            // An error comes again with the next chunk.
            let queued = self.watch.queued().or_else(|| self.watch.recv().now_or_never()?.ok());
            match queued {
                Some(watched) => self.write(&watched, &mut text),
                None => break,
            }
        }
        let now = Instant::now();
        self.resumes_at = if text.len() < CHUNK_BYTES { self.grid.after_pause(now) } else { now };
        if let Some(wait) = self.caller.send_bytes(&self.topic, text.len()) {
            self.resumes_at = self.resumes_at.max(now + wait);
        }
        text.into()
    }

    fn write(&self, watched: &Watched, text: &mut Vec<u8>) {
        match watched {
            Watched::Event(event) => {
                text.put_slice(b"id: ");
                put_number(event.seq(), text);
                text.put_slice(b"\ndata: ");
                put_record(event, self.format, text);
                text.put_slice(b"\n\n");
            }
            // Without an id: a reader that connects again now gets what it missed.
            Watched::Lagged { missed, .. } => {
                text.put_slice(format!("event: lagged\ndata: {{\"missed\":{missed}}}\n\n").as_bytes());
            }
        }
    }
}

/// Points in time with a [`PAUSE`] between two of them, at a random offset.
#[derive(Clone, Copy, Debug)]
struct Grid {
    origin: Instant,
}

impl Grid {
    fn from(now: Instant) -> Self {
        let offset = RandomState::default().hash_one(0) % PAUSE.as_nanos() as u64;
        Self { origin: now + Duration::from_nanos(offset) }
    }

    /// The first point that is at least half a pause away: one to the next on a busy topic, half a pause to one and a half after a single event.
    fn after_pause(self, now: Instant) -> Instant {
        let earliest = (now + PAUSE / 2).saturating_duration_since(self.origin);
        let points = earliest.as_nanos().div_ceil(PAUSE.as_nanos());
        self.origin + PAUSE * u32::try_from(points).unwrap_or(u32::MAX)
    }
}

fn first_size(first: &Watched) -> usize {
    match first {
        Watched::Event(event) => event.json().len() + 64,
        Watched::Lagged { .. } => 64,
    }
}

/// Random, so that the readers of a hub that restarts do not all come back at once.
pub(super) fn beginning() -> Bytes {
    let (least, random) = RETRY;
    let millis = least + RandomState::default().hash_one(0) % random;
    format!("retry: {millis}\n\n").into()
}

pub(super) fn end(failure: &Failure) -> Bytes {
    let reason = json!({ "code": failure.code(), "error": failure.to_string() });
    format!("event: end\ndata: {reason}\n\n").into()
}

fn put_number(mut number: u64, text: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return text.put_slice(&digits[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_pauses_for_half_a_pause_to_one_and_a_half() {
        let now = Instant::now();
        let grid = Grid::from(now);
        for millis in 0..500 {
            let chunk = now + Duration::from_millis(millis);
            let pause = grid.after_pause(chunk) - chunk;
            assert!((PAUSE / 2..PAUSE * 3 / 2).contains(&pause), "{pause:?} after {millis} ms");
        }
    }

    #[test]
    fn a_stream_of_a_busy_topic_writes_once_in_a_pause() {
        let grid = Grid::from(Instant::now());
        let first = grid.after_pause(Instant::now());
        assert_eq!(grid.after_pause(first), first + PAUSE);
    }

    #[test]
    fn streams_that_one_event_wakes_do_not_write_together_from_then_on() {
        let now = Instant::now();
        let mut writes: Vec<Instant> = (0..100).map(|_| Grid::from(now).after_pause(now)).collect();
        writes.sort_unstable();
        writes.dedup_by_key(|write| (*write - now).as_millis());
        assert!(writes.len() > 20, "100 streams write at {} different milliseconds", writes.len());
    }
}
