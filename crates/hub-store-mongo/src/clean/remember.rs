//! Telling everybody what will go: the floor, and the ids.

use super::delete::{Block, blocks_of};
use crate::append::past;
use crate::db::Db;
use crate::document;
use crate::error::Trouble;
use crate::read;
use crate::topics::{Cleaned, Ids};
use futures_util::stream::{self, TryStreamExt};
use hub_core::Millis;
use hub_core::store::RangeSet;
use hub_proto::TopicName;
use mongodb::bson::Document;
use mongodb::error::ErrorKind;
use parking_lot::Mutex;

/// Ids that are written at once.
const BLOCK: u64 = 1000;
/// Blocks that are remembered at the same time: while ids of one are written, events of the other are read.
const BLOCKS: usize = 2;

/// Writes down what goes. Doing it twice changes nothing.
pub async fn announce(
    db: &Db,
    topic: &TopicName,
    seqs: &RangeSet,
    ids_since: Millis,
    cleaned: &Cleaned,
) -> Result<(), Trouble> {
    let Some((_, highest)) = seqs.iter().last() else { return Ok(()) };
    Cleaned::announce(db, topic, highest, cleaned.ids).await?;
    // Nobody has to remember what was committed before.
    let forgotten = read::seq_before(db, topic, ids_since).await?;
    let mut young = seqs.clone();
    young.remove_upto(forgotten);
    let announced = Mutex::new(cleaned.ids);
    stream::iter(blocks_of(BLOCK, &young).map(Ok))
        .try_for_each_concurrent(BLOCKS, |block| remember(db, topic, block, highest, &announced))
        .await
}

/// Writes down the ids of a block.
async fn remember(
    db: &Db,
    topic: &TopicName,
    block: Block,
    floor: u64,
    announced: &Mutex<Ids>,
) -> Result<(), Trouble> {
    let mut entries: Vec<Document> = Vec::new();
    let mut ids = *announced.lock();
    // One event after the other: they may be of a megabyte each.
    let mut found = db.call(db.events.find(block.filter(topic))).await?;
    while db.call(found.advance()).await? {
        let event = document::event(topic, found.current())?;
        ids.add(event.id());
        let oid =
            found.current().get_object_id("_id").map_err(|error| Trouble::Damaged(error.to_string()))?;
        entries.push(past::document(&event, oid));
    }
    if entries.is_empty() {
        return Ok(());
    }
    if ids != *announced.lock() {
        // Before the ids themselves: nobody looks for what is said not to be there.
        Cleaned::announce(db, topic, floor, ids).await?;
        announced.lock().merge(ids);
    }
    insert(db, entries).await
}

/// Inserts what is not there yet.
async fn insert(db: &Db, entries: Vec<Document>) -> Result<(), Trouble> {
    let trouble = match db.call(db.dedupe.insert_many(entries).ordered(false)).await {
        Ok(_) => return Ok(()),
        Err(trouble) => trouble,
    };
    if let Trouble::Driver(error) = &trouble
        && let ErrorKind::InsertMany(failed) = error.kind.as_ref()
        && failed.write_concern_error.is_none()
        && failed.write_errors.iter().flatten().all(|error| error.code == 11000)
    {
        return Ok(());
    }
    Err(trouble)
}
