//! Changing rows. Every change asks for what it expects to find, and takes its times from the server.

use super::find::{all, is_due, waiting};
use super::{MongoOutbox, row};
use crate::error::Trouble;
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::Millis;
use hub_core::outbox::{Claim, NewRow, Outcome, Row, RowId, Settled, Shares, Stage};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use std::ops::RangeInclusive;

/// The server's time in so many milliseconds.
fn after(millis: Millis) -> Document {
    doc! { "$add": ["$$NOW", signed(millis)] }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4)
}

/// What a claim leaves in a row.
fn let_go() -> Document {
    doc! { "$unset": ["claimed_by", "claim", "lease_until"] }
}

/// It is pending, and due then.
fn requeue(at: impl Into<Bson>) -> Vec<Document> {
    let held = doc! { "status": "pending", "stage": Stage::Held.as_str(), "next_at": at.into() };
    vec![doc! { "$set": held }, let_go()]
}

fn one_more_attempt(error: &str) -> Document {
    let attempts = doc! { "$add": [{ "$ifNull": ["$attempts", 0] }, 1] };
    doc! { "attempts": attempts, "error": { "$literal": error } }
}

/// A row that nobody has in hand, and that waits for nothing.
fn free(ids: &[RowId]) -> Document {
    let stages = std::iter::once(Bson::Null).chain(waiting().into_iter().map(Bson::from));
    let stages: Vec<Bson> = stages.collect();
    doc! { "_id": all(ids), "status": "pending", "stage": { "$in": stages }, "$expr": is_due() }
}

impl MongoOutbox {
    async fn update(&self, filter: Document, pipeline: Vec<Document>) -> Result<u64, Trouble> {
        Ok(self.call(self.rows.update_many(filter, pipeline)).await?.matched_count)
    }

    pub(super) async fn insert(&self, rows: Vec<NewRow>) -> Result<(), Trouble> {
        if rows.is_empty() {
            return Ok(());
        }
        self.call(self.rows.insert_many(rows.iter().map(row::write))).await.map(drop)
    }

    pub(super) async fn move_behind(&self, ids: &[RowId]) -> Result<(), Trouble> {
        let behind = doc! { "stage": Stage::Behind.as_str() };
        self.update(free(ids), vec![doc! { "$set": behind }]).await.map(drop)
    }

    pub(super) async fn move_from_behind(
        &self,
        keys: &[std::sync::Arc<str>],
        limit: usize,
    ) -> Result<(), Trouble> {
        let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
        let behind = doc! { "stage": Stage::Behind.as_str() };
        let found = self.first_of(&keys, behind, limit).await?;
        if found.is_empty() {
            return Ok(());
        }
        let ids: Vec<RowId> = found.iter().map(|found| row::ready(found).place.id).collect();
        let filter = doc! { "_id": all(&ids), "status": "pending", "stage": Stage::Behind.as_str() };
        self.update(filter, requeue("$$NOW")).await.map(drop)
    }

    pub(super) async fn claim_rows(
        &self,
        claim: &Claim,
        ids: &[RowId],
        lease: Millis,
        most_bytes: usize,
    ) -> Result<Vec<Row>, Trouble> {
        let ids = self.fitting(ids, most_bytes).await?;
        let mine = doc! {
            "status": "claimed",
            "stage": Stage::Held.as_str(),
            "claimed_by": { "$literal": &*claim.worker },
            "claim": signed(claim.number),
            "lease_until": after(lease),
        };
        if self.update(free(&ids), vec![doc! { "$set": mine }]).await? == 0 {
            return Ok(Vec::new());
        }
        let find = self.rows.find(held_by(claim));
        let found: Vec<RawDocumentBuf> = self.call(async { find.await?.try_collect().await }).await?;
        Ok(found.iter().map(|document| row::claimed(document)).collect())
    }

    /// The first rows that have at most so many bytes together, and one at least.
    async fn fitting(&self, ids: &[RowId], most_bytes: usize) -> Result<Vec<RowId>, Trouble> {
        if ids.len() < 2 {
            return Ok(ids.to_vec());
        }
        let size = doc! { "bytes": { "$bsonSize": "$$ROOT" } };
        let found = self.rows.aggregate([doc! { "$match": free(ids) }, doc! { "$project": size }]);
        let found = found.with_type::<RawDocumentBuf>();
        let found: Vec<RawDocumentBuf> = self.call(async { found.await?.try_collect().await }).await?;
        let sizes: HashMap<RowId, usize, RandomState> = found
            .iter()
            .map(|found| {
                (row::ready(found).place.id, found.get_i32("bytes").map_or(0, |bytes| bytes as usize))
            })
            .collect();
        let mut bytes = 0;
        let sized = ids.iter().filter_map(|id| Some((id, *sizes.get(id)?)));
        let fitting = sized.enumerate().take_while(|(at, (_, size))| {
            bytes += size;
            *at == 0 || bytes <= most_bytes
        });
        Ok(fitting.map(|(_, (id, _))| id.clone()).collect())
    }

    pub(super) async fn renew_claims(
        &self,
        worker: &str,
        claims: RangeInclusive<u64>,
        lease: Millis,
    ) -> Result<u64, Trouble> {
        let numbers = doc! { "$gte": signed(*claims.start()), "$lte": signed(*claims.end()) };
        let held = doc! { "status": "claimed", "claimed_by": worker, "claim": numbers };
        let renewed = doc! { "lease_until": after(lease) };
        self.update(held, vec![doc! { "$set": renewed }]).await
    }

    /// One command, however many rows.
    pub(super) async fn settle_rows(&self, claim: &Claim, settled: &[Settled]) -> Result<u64, Trouble> {
        let statement = |ids: Bson, pipeline: Vec<Document>| {
            let mut filter = held_by(claim);
            filter.insert("_id", ids);
            // Whose lease has run out settles nothing, even if nobody else has the row yet.
            filter.insert("$expr", doc! { "$gt": ["$lease_until", "$$NOW"] });
            doc! { "q": filter, "u": pipeline, "multi": true }
        };
        let alike = |outcome: &Outcome| -> Vec<RowId> {
            let these = settled.iter().filter(|settled| settled.outcome == *outcome);
            these.map(|settled| settled.id.clone()).collect()
        };
        let sent = vec![
            doc! { "$set": { "status": "sent", "sent_at": "$$NOW" } },
            doc! { "$unset": ["stage", "next_at", "claimed_by", "claim", "lease_until", "error"] },
        ];
        let mut behind = requeue("$$NOW");
        behind.insert(1, doc! { "$set": { "stage": Stage::Behind.as_str() } });
        let mut statements = Vec::new();
        for (outcome, pipeline) in
            [(Outcome::Sent, sent), (Outcome::Returned, requeue("$$NOW")), (Outcome::Behind, behind)]
        {
            let ids = alike(&outcome);
            if !ids.is_empty() {
                statements.push(statement(all(&ids).into(), pipeline));
            }
        }
        for Settled { id, outcome } in settled {
            let pipeline = match outcome {
                Outcome::Retry { after: wait, error } => {
                    let mut pipeline = requeue(after(*wait));
                    pipeline.push(doc! { "$set": one_more_attempt(error) });
                    pipeline
                }
                Outcome::Parked { error } => {
                    let mut parked = one_more_attempt(error);
                    parked.insert("status", "error");
                    parked.insert("stage", Stage::Parked.as_str());
                    vec![doc! { "$set": parked }, let_go()]
                }
                Outcome::Sent | Outcome::Returned | Outcome::Behind => continue,
            };
            statements.push(statement(row::id(id), pipeline));
        }
        let command = doc! {
            "update": self.rows.name(), "updates": statements, "ordered": false,
            "writeConcern": { "w": "majority", "j": true, "wtimeout": 10_000 },
        };
        let answer = self.call(self.database.run_command(command)).await?;
        check(&answer)?;
        Ok(crate::topics::number(&answer, "n"))
    }

    pub(super) async fn take_expired(&self) -> Result<u64, Trouble> {
        let expired = doc! { "$lte": ["$lease_until", "$$NOW"] };
        let filter = doc! { "status": "claimed", "claimed_by": { "$gte": "" }, "$expr": expired };
        self.update(filter, requeue("$$NOW")).await
    }

    pub(super) async fn take_from_dead(&self, workers: &[std::sync::Arc<str>]) -> Result<u64, Trouble> {
        let workers: Vec<&str> = workers.iter().map(|worker| &**worker).collect();
        let filter = doc! { "status": "claimed", "claimed_by": { "$in": workers } };
        self.update(filter, requeue("$$NOW")).await
    }

    pub(super) async fn write_shares(&self, shares: &Shares, version: u64) -> Result<bool, Trouble> {
        let text = serde_json::to_string(shares).map_err(|error| Trouble::Damaged(error.to_string()))?;
        let filter = doc! { "_id": "shares", "version": signed(version) };
        let change = doc! { "$set": { "shares": text }, "$inc": { "version": 1_i64 } };
        Ok(self.call(self.drainers.update_one(filter, change)).await?.matched_count == 1)
    }

    pub(super) async fn remove_sent(&self, age: Millis, limit: usize) -> Result<u64, Trouble> {
        let old = doc! { "$lte": ["$sent_at", { "$subtract": ["$$NOW", signed(age)] }] };
        let filter = doc! { "status": "sent", "sent_at": { "$exists": true }, "$expr": old };
        let find = self
            .rows
            .find(filter)
            .sort(doc! { "sent_at": 1 })
            .limit(limit as i64)
            .projection(doc! { "_id": 1 });
        let found: Vec<RawDocumentBuf> = self.call(async { find.await?.try_collect().await }).await?;
        if found.is_empty() {
            return Ok(0);
        }
        let ids: Vec<RowId> = found.iter().map(|found| row::ready(found).place.id).collect();
        let removed = self.rows.delete_many(doc! { "_id": all(&ids), "status": "sent" });
        Ok(self.call(removed).await?.deleted_count)
    }

    pub(super) async fn retry_parked(&self, ids: Option<&[RowId]>) -> Result<u64, Trouble> {
        let mut filter = doc! { "status": "error", "stage": Stage::Parked.as_str() };
        if let Some(ids) = ids {
            filter.insert("_id", doc! { "$in": ids.iter().flat_map(row::meant).collect::<Vec<Bson>>() });
        }
        let mut pipeline = requeue("$$NOW");
        pipeline.push(doc! { "$set": { "attempts": 0 } });
        self.update(filter, pipeline).await
    }
}

fn held_by(claim: &Claim) -> Document {
    doc! { "status": "claimed", "claimed_by": &*claim.worker, "claim": signed(claim.number) }
}

/// A command says of single statements what went wrong with them, and of the whole that it went well.
fn check(answer: &Document) -> Result<(), Trouble> {
    let failed =
        answer.get_array("writeErrors").ok().and_then(|errors| errors.first()?.as_document().cloned());
    let failed = failed.or_else(|| answer.get_document("writeConcernError").ok().cloned());
    let Some(failed) = failed else { return Ok(()) };
    let failure = mongodb::bson::deserialize_from_document(failed.clone()).map(WriteFailure::WriteError);
    match failure {
        Ok(failure) => Err(Trouble::Driver(Error::from(ErrorKind::Write(failure)))),
        Err(_) => Err(Trouble::Damaged(failed.to_string())),
    }
}
