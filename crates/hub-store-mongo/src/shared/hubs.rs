//! Heartbeats: the collection `hubs`, a document per hub.

use super::{hub_bson, hub_in};
use crate::db::Db;
use crate::document::signed;
use crate::error::Trouble;
use crate::topics::number;
use futures_util::TryStreamExt;
use hub_core::store::{Heartbeat, HubId, HubInfo};
use mongodb::bson::{Document, doc};
use mongodb::options::ReturnDocument;

/// Counts a hub's heartbeat up, and reads everybody's.
pub async fn beat(db: &Db, me: &HubInfo) -> Result<Vec<Heartbeat>, Trouble> {
    let said = doc! { "address": &me.address, "started": signed(me.started), "version": &me.version };
    let update = db
        .hubs
        .find_one_and_update(
            doc! { "_id": hub_bson(me.id) },
            doc! { "$inc": { "count": 1_i64 }, "$set": said },
        )
        .upsert(true)
        .return_document(ReturnDocument::After);
    let own = db
        .call(update)
        .await?
        .ok_or_else(|| Trouble::Damaged("a heartbeat was written and is not there".into()))?;
    let mut beats = all(db).await?;
    beats.retain(|beat| beat.hub.id != me.id);
    // What was just written is the truth, whatever a read of it says.
    beats.extend(read(&own));
    Ok(beats)
}

/// Everybody's, as they are.
pub async fn all(db: &Db) -> Result<Vec<Heartbeat>, Trouble> {
    let all = db.call(async { db.hubs.find(doc! {}).await?.try_collect::<Vec<Document>>().await }).await?;
    Ok(all.iter().filter_map(read).collect())
}

/// Removes heartbeats.
pub async fn forget(db: &Db, hubs: &[HubId]) -> Result<(), Trouble> {
    let hubs: Vec<_> = hubs.iter().map(|&hub| hub_bson(hub)).collect();
    db.call(db.hubs.delete_many(doc! { "_id": { "$in": hubs } })).await.map(drop)
}

/// What is no heartbeat is none of ours.
fn read(document: &Document) -> Option<Heartbeat> {
    let hub = HubInfo {
        id: hub_in(document.get("_id"))?,
        address: document.get_str("address").ok()?.to_owned(),
        started: number(document, "started"),
        version: document.get_str("version").ok()?.to_owned(),
    };
    Some(Heartbeat { hub, count: number(document, "count") })
}
