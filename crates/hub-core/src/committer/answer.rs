//! Those who wait for a commit, and what they are told.

use super::room::Room;
use super::topics_in_flight::TakenTopics;
use super::{Receipt, cut_off};
use crate::Millis;
use crate::store::{First, StoreError, StoreResult};
use hub_proto::{Draft, Durability, Error, EventId, Result, TopicName};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Somebody who is to be answered once a batch is committed.
pub struct Answer {
    /// When the publisher came.
    pub since: Millis,
    pub to: Asker,
    /// Room in the queue that it has.
    pub bytes: usize,
    /// Topics that it has in line, given back when it is answered.
    pub _taken: Option<Box<TakenTopics>>,
}

/// One who asked; `None` once it was answered.
pub enum Asker {
    Event(EventId, Option<oneshot::Sender<Result<Receipt>>>),
    Events(Vec<EventId>, Option<Reply>),
    Records(usize, Option<oneshot::Sender<Vec<StoreResult<()>>>>),
}

/// Where the receipts of several events go.
pub enum Reply {
    /// To the one who waits for them.
    Whole(oneshot::Sender<Vec<Result<Receipt>>>),
    /// To these places among the receipts of several topics.
    Part(Vec<usize>, Arc<Joint>),
}

impl Reply {
    /// A publisher that has gone away needs no answer.
    pub fn send(self, receipts: Vec<Result<Receipt>>) {
        match self {
            Self::Whole(reply) => drop(reply.send(receipts)),
            Self::Part(places, joint) => joint.fill(&places, receipts),
        }
    }
}

/// The receipts of events of several topics, which are committed independently and answered together: by the last part that lets
/// go of this.
pub struct Joint {
    ids: Vec<EventId>,
    receipts: Mutex<Vec<Option<Result<Receipt>>>>,
    reply: Option<oneshot::Sender<Vec<Result<Receipt>>>>,
}

impl Joint {
    pub fn new(ids: Vec<EventId>, reply: oneshot::Sender<Vec<Result<Receipt>>>) -> Arc<Self> {
        let receipts = Mutex::new(ids.iter().map(|_| None).collect());
        Arc::new(Self { ids, receipts, reply: Some(reply) })
    }

    fn fill(&self, places: &[usize], receipts: Vec<Result<Receipt>>) {
        let mut all = self.receipts.lock();
        for (&place, receipt) in places.iter().zip(receipts) {
            all[place] = Some(receipt);
        }
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let receipts = std::mem::take(self.receipts.get_mut()).into_iter().zip(&self.ids);
        let told =
            |(receipt, id): (Option<_>, &EventId)| receipt.unwrap_or_else(|| Err(cut_off().with_id(*id)));
        // A publisher that has gone away needs no answer.
        let _ = reply.send(receipts.map(told).collect());
    }
}

impl Asker {
    /// How many events it has asked for.
    pub fn events(&self) -> usize {
        match self {
            Self::Event(..) => 1,
            Self::Events(ids, _) => ids.len(),
            Self::Records(..) => 0,
        }
    }

    /// Whether it waits for one event.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Event(..))
    }

    /// How many records.
    pub fn records(&self) -> usize {
        match self {
            Self::Event(..) | Self::Events(..) => 0,
            Self::Records(count, _) => *count,
        }
    }
}

impl Answer {
    /// Says that the outcome is not known, to one who was not answered yet.
    pub fn fail(&mut self, error: &StoreError) {
        let unknown = |id: EventId| Error::unavailable(unknown_outcome(error)).with_id(id);
        // A publisher that has gone away needs no answer.
        match &mut self.to {
            Asker::Event(id, reply) => drop(reply.take().map(|reply| reply.send(Err(unknown(*id))))),
            Asker::Events(ids, reply) => {
                if let Some(reply) = reply.take() {
                    reply.send(ids.iter().map(|&id| Err(unknown(id))).collect());
                }
            }
            Asker::Records(count, reply) => {
                drop(reply.take().map(|reply| reply.send(vec![Err(error.clone()); *count])));
            }
        }
    }
}

/// A receipt without its id.
pub struct Place {
    pub seq: u64,
    pub ts: Millis,
    pub durable: Durability,
    pub duplicate: bool,
    /// Whether it is a duplicate is still to be looked at.
    pub twin: Option<Box<Twin>>,
}

/// An event whose id the topic has, and what it has of the first one.
pub struct Twin {
    pub topic: TopicName,
    pub first: First,
    pub draft: Box<Draft>,
}

/// The error for an id that is taken by another event.
pub fn conflict(topic: &TopicName, seq: u64) -> Error {
    Error::id_conflict(format!(
        "topic {topic} has this id at seq {seq} with another payload or key; use a new id for a new event"
    ))
}

impl Place {
    fn receipt(self, id: EventId) -> Result<Receipt> {
        let Self { seq, ts, durable, duplicate, twin } = self;
        match twin {
            Some(twin) if !twin.first.is(&twin.draft) => Err(conflict(&twin.topic, seq).with_id(id)),
            _ => Ok(Receipt { id, seq, ts, durable, duplicate }),
        }
    }
}

/// Answers that need events to be compared first.
pub struct Comparison {
    to: Asker,
    places: Vec<Result<Place>>,
    /// Room in the queue that the events have.
    pub bytes: usize,
    pub room: Room,
}

impl Comparison {
    /// Compares, and tells who waits for it.
    pub fn settle(self) {
        tell(self.to, self.places);
    }
}

fn told((id, place): (EventId, Result<Place>)) -> Result<Receipt> {
    match place {
        Ok(place) => place.receipt(id),
        Err(error) => Err(error.with_id(id)),
    }
}

/// Answers a publisher. One that went away, or was answered before because it took too long, does not want its answer.
fn tell(to: Asker, mut places: Vec<Result<Place>>) {
    match to {
        Asker::Event(id, reply) => {
            let told = places.pop().map(|place| told((id, place)));
            drop(reply.zip(told).map(|(reply, told)| reply.send(told)));
        }
        Asker::Events(ids, reply) => {
            if let Some(reply) = reply {
                reply.send(ids.into_iter().zip(places).map(told).collect());
            }
        }
        Asker::Records(..) => {}
    }
}

/// Tells everybody what came of a commit, given what came of each event and record. Answers who has to wait for a comparison.
pub fn reply(
    answers: Vec<Answer>,
    mut places: Vec<Result<Place>>,
    mut records: Vec<StoreResult<()>>,
) -> Vec<Comparison> {
    const FEWER: &str = "the store answered less than it was given";
    places.resize_with(answers.iter().map(|answer| answer.to.events()).sum(), || Err(Error::internal(FEWER)));
    records.resize_with(answers.iter().map(|answer| answer.to.records()).sum(), || {
        Err(StoreError::Unavailable(FEWER.into()))
    });
    let mut comparisons = Vec::new();
    // The last one first: who has many under way waits for its first one only, and finds them all when it wakes up.
    // Whoever went away, or was told before that it takes too long, does not want its answer: nothing to do.
    let has_twin = |place: &Result<Place>| place.as_ref().is_ok_and(|place| place.twin.is_some());
    for Answer { to, bytes, .. } in answers.into_iter().rev() {
        let rest = places.len() - to.events();
        match to {
            Asker::Records(count, reply) => {
                let told = records.split_off(records.len() - count);
                drop(reply.map(|reply| reply.send(told)));
            }
            to if places[rest..].iter().any(has_twin) => {
                comparisons.push(Comparison {
                    to,
                    places: places.split_off(rest),
                    bytes,
                    room: Room::default(),
                });
            }
            Asker::Event(id, reply) => {
                let told = places.pop().map(|place| told((id, place)));
                drop(reply.zip(told).map(|(reply, told)| reply.send(told)));
            }
            Asker::Events(ids, reply) => {
                let told = ids.into_iter().zip(places.drain(rest..)).map(told).collect();
                if let Some(reply) = reply {
                    reply.send(told);
                }
            }
        }
    }
    comparisons
}

/// What a publisher hears when nobody knows what became of its event.
pub fn unknown_outcome(error: &StoreError) -> String {
    let brief = error.brief();
    format!("{brief}; whether the event was stored is unknown, sending it again with the same id is safe")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn id(n: u8) -> EventId {
        EventId::from_bytes([n; 16])
    }

    fn place(seq: u64) -> Result<Place> {
        Ok(Place { seq, ts: 0, durable: Durability::Fsync, duplicate: false, twin: None })
    }

    fn answer(to: Asker) -> Answer {
        Answer { since: 0, to, bytes: 0, _taken: None }
    }

    #[test]
    fn everybody_gets_his_own_answers() {
        let (one, mut first) = oneshot::channel();
        let (many, mut second) = oneshot::channel();
        let (written, mut third) = oneshot::channel();
        let (refused, mut fourth) = oneshot::channel();
        let (last, mut fifth) = oneshot::channel();
        let answers = vec![
            answer(Asker::Event(id(1), Some(one))),
            answer(Asker::Records(2, Some(written))),
            answer(Asker::Events(vec![id(2), id(3)], Some(Reply::Whole(many)))),
            answer(Asker::Records(1, Some(refused))),
            answer(Asker::Event(id(4), Some(last))),
        ];
        let places = vec![place(11), place(12), Err(Error::unavailable("why")), place(14)];
        reply(answers, places, vec![Ok(()), Ok(()), Err(StoreError::Unavailable("no".into()))]);
        let seq = |receipt: Result<Receipt>| receipt.map(|receipt| (receipt.id, receipt.seq));
        assert_eq!(seq(first.try_recv().unwrap()), Ok((id(1), 11)));
        let mut second = second.try_recv().unwrap();
        assert_eq!(second.remove(1).unwrap_err().id, Some(id(3)));
        assert_eq!(seq(second.remove(0)), Ok((id(2), 12)));
        assert_eq!(third.try_recv().unwrap(), [Ok(()), Ok(())]);
        assert!(fourth.try_recv().unwrap()[0].is_err());
        assert_eq!(seq(fifth.try_recv().unwrap()), Ok((id(4), 14)));
    }

    #[test]
    fn who_is_not_answered_by_the_store_hears_of_that() {
        let ((one, mut first), (two, mut second)) = (oneshot::channel(), oneshot::channel());
        let ((three, mut third), (four, mut fourth)) = (oneshot::channel(), oneshot::channel());
        let answers = vec![
            answer(Asker::Event(id(1), Some(one))),
            answer(Asker::Event(id(2), Some(two))),
            answer(Asker::Records(1, Some(three))),
            answer(Asker::Records(1, Some(four))),
        ];
        reply(answers, vec![place(1)], vec![Ok(())]);
        assert!(third.try_recv().unwrap()[0].is_ok());
        assert!(fourth.try_recv().unwrap()[0].is_err());
        assert_eq!(first.try_recv().unwrap().unwrap().seq, 1);
        let error = second.try_recv().unwrap().unwrap_err();
        assert_eq!((error.code, error.id), (hub_proto::Code::Internal, Some(id(2))));
    }
}
