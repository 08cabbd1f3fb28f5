//! Writing requests. What is JSON already, such as a payload, is copied and not looked at again.

use hub_proto::{EventId, NewEvent, PublishOptions, json, limits};
use serde::Serialize;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{Error, ErrorKind, Name, Result};

/// The most bytes of several events in one frame: a hub takes frames of 4 MiB, and a few bytes follow.
const BATCH_BYTES: usize = (4 << 20) - 64;

/// A request in the making.
pub(crate) struct Outgoing(Vec<u8>);

impl Outgoing {
    /// Begins one; `corr` if an answer is wanted.
    pub fn new(op: &str, corr: Option<u64>) -> Self {
        Self::with_room(op, corr, 128)
    }

    fn with_room(op: &str, corr: Option<u64>, bytes: usize) -> Self {
        let mut text = Vec::with_capacity(bytes + 48);
        text.extend_from_slice(b"{\"op\":");
        json::write_str(&mut text, op);
        if let Some(corr) = corr {
            text.extend_from_slice(b",\"corr\":\"");
            json::write_u64(&mut text, corr);
            text.push(b'"');
        }
        Self(text)
    }

    /// A PUBLISH of one event.
    pub fn publish(corr: u64, event: &NewEvent) -> Self {
        let mut frame = Self::with_room("PUBLISH", Some(corr), size(event));
        frame.0.push(b',');
        put_event(&mut frame.0, event);
        frame
    }

    /// A PUBLISH of several.
    pub fn publish_batch(corr: u64, events: &[NewEvent]) -> Self {
        let mut frame = Self::with_room("PUBLISH", Some(corr), events.iter().map(size).sum());
        frame.0.extend_from_slice(b",\"events\":[");
        for (at, event) in events.iter().enumerate() {
            frame.0.extend_from_slice(if at == 0 { b"{" } else { b",{" });
            put_event(&mut frame.0, event);
            frame.0.push(b'}');
        }
        frame.0.push(b']');
        frame
    }

    /// A PUBLISH of the first of several events, in their order: as many as one frame takes, and how many that are.
    pub fn publish_in_order(corr: u64, events: &[NewEvent]) -> (Self, usize) {
        let room = events.iter().map(size).sum::<usize>().min(BATCH_BYTES);
        let mut frame = Self::with_room("PUBLISH", Some(corr), room);
        frame.0.extend_from_slice(b",\"ordered\":true,\"events\":[");
        let mut taken = 0;
        for event in events.iter().take(limits::BATCH_EVENTS) {
            let before = frame.0.len();
            frame.0.extend_from_slice(if taken == 0 { b"{" } else { b",{" });
            put_event(&mut frame.0, event);
            frame.0.push(b'}');
            if taken > 0 && frame.0.len() > BATCH_BYTES {
                frame.0.truncate(before);
                break;
            }
            taken += 1;
        }
        frame.0.push(b']');
        (frame, taken)
    }

    /// An ACK of several events.
    pub fn ack(corr: Option<u64>, name: &Name, ids: &[EventId], attempt: Option<u32>) -> Self {
        Self::with_room("ACK", corr, 256 + 40 * ids.len()).name(name).ids(ids).maybe("attempt", attempt)
    }

    /// Which subscription it is about.
    pub fn name(self, name: &Name) -> Self {
        let frame = self.text("topic", &name.topic);
        match &name.group {
            Some(group) => frame.text("group", group),
            None => frame,
        }
    }

    /// A member that is a text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.member(name);
        json::write_str(&mut self.0, value);
        self
    }

    /// A member that is a number, if it is there.
    pub fn maybe(mut self, name: &str, value: Option<impl Into<u64>>) -> Self {
        if let Some(value) = value {
            self.member(name);
            json::write_u64(&mut self.0, value.into());
        }
        self
    }

    /// The ids that it is about.
    pub fn ids(mut self, ids: &[EventId]) -> Self {
        self.member("ids");
        for (at, id) in ids.iter().enumerate() {
            self.0.extend_from_slice(if at == 0 { b"[\"" } else { b",\"" });
            self.0.extend_from_slice(id.encode(&mut [0; 36]).as_bytes());
            self.0.push(b'"');
        }
        self.0.extend_from_slice(if ids.is_empty() { b"[]" } else { b"]" });
        self
    }

    /// A member of any kind.
    pub fn value(mut self, name: &str, value: &impl Serialize) -> Result<Self> {
        self.member(name);
        serde_json::to_writer(&mut self.0, value).map_err(no_json)?;
        Ok(self)
    }

    /// The members of an object.
    pub fn members(mut self, object: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(object).map_err(no_json)?;
        let inside = text.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
        let inside = inside
            .ok_or_else(|| Error::new(ErrorKind::Usage, "the members of a request are to be an object"))?;
        if !inside.is_empty() {
            self.0.push(b',');
            self.0.extend_from_slice(inside);
        }
        Ok(self)
    }

    /// The frame. Everything in it is text that was JSON, or was written here.
    pub fn done(mut self) -> Utf8Bytes {
        self.0.push(b'}');
        Utf8Bytes::try_from(self.0).unwrap_or_else(|_| Utf8Bytes::from_static("{}"))
    }

    fn member(&mut self, name: &str) {
        self.0.push(b',');
        json::write_str(&mut self.0, name);
        self.0.push(b':');
    }
}

fn no_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Usage, "a request cannot be written as JSON").with(error)
}

fn size(event: &NewEvent) -> usize {
    64 + event.topic.len() + event.payload.len() + event.options.key.as_ref().map_or(0, String::len)
}

fn put_event(text: &mut Vec<u8>, event: &NewEvent) {
    text.extend_from_slice(b"\"topic\":");
    json::write_str(text, &event.topic);
    text.extend_from_slice(b",\"payload\":");
    text.extend_from_slice(event.payload.as_bytes());
    if event.options == PublishOptions::default() {
        return;
    }
    let before = text.len();
    text.extend_from_slice(b",\"opts\":");
    if serde_json::to_writer(&mut *text, &event.options).is_err() {
        // Text and numbers only: it cannot fail. Half an option is none.
        text.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hub_proto::{Payload, TopicName};
    use serde_json::{Value, json};

    fn json(frame: Outgoing) -> Value {
        serde_json::from_str(&frame.done()).unwrap()
    }

    #[test]
    fn requests_are_written_as_the_protocol_has_them() {
        let id = EventId::from_bytes([7; 16]);
        let name = Name::new("a.*", Some("g\"1"));
        let new = |payload: &str| {
            NewEvent::new(
                TopicName::parse("orders").unwrap(),
                Payload::from_json(payload.to_owned()).unwrap(),
            )
        };
        assert_eq!(
            json(Outgoing::publish(7, &new("{\"n\":1}"))),
            json!({"op": "PUBLISH", "corr": "7", "topic": "orders", "payload": {"n": 1}})
        );
        assert_eq!(
            json(Outgoing::publish_batch(8, &[new("1").with_key("k").with_id(id), new("null")])),
            json!({"op": "PUBLISH", "corr": "8", "events": [
                {"topic": "orders", "payload": 1, "opts": {"id": id, "key": "k"}},
                {"topic": "orders", "payload": null}
            ]})
        );
        let (ordered, taken) = Outgoing::publish_in_order(9, &[new("1").with_id(id), new("2")]);
        assert_eq!(taken, 2);
        assert_eq!(
            json(ordered),
            json!({"op": "PUBLISH", "corr": "9", "ordered": true, "events": [
                {"topic": "orders", "payload": 1, "opts": {"id": id}},
                {"topic": "orders", "payload": 2}
            ]})
        );
        assert_eq!(
            json(Outgoing::ack(None, &name, &[id, id], Some(2))),
            json!({"op": "ACK", "topic": "a.*", "group": "g\"1", "ids": [id, id], "attempt": 2})
        );
        assert_eq!(json(Outgoing::ack(Some(1), &name, &[], None))["ids"], json!([]));
        let raw = Outgoing::new("RELEASE", Some(2)).members(&json!({"topic": "t", "blame": id})).unwrap();
        assert_eq!(json(raw), json!({"op": "RELEASE", "corr": "2", "topic": "t", "blame": id}));
        assert_eq!(json(Outgoing::new("X", None).members(&json!({})).unwrap()), json!({"op": "X"}));
        assert!(Outgoing::new("X", None).members(&json!([1])).is_err());
    }

    #[test]
    fn a_batch_in_order_has_as_many_events_as_a_frame_takes() {
        let event = |bytes: usize| {
            let payload = Payload::of(&"x".repeat(bytes)).unwrap();
            NewEvent::new(TopicName::parse("t").unwrap(), payload)
        };
        let taken = |events: &[NewEvent]| {
            let (frame, taken) = Outgoing::publish_in_order(u64::MAX, events);
            let text = frame.done();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["events"].as_array().unwrap().len(), taken);
            (taken, text.len() <= 4 << 20)
        };
        assert_eq!(taken(&vec![event(1); 2_000]), (1_000, true));
        assert_eq!(taken(&vec![event(1 << 20); 6]), (3, true));
        assert_eq!(taken(&[event(10), event(5 << 20)]), (1, true));
        assert_eq!(taken(&[event(5 << 20), event(10)]), (1, false), "one goes, and the hub says no");
        // Escapes count as what is written.
        let quotes = Payload::of(&"\"".repeat(1 << 20)).unwrap();
        let quotes = NewEvent::new(TopicName::parse("t").unwrap(), quotes);
        assert_eq!(taken(&vec![quotes; 3]), (1, true));
    }
}
