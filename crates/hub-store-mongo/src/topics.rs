//! The collection `topics`: what the cleaner tells everybody, and counts.
//!
//! ```text
//! { _id: topic,
//!   clean_floor,            whatever is missing of the log is at or below this seq
//!   deleted,                everything up to this seq was deleted with its topic
//!   removed: {events, bytes},
//!   dedupe: {v7, other},    the youngest UUID v7 that is in `dedupe`, in ms, and whether others are
//!   compacted, buried }     how far the compactor has come, with values and with tombstones
//! ```
//! A topic from which nothing was ever cleaned has no document.

use crate::db::Db;
use crate::document::signed;
use crate::error::Trouble;
use hub_core::Millis;
use hub_proto::{EventId, TopicName};
use mongodb::bson::{Bson, Document, doc};

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub clean_floor: u64,
    pub deleted: u64,
    pub removed_events: u64,
    pub removed_bytes: u64,
    pub ids: Ids,
    pub compacted: u64,
    pub buried: u64,
}

/// Which ids can be in `dedupe` at all. Ids that a hub makes are UUIDs v7 and young, so hardly any publish has to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The time of the youngest v7, whatever its maker's clock said.
    pub v7: Option<Millis>,
    /// Whether there is one that is no v7.
    pub other: bool,
}

impl Ids {
    /// Whether `id` can be there.
    pub fn may_have(self, id: EventId) -> bool {
        match v7_time(id) {
            Some(time) => self.v7.is_some_and(|youngest| time <= youngest),
            None => self.other,
        }
    }

    /// Those of both.
    pub fn merge(&mut self, other: Self) {
        self.v7 = self.v7.max(other.v7);
        self.other |= other.other;
    }

    pub fn add(&mut self, id: EventId) {
        match v7_time(id) {
            Some(time) => self.v7 = self.v7.max(Some(time)),
            None => self.other = true,
        }
    }
}

/// The time in a UUID v7.
fn v7_time(id: EventId) -> Option<Millis> {
    let bytes = id.to_bytes();
    let [a, b, c, d, e, f, version, ..] = bytes;
    (version >> 4 == 7).then(|| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

impl Cleaned {
    pub async fn read(db: &Db, topic: &TopicName) -> Result<Self, Trouble> {
        let found = db.call(db.topics.find_one(doc! { "_id": topic.as_str() })).await?;
        Ok(found.as_ref().map(Self::of).unwrap_or_default())
    }

    /// Reads a document; what it does not have is 0.
    pub fn of(document: &Document) -> Self {
        let removed = document.get_document("removed").ok();
        let dedupe = document.get_document("dedupe").ok();
        let removed_number = |name| removed.map_or(0, |removed| number(removed, name));
        Self {
            clean_floor: number(document, "clean_floor"),
            deleted: number(document, "deleted"),
            removed_events: removed_number("events"),
            removed_bytes: removed_number("bytes"),
            ids: Ids {
                v7: dedupe.filter(|dedupe| dedupe.contains_key("v7")).map(|dedupe| number(dedupe, "v7")),
                other: dedupe.is_some_and(|dedupe| dedupe.get_bool("other").unwrap_or(false)),
            },
            compacted: number(document, "compacted"),
            buried: number(document, "buried"),
        }
    }

    /// Tells everybody that `floor` and `ids` are to be reckoned with. Neither ever goes back.
    pub async fn announce(db: &Db, topic: &TopicName, floor: u64, ids: Ids) -> Result<(), Trouble> {
        let mut higher = doc! { "clean_floor": signed(floor) };
        if let Some(v7) = ids.v7 {
            higher.insert("dedupe.v7", signed(v7));
        }
        let mut change = doc! { "$max": higher };
        if ids.other {
            change.insert("$set", doc! { "dedupe.other": true });
        }
        db.call(db.topics.update_one(doc! { "_id": topic.as_str() }, change).upsert(true)).await.map(drop)
    }
}

/// A number of a document; 0 if it is not there.
pub fn number(document: &Document, name: &str) -> u64 {
    match document.get(name) {
        Some(Bson::Int64(number)) => u64::try_from(*number).unwrap_or(0),
        Some(Bson::Int32(number)) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hub_proto::IdGenerator;

    #[test]
    fn ids_that_were_made_later_need_not_be_looked_up() {
        let mut ids = Ids::default();
        let made = IdGenerator::seeded(1);
        let old = made.next(1_000_000);
        assert!(!ids.may_have(old));
        ids.add(old);
        assert!(
            ids.may_have(old) && ids.may_have(made.next(1_000_000)),
            "one of the same moment may be there"
        );
        assert!(!ids.may_have(made.next(1_000_001)));
        let random = EventId::parse("9f2c7b1e-6d0c-42f4-8c8e-9a37e4d81f60").unwrap();
        assert!(!ids.may_have(random));
        ids.add(random);
        assert!(ids.may_have(EventId::derived(&[b"any other that is no v7"])));
        assert!(!ids.may_have(made.next(1_000_002)));
    }
}
