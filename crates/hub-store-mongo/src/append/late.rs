//! Answers that came late.
//!
//! Numbers rest on what was known when they were chosen. A cleaner tells everybody ten minutes before it deletes, so
//! within a minute nothing that was known can have been deleted. An insert that takes effect later, because a machine
//! slept or a network held it back, may land in a hole: at a number that was used, read and cleaned. And its id may be
//! one that was published, cleaned and is remembered. So what is answered later than that is checked first, withdrawn if
//! need be, and numbered anew.

use super::batch::{Batch, Stop};
use super::topic::TRUST;
use crate::document::Entry;
use hub_core::Millis;
use hub_proto::EventId;
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;

impl Batch<'_> {
    /// Answers what is in the log, unless it came there too late.
    pub(super) async fn answer_placed(&mut self, mut placed: Vec<(Entry, u64, Millis)>) -> Result<(), Stop> {
        if placed.is_empty() || self.db.clock.since(self.rests_on) < TRUST {
            self.placed(placed);
            return Ok(());
        }
        let floor = loop {
            match self.in_time(self.topic.cleaned_now(self.db)).await {
                Ok(cleaned) => break cleaned.clean_floor,
                Err(trouble) => self.wait_out(trouble).await?,
            }
        };
        let ids: Vec<EventId> = placed.iter().map(|(entry, ..)| entry.draft.id()).collect();
        let found = self.look_up(&ids).await?;
        let past = |entry: &Entry| found.iter().find(|past| past.id == entry.draft.id()).copied();
        // What is about to be cleaned under our own `_id` was in time: somebody has seen it where it is.
        let misplaced = |(entry, seq, _): &mut (Entry, u64, Millis)| match past(entry) {
            Some(past) => past.oid != Some(entry.oid),
            None => *seq <= floor,
        };
        let late: Vec<_> = placed.extract_if(.., misplaced).collect();
        self.placed(placed);
        self.rests_on = self.db.clock.now();
        if late.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            topic = %self.topic.name, events = late.len(), floor,
            "an insert took effect over a minute after its numbers were chosen: withdrawing it"
        );
        let oids: Vec<ObjectId> = late.iter().map(|(entry, ..)| entry.oid).collect();
        let ours = doc! { "topic": self.topic.name.as_str(), "_id": { "$in": oids } };
        self.topic.doubt();
        while let Err(trouble) = self.in_time(self.db.call(self.db.events.delete_many(ours.clone()))).await {
            self.wait_out(trouble).await?;
        }
        // From the last to the first, so that they are in their order again in front of what waits behind them.
        for (entry, ..) in late.into_iter().rev() {
            match past(&entry) {
                Some(past) => self.known_past(&entry, past),
                None => self.pending.push_front(entry),
            }
        }
        Ok(())
    }
}
