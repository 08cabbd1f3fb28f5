//! The record of an event that was given up.

use crate::Millis;
use crate::group::dispatch::Burial;
use hub_proto::{Draft, Event, EventId, GroupName, NewEvent, Payload, json};
use std::io::Write;

/// An event that failed too often, and for whom.
pub(crate) struct Letter<'a> {
    pub group: &'a GroupName,
    /// See [`GroupRecord::born`](crate::store::GroupRecord).
    pub born: u64,
    pub burial: &'a Burial,
    pub event: &'a Event,
}

impl Letter<'_> {
    /// `{topic, group, original, err, ts, attempts}` for `dlq.<topic>`, under the original's key.
    pub fn draft(&self, now: Millis) -> Draft {
        let Self { group, burial, event, .. } = self;
        let mut json = Vec::with_capacity(event.json().len() + burial.err.len() + 200);
        json.extend_from_slice(b"{\"topic\":");
        json::write_str(&mut json, event.topic());
        json.extend_from_slice(b",\"group\":");
        json::write_str(&mut json, group);
        json.extend_from_slice(b",\"original\":");
        json.extend_from_slice(event.json());
        json.extend_from_slice(b",\"err\":");
        json::write_str(&mut json, &burial.err);
        write!(json, ",\"ts\":{now},\"attempts\":{}}}", burial.attempts).expect("a Vec takes every write");
        let mut letter =
            NewEvent::new(event.topic().dead_letter(), Payload::stored(json).expect("made of valid parts"));
        letter.options.key = event.key().map(|key| key.to_string());
        Draft::encode(letter, self.id(), now)
    }

    /// The same for the same failure of the same event, however often it is written: a crash doubles nothing.
    fn id(&self) -> EventId {
        let numbers = [self.born, self.burial.epoch, self.burial.seq].map(u64::to_be_bytes);
        let [born, epoch, seq] = &numbers;
        EventId::derived(&[b"dlq", self.event.topic().as_bytes(), self.group.as_bytes(), born, epoch, seq])
    }
}
