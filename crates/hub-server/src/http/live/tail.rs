//! What passes on a topic, for one viewer: filtered, cut, and never more than a person can read.

use super::super::backward::Backward;
use super::super::error::{Failure, in_time};
use super::matcher::Matcher;
use super::message::{List, put_message, put_tail_row};
use futures_util::FutureExt;
use hub_core::{Bus, Event, Position, Watch, Watched};
use hub_proto::TopicName;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Events of the past that are looked at, and that are shown, when a tail begins.
const LOOKED_AT: usize = 1_000;
const SHOWN_AT_FIRST: usize = 100;
/// Bytes that are read for that.
const LOOKED_AT_BYTES: usize = 8 << 20;
/// Rows per second, of which all may come at once.
const ROWS_PER_SECOND: u32 = 50;
/// Events that wait to be shown are the newest, and have at most so many bytes.
const PENDING_BYTES: usize = 4 << 20;
/// Bytes that are read ahead.
const READ_AHEAD_BYTES: usize = 256 << 10;
/// The pause between two messages. What comes meanwhile goes out together.
const PAUSE: Duration = Duration::from_millis(200);
/// Events that are looked at for one message, and before others get their turn.
const MAX_GATHERED: usize = 16 << 10;
const STRIDE: usize = 512;

/// See the module.
pub(super) struct Tail {
    watch: Watch,
    matcher: Matcher,
    /// The message with the past, until it was sent.
    initial: Option<Vec<u8>>,
    /// The newest that match and were not shown yet.
    pending: VecDeque<Arc<Event>>,
    pending_bytes: usize,
    /// Those that match and will not be shown.
    skipped: u64,
    budget: Budget,
    resumes_at: Instant,
}

/// How many rows may be sent by now.
struct Budget {
    rows: f64,
    at: Instant,
}

impl Budget {
    fn full(now: Instant) -> Self {
        Self { rows: f64::from(ROWS_PER_SECOND), at: now }
    }

    /// Takes as many of `wanted` as there are.
    fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let most = f64::from(ROWS_PER_SECOND);
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * most;
        (self.rows, self.at) = ((self.rows + gained).min(most), now);
        let taken = wanted.min(self.rows as usize);
        self.rows -= taken as f64;
        taken
    }
}

impl Tail {
    /// Begins behind the newest event, and has the newest of those before it ready. Answers the bytes that were read for that, too.
    pub async fn open(bus: &Bus, topic: &TopicName, matcher: Matcher) -> Result<(Self, usize), Failure> {
        // As this hub knows it: what follows comes through the watch.
        let last = bus.last_seq(topic).unwrap_or_default();
        let subscribe = bus.subscribe(topic).from(Position::AfterSeq(last)).filter(matcher.filter());
        let watch = in_time(subscribe.max_bytes(READ_AHEAD_BYTES).watch()).await?;
        let (past, read) = in_time(past(bus, topic, last, &matcher)).await?;
        let now = Instant::now();
        let tail = Self {
            watch,
            matcher,
            initial: Some(message(past.iter(), 0, true)),
            pending: VecDeque::new(),
            pending_bytes: 0,
            skipped: 0,
            budget: Budget::full(now),
            resumes_at: now,
        };
        Ok((tail, read))
    }

    /// The next message. Cancel safe.
    pub async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        if let Some(initial) = self.initial.take() {
            return Ok(initial);
        }
        loop {
            if self.resumes_at > Instant::now() {
                sleep_until(self.resumes_at).await;
            }
            if self.pending.is_empty() && self.skipped == 0 {
                let watched = self.watch.recv().await?;
                self.take(watched);
            }
            self.gather().await;
            if let Some(text) = self.flush() {
                return Ok(text);
            }
        }
    }

    /// Takes what waits.
    async fn gather(&mut self) {
        for count in 1..=MAX_GATHERED {
            // An error comes again with the next call.
            let queued = self.watch.queued().or_else(|| self.watch.recv().now_or_never()?.ok());
            let Some(watched) = queued else { return };
            self.take(watched);
            if count % STRIDE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn take(&mut self, watched: Watched) {
        match watched {
            Watched::Event(event) if self.matcher.matches(&event) => {
                self.pending_bytes += event.json().len();
                self.pending.push_back(event);
                while self.pending.len() > ROWS_PER_SECOND as usize
                    || self.pending_bytes > PENDING_BYTES && self.pending.len() > 1
                {
                    self.skip();
                }
            }
            Watched::Event(_) => {}
            // The hub was faster than this viewer; nobody looked whether they match.
            Watched::Lagged { missed, .. } => self.skipped += missed,
        }
    }

    fn skip(&mut self) {
        if let Some(event) = self.pending.pop_front() {
            self.pending_bytes -= event.json().len();
            self.skipped += 1;
        }
    }

    /// The next message, if there is something to tell. Rows beyond the budget wait: the last ones of a burst are shown in the end.
    fn flush(&mut self) -> Option<Vec<u8>> {
        if self.pending.is_empty() && self.skipped == 0 {
            return None;
        }
        let now = Instant::now();
        self.resumes_at = now + PAUSE;
        let shown = self.budget.take(self.pending.len(), now);
        if shown == 0 && self.skipped == 0 {
            return None;
        }
        let shown: Vec<Arc<Event>> = self.pending.drain(..shown).collect();
        self.pending_bytes -= shown.iter().map(|event| event.json().len()).sum::<usize>();
        Some(message(shown.iter(), std::mem::take(&mut self.skipped), false))
    }
}

/// The newest events that match, oldest first, and how many bytes were read to find them.
async fn past(
    bus: &Bus,
    topic: &TopicName,
    upto: u64,
    matcher: &Matcher,
) -> Result<(VecDeque<Arc<Event>>, usize), Failure> {
    let mut log = Backward::from(topic.clone(), upto);
    let (mut found, mut bytes) = (VecDeque::new(), 0);
    'blocks: while let Some(block) = log.next(bus, 0).await? {
        for event in block.into_iter().filter(|event| event.audience().is_none() && matcher.matches(event)) {
            bytes += event.json().len();
            found.push_front(event);
            if found.len() >= SHOWN_AT_FIRST || bytes >= PENDING_BYTES {
                break 'blocks;
            }
        }
        let (events, read) = log.read();
        if events >= LOOKED_AT || read >= LOOKED_AT_BYTES {
            break;
        }
        tokio::task::yield_now().await;
    }
    let (_, read) = log.read();
    Ok((found, read))
}

fn message<'a>(events: impl Iterator<Item = &'a Arc<Event>>, skipped: u64, is_initial: bool) -> Vec<u8> {
    let mut data = b"{\"events\":".to_vec();
    let mut list = List::begin(&mut data);
    events.for_each(|event| put_tail_row(event, list.entry()));
    list.end();
    data.extend_from_slice(format!(",\"skipped\":{skipped}").as_bytes());
    data.extend_from_slice(if is_initial { b",\"initial\":true}" } else { b"}" });
    let mut text = Vec::with_capacity(data.len() + 32);
    put_message("tail", &data, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_rows_may_come_at_once_and_the_rest_is_spread() {
        let begin = Instant::now();
        let mut budget = Budget::full(begin);
        assert_eq!(budget.take(80, begin), 50);
        assert_eq!(budget.take(80, begin), 0);
        assert_eq!(budget.take(80, begin + Duration::from_millis(200)), 10);
        assert_eq!(budget.take(3, begin + Duration::from_secs(10)), 3);
        assert_eq!(budget.take(80, begin + Duration::from_secs(10)), 47);
    }
}
