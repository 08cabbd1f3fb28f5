//! The port: what a database has to be able to do.

use super::row::{NewRow, Place, Ready, Row, RowId, RowStatus, Shown};
use super::shares::Shares;
use crate::Millis;
use crate::store::StoreResult;
use futures_core::future::BoxFuture;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Who holds rows: a drainer, and the how manieth time it has claimed some.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The drainer, under the name that it has at the moment.
    pub worker: Arc<str>,
    /// The number of the claim.
    pub number: u64,
}

/// What becomes of a claimed row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the log.
    Sent,
    /// It never will be, unless somebody does something. It counts as one more attempt.
    Parked {
        /// What the hub said.
        error: String,
    },
    /// It has failed once more, and is due again after a while.
    Retry {
        /// How long, in milliseconds.
        after: Millis,
        /// What the hub said.
        error: String,
    },
    /// Nothing was tried: it is due again at once.
    Returned,
    /// Nothing was tried, and it is not due before an earlier one of its key was sent.
    Behind,
}

/// A row and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The row.
    pub id: RowId,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// How an outbox stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that are to be published, claimed ones among them.
    pub pending: u64,
    /// Those of them that are behind others.
    pub behind: u64,
    /// Rows that are parked.
    pub errors: u64,
    /// How old the oldest is that is to be published.
    pub oldest_age: Option<Millis>,
}

/// Which rows hold others up.
#[derive(Clone, Copy, Debug)]
pub struct Holding<'a> {
    /// What this drainer has claimed goes on by itself.
    pub worker: &'a str,
    /// Whether parked rows do.
    pub parked: bool,
    /// Whether rows behind others do.
    pub behind: bool,
}

/// What a wait for news ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There may be new rows.
    News,
    /// This database cannot say: it has to be looked at now and then.
    Never,
}

/// An outbox in some database. Times are the database's own: drainers' clocks do not matter.
///
/// A pending row is **fresh**, which is how its writer left it; or it is **held** until a time, from when on it is **due**;
/// or it is **behind** another one of its key; see [`Stage`](super::Stage). Whatever comes back from a claim, or from
/// behind, is held: such a row holds later rows of its key up until it is claimed, so nothing overtakes it between two
/// calls.
///
/// Each call is one or a few statements on indexes, whatever the size of the outbox: it looks at rows that it answers or
/// changes, and at no others.
pub trait OutboxStore: Send + Sync + 'static {
    /// What it is called in logs.
    fn name(&self) -> &str;

    /// Writes rows, in a transaction of its own: for those who have no other change to make.
    fn add(&self, rows: Vec<NewRow>) -> BoxFuture<'_, StoreResult<()>>;

    /// Rows that are due, those first that are so for longest.
    fn due(&self, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Ready>>>;

    /// Fresh rows by time and name, behind a place, as they were at one moment: a row of a key is not found without an earlier
    /// one that was written before it. The order is enough if it is so for most rows: all are looked at from the
    /// beginning again and again.
    fn fresh<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> BoxFuture<'a, StoreResult<Vec<Ready>>>;

    /// Fresh rows of these keys before the place that is given for the key, each key's from the first on. At most so many
    /// of each key.
    fn fresh_before<'a>(
        &'a self,
        keys: &'a [(Arc<str>, Place)],
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Ready>>>;

    /// Who holds rows of these keys up: those that are held, unless `worker` has claimed them; of those that are `behind`
    /// and of those that are `parked` the first one of each key, if they are asked for. (Or more than that.)
    fn holding<'a>(&'a self, keys: &'a [Arc<str>], of: Holding<'a>)
    -> BoxFuture<'a, StoreResult<Vec<Ready>>>;

    /// Puts rows behind that are fresh or due.
    fn put_behind<'a>(&'a self, ids: &'a [RowId]) -> BoxFuture<'a, StoreResult<()>>;

    /// Of each of these keys the first rows that are behind others are due, at most so many of a key.
    fn release<'a>(&'a self, keys: &'a [Arc<str>], limit: usize) -> BoxFuture<'a, StoreResult<()>>;

    /// Keys that have rows behind others, in order, from the one given on.
    fn keys_behind<'a>(
        &'a self,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<str>>>>;

    /// Claims those of these rows that are still fresh or due, for a time: from the first on, as many as have at most so many
    /// bytes together, and one at least. Bytes are those of the payload, or of more if the database counts so.
    fn claim<'a>(
        &'a self,
        claim: &'a Claim,
        ids: &'a [RowId],
        lease: Millis,
        most_bytes: usize,
    ) -> BoxFuture<'a, StoreResult<Vec<Row>>>;

    /// More time for everything that a drainer holds under these claims. Answers how many rows that are.
    fn renew<'a>(
        &'a self,
        worker: &'a str,
        claims: RangeInclusive<u64>,
        lease: Millis,
    ) -> BoxFuture<'a, StoreResult<u64>>;

    /// Settles rows of a claim that are still held under it, and whose time has not run out. Answers how many were.
    fn settle<'a>(&'a self, claim: &'a Claim, settled: &'a [Settled]) -> BoxFuture<'a, StoreResult<u64>>;

    /// Rows whose claim has run out are due. Answers how many.
    fn requeue_expired(&self) -> BoxFuture<'_, StoreResult<u64>>;

    /// Rows that are held by these drainers are due. Answers how many.
    fn take_from<'a>(&'a self, workers: &'a [Arc<str>]) -> BoxFuture<'a, StoreResult<u64>>;

    /// How slots are shared at the moment, with a version, and the database's time.
    fn shares(&self) -> BoxFuture<'_, StoreResult<(Shares, u64, Millis)>>;

    /// Shares slots anew, if nobody has done so since that version. Answers whether it took place.
    fn share<'a>(&'a self, shares: &'a Shares, version: u64) -> BoxFuture<'a, StoreResult<bool>>;

    /// Removes rows that were sent more than `age` ago, at most so many. Answers how many.
    fn purge(&self, age: Millis, limit: usize) -> BoxFuture<'_, StoreResult<u64>>;

    /// Parked rows are due, with no attempts behind them: all, or those named. Answers how many.
    fn retry<'a>(&'a self, ids: Option<&'a [RowId]>) -> BoxFuture<'a, StoreResult<u64>>;

    /// How it stands.
    fn counts(&self) -> BoxFuture<'_, StoreResult<Counts>>;

    /// Rows to look at, the oldest first: of all, or of one status.
    fn list(&self, status: Option<RowStatus>, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Shown>>>;

    /// One row, with its payload.
    fn show<'a>(&'a self, id: &'a RowId) -> BoxFuture<'a, StoreResult<Option<Shown>>>;

    /// Waits until there may be new rows, where the database can tell.
    fn news(&self) -> BoxFuture<'_, StoreResult<Woken>>;

    /// Gives the database up: nothing is under way when this is done, and what is asked afterwards is refused. To be called once,
    /// before the program ends.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
