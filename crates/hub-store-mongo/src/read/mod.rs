//! Reading: the log, its extent, positions in it, the newest of a key.
//!
//! Every read is a majority read from the primary. A reader that goes by `seq` never jumps: numbers are given in the
//! order of commits, and a majority read sees a prefix of those. What is missing must therefore have been cleaned, and
//! whoever cleans says so before ([`Cleaned::clean_floor`]). Anything else that is missing is damage, and is said aloud.

mod extent;
mod image;
mod newest;

pub use extent::{bounds, first, seq_before, seq_of};
pub use image::{FoundGroups, NAMES, groups_in, image, tails};
pub use newest::{newest, page};

use crate::append::topic::read_tail;
use crate::db::Db;
use crate::document;
use crate::error::Trouble;
use crate::topics::Cleaned;
use foldhash::fast::RandomState;
use futures_util::StreamExt;
use hashbrown::HashMap;
use hub_core::store::ReadLimit;
use hub_proto::{Event, TopicName};
use mongodb::bson::doc;
use parking_lot::Mutex;
use std::sync::Arc;

/// Reads the log, and knows how far each topic was cleaned.
pub struct Reader {
    db: Db,
    /// The highest floor that was seen: floors never go down.
    floors: Mutex<HashMap<TopicName, u64, RandomState>>,
}

impl Reader {
    pub fn new(db: Db) -> Self {
        Self { db, floors: Mutex::default() }
    }

    /// Events above `after`, in their order.
    pub async fn read(
        &self,
        topic: &TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> Result<Vec<Arc<Event>>, Trouble> {
        if limit.events == 0 {
            return Ok(Vec::new());
        }
        let (mut events, mut hole) = self.db.calls(self.read_block(topic, after, limit)).await?;
        if events.is_empty() {
            // A primary that was just elected may answer with less than a majority has. Readers go on above what they were told
            // is not there, so an empty answer is given only if the topic ends there for certain.
            let mut session = self.db.fresh_session_of(topic).await?;
            let end = read_tail(&self.db, topic, Some(&mut session)).await?.seq;
            if end <= after {
                return Ok(events);
            }
            (events, hole) = self.db.calls(self.read_block(topic, after, limit)).await?;
            if events.is_empty() {
                // The newest record is never cleaned away.
                return Err(Trouble::Busy("the database answers with less events than a majority of it has"));
            }
        }
        if let Some(upto) = hole {
            self.check_hole(topic, upto).await?;
        }
        Ok(events)
    }

    /// The events, and the highest seq that is missing among them.
    async fn read_block(
        &self,
        topic: &TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> Result<(Vec<Arc<Event>>, Option<u64>), Trouble> {
        // Nothing is that far up, and numbers in the database are signed.
        let Some(above) = i64::try_from(after).ok() else { return Ok((Vec::new(), None)) };
        let most = i64::try_from(limit.events).unwrap_or(i64::MAX);
        let at_once = batch_size(limit);
        let find = self
            .db
            .events
            .find(doc! { "topic": topic.as_str(), "seq": { "$gt": above } })
            .sort(doc! { "seq": 1 })
            .limit(most)
            .batch_size(at_once);
        let mut cursor = find.batch().await?;
        let (mut events, mut hole, mut last) = (Vec::new(), None, after);
        let mut fits = limit.gate();
        while let Some(batch) = cursor.next().await {
            for document in batch?.doc_slices()? {
                let document = document.map_err(mongodb::error::Error::from)?;
                let document = document
                    .as_document()
                    .ok_or_else(|| Trouble::Damaged("a reply is no document".into()))?;
                let event = document::event(topic, document)?;
                if !fits(event.json().len()) {
                    return Ok((events, hole));
                }
                if event.seq() != last + 1 {
                    hole = Some(event.seq() - 1);
                }
                last = event.seq();
                events.push(event);
            }
        }
        Ok((events, hole))
    }

    /// Whether everything up to `upto` may be missing.
    async fn check_hole(&self, topic: &TopicName, upto: u64) -> Result<(), Trouble> {
        let known = self.floors.lock().get(topic).copied().unwrap_or(0);
        if upto <= known {
            return Ok(());
        }
        // Asked after the events were read: what went before that was announced before that.
        let mut floor = Cleaned::read(&self.db, topic).await?.clean_floor;
        if upto > floor {
            // A primary that was just elected may not know yet what was announced. Damage is not cried on its word.
            drop(self.db.fresh_session().await?);
            floor = Cleaned::read(&self.db, topic).await?.clean_floor;
        }
        self.floors.lock().insert(topic.clone(), floor);
        if upto <= floor {
            return Ok(());
        }
        let what = format!(
            "event {upto} of topic {topic} is missing, and nothing above {floor} was ever cleaned: \
             was the database changed by hand?"
        );
        Err(Trouble::Damaged(what))
    }
}

/// Documents per round trip: about as many as fit, if they are small.
fn batch_size(limit: ReadLimit) -> u32 {
    let by_bytes = (limit.bytes / 512).clamp(16, 4096);
    u32::try_from(by_bytes.min(limit.events)).unwrap_or(4096)
}
