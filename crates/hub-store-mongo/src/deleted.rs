//! What was deleted of topics.
//!
//! Deleting a topic marks its document in `topics`: everything up to the seq `deleted` is gone. Reads pass over it from then on, and
//! the cleaner removes it in its own time. The newest record stays even then: the numbering goes by it.

use crate::append::topic::read_tail;
use crate::db::Db;
use crate::document::{self, signed};
use crate::error::Trouble;
use crate::read;
use crate::topics::Cleaned;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::store::Bounds;
use hub_proto::TopicName;
use mongodb::bson::doc;
use mongodb::error::{ErrorKind, WriteFailure};
use parking_lot::Mutex;

/// The seq up to which each topic was deleted, as far as this hub knows.
#[derive(Default)]
pub struct DeletedTopics(Mutex<HashMap<TopicName, u64, RandomState>>);

impl DeletedTopics {
    /// 0 for a topic that never was deleted.
    pub fn upto(&self, topic: &TopicName) -> u64 {
        self.0.lock().get(topic).copied().unwrap_or(0)
    }

    /// A mark was read or written. Marks never go back.
    pub fn learn(&self, topic: &TopicName, upto: u64) {
        if upto > 0 {
            let mut known = self.0.lock();
            let known = known.entry(topic.clone()).or_default();
            *known = upto.max(*known);
        }
    }

    /// The extent of a topic, without what was deleted.
    pub fn visible(&self, topic: &TopicName, bounds: Bounds) -> Bounds {
        match self.upto(topic) {
            0 => bounds,
            upto => Bounds { first: bounds.first.max(upto + 1), ..bounds },
        }
    }
}

/// Marks everything up to `upto` as deleted. Answers how many events that hides; none if they were marked already.
pub async fn mark(db: &Db, topic: &TopicName, upto: u64) -> Result<u64, Trouble> {
    let before = Cleaned::read(db, topic).await?;
    if before.deleted >= upto {
        return Ok(0);
    }
    let newest = doc! { "topic": topic.as_str(), "seq": signed(upto) };
    let newest =
        db.call(db.events.find_one(newest).projection(doc! { "_id": 0, "seq": 1, "end": 1 })).await?;
    let Some(newest) = newest else {
        let what =
            format!("event {upto} of topic {topic} is missing, and the topic cannot be deleted up to it");
        return Err(Trouble::Damaged(what));
    };
    let end = document::place(topic, &newest)?.end;
    // Nothing above it was removed yet, so these counts are exact; the cleaner counts only what it removes above it.
    let mark = doc! { "$set": {
        "deleted": signed(upto), "removed.events": signed(upto), "removed.bytes": signed(end),
    } };
    let unmarked = doc! { "_id": topic.as_str(), "deleted": { "$not": { "$gte": signed(upto) } } };
    match db.call(db.topics.update_one(unmarked, mark).upsert(true)).await {
        Ok(_) => Ok(upto.saturating_sub(before.removed_events)),
        // Another hub has marked it meanwhile.
        Err(Trouble::Driver(error)) if is_duplicate(&error) => Ok(0),
        Err(trouble) => Err(trouble),
    }
}

fn is_duplicate(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == 11000)
}

/// Whether the cleaner has removed everything up to `upto`, but for the newest record.
pub async fn is_removed(db: &Db, topic: &TopicName, upto: u64) -> Result<bool, Trouble> {
    let (first, tail) = tokio::try_join!(read::first(db, topic), read_tail(db, topic, None))?;
    Ok(first.is_none_or(|first| first > upto || first >= tail.seq))
}
