//! SQLite.

mod busy;
mod opening;
#[cfg(target_os = "linux")]
mod power;
mod strangers;
mod transactions;

use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{Options, SqliteOutbox};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A file of a test's own. It goes with this value.
pub struct File {
    _dir: TempDir,
    pub path: String,
}

impl File {
    /// With the tables of an outbox in it.
    pub async fn new() -> Self {
        Self::new_in(&std::env::temp_dir()).await
    }

    /// In some directory.
    pub async fn new_in(dir: &Path) -> Self {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let path = dir.path().join("shop.db").to_str().unwrap().to_owned();
        SqliteOutbox::init(&path, &Options::default()).await.unwrap();
        Self { _dir: dir, path }
    }

    pub async fn open(&self) -> Arc<SqliteOutbox> {
        Arc::new(SqliteOutbox::open(&self.path, Options::default()).await.unwrap())
    }

    /// Somebody else's connection.
    pub async fn connect(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(&self.path).connect().await.unwrap()
    }
}

/// An outbox for the suite. The file goes with the runtime, at the end of the test.
async fn outbox() -> Arc<dyn OutboxStore> {
    let file = File::new().await;
    let outbox = file.open().await;
    tokio::spawn(async move {
        let _file = file;
        std::future::pending::<()>().await;
    });
    outbox
}

hub_core::outbox_suite!(conformance, outbox);
