//! Telling everybody what will go: the floor, and the ids.

use super::delete::blocks_of;
use crate::append::past;
use crate::db::Db;
use crate::document;
use crate::error::Trouble;
use crate::read;
use crate::topics::Cleaned;
use futures_util::TryStreamExt;
use hub_core::Millis;
use hub_core::store::RangeSet;
use hub_proto::TopicName;
use mongodb::bson::Document;
use mongodb::error::ErrorKind;

/// Records that are read at once: they may be of a megabyte each.
const READ: u64 = 64;

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
    let mut ids = cleaned.ids;
    for block in blocks_of(READ, &young) {
        let find = async { db.events.find(block.filter(topic)).await?.try_collect::<Vec<_>>().await };
        let mut entries: Vec<Document> = Vec::new();
        let mut known = ids;
        for found in db.call(find).await? {
            let event = document::event(topic, &found)?;
            known.add(event.id());
            let oid = found.get_object_id("_id").map_err(|error| Trouble::Damaged(error.to_string()))?;
            entries.push(past::document(&event, oid));
        }
        if known != ids {
            // Before the ids themselves: nobody looks for what is said not to be there.
            Cleaned::announce(db, topic, highest, known).await?;
            ids = known;
        }
        if !entries.is_empty() {
            insert(db, entries).await?;
        }
    }
    Ok(())
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
