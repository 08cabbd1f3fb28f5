//! One topic's part of a commit, from its first number to the last answer.

use super::outcome::{self, Clash, Doubt, Outcome};
use super::past::{self, Past};
use super::topic::{Tail, Topic};
use crate::db::{self, Db};
use crate::document::{self, DOCUMENT_BYTES, Entry};
use crate::error::Trouble;
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::store::{self, Appended, Durability, StoreError, StoreResult};
use hub_proto::{Draft, Event, EventId};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes and documents of one insert: well inside one message, so that the driver does not cut it in two.
const INSERT_BYTES: usize = 12 << 20;
const INSERT_EVENTS: usize = 10_000;
/// Between two looks at a server in trouble.
const BACKOFF: Duration = Duration::from_millis(20);
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);
/// What is kept of the time for finding out what became of an insert that was not answered.
const FOR_LOOKING: Duration = Duration::from_secs(3);

/// Where an event stands in the commit, and what became of it.
pub type Answer = (usize, StoreResult<Appended>);

/// See the module's documentation.
pub struct Batch<'a> {
    pub(super) db: &'a Db,
    pub(super) topic: &'a Topic,
    now: Millis,
    pub(super) deadline: Instant,
    /// Not answered yet, in their order.
    pub(super) pending: VecDeque<Entry>,
    /// Drafts whose id an earlier one of this batch has: they are answered by what becomes of that one.
    twins: Vec<(usize, Draft)>,
    firsts: HashMap<EventId, First, RandomState>,
    answers: Vec<Answer>,
    /// When the oldest thing was asked that the numbers of this batch rest on.
    pub(super) rests_on: Duration,
    backoff: Duration,
}

/// What became of the first of several drafts with one id.
enum First {
    There(Arc<Event>),
    Past(Past),
    Failed(StoreError),
}

/// Why a batch cannot go on.
pub enum Stop {
    /// Time is up, or nothing will help.
    Trouble(Trouble),
    /// The topic is not what it was.
    Store(StoreError),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl<'a> Batch<'a> {
    pub fn new(db: &'a Db, topic: &'a Topic, now: Millis, deadline: Instant) -> Self {
        Self {
            db,
            topic,
            now,
            deadline,
            pending: VecDeque::new(),
            twins: Vec::new(),
            firsts: HashMap::default(),
            answers: Vec::new(),
            rests_on: db.clock.now(),
            backoff: BACKOFF,
        }
    }

    /// Appends entries, and answers each.
    pub async fn run(mut self, entries: Vec<Entry>) -> Vec<Answer> {
        let turn = tokio::time::timeout_at(self.deadline, self.topic.turn.lock()).await;
        self.take(entries);
        let stop = match turn {
            Ok(_turn) => self.work().await.err(),
            Err(_) => Some(Stop::Trouble(Trouble::Late(self.db.commit_limit))),
        };
        if let Some(stop) = stop {
            // An insert may be under way still: what is known may be too low, which costs a round and no more.
            self.topic.doubt();
            let error = match stop {
                Stop::Trouble(trouble) => trouble.into(),
                Stop::Store(error) => error,
            };
            for entry in std::mem::take(&mut self.pending) {
                self.failed(&entry, error.clone());
            }
        }
        self.answer_twins();
        self.answers
    }

    /// Sorts out what cannot be inserted: ids that are there twice, documents that are too large.
    fn take(&mut self, entries: Vec<Entry>) {
        let mut seen: HashMap<EventId, (), RandomState> = HashMap::default();
        for entry in entries {
            if seen.insert(entry.draft.id(), ()).is_some() {
                self.twins.push((entry.index, entry.draft));
                continue;
            }
            // The name of the topic and numbers come on top; 16 KiB is what the server leaves above its limit.
            if entry.bytes() > DOCUMENT_BYTES {
                let error = StoreError::Unavailable(format!(
                    "an event of {} bytes does not fit a document of MongoDB, which has {DOCUMENT_BYTES} at most",
                    entry.bytes()
                ));
                self.failed(&entry, error);
                continue;
            }
            self.pending.push_back(entry);
        }
    }

    async fn work(&mut self) -> Result<(), Stop> {
        // Both at once where both have to be asked. Errors are met again below.
        let (_, _) =
            tokio::join!(self.in_time(self.topic.cleaned(self.db)), self.in_time(self.topic.tail(self.db)));
        self.answer_past().await?;
        while !self.pending.is_empty() {
            self.topic.give_way(self.db).await;
            let tail = self.tail().await?;
            self.insert(tail).await?;
        }
        Ok(())
    }

    /// Answers ids of events that were cleaned away.
    async fn answer_past(&mut self) -> Result<(), Stop> {
        let (cleaned, asked) = loop {
            match self.in_time(self.topic.cleaned(self.db)).await {
                Ok(known) => break known,
                Err(trouble) => self.wait_out(trouble).await?,
            }
        };
        self.rests_on = self.rests_on.min(asked);
        let ids = self.pending.iter().map(|entry| entry.draft.id());
        let ids: Vec<EventId> = ids.filter(|&id| cleaned.ids.may_have(id)).collect();
        let found = self.look_up(&ids).await?;
        if found.is_empty() {
            return Ok(());
        }
        for entry in std::mem::take(&mut self.pending) {
            match found.iter().find(|past| past.id == entry.draft.id()) {
                Some(past) => self.known_past(&entry, *past),
                None => self.pending.push_back(entry),
            }
        }
        Ok(())
    }

    /// Looks ids up in `dedupe`.
    pub(super) async fn look_up(&mut self, ids: &[EventId]) -> Result<Vec<Past>, Stop> {
        loop {
            match self.in_time(past::look_up(self.db, &self.topic.name, ids)).await {
                Ok(found) => return Ok(found),
                Err(trouble) => self.wait_out(trouble).await?,
            }
        }
    }

    async fn tail(&mut self) -> Result<Tail, Stop> {
        loop {
            match self.in_time(self.topic.tail(self.db)).await {
                Ok(tail) => return tail.map_err(Stop::Store),
                Err(trouble) => self.wait_out(trouble).await?,
            }
        }
    }

    /// Numbers as much as fits one insert, and sees what comes of it.
    async fn insert(&mut self, tail: Tail) -> Result<(), Stop> {
        self.rests_on = self.rests_on.min(tail.known_at);
        let committed = self.now.max(tail.committed);
        let (mut seq, mut end, mut bytes) = (tail.seq, tail.end, 0);
        let mut documents = Vec::new();
        for entry in self.pending.iter().take(INSERT_EVENTS) {
            bytes += entry.bytes();
            if bytes > INSERT_BYTES && !documents.is_empty() {
                break;
            }
            seq += 1;
            documents.push(entry.document(seq, committed, end));
            end += entry.size(seq);
        }
        let count = documents.len();
        let (sent, started) = (self.db.clock.now(), Instant::now());
        let left = self.deadline.saturating_duration_since(started);
        let limit = left.saturating_sub(FOR_LOOKING.min(left / 4));
        let answer = db::within(limit, self.db.events.insert_many(documents).ordered(true)).await;
        match outcome::of(answer) {
            Outcome::Done => {
                self.topic.wrote(started.elapsed());
                self.durable(count, tail, committed, sent).await
            }
            Outcome::Clash { durable, with } => {
                self.durable(durable, tail, committed, sent).await?;
                match with {
                    Clash::Seq => {
                        self.topic.lost();
                        self.topic.doubt();
                        Ok(())
                    }
                    Clash::Id => self.resolve().await,
                }
            }
            Outcome::Doubt(doubt) => self.clear_up(doubt, count).await,
        }
    }

    /// The first `count` have the numbers after `tail`, for ever.
    async fn durable(
        &mut self,
        count: usize,
        tail: Tail,
        committed: Millis,
        sent: Duration,
    ) -> Result<(), Stop> {
        if count == 0 {
            return Ok(());
        }
        let mut known = Tail { known_at: sent, ..tail };
        let mut placed = Vec::with_capacity(count);
        for entry in self.pending.drain(..count) {
            known.seq += 1;
            known.end += entry.size(known.seq);
            placed.push((entry, known.seq, committed));
        }
        known.committed = committed;
        self.topic.confirmed(known);
        self.answer_placed(placed).await
    }

    /// Nobody knows what became of an insert: looks, and goes on with what is not there.
    async fn clear_up(&mut self, doubt: Doubt, count: usize) -> Result<(), Stop> {
        let Doubt { trouble, refused } = doubt;
        tracing::debug!(topic = %self.topic.name, why = trouble.words(), "the outcome of an insert is unknown, looking");
        self.topic.doubt();
        let tried: Vec<ObjectId> = self.pending.iter().take(count).map(|entry| entry.oid).collect();
        self.resolve().await?;
        if self.pending.is_empty() {
            return Ok(());
        }
        if trouble.is_passing() {
            return self.wait_out(trouble).await;
        }
        // The server does not want this one document, or does not want anything from us. Asking again would hold up
        // everybody behind it and change nothing.
        match refused.map(|at| tried[at]) {
            Some(refused) => {
                if let Some(at) = self.pending.iter().position(|entry| entry.oid == refused)
                    && let Some(entry) = self.pending.remove(at)
                {
                    self.failed(&entry, trouble.into());
                }
                Ok(())
            }
            None => Err(Stop::Trouble(trouble)),
        }
    }

    /// Finds out by majority which of the ids are there, and answers those.
    async fn resolve(&mut self) -> Result<(), Stop> {
        self.topic.doubt();
        let ids: Vec<Bson> = self.pending.iter().map(|entry| past::uuid(entry.draft.id())).collect();
        let filter = doc! { "topic": self.topic.name.as_str(), "id": { "$in": ids } };
        let found = loop {
            let find = async { self.db.events.find(filter.clone()).await?.try_collect::<Vec<_>>().await };
            match self.in_time(self.db.call(find)).await {
                Ok(found) => break found,
                Err(trouble) => self.wait_out(trouble).await?,
            }
        };
        let mut there: HashMap<EventId, (Option<ObjectId>, Arc<Event>), RandomState> = HashMap::default();
        for document in &found {
            let event = document::event(&self.topic.name, document).map_err(Stop::Store)?;
            there.insert(event.id(), (document.get_object_id("_id").ok(), event));
        }
        let mut placed = Vec::new();
        for entry in std::mem::take(&mut self.pending) {
            match there.get(&entry.draft.id()) {
                Some((oid, event)) if *oid == Some(entry.oid) => {
                    placed.push((entry, event.seq(), event.committed()));
                }
                Some((_, event)) => self.known_event(&entry, event),
                None => self.pending.push_back(entry),
            }
        }
        if placed.is_empty() && found.is_empty() {
            // Something clashed that a majority does not have yet. It will in a moment.
            self.rest().await;
        }
        self.answer_placed(placed).await
    }

    /// Waits for an answer until the batch's time is up.
    pub(super) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        match tokio::time::timeout_at(self.deadline, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Trouble::Late(self.db.commit_limit)),
        }
    }

    /// Waits before another try, if there is time for one and it makes sense.
    pub(super) async fn wait_out(&mut self, trouble: Trouble) -> Result<(), Stop> {
        if !trouble.is_passing() || Instant::now() + self.backoff >= self.deadline {
            return Err(Stop::Trouble(trouble));
        }
        self.rest().await;
        Ok(())
    }

    async fn rest(&mut self) {
        tokio::time::sleep_until(self.deadline.min(Instant::now() + self.backoff)).await;
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
    }

    /// These are in the log at these places.
    pub(super) fn placed(&mut self, placed: Vec<(Entry, u64, Millis)>) {
        for (entry, seq, committed) in placed {
            let id = entry.draft.id();
            let event = Arc::new(entry.draft.commit(seq, committed));
            if !self.twins.is_empty() {
                self.firsts.insert(id, First::There(event.clone()));
            }
            self.answers.push((entry.index, Ok(Appended::New { event, durability: Durability::Majority })));
        }
    }

    /// The topic has this id.
    fn known_event(&mut self, entry: &Entry, event: &Arc<Event>) {
        self.answers.push((entry.index, Ok(known(event, &entry.draft))));
        self.firsts.insert(entry.draft.id(), First::There(event.clone()));
    }

    /// The topic had this id.
    pub(super) fn known_past(&mut self, entry: &Entry, past: Past) {
        self.answers.push((entry.index, Ok(past.known(&entry.draft))));
        self.firsts.insert(entry.draft.id(), First::Past(past));
    }

    fn failed(&mut self, entry: &Entry, error: StoreError) {
        self.firsts.insert(entry.draft.id(), First::Failed(error.clone()));
        self.answers.push((entry.index, Err(error)));
    }

    fn answer_twins(&mut self) {
        for (index, draft) in std::mem::take(&mut self.twins) {
            let answer = match self.firsts.get(&draft.id()) {
                Some(First::There(event)) => Ok(known(event, &draft)),
                Some(First::Past(past)) => Ok(past.known(&draft)),
                Some(First::Failed(error)) => Err(error.clone()),
                None => Err(StoreError::Unavailable("the first event with this id was lost sight of".into())),
            };
            self.answers.push((index, answer));
        }
    }
}

fn known(event: &Arc<Event>, draft: &Draft) -> Appended {
    Appended::known(store::First::Record(event.clone()), draft.clone(), Durability::Majority)
}
