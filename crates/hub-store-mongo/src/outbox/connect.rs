//! Finding the database, and the indexes.
//!
//! | index | of rows that are | for |
//! | --- | --- | --- |
//! | `{stage, next_at, ts, _id}` | pending | what is due; what is fresh, by time |
//! | `{key, stage, ord, ts, _id}` | pending | fresh rows of a key, in its order |
//! | `{stage, key, ord, ts, _id}` | staged: claimed, waiting, behind, parked | who holds a key up |
//! | `{claimed_by, claim}` | claimed | what a drainer holds |
//! | `{sent_at}` | sent | removing |
//!
//! All are partial, so a row is in as many as it is of use for, and one that was sent in one.

use super::news::News;
use super::{CALL_LIMIT, MongoOutbox};
use crate::calls::Calls;
use crate::connect::{Place, client};
use crate::db::{self, durable, within};
use crate::error::{ConnectError, Trouble};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::{DatabaseOptions, ReadConcern, ReadPreference, SelectionCriteria};
use std::fmt;

/// The wire version of MongoDB 6.0: `$documents`, and all that a `$lookup` needs.
const WIRE_6_0: i32 = 17;

/// Where an outbox is.
#[derive(Clone)]
pub struct OutboxOptions {
    /// The connection string; the database is the one of its path.
    pub uri: String,
    /// The database if the address names none.
    pub database: String,
    /// The collection.
    pub collection: String,
    /// What logs and metrics call it; database and collection if this is empty.
    pub name: String,
    /// Nothing is made: for those who only look. Without indexes they look for long.
    pub look_only: bool,
}

impl OutboxOptions {
    /// The collection `outbox` of the address's database.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            database: db::DATABASE.into(),
            collection: "outbox".into(),
            name: String::new(),
            look_only: false,
        }
    }
}

impl fmt::Debug for OutboxOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxOptions")
            .field("uri", &"…")
            .field("database", &self.database)
            .field("collection", &self.collection)
            .field("name", &self.name)
            .field("look_only", &self.look_only)
            .finish()
    }
}

pub async fn connect(options: OutboxOptions) -> Result<MongoOutbox, ConnectError> {
    let (client, place) = client(&options.uri, "event-hub outbox", CALL_LIMIT).await?;
    let concerns = DatabaseOptions::builder()
        .read_concern(ReadConcern::local())
        .write_concern(durable())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .build();
    let database = client.default_database().map_or(options.database, |database| database.name().to_owned());
    let database = client.database_with_options(&database, concerns);
    let calls = Calls::default();
    let checked = async {
        check_server(&client, &place).await?;
        match options.look_only {
            true => Ok(()),
            false => make_indexes(&database, &options.collection, &place).await,
        }
    };
    if let Err(error) = checked.await {
        calls.close(&client).await;
        return Err(error);
    }
    let name = match options.name.is_empty() {
        true => format!("{}.{}", database.name(), options.collection),
        false => options.name,
    };
    let rows = database.collection(&options.collection);
    Ok(MongoOutbox {
        news: News::of(&rows),
        calls,
        drainers: database.collection(&format!("{}_drainers", options.collection)),
        name,
        rows,
        database,
        look_only: options.look_only,
    })
}

async fn check_server(client: &Client, place: &Place) -> Result<(), ConnectError> {
    let hello = within(CALL_LIMIT, client.database("admin").run_command(doc! { "hello": 1 })).await;
    let hello = hello.map_err(|trouble| place.told("a greeting", &trouble))?;
    let hosts = place.hosts.clone();
    let is_router = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
    if !hello.contains_key("setName") && !is_router {
        return Err(ConnectError::Standalone { hosts });
    }
    if hello.get_i32("maxWireVersion").unwrap_or(0) < WIRE_6_0 {
        return Err(ConnectError::TooOld { hosts, version: "of before 6.0".into() });
    }
    Ok(())
}

fn indexes() -> [Document; 5] {
    let index = |name: &str, key: Document, of: Document| doc! { "name": name, "key": key, "partialFilterExpression": of };
    [
        index(
            "outbox_pending",
            doc! { "stage": 1, "next_at": 1, "ts": 1, "_id": 1 },
            doc! { "status": "pending" },
        ),
        index(
            "outbox_keys",
            doc! { "key": 1, "stage": 1, "ord": 1, "ts": 1, "_id": 1 },
            doc! { "status": "pending" },
        ),
        index(
            "outbox_staged",
            doc! { "stage": 1, "key": 1, "ord": 1, "ts": 1, "_id": 1 },
            doc! { "stage": { "$exists": true } },
        ),
        index("outbox_claimed", doc! { "claimed_by": 1, "claim": 1 }, doc! { "status": "claimed" }),
        index("outbox_sent", doc! { "sent_at": 1 }, doc! { "status": "sent" }),
    ]
}

async fn make_indexes(
    database: &mongodb::Database,
    collection: &str,
    place: &Place,
) -> Result<(), ConnectError> {
    let concern = doc! { "w": "majority", "j": true };
    let command =
        doc! { "createIndexes": collection, "indexes": indexes().to_vec(), "writeConcern": concern };
    let Err(trouble) = within(CALL_LIMIT, database.run_command(command)).await else { return Ok(()) };
    if let Trouble::Driver(error) = &trouble
        && let ErrorKind::Command(error) = error.kind.as_ref()
        && matches!(error.code, 85 | 86)
    {
        return Err(ConnectError::Index {
            collection: collection.into(),
            index: "outbox_…".into(),
            why: trouble.words(),
            remedy: format!(
                "There is another index with that name or on those fields: compare it with \
                 db.getCollection({collection:?}).getIndexes(), drop it with .dropIndex(…), and start again"
            ),
        });
    }
    Err(place.told(&format!("the indexes of {collection}"), &trouble))
}
