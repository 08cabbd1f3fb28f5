//! How far a log reaches, and positions in it.

use crate::append::{past, topic::read_tail};
use crate::db::Db;
use crate::document::{self, signed};
use crate::error::Trouble;
use crate::topics::Cleaned;
use hub_core::Millis;
use hub_core::store::Bounds;
use hub_proto::{EventId, TopicName};
use mongodb::bson::{Document, doc};

/// The extent of a topic.
///
/// How many events there are and how large they are costs no counting: numbers have no gaps, every record carries the
/// bytes of the log up to its end, and the cleaner counts what it removes in the transaction that removes it.
pub async fn bounds(db: &Db, topic: &TopicName) -> Result<Bounds, Trouble> {
    let (tail, beginning, cleaned) =
        tokio::try_join!(read_tail(db, topic, None), first(db, topic), Cleaned::read(db, topic))?;
    if tail.seq == 0 {
        return Ok(Bounds::default());
    }
    let beginning = match beginning {
        Some(beginning) => beginning,
        // The first events have come between the two looks: where they begin is not where they end.
        None => first(db, topic).await?.unwrap_or(tail.seq),
    };
    Ok(extent(beginning.min(tail.seq), tail.seq, tail.committed, tail.end, &cleaned))
}

/// Puts together what was read in parts.
pub fn extent(first: u64, last: u64, last_committed: Millis, end: u64, cleaned: &Cleaned) -> Bounds {
    Bounds {
        first,
        last,
        events: last.saturating_sub(cleaned.removed_events),
        bytes: end.saturating_sub(cleaned.removed_bytes),
        last_committed,
    }
}

/// The lowest seq that is there.
pub async fn first(db: &Db, topic: &TopicName) -> Result<Option<u64>, Trouble> {
    one_seq(db, topic, doc! { "topic": topic.as_str() }, doc! { "seq": 1 }).await
}

/// The highest seq whose commit time is before `time`.
pub async fn seq_before(db: &Db, topic: &TopicName, time: Millis) -> Result<u64, Trouble> {
    // The end comes first: what is appended meanwhile is found, or lies behind it.
    let tail = read_tail(db, topic, None).await?;
    let since = doc! { "topic": topic.as_str(), "committed": { "$gte": signed(time) } };
    let found = one_seq(db, topic, since, doc! { "committed": 1, "seq": 1 }).await?;
    Ok(found.map_or(tail.seq, |seq| seq.saturating_sub(1)))
}

/// Where an id is, or was.
pub async fn seq_of(db: &Db, topic: &TopicName, id: EventId) -> Result<Option<u64>, Trouble> {
    let filter = doc! { "topic": topic.as_str(), "id": past::uuid(id) };
    if let Some(seq) = one_seq(db, topic, filter, doc! {}).await? {
        return Ok(Some(seq));
    }
    Ok(past::look_up(db, topic, &[id]).await?.first().map(|past| past.seq))
}

async fn one_seq(
    db: &Db,
    topic: &TopicName,
    filter: Document,
    sort: Document,
) -> Result<Option<u64>, Trouble> {
    let find = db.events.find_one(filter).sort(sort).projection(doc! { "_id": 0, "seq": 1 });
    match db.call(find).await? {
        Some(found) => Ok(Some(document::place(topic, &found)?.seq)),
        None => Ok(None),
    }
}
