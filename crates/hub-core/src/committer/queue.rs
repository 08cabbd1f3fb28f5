//! The line before the store. It is a line of batches, filled by those who publish: whoever commits takes one as it is.

use super::Receipt;
use super::answer::{Answer, Asker};
use super::room::Room;
use super::topics_in_flight::TakenTopics;
use crate::Millis;
use crate::store::{Commit, Record, StoreResult};
use crate::topic::Topic;
use hub_proto::{Draft, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most events in one commit; a publisher does not wait behind more than that.
const BATCH_EVENTS: usize = 8192;
/// The most bytes in one commit, but for what came together and is larger.
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
        debug_assert!(self.full.is_empty() || !self.filling.is_empty(), "the last one is being filled");
        self.filling.is_empty()
    }

    /// How many events and records wait.
    pub fn len(&self) -> usize {
        self.full.iter().chain([&self.filling]).map(Batch::len).sum()
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

    /// Since when the first one waits.
    pub fn oldest(&self) -> Option<Millis> {
        self.full.front().unwrap_or(&self.filling).answers.first().map(|answer| answer.since)
    }

    /// Takes out what `keeps` does not want to keep.
    pub fn retain(&mut self, mut keeps: impl FnMut(&mut Batch) -> bool) -> Vec<Batch> {
        let mut taken: Vec<Batch> = Vec::new();
        for mut batch in std::mem::take(&mut self.full) {
            match keeps(&mut batch) {
                true => self.full.push_back(batch),
                false => taken.push(batch),
            }
        }
        if !keeps(&mut self.filling) {
            taken.push(self.filling.replace());
        }
        // The last one is the one that is being filled.
        if self.filling.is_empty()
            && let Some(last) = self.full.pop_back()
        {
            self.filling = last;
        }
        taken
    }

    /// Takes everything out.
    pub fn clear(&mut self) -> impl Sized + use<> {
        (std::mem::take(&mut self.full), std::mem::take(&mut self.filling))
    }

    /// Takes out those at the front that have waited too long, with all that is theirs.
    pub fn take_late(&mut self, late: impl Fn(Millis) -> bool) -> Vec<Batch> {
        let mut taken = Vec::new();
        while let Some(batch) = self.full.front_mut() {
            taken.push(batch.take_first(&late));
            if !batch.is_empty() {
                return taken;
            }
            self.full.pop_front();
        }
        taken.push(self.filling.take_first(&late));
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
    /// How many of those who wait wait for one event: not to be counted where the disk waits for it.
    singles: usize,
    /// Room in the queue of all of them.
    pub room: Room,
}

impl Batch {
    /// With room for so many events.
    fn with_capacity(events: usize) -> Self {
        let commit = Commit { events: Vec::with_capacity(events), ..Commit::default() };
        let (topics, answers) = (Vec::with_capacity(events), Vec::with_capacity(events));
        Self { commit, topics, answers, singles: 0, room: Room::default() }
    }

    /// Leaves an empty one behind, which is likely to become as large.
    fn replace(&mut self) -> Self {
        let events = self.commit.events.len().next_power_of_two().min(ROOM);
        std::mem::replace(self, Self::with_capacity(events))
    }

    fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// How many events and records it has.
    pub fn len(&self) -> usize {
        self.commit.events.len() + self.commit.records.len()
    }

    /// Whether most of those who wait for it wait for one event.
    pub fn is_of_singles(&self) -> bool {
        2 * self.singles > self.answers.len()
    }

    /// Bytes of the events, about.
    pub fn bytes(&self) -> usize {
        self.room.bytes()
    }

    pub fn add_event(
        &mut self,
        since: Millis,
        (topic, draft): (Arc<Topic>, Draft),
        room: Room,
        reply: oneshot::Sender<Result<Receipt>>,
    ) {
        self.add(since, Asker::Event(draft.id(), Some(reply)), room, None);
        self.topics.push(topic);
        self.commit.events.push(draft);
    }

    pub fn add_events(
        &mut self,
        since: Millis,
        asker: Asker,
        drafts: Vec<(Arc<Topic>, Draft)>,
        room: Room,
        taken: Option<TakenTopics>,
    ) {
        self.add(since, asker, room, taken);
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
        reply: oneshot::Sender<Vec<StoreResult<()>>>,
    ) {
        self.add(since, Asker::Records(records.len(), Some(reply)), Room::default(), None);
        self.commit.records.append(&mut records);
        self.commit.epochs.append(&mut epochs);
    }

    fn add(&mut self, since: Millis, to: Asker, room: Room, taken: Option<TakenTopics>) {
        let bytes = room.bytes();
        self.singles += usize::from(to.is_single());
        self.answers.push(Answer { since, to, bytes, _taken: taken.map(Box::new) });
        self.room.merge(room);
    }

    /// Takes out those at the front that have waited too long.
    fn take_first(&mut self, late: impl Fn(Millis) -> bool) -> Self {
        let count = self.answers.iter().take_while(|answer| late(answer.since)).count();
        let answers: Vec<Answer> = self.answers.drain(..count).collect();
        let events: usize = answers.iter().map(|answer| answer.to.events()).sum();
        let records: usize = answers.iter().map(|answer| answer.to.records()).sum();
        let bytes = answers.iter().map(|answer| answer.bytes).sum();
        let singles = answers.iter().filter(|answer| answer.to.is_single()).count();
        self.singles -= singles;
        // There may be none, if this hub is alone.
        let epochs = records.min(self.commit.epochs.len());
        Self {
            commit: Commit {
                now: 0,
                events: self.commit.events.drain(..events).collect(),
                records: self.commit.records.drain(..records).collect(),
                epochs: self.commit.epochs.drain(..epochs).collect(),
            },
            topics: self.topics.drain(..events).collect(),
            room: self.room.split(bytes),
            answers,
            singles,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::answer::Reply;
    use super::*;
    use crate::config::TopicSettings;
    use crate::metrics::{LabelOwner, Metrics};
    use crate::store::{Bounds, StoreError};
    use hub_proto::{EventId, NewEvent, Payload, TopicName};
    use tokio::sync::Semaphore;

    /// A line, and the room before it.
    struct Line {
        queue: Queue,
        room: Arc<Semaphore>,
        topic: Arc<Topic>,
    }

    impl Line {
        fn new() -> Self {
            let name = TopicName::parse("t").unwrap();
            let metrics = Metrics::default().topic(&name, LabelOwner::Program);
            let topic = Topic::new(name, 1, TopicSettings::default(), metrics, Bounds::default(), 0);
            Self { queue: Queue::default(), room: Arc::new(Semaphore::new(1 << 30)), topic: Arc::new(topic) }
        }

        fn draft(&self, n: u64) -> Draft {
            let id = EventId::derived(&[&n.to_be_bytes()]);
            Draft::encode(NewEvent::new(self.topic.name.clone(), Payload::null()), id, n)
        }

        fn room(&self, bytes: u32) -> Room {
            Room::steady(self.room.clone().try_acquire_many_owned(bytes).unwrap())
        }

        fn event(&mut self, since: Millis, n: u64, bytes: u32) -> oneshot::Receiver<Result<Receipt>> {
            let (reply, answer) = oneshot::channel();
            let (item, room) = ((self.topic.clone(), self.draft(n)), self.room(bytes));
            self.queue.batch(1, bytes as usize).add_event(since, item, room, reply);
            answer
        }

        fn events(&mut self, since: Millis, numbers: &[u64]) -> oneshot::Receiver<Vec<Result<Receipt>>> {
            let (reply, answer) = oneshot::channel();
            let drafts: Vec<_> = numbers.iter().map(|&n| (self.topic.clone(), self.draft(n))).collect();
            let ids = drafts.iter().map(|(_, draft)| draft.id()).collect();
            let (asker, room) = (Asker::Events(ids, Some(Reply::Whole(reply))), self.room(10));
            self.queue.batch(numbers.len(), 10).add_events(since, asker, drafts, room, None);
            answer
        }

        fn record(&mut self, since: Millis, epochs: Vec<u64>) -> oneshot::Receiver<Vec<StoreResult<()>>> {
            let (reply, answer) = oneshot::channel();
            let record = Record::GroupGone(self.topic.name.clone(), "g".parse().unwrap());
            self.queue.batch(1, 0).add_records(since, vec![record], epochs, reply);
            answer
        }
    }

    /// The numbers of a batch's events.
    fn numbers(batch: &Batch) -> Vec<u64> {
        assert_eq!(batch.topics.len(), batch.commit.events.len());
        batch.commit.events.iter().map(Draft::ts).collect()
    }

    #[test]
    fn a_batch_is_full_when_it_has_many_events_or_many_bytes() {
        let mut line = Line::new();
        for n in 0..BATCH_EVENTS as u64 + 1 {
            drop(line.event(0, n, 1));
        }
        drop(line.event(0, 7, BATCH_BYTES as u32));
        drop(line.event(0, 8, 2 * BATCH_BYTES as u32));
        drop(line.event(0, 9, 1));
        assert_eq!(line.queue.len(), BATCH_EVENTS + 4);
        let sizes = std::iter::from_fn(|| line.queue.take()).map(|batch| batch.len()).collect::<Vec<_>>();
        assert_eq!(sizes, [BATCH_EVENTS, 1, 1, 1, 1]);
        assert!(line.queue.is_empty());
    }

    #[test]
    fn a_batch_is_as_large_as_one_that_asks_for_more() {
        let mut line = Line::new();
        drop(line.event(0, 1, 1));
        let many: Vec<u64> = (2..BATCH_EVENTS as u64 + 10).collect();
        drop(line.events(0, &many));
        assert_eq!(numbers(&line.queue.take().unwrap()), [1]);
        assert_eq!(numbers(&line.queue.take().unwrap()), many);
    }

    #[test]
    fn a_batch_knows_whether_most_wait_for_one_event() {
        let mut line = Line::new();
        drop((line.event(1, 1, 1), line.event(2, 2, 1), line.events(3, &[3, 4])));
        drop(line.queue.take_late(|since| since <= 1));
        drop(line.event(4, 5, 1));
        assert!(line.queue.take().unwrap().is_of_singles(), "two of three");
        drop((
            line.event(1, 1, 1),
            line.event(2, 2, 1),
            line.events(3, &[3, 4, 5]),
            line.record(4, Vec::new()),
        ));
        assert!(!line.queue.take().unwrap().is_of_singles(), "two of four");
        drop((line.event(1, 1, 1), line.events(2, &[2])));
        drop(line.queue.take_late(|since| since <= 1));
        assert!(!line.queue.take().unwrap().is_of_singles(), "none is left");
    }

    #[test]
    fn room_is_given_back_with_the_batch() {
        let mut line = Line::new();
        let all = line.room.available_permits();
        drop((line.event(0, 1, 5), line.events(0, &[2, 3]), line.record(0, Vec::new())));
        let batch = line.queue.take().unwrap();
        assert_eq!((line.room.available_permits(), batch.bytes()), (all - 15, 15));
        drop(batch);
        assert_eq!(line.room.available_permits(), all);
    }

    #[test]
    fn who_has_waited_too_long_leaves_the_line_with_all_that_is_his() {
        let mut line = Line::new();
        let all = line.room.available_permits();
        let mut late = (line.event(1, 1, 5), line.events(2, &[2, 3]), line.record(3, vec![7]));
        let mut first = line.event(4, 4, 7);
        drop((line.record(5, vec![8]), line.events(6, &[5, 6])));
        let mut taken = line.queue.take_late(|since| since <= 3).remove(0);
        assert_eq!((numbers(&taken), taken.commit.records.len()), (vec![1, 2, 3], 1));
        assert_eq!((&taken.commit.epochs, taken.bytes()), (&vec![7], 15));
        taken.answers.iter_mut().for_each(|answer| answer.fail(&StoreError::Unavailable("too slow".into())));
        drop(taken);
        assert_eq!(line.room.available_permits(), all - 17, "there is room for others");
        assert!(late.0.try_recv().unwrap().is_err());
        assert_eq!(late.1.try_recv().unwrap().len(), 2);
        assert!(late.2.try_recv().unwrap()[0].is_err());
        assert!(first.try_recv().is_err(), "not answered yet");
        let batch = line.queue.take().unwrap();
        assert_eq!((numbers(&batch), batch.commit.records.len()), (vec![4, 5, 6], 1));
        assert_eq!((batch.commit.epochs, batch.answers.len()), (vec![8], 3));
    }

    #[test]
    fn batches_of_those_who_have_waited_too_long_are_gone() {
        let mut line = Line::new();
        let all = line.room.available_permits();
        for n in 0..3 {
            drop(line.event(n, n, BATCH_BYTES as u32));
        }
        let late = line.queue.take_late(|since| since < 2);
        assert_eq!(late.iter().map(|batch| batch.answers.len()).collect::<Vec<_>>(), [1, 1, 0]);
        drop(late);
        assert_eq!(numbers(&line.queue.take().unwrap()), [2]);
        assert!(line.queue.take().is_none());
        drop(line.event(9, 9, 1));
        assert_eq!(line.queue.take_late(|_| true)[0].answers.len(), 1);
        assert!(line.queue.take().is_none());
        assert_eq!(line.room.available_permits(), all);
    }
}
