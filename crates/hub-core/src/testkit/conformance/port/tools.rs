//! Drafts, commits and reads, in few words.

use crate::Millis;
use crate::store::{Appended, CleanPolicy, Cleaned, Commit, EventStore, ReadLimit, Record};
use hub_proto::{Draft, Event, EventId, NewEvent, Payload, TopicName, header};
use std::sync::Arc;

/// A read that no limit stops.
pub(in super::super) const ALL: ReadLimit = ReadLimit { events: 100_000, bytes: 1 << 30 };

/// Some day, in milliseconds.
pub(in super::super) const T0: Millis = 1_780_000_000_000;

/// A store under test.
pub(in super::super) struct Port(pub Arc<dyn EventStore>);

pub(in super::super) fn topic(name: &str) -> TopicName {
    TopicName::readable(name).unwrap()
}

pub(in super::super) fn id(n: u64) -> EventId {
    EventId::derived(&[b"conformance", &n.to_be_bytes()])
}

pub(in super::super) fn payload(json: &str) -> Payload {
    Payload::from_json(json.to_owned()).unwrap()
}

/// An event on topic `t` with the id `id(n)` and the payload `n`.
pub(in super::super) fn plain(n: u64) -> Draft {
    on("t", n)
}

pub(in super::super) fn on(name: &str, n: u64) -> Draft {
    Draft::encode(NewEvent::new(topic(name), payload(&n.to_string())), id(n), T0 + n)
}

/// The same with an id as the hub makes them: they order by `n`.
pub(in super::super) fn timed(name: &str, n: u64) -> Draft {
    let id = u128::from(T0 + n) << 80 | 7 << 76 | 2 << 62 | u128::from(n);
    let event = NewEvent::new(topic(name), payload(&n.to_string()));
    Draft::encode(event, EventId::from_bytes(id.to_be_bytes()), T0 + n)
}

/// The same under a key.
pub(in super::super) fn keyed(n: u64, key: &str) -> Draft {
    holding(n, Some(key), &n.to_string())
}

pub(in super::super) fn tombstone(n: u64, key: &str) -> Draft {
    holding(n, Some(key), "null")
}

pub(in super::super) fn holding(n: u64, key: Option<&str>, json: &str) -> Draft {
    let mut event = NewEvent::new(topic("t"), payload(json));
    event.options.key = key.map(str::to_owned);
    Draft::encode(event, id(n), T0 + n)
}

/// A record that was replayed for one group.
pub(in super::super) fn replayed(n: u64, key: &str) -> Draft {
    let mut event = NewEvent::new(topic("t"), payload(&n.to_string())).with_key(key);
    event.options.headers.push((header::REPLAY_FOR.into(), "g".into()));
    Draft::encode(event, id(n), T0 + n)
}

impl Port {
    pub async fn commit(&self, now: Millis, events: Vec<Draft>) -> Vec<Appended> {
        let commit = Commit { now, events, ..Commit::default() };
        self.0.commit(commit).await.events.into_iter().map(|event| event.unwrap().decided()).collect()
    }

    /// Commits events that are all new.
    pub async fn append(&self, now: Millis, events: Vec<Draft>) -> Vec<Arc<Event>> {
        self.commit(now, events).await.into_iter().map(new).collect()
    }

    pub async fn write(&self, records: Vec<Record>) {
        let commit = Commit { now: T0, records, ..Commit::default() };
        for written in self.0.commit(commit).await.records {
            written.unwrap();
        }
    }

    pub async fn read(&self, after: u64, limit: ReadLimit) -> Vec<Arc<Event>> {
        self.0.read(&topic("t"), after, limit).await.unwrap()
    }

    /// The seqs that are left on topic `t`.
    pub async fn seqs(&self) -> Vec<u64> {
        seqs(&self.read(0, ALL).await)
    }

    /// Cleans topic `t` until there is nothing left to do.
    pub async fn clean(&self, policy: CleanPolicy) -> Cleaned {
        let mut removed = 0;
        loop {
            let cleaned = self.0.clean(&topic("t"), policy).await.unwrap();
            removed += cleaned.removed;
            if cleaned.removed == 0 {
                return Cleaned { removed, ..cleaned };
            }
        }
    }
}

pub(in super::super) fn new(appended: Appended) -> Arc<Event> {
    match appended {
        Appended::New { event, .. } => event,
        known => panic!("the event was known already: {known:?}"),
    }
}

/// Seq and sameness of an event that the topic had.
pub(in super::super) fn known(appended: &Appended) -> (u64, bool) {
    match appended {
        Appended::Known { seq, same, .. } => (*seq, *same),
        other => panic!("the event was appended again, or is not decided: {other:?}"),
    }
}

pub(in super::super) fn seqs(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| event.seq()).collect()
}
