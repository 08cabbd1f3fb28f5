//! The record of an event that was given up.

use crate::Millis;
use crate::derived::Record;
use crate::group::dispatch::Burial;
use hub_proto::{Derivation, Event, EventId, GroupName, Payload, json};
use std::io::Write;

/// An event that failed too often, and for whom.
pub(crate) struct Letter<'a> {
    pub group: &'a GroupName,
    /// See [`GroupRecord::born`](crate::store::GroupRecord).
    pub born: u64,
    pub burial: &'a Burial,
    pub event: &'a Event,
}

/// What the id of a letter is derived from: the same for the same failure of the same event.
fn id_parts(topic: &str, group: &str, born: u64, epoch: u64, seq: u64) -> Vec<Vec<u8>> {
    let names = [b"dlq".to_vec(), topic.as_bytes().to_vec(), group.as_bytes().to_vec()];
    names.into_iter().chain([born, epoch, seq].map(|number| number.to_be_bytes().to_vec())).collect()
}

/// The id of the letter that a group writes, or wrote, when it gives an event up.
pub(crate) fn id_of(topic: &str, group: &str, born: u64, epoch: u64, seq: u64) -> EventId {
    let parts = id_parts(topic, group, born, epoch, seq);
    EventId::derived(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

impl Letter<'_> {
    /// `{topic, group, original, err, ts, attempts}` for `dlq.<topic>`, under the original's key. The id is the same for the
    /// same failure of the same event.
    pub fn record(&self, now: Millis) -> Record {
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
        Record {
            topic: event.topic().dead_letter(),
            how: Derivation::DeadLetters,
            key: event.key().cloned(),
            payload: Payload::stored(json).expect("made of valid parts"),
            id_parts: id_parts(event.topic(), group, self.born, burial.epoch, burial.seq),
        }
    }
}
