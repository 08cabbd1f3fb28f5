//! Rows as documents.
//!
//! ```text
//! { _id: UUID | string,  the event's id
//!   topic, payload, headers?, key?, ord?, ts: Date, status: "pending", attempts: 0,
//!                        what writers write; payload_json instead of a payload that BSON cannot carry exactly
//!   stage?, next_at?, claimed_by?, claim?, lease_until?, error?, sent_at?
//!                        what drainers write }
//! ```
//!
//! Writers are strangers: whatever they wrote, a row can be claimed, and is parked with a reason if it is nothing that could
//! be published.

use super::relaxed;
use crate::document::bson::Writer;
use crate::document::payload;
use hub_core::outbox::{Micros, NewRow, Place, Ready, Row, RowId, RowStatus, Shown, Stage};
use hub_proto::{Error, EventId, Payload, PublishOptions};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use serde_json::value::RawValue;
use std::fmt::Write;
use std::sync::Arc;

/// A row as its document.
pub fn write(row: &NewRow) -> RawDocumentBuf {
    let mut writer = Writer::with_capacity(row.payload.len() + 256);
    let open = writer.begin();
    writer.uuid("_id", row.id);
    writer.string("topic", &row.topic);
    payload::write(&mut writer, row.payload.as_bytes());
    if !row.headers.is_empty() {
        let headers = writer.open_document("headers");
        for (name, value) in &row.headers {
            // The server refuses a NUL in a name, and the hub such a header.
            writer.string(&name.replace('\0', "\u{fffd}"), value);
        }
        writer.end(headers);
    }
    if let Some(key) = &row.key {
        writer.string("key", key);
    }
    if let Some(ord) = row.ord {
        writer.int64("ord", ord);
    }
    writer.string("status", RowStatus::Pending.as_str());
    writer.name(0x09, "ts");
    writer.bytes.extend_from_slice(&millis(row.at).to_le_bytes());
    writer.int32("attempts", 0);
    writer.end(open);
    // It was written element by element.
    RawDocumentBuf::from_bytes(writer.bytes).unwrap_or_default()
}

fn millis(at: Micros) -> i64 {
    i64::try_from(at / 1000).unwrap_or(i64::MAX)
}

/// The time of a place, as it stands in `ts`.
pub fn date(at: Micros) -> Bson {
    Bson::DateTime(mongodb::bson::DateTime::from_millis(millis(at)))
}

/// What a row is called: its UUID, or its string in quotes, or else the bytes of its `_id`. So different ones have different
/// names, and each leads back.
fn name(id: RawBsonRef<'_>) -> RowId {
    if let Some(uuid) = uuid(id) {
        return uuid.into();
    }
    if let Some(text) = id.as_str() {
        let mut quoted = Vec::new();
        hub_proto::json::write_str(&mut quoted, text);
        return RowId::from(&*String::from_utf8_lossy(&quoted));
    }
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), id);
    let hex = document.as_bytes().iter().fold(String::from(BYTES), |mut hex, byte| {
        // Writing to a String never fails.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    RowId::from(&*hex)
}

/// What names of bytes begin with.
const BYTES: &str = "bson:";

fn bytes_in(name: &str) -> Option<Bson> {
    let hex = name.strip_prefix(BYTES)?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let document = RawDocumentBuf::from_bytes(bytes?).ok()?;
    let id = document.get("_id").ok()??;
    Bson::try_from(id).ok()
}

fn uuid(id: RawBsonRef<'_>) -> Option<EventId> {
    let binary = id.as_binary().filter(|binary| binary.subtype == BinarySubtype::Uuid)?;
    Some(EventId::from_bytes(binary.bytes.try_into().ok()?))
}

/// The `_id` of a row.
pub fn id(name: &RowId) -> Bson {
    if let Ok(uuid) = name.as_str().parse::<EventId>() {
        return Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: uuid.to_bytes().to_vec() });
    }
    bytes_in(name.as_str()).unwrap_or_else(|| {
        let text = serde_json::from_str::<String>(name.as_str());
        Bson::String(text.unwrap_or_else(|_| name.as_str().to_owned()))
    })
}

/// The `_id`s that somebody may mean who names a row: strings are not quoted by people.
pub fn meant(name: &RowId) -> [Bson; 2] {
    [id(name), Bson::String(name.as_str().into())]
}

/// How people see its name.
fn shown_name(id: RawBsonRef<'_>) -> String {
    match id {
        RawBsonRef::String(text) => text.to_owned(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        id => name(id).to_string(),
    }
}

/// The fields of a row that are read, whatever they hold.
#[derive(Default)]
struct Fields<'a> {
    id: Option<RawBsonRef<'a>>,
    topic: Option<RawBsonRef<'a>>,
    payload: Option<RawBsonRef<'a>>,
    text: Option<RawBsonRef<'a>>,
    headers: Option<RawBsonRef<'a>>,
    key: Option<RawBsonRef<'a>>,
    ord: Option<RawBsonRef<'a>>,
    ts: Option<RawBsonRef<'a>>,
    status: Option<&'a str>,
    stage: Option<&'a str>,
    attempts: Option<RawBsonRef<'a>>,
    next_at: bool,
    claimed_by: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn of(document: &'a RawDocument) -> Self {
        let mut fields = Self::default();
        // Documents of a server are sound.
        for (name, value) in document.iter().flatten() {
            let value = Some(value).filter(|value| !matches!(value, RawBsonRef::Null));
            match name.as_str() {
                "_id" => fields.id = value,
                "topic" => fields.topic = value,
                // Null is a payload.
                payload::PAYLOAD => fields.payload = value.or(Some(RawBsonRef::Null)),
                payload::TEXT => fields.text = value,
                "headers" => fields.headers = value,
                "key" => fields.key = value,
                "ord" => fields.ord = value,
                "ts" => fields.ts = value,
                "status" => fields.status = value.and_then(RawBsonRef::as_str),
                "stage" => fields.stage = value.and_then(RawBsonRef::as_str),
                "attempts" => fields.attempts = value,
                "next_at" => fields.next_at = value.is_some(),
                "claimed_by" => fields.claimed_by = value.and_then(RawBsonRef::as_str),
                "error" => fields.error = value.and_then(RawBsonRef::as_str),
                _ => {}
            }
        }
        fields
    }

    fn key(&self) -> Option<&'a str> {
        self.key.and_then(RawBsonRef::as_str)
    }

    fn place(&self) -> Place {
        let at = self.ts.and_then(time).unwrap_or_default();
        Place {
            ord: self.ord.and_then(integer),
            at: at * 1000,
            id: self.id.map(name).unwrap_or_else(|| "".into()),
        }
    }

    fn payload(&self) -> Result<Payload, String> {
        let json = match (self.text, self.payload) {
            (Some(text), _) => text.as_str().ok_or("payload_json is no string")?.as_bytes().to_vec(),
            (None, Some(value)) => relaxed::json_of(value)?,
            (None, None) => return Err("there is none".into()),
        };
        Payload::from_json(json).map_err(|error| error.msg.to_string())
    }

    fn headers(&self) -> Result<Vec<(String, String)>, String> {
        let Some(headers) = self.headers else { return Ok(Vec::new()) };
        let headers = headers.as_document().ok_or("headers is no document")?;
        let header = |(name, value): (&_, RawBsonRef<'_>)| match value.as_str() {
            Some(value) => Ok((AsRef::<str>::as_ref(name).to_owned(), value.to_owned())),
            None => Err(format!("header {:?} is no string", AsRef::<str>::as_ref(name))),
        };
        headers.iter().flatten().map(|(name, value)| header((name, value))).collect()
    }

    fn event(&self) -> Result<hub_proto::NewEvent, Error> {
        let wrong = |why: String| Error::bad_request(format!("the row cannot be published: {why}"));
        if self.key.is_some() && self.key().is_none() {
            return Err(wrong("its key is no string".into()));
        }
        if self.ord.is_some() && self.ord.and_then(integer).is_none() {
            return Err(wrong("its ord is no integer".into()));
        }
        let topic = self.topic.and_then(RawBsonRef::as_str).ok_or_else(|| wrong("it has no topic".into()))?;
        let id = self.id.map(shown_name).unwrap_or_default();
        let options = PublishOptions {
            ts: self.ts.and_then(time),
            key: self.key().map(str::to_owned),
            headers: self.headers().map_err(wrong)?,
            ..PublishOptions::default()
        };
        Row::event(&id, topic, options, self.payload())
    }
}

/// Milliseconds, of a date or of a number that somebody wrote instead.
fn time(ts: RawBsonRef<'_>) -> Option<u64> {
    let millis = match ts {
        RawBsonRef::DateTime(at) => at.timestamp_millis(),
        other => integer(other)?,
    };
    u64::try_from(millis).ok()
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(number) => Some(number.into()),
        RawBsonRef::Int64(number) => Some(number),
        // What a shell or a script writes.
        RawBsonRef::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(number as i64),
        _ => None,
    }
}

/// Where a row stands.
pub fn ready(document: &RawDocument) -> Ready {
    let fields = Fields::of(document);
    Ready { key: fields.key().map(Arc::from), place: fields.place() }
}

/// A row that was claimed.
pub fn claimed(document: &RawDocument) -> Row {
    let fields = Fields::of(document);
    let attempts = fields.attempts.and_then(integer).and_then(|attempts| u32::try_from(attempts).ok());
    Row {
        key: fields.key().map(Arc::from),
        place: fields.place(),
        attempts: attempts.unwrap_or_default(),
        waited: fields.next_at,
        event: fields.event(),
    }
}

/// A row to be looked at.
pub fn shown(document: &RawDocument, with_payload: bool) -> Shown {
    let fields = Fields::of(document);
    let place = fields.place();
    let payload = if with_payload { fields.payload().ok() } else { None };
    let payload = payload.and_then(|payload| String::from_utf8(payload.as_bytes().to_vec()).ok());
    Shown {
        id: fields.id.map(shown_name).unwrap_or_default(),
        topic: fields.topic.and_then(RawBsonRef::as_str).unwrap_or_default().to_owned(),
        key: fields.key().map(str::to_owned),
        ord: place.ord,
        status: fields.status.and_then(RowStatus::parse).unwrap_or(RowStatus::Pending),
        ts: place.at / 1000,
        attempts: fields.attempts.and_then(integer).and_then(|it| u32::try_from(it).ok()).unwrap_or_default(),
        error: fields.error.map(str::to_owned),
        claimed_by: fields.claimed_by.map(str::to_owned),
        behind: fields.stage == Some(Stage::Behind.as_str()),
        payload: payload.and_then(|payload| RawValue::from_string(payload).ok()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{DateTime, Document, doc};

    const UUID: &str = "018f4e3a-1b2c-7d3e-8f40-112233445566";

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[test]
    fn names_lead_back_to_ids_of_every_type() {
        let uuid: EventId = UUID.parse().unwrap();
        let binary = Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: uuid.to_bytes().to_vec() });
        let ids = [
            binary,
            Bson::String(UUID.into()),
            Bson::String("order 7".into()),
            Bson::ObjectId(ObjectId::new()),
            Bson::Int64(7),
            Bson::Document(doc! { "b": 1, "a": 2 }),
        ];
        let mut names: Vec<RowId> = Vec::new();
        for written in ids {
            let name = ready(&raw(&doc! { "_id": &written })).place.id;
            assert_eq!(id(&name), written, "{name}");
            assert!(!names.contains(&name));
            names.push(name);
        }
        assert_eq!(names[0].as_str(), UUID);
        assert_eq!(meant(&UUID.into())[1], Bson::String(UUID.into()));
    }

    #[test]
    fn a_row_that_somebody_wrote_by_hand_is_read() {
        let at = DateTime::from_millis(1_700_000_000_123);
        let row = claimed(&raw(&doc! {
            "_id": UUID, "topic": "shop.orders", "payload": { "at": at, "n": 1 }, "ts": at, "ord": 7.0,
            "key": "k", "headers": { "trace": "x" }, "status": "claimed",
        }));
        assert_eq!((row.place.ord, row.place.at), (Some(7), 1_700_000_000_123_000));
        assert_eq!((row.attempts, row.waited), (0, false));
        let event = row.event.unwrap();
        assert_eq!(event.options.id, Some(UUID.parse().unwrap()));
        assert_eq!(event.options.headers, [("trace".to_owned(), "x".to_owned())]);
        assert_eq!(event.payload.as_bytes(), br#"{"at":"2023-11-14T22:13:20.123Z","n":1}"#);
    }

    #[test]
    fn what_cannot_be_published_says_why() {
        let good = doc! { "_id": UUID, "topic": "t", "payload": null };
        assert!(claimed(&raw(&good)).event.is_ok(), "null is a payload");
        let bad = |name: &str, value: Bson| {
            let mut row = good.clone();
            row.insert(name, value);
            claimed(&raw(&row)).event.unwrap_err().to_string()
        };
        assert!(bad("_id", Bson::Int32(7)).contains("is not a UUID"));
        assert!(bad("topic", Bson::Int32(7)).contains("no topic"));
        assert!(bad("key", Bson::Int32(7)).contains("key is no string"));
        assert!(bad("ord", Bson::Double(0.5)).contains("ord is no integer"));
        assert!(bad("headers", Bson::Int32(7)).contains("headers is no document"));
        assert!(bad("headers", doc! { "a": 1 }.into()).contains("header \"a\" is no string"));
        assert!(bad("payload_json", "{".into()).contains("payload cannot be published"));
        let without = claimed(&raw(&doc! { "_id": UUID, "topic": "t" })).event.unwrap_err();
        assert!(without.to_string().contains("there is none"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let row = NewRow {
            id: UUID.parse().unwrap(),
            topic: "t".into(),
            payload: Payload::from_json(&b"{\"big\":123456789012345678901234567890}"[..]).unwrap(),
            headers: vec![("a".into(), "b".into())],
            key: Some("k".into()),
            ord: Some(-3),
            at: 1_700_000_000_123_000,
        };
        let document = write(&row);
        assert!(document.get("payload_json").unwrap().is_some(), "BSON cannot carry that");
        let read = claimed(&document);
        assert_eq!(read.place, Place { ord: Some(-3), at: row.at, id: UUID.into() });
        let event = read.event.unwrap();
        assert_eq!(event.payload.as_bytes(), row.payload.as_bytes());
        assert_eq!((event.options.key, event.options.headers), (row.key, row.headers));
    }
}
