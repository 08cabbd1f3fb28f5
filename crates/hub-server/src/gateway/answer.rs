//! Writing frames. They are put together from text that is there already: an event's bytes are those of the log.

use super::request::{Corr, Name};
use crate::edge::Given;
use bytes::{BufMut, Bytes, BytesMut};
use hub_core::{Event, Millis, Receipt};
use hub_proto::{Error, EventId, TopicName, json};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Frames are written into pieces of memory and cut out of them. The first of a round is small, most rounds write little.
const FIRST_PIECE: usize = 512;
/// Each further one is twice as large, up to this.
const LARGEST_PIECE: usize = 64 << 10;

/// A frame in the making, and the text behind it that is still free.
#[derive(Default)]
pub(crate) struct Writer {
    text: BytesMut,
    /// The size of the next piece.
    piece: usize,
}

impl Writer {
    /// Begins a frame that takes about so many bytes.
    fn frame(&mut self, bytes: usize) -> &mut BytesMut {
        if self.text.capacity() < bytes {
            // What is left of the old piece is given up once its frames are gone.
            let piece = self.piece.clamp(FIRST_PIECE, LARGEST_PIECE);
            self.text = BytesMut::with_capacity(bytes.max(piece));
            self.piece = 2 * piece;
        }
        &mut self.text
    }

    /// The frame that was begun. Everything in it is JSON that was checked, or written here.
    fn cut(&mut self) -> Message {
        let text = Utf8Bytes::try_from(self.text.split().freeze());
        Message::Text(text.unwrap_or_else(|_| Utf8Bytes::from_static(NOT_TEXT)))
    }

    /// Nothing is written at the moment: an idle connection needs no piece.
    pub fn rest(&mut self) {
        (self.text, self.piece) = (BytesMut::new(), 0);
    }

    fn answer(&mut self, op: &str, corr: &Corr, bytes: usize) -> &mut BytesMut {
        let corr_bytes = corr.0.as_ref().map_or(0, Bytes::len);
        let text = self.frame(bytes + corr_bytes + 64);
        text.put_slice(b"{\"op\":\"");
        text.put_slice(op.as_bytes());
        text.put_u8(b'"');
        if let Some(corr) = &corr.0 {
            text.put_slice(b",\"corr\":");
            text.put_slice(corr);
        }
        text
    }

    /// `OK` and nothing else.
    pub fn ok(&mut self, corr: &Corr) -> Message {
        self.answer("OK", corr, 0).put_u8(b'}');
        self.cut()
    }

    /// `OK` to a PING: the hub's time.
    pub fn pong(&mut self, corr: &Corr, ts: Millis) -> Message {
        let text = self.answer("OK", corr, 32);
        field(text, "ts", ts);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a SUBSCRIBE that named what the member holds: what of that it goes on holding.
    pub fn resumed(&mut self, corr: &Corr, held: &[EventId]) -> Message {
        let text = self.answer("OK", corr, 32 + 40 * held.len());
        put_ids(text, "held", held);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a RETURN.
    pub fn returned(&mut self, corr: &Corr, returned: usize, unknown: &[EventId]) -> Message {
        let text = self.answer("OK", corr, 64 + 40 * unknown.len());
        field(text, "returned", returned as u64);
        put_ids(text, "unknown", unknown);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to an AUTH; `exp` in seconds, as in the token. The features are what a client cannot ask of every hub.
    pub fn authenticated(&mut self, corr: &Corr, subject: Option<&str>, exp: Option<u64>) -> Message {
        let text = self.answer("OK", corr, 128 + 6 * subject.map_or(0, str::len));
        if let Some(subject) = subject {
            text.put_slice(b",\"sub\":");
            string(text, subject);
        }
        if let Some(exp) = exp {
            field(text, "exp", exp);
        }
        text.put_slice(FEATURES);
        self.cut()
    }

    /// `OK` to a PUBLISH.
    pub fn published(&mut self, corr: &Corr, receipt: &Receipt) -> Message {
        let text = self.answer("OK", corr, 160);
        text.put_u8(b',');
        put_receipt(text, receipt);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a PUBLISH of several events.
    pub fn published_all(&mut self, corr: &Corr, results: &[Result<Receipt, Error>]) -> Message {
        self.results(corr, results, b"}")
    }

    /// `OK` to a PUBLISH of several events in their order.
    pub fn published_in_order(&mut self, corr: &Corr, results: &[Result<Receipt, Error>]) -> Message {
        self.results(corr, results, b",\"ordered\":true}")
    }

    fn results(&mut self, corr: &Corr, results: &[Result<Receipt, Error>], end: &[u8]) -> Message {
        let text = self.answer("OK", corr, 200 * results.len() + 32);
        text.put_slice(b",\"results\":[");
        for (at, result) in results.iter().enumerate() {
            text.put_slice(if at == 0 { b"{" } else { b",{" });
            match result {
                Ok(receipt) => put_receipt(text, receipt),
                Err(error) => put_error(text, error),
            }
            text.put_u8(b'}');
        }
        text.put_u8(b']');
        text.put_slice(end);
        self.cut()
    }

    /// `OK` to an ACK or NACK of one event.
    pub fn settled(&mut self, corr: &Corr, id: EventId) -> Message {
        let text = self.answer("OK", corr, 64);
        text.put_u8(b',');
        put_id(text, id);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to an ACK of several.
    pub fn acked(&mut self, corr: &Corr, acked: usize, unknown: &[EventId]) -> Message {
        let text = self.answer("OK", corr, 64 + 40 * unknown.len());
        field(text, "acked", acked as u64);
        put_ids(text, "unknown", unknown);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a MODACK.
    pub fn extended(&mut self, corr: &Corr, left: Millis, unknown: &[EventId]) -> Message {
        let text = self.answer("OK", corr, 64 + 40 * unknown.len());
        field(text, "ack_deadline_ms", left);
        if !unknown.is_empty() {
            put_ids(text, "unknown", unknown);
        }
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to what one hub has another do: how many, or where.
    pub fn done(&mut self, corr: &Corr, done: u64) -> Message {
        let text = self.answer("OK", corr, 64);
        field(text, "done", done);
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a HELD.
    pub fn held(&mut self, corr: &Corr, leases: &serde_json::Value) -> Message {
        let leases = leases.to_string();
        let text = self.answer("OK", corr, leases.len() + 16);
        text.put_slice(b",\"held\":");
        text.put_slice(leases.as_bytes());
        text.put_u8(b'}');
        self.cut()
    }

    /// `OK` to a LIST.
    pub fn listed(&mut self, corr: &Corr, topics: Option<&[TopicName]>) -> Message {
        let bytes = topics.map_or(0, |topics| topics.iter().map(|topic| topic.len() + 3).sum());
        let text = self.answer("OK", corr, 32 + bytes);
        if let Some(topics) = topics {
            text.put_slice(b",\"topics\":[");
            for (at, topic) in topics.iter().enumerate() {
                if at > 0 {
                    text.put_u8(b',');
                }
                string(text, topic);
            }
            text.put_u8(b']');
        }
        text.put_u8(b'}');
        self.cut()
    }

    /// `ERR`.
    pub fn failed(&mut self, corr: &Corr, error: &Error) -> Message {
        let text = self.answer("ERR", corr, 128 + 2 * error.msg.len());
        text.put_u8(b',');
        put_error(text, error);
        text.put_u8(b'}');
        self.cut()
    }

    /// `ERR` to an ACK of several of which some are not known.
    pub fn unknown(&mut self, corr: &Corr, error: &Error, unknown: &[EventId]) -> Message {
        let text = self.answer("ERR", corr, 128 + 2 * error.msg.len() + 40 * unknown.len());
        text.put_u8(b',');
        put_error(text, error);
        put_ids(text, "unknown", unknown);
        text.put_u8(b'}');
        self.cut()
    }

    /// `ERR` that ends a subscription.
    pub fn ended(&mut self, name: &Name, error: &Error) -> Message {
        let names = name.topic.len() + name.group.as_deref().map_or(0, str::len);
        let text = self.answer("ERR", &Corr::default(), 128 + 2 * error.msg.len() + 6 * names);
        text.put_u8(b',');
        put_error(text, error);
        put_name(text, name);
        text.put_u8(b'}');
        self.cut()
    }

    /// `LAGGED`: `topic` is the subscription's, `of` the topic of which events were missed.
    pub fn lagged(&mut self, name: &Name, of: &TopicName, missed: u64) -> Message {
        let text = self.answer("LAGGED", &Corr::default(), 64 + 6 * name.topic.len() + of.len());
        put_name(text, name);
        if of.as_str() != name.topic {
            text.put_slice(b",\"of\":");
            string(text, of);
        }
        field(text, "missed", missed);
        text.put_u8(b'}');
        self.cut()
    }

    /// `EVENT`.
    pub fn event(&mut self, heading: &Heading, event: &Event, lease: Option<Lease>) -> Message {
        let text = self.frame(heading.single.len() + event.json().len() + CONTEXT);
        text.put_slice(&heading.single);
        put_event(text, event, lease);
        text.put_u8(b'}');
        self.cut()
    }

    /// Begins `EVENTS`.
    pub fn begin_events(&mut self, heading: &Heading, bytes: usize) {
        self.frame(heading.several.len() + bytes).put_slice(&heading.several);
    }

    /// One of them.
    pub fn add_event(&mut self, first: bool, event: &Event, lease: Option<Lease>) {
        self.text.reserve(event.json().len() + CONTEXT);
        self.text.put_slice(if first { b"{\"event\":" } else { b",{\"event\":" });
        put_event(&mut self.text, event, lease);
        self.text.put_u8(b'}');
    }

    /// Ends it.
    pub fn end_events(&mut self) -> Message {
        self.text.put_slice(b"]}");
        self.cut()
    }
}

/// Said instead of a frame that is no text, which cannot happen: it is made of nothing but text.
const NOT_TEXT: &str = r#"{"op":"ERR","code":"internal","msg":"a frame could not be written"}"#;

/// How the answer to an AUTH ends: what older hubs do not have.
const FEATURES: &[u8] = br#","features":["ordered","ping","return","member","coalesce"]}"#;

/// The most bytes around an event.
const CONTEXT: usize = 160;

/// What the frames of one subscription begin with.
#[derive(Debug)]
pub(crate) struct Heading {
    single: Box<[u8]>,
    several: Box<[u8]>,
}

impl Heading {
    pub fn new(name: &Name) -> Self {
        let begin = |op: &str, rest: &[u8]| {
            let mut text = BytesMut::new();
            text.put_slice(b"{\"op\":\"");
            text.put_slice(op.as_bytes());
            text.put_u8(b'"');
            put_name(&mut text, name);
            text.put_slice(rest);
            text.to_vec().into_boxed_slice()
        };
        Self { single: begin("EVENT", b",\"event\":"), several: begin("EVENTS", b",\"events\":[") }
    }
}

/// What a consumer has to know about an event that is leased to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub attempt: u32,
    pub max_attempts: u32,
    /// Milliseconds.
    pub left: Millis,
    /// The group's epoch.
    pub epoch: u64,
}

impl Lease {
    pub fn of(given: &Given) -> Self {
        let &Given { attempt, max_attempts, left, epoch, .. } = given;
        Self { attempt, max_attempts, left, epoch }
    }
}

fn put_event(text: &mut BytesMut, event: &Event, lease: Option<Lease>) {
    text.put_slice(event.json());
    if let Some(Lease { attempt, max_attempts, left, epoch }) = lease {
        text.put_slice(b",\"ctx\":{\"attempt\":");
        number(text, attempt.into());
        field(text, "maxAttempts", max_attempts.into());
        field(text, "ack_deadline_ms", left);
        // Most groups were never placed anew.
        if epoch > 0 {
            field(text, "epoch", epoch);
        }
        text.put_u8(b'}');
    }
}

fn put_name(text: &mut BytesMut, name: &Name) {
    text.put_slice(b",\"topic\":");
    string(text, &name.topic);
    if let Some(group) = &name.group {
        text.put_slice(b",\"group\":");
        string(text, group);
    }
}

fn put_id(text: &mut BytesMut, id: EventId) {
    text.put_slice(b"\"id\":\"");
    text.put_slice(id.encode(&mut [0; 36]).as_bytes());
    text.put_u8(b'"');
}

fn put_receipt(text: &mut BytesMut, receipt: &Receipt) {
    put_id(text, receipt.id);
    field(text, "seq", receipt.seq);
    field(text, "ts", receipt.ts);
    text.put_slice(b",\"durable\":\"");
    text.put_slice(receipt.durable.as_str().as_bytes());
    text.put_slice(if receipt.duplicate { b"\",\"duplicate\":true" } else { b"\"" });
}

fn put_error(text: &mut BytesMut, error: &Error) {
    text.put_slice(b"\"code\":\"");
    text.put_slice(error.code.as_str().as_bytes());
    text.put_slice(b"\",\"msg\":");
    string(text, &error.msg);
    if let Some(id) = error.id {
        text.put_u8(b',');
        put_id(text, id);
    }
    if let Some(millis) = error.retry_after_ms {
        field(text, "retry_after_ms", millis);
    }
}

fn put_ids(text: &mut BytesMut, name: &str, ids: &[EventId]) {
    text.put_slice(b",\"");
    text.put_slice(name.as_bytes());
    text.put_slice(b"\":[");
    for (at, id) in ids.iter().enumerate() {
        text.put_slice(if at == 0 { b"\"" } else { b",\"" });
        text.put_slice(id.encode(&mut [0; 36]).as_bytes());
        text.put_u8(b'"');
    }
    text.put_u8(b']');
}

fn field(text: &mut BytesMut, name: &str, value: u64) {
    text.put_slice(b",\"");
    text.put_slice(name.as_bytes());
    text.put_slice(b"\":");
    number(text, value);
}

fn number(text: &mut BytesMut, value: u64) {
    json::write_u64(text, value);
}

fn string(text: &mut BytesMut, value: &str) {
    json::write_str(text, value);
}
