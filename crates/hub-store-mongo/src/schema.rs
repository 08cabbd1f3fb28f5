//! The indexes, and the version of everything.
//!
//! | collection | index | for |
//! | --- | --- | --- |
//! | events | `{topic, seq}` unique, **made first** | the fence of an append, reading |
//! | events | `{topic, id}` unique | ids are unique per topic |
//! | events | `{topic, key, seq: -1}` | the newest record of a key |
//! | events | `{topic, committed, seq}` | positions given as a time, retention |
//! | events | `{headers.correlationId}` sparse | people |
//! | groups | `{group}`, `{topic}`, `{idle_since}`, `{hub}`, all sparse | take-overs, people, expiry, owners |
//! | dedupe | `{topic, committed}` | forgetting |
//!
//! If an insert violates several unique indexes, the server names the one that was made first; a `seq` that is taken is
//! the common case and the cheap one.

use crate::db::Db;
use crate::error::{ConnectError, Trouble};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::ErrorKind;

/// The `_id`, in `topics`, of the document with the version: no topic has such a name.
pub const SCHEMA: &str = "@schema";
/// The version that is written here.
pub const VERSION: i64 = 1;

/// The unique index on topic and seq.
pub const TOPIC_SEQ: &str = "topic_seq";
/// The unique index on topic and id.
pub const TOPIC_ID: &str = "topic_id";

/// Why the indexes could not be made.
pub enum EnsureError {
    /// This can be told as it is.
    Told(ConnectError),
    /// Something went wrong with what was to be done.
    Trouble(String, Trouble),
}

/// Refuses a database of a later version, makes the indexes, and writes the version down.
pub async fn ensure(db: &Db) -> Result<(), EnsureError> {
    let trouble = |what: &str| {
        let what = what.to_owned();
        move |trouble| EnsureError::Trouble(what, trouble)
    };
    let found = version(db).await.map_err(trouble("to read its schema version"))?;
    if let Some(found) = found.filter(|&found| found > VERSION) {
        let database = db.database.name().to_owned();
        return Err(EnsureError::Told(ConnectError::Schema { database, found, known: VERSION }));
    }
    let unique = true;
    let first = [index(TOPIC_SEQ, doc! { "topic": 1, "seq": 1 }, doc! { "unique": unique })];
    make(db, db.events.name(), &first).await?;
    let rest = [
        index(TOPIC_ID, doc! { "topic": 1, "id": 1 }, doc! { "unique": unique }),
        index("topic_key_seq", doc! { "topic": 1, "key": 1, "seq": -1 }, doc! {}),
        index("topic_committed_seq", doc! { "topic": 1, "committed": 1, "seq": 1 }, doc! {}),
        index("correlation_id", doc! { "headers.correlationId": 1 }, doc! { "sparse": true }),
    ];
    let groups = [
        index("group", doc! { "group": 1 }, doc! { "sparse": true }),
        index("topic", doc! { "topic": 1 }, doc! { "sparse": true }),
        index("idle_since", doc! { "idle_since": 1 }, doc! { "sparse": true }),
        index("hub", doc! { "hub": 1 }, doc! { "sparse": true }),
    ];
    let dedupe = [index("topic_committed", doc! { "topic": 1, "committed": 1 }, doc! {})];
    tokio::try_join!(
        make(db, db.events.name(), &rest),
        make(db, db.groups.name(), &groups),
        make(db, db.dedupe.name(), &dedupe),
    )?;
    if found.is_none() {
        let version = doc! { "$setOnInsert": { "version": VERSION } };
        let written = db.call(db.topics.update_one(doc! { "_id": SCHEMA }, version).upsert(true)).await;
        written.map_err(trouble("to write its schema version"))?;
    }
    Ok(())
}

/// The version of what is there; `None` if nothing is.
pub async fn version(db: &Db) -> Result<Option<i64>, Trouble> {
    let found = db.call(db.topics.find_one(doc! { "_id": SCHEMA })).await?;
    Ok(found.map(|schema| match schema.get("version") {
        Some(Bson::Int64(version)) => *version,
        Some(Bson::Int32(version)) => i64::from(*version),
        // Written by hand: none of ours is lower.
        _ => 0,
    }))
}

fn index(name: &str, key: Document, mut options: Document) -> Document {
    options.insert("name", name);
    options.insert("key", key);
    options
}

async fn make(db: &Db, collection: &str, indexes: &[Document]) -> Result<(), EnsureError> {
    let concern = doc! { "w": "majority", "j": true };
    let command = doc! { "createIndexes": collection, "indexes": indexes.to_vec(), "writeConcern": concern };
    let made = db.call(db.database.run_command(command)).await;
    let trouble = match made {
        Ok(_) => return Ok(()),
        Err(trouble) => trouble,
    };
    let Trouble::Driver(error) = &trouble else {
        return Err(EnsureError::Trouble(format!("the indexes of {collection}"), trouble));
    };
    let ErrorKind::Command(command) = error.kind.as_ref() else {
        return Err(EnsureError::Trouble(format!("the indexes of {collection}"), trouble));
    };
    let names = || indexes.iter().filter_map(|index| index.get_str("name").ok());
    // The server's sentence has the name of the index that it is about, if it is about one.
    let named = names().find(|name| command.message.contains(&format!("\"{name}\"")) || indexes.len() == 1);
    let index = named.map_or_else(|| names().collect::<Vec<_>>().join(", "), str::to_owned);
    let remedy = match command.code {
        // IndexOptionsConflict, IndexKeySpecsConflict: there is one like it that is not the same.
        85 | 86 => format!(
            "There is another index with that name or on those fields: compare it with \
             db.getCollection({collection:?}).getIndexes(), drop it with .dropIndex(…), and start again"
        ),
        // Documents that break a unique index.
        11000 => format!(
            "Collection {collection} holds documents that are not event-hub's, or that were changed by hand: use another \
             database or another name for the collection"
        ),
        // CannotCreateIndex: a shard key that does not fit, for one.
        67 => {
            format!("If {collection} is sharded, its shard key must be {{topic: 1}} or {{topic: \"hashed\"}}")
        }
        _ => return Err(EnsureError::Trouble(format!("the indexes of {collection}"), trouble)),
    };
    let (collection, why) = (collection.to_owned(), trouble.words());
    Err(EnsureError::Told(ConnectError::Index { collection, index, why, remedy }))
}
