//! Outboxes by their addresses.

use anyhow::Result;
use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{Options, PostgresOutbox, SqliteOutbox};
use hub_server::auth::Secret;
use hub_store_mongo::outbox::{MongoOutbox, OutboxOptions};
use std::fmt;
use std::sync::Arc;

/// Where an outbox is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A collection.
    Mongo {
        /// With credentials.
        url: Secret,
        /// Its name.
        collection: String,
    },
    /// A table.
    Postgres {
        /// With credentials.
        url: Secret,
        /// Its name, perhaps with a schema.
        table: String,
    },
    /// A table in a file.
    Sqlite {
        /// The file, as `sqlite:PATH`.
        url: String,
        /// Its name.
        table: String,
    },
}

impl Place {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong, without the address: there may be a password in it.
    pub fn parse(url: &str, table: &str) -> Result<Self, String> {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let table = table.to_owned();
        match scheme {
            "mongodb" | "mongodb+srv" => Ok(Self::Mongo { url: Secret::new(url), collection: table }),
            "postgres" | "postgresql" => {
                PostgresOutbox::ddl(&Options::table(&table)).map_err(|error| error.to_string())?;
                Ok(Self::Postgres { url: Secret::new(url), table })
            }
            "sqlite" => {
                SqliteOutbox::ddl(&Options::table(&table)).map_err(|error| error.to_string())?;
                Ok(Self::Sqlite { url: url.to_owned(), table })
            }
            _ => Err("it must begin with mongodb://, postgres:// or sqlite:".into()),
        }
    }

    /// Connects. A collection has its indexes then; a table has to be there.
    pub async fn open(&self, name: &str) -> Result<Arc<dyn OutboxStore>> {
        self.connect(name, false).await
    }

    /// Connects, to look. Nothing is made.
    pub async fn look(&self, name: &str) -> Result<Arc<dyn OutboxStore>> {
        self.connect(name, true).await
    }

    async fn connect(&self, name: &str, look_only: bool) -> Result<Arc<dyn OutboxStore>> {
        Ok(match self {
            Self::Mongo { url, collection } => {
                let options = OutboxOptions {
                    collection: collection.clone(),
                    name: name.to_owned(),
                    look_only,
                    ..OutboxOptions::new(url.expose())
                };
                Arc::new(MongoOutbox::connect(options).await?)
            }
            Self::Postgres { url, table } => {
                Arc::new(PostgresOutbox::connect(url.expose(), options(table, name)).await?)
            }
            Self::Sqlite { url, table } => Arc::new(SqliteOutbox::open(url, options(table, name)).await?),
        })
    }

    /// What makes the table, in words of its database; nothing if it makes itself.
    pub fn ddl(&self) -> Result<Option<String>> {
        Ok(match self {
            Self::Mongo { .. } => None,
            Self::Postgres { table, .. } => Some(PostgresOutbox::ddl(&Options::table(table))?),
            Self::Sqlite { table, .. } => Some(SqliteOutbox::ddl(&Options::table(table))?),
        })
    }

    /// Makes the table, if it is not there.
    pub async fn init(&self) -> Result<()> {
        match self {
            Self::Mongo { .. } => {
                self.open("").await?.close().await;
                Ok(())
            }
            Self::Postgres { url, table } => {
                Ok(PostgresOutbox::init(url.expose(), &Options::table(table)).await?)
            }
            Self::Sqlite { url, table } => Ok(SqliteOutbox::init(url, &Options::table(table)).await?),
        }
    }
}

fn options(table: &str, name: &str) -> Options {
    Options { name: name.to_owned(), ..Options::table(table) }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mongo { collection: table, .. } => {
                f.debug_tuple("Mongo").field(table).finish_non_exhaustive()
            }
            Self::Postgres { table, .. } => f.debug_tuple("Postgres").field(table).finish_non_exhaustive(),
            Self::Sqlite { url, table } => f.debug_tuple("Sqlite").field(url).field(table).finish(),
        }
    }
}
