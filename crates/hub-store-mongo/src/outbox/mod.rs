//! The outbox in a collection of any database of any replica set.
//!
//! ```no_run
//! use hub_core::Bus;
//! use hub_core::outbox::{Drainer, DrainerOptions, NewRow};
//! use hub_store_mongo::outbox::{self, MongoOutbox, OutboxOptions};
//! use mongodb::bson::{Document, doc};
//! # async fn run(bus: Bus, client: mongodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // The service: its change and its event, or neither.
//! let shop = client.database("shop");
//! let mut session = client.start_session().await?;
//! session.start_transaction().await?;
//! shop.collection::<Document>("orders").insert_one(doc! { "_id": 7 }).session(&mut session).await?;
//! let placed = NewRow::new("shop.orders.placed", hub_proto::Payload::of(&7)?).key("order-7");
//! outbox::add(&mut session, &shop.collection("outbox"), [placed]).await?;
//! session.commit_transaction().await?;
//!
//! // Somewhere: publishing.
//! let outbox = MongoOutbox::connect(OutboxOptions::new("mongodb://localhost/shop?replicaSet=rs0")).await?;
//! let drainer = Drainer::new(std::sync::Arc::new(outbox), std::sync::Arc::new(bus), DrainerOptions::default());
//! drainer.run(tokio_util::sync::CancellationToken::new()).await;
//! # Ok(())
//! # }
//! ```
//!
//! Drainers write with `w: majority`, and publish a row after their claim of it is on a majority of the set. So is the row,
//! then, which is older: no event is published whose transaction an election rolls back.

mod change;
mod connect;
mod find;
mod news;
mod relaxed;
mod row;

pub use connect::OutboxOptions;

use crate::calls::Calls;
use crate::error::{ConnectError, Trouble};
use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::outbox::{
    Claim, Counts, Holding, NewRow, OutboxStore, Place, Ready, Row, RowId, RowStatus, Settled, Shares, Shown,
    Woken,
};
use hub_core::store::StoreResult;
use mongodb::bson::RawDocumentBuf;
use mongodb::{ClientSession, Collection, Database};
use news::News;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Writes rows in a transaction of a service's own. The collection is one of the session's client.
pub async fn add(
    session: &mut ClientSession,
    outbox: &Collection<RawDocumentBuf>,
    rows: impl IntoIterator<Item = NewRow>,
) -> mongodb::error::Result<()> {
    let rows: Vec<_> = rows.into_iter().map(|row| row::write(&row)).collect();
    outbox.insert_many(rows).session(session).await.map(drop)
}

/// See the module.
#[derive(Debug)]
pub struct MongoOutbox {
    name: String,
    database: Database,
    rows: Collection<RawDocumentBuf>,
    /// The record of who drains which slots.
    drainers: Collection<mongodb::bson::Document>,
    news: News,
    calls: Calls,
    /// Whether the indexes may be missing.
    look_only: bool,
}

impl MongoOutbox {
    /// Connects, and makes the indexes.
    pub async fn connect(options: OutboxOptions) -> Result<Self, ConnectError> {
        connect::connect(options).await
    }

    /// Waits for a call, but not for ever.
    async fn call<T>(&self, call: impl IntoFuture<Output = mongodb::error::Result<T>>) -> Result<T, Trouble> {
        self.calls.within(CALL_LIMIT, call).await
    }
}

/// The calls of the port, each of which is a method of the same name in `find` or `change`.
macro_rules! calls {
    ($($name:ident as $inner:ident($($argument:ident: $of:ty),*) -> $answer:ty;)+) => {
        $(
            fn $name<'a>(&'a self, $($argument: $of),*) -> BoxFuture<'a, StoreResult<$answer>> {
                Box::pin(async move { Ok(self.$inner($($argument),*).await?) })
            }
        )+
    };
}

impl OutboxStore for MongoOutbox {
    fn name(&self) -> &str {
        &self.name
    }

    calls! {
        add as insert(rows: Vec<NewRow>) -> ();
        due as find_due(limit: usize) -> Vec<Ready>;
        fresh as find_fresh(after: Option<&'a Place>, limit: usize) -> Vec<Ready>;
        fresh_before as find_before(keys: &'a [(Arc<str>, Place)], limit: usize) -> Vec<Ready>;
        holding as find_holding(keys: &'a [Arc<str>], of: Holding<'a>) -> Vec<Ready>;
        keys_behind as find_keys_behind(after: Option<&'a str>, limit: usize) -> Vec<Arc<str>>;
        counts as count() -> Counts;
        list as find_shown(status: Option<RowStatus>, limit: usize) -> Vec<Shown>;
        show as find_one_shown(id: &'a RowId) -> Option<Shown>;
        put_behind as move_behind(ids: &'a [RowId]) -> ();
        release as move_from_behind(keys: &'a [Arc<str>], limit: usize) -> ();
        claim as claim_rows(claim: &'a Claim, ids: &'a [RowId], lease: Millis, most_bytes: usize) -> Vec<Row>;
        renew as renew_claims(worker: &'a str, claims: RangeInclusive<u64>, lease: Millis) -> u64;
        settle as settle_rows(claim: &'a Claim, settled: &'a [Settled]) -> u64;
        requeue_expired as take_expired() -> u64;
        take_from as take_from_dead(workers: &'a [Arc<str>]) -> u64;
        shares as read_shares() -> (Shares, u64, Millis);
        share as write_shares(shares: &'a Shares, version: u64) -> bool;
        purge as remove_sent(age: Millis, limit: usize) -> u64;
        retry as retry_parked(ids: Option<&'a [RowId]>) -> u64;
        news as wait_for_news() -> Woken;
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.news.end().await;
            self.calls.close(self.database.client()).await;
        })
    }
}
