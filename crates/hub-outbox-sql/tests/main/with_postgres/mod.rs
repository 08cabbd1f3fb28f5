//! PostgreSQL.

mod connecting;
mod plans;
mod restarts;
mod strangers;
mod tls;
mod transactions;

use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{Options, PostgresOutbox};
use hub_testbed::postgres::{self, Database};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;

/// A database of a test's own, with the tables of an outbox in it.
pub async fn database() -> Database {
    let database = postgres::database().await.unwrap();
    PostgresOutbox::init(&database.url(), &Options::default()).await.unwrap();
    database
}

pub async fn open(database: &Database) -> Arc<PostgresOutbox> {
    Arc::new(PostgresOutbox::connect(&database.url(), Options::default()).await.unwrap())
}

/// Somebody else's connection.
pub async fn connect(database: &Database) -> PgConnection {
    PgConnection::connect(&database.url()).await.unwrap()
}

/// An outbox for the suite. The database goes with the runtime, at the end of the test.
async fn outbox() -> Arc<dyn OutboxStore> {
    let database = database().await;
    let outbox = open(&database).await;
    tokio::spawn(async move {
        let _database = database;
        std::future::pending::<()>().await;
    });
    outbox
}

hub_core::outbox_suite!(conformance, outbox);
