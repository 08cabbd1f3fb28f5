//! The outbox on SQLite.
//!
//! Services in any number of processes write rows into the file, and one hub drains them. The file is in WAL mode, so that
//! nobody who reads holds up who writes. Writers wait for each other, drainers among them, for five seconds at most.

mod add;
mod db;
mod ddl;
#[cfg(test)]
mod plans;
mod rows;
mod statements;
mod store;
mod watch;

use crate::error::{ConnectError, Trouble, within};
use crate::news::Watch;
use crate::options::Options;
use crate::table::Table;
use db::Db;
use hub_core::outbox::NewRow;
use sqlx::sqlite::SqliteJournalMode;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Sqlite, Transaction};
use statements::Statements;
use std::path::PathBuf;
use std::time::Duration;

/// An outbox in a table of a SQLite file.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use hub_outbox_sql::{Options, SqliteOutbox};
/// SqliteOutbox::init("/var/lib/shop.db", &Options::default()).await?;
/// let outbox = SqliteOutbox::open("/var/lib/shop.db", Options::default()).await?;
/// # Ok(())
/// # }
/// ```
pub struct SqliteOutbox {
    db: Db,
    table: Table,
    statements: Statements,
    file: PathBuf,
    name: String,
    poll: Duration,
    watch: Watch,
}

impl SqliteOutbox {
    /// The statements that make the tables of an outbox.
    ///
    /// # Errors
    /// [`ConnectError::Settings`] if a table cannot be called so.
    pub fn ddl(options: &Options) -> Result<String, ConnectError> {
        Ok(ddl::ddl(&Table::parse(&options.table, false)?))
    }

    /// Makes the tables, and the file, if they are not there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn init(place: &str, options: &Options) -> Result<(), ConnectError> {
        let table = Table::parse(&options.table, false)?;
        let file = db::file(place)?.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        let made = within(options.call_limit, async {
            let mut connection = file.connect().await?;
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::raw_sql(AssertSqlSafe(ddl::ddl(&table))).execute(&mut *tx).await?;
            tx.commit().await?;
            connection.close().await
        });
        made.await.map_err(|trouble| {
            db::told(&db::at(&file), &format!("to make table {}", table.plain()), &trouble)
        })
    }

    /// Opens an outbox that was [made](SqliteOutbox::init): a path, or a URL such as `sqlite:///var/lib/shop.db`.
    ///
    /// # Errors
    /// If the file or the table is not there, or cannot be used.
    pub async fn open(place: &str, options: Options) -> Result<Self, ConnectError> {
        let table = Table::parse(&options.table, false)?;
        let file = db::file(place)?.create_if_missing(false);
        let (db, statements) = (Db::open(&file, &options).await?, Statements::of(&table));
        for check in [&statements.check, &statements.check_drainers] {
            let checked = db.try_read(sqlx::query(check.sql())).await;
            checked.map_err(|trouble| db::told_of_table(&db::at(&file), &table, &trouble))?;
        }
        let name = match options.name.is_empty() {
            true => format!("sqlite:{}", table.plain()),
            false => options.name,
        };
        Ok(Self {
            db,
            table,
            statements,
            file: file.get_filename().to_owned(),
            name,
            poll: options.poll,
            watch: Watch::new(),
        })
    }

    /// Writes rows in a transaction of the caller's, with its change: they are published once that is committed, and never
    /// if it is not. A row whose id is there already is left out.
    ///
    /// The transaction should have begun with `BEGIN IMMEDIATE`: SQLite refuses one that read first, if somebody else has
    /// written since.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn add_in(&self, tx: &mut Transaction<'_, Sqlite>, rows: &[NewRow]) -> Result<(), sqlx::Error> {
        add::add(tx, &self.table, rows).await
    }

    /// [`add_in`](SqliteOutbox::add_in) for those who only write.
    ///
    /// # Errors
    /// What SQLite says, or that a table cannot be called so.
    pub async fn add_to(
        table: &str,
        tx: &mut Transaction<'_, Sqlite>,
        rows: &[NewRow],
    ) -> Result<(), sqlx::Error> {
        let table = Table::parse(table, false).map_err(|error| sqlx::Error::Configuration(error.into()))?;
        add::add(tx, &table, rows).await
    }

    async fn add_alone(&self, rows: &[NewRow]) -> Result<(), Trouble> {
        let added = within(self.db.limit(), async {
            let mut tx = self.db.adder.begin_with("BEGIN IMMEDIATE").await?;
            add::add(&mut tx, &self.table, rows).await?;
            tx.commit().await
        });
        added.await?;
        self.watch.news().tell();
        Ok(())
    }
}
