//! The port, on PostgreSQL.

use super::PostgresOutbox;
use super::db::PgQuery;
use super::listen::Ear;
use super::rows::{claimed, get, ready, shown, uuid, uuids};
use super::stamp::Stamp;
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
use sqlx::postgres::PgRow;
use std::ops::RangeInclusive;
use std::sync::Arc;
use uuid::Uuid;

fn ask(statement: &Statement) -> PgQuery<'static> {
    sqlx::query(statement.sql())
}

fn texts(texts: &[Arc<str>]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn number_of(claim: &Claim) -> i64 {
    i64::try_from(claim.number).unwrap_or(i64::MAX)
}

fn read<T>(rows: &[PgRow], read: impl Fn(&PgRow) -> StoreResult<T>) -> StoreResult<Vec<T>> {
    rows.iter().map(read).collect()
}

/// The row of a statement that always has one.
fn only(rows: &[PgRow]) -> StoreResult<&PgRow> {
    rows.first()
        .ok_or_else(|| StoreError::Damaged("PostgreSQL answered nothing where there is always a row".into()))
}

/// A text that can be in the database: anything but the one letter that it does not take.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A number that is never negative.
fn number(row: &PgRow, name: &str) -> StoreResult<u64> {
    Ok(get::<Option<i64>>(row, name)?.and_then(|number| number.try_into().ok()).unwrap_or(0))
}

impl OutboxStore for PostgresOutbox {
    fn name(&self) -> &str {
        &self.name
    }

    fn add(&self, rows: Vec<NewRow>) -> BoxFuture<'_, StoreResult<()>> {
        Box::pin(async move { self.add_alone(&rows).await.map_err(Into::into) })
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let rows = self.db.rows(ask(&self.statements.due).bind(count(limit))).await?;
            read(&rows, ready)
        })
    }

    fn fresh<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let query = match after {
                None => ask(&self.statements.fresh).bind(count(limit)),
                Some(after) => ask(&self.statements.fresh_after)
                    .bind(count(limit))
                    .bind(Stamp::from(after.at))
                    .bind(uuid(&after.id).unwrap_or_default()),
            };
            read(&self.db.rows(query).await?, ready)
        })
    }

    fn fresh_before<'a>(
        &'a self,
        keys: &'a [(Arc<str>, Place)],
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        Box::pin(async move {
            let places = || keys.iter().map(|(_, place)| place);
            let query = ask(&self.statements.fresh_before)
                .bind(keys.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>())
                .bind(places().map(|place| place.ord.unwrap_or(NO_ORD)).collect::<Vec<_>>())
                .bind(places().map(|place| Stamp::from(place.at)).collect::<Vec<_>>())
                .bind(places().map(|place| uuid(&place.id).unwrap_or_default()).collect::<Vec<Uuid>>())
                .bind(count(limit));
            read(&self.db.rows(query).await?, ready)
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
            read(&self.db.rows(query).await?, ready)
        })
    }

    fn put_behind<'a>(&'a self, ids: &'a [RowId]) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            self.db.count(ask(&self.statements.put_behind).bind(uuids(ids))).await?;
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
            read(&self.db.rows(query).await?, |row| Ok(get::<String>(row, "key")?.as_str().into()))
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
                .bind(uuids(ids))
                .bind(&*claim.worker)
                .bind(number_of(claim))
                .bind(span(lease))
                .bind(count(most_bytes));
            read(&self.db.rows(query).await?, claimed)
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
            let settled: Vec<_> =
                settled.iter().filter_map(|it| Some((uuid(&it.id)?, &it.outcome))).collect();
            let changes: Vec<_> = settled.iter().map(|(_, outcome)| Change::of(outcome)).collect();
            let query = ask(&self.statements.settle)
                .bind(settled.iter().map(|(id, _)| *id).collect::<Vec<_>>())
                .bind(changes.iter().map(|it| it.status.as_str()).collect::<Vec<_>>())
                .bind(changes.iter().map(|it| it.stage.map(Stage::as_str)).collect::<Vec<_>>())
                .bind(changes.iter().map(|it| span(it.after)).collect::<Vec<_>>())
                .bind(changes.iter().map(|it| i32::from(it.failed)).collect::<Vec<_>>())
                .bind(changes.iter().map(|it| it.error.map(storable)).collect::<Vec<_>>())
                .bind(&*claim.worker)
                .bind(number_of(claim));
            let held = self.db.count(query).await?;
            if held > 0 && settled.iter().any(|(_, outcome)| **outcome == Outcome::Returned) {
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
            let rows = self.db.rows(ask(&self.statements.shares)).await?;
            let row = only(&rows)?;
            let shares = match get::<Option<String>>(row, "shares")? {
                Some(json) => serde_json::from_str(&json)
                    .map_err(|error| StoreError::Damaged(format!("the shares of drainers: {error}")))?,
                None => Shares::default(),
            };
            Ok((shares, number(row, "version")?, get::<Stamp>(row, "now")?.millis()))
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
                Some(ids) => ask(&self.statements.retry).bind(uuids(ids)),
                None => ask(&self.statements.retry_all),
            };
            let retried = self.db.count(query).await?;
            if retried > 0 {
                let tell = ask(&self.statements.notify).bind(self.channel.clone()).bind("");
                self.db.rows(tell).await?;
                self.watch.news().tell();
            }
            Ok(retried)
        })
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<Counts>> {
        Box::pin(async move {
            let rows = self.db.rows(ask(&self.statements.counts)).await?;
            let row = only(&rows)?;
            let now = get::<Stamp>(row, "now")?.millis();
            let oldest: Option<Stamp> = get(row, "oldest")?;
            let oldest_age = oldest.map(|oldest| now.saturating_sub(oldest.millis()));
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
            let rows = self.db.rows(ask(statement).bind(count(limit))).await?;
            read(&rows, |row| shown(row, false))
        })
    }

    fn show<'a>(&'a self, id: &'a RowId) -> BoxFuture<'a, StoreResult<Option<Shown>>> {
        Box::pin(async move {
            let Some(id) = uuid(id) else { return Ok(None) };
            let rows = self.db.rows(ask(&self.statements.show).bind(id)).await?;
            rows.first().map(|row| shown(row, true)).transpose()
        })
    }

    fn news(&self) -> BoxFuture<'_, StoreResult<Woken>> {
        let ear = || Ear {
            server: self.server.clone(),
            db: self.db.clone(),
            channel: self.channel.clone(),
            notify: self.statements.notify.clone(),
            name: self.name.clone(),
        };
        Box::pin(self.watch.wait(move |news| ear().listen(news)))
    }
}
