//! An outbox that fails when it is told to.

use crate::Millis;
use crate::outbox::{
    Claim, Counts, Holding, NewRow, OutboxStore, Place, Ready, Row, RowId, RowStatus, Settled, Shares, Shown,
    Woken,
};
use crate::store::{StoreError, StoreResult};
use futures_core::future::BoxFuture;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxFault {
    /// Nothing is done.
    Refuse,
    /// It is done, and nobody hears of it.
    LoseAnswer,
    /// It is done, and answered after so many milliseconds.
    Late(Millis),
    /// It is done after so many milliseconds.
    Slow(Millis),
}

type Script = Box<dyn FnMut(&'static str) -> Option<OutboxFault> + Send>;

/// Another outbox, with faults. Cloning gives another handle.
#[derive(Clone)]
pub struct FaultyOutbox {
    inner: Arc<dyn OutboxStore>,
    script: Arc<Mutex<Option<Script>>>,
}

impl FaultyOutbox {
    /// Without faults, for now.
    pub fn new(inner: Arc<dyn OutboxStore>) -> Self {
        Self { inner, script: Arc::default() }
    }

    /// From now on every call is put to `script`, by its name.
    pub fn script(&self, script: impl FnMut(&'static str) -> Option<OutboxFault> + Send + 'static) {
        *self.script.lock() = Some(Box::new(script));
    }

    /// No faults any more.
    pub fn heal(&self) {
        *self.script.lock() = None;
    }

    async fn pass<T>(&self, call: &'static str, inner: BoxFuture<'_, StoreResult<T>>) -> StoreResult<T> {
        let fault = self.script.lock().as_mut().and_then(|script| script(call));
        let wait = |millis| tokio::time::sleep(Duration::from_millis(millis));
        match fault {
            None => inner.await,
            Some(OutboxFault::Refuse) => Err(lost(call)),
            Some(OutboxFault::LoseAnswer) => inner.await.and_then(|_| Err(lost(call))),
            Some(OutboxFault::Late(millis)) => {
                let answer = inner.await;
                wait(millis).await;
                answer
            }
            Some(OutboxFault::Slow(millis)) => {
                wait(millis).await;
                inner.await
            }
        }
    }
}

fn lost(call: &str) -> StoreError {
    StoreError::Unavailable(format!("{call} was lost on purpose"))
}

/// The calls of the port. What they do is done when they are awaited, not when they are made.
macro_rules! calls {
    ($($name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)+) => {
        $(
            fn $name<'a>(&'a self, $($argument: $of),*) -> BoxFuture<'a, StoreResult<$answer>> {
                let call = async move { self.inner.$name($($argument),*).await };
                Box::pin(self.pass(stringify!($name), Box::pin(call)))
            }
        )+
    };
}

impl OutboxStore for FaultyOutbox {
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Told apart as `fresh` and `fresh_after`.
    fn fresh<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> BoxFuture<'a, StoreResult<Vec<Ready>>> {
        let name = if after.is_some() { "fresh_after" } else { "fresh" };
        let call = async move { self.inner.fresh(after, limit).await };
        Box::pin(self.pass(name, Box::pin(call)))
    }

    calls! {
        add(rows: Vec<NewRow>) -> ();
        due(limit: usize) -> Vec<Ready>;
        fresh_before(keys: &'a [(Arc<str>, Place)], limit: usize) -> Vec<Ready>;
        holding(keys: &'a [Arc<str>], of: Holding<'a>) -> Vec<Ready>;
        put_behind(ids: &'a [RowId]) -> ();
        release(keys: &'a [Arc<str>], limit: usize) -> ();
        keys_behind(after: Option<&'a str>, limit: usize) -> Vec<Arc<str>>;
        claim(claim: &'a Claim, ids: &'a [RowId], lease: Millis, most_bytes: usize) -> Vec<Row>;
        renew(worker: &'a str, claims: RangeInclusive<u64>, lease: Millis) -> u64;
        settle(claim: &'a Claim, settled: &'a [Settled]) -> u64;
        requeue_expired() -> u64;
        take_from(workers: &'a [Arc<str>]) -> u64;
        shares() -> (Shares, u64, Millis);
        share(shares: &'a Shares, version: u64) -> bool;
        purge(age: Millis, limit: usize) -> u64;
        retry(ids: Option<&'a [RowId]>) -> u64;
        counts() -> Counts;
        list(status: Option<RowStatus>, limit: usize) -> Vec<Shown>;
        show(id: &'a RowId) -> Option<Shown>;
        news() -> Woken;
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
