//! Messages of a stream, and the rows of events in them.

use hub_core::Event;
use hub_proto::json::write_str;
use serde::Serialize;

/// Bytes of a payload that are shown. The page reads the rest when somebody opens the event.
const SHOWN_PAYLOAD_BYTES: usize = 2 << 10;

/// Appends a message whose data is JSON on one line.
pub(super) fn put_message(name: &str, data: &[u8], text: &mut Vec<u8>) {
    text.extend_from_slice(b"event: ");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\ndata: ");
    text.extend_from_slice(data);
    text.extend_from_slice(b"\n\n");
}

/// A list in JSON that is written entry by entry.
pub(super) struct List<'a> {
    text: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> List<'a> {
    pub fn begin(text: &'a mut Vec<u8>) -> Self {
        text.push(b'[');
        Self { text, is_empty: true }
    }

    /// Where the next entry goes.
    pub fn entry(&mut self) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.text.push(b',');
        }
        self.text
    }

    pub fn end(self) {
        self.text.push(b']');
    }
}

/// What a tail and a state show of an event, beside its key and its payload.
#[derive(Serialize)]
struct Head<'a> {
    seq: u64,
    id: hub_core::EventId,
    ts: u64,
    committed: u64,
    bytes: usize,
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
}

/// Appends an event as a tail shows it.
pub(super) fn put_tail_row(event: &Event, text: &mut Vec<u8>) {
    put_row(event, event.tags(), None, text);
}

/// Appends an event as the value of its key.
pub(super) fn put_state_row(event: &Event, text: &mut Vec<u8>) {
    put_row(event, &[], Some(event.is_tombstone()), text);
}

fn put_row(event: &Event, tags: &[String], deleted: Option<bool>, text: &mut Vec<u8>) {
    let payload = std::str::from_utf8(event.payload()).unwrap_or_default();
    let shown = &payload[..payload.floor_char_boundary(SHOWN_PAYLOAD_BYTES)];
    let head = Head {
        seq: event.seq(),
        id: event.id(),
        ts: event.ts(),
        committed: event.committed(),
        bytes: payload.len(),
        cut: shown.len() < payload.len(),
        key: event.key().map(|key| &**key),
        tags,
        deleted,
    };
    let head = super::rows::json(&head);
    // The payload is text: parsing it would round numbers.
    text.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
    text.extend_from_slice(b",\"payload\":");
    write_str(text, shown);
    text.push(b'}');
}
