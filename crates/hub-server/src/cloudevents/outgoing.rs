//! An event as a CloudEvent.
//!
//! | attribute | is |
//! | --- | --- |
//! | `id` | the one that came in, else the event's id |
//! | `source` | the one that came in, else `/event-hub/` and the topic |
//! | `type` | the one that came in, else the topic |
//! | `subject` | the key |
//! | `time` | the one that came in if it was finer than a millisecond, else the `ts` |
//! | `data`, `data_base64` | the payload's bytes |
//! | those that came in, as headers `ce-…` | themselves, as strings |
//! | headers whose names are names of attributes | themselves |
//! | `hubheaders` | all other headers |
//! | `hubseq`, `hubtopic`, `hubid`, `hubtags`, `hubsid`, `hubcausedby` | see `extension` |

use super::binary::encoded;
use super::rfc3339::{self, Utc};
use super::{BASE64_MARK, PREFIX, extension, is_attribute_name, is_json};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hub_proto::Event;
use serde_json::Value;

/// Attributes with a meaning of their own: a header of such a name is no extension.
const CORE: &[&str] =
    &["data", "datacontenttype", "dataschema", "id", "source", "specversion", "subject", "time", "type"];
/// Headers of events that were CloudEvents which do not become attributes by their names.
const CONSUMED: &[&str] = &["id", "source", "specversion", "time", "type", "datacontenttype", "data_base64"];

/// Writes events as CloudEvents.
pub(crate) struct CloudEvent;

impl CloudEvent {
    /// Appends an event in structured mode: one line of JSON. The payload is copied as it is.
    pub fn write(event: &Event, to: &mut Vec<u8>) {
        to.reserve(event.json().len() + 256);
        let mut separator = b'{';
        each_attribute(event, |name, value| {
            to.push(separator);
            separator = b',';
            // Names of attributes need no escapes.
            to.push(b'"');
            to.extend_from_slice(name.as_bytes());
            to.extend_from_slice(b"\":");
            write_string(to, value);
        });
        let member: &[u8] = if is_base64(event) { b",\"data_base64\":" } else { b",\"data\":" };
        to.extend_from_slice(member);
        to.extend_from_slice(event.payload());
        to.push(b'}');
    }

    /// An event in binary mode: its attributes as headers, and its data.
    pub fn binary(event: &Event) -> (HeaderMap, Bytes) {
        let mut headers = HeaderMap::new();
        let mut content_type = HeaderValue::from_static("application/json");
        each_attribute(event, |name, value| {
            if name == "datacontenttype" {
                // Only a publisher on the socket can have written one that is none.
                if let Ok(value) = HeaderValue::from_str(value) {
                    content_type = value;
                }
                return;
            }
            let name = HeaderName::try_from(format!("{PREFIX}{name}"));
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(encoded(value))) {
                headers.insert(name, value);
            }
        });
        headers.insert(header::CONTENT_TYPE, content_type);
        (headers, body(event))
    }
}

/// The data as it is on the wire in binary mode.
fn body(event: &Event) -> Bytes {
    let payload = event.payload();
    let text = || serde_json::from_slice::<String>(payload).unwrap_or_default();
    if is_base64(event) {
        return STANDARD.decode(text()).unwrap_or_default().into();
    }
    match event.header("ce-datacontenttype").is_some_and(|content_type| !is_json(content_type)) {
        true if payload.starts_with(b"\"") => text().into(),
        // It came without data.
        true if payload == b"null" => Bytes::new(),
        _ => event.json().slice_ref(payload),
    }
}

/// Whether the payload is the base64 text of binary data.
fn is_base64(event: &Event) -> bool {
    event.header(BASE64_MARK).is_some() && event.payload().starts_with(b"\"")
}

/// Calls `visit` with the name and the value of every attribute.
fn each_attribute(event: &Event, mut visit: impl FnMut(&str, &str)) {
    let given = |name: &str| event.header(name).filter(|value| !value.is_empty());
    let own_id = event.id().to_string();
    let id = given("ce-id").unwrap_or(&own_id);
    visit("specversion", "1.0");
    visit("id", id);
    match given("ce-source") {
        Some(source) => visit("source", source),
        None => visit("source", &format!("/event-hub/{}", event.topic())),
    }
    visit("type", given("ce-type").unwrap_or(event.topic()));
    if let Some(key) = event.key().filter(|key| !key.is_empty()) {
        visit("subject", key);
    }
    match given("ce-time").filter(|time| rfc3339::millis(time) == Some(event.ts())) {
        Some(time) => visit("time", time),
        None => visit("time", &Utc(event.ts()).to_string()),
    }
    if let Some(content_type) = given("ce-datacontenttype") {
        visit("datacontenttype", content_type);
    }
    visit(extension::SEQ, &event.seq().to_string());
    visit(extension::TOPIC, event.topic());
    if id != own_id {
        visit(extension::ID, &own_id);
    }
    each_header(event, &mut visit);
    if !event.tags().is_empty() {
        visit(extension::TAGS, &Value::from(event.tags()).to_string());
    }
    if let Some(sid) = event.sid() {
        visit(extension::SID, sid);
    }
    if !event.caused_by().is_empty() {
        let causes: Vec<String> = event.caused_by().iter().map(ToString::to_string).collect();
        visit(extension::CAUSED_BY, &Value::from(causes).to_string());
    }
}

/// Headers that are attributes, then all others as one.
fn each_header(event: &Event, visit: &mut impl FnMut(&str, &str)) {
    // An object written by hand: it keeps the headers' order.
    let mut others = Vec::new();
    for (name, value) in event.headers() {
        if name.strip_prefix(PREFIX).is_some_and(|name| CONSUMED.contains(&name)) {
            continue;
        }
        match attribute_of(event, name).filter(|_| !value.chars().any(char::is_control)) {
            Some(attribute) => visit(attribute, value),
            None => {
                others.push(if others.is_empty() { b'{' } else { b',' });
                write_string(&mut others, name);
                others.push(b':');
                write_string(&mut others, value);
            }
        }
    }
    if !others.is_empty() {
        others.push(b'}');
        visit(extension::HEADERS, &String::from_utf8_lossy(&others));
    }
}

/// The name of the attribute that a header becomes, if it becomes one.
fn attribute_of<'a>(event: &Event, name: &'a str) -> Option<&'a str> {
    let is_free = |name: &str| is_attribute_name(name) && !name.starts_with("hub");
    match name.strip_prefix(PREFIX) {
        Some("subject") => event.key().is_none_or(|key| key.is_empty()).then_some("subject"),
        Some("data") => None,
        Some(attribute) => is_free(attribute).then_some(attribute),
        None => {
            let is_taken =
                || event.headers().iter().any(|(other, _)| other.strip_prefix(PREFIX) == Some(name));
            (is_free(name) && !CORE.contains(&name) && !is_taken()).then_some(name)
        }
    }
}

/// Appends a JSON string.
fn write_string(to: &mut Vec<u8>, value: &str) {
    // Writing to memory, and of a string, cannot fail.
    let _ = serde_json::to_writer(to, value);
}
