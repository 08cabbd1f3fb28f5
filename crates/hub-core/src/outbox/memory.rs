//! An outbox in memory: what the databases do, in its plainest form.

use super::row::{NewRow, Place, Ready, Row, RowId, RowStatus, Shown, Stage};
use super::shares::Shares;
use super::store::{Claim, Counts, Holding, OutboxStore, Outcome, Settled, Woken};
use crate::store::StoreResult;
use crate::{Clock, Millis, SystemClock};
use futures_core::future::BoxFuture;
use hub_proto::{EventId, PublishOptions};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::Notify;

/// See the module. Cloning gives another handle.
#[derive(Clone)]
pub struct MemoryOutbox {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<RowId, Stored>,
    shares: Shares,
    version: u64,
}

struct Stored {
    row: NewRow,
    key: Option<Arc<str>>,
    status: RowStatus,
    stage: Option<Stage>,
    /// From when on it is due, if it has been in somebody's hands.
    next_at: Option<Millis>,
    claim: Option<(Claim, Millis)>,
    attempts: u32,
    error: Option<String>,
    sent_at: Millis,
}

impl Stored {
    fn place(&self) -> Place {
        Place { ord: self.row.ord, at: self.row.at, id: self.row.id.into() }
    }

    fn ready(&self) -> Ready {
        Ready { key: self.key.clone(), place: self.place() }
    }

    fn is_fresh(&self) -> bool {
        self.status == RowStatus::Pending && self.stage.is_none()
    }

    fn is_due(&self, now: Millis) -> bool {
        let is_held = self.status == RowStatus::Pending && self.stage == Some(Stage::Held);
        is_held && self.next_at.is_none_or(|at| at <= now)
    }

    /// It is due then.
    fn requeue(&mut self, at: Millis) {
        (self.status, self.stage) = (RowStatus::Pending, Some(Stage::Held));
        (self.next_at, self.claim) = (Some(at), None);
    }

    fn claimed(&self) -> Row {
        let options = PublishOptions {
            ts: Some(self.row.at / 1000),
            key: self.row.key.clone(),
            headers: self.row.headers.clone(),
            ..PublishOptions::default()
        };
        Row {
            key: self.key.clone(),
            place: self.place(),
            attempts: self.attempts,
            waited: self.next_at.is_some(),
            event: Row::event(
                &self.row.id.to_string(),
                &self.row.topic,
                options,
                Ok(self.row.payload.clone()),
            ),
        }
    }

    fn shown(&self, with_payload: bool) -> Shown {
        let payload = with_payload.then(|| String::from_utf8_lossy(self.row.payload.as_bytes()).into_owned());
        Shown {
            id: self.row.id.to_string(),
            topic: self.row.topic.clone(),
            key: self.row.key.clone(),
            ord: self.row.ord,
            status: self.status,
            ts: self.row.at / 1000,
            attempts: self.attempts,
            error: self.error.clone(),
            claimed_by: self.claim.as_ref().map(|(claim, _)| claim.worker.to_string()),
            behind: self.stage == Some(Stage::Behind),
            payload: payload.and_then(|json| serde_json::value::RawValue::from_string(json).ok()),
        }
    }
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::new()))
    }
}

impl MemoryOutbox {
    /// An empty one, whose time is this clock's steady one.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { clock, state: Mutex::default(), news: Notify::new() }) }
    }

    /// What a row is up to, and what was said of it.
    pub fn row(&self, id: EventId) -> Option<(RowStatus, Option<String>)> {
        let state = self.inner.state.lock();
        state.rows.get(&id.into()).map(|row| (row.status, row.error.clone()))
    }

    /// Removes a row, as somebody would by hand.
    pub fn remove(&self, id: EventId) -> bool {
        self.inner.state.lock().rows.remove(&id.into()).is_some()
    }

    fn now(&self) -> Millis {
        self.inner.clock.steady()
    }

    /// Every answer is given at once.
    fn with<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut State) -> T,
    ) -> BoxFuture<'static, StoreResult<T>> {
        let answer = look(&mut self.inner.state.lock());
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn change(
        &self,
        is_meant: impl Fn(&Stored) -> bool,
        change: impl Fn(&mut Stored),
    ) -> BoxFuture<'static, StoreResult<u64>> {
        self.with(|state| {
            let mut changed = 0;
            for row in state.rows.values_mut().filter(|row| is_meant(row)) {
                change(row);
                changed += 1;
            }
            changed
        })
    }
}

fn by_time(mut rows: Vec<Ready>) -> Vec<Ready> {
    rows.sort_by(|a, b| a.place.in_time().cmp(&b.place.in_time()));
    rows
}

impl OutboxStore for MemoryOutbox {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn add(&self, rows: Vec<NewRow>) -> BoxFuture<'_, StoreResult<()>> {
        let added = self.with(|state| {
            for row in rows {
                let key = row.key.as_deref().map(Arc::from);
                state.rows.entry(row.id.into()).or_insert(Stored {
                    row,
                    key,
                    status: RowStatus::Pending,
                    stage: None,
                    next_at: None,
                    claim: None,
                    attempts: 0,
                    error: None,
                    sent_at: 0,
                });
            }
        });
        self.inner.news.notify_waiters();
        added
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Ready>>> {
        let now = self.now();
        self.with(|state| {
            let mut due: Vec<_> = state.rows.values().filter(|row| row.is_due(now)).collect();
            due.sort_by_key(|row| (row.next_at, row.row.at));
            due.into_iter().map(Stored::ready).take(limit).collect()
        })
    }

    fn fresh<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        self.with(|state| {
            let fresh = state.rows.values().filter(|row| row.is_fresh()).map(Stored::ready).collect();
            let is_meant = |row: &Ready| after.is_none_or(|after| row.place.in_time() > after.in_time());
            by_time(fresh).into_iter().filter(is_meant).take(limit).collect()
        })
    }

    fn fresh_before<'a>(
        &'a self,
        keys: &'a [(Arc<str>, Place)],
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        self.with(|state| {
            let mut found = Vec::new();
            for (key, before) in keys {
                let is_meant =
                    |row: &&Stored| row.is_fresh() && row.key.as_ref() == Some(key) && row.place() < *before;
                let mut of_key: Vec<_> = state.rows.values().filter(is_meant).map(Stored::ready).collect();
                of_key.sort_by(|a, b| a.place.cmp(&b.place));
                found.extend(of_key.into_iter().take(limit));
            }
            found
        })
    }

    fn holding<'a>(
        &'a self,
        keys: &'a [Arc<str>],
        of: Holding<'a>,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        self.with(|state| {
            let is_mine =
                |row: &Stored| row.claim.as_ref().is_some_and(|(claim, _)| &*claim.worker == of.worker);
            let holds = |row: &&Stored| match row.stage {
                None => false,
                Some(Stage::Held) => !is_mine(row),
                Some(Stage::Behind) => of.behind,
                Some(Stage::Parked) => of.parked,
            };
            let of_keys = |row: &&Stored| row.key.as_ref().is_some_and(|key| keys.contains(key));
            state.rows.values().filter(of_keys).filter(holds).map(Stored::ready).collect()
        })
    }

    fn put_behind<'a>(&'a self, ids: &'a [RowId]) -> BoxFuture<'a, StoreResult<()>> {
        let now = self.now();
        self.with(|state| {
            for id in ids {
                if let Some(row) = state.rows.get_mut(id).filter(|row| row.is_fresh() || row.is_due(now)) {
                    (row.stage, row.next_at) = (Some(Stage::Behind), Some(now));
                }
            }
        })
    }

    fn release<'a>(&'a self, keys: &'a [Arc<str>], limit: usize) -> BoxFuture<'a, StoreResult<()>> {
        let now = self.now();
        let released = self.with(|state| {
            for key in keys {
                let is_meant =
                    |row: &&mut Stored| row.stage == Some(Stage::Behind) && row.key.as_ref() == Some(key);
                let mut behind: Vec<_> = state.rows.values_mut().filter(is_meant).collect();
                behind.sort_by_key(|row| row.place());
                behind.into_iter().take(limit).for_each(|row| row.requeue(now));
            }
        });
        self.inner.news.notify_waiters();
        released
    }

    fn keys_behind<'a>(
        &'a self,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<str>>>> {
        self.with(|state| {
            let keys: BTreeSet<&Arc<str>> = state
                .rows
                .values()
                .filter(|row| row.stage == Some(Stage::Behind))
                .filter_map(|row| row.key.as_ref())
                .collect();
            let keys = keys.into_iter().filter(|key| after.is_none_or(|after| &***key > after));
            keys.take(limit).cloned().collect()
        })
    }

    fn claim<'a>(
        &'a self,
        claim: &'a Claim,
        ids: &'a [RowId],
        lease: Millis,
        most_bytes: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Row>>> {
        let now = self.now();
        self.with(|state| {
            let mut claimed = Vec::new();
            let mut bytes = 0;
            for id in ids {
                let Some(row) = state.rows.get_mut(id) else { continue };
                if row.is_fresh() || row.is_due(now) {
                    bytes += row.row.payload.len();
                    if bytes > most_bytes && !claimed.is_empty() {
                        break;
                    }
                    claimed.push(row.claimed());
                    (row.status, row.stage) = (RowStatus::Claimed, Some(Stage::Held));
                    row.claim = Some((claim.clone(), now + lease));
                }
            }
            claimed
        })
    }

    fn renew<'a>(
        &'a self,
        worker: &'a str,
        claims: RangeInclusive<u64>,
        lease: Millis,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let now = self.now();
        let is_held = |claim: &Claim| &*claim.worker == worker && claims.contains(&claim.number);
        let is_meant = |row: &Stored| row.claim.as_ref().is_some_and(|(claim, _)| is_held(claim));
        self.change(is_meant, |row| row.claim.iter_mut().for_each(|(_, until)| *until = now + lease))
    }

    fn settle<'a>(&'a self, claim: &'a Claim, settled: &'a [Settled]) -> BoxFuture<'a, StoreResult<u64>> {
        let now = self.now();
        let news = settled.iter().any(|it| it.outcome == Outcome::Returned);
        let answer = self.with(|state| {
            let mut held = 0;
            for Settled { id, outcome } in settled {
                let Some(row) = state.rows.get_mut(id) else { continue };
                if row.claim.as_ref().is_none_or(|(holder, until)| holder != claim || *until <= now) {
                    continue;
                }
                held += 1;
                match outcome {
                    Outcome::Sent => {
                        (row.status, row.stage, row.next_at) = (RowStatus::Sent, None, None);
                        (row.claim, row.error) = (None, None);
                        row.sent_at = now;
                    }
                    Outcome::Parked { error } => {
                        (row.status, row.stage) = (RowStatus::Error, Some(Stage::Parked));
                        row.claim = None;
                        row.attempts += 1;
                        row.error = Some(error.clone());
                    }
                    Outcome::Retry { after, error } => {
                        row.requeue(now + after);
                        row.attempts += 1;
                        row.error = Some(error.clone());
                    }
                    Outcome::Returned => row.requeue(now),
                    Outcome::Behind => {
                        row.requeue(now);
                        row.stage = Some(Stage::Behind);
                    }
                }
            }
            held
        });
        if news {
            self.inner.news.notify_waiters();
        }
        answer
    }

    fn requeue_expired(&self) -> BoxFuture<'_, StoreResult<u64>> {
        let now = self.now();
        let is_meant = |row: &Stored| row.claim.as_ref().is_some_and(|(_, until)| *until <= now);
        self.change(is_meant, |row| row.requeue(now))
    }

    fn take_from<'a>(&'a self, workers: &'a [Arc<str>]) -> BoxFuture<'a, StoreResult<u64>> {
        let now = self.now();
        let is_meant =
            |row: &Stored| row.claim.as_ref().is_some_and(|(claim, _)| workers.contains(&claim.worker));
        self.change(is_meant, |row| row.requeue(now))
    }

    fn shares(&self) -> BoxFuture<'_, StoreResult<(Shares, u64, Millis)>> {
        let now = self.now();
        self.with(|state| (state.shares.clone(), state.version, now))
    }

    fn share<'a>(&'a self, shares: &'a Shares, version: u64) -> BoxFuture<'a, StoreResult<bool>> {
        self.with(|state| {
            let is_known = state.version == version;
            if is_known {
                state.shares = shares.clone();
                state.version += 1;
            }
            is_known
        })
    }

    fn purge(&self, age: Millis, limit: usize) -> BoxFuture<'_, StoreResult<u64>> {
        let now = self.now();
        self.with(|state| {
            let is_old =
                |row: &Stored| row.status == RowStatus::Sent && row.sent_at.saturating_add(age) <= now;
            let old: Vec<_> = state
                .rows
                .iter()
                .filter(|(_, row)| is_old(row))
                .map(|(id, _)| id.clone())
                .take(limit)
                .collect();
            old.iter().for_each(|id| drop(state.rows.remove(id)));
            old.len() as u64
        })
    }

    fn retry<'a>(&'a self, ids: Option<&'a [RowId]>) -> BoxFuture<'a, StoreResult<u64>> {
        let now = self.now();
        let is_meant = |row: &Stored| {
            row.status == RowStatus::Error && ids.is_none_or(|ids| ids.contains(&row.row.id.into()))
        };
        let retried = self.change(is_meant, |row| {
            row.requeue(now);
            row.attempts = 0;
        });
        self.inner.news.notify_waiters();
        retried
    }

    fn counts(&self) -> BoxFuture<'_, StoreResult<Counts>> {
        let now = self.inner.clock.wall();
        self.with(|state| {
            let mut counts = Counts::default();
            for row in state.rows.values() {
                match row.status {
                    RowStatus::Pending | RowStatus::Claimed => {
                        counts.pending += 1;
                        counts.behind += u64::from(row.stage == Some(Stage::Behind));
                        let age = now.saturating_sub(row.row.at / 1000);
                        counts.oldest_age = Some(counts.oldest_age.map_or(age, |oldest| oldest.max(age)));
                    }
                    RowStatus::Error => counts.errors += 1,
                    RowStatus::Sent => {}
                }
            }
            counts
        })
    }

    fn list(&self, status: Option<RowStatus>, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Shown>>> {
        self.with(|state| {
            let mut rows: Vec<_> =
                state.rows.values().filter(|row| status.is_none_or(|status| row.status == status)).collect();
            rows.sort_by_key(|row| row.row.at);
            rows.into_iter().take(limit).map(|row| row.shown(false)).collect()
        })
    }

    fn show<'a>(&'a self, id: &'a RowId) -> BoxFuture<'a, StoreResult<Option<Shown>>> {
        self.with(|state| state.rows.get(id).map(|row| row.shown(true)))
    }

    fn news(&self) -> BoxFuture<'_, StoreResult<Woken>> {
        Box::pin(async {
            self.inner.news.notified().await;
            Ok(Woken::News)
        })
    }
}
