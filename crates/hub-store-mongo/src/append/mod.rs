//! Appending: order without a coordinator.
//!
//! A hub numbers a batch from the topic's last `seq` and writes it with one ordered insert. The unique `{topic, seq}` is
//! the fence: of two hubs that choose the same number one is refused. No counter, no lock, one round trip, and no gap,
//! because only one who **knows** that n is durable chooses n + 1. The rules that make it so:
//!
//! - What is known of a topic's end comes from majority reads and from inserts that were confirmed by a majority; never
//!   from a local read, never from what an error says about documents beside a write concern error. Too low costs
//!   another round, too high makes a gap for ever. See [`topic`].
//! - One batch at a time per topic; topics do not wait for each other.
//! - Whatever an insert answers beside success and `11000` alone is doubt, and doubt is cleared up by looking: which ids
//!   are there, where does the topic end now. What is absent may still be under way; it is inserted again under the same
//!   `_id`, which can succeed only once. See [`outcome`] and [`batch`].
//! - After doubt nobody is told that an event was not stored: the batch goes on to a definite end, or says `unavailable`.
//! - Hubs that write to one topic take turns, see [`topic::Topic::give_way`]: who has written knows the next number, and
//!   if it went on at once the others would starve. (A loser that backs off makes it worse.)
//! - Knowledge is good for a minute, by a clock that goes on while the machine sleeps; an answer that comes later is
//!   checked against what was cleaned meanwhile. See [`late`].

mod batch;
mod late;
pub mod outcome;
pub mod past;
pub mod topic;

use self::batch::Batch;
use self::topic::Topic;
use crate::db::Db;
use crate::document::Entry;
use foldhash::fast::RandomState;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::store::{Appended, StoreError, StoreResult};
use hub_proto::{Draft, TopicName};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// Topics that are written at the same time.
pub const AT_ONCE: usize = 16;

/// Everything that is known of the ends of topics.
pub struct Appender {
    db: Db,
    topics: Mutex<HashMap<TopicName, Arc<Topic>, RandomState>>,
}

impl Appender {
    pub fn new(db: Db) -> Self {
        Self { db, topics: Mutex::default() }
    }

    /// What is known of one topic.
    fn topic(&self, name: &TopicName) -> Arc<Topic> {
        let mut topics = self.topics.lock();
        match topics.get(name) {
            Some(topic) => topic.clone(),
            None => topics.entry(name.clone()).or_insert_with(|| Arc::new(Topic::new(name.clone()))).clone(),
        }
    }

    /// Holds appends to a topic up, and lets those that come next hear of what was announced: for a cleaner that does not
    /// wait, because it is alone.
    pub async fn hold(&self, topic: &TopicName) -> OwnedMutexGuard<()> {
        let topic = self.topic(topic);
        let turn = topic.turn.clone().lock_owned().await;
        topic.forget_cleaned();
        turn
    }

    /// Lets other hubs have their turn on a topic before more is gathered for it. What is published meanwhile would wait for it
    /// anyway: better before it is gathered, so that one insert has it all.
    pub fn give_way(&self, topic: &TopicName) -> Option<BoxFuture<'_, ()>> {
        let topic = self.topics.lock().get(topic)?.clone();
        topic.is_shared().then(|| async move { topic.give_way(&self.db).await }.boxed())
    }

    /// Appends events of any topics; each has an answer of its own, in the order given.
    pub async fn append(&self, drafts: Vec<Draft>, now: Millis) -> Vec<StoreResult<Appended>> {
        let deadline = Instant::now() + self.db.commit_limit;
        let mut answers: Vec<Option<StoreResult<Appended>>> = drafts.iter().map(|_| None).collect();
        let batches = by_topic(drafts).into_iter().map(|(name, entries)| {
            let topic = self.topic(&name);
            async move { Batch::new(&self.db, &topic, now, deadline).run(entries).await }
        });
        let mut done = stream::iter(batches).buffer_unordered(AT_ONCE);
        while let Some(batch) = done.next().await {
            for (index, answer) in batch {
                answers[index] = Some(answer);
            }
        }
        let lost =
            || Err(StoreError::Unavailable("whether it was stored could not be found out in time".into()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }
}

/// The events of each topic in their order; topics in the order of their first event.
fn by_topic(drafts: Vec<Draft>) -> Vec<(TopicName, Vec<Entry>)> {
    let mut topics: Vec<(TopicName, Vec<Entry>)> = Vec::new();
    let mut places: HashMap<TopicName, usize, RandomState> = HashMap::default();
    for (index, draft) in drafts.into_iter().enumerate() {
        // Runs of one topic are the rule.
        let place = match topics.last() {
            Some((topic, _)) if topic == draft.topic() => topics.len() - 1,
            _ => *places.entry(draft.topic().clone()).or_insert_with(|| {
                topics.push((draft.topic().clone(), Vec::new()));
                topics.len() - 1
            }),
        };
        topics[place].1.push(Entry::new(index, draft));
    }
    topics
}
