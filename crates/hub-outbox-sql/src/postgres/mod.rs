//! The outbox on PostgreSQL.
//!
//! Any number of hubs may drain one table. Times are the server's. A trigger tells drainers of new rows; writers pay for
//! that with a lock that PostgreSQL takes for the commit of a transaction that has notified.

mod add;
mod db;
mod ddl;
mod listen;
mod rows;
mod stamp;
mod statements;
mod store;

use crate::error::{ConnectError, Trouble, within};
use crate::news::Watch;
use crate::options::Options;
use crate::table::Table;
use db::{Db, Server};
use hub_core::outbox::NewRow;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Postgres, Transaction};
use statements::Statements;

/// What those who make tables at once wait for, so that they do not get into each other's way.
const INIT_LOCK: i64 = 0x6576_656e_7468_7562;

/// An outbox in a table of PostgreSQL.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use hub_outbox_sql::{Options, PostgresOutbox};
/// let url = "postgres://shop:secret@db/shop";
/// PostgresOutbox::init(url, &Options::default()).await?;
/// let outbox = PostgresOutbox::connect(url, Options::default()).await?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresOutbox {
    db: Db,
    statements: Statements,
    server: Server,
    channel: String,
    name: String,
    watch: Watch,
}

impl PostgresOutbox {
    /// The statements that make the tables of an outbox.
    ///
    /// # Errors
    /// [`ConnectError::Settings`] if a table cannot be called so.
    pub fn ddl(options: &Options) -> Result<String, ConnectError> {
        Ok(ddl::ddl(&Table::parse(&options.table, true)?))
    }

    /// Makes the tables, if they are not there.
    ///
    /// # Errors
    /// If the server cannot be reached, or the user may not.
    pub async fn init(url: &str, options: &Options) -> Result<(), ConnectError> {
        let (server, table) = (Server::of(url)?, Table::parse(&options.table, true)?);
        let made = within(options.call_limit, async {
            let mut connection = server.options.connect().await?;
            let mut tx = connection.begin().await?;
            sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(INIT_LOCK).execute(&mut *tx).await?;
            sqlx::raw_sql(AssertSqlSafe(ddl::ddl(&table))).execute(&mut *tx).await?;
            tx.commit().await?;
            connection.close().await
        });
        made.await.map_err(|trouble| server.told(&format!("to make table {}", table.plain()), &trouble))
    }

    /// Connects to an outbox that was [made](PostgresOutbox::init).
    ///
    /// # Errors
    /// If the server cannot be reached, or the table is not there or cannot be used.
    pub async fn connect(url: &str, options: Options) -> Result<Self, ConnectError> {
        let (mut server, table) = (Server::of(url)?, Table::parse(&options.table, true)?);
        // The pool would try again for as long as it may, and then not say why.
        let greeted = server.greet(options.call_limit).await;
        greeted.map_err(|trouble| server.told("a connection", &trouble))?;
        let (db, statements) = (Db::new(&server, &options), Statements::of(&table));
        for check in [&statements.check, &statements.check_drainers] {
            let checked = db.try_rows(sqlx::query(check.sql())).await;
            checked.map_err(|trouble| server.told_of_table(&table, &trouble))?;
        }
        let name = match options.name.is_empty() {
            true => format!("postgres:{}", table.plain()),
            false => options.name,
        };
        Ok(Self { db, statements, server, channel: table.channel(), name, watch: Watch::new() })
    }

    /// Writes rows in a transaction of the caller's, with its change: they are published once that is committed, and never
    /// if it is not. A row whose id is there already is left out.
    ///
    /// # Errors
    /// What PostgreSQL says.
    pub async fn add_in(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        rows: &[NewRow],
    ) -> Result<(), sqlx::Error> {
        for some in rows.chunks(add::ROWS) {
            add::add(&self.statements.add, some).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// [`add_in`](PostgresOutbox::add_in) for those who only write.
    ///
    /// # Errors
    /// What PostgreSQL says, or that a table cannot be called so.
    pub async fn add_to(
        table: &str,
        tx: &mut Transaction<'_, Postgres>,
        rows: &[NewRow],
    ) -> Result<(), sqlx::Error> {
        let table = Table::parse(table, true).map_err(|error| sqlx::Error::Configuration(error.into()))?;
        for some in rows.chunks(add::ROWS) {
            add::add(&statements::add(&table), some).execute(&mut **tx).await?;
        }
        Ok(())
    }

    async fn add_alone(&self, rows: &[NewRow]) -> Result<(), Trouble> {
        if rows.len() <= add::ROWS {
            return self.db.try_count(add::add(&self.statements.add, rows)).await.map(drop);
        }
        within(self.db.limit(), async {
            let mut tx = self.db.begin().await?;
            self.add_in(&mut tx, rows).await?;
            tx.commit().await
        })
        .await
    }
}
