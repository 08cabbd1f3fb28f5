//! How a letter is written. What a publisher sent is copied: no number in it is rounded.

use hub_core::DeadLetter;
use hub_proto::{EventId, json};
use std::io::Write;

/// What is told of the event itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing of what it carries.
    None,
    /// Its payload.
    Payload,
    /// The whole record.
    Record,
}

/// Appends a letter as JSON.
pub(super) fn letter(to: &mut Vec<u8>, letter: &DeadLetter, content: Content) {
    let original = letter.original();
    to.extend_from_slice(b"{\"id\":");
    id(to, letter.id());
    text(to, "topic", letter.topic());
    text(to, "group", letter.group());
    number(to, "seq", letter.seq());
    number(to, "ts", letter.buried());
    text(to, "err", letter.err());
    number(to, "attempts", letter.attempts().into());
    if let Some(key) = original.key() {
        text(to, "key", key);
    }
    to.extend_from_slice(b",\"originalId\":");
    id(to, original.id());
    number(to, "originalSeq", original.seq());
    number(to, "originalTs", original.ts());
    if let Some(first) = letter.replay_of() {
        to.extend_from_slice(b",\"replayOf\":");
        id(to, first);
    }
    number(to, "replays", letter.replays().into());
    if let Some(replayed) = letter.replayed() {
        number(to, "replayed", replayed);
    }
    let content: (&[u8], &[u8]) = match content {
        Content::None => (b"", b""),
        Content::Payload => (b",\"payload\":", original.payload()),
        Content::Record => (b",\"original\":", original.json()),
    };
    to.extend_from_slice(content.0);
    to.extend_from_slice(content.1);
    to.push(b'}');
}

fn id(to: &mut Vec<u8>, id: EventId) {
    json::write_str(to, id.encode(&mut [0; 36]));
}

fn text(to: &mut Vec<u8>, name: &str, value: &str) {
    write!(to, ",\"{name}\":").expect("a Vec takes every write");
    json::write_str(to, value);
}

fn number(to: &mut Vec<u8>, name: &str, value: u64) {
    write!(to, ",\"{name}\":{value}").expect("a Vec takes every write");
}
