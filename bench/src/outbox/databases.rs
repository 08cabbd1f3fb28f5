//! Databases, and outboxes in them.

use anyhow::{Context, Result};
use futures_util::future::BoxFuture;
use hub_core::outbox::OutboxStore;
use hub_core::{Bus, NewEvent};
use hub_outbox_sql::{PostgresOutbox, SqliteOutbox};
use hub_proto::{EventId, Payload, PublishOptions, TopicName};
use hub_store_mongo::outbox::{MongoOutbox, OutboxOptions};
use hub_testbed::{ReplicaSet, TestDatabase, database_on};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An outbox with nothing in it.
pub struct Outbox {
    pub store: Arc<dyn OutboxStore>,
    /// Claims a row, publishes and marks it, as the sketches that this project began with do. Answers whether there was one.
    pub one_by_one: Box<dyn Fn(Bus) -> BoxFuture<'static, Result<bool>> + Send + Sync>,
    /// Goes with it.
    _database: Box<dyn std::any::Any + Send + Sync>,
}

/// A database that runs.
pub trait Database {
    /// What figures call it.
    const NAME: &'static str;
    /// Whether it can wake a drainer.
    const WAKES: bool;

    /// A new outbox.
    async fn fresh(&self) -> Result<Outbox>;
}

/// A replica set of one node.
pub struct Mongo {
    set: ReplicaSet,
}

impl Mongo {
    pub async fn start() -> Result<Self> {
        Ok(Self { set: ReplicaSet::start(1).await? })
    }
}

impl Database for Mongo {
    const NAME: &'static str = "MongoDB";
    const WAKES: bool = true;

    async fn fresh(&self) -> Result<Outbox> {
        let database: TestDatabase = database_on(&self.set.uri());
        let store = MongoOutbox::connect(OutboxOptions::new(database.uri())).await?;
        let client = mongodb::Client::with_uri_str(database.uri()).await?;
        let rows: Collection<Document> =
            client.default_database().context("a database in the address")?.collection("outbox");
        let one_by_one = move |bus: Bus| -> BoxFuture<'static, Result<bool>> {
            let rows = rows.clone();
            Box::pin(async move {
                let claim = doc! { "$set": { "status": "claimed", "claimed_by": "one" } };
                let claimed = rows.find_one_and_update(doc! { "status": "pending" }, claim);
                let Some(row) = claimed.sort(doc! { "ts": 1 }).await? else { return Ok(false) };
                let id = row.get("_id").cloned().unwrap_or(Bson::Null);
                let Bson::Binary(uuid) = &id else { anyhow::bail!("an id that is no UUID") };
                let uuid = EventId::from_bytes(uuid.bytes.as_slice().try_into()?);
                let topic = TopicName::parse(row.get_str("topic")?)?;
                let payload = Payload::of(&row.get("payload").and_then(Bson::as_i64))?;
                publish(&bus, uuid, topic, payload).await?;
                let sent = doc! { "$set": { "status": "sent" } };
                rows.update_one(doc! { "_id": id, "claimed_by": "one" }, sent).await?;
                Ok(true)
            })
        };
        Ok(Outbox { store: Arc::new(store), one_by_one: Box::new(one_by_one), _database: Box::new(database) })
    }
}

/// A PostgreSQL server.
pub struct Postgres {
    server: hub_testbed::postgres::Postgres,
}

impl Postgres {
    pub async fn start() -> Result<Self> {
        Ok(Self { server: hub_testbed::postgres::Postgres::start().await? })
    }
}

impl Database for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const WAKES: bool = true;

    async fn fresh(&self) -> Result<Outbox> {
        let database = self.server.create_database().await?;
        let url = database.url();
        PostgresOutbox::init(&url, &hub_outbox_sql::Options::default()).await?;
        let store = PostgresOutbox::connect(&url, hub_outbox_sql::Options::default()).await?;
        let pool = sqlx::PgPool::connect(&url).await?;
        let one_by_one = move |bus: Bus| -> BoxFuture<'static, Result<bool>> {
            let pool = pool.clone();
            Box::pin(async move {
                let claim = "UPDATE outbox SET status = 'claimed', claimed_by = 'one' WHERE id = (SELECT id FROM outbox \
                             WHERE status = 'pending' AND stage IS NULL ORDER BY ts, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                             RETURNING id, topic, payload::text";
                let row = sqlx::query_as::<_, (sqlx::types::Uuid, String, String)>(claim);
                let Some((id, topic, payload)) = row.fetch_optional(&pool).await? else { return Ok(false) };
                let payload = Payload::from_json(payload.into_bytes())?;
                publish(&bus, EventId::from_bytes(*id.as_bytes()), TopicName::parse(&topic)?, payload)
                    .await?;
                let sent = "UPDATE outbox SET status = 'sent' WHERE id = $1 AND claimed_by = 'one'";
                sqlx::query(sent).bind(id).execute(&pool).await?;
                Ok(true)
            })
        };
        Ok(Outbox { store: Arc::new(store), one_by_one: Box::new(one_by_one), _database: Box::new(database) })
    }
}

/// Files of SQLite in a directory.
pub struct Sqlite {
    directory: tempfile::TempDir,
    files: AtomicU32,
}

impl Sqlite {
    pub fn start(dir: Option<&Path>) -> Result<Self> {
        let directory = match dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        };
        Ok(Self { directory, files: AtomicU32::new(0) })
    }
}

impl Database for Sqlite {
    const NAME: &'static str = "SQLite";
    const WAKES: bool = false;

    async fn fresh(&self) -> Result<Outbox> {
        let file = format!("{}.db", self.files.fetch_add(1, Relaxed));
        let url = format!("sqlite:{}", self.directory.path().join(file).display());
        SqliteOutbox::init(&url, &hub_outbox_sql::Options::default()).await?;
        let store = SqliteOutbox::open(&url, hub_outbox_sql::Options::default()).await?;
        let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect(&url).await?;
        let one_by_one = move |bus: Bus| -> BoxFuture<'static, Result<bool>> {
            let pool = pool.clone();
            Box::pin(async move {
                let claim = "UPDATE outbox SET status = 'claimed', claimed_by = 'one' WHERE id = (SELECT id FROM outbox \
                             WHERE status = 'pending' AND stage IS NULL ORDER BY ts, id LIMIT 1) \
                             RETURNING id, topic, payload";
                let row = sqlx::query_as::<_, (String, String, String)>(claim).fetch_optional(&pool).await?;
                let Some((id, topic, payload)) = row else { return Ok(false) };
                let payload = Payload::from_json(payload.into_bytes())?;
                publish(&bus, id.parse()?, TopicName::parse(&topic)?, payload).await?;
                let sent = "UPDATE outbox SET status = 'sent' WHERE id = $1 AND claimed_by = 'one'";
                sqlx::query(sent).bind(id).execute(&pool).await?;
                Ok(true)
            })
        };
        Ok(Outbox { store: Arc::new(store), one_by_one: Box::new(one_by_one), _database: Box::new(()) })
    }
}

async fn publish(bus: &Bus, id: EventId, topic: TopicName, payload: Payload) -> Result<()> {
    let options = PublishOptions { id: Some(id), ..PublishOptions::default() };
    bus.send(NewEvent { options, ..NewEvent::new(topic, payload) }).await?;
    Ok(())
}
