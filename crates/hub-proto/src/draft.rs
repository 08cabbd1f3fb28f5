//! An event's JSON, complete but for its `seq`.

use std::fmt;

use crate::event::{KeyPart, Parts, content_id, extras_of};
use crate::json::{write_str, write_u64};
use crate::{Event, EventId, Key, NewEvent, PublishOptions, PublishTrace, TopicName, header};

/// Room for the longest `seq` and the closing brace.
const TAIL_BYTES: usize = 21;

/// Bytes of the members every record has, around their values: a bound, for the first allocation.
const FRAME_BYTES: usize = 128;

/// An event on its way to the log: its JSON is built, only `seq` is missing.
///
/// Members are in a fixed order: `id, ts, topic, key?, sid?, headers?, caused_by?, tags?, payload, seq`. As
/// `seq` is last, [`Draft::commit`] appends a few digits to memory that is there already, and copies nothing.
#[derive(Clone)]
pub struct Draft {
    json: Vec<u8>,
    parts: Parts,
    relaxed: bool,
    /// Few events are traced: a draft is moved often, and should be small.
    trace: Option<Box<PublishTrace>>,
}

impl Draft {
    /// Builds the JSON of an event. The id and time given stand, whatever the event's options say: the caller
    /// has chosen between those and its own. Nothing is checked here; see [`NewEvent::check`].
    pub fn encode(event: NewEvent, id: EventId, ts: u64) -> Self {
        let NewEvent { topic, payload, options } = event;
        let mut json = Vec::with_capacity(
            FRAME_BYTES + topic.len() + options_bytes(&options) + payload.len() + TAIL_BYTES,
        );
        json.extend_from_slice(b"{\"id\":\"");
        json.extend_from_slice(id.encode(&mut [0; 36]).as_bytes());
        json.extend_from_slice(b"\",\"ts\":");
        write_u64(&mut json, ts);
        json.extend_from_slice(b",\"topic\":");
        write_str(&mut json, &topic);
        if let Some(key) = &options.key {
            json.extend_from_slice(b",\"key\":");
            write_str(&mut json, key);
        }
        let extras_start = json.len();
        write_extras(&mut json, &options);
        json.extend_from_slice(b",\"payload\":");
        let payload_start = json.len();
        json.extend_from_slice(payload.as_bytes());
        let payload_end = json.len();
        json.extend_from_slice(b",\"seq\":");
        // Escapes may have used up what was set aside above.
        json.reserve(TAIL_BYTES);

        let audience = options.headers.iter().find(|(name, _)| name == header::REPLAY_FOR);
        let audience = audience.map(|(_, group)| group.as_str().into());
        let key = options.key.map(Key::from);
        let parts = Parts {
            id,
            ts,
            topic,
            key: key.map(KeyPart::of),
            audience,
            extras_start: extras_start as u32,
            payload: (payload_start as u32, payload_end as u32),
        };
        Self { json, parts, relaxed: false, trace: None }
    }

    /// The event's id.
    pub fn id(&self) -> EventId {
        self.parts.id
    }

    /// The event's time, in milliseconds since 1970.
    pub fn ts(&self) -> u64 {
        self.parts.ts
    }

    /// Where it goes.
    pub fn topic(&self) -> &TopicName {
        &self.parts.topic
    }

    /// Its entity key.
    pub fn key(&self) -> Option<&Key> {
        self.parts.key.as_ref().map(|key| key.text(&self.json))
    }

    /// Its payload, as JSON text.
    pub fn payload(&self) -> &[u8] {
        self.parts.payload(&self.json)
    }

    /// Whether it deletes its key on a compacted topic: a key and a payload of `null`.
    pub fn is_tombstone(&self) -> bool {
        self.parts.is_tombstone(&self.json)
    }

    /// Headers, tags, causes and session of its publisher, read back from the JSON; `None` if it has none of them, as most
    /// have.
    ///
    /// ```
    /// use hub_proto::{Draft, EventId, NewEvent};
    /// let event = NewEvent::from_wire(br#"{"topic":"a","payload":1,"opts":{"key":"k","tags":["x"]}}"#)?;
    /// let draft = Draft::encode(event, EventId::from_bytes([1; 16]), 5);
    /// assert_eq!(draft.extras().map(|extras| extras.tags), Some(vec!["x".to_owned()]));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn extras(&self) -> Option<PublishOptions> {
        extras_of(&self.json, &self.parts)
    }

    /// Bytes of the JSON, about: without the digits to come.
    #[expect(clippy::len_without_is_empty, reason = "a draft is never empty")]
    pub fn len(&self) -> usize {
        self.json.len() + 1
    }

    /// Whether the publisher is answered before the disk has it (a topic with `durability = "interval"`).
    pub fn relaxed(&self) -> bool {
        self.relaxed
    }

    /// Sets [`Draft::relaxed`]; a draft begins without.
    pub fn set_relaxed(&mut self, relaxed: bool) {
        self.relaxed = relaxed;
    }

    /// The trace of the publish, if the hub records it.
    pub fn trace(&self) -> Option<PublishTrace> {
        self.trace.as_deref().copied()
    }

    /// Sets [`Draft::trace`]; a draft begins without.
    pub fn set_trace(&mut self, trace: PublishTrace) {
        self.trace = Some(Box::new(trace));
    }

    /// The one group this record is for, if it is a replayed dead letter.
    pub fn audience(&self) -> Option<&str> {
        self.parts.audience.as_deref()
    }

    /// The same for two events with the same key and, compared as JSON, the same payload; see
    /// [`Event::content`].
    pub fn content(&self) -> EventId {
        content_id(self.key().map(|key| &**key), self.payload())
    }

    /// Gives the event its place in its topic, and the time of the commit.
    pub fn commit(self, seq: u64, committed: u64) -> Event {
        let mut json = self.json;
        write_u64(&mut json, seq);
        json.push(b'}');
        Event::from_parts(json.into(), self.parts, seq, committed)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("id", &self.id())
            .field("topic", self.topic())
            .field("bytes", &self.len())
            .field("relaxed", &self.relaxed)
            .finish_non_exhaustive()
    }
}

/// Writes the members between `key` and `payload`, each with a comma before it. Most events have none.
fn write_extras(json: &mut Vec<u8>, options: &PublishOptions) {
    if let Some(sid) = &options.sid {
        json.extend_from_slice(b",\"sid\":");
        write_str(json, sid);
    }
    if !options.headers.is_empty() {
        json.extend_from_slice(b",\"headers\":{");
        write_list(json, &options.headers, |json, (name, value)| {
            write_str(json, name);
            json.push(b':');
            write_str(json, value);
        });
        json.push(b'}');
    }
    if !options.caused_by.is_empty() {
        json.extend_from_slice(b",\"caused_by\":[");
        write_list(json, &options.caused_by, |json, id| write_str(json, id.encode(&mut [0; 36])));
        json.push(b']');
    }
    if !options.tags.is_empty() {
        json.extend_from_slice(b",\"tags\":[");
        write_list(json, &options.tags, |json, tag| write_str(json, tag));
        json.push(b']');
    }
}

fn write_list<T>(json: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        write(json, item);
    }
}

/// Bytes the options will take if nothing has to be escaped.
fn options_bytes(options: &PublishOptions) -> usize {
    let headers: usize = options.headers.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    let tags: usize = options.tags.iter().map(|tag| tag.len() + 3).sum();
    let texts = options.key.as_ref().map_or(0, String::len) + options.sid.as_ref().map_or(0, String::len);
    texts + headers + tags + options.caused_by.len() * 39
}
