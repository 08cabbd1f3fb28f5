//! Following topics without a group: nothing is stored, nothing is acked, and a reader that cannot keep up is told what it
//! missed, unless it coalesces: then it reads on, and gets the newest event of each key.

use super::Checked;
use crate::coalesce::{drop_overtaken, drop_overtaken_within};
use crate::engine::{Engine, stopped};
use crate::fan::{Cover, Observer};
use crate::position::{check_for_several, refused, resolve};
use crate::store::ReadLimit;
use crate::topic::{TailRead, Topic, Waiter};
use hub_proto::{Event, Filter, Position, Result, TopicName};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// One read of the store, at most.
const BLOCK: ReadLimit = ReadLimit { events: 256, bytes: 1 << 20 };
/// A watcher that has reached the tail may fall this far behind what is kept in memory and still read it from the
/// store; beyond, it goes on at the newest.
const MAX_BEHIND: u64 = 1000;

/// Events as they are published, for one reader.
///
/// History is read at the reader's pace. Once at the tail, a reader that falls behind what the hub keeps in memory, and
/// by more than 1,000 events, gets
/// [`Watched::Lagged`] and goes on at the newest. However slow it is, it costs a bounded amount of memory.
pub struct Watch {
    engine: Arc<Engine>,
    feeds: Vec<Feed>,
    /// Feeds whose topic was deleted.
    vacant: Vec<usize>,
    /// Feeds that may have something.
    ready: VecDeque<usize>,
    queue: VecDeque<Watched>,
    wants: Wants,
    signal: Arc<Signal>,
    block: ReadLimit,
}

/// Which events a watcher wants.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    pub filter: Filter,
    /// Only the newest of each key, and never [`Watched::Lagged`].
    pub coalesce: bool,
}

/// What a watcher gets.
#[derive(Clone, Debug)]
pub enum Watched {
    /// An event.
    Event(Arc<Event>),
    /// The reader was too slow.
    Lagged {
        /// Where.
        topic: TopicName,
        /// How many events it did not get.
        missed: u64,
    },
}

struct Feed {
    topic: Arc<Topic>,
    pos: u64,
    /// Has been at the tail.
    live: bool,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// What wakes a watcher.
struct Signal {
    cover: Cover,
    ready: Mutex<Vec<usize>>,
    born: Mutex<Vec<Arc<Topic>>>,
    notify: Notify,
}

impl Observer for Signal {
    fn born(&self, topic: &Arc<Topic>) {
        if self.cover.covers(&topic.name) {
            self.born.lock().push(topic.clone());
            self.notify.notify_one();
        }
    }
}

impl Watch {
    pub(crate) async fn open(
        engine: Arc<Engine>,
        target: Checked,
        from: Position,
        wants: Wants,
        max_bytes: usize,
    ) -> Result<Self> {
        engine.check_running()?;
        let cover = match target {
            Checked::One(topic) => Cover::List(vec![topic]),
            Checked::Many(_, cover) => {
                check_for_several(from)?;
                cover
            }
        };
        let signal = Arc::new(Signal {
            cover,
            ready: Mutex::default(),
            born: Mutex::default(),
            notify: Notify::new(),
        });
        let observer: Arc<dyn Observer> = signal.clone();
        let newest = engine.fans.observe(&engine, Arc::downgrade(&observer));
        let mut watch = Self {
            engine,
            feeds: Vec::new(),
            vacant: Vec::new(),
            ready: VecDeque::new(),
            queue: VecDeque::new(),
            wants,
            signal,
            block: ReadLimit { bytes: BLOCK.bytes.min(max_bytes), ..BLOCK },
        };
        let (engine, signal) = (watch.engine.clone(), watch.signal.clone());
        // Newer ones are told of when they are born.
        for topic in signal.cover.topics(&engine).filter(|topic| topic.number <= newest) {
            let pos = resolve(from, &engine, &topic).await?;
            watch.add(topic, pos);
        }
        Ok(watch)
    }

    /// The next event; waits for one. After an error it can be called again: the store did not answer, or the hub
    /// stopped.
    ///
    /// Cancel safe.
    pub async fn recv(&mut self) -> Result<Watched> {
        loop {
            // A reader with a backlog lets others run now and then, also where everything in it is filtered out or overtaken.
            tokio::task::coop::consume_budget().await;
            if let Some(watched) = self.queue.pop_front() {
                return Ok(watched);
            }
            self.ready.extend(self.signal.ready.lock().drain(..));
            let born = std::mem::take(&mut *self.signal.born.lock());
            born.into_iter().for_each(|topic| {
                let pos = topic.deleted_upto;
                self.add(topic, pos);
            });
            match self.ready.front().copied() {
                Some(at) => {
                    let more = self.fill(at).await?;
                    self.ready.pop_front();
                    if more {
                        self.ready.push_back(at);
                    }
                }
                None => tokio::select! {
                    biased;
                    () = self.engine.stopping.cancelled() => return Err(stopped()),
                    () = self.signal.notify.notified() => {}
                },
            }
        }
    }

    /// How many topics it follows.
    pub fn topics(&self) -> usize {
        self.feeds.len() - self.vacant.len()
    }

    /// The next event if it was read already.
    pub fn queued(&mut self) -> Option<Watched> {
        self.queue.pop_front()
    }

    fn add(&mut self, topic: Arc<Topic>, pos: u64) {
        // A topic that was deleted makes room for another.
        let (at, signal) = (self.vacant.pop().unwrap_or(self.feeds.len()), self.signal.clone());
        let wake = Arc::new(move || {
            signal.ready.lock().push(at);
            signal.notify.notify_one();
        });
        let feed = Feed { topic, pos, live: false, wake };
        match at < self.feeds.len() {
            true => self.feeds[at] = feed,
            false => self.feeds.push(feed),
        }
        self.ready.push_back(at);
    }

    /// Queues what comes next in a feed; false if it has nothing and will say when it does.
    async fn fill(&mut self, at: usize) -> Result<bool> {
        let feed = &mut self.feeds[at];
        if feed.topic.is_removed() {
            // When the topic is created again, it is told of like any new one.
            if !self.vacant.contains(&at) {
                self.vacant.push(at);
            }
            return Ok(false);
        }
        let last = feed.topic.last();
        let (mut block, mut behind) = (VecDeque::new(), false);
        let waiter = || Some(Waiter::Watch(Arc::downgrade(&feed.wake)));
        match feed.topic.read(feed.pos, self.block, &mut block, waiter) {
            TailRead::CaughtUp => {
                feed.live = true;
                return Ok(false);
            }
            TailRead::Some => feed.live = true,
            TailRead::Behind
                if feed.live && !self.wants.coalesce && last.saturating_sub(feed.pos) > MAX_BEHIND =>
            {
                let missed = last.saturating_sub(feed.pos);
                feed.pos = last;
                self.queue.push_back(Watched::Lagged { topic: feed.topic.name.clone(), missed });
                return Ok(true);
            }
            TailRead::Behind => {
                let read = self.engine.store.read(&feed.topic.name, feed.pos, self.block).await;
                block = read.map_err(refused)?.into();
                behind = true;
            }
        }
        let upto = block.back().map_or(last, |event| event.seq());
        if self.wants.coalesce {
            match behind {
                true => {
                    let store = &*self.engine.store;
                    drop_overtaken(store, &feed.topic.name, &mut block).await.map_err(refused)?;
                }
                // In what is kept in memory little is overtaken: not worth a question to the store.
                false => drop_overtaken_within(&mut block),
            }
        }
        feed.pos = upto;
        let filter = &self.wants.filter;
        let wanted = block.into_iter().filter(|event| event.audience().is_none() && filter.matches(event));
        self.queue.extend(wanted.map(Watched::Event));
        Ok(true)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("topics", &self.feeds.len()).finish()
    }
}
