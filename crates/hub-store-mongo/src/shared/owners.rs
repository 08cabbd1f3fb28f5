//! Who owns which name.

use super::{held, hub_bson, hub_in};
use crate::db::{Db, durable};
use crate::document::signed;
use crate::error::Trouble;
use crate::groups::name_id;
use crate::read::{self, FoundGroups};
use crate::topics::number;
use futures_util::TryStreamExt;
use hub_core::store::{Claim, HubId, Ownership, StoreError, StoreResult};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::{ReadConcern, ReturnDocument, UpdateOneModel};

/// Who owns a name now.
pub async fn owner(db: &Db, name: &str) -> Result<Ownership, Trouble> {
    let find = db.groups.find_one(doc! { "_id": name_id(name) });
    // The server waits for a majority here, and has to be told how long.
    let find = find.read_concern(ReadConcern::linearizable()).max_time(db.call_limit);
    Ok(db.call(find).await?.as_ref().map(read_owner).unwrap_or_default())
}

/// Names and owners that a filter finds.
pub async fn find(db: &Db, filter: Document) -> Result<Vec<(String, Ownership)>, Trouble> {
    let found = async { db.groups.find(filter).await?.try_collect::<Vec<Document>>().await };
    let found = db.call(found).await?;
    let named =
        found.iter().filter_map(|found| Some((found.get_str("name").ok()?.to_owned(), read_owner(found))));
    Ok(named.collect())
}

fn read_owner(document: &Document) -> Ownership {
    let edges =
        document.get_array("edges").map(|edges| edges.iter().filter_map(|edge| hub_in(Some(edge))).collect());
    Ownership {
        hub: hub_in(document.get("hub")),
        epoch: number(document, "epoch"),
        edges: edges.unwrap_or_default(),
    }
}

/// Takes a name over if its epoch is the one that was seen.
pub async fn claim(db: &Db, name: &str, seen: u64, me: HubId) -> Result<Claim, Trouble> {
    let new = doc! { "name": name, "fence": 0_i64, "edges": [] };
    let take = doc! { "$set": { "hub": hub_bson(me) }, "$inc": { "epoch": 1_i64 }, "$setOnInsert": new };
    // A name that nobody ever had has no document. If somebody makes one meanwhile, the insert clashes with it.
    let update = db
        .groups
        .find_one_and_update(held(name, seen), take)
        .upsert(seen == 0)
        .return_document(ReturnDocument::After);
    match db.call(update).await {
        Ok(Some(won)) => {
            let owner = read_owner(&won);
            Ok(Claim::Won { epoch: owner.epoch, edges: owner.edges })
        }
        Ok(None) => Ok(Claim::Lost(owner(db, name).await?)),
        Err(trouble) if is_duplicate(&trouble) => Ok(Claim::Lost(owner(db, name).await?)),
        Err(trouble) => Err(trouble),
    }
}

fn is_duplicate(trouble: &Trouble) -> bool {
    let Trouble::Driver(error) = trouble else { return false };
    match error.kind.as_ref() {
        ErrorKind::Command(error) => error.code == 11000,
        ErrorKind::Write(WriteFailure::WriteError(error)) => error.code == 11000,
        _ => false,
    }
}

/// Raises the epochs of those names that a hub owns; answers them. Two round trips.
pub async fn renew(db: &Db, names: &[&str], me: HubId) -> Result<Vec<(String, u64)>, Trouble> {
    let ids: Vec<Bson> = names.iter().map(|name| name_id(name).into()).collect();
    let owned = doc! { "_id": { "$in": ids }, "hub": hub_bson(me) };
    // A primary that is elected in between knows what the one before had written.
    let mut session = db.call(db.client.start_session().causal_consistency(true)).await?;
    let raise = db.groups.update_many(owned.clone(), doc! { "$inc": { "epoch": 1_i64 } });
    db.call(async { raise.session(&mut session).await }).await?;
    let find = db.groups.find(owned).projection(doc! { "_id": 0, "name": 1, "epoch": 1 });
    let find = find.batch_size(u32::try_from(names.len() + 1).unwrap_or(u32::MAX));
    let found: Vec<Document> = db
        .call(async {
            let mut found = find.session(&mut session).await?;
            found.stream(&mut session).try_collect().await
        })
        .await?;
    let named = found.iter().filter_map(|found| {
        let name = found.get_str("name").ok()?.to_owned();
        Some((name, number(found, "epoch")))
    });
    Ok(named.collect())
}

/// Notes where an owner serves members.
pub async fn set_edges(db: &Db, name: &str, epoch: u64, edges: &[HubId]) -> Result<StoreResult<()>, Trouble> {
    let edges: Vec<Bson> = edges.iter().map(|&edge| hub_bson(edge)).collect();
    let update = db.groups.update_one(held(name, epoch), doc! { "$set": { "edges": edges } });
    let matched = db.call(update).await?.matched_count;
    Ok(if matched > 0 { Ok(()) } else { Err(StoreError::Fenced(name.to_owned())) })
}

/// Gives names up that are held under these epochs.
pub async fn release(db: &Db, names: &[(String, u64)]) -> Result<(), Trouble> {
    if names.is_empty() {
        return Ok(());
    }
    let models: Vec<UpdateOneModel> = names
        .iter()
        .map(|(name, epoch)| {
            let update = doc! { "$unset": { "hub": "" } };
            UpdateOneModel::builder()
                .namespace(db.groups_namespace())
                .filter(held(name, *epoch))
                .update(update)
                .build()
        })
        .collect();
    db.call(db.client.bulk_write(models).ordered(false).write_concern(durable())).await.map(drop)
}

/// Raises the fence of a group name, then those of its documents, then reads those that have it.
///
/// A document that the last owner makes in between has the old fence. It is not in the estate, and that owner takes it away
/// again when it sees the name's fence.
pub async fn estate(db: &Db, group: &str, epoch: u64) -> Result<FoundGroups, Trouble> {
    let fence = signed(epoch);
    let mut session = db.call(db.client.start_session().causal_consistency(true)).await?;
    let new = doc! { "name": group, "epoch": 0_i64, "edges": [] };
    let raise = doc! { "$max": { "fence": fence }, "$setOnInsert": new };
    let name = db.groups.update_one(doc! { "_id": name_id(group) }, raise).upsert(true);
    db.call(async { name.session(&mut session).await }).await?;
    let lower = doc! { "group": group, "fence": { "$lt": fence } };
    let documents =
        db.groups.update_many(lower, doc! { "$set": { "fence": fence }, "$inc": { "rev": 1_i64 } });
    db.call(async { documents.session(&mut session).await }).await?;
    read::groups_in(db, &mut session, doc! { "group": group, "fence": { "$gte": fence } }).await
}
