//! Looking at rows. Every call is a range of an index, or a few.
//!
//! What a claim is chosen by is read at one moment (`snapshot`), the last one that a majority of the set has. A read without
//! that lets writers have a turn now and then and goes on with what they have left: it can find a row that was written behind
//! an earlier one of its key, and not that one; or miss a row that moves from one stage to another.

use super::{MongoOutbox, row};
use crate::error::Trouble;
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::outbox::{Counts, Holding, Place, Ready, RowId, RowStatus, Shares, Shown, Stage};
use mongodb::action::{Action, CountDocuments};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{Hint, ReadConcern};
use std::sync::Arc;
use std::time::Duration;

/// Staged rows of a claim's keys that are read at once. There are more if a key has many rows behind one.
const STAGED: usize = 1_000;

/// How often a read is tried again that cannot be done at one moment, and after how long.
const NO_MOMENT_TRIES: u32 = 20;
const NO_MOMENT_WAIT: Duration = Duration::from_millis(20);

/// Those of the fields that tell where a row stands.
fn place() -> Document {
    doc! { "key": 1, "ord": 1, "ts": 1 }
}

fn in_order() -> Document {
    doc! { "ord": 1, "ts": 1, "_id": 1 }
}

fn list<'a>(keys: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<&'a str> {
    keys.into_iter().map(|key| &**key).collect()
}

fn size(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn read(documents: &[RawDocumentBuf]) -> Vec<Ready> {
    documents.iter().map(|document| row::ready(document)).collect()
}

impl MongoOutbox {
    async fn find(
        &self,
        filter: Document,
        sort: Document,
        limit: usize,
    ) -> Result<Vec<RawDocumentBuf>, Trouble> {
        let batch = u32::try_from(limit).unwrap_or(u32::MAX);
        let find = || {
            let find = self.rows.find(filter.clone()).sort(sort.clone()).limit(size(limit)).batch_size(batch);
            let find = find.projection(place()).read_concern(ReadConcern::snapshot());
            async { find.await?.try_collect().await }
        };
        self.read_at_one_moment(find).await
    }

    /// Reads at one moment. Right after a collection or an index was made there may be none at which it can be read.
    async fn read_at_one_moment<T, F>(&self, read: impl Fn() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = mongodb::error::Result<T>>,
    {
        for _ in 0..NO_MOMENT_TRIES {
            match self.call(read()).await {
                Err(Trouble::Driver(error)) if is_no_moment(&error) => {
                    tokio::time::sleep(NO_MOMENT_WAIT).await;
                }
                read => return read,
            }
        }
        self.call(read()).await
    }

    pub(super) async fn find_due(&self, limit: usize) -> Result<Vec<Ready>, Trouble> {
        let filter = doc! { "status": "pending", "stage": { "$in": waiting() }, "$expr": is_due() };
        let sort = doc! { "next_at": 1, "ts": 1, "_id": 1 };
        Ok(read(&self.find(filter, sort, limit).await?))
    }

    pub(super) async fn find_fresh(
        &self,
        after: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<Ready>, Trouble> {
        let mut filter = doc! { "status": "pending", "stage": null, "next_at": null };
        if let Some(after) = after {
            let ts = row::date(after.at);
            let later = doc! { "ts": { "$gt": &ts } };
            let beside = doc! { "ts": ts, "_id": { "$gt": row::id(&after.id) } };
            filter.insert("$or", [later, beside]);
        }
        Ok(read(&self.find(filter, doc! { "ts": 1, "_id": 1 }, limit).await?))
    }

    /// The first rows of each key that a filter finds, in the key's order, up to a number.
    async fn first_up_to(
        &self,
        keys: Vec<Document>,
        mut filter: Document,
        limit: usize,
    ) -> Result<Vec<RawDocumentBuf>, Trouble> {
        let (of_key, up_to) = (doc! { "$eq": ["$key", "$$key"] }, doc! { "$lte": ["$ord", "$$ord"] });
        filter.insert("$expr", doc! { "$and": [of_key, up_to] });
        let first = [
            doc! { "$match": filter },
            doc! { "$sort": in_order() },
            doc! { "$limit": size(limit) },
            doc! { "$project": place() },
        ];
        let rows = doc! {
            "from": self.rows.name(), "let": { "key": "$key", "ord": "$ord" }, "pipeline": first.to_vec(), "as": "row",
        };
        let pipeline = [
            doc! { "$documents": keys },
            doc! { "$lookup": rows },
            doc! { "$unwind": "$row" },
            doc! { "$replaceRoot": { "newRoot": "$row" } },
        ];
        let find = || {
            let found = self.database.aggregate(pipeline.clone()).read_concern(ReadConcern::snapshot());
            let found = found.with_type::<RawDocumentBuf>();
            async { found.await?.try_collect().await }
        };
        self.read_at_one_moment(find).await
    }

    /// The first rows of each key that a filter finds, in the key's order.
    pub(super) async fn first_of(
        &self,
        keys: &[&str],
        filter: Document,
        limit: usize,
    ) -> Result<Vec<RawDocumentBuf>, Trouble> {
        let keys = keys.iter().map(|key| doc! { "key": key, "ord": Bson::MaxKey }).collect();
        self.first_up_to(keys, filter, limit).await
    }

    pub(super) async fn find_before(
        &self,
        keys: &[(Arc<str>, Place)],
        limit: usize,
    ) -> Result<Vec<Ready>, Trouble> {
        let fresh = doc! { "status": "pending", "stage": null };
        let bounds = keys.iter().map(|(key, before)| doc! { "key": &**key, "ord": before.ord }).collect();
        let mut found = read(&self.first_up_to(bounds, fresh, limit).await?);
        let bounds: HashMap<&Arc<str>, &Place, RandomState> =
            HashMap::from_iter(keys.iter().map(|(key, before)| (key, before)));
        found.retain(|row| {
            let before = row.key.as_ref().and_then(|key| bounds.get(key));
            before.is_some_and(|before| row.place < **before)
        });
        Ok(found)
    }

    pub(super) async fn find_holding(
        &self,
        keys: &[Arc<str>],
        of: Holding<'_>,
    ) -> Result<Vec<Ready>, Trouble> {
        let keys = list(keys);
        let mut stages = vec![Stage::Held.as_str()];
        stages.extend(of.behind.then_some(Stage::Behind.as_str()));
        stages.extend(of.parked.then_some(Stage::Parked.as_str()));
        let not_mine = doc! { "$ne": of.worker };
        let filter = doc! { "stage": { "$in": &stages }, "key": { "$in": &keys }, "claimed_by": &not_mine };
        let found = self.find(filter, doc! {}, STAGED).await?;
        if found.len() < STAGED {
            return Ok(read(&found));
        }
        // The first of those that are behind or parked, then all that are held: a row that is released in between is found held.
        let held = doc! { "stage": stages.remove(0), "key": { "$in": &keys }, "claimed_by": not_mine };
        let mut found = Vec::new();
        for stage in stages {
            found.extend(self.first_of(&keys, doc! { "stage": stage }, 1).await?);
        }
        found.extend(self.find(held, doc! {}, usize::MAX).await?);
        Ok(read(&found))
    }

    pub(super) async fn find_keys_behind(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<str>>, Trouble> {
        // Keys are strings: the empty one is the first.
        let later = after.map_or_else(|| doc! { "$gte": "" }, |after| doc! { "$gt": after });
        let pipeline = [
            doc! { "$match": { "stage": Stage::Behind.as_str(), "key": later } },
            doc! { "$group": { "_id": "$key" } },
            doc! { "$sort": { "_id": 1 } },
            doc! { "$limit": size(limit) },
        ];
        let found = self.rows.aggregate(pipeline);
        let found: Vec<Document> = self.call(async { found.await?.try_collect().await }).await?;
        Ok(found.iter().filter_map(|key| key.get_str("_id").ok()).map(Arc::from).collect())
    }

    pub(super) async fn count(&self) -> Result<Counts, Trouble> {
        let hint = (!self.look_only).then(|| Hint::Name("outbox_pending".into()));
        let fresh = doc! { "status": "pending", "stage": null };
        let fresh = self.rows.count_documents(fresh).optional(hint, CountDocuments::hint);
        let count = |filter: Document| self.call(async move { self.rows.count_documents(filter).await });
        let oldest = |filter: Document| async move {
            let find = self.rows.find_one(filter).sort(doc! { "ts": 1 }).projection(place());
            self.call(find).await
        };
        let (held, behind, parked) = (Stage::Held.as_str(), Stage::Behind.as_str(), Stage::Parked.as_str());
        let in_hand = doc! { "stage": { "$in": [held, behind] } };
        // Fresh ones first, and then those that came of them meanwhile: one that is claimed may count twice, and never not.
        let pending = async {
            let fresh = self.call(fresh).await?;
            let set_back = count(doc! { "stage": parked, "status": "pending" }).await?;
            Ok(fresh + set_back + count(in_hand.clone()).await?)
        };
        let (pending, behind, errors, fresh, staged, now) = tokio::try_join!(
            pending,
            count(doc! { "stage": behind }),
            count(doc! { "stage": parked, "status": "error" }),
            oldest(doc! { "status": "pending", "stage": null, "next_at": null }),
            oldest(in_hand.clone()),
            self.now(),
        )?;
        let oldest = [fresh, staged].into_iter().flatten().map(|row| row::ready(&row).place.at / 1000).min();
        Ok(Counts { pending, behind, errors, oldest_age: oldest.map(|oldest| now.saturating_sub(oldest)) })
    }

    pub(super) async fn find_shown(
        &self,
        status: Option<RowStatus>,
        limit: usize,
    ) -> Result<Vec<Shown>, Trouble> {
        // Each with what leads to its index.
        let all = [
            Bson::Null,
            Stage::Held.as_str().into(),
            Stage::Behind.as_str().into(),
            Stage::Parked.as_str().into(),
        ];
        let mut sort = doc! { "ts": 1, "_id": 1 };
        let filter = match status {
            None => doc! {},
            Some(RowStatus::Pending) => doc! { "status": "pending", "stage": { "$in": all.to_vec() } },
            Some(RowStatus::Claimed) => doc! { "status": "claimed", "claimed_by": { "$gte": "" } },
            Some(RowStatus::Error) => doc! { "status": "error", "stage": Stage::Parked.as_str() },
            Some(RowStatus::Sent) => {
                sort = doc! { "sent_at": 1 };
                doc! { "status": "sent", "sent_at": { "$exists": true } }
            }
        };
        let find = self.rows.find(filter).sort(sort).limit(size(limit));
        let find = find.projection(doc! { "payload": 0, "payload_json": 0, "headers": 0 });
        let found: Vec<RawDocumentBuf> = self.call(async { find.await?.try_collect().await }).await?;
        Ok(found.iter().map(|row| row::shown(row, false)).collect())
    }

    pub(super) async fn find_one_shown(&self, id: &RowId) -> Result<Option<Shown>, Trouble> {
        let meant = row::meant(id).to_vec();
        let found = self.call(self.rows.find_one(doc! { "_id": { "$in": meant } })).await?;
        Ok(found.map(|row| row::shown(&row, true)))
    }

    async fn now(&self) -> Result<Millis, Trouble> {
        let ask = [doc! { "$documents": [{}] }, doc! { "$set": { "now": "$$NOW" } }];
        let answer = self.database.aggregate(ask);
        let answer: Vec<Document> = self.call(async { answer.await?.try_collect().await }).await?;
        Ok(answer.first().map_or(0, time))
    }

    pub(super) async fn read_shares(&self) -> Result<(Shares, u64, Millis), Trouble> {
        let pipeline = [doc! { "$match": { "_id": "shares" } }, doc! { "$set": { "now": "$$NOW" } }];
        let read = || async {
            let found = self.drainers.aggregate(pipeline.clone());
            let found: Vec<Document> = self.call(async { found.await?.try_collect().await }).await?;
            Ok::<_, Trouble>(found.into_iter().next())
        };
        let found = match read().await? {
            Some(found) => found,
            None => {
                let new = doc! { "$setOnInsert": { "version": 0_i64, "shares": "{}" } };
                self.call(self.drainers.update_one(doc! { "_id": "shares" }, new).upsert(true)).await?;
                read().await?.unwrap_or_default()
            }
        };
        let version = crate::topics::number(&found, "version");
        let shares = found.get_str("shares").ok().and_then(|shares| serde_json::from_str(shares).ok());
        Ok((shares.unwrap_or_default(), version, time(&found)))
    }
}

/// Whether a collection cannot be read at the moment that was chosen: `SnapshotUnavailable`.
fn is_no_moment(error: &Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(error) if error.code == 246)
}

/// The server's time in an answer.
fn time(answer: &Document) -> Millis {
    let now = answer.get_datetime("now").map(|now| now.timestamp_millis()).unwrap_or_default();
    Millis::try_from(now).unwrap_or_default()
}

/// Stages of pending rows that wait for their time. One that is parked was set back by hand.
pub fn waiting() -> Vec<&'static str> {
    vec![Stage::Held.as_str(), Stage::Parked.as_str()]
}

/// From when on a row that waits is due, by the server's clock. One without a time is.
pub fn is_due() -> Document {
    doc! { "$lte": ["$next_at", "$$NOW"] }
}

/// Row ids, for a filter.
pub fn all(ids: &[RowId]) -> Document {
    doc! { "$in": ids.iter().map(row::id).collect::<Vec<Bson>>() }
}
