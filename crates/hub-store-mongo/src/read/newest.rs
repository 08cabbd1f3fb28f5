//! The newest record of a key.
//!
//! Records that were replayed for one group have their key in another field, so they are not in the index that this
//! goes by.

use crate::db::Db;
use crate::document::{self, signed};
use crate::error::Trouble;
use foldhash::fast::RandomState;
use futures_util::StreamExt;
use futures_util::stream;
use hashbrown::HashMap;
use hub_core::store::ReadLimit;
use hub_proto::{Event, Key, TopicName};
use mongodb::bson::doc;
use std::sync::Arc;

/// Keys that are looked up at the same time.
const AT_ONCE: usize = 16;
/// So many older records of one key are passed over by reading them; beyond that it is cheaper to ask for the next key.
const PASSED_OVER: usize = 8;

/// The newest record of each key.
pub async fn newest(db: &Db, topic: &TopicName, keys: &[Key]) -> Result<Vec<Option<Arc<Event>>>, Trouble> {
    let mut found: HashMap<Key, Option<Arc<Event>>, RandomState> =
        keys.iter().map(|key| (key.clone(), None)).collect();
    let distinct: Vec<Key> = found.keys().cloned().collect();
    let asked = distinct.into_iter().map(|key| async move { (one(db, topic, &key).await, key) });
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    while let Some((event, key)) = answers.next().await {
        found.insert(key, event?);
    }
    Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
}

async fn one(db: &Db, topic: &TopicName, key: &Key) -> Result<Option<Arc<Event>>, Trouble> {
    let filter = doc! { "topic": topic.as_str(), "key": &**key };
    match db.call(db.events.find_one(filter).sort(doc! { "seq": -1 })).await? {
        Some(found) => Ok(Some(document::event(topic, &found)?)),
        None => Ok(None),
    }
}

/// The newest records of all keys after `after`, in byte order, tombstones and what was deleted left out.
pub async fn page(
    db: &Db,
    topic: &TopicName,
    after: Option<&str>,
    deleted: u64,
    limit: ReadLimit,
) -> Result<Vec<Arc<Event>>, Trouble> {
    let mut events = Vec::new();
    let mut fits = limit.gate();
    let mut last: Option<Key> = after.map(Key::from);
    'ask: loop {
        // A range of texts: what has no key is null, and is not in it.
        let range = match &last {
            Some(last) => doc! { "$gt": &**last },
            None => doc! { "$gte": "" },
        };
        let find =
            db.events.find(doc! { "topic": topic.as_str(), "key": range, "seq": { "$gt": signed(deleted) } });
        let find = find.sort(doc! { "key": 1, "seq": -1 }).batch_size(super::batch_size(limit));
        let mut cursor = find.batch().await?;
        let mut older = 0;
        while let Some(batch) = cursor.next().await {
            for document in batch?.doc_slices()? {
                let document = document.map_err(mongodb::error::Error::from)?;
                let document = document
                    .as_document()
                    .ok_or_else(|| Trouble::Damaged("a reply is no document".into()))?;
                let key = document.get_str("key").map_err(mongodb::error::Error::from)?;
                if last.as_deref() == Some(key) {
                    older += 1;
                    if older > PASSED_OVER {
                        continue 'ask;
                    }
                    continue;
                }
                (last, older) = (Some(key.into()), 0);
                let event = document::event(topic, document)?;
                if event.is_tombstone() {
                    continue;
                }
                if !fits(event.json().len()) {
                    return Ok(events);
                }
                events.push(event);
            }
        }
        return Ok(events);
    }
}
