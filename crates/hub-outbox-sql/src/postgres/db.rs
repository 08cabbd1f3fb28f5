//! The connections.

use crate::error::{ConnectError, Secrets, TableTrouble, Trouble, within};
use crate::options::Options;
use crate::table::Table;
use hub_core::store::{StoreError, StoreResult};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, PgPool, Postgres, Transaction};
use std::str::FromStr;
use std::time::{Duration, Instant};

pub type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// A connection that was not used for so long is asked whether it is still there.
const DOUBTFUL: Duration = Duration::from_secs(1);
/// One that was not used for so long is closed.
const IDLE: Duration = Duration::from_secs(300);

/// A server, and what is known of it for errors.
#[derive(Clone)]
pub struct Server {
    pub options: PgConnectOptions,
    secrets: Secrets,
}

impl Server {
    /// Reads an address. Nobody is asked.
    pub fn of(url: &str) -> Result<Self, ConnectError> {
        let secrets = Secrets::of(url);
        let unusable = |why: &str| {
            ConnectError::Settings(format!(
                "the address of PostgreSQL cannot be used: {why}; it looks like postgres://user:password@host/database"
            ))
        };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(unusable("it does not begin with postgres://"));
        }
        let options =
            PgConnectOptions::from_str(url).map_err(|error| unusable(&secrets.hide(&error.to_string())))?;
        let options = options.disable_statement_logging();
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("event-hub"),
        };
        Ok(Self { options, secrets })
    }

    /// Connects, and finds out how to from now on. A pooler may refuse connections that say more than it knows.
    pub async fn greet(&mut self, limit: Duration) -> Result<(), Trouble> {
        let greet = async |options: &PgConnectOptions| {
            within(limit, async { options.connect().await?.close().await }).await
        };
        let pinned = self.options.clone().options(PINNED);
        let Err(trouble) = greet(&pinned).await else {
            self.options = pinned;
            return Ok(());
        };
        // Poolers have many words for it. Who it is that asks, and what for, is not what they mean.
        let others = ["28", "3D", "53", "57"];
        if trouble.code().is_none_or(|code| others.iter().any(|class| code.starts_with(class))) {
            return Err(trouble);
        }
        greet(&self.options).await?;
        let why = self.secrets.hide(&trouble.words());
        tracing::info!(
            at = self.at(),
            why,
            "a pooler takes no planner settings; PostgreSQL plans as it likes"
        );
        Ok(())
    }

    /// Where it is, in words.
    pub fn at(&self) -> String {
        let (host, port) = (self.options.get_host(), self.options.get_port());
        let database = self.options.get_database().unwrap_or_else(|| self.options.get_username());
        match self.options.get_socket() {
            Some(socket) => format!("PostgreSQL at {}, database {database},", socket.display()),
            None => format!("PostgreSQL at {host}:{port}, database {database},"),
        }
    }

    /// What went wrong with a call that is about the table.
    pub fn told_of_table(&self, table: &Table, trouble: &Trouble) -> ConnectError {
        let (at, name) = (self.at(), table.plain());
        match trouble.table() {
            Some(TableTrouble::Missing) => ConnectError::NoTable { at, table: name },
            Some(TableTrouble::Other) => {
                ConnectError::OtherTable { at, table: name, why: self.secrets.hide(&trouble.words()) }
            }
            None => self.told(&format!("to read table {name}"), trouble),
        }
    }

    /// What went wrong with anything else.
    pub fn told(&self, what: &str, trouble: &Trouble) -> ConnectError {
        let (at, why) = (self.at(), self.secrets.hide(&trouble.words()));
        match trouble.code() {
            Some(code) if code.starts_with("28") => ConnectError::Credentials { at, why },
            _ if trouble.is_passing() => ConnectError::Unreachable { at, why },
            _ => ConnectError::Refused { at, what: what.to_owned(), why },
        }
    }
}

/// What the planner may not do in our connections: read all rows, to sort them or to find a few among them. That looks cheap as
/// long as nobody has counted the rows (`ANALYZE`), and what was planned then is done when there are many. Said when connecting,
/// so that nobody else who uses the same connection of a pooler has it.
const PINNED: [(&str, &str); 6] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_sort", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

#[derive(Clone)]
pub struct Db {
    pool: PgPool,
    limit: Duration,
}

impl Db {
    /// Nobody is asked before the first call.
    pub fn new(server: &Server, options: &Options) -> Self {
        let limit = options.call_limit;
        let pool = PgPoolOptions::new()
            .max_connections(options.connections.max(1))
            .acquire_timeout(limit)
            .idle_timeout(IDLE)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for < DOUBTFUL {
                        return Ok(true);
                    }
                    Ok(connection.ping().await.is_ok())
                })
            })
            .connect_lazy_with(server.options.clone());
        Self { pool, limit }
    }

    pub fn limit(&self) -> Duration {
        self.limit
    }

    pub async fn try_rows(&self, query: PgQuery<'_>) -> Result<Vec<PgRow>, Trouble> {
        let (mut connection, left) = self.acquire().await?;
        let rows = within(left, query.fetch_all(&mut *connection)).await;
        self.checked(connection, rows)
    }

    /// Rows that are read, or changed and answered.
    pub async fn rows(&self, query: PgQuery<'_>) -> StoreResult<Vec<PgRow>> {
        self.try_rows(query).await.map_err(Into::into)
    }

    /// How many rows are changed.
    pub async fn try_count(&self, query: PgQuery<'_>) -> Result<u64, Trouble> {
        let (mut connection, left) = self.acquire().await?;
        let done = within(left, query.execute(&mut *connection)).await;
        self.checked(connection, done).map(|done| done.rows_affected())
    }

    /// A connection, and how much time is left.
    async fn acquire(&self) -> Result<(PoolConnection<Postgres>, Duration), Trouble> {
        let began = Instant::now();
        let connection = within(self.limit, self.pool.acquire()).await?;
        Ok((connection, self.limit.saturating_sub(began.elapsed())))
    }

    /// A connection that did not answer in time is not used again: the answer may still be on its way.
    fn checked<T>(
        &self,
        mut connection: PoolConnection<Postgres>,
        answer: Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        if let Err(Trouble::Late(_)) = answer {
            connection.close_on_drop();
            return Err(Trouble::Late(self.limit));
        }
        answer
    }

    pub async fn begin(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        self.pool.begin().await
    }

    pub async fn count(&self, query: PgQuery<'_>) -> StoreResult<u64> {
        self.try_count(query).await.map_err(Into::into)
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
    fn what_is_shown_of_an_address_has_no_secret_in_it() {
        let server = Server::of("postgres://hub:hunter2@db:1/shop").unwrap();
        assert_eq!(server.at(), "PostgreSQL at db:1, database shop,");
        let wrong = Trouble::from(sqlx::Error::Protocol("hub:hunter2 is not welcome".into()));
        assert!(!server.told("a greeting", &wrong).to_string().contains("hunter2"));
        for url in [
            "postgres://hub:hun/ter2@db/shop",
            "postgres://hub:hunter2@db:port/shop",
            "mysql://hub:hunter2@db",
            "postgres://hub:hunter2@db/shop?sslmode=nonsense",
        ] {
            let Err(ConnectError::Settings(told)) = Server::of(url) else { panic!("{url}") };
            assert!(told.contains("cannot be used") && !told.contains("ter2"), "{url}: {told}");
        }
    }
}
