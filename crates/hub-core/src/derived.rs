//! Writing derived topics: dead letters and snapshots.
//!
//! A record's id is derived from what it is about, so a write that is repeated after a crash doubles nothing. Every record
//! carries the header [`header::DERIVED`], which no publisher can set: an id that is taken by a record without it was not
//! written by the hub, and does not count as written. Logs from before publishing to derived topics was forbidden can have
//! such records.

use crate::Millis;
use crate::engine::{By, Engine};
use crate::position::refused;
use crate::store::ReadLimit;
use crate::topic::Topic;
use hub_proto::{
    Code, Derivation, Draft, Error, EventId, Key, NewEvent, Payload, Receipt, Result, TopicName, header,
};
use std::sync::Arc;

/// How many ids are tried for one record, each taken by a record that the hub did not write.
const MAX_TRIES: u64 = 16;

/// A record for a derived topic.
pub(crate) struct Record {
    /// The derived topic.
    pub topic: TopicName,
    pub how: Derivation,
    pub key: Option<Key>,
    pub payload: Payload,
    /// What the id is derived from: the same for the same fact.
    pub id_parts: Vec<Vec<u8>>,
}

impl Record {
    fn id(&self, tries: u64) -> EventId {
        let mut parts: Vec<&[u8]> = self.id_parts.iter().map(Vec::as_slice).collect();
        let number = tries.to_be_bytes();
        if tries > 0 {
            parts.extend([&b"again"[..], &number]);
        }
        EventId::derived(&parts)
    }

    fn draft(&self, tries: u64, now: Millis) -> Draft {
        let mut event = NewEvent::new(self.topic.clone(), self.payload.clone());
        event.options.key = self.key.as_ref().map(ToString::to_string);
        event.options.headers.push((header::DERIVED.to_owned(), self.how.as_str().to_owned()));
        Draft::encode(event, self.id(tries), now)
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was appended now.
    Now,
    /// The hub had written it before.
    Before,
}

/// Writes records with one commit, and again under other ids where an id is taken by a record that the hub did not write. Each
/// record has a result of its own, in the order given.
pub(crate) async fn write(engine: &Arc<Engine>, records: &[Record]) -> Vec<Result<Written>> {
    let mut results: Vec<Option<Result<Written>>> = records.iter().map(|_| None).collect();
    for tries in 0..MAX_TRIES {
        let open: Vec<usize> = (0..records.len()).filter(|&at| results[at].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let receipts = append(engine, open.iter().map(|&at| &records[at]), tries).await;
        for (at, receipt) in open.into_iter().zip(receipts) {
            results[at] = match receipt {
                Ok(Receipt { duplicate: false, .. }) => Some(Ok(Written::Now)),
                Ok(Receipt { duplicate: true, .. }) => Some(Ok(Written::Before)),
                // The time of day in it may be another one; who wrote it decides.
                Err(error) if error.code == Code::IdConflict => {
                    match is_written_by_hub(engine, &records[at], tries).await {
                        Ok(true) => Some(Ok(Written::Before)),
                        Ok(false) => None,
                        Err(error) => Some(Err(error)),
                    }
                }
                Err(error) => Some(Err(error)),
            };
        }
    }
    let forged = || {
        Err(Error::unavailable("too many ids of this record are taken by records that the hub did not write"))
    };
    results.into_iter().map(|result| result.unwrap_or_else(forged)).collect()
}

async fn append<'a>(
    engine: &Arc<Engine>,
    records: impl ExactSizeIterator<Item = &'a Record>,
    tries: u64,
) -> Vec<Result<Receipt>> {
    let (now, count) = (engine.clock.wall(), records.len());
    let topic = |record: &Record| engine.topic(&record.topic, By::Hub);
    let drafts = records.map(|record| Ok((topic(record)?, record.draft(tries, now))));
    match drafts.collect::<Result<Vec<(Arc<Topic>, Draft)>>>() {
        Ok(drafts) => engine.committer.publish_all(drafts, engine.clock.steady()).await,
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

/// Whether the record that has this id is the hub's. One that was cleaned away meanwhile counts as such.
async fn is_written_by_hub(engine: &Engine, record: &Record, tries: u64) -> Result<bool> {
    let store = &engine.store;
    let seq = store.seq_of(&record.topic, record.id(tries)).await.map_err(refused)?;
    let Some(seq) = seq else { return Ok(true) };
    let one = ReadLimit { events: 1, bytes: 1 };
    let found = store.read(&record.topic, seq - 1, one).await.map_err(refused)?;
    let found = found.into_iter().find(|event| event.seq() == seq);
    Ok(found.is_none_or(|event| event.header(header::DERIVED).is_some()))
}
