//! Snapshots: the state of a compacted topic, key by key, on `<topic>.snapshot`.
//!
//! Each run writes the keys that changed since the last one and closes with `{upto: seq}` under [`UPTO`]. Ids are
//! derived from key and seq, so a run that was interrupted can be repeated without doubling anything.

use crate::derived::{self, Record};
use crate::engine::Engine;
use crate::position::refused;
use crate::store::{ReadLimit, newest_of_each};
use crate::topic::Topic;
use hub_proto::{Derivation, Event, Key, Payload, Result, json};
use serde::Deserialize;
use std::io::Write;
use std::sync::Arc;

/// The key of the closing record. No publisher's key contains a NUL.
pub(crate) const UPTO: &str = "\0upto";

const BLOCK: ReadLimit = ReadLimit { events: 1000, bytes: 4 << 20 };

#[derive(Deserialize)]
struct Upto {
    upto: u64,
}

/// Brings the snapshot up to the end of the topic. Answers where that was.
pub(crate) async fn write(engine: &Arc<Engine>, topic: &Topic) -> Result<u64> {
    let last = topic.last();
    let start = written_upto(engine, topic).await?;
    let mut upto = start;
    while upto < last {
        let block = engine.store.read(&topic.name, upto, BLOCK).await.map_err(refused)?;
        upto = block.last().map_or(last, |event| event.seq());
        publish(engine, changed_keys(engine, topic, &block).await?).await?;
    }
    if upto > start {
        publish(engine, vec![closing(topic, upto)]).await?;
    }
    Ok(upto)
}

async fn written_upto(engine: &Engine, topic: &Topic) -> Result<u64> {
    let newest = engine.store.newest(&topic.name.snapshot(), &[Key::from(UPTO)]).await.map_err(refused)?;
    match newest.into_iter().flatten().next() {
        Some(record) => Ok(record.decode::<Upto>()?.upto),
        None => Ok(0),
    }
}

/// The newest state of each key that a block touches.
async fn changed_keys(engine: &Engine, topic: &Topic, block: &[Arc<Event>]) -> Result<Vec<Record>> {
    let mut keys: Vec<(&Key, u64)> = block
        .iter()
        .filter(|event| event.audience().is_none())
        .filter_map(|event| Some((event.key()?, event.seq())))
        .collect();
    keys.sort_unstable();
    // Of each key the last: the highest seq.
    keys.reverse();
    keys.dedup_by(|a, b| a.0 == b.0);
    let names: Vec<Key> = keys.iter().map(|(key, _)| (*key).clone()).collect();
    let newest = newest_of_each(&*engine.store, &topic.name, &names).await.map_err(refused)?;
    // A key whose newest record is damaged keeps the state it has: nobody knows a newer one.
    let entries = keys.iter().zip(newest).filter_map(|(key, newest)| Some((key, newest.ok()?)));
    Ok(entries.map(|((key, seq), newest)| entry(topic, key, *seq, newest.as_deref())).collect())
}

/// `{key, payload, ts, seq}`, or null for a key that was deleted.
fn entry(topic: &Topic, key: &Key, seq: u64, newest: Option<&Event>) -> Record {
    let (seq, payload) = match newest.filter(|event| !event.is_tombstone()) {
        Some(event) => {
            let mut text = Vec::with_capacity(event.payload().len() + key.len() + 64);
            text.extend_from_slice(b"{\"key\":");
            json::write_str(&mut text, key);
            text.extend_from_slice(b",\"payload\":");
            text.extend_from_slice(event.payload());
            write!(text, ",\"ts\":{},\"seq\":{}}}", event.ts(), event.seq())
                .expect("a Vec takes every write");
            (event.seq(), Payload::stored(text).expect("made of valid parts"))
        }
        None => (newest.map_or(seq, Event::seq), Payload::null()),
    };
    let of_id: [&[u8]; 4] = [b"snapshot", topic.name.as_bytes(), key.as_bytes(), &seq.to_be_bytes()];
    record(topic, key.clone(), payload, &of_id)
}

fn closing(topic: &Topic, upto: u64) -> Record {
    let payload = Payload::from(serde_json::json!({ "upto": upto }));
    record(topic, UPTO.into(), payload, &[b"snapshot upto", topic.name.as_bytes(), &upto.to_be_bytes()])
}

fn record(topic: &Topic, key: Key, payload: Payload, of_id: &[&[u8]]) -> Record {
    let id_parts = of_id.iter().map(|part| part.to_vec()).collect();
    Record { topic: topic.name.snapshot(), how: Derivation::Snapshot, key: Some(key), payload, id_parts }
}

async fn publish(engine: &Arc<Engine>, records: Vec<Record>) -> Result<()> {
    derived::write(engine, &records).await.into_iter().try_for_each(|written| written.map(drop))
}
