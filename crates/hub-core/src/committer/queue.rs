//! The line before the store. It is a line of batches, filled by those who publish: whoever commits takes one as it is.

use super::Receipt;
use super::answer::{Answer, Asker};
use crate::Millis;
use crate::store::{Commit, Record, StoreResult};
use crate::topic::Topic;
use hub_proto::{Draft, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// The most events in one commit; a publisher does not wait behind more than that.
const BATCH_EVENTS: usize = 8192;
/// The most bytes in one commit, but for a single event that is larger.
const BATCH_BYTES: usize = 8 << 20;
/// The most events that a batch has room for before there are any.
const ROOM: usize = 1024;

/// See the module.
#[derive(Default)]
pub struct Queue {
    full: VecDeque<Batch>,
    filling: Batch,
    /// Nothing more is taken.
    pub closed: bool,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.filling.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.full.iter().chain([&self.filling]).map(|batch| batch.answers.len()).sum()
    }

    /// The batch that so many more events or records go to, with so many bytes.
    pub fn batch(&mut self, more: usize, bytes: usize) -> &mut Batch {
        let filling = &mut self.filling;
        if !filling.is_empty()
            && (filling.len() + more > BATCH_EVENTS || filling.bytes() + bytes > BATCH_BYTES)
        {
            self.full.push_back(filling.replace());
        }
        filling
    }

    /// The next commit.
    pub fn take(&mut self) -> Option<Batch> {
        match self.full.pop_front() {
            None if self.filling.is_empty() => None,
            None => Some(self.filling.replace()),
            full => full,
        }
    }

    /// Everything, unsorted.
    pub fn clear(&mut self) -> impl Sized + use<> {
        (std::mem::take(&mut self.full), std::mem::take(&mut self.filling))
    }

    /// Takes out those at the front that have waited too long.
    pub fn take_late(&mut self, late: impl Fn(Millis) -> bool) -> Vec<Answer> {
        let mut taken = Vec::new();
        while let Some(batch) = self.full.front_mut() {
            taken.append(&mut batch.take_first(&late));
            if !batch.is_empty() {
                return taken;
            }
            self.full.pop_front();
        }
        taken.append(&mut self.filling.take_first(&late));
        taken
    }
}

/// What is committed together.
#[derive(Default)]
pub struct Batch {
    pub commit: Commit,
    /// The topic of each event.
    pub topics: Vec<Arc<Topic>>,
    pub answers: Vec<Answer>,
    /// Room in the queue of all of them.
    pub room: Option<OwnedSemaphorePermit>,
}

impl Batch {
    /// With room for so many events.
    fn with_capacity(events: usize) -> Self {
        let commit = Commit { events: Vec::with_capacity(events), ..Commit::default() };
        let (topics, answers) = (Vec::with_capacity(events), Vec::with_capacity(events));
        Self { commit, topics, answers, room: None }
    }

    /// Leaves an empty one behind, which is likely to become as large.
    fn replace(&mut self) -> Self {
        let events = self.commit.events.len().next_power_of_two().min(ROOM);
        std::mem::replace(self, Self::with_capacity(events))
    }

    fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    fn len(&self) -> usize {
        self.commit.events.len() + self.commit.records.len()
    }

    /// Bytes of the events, about.
    pub fn bytes(&self) -> usize {
        self.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    pub fn add_event(
        &mut self,
        since: Millis,
        (topic, draft): (Arc<Topic>, Draft),
        room: OwnedSemaphorePermit,
        reply: oneshot::Sender<Result<Receipt>>,
    ) {
        self.add(since, Asker::Event(draft.id(), Some(reply)), Some(room));
        self.topics.push(topic);
        self.commit.events.push(draft);
    }

    pub fn add_events(
        &mut self,
        since: Millis,
        drafts: Vec<(Arc<Topic>, Draft)>,
        room: OwnedSemaphorePermit,
        reply: oneshot::Sender<Vec<Result<Receipt>>>,
    ) {
        let ids = drafts.iter().map(|(_, draft)| draft.id()).collect();
        self.add(since, Asker::Events(ids, Some(reply)), Some(room));
        for (topic, draft) in drafts {
            self.topics.push(topic);
            self.commit.events.push(draft);
        }
    }

    pub fn add_records(
        &mut self,
        since: Millis,
        mut records: Vec<Record>,
        mut epochs: Vec<u64>,
        reply: oneshot::Sender<StoreResult<()>>,
    ) {
        self.add(since, Asker::Records(records.len(), Some(reply)), None);
        self.commit.records.append(&mut records);
        self.commit.epochs.append(&mut epochs);
    }

    fn add(&mut self, since: Millis, to: Asker, room: Option<OwnedSemaphorePermit>) {
        let bytes = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.answers.push(Answer { since, to, bytes });
        match (&mut self.room, room) {
            (Some(all), Some(room)) => all.merge(room),
            (all, room) => *all = all.take().or(room),
        }
    }

    /// Takes out those at the front that have waited too long; there is room for others then.
    fn take_first(&mut self, late: impl Fn(Millis) -> bool) -> Vec<Answer> {
        let count = self.answers.iter().take_while(|answer| late(answer.since)).count();
        let taken: Vec<Answer> = self.answers.drain(..count).collect();
        let events: usize = taken.iter().map(|answer| answer.to.events()).sum();
        self.topics.drain(..events);
        self.commit.events.drain(..events);
        let records: usize = taken.iter().map(|answer| answer.to.records()).sum();
        self.commit.records.drain(..records);
        // There are none, if this hub is alone.
        self.commit.epochs.drain(..records.min(self.commit.epochs.len()));
        let bytes = taken.iter().map(|answer| answer.bytes).sum();
        drop(self.room.as_mut().and_then(|room| room.split(bytes)));
        taken
    }
}
