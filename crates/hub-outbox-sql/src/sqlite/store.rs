//! The port, on SQLite.

use super::rows::{claimed, get, number, ready, shown};
use super::{SqliteOutbox, watch};
use crate::content::{Change, NO_ORD, count, span};
use crate::statement::Statement;
use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::outbox::{
    Claim, Counts, Holding, NewRow, OutboxStore, Outcome, Place, Ready, Row, RowId, RowStatus, Settled,
    Shares, Shown, Stage, Woken,
};
use hub_core::store::{StoreError, StoreResult};
use serde_json::json;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use std::ops::RangeInclusive;
use std::sync::Arc;

fn ask(statement: &Statement) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(statement.sql())
}

/// Names as the JSON text that statements take.
fn names(ids: &[RowId]) -> String {
    json!(ids.iter().map(RowId::as_str).collect::<Vec<_>>()).to_string()
}

fn texts(texts: &[Arc<str>]) -> String {
    json!(texts.iter().map(|text| &**text).collect::<Vec<_>>()).to_string()
}

fn number_of(claim: &Claim) -> i64 {
    i64::try_from(claim.number).unwrap_or(i64::MAX)
}

fn read<T>(rows: &[SqliteRow], read: impl Fn(&SqliteRow) -> StoreResult<T>) -> StoreResult<Vec<T>> {
    rows.iter().map(read).collect()
}

/// The row of a statement that always has one.
fn only(rows: &[SqliteRow]) -> StoreResult<&SqliteRow> {
    rows.first()
        .ok_or_else(|| StoreError::Damaged("SQLite answered nothing where there is always a row".into()))
}

impl OutboxStore for SqliteOutbox {
    fn name(&self) -> &str {
        &self.name
    }

    fn add(&self, rows: Vec<NewRow>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { self.add_alone(&rows).await.map_err(Into::into) })
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let rows = self.db.read(ask(&self.statements.due).bind(count(limit))).await?;
            read(&rows, ready)
        })
    }

    fn fresh<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let query = match after {
                None => ask(&self.statements.fresh).bind(count(limit)),
                Some(after) => ask(&self.statements.fresh_after)
                    .bind(count(limit))
                    .bind(millis(after))
                    .bind(after.id.as_str()),
            };
            read(&self.db.read(query).await?, ready)
        })
    }

    fn fresh_before<'a>(
        &'a self,
        keys: &'a [(Arc<str>, Place)],
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let asked: Vec<_> = keys
                .iter()
                .map(|(key, place)| {
                    json!([&**key, place.ord.unwrap_or(NO_ORD), millis(place), place.id.as_str()])
                })
                .collect();
            let query = ask(&self.statements.fresh_before).bind(json!(asked).to_string()).bind(count(limit));
            let mut found = read(&self.db.read(query).await?, ready)?;
            // Two lists per key, the first of which comes first.
            found.sort_by(|a, b| (&a.key, &a.place).cmp(&(&b.key, &b.place)));
            let mut of_key = 0;
            let mut last: Option<Arc<str>> = None;
            found.retain(|row| {
                of_key = if row.key == last { of_key + 1 } else { 1 };
                last.clone_from(&row.key);
                of_key <= limit
            });
            Ok(found)
        })
    }

    fn holding<'a>(
        &'a self,
        keys: &'a [Arc<str>],
        of: Holding<'a>,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let query = ask(&self.statements.holding)
                .bind(texts(keys))
                .bind(of.worker)
                .bind(of.behind)
                .bind(of.parked);
            read(&self.db.read(query).await?, ready)
        })
    }

    fn put_behind<'a>(&'a self, ids: &'a [RowId]) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.db.count(ask(&self.statements.put_behind).bind(names(ids))).await?;
            Ok(())
        })
    }

    fn release<'a>(&'a self, keys: &'a [Arc<str>], limit: usize) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            let query = ask(&self.statements.release).bind(texts(keys)).bind(count(limit));
            if self.db.count(query).await? > 0 {
                self.watch.news().tell();
            }
            Ok(())
        })
    }

    fn keys_behind<'a>(
        &'a self,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<str>>>> {
        Box::pin(async move {
            let query = match after {
                None => ask(&self.statements.keys_behind).bind(count(limit)),
                Some(after) => ask(&self.statements.keys_behind_after).bind(count(limit)).bind(after),
            };
            read(&self.db.read(query).await?, |row| Ok(get::<String>(row, "key")?.as_str().into()))
        })
    }

    fn claim<'a>(
        &'a self,
        claim: &'a Claim,
        ids: &'a [RowId],
        lease: Millis,
        most_bytes: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Row>>> {
        Box::pin(async move {
            let query = ask(&self.statements.claim)
                .bind(names(ids))
                .bind(&*claim.worker)
                .bind(number_of(claim))
                .bind(span(lease))
                .bind(count(most_bytes));
            read(&self.db.change_synced(query).await?, claimed)
        })
    }

    fn renew<'a>(
        &'a self,
        worker: &'a str,
        claims: RangeInclusive<u64>,
        lease: Millis,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let renew = ask(&self.statements.renew).bind(worker).bind(span(lease));
        Box::pin(self.db.count(renew.bind(span(*claims.start())).bind(span(*claims.end()))))
    }

    fn settle<'a>(&'a self, claim: &'a Claim, settled: &'a [Settled]) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            let changes: Vec<_> = settled
                .iter()
                .map(|Settled { id, outcome }| {
                    let Change { status, stage, after, failed, error } = Change::of(outcome);
                    let (stage, failed) = (stage.map(Stage::as_str), i32::from(failed));
                    json!([id.as_str(), status.as_str(), stage, span(after), failed, error])
                })
                .collect();
            let query = ask(&self.statements.settle)
                .bind(json!(changes).to_string())
                .bind(&*claim.worker)
                .bind(number_of(claim));
            let held = self.db.count(query).await?;
            if held > 0 && settled.iter().any(|it| it.outcome == Outcome::Returned) {
                self.watch.news().tell();
            }
            Ok(held)
        })
    }

    fn requeue_expired(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.db.count(ask(&self.statements.requeue_expired)))
    }

    fn take_from<'a>(&'a self, workers: &'a [Arc<str>]) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(self.db.count(ask(&self.statements.take_from).bind(texts(workers))))
    }

    fn shares(&self) -> BoxFuture<'_, StoreResult<(Shares, u64, Millis)>> {
        Box::pin(async move {
            let rows = self.db.read(ask(&self.statements.shares)).await?;
            let row = only(&rows)?;
            let shares = match get::<Option<String>>(row, "shares")? {
                Some(json) => serde_json::from_str(&json)
                    .map_err(|error| StoreError::Damaged(format!("the shares of drainers: {error}")))?,
                None => Shares::default(),
            };
            Ok((shares, number(row, "version")?, number(row, "now")?))
        })
    }

    fn share<'a>(&'a self, shares: &'a Shares, version: u64) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            let json = json!(shares).to_string();
            let version = i64::try_from(version).unwrap_or(i64::MAX);
            Ok(self.db.count(ask(&self.statements.share).bind(json).bind(version)).await? == 1)
        })
    }

    fn purge(&self, age: Millis, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(self.db.count(ask(&self.statements.purge).bind(span(age)).bind(count(limit))))
    }

    fn retry<'a>(&'a self, ids: Option<&'a [RowId]>) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            let query = match ids {
                Some(ids) => ask(&self.statements.retry).bind(names(ids)),
                None => ask(&self.statements.retry_all),
            };
            let retried = self.db.count(query).await?;
            self.watch.news().tell();
            Ok(retried)
        })
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<Counts>> {
        Box::pin(async move {
            let rows = self.db.read(ask(&self.statements.counts)).await?;
            let row = only(&rows)?;
            let now: i64 = get(row, "now")?;
            let age = |name| -> StoreResult<Option<Millis>> {
                let oldest: Option<i64> = get(row, name)?;
                Ok(oldest.map(|oldest| now.saturating_sub(oldest).try_into().unwrap_or(0)))
            };
            let oldest_age = age("oldest_fresh")?.max(age("oldest_staged")?);
            let [pending, behind, errors] = ["pending", "behind", "errors"].map(|name| number(row, name));
            Ok(Counts { pending: pending?, behind: behind?, errors: errors?, oldest_age })
        })
    }

    fn list(&self, status: Option<RowStatus>, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Shown>>> {
        Box::pin(async move {
            let statement = match status {
                None => &self.statements.list,
                Some(RowStatus::Pending) => &self.statements.list_pending,
                Some(RowStatus::Claimed) => &self.statements.list_claimed,
                Some(RowStatus::Sent) => &self.statements.list_sent,
                Some(RowStatus::Error) => &self.statements.list_errors,
            };
            let rows = self.db.read(ask(statement).bind(count(limit))).await?;
            read(&rows, |row| shown(row, false))
        })
    }

    fn show<'a>(&'a self, id: &'a RowId) -> BoxFuture<'a, StoreResult<Option<Shown>>> {
        Box::pin(async move {
            let rows = self.db.read(ask(&self.statements.show).bind(id.as_str())).await?;
            rows.first().map(|row| shown(row, true)).transpose()
        })
    }

    fn news(&self) -> BoxFuture<'_, StoreResult<Woken>> {
        let file = self.file.clone();
        Box::pin(self.watch.wait(move |news| watch::watch(file, self.poll, news)))
    }
}

fn millis(place: &Place) -> i64 {
    i64::try_from(place.at / 1000).unwrap_or(i64::MAX)
}
