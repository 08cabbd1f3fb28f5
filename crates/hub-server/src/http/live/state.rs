//! What is true on a topic, for one viewer: the newest value of each key, as it changes.
//!
//! Between two messages only the newest value of a key is kept. Values that do not fit into a message wait for the next one, in the
//! order in which their keys changed. When too many wait, or some were missed, the viewer is told to read all of them again.

use super::super::error::{Failure, in_time};
use super::message::{List, put_message, put_state_row};
use futures_util::FutureExt;
use hashbrown::HashMap;
use hub_core::{Bus, Event, Key, Position, Watch, Watched};
use hub_proto::TopicName;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Values that wait, and their bytes.
const PENDING_KEYS: usize = 10_000;
const PENDING_BYTES: usize = 8 << 20;
/// Rows of one message, and their bytes.
const ROWS: usize = 250;
const ROWS_BYTES: usize = 256 << 10;
/// Bytes that are read ahead.
const READ_AHEAD_BYTES: usize = 256 << 10;
/// The pause between two messages.
const PAUSE: Duration = Duration::from_millis(250);
/// Events that are looked at for one message, and before others get their turn.
const MAX_GATHERED: usize = 16 << 10;
const STRIDE: usize = 512;

/// See the module.
pub(super) struct State {
    watch: Watch,
    newest: HashMap<Key, Arc<Event>, foldhash::fast::RandomState>,
    /// The keys of `newest`, in the order in which they changed.
    order: VecDeque<Key>,
    bytes: usize,
    /// Values were dropped.
    has_lost: bool,
    resumes_at: Instant,
}

impl State {
    /// Follows a topic from its newest event on.
    pub async fn open(bus: &Bus, topic: &TopicName) -> Result<Self, Failure> {
        let watch =
            in_time(bus.subscribe(topic).from(Position::Latest).max_bytes(READ_AHEAD_BYTES).watch()).await?;
        Ok(Self {
            watch,
            newest: HashMap::default(),
            order: VecDeque::new(),
            bytes: 0,
            has_lost: false,
            resumes_at: Instant::now(),
        })
    }

    /// The next message. Cancel safe.
    pub async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        if self.resumes_at > Instant::now() {
            sleep_until(self.resumes_at).await;
        }
        while self.order.is_empty() && !self.has_lost {
            let watched = self.watch.recv().await?;
            self.take(watched);
        }
        self.gather().await;
        self.resumes_at = Instant::now() + PAUSE;
        Ok(self.flush())
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
        let event = match watched {
            Watched::Event(event) => event,
            Watched::Lagged { .. } => return self.lose(),
        };
        let Some(key) = event.key().cloned() else { return };
        self.bytes += event.json().len();
        match self.newest.insert(key.clone(), event) {
            Some(older) => self.bytes -= older.json().len(),
            None => self.order.push_back(key),
        }
        if self.order.len() > PENDING_KEYS || self.bytes > PENDING_BYTES {
            self.lose();
        }
    }

    /// Too much to tell: the viewer reads everything again, and what changed before that is part of it.
    fn lose(&mut self) {
        self.newest.clear();
        self.order.clear();
        self.bytes = 0;
        self.has_lost = true;
    }

    fn flush(&mut self) -> Vec<u8> {
        let mut data = b"{\"rows\":".to_vec();
        let mut list = List::begin(&mut data);
        let (mut rows, mut bytes) = (0, 0);
        // What came after the loss is sent after the viewer knows of it.
        while !self.has_lost
            && rows < ROWS
            && bytes < ROWS_BYTES
            && let Some(event) = self.order.pop_front().and_then(|key| self.newest.remove(&key))
        {
            self.bytes -= event.json().len();
            let entry = list.entry();
            let before = entry.len();
            put_state_row(&event, entry);
            bytes += entry.len() - before;
            rows += 1;
        }
        list.end();
        let is_reset = std::mem::take(&mut self.has_lost);
        data.extend_from_slice(if is_reset { b",\"reset\":true}" } else { b"}" });
        let mut text = Vec::with_capacity(data.len() + 32);
        put_message("state", &data, &mut text);
        text
    }
}
