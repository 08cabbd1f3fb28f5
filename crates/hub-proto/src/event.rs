//! A record of the log.

mod layout;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;

use crate::{Error, EventId, Key, PublishOptions, Result, TopicName, json};

/// A committed event: its JSON and an index into it.
///
/// What the hub itself asks for (id, `seq`, times, topic, key, where the payload is) costs nothing. Headers,
/// tags, `sid` and `caused_by` are read from the JSON when first asked for, and at once answered as empty if
/// the record has none of them. Cloning shares the JSON.
///
/// The JSON is one line, with its members in the order that [`Draft`](crate::Draft) writes.
#[derive(Clone)]
pub struct Event {
    json: Bytes,
    parts: Parts,
    seq: u64,
    committed: u64,
    extras: OnceLock<Arc<PublishOptions>>,
}

/// What is known of a record's JSON without reading it again.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) id: EventId,
    pub(crate) ts: u64,
    pub(crate) topic: TopicName,
    pub(crate) key: Option<KeyPart>,
    /// The value of the header [`REPLAY_FOR`](crate::header::REPLAY_FOR): asked for at every delivery.
    pub(crate) audience: Option<Arc<str>>,
    /// Where the members `sid, headers, caused_by, tags` begin; they end before `,"payload":`.
    pub(crate) extras_start: u32,
    /// Where the payload begins and ends. Limits keep a record far below 4 GiB, and a small event is a fast one.
    pub(crate) payload: (u32, u32),
}

/// A record's key. Most readers want no more than its hash.
#[derive(Clone)]
pub(crate) struct KeyPart {
    /// See [`Event::key_hash`].
    hash: u64,
    /// The key, once somebody has asked for it.
    text: OnceLock<Key>,
    /// Where to find it in the JSON until then: its first byte and how many there are.
    plain: (u32, u32),
}

impl KeyPart {
    /// A key that is known.
    pub(crate) fn of(key: Key) -> Self {
        Self { hash: hash_of(&key), plain: (0, key.len() as u32), text: OnceLock::from(key) }
    }

    /// A key that stands in the JSON as it is, from `start` on.
    fn plain(text: &str, start: usize) -> Self {
        Self { hash: hash_of(text), plain: (start as u32, text.len() as u32), text: OnceLock::new() }
    }

    pub(crate) fn text(&self, json: &[u8]) -> &Key {
        self.text.get_or_init(|| {
            let (start, len) = (self.plain.0 as usize, self.plain.1 as usize);
            std::str::from_utf8(&json[start..start + len])
                .expect("it was text when the record was read")
                .into()
        })
    }
}

impl Parts {
    pub(crate) fn payload<'a>(&self, json: &'a [u8]) -> &'a [u8] {
        &json[self.payload.0 as usize..self.payload.1 as usize]
    }

    pub(crate) fn is_tombstone(&self, json: &[u8]) -> bool {
        self.key.is_some() && self.payload(json) == b"null"
    }
}

impl Event {
    #[inline]
    pub(crate) fn from_parts(json: Bytes, parts: Parts, seq: u64, committed: u64) -> Self {
        Self { json, parts, seq, committed, extras: OnceLock::new() }
    }

    /// Reads a record, from a store or a wire, that was committed at a given time. Its bytes are kept if they
    /// are as [`Draft`](crate::Draft) writes them; else the record is written anew, in that order and
    /// without what the hub does not know.
    ///
    /// ```
    /// use hub_proto::Event;
    /// let json = r#"{"seq":7,"topic":"a","id":"018bcfe5-6800-7000-8000-000000000001","ts":5,"payload":{"n":1}}"#;
    /// let event = Event::from_json(json.into(), 5)?;
    /// assert_eq!((event.seq(), event.payload()), (7, &br#"{"n":1}"#[..]));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_json` if the text is no JSON, `bad_request` if it is no record.
    pub fn from_json(json: Bytes, committed: u64) -> Result<Self> {
        layout::read(json, committed)
    }

    /// Reads a record that this hub wrote, from a store that has verified a checksum over it: the payload is
    /// not looked at, so the work does not grow with it. The topic, which a reader of a log knows, is shared.
    ///
    /// # Errors
    /// `internal` if the record is not as [`Draft`](crate::Draft) writes it, or of another topic.
    #[inline]
    pub fn from_trusted(json: Bytes, committed: u64, topic: &TopicName) -> Result<Self> {
        layout::read_trusted(json, committed, topic, |event| event)
    }

    /// Reads a record out of a frame of a hub that is trusted to send JSON: the payload is not looked at, if the record is
    /// as [`Draft`](crate::Draft) writes it. `topic` is the one that it is likely to be of; it is shared then. When it was
    /// committed is not in the frame, so [`Event::committed`] answers its `ts`.
    ///
    /// # Errors
    /// `bad_json` or `bad_request` if it is no record.
    pub fn from_hub(json: Bytes, topic: Option<&TopicName>) -> Result<Self> {
        layout::read_from_hub(json, topic)
    }

    /// As [`Event::from_trusted`], for many readers.
    ///
    /// # Errors
    /// As [`Event::from_trusted`].
    #[inline]
    pub fn shared_from_trusted(json: Bytes, committed: u64, topic: &TopicName) -> Result<Arc<Self>> {
        layout::read_trusted(json, committed, topic, Arc::new)
    }

    /// The event's id.
    pub fn id(&self) -> EventId {
        self.parts.id
    }

    /// Its position in its topic.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Its time, the publisher's or the hub's, in milliseconds since 1970. Positions in a log go by
    /// [`Event::committed`] instead.
    pub fn ts(&self) -> u64 {
        self.parts.ts
    }

    /// When the hub committed it, in milliseconds since 1970; never decreasing within a topic.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Its topic.
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

    /// The record as JSON.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// A hash of its key, made once, so that readers who order by key do not have to look at the key itself. The same
    /// for the same key within one process, and for no longer.
    pub fn key_hash(&self) -> Option<u64> {
        self.parts.key.as_ref().map(|key| key.hash)
    }

    /// Whether it deletes its key on a compacted topic: a key and a payload of `null`.
    pub fn is_tombstone(&self) -> bool {
        self.parts.is_tombstone(&self.json)
    }

    /// The one group this record is for, if it is a replayed dead letter.
    pub fn audience(&self) -> Option<&str> {
        self.parts.audience.as_deref()
    }

    /// Its headers, in the order published.
    pub fn headers(&self) -> &[(String, String)] {
        &self.extras().headers
    }

    /// The value of one header; names are compared exactly.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Its tags.
    pub fn tags(&self) -> &[String] {
        &self.extras().tags
    }

    /// The publisher's session or boot.
    pub fn sid(&self) -> Option<&str> {
        self.extras().sid.as_deref()
    }

    /// The events that led to this one.
    pub fn caused_by(&self) -> &[EventId] {
        &self.extras().caused_by
    }

    /// Bytes it takes in memory, about.
    pub fn size(&self) -> usize {
        // An `Arc<str>` has two counters before its text.
        let key = self.parts.key.as_ref().map_or(0, |key| key.plain.1 as usize + 16);
        size_of::<Self>() + self.json.len() + key
    }

    /// The payload as a value.
    ///
    /// # Errors
    /// `bad_request` if the payload has another shape than asked for.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        let mut from = serde_json::Deserializer::from_slice(self.payload());
        // The limit of serde_json is below ours; what is in a record is bounded when it is read or written.
        from.disable_recursion_limit();
        T::deserialize(&mut from).map_err(|err| {
            Error::from_json_error(&format!("payload of {} is not what was asked for", self.id()), &err)
                .with_id(self.id())
        })
    }

    /// The same for two events with the same key and, compared as JSON, the same payload, and for practical
    /// purposes only for those: what is kept of a record for deduplication when it is cleaned away.
    pub fn content(&self) -> EventId {
        content_id(self.key().map(|key| &**key), self.payload())
    }

    /// Whether it has this key and, compared as JSON, this payload.
    pub fn same_content(&self, key: Option<&str>, payload: &[u8]) -> bool {
        self.key().map(|key| &**key) == key && json::same(self.payload(), payload)
    }

    fn extras(&self) -> &PublishOptions {
        static NONE: LazyLock<PublishOptions> = LazyLock::new(PublishOptions::default);
        let Some(json) = layout::extras(&self.json, &self.parts) else { return &NONE };
        // Unreadable only if a checksum lied; a record without headers is the best that is left then.
        self.extras.get_or_init(|| layout::read_extras(json).unwrap_or_default().into())
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json && self.committed == other.committed
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id())
            .field("topic", self.topic())
            .field("seq", &self.seq)
            .field("bytes", &self.json.len())
            .finish_non_exhaustive()
    }
}

/// Seeded anew in every process: nobody can choose keys that collide.
pub(crate) fn hash_of(key: &str) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(key)
}

/// Everything between key and payload, if there is something.
pub(crate) fn extras_of(json: &[u8], parts: &Parts) -> Option<PublishOptions> {
    // Unreadable only if what wrote them and what reads them differ: then a record without them is the best that is left.
    layout::extras(json, parts).map(|json| layout::read_extras(json).unwrap_or_default())
}

/// A hash of a key and a payload, the latter as JSON.
pub(crate) fn content_id(key: Option<&str>, payload: &[u8]) -> EventId {
    let canonical = json::canonical(payload);
    match key {
        Some(key) => EventId::derived(&[b"content", key.as_bytes(), &canonical]),
        None => EventId::derived(&[b"content", &canonical]),
    }
}

#[cfg(test)]
mod tests;
