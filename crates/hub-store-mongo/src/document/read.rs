//! From a document to an event.

use super::payload;
use bytes::Bytes;
use hub_core::Millis;
use hub_core::store::{StoreError, StoreResult};
use hub_proto::json::{write_str, write_u64};
use hub_proto::{Event, EventId, TopicName};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{RawArray, RawBsonRef, RawDocument};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Where an event is: what is asked of many that are not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub oid: Option<ObjectId>,
    pub id: Option<EventId>,
    pub seq: u64,
    pub committed: Millis,
    pub size: u64,
    pub end: u64,
}

/// Reads the fields of a [`Place`]; those that were not asked for stay empty.
pub fn place(topic: &str, document: &RawDocument) -> StoreResult<Place> {
    let mut place = Place::default();
    for element in document {
        let (name, value) = element.map_err(|error| damaged(topic, None, &error.to_string()))?;
        let wrong = || damaged(topic, None, &format!("{name} is of another type"));
        match name.as_str() {
            "_id" => place.oid = value.as_object_id(),
            "id" => place.id = Some(uuid(value).ok_or_else(wrong)?),
            "seq" => place.seq = number(value).ok_or_else(wrong)?,
            "committed" => place.committed = number(value).ok_or_else(wrong)?,
            "size" => place.size = number(value).ok_or_else(wrong)?,
            "end" => place.end = number(value).ok_or_else(wrong)?,
            _ => {}
        }
    }
    Ok(place)
}

/// The fields of an event's document.
#[derive(Default)]
struct Fields<'a> {
    seq: Option<u64>,
    committed: Option<u64>,
    id: Option<EventId>,
    ts: Option<u64>,
    key: Option<&'a str>,
    sid: Option<&'a str>,
    headers: Option<RawBsonRef<'a>>,
    caused_by: Option<&'a RawArray>,
    tags: Option<&'a RawArray>,
    payload: Option<RawBsonRef<'a>>,
    text: Option<&'a str>,
}

/// Reads an event. Its JSON is written as a draft writes it, so it is the one that the publisher's hub had.
pub fn event(topic: &TopicName, document: &RawDocument) -> StoreResult<Arc<Event>> {
    let fields = fields(topic, document)?;
    let (seq, committed) = (fields.seq, fields.committed.unwrap_or_default());
    let wrong = |what: &str| damaged(topic, seq, what);
    let mut json = Vec::with_capacity(document.as_bytes().len() + 64);
    write(&mut json, topic, &fields).map_err(|what| wrong(&what))?;
    Event::shared_from_trusted(Bytes::from(json), committed, topic).map_err(|error| wrong(&error.msg))
}

fn fields<'a>(topic: &TopicName, document: &'a RawDocument) -> StoreResult<Fields<'a>> {
    let mut fields = Fields::default();
    for element in document {
        let (name, value) = element.map_err(|error| damaged(topic, fields.seq, &error.to_string()))?;
        let known = match name.as_str() {
            "seq" => set(&mut fields.seq, number(value)),
            "committed" => set(&mut fields.committed, number(value)),
            "id" => set(&mut fields.id, uuid(value)),
            "ts" => set(&mut fields.ts, number(value)),
            "key" | "replay_key" => set(&mut fields.key, value.as_str()),
            "sid" => set(&mut fields.sid, value.as_str()),
            "headers" => set(&mut fields.headers, Some(value)),
            "caused_by" => set(&mut fields.caused_by, value.as_array()),
            "tags" => set(&mut fields.tags, value.as_array()),
            payload::PAYLOAD => set(&mut fields.payload, Some(value)),
            payload::TEXT => set(&mut fields.text, value.as_str()),
            _ => true,
        };
        if !known {
            return Err(damaged(topic, fields.seq, &format!("{name} is of another type")));
        }
    }
    Ok(fields)
}

fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    *field = value;
    field.is_some()
}

/// Writes the members in the order of a draft.
fn write(json: &mut Vec<u8>, topic: &TopicName, fields: &Fields<'_>) -> Result<(), String> {
    let missing = |name: &str| format!("it has no {name}");
    json.extend_from_slice(b"{\"id\":\"");
    json.extend_from_slice(fields.id.ok_or_else(|| missing("id"))?.encode(&mut [0; 36]).as_bytes());
    json.extend_from_slice(b"\",\"ts\":");
    write_u64(json, fields.ts.ok_or_else(|| missing("ts"))?);
    json.extend_from_slice(b",\"topic\":");
    write_str(json, topic);
    if let Some(key) = fields.key {
        json.extend_from_slice(b",\"key\":");
        write_str(json, key);
    }
    if let Some(sid) = fields.sid {
        json.extend_from_slice(b",\"sid\":");
        write_str(json, sid);
    }
    if let Some(headers) = fields.headers {
        json.extend_from_slice(b",\"headers\":{");
        write_headers(json, headers)?;
        json.push(b'}');
    }
    if let Some(causes) = fields.caused_by {
        json.extend_from_slice(b",\"caused_by\":[");
        write_list(json, causes, |json, value| {
            uuid(value).map(|id| write_str(json, id.encode(&mut [0; 36])))
        })?;
        json.push(b']');
    }
    if let Some(tags) = fields.tags {
        json.extend_from_slice(b",\"tags\":[");
        write_list(json, tags, |json, value| value.as_str().map(|tag| write_str(json, tag)))?;
        json.push(b']');
    }
    json.extend_from_slice(b",\"payload\":");
    match (fields.text, fields.payload) {
        // The text is what the publisher wrote; the BSON beside it is for people.
        (Some(text), _) => json.extend_from_slice(checked(text)?.as_bytes()),
        (None, Some(payload)) => payload::write_json(json, payload)?,
        (None, None) => return Err(missing("payload")),
    }
    json.extend_from_slice(b",\"seq\":");
    write_u64(json, fields.seq.ok_or_else(|| missing("seq"))?);
    json.push(b'}');
    Ok(())
}

/// Somebody may have changed the text by hand: what is no JSON would make the whole record none.
fn checked(text: &str) -> Result<&str, String> {
    let raw: &RawValue =
        serde_json::from_str(text).map_err(|error| format!("its payload_json is no JSON: {error}"))?;
    let one_line = memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none();
    if raw.get().len() != text.len() || !one_line {
        return Err("its payload_json has line breaks, or spaces around it".into());
    }
    Ok(text)
}

fn write_headers(json: &mut Vec<u8>, headers: RawBsonRef<'_>) -> Result<(), String> {
    let mut pair = |at: usize, name: &str, value: RawBsonRef<'_>| {
        let value = value.as_str().ok_or("a header is no text")?;
        if at > 0 {
            json.push(b',');
        }
        write_str(json, name);
        json.push(b':');
        write_str(json, value);
        Ok::<_, String>(())
    };
    if let Some(headers) = headers.as_document() {
        for (at, header) in headers.iter().enumerate() {
            let (name, value) = header.map_err(|error| error.to_string())?;
            pair(at, name.as_str(), value)?;
        }
        return Ok(());
    }
    let pairs = headers.as_array().ok_or("its headers are neither a document nor an array")?;
    for (at, header) in pairs.into_iter().enumerate() {
        let header = header.ok().and_then(RawBsonRef::as_array).ok_or("a header is no pair")?;
        let parts: Vec<_> =
            header.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let [name, value] = parts[..] else { return Err("a header is no pair".into()) };
        pair(at, name.as_str().ok_or("a header's name is no text")?, value)?;
    }
    Ok(())
}

fn write_list(
    json: &mut Vec<u8>,
    items: &RawArray,
    write: impl Fn(&mut Vec<u8>, RawBsonRef<'_>) -> Option<()>,
) -> Result<(), String> {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        let item = item.map_err(|error| error.to_string())?;
        write(json, item).ok_or("a list has a value of another type")?;
    }
    Ok(())
}

/// A number that is not negative, of whatever type: somebody may have touched it with a shell.
fn number(value: RawBsonRef<'_>) -> Option<u64> {
    match value {
        RawBsonRef::Int64(number) => u64::try_from(number).ok(),
        RawBsonRef::Int32(number) => u64::try_from(number).ok(),
        // Whole numbers up to 2^53 are exact.
        RawBsonRef::Double(number) if (0.0..=9e15).contains(&number) && number.fract() == 0.0 => {
            Some(number as u64)
        }
        _ => None,
    }
}

fn uuid(value: RawBsonRef<'_>) -> Option<EventId> {
    let binary = value.as_binary().filter(|binary| binary.subtype == BinarySubtype::Uuid)?;
    binary.bytes.try_into().ok().map(EventId::from_bytes)
}

fn damaged(topic: &str, seq: Option<u64>, what: &str) -> StoreError {
    match seq {
        Some(seq) => StoreError::Damaged(format!("event {seq} of topic {topic}: {what}")),
        None => StoreError::Damaged(format!("an event of topic {topic}: {what}")),
    }
}
