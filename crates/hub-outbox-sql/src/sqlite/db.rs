//! The connections: readers, one that writes for drainers, one that writes for services.

use crate::error::{ConnectError, TableTrouble, Trouble, within};
use crate::options::Options;
use crate::table::Table;
use hub_core::store::{StoreError, StoreResult};
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Sqlite, SqlitePool};
use std::str::FromStr;
use std::time::Duration;

pub type SqliteQuery<'q> = Query<'q, Sqlite, SqliteArguments>;

/// The longest wait for another writer, so that it is told as such before a call takes too long.
const BUSY: Duration = Duration::from_secs(5);

/// Connections that read, at most: each is a thread.
const READERS: u32 = 4;

pub struct Db {
    /// Nothing can be written through them.
    readers: SqlitePool,
    /// What drainers write. Claims are synced ([`Db::change_synced`]); the rest is not before a checkpoint: what a power loss
    /// takes of it is done again, and an event that is published again is the same one.
    writer: SqlitePool,
    /// What services write: synced, before they are told.
    pub adder: SqlitePool,
    limit: Duration,
}

/// Where it is, in words.
pub fn at(file: &SqliteConnectOptions) -> String {
    format!("SQLite at {}", file.get_filename().display())
}

/// A path, or a URL such as `sqlite:///var/lib/shop.db`.
pub fn file(place: &str) -> Result<SqliteConnectOptions, ConnectError> {
    let is_memory = place.contains(":memory:") || place.contains("mode=memory");
    if place.is_empty() || is_memory {
        return Err(ConnectError::Settings(
            "an outbox on SQLite is a file that its writers use, too; name it, as /var/lib/shop.db or \
             sqlite:///var/lib/shop.db"
                .into(),
        ));
    }
    let options = match place.starts_with("sqlite:") {
        true => SqliteConnectOptions::from_str(place).map_err(|error| {
            ConnectError::Settings(format!(
                "the address {place:?} of an outbox cannot be used: {error}; it looks like sqlite:///var/lib/shop.db"
            ))
        })?,
        false => SqliteConnectOptions::new().filename(place),
    };
    Ok(options.disable_statement_logging().thread_name(|_| "outbox-sqlite".into()))
}

impl Db {
    /// Opens a file that is there.
    pub async fn open(file: &SqliteConnectOptions, options: &Options) -> Result<Self, ConnectError> {
        let limit = options.call_limit;
        let busy = BUSY.min(limit / 2);
        let file = file.clone().create_if_missing(false).busy_timeout(busy);
        if !file.get_filename().exists() {
            let (at, table) = (at(&file), options.table.clone());
            return Err(ConnectError::NoTable { at: format!("{at}, which is not there,"), table });
        }
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(limit)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
        };
        let write = |synchronous| file.clone().journal_mode(SqliteJournalMode::Wal).synchronous(synchronous);
        let writer = within(limit, pool(1).connect_with(write(SqliteSynchronous::Normal))).await;
        let writer = writer.map_err(|trouble| told(&at(&file), "to be opened", &trouble))?;
        Ok(Self {
            readers: pool(options.connections.clamp(1, READERS)).connect_lazy_with(reading(&file)),
            writer,
            adder: pool(1).connect_lazy_with(write(SqliteSynchronous::Full)),
            limit,
        })
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Rows that are read.
    pub async fn read(&self, query: SqliteQuery<'_>) -> StoreResult<Vec<SqliteRow>> {
        self.try_read(query).await.map_err(Into::into)
    }

    pub async fn try_read(&self, query: SqliteQuery<'_>) -> Result<Vec<SqliteRow>, Trouble> {
        within(self.limit, query.fetch_all(&self.readers)).await
    }

    /// Rows that are changed, and answered once they are on the disk. So is everything that anybody committed before: it
    /// comes before them in the log, and services need not sync what they commit.
    pub async fn change_synced(&self, query: SqliteQuery<'_>) -> StoreResult<Vec<SqliteRow>> {
        let changed = within(self.limit, async {
            let mut connection = self.writer.acquire().await?;
            // If this is cut off in the middle, more is synced than has to be, until the next time.
            sqlx::query("PRAGMA synchronous = FULL").execute(&mut *connection).await?;
            let rows = query.fetch_all(&mut *connection).await?;
            sqlx::query("PRAGMA synchronous = NORMAL").execute(&mut *connection).await?;
            Ok::<_, sqlx::Error>(rows)
        });
        changed.await.map_err(Into::into)
    }

    /// How many rows are changed.
    pub async fn count(&self, query: SqliteQuery<'_>) -> StoreResult<u64> {
        let done = within(self.limit, query.execute(&self.writer)).await;
        done.map(|done| done.rows_affected()).map_err(Into::into)
    }
}

/// A connection that cannot write.
fn reading(file: &SqliteConnectOptions) -> SqliteConnectOptions {
    file.clone().pragma("query_only", "ON")
}

/// What went wrong with a call that is about the table.
pub fn told_of_table(at: &str, table: &Table, trouble: &Trouble) -> ConnectError {
    let (at, table) = (at.to_owned(), table.plain());
    match trouble.table() {
        Some(TableTrouble::Missing) => ConnectError::NoTable { at, table },
        Some(TableTrouble::Other) => ConnectError::OtherTable { at, table, why: trouble.words() },
        None => told(&at, &format!("to read table {table}"), trouble),
    }
}

/// What went wrong with anything else.
pub fn told(at: &str, what: &str, trouble: &Trouble) -> ConnectError {
    let (at, why) = (at.to_owned(), trouble.words());
    match trouble.is_passing() {
        true => ConnectError::Unreachable { at, why },
        false => ConnectError::Refused { at, what: what.to_owned(), why },
    }
}

/// What was read is not what it should be.
pub fn damaged(error: sqlx::Error) -> StoreError {
    Trouble::from(error).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_named_by_its_path_or_by_a_url() {
        let name = |place: &str| file(place).map(|file| file.get_filename().display().to_string());
        assert_eq!(name("shop.db").unwrap(), "shop.db");
        assert_eq!(name("/a b/shop.db").unwrap(), "/a b/shop.db");
        assert_eq!(name("sqlite:///var/lib/shop.db").unwrap(), "/var/lib/shop.db");
        assert_eq!(name("sqlite:shop.db").unwrap(), "shop.db");
        for bad in ["", ":memory:", "sqlite::memory:", "sqlite://x?mode=memory", "sqlite://x?nonsense=1"] {
            assert!(matches!(name(bad), Err(ConnectError::Settings(_))), "{bad}");
        }
    }
}
