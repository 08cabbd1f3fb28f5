//! Ids of events that were cleaned away: the collection `dedupe`.
//!
//! ```text
//! { _id: {topic, id: UUID}, event: ObjectId, topic, seq, ts, committed, content: UUID }
//! ```
//! `event` is the `_id` of the event's document, `content` is [`Event::content`](hub_proto::Event::content), a hash of key
//! and payload.

use crate::db::Db;
use crate::document::signed;
use crate::error::Trouble;
use crate::topics::number;
use futures_util::TryStreamExt;
use hub_core::Millis;
use hub_core::store::{Appended, Durability, First};
use hub_proto::{Draft, Event, EventId, TopicName};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};

/// What is left of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub id: EventId,
    /// Its document.
    pub oid: Option<ObjectId>,
    pub seq: u64,
    pub ts: Millis,
    pub content: EventId,
}

impl Past {
    /// The answer to who publishes it again.
    pub fn known(&self, draft: &Draft) -> Appended {
        let first = First::Remembered(self.seq, self.ts, self.content);
        Appended::known(first, draft.clone(), Durability::Majority)
    }
}

/// A UUID as the database has it.
pub fn uuid(id: EventId) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: id.to_bytes().to_vec() })
}

/// What is remembered of an event that goes.
pub fn document(event: &Event, oid: ObjectId) -> Document {
    doc! {
        "_id": { "topic": event.topic().as_str(), "id": uuid(event.id()) },
        "event": oid,
        "topic": event.topic().as_str(),
        "seq": signed(event.seq()),
        "ts": signed(event.ts()),
        "committed": signed(event.committed()),
        "content": uuid(event.content()),
    }
}

/// Looks ids up.
pub async fn look_up(db: &Db, topic: &TopicName, ids: &[EventId]) -> Result<Vec<Past>, Trouble> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<Document> =
        ids.iter().map(|&id| doc! { "topic": topic.as_str(), "id": uuid(id) }).collect();
    let found =
        async { db.dedupe.find(doc! { "_id": { "$in": wanted } }).await?.try_collect::<Vec<_>>().await };
    let found = db.call(found).await?;
    found.iter().map(|document| read(topic, document)).collect()
}

fn read(topic: &TopicName, document: &Document) -> Result<Past, Trouble> {
    let id = document.get_document("_id").ok().and_then(|id| uuid_in(id, "id"));
    match (id, uuid_in(document, "content")) {
        (Some(id), Some(content)) => {
            let oid = document.get_object_id("event").ok();
            Ok(Past { id, oid, seq: number(document, "seq"), ts: number(document, "ts"), content })
        }
        _ => Err(Trouble::Damaged(format!(
            "an entry of topic {topic} in the collection of cleaned ids is incomplete"
        ))),
    }
}

/// A UUID of a document.
fn uuid_in(document: &Document, name: &str) -> Option<EventId> {
    match document.get(name) {
        Some(Bson::Binary(binary)) => binary.bytes.as_slice().try_into().ok().map(EventId::from_bytes),
        _ => None,
    }
}
