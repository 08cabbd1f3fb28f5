//! CloudEvents 1.0, as JSON (structured mode).
//!
//! | attribute | becomes |
//! | --- | --- |
//! | `id` | the event's id; if it is no UUID, a UUID v5 of source and id, and itself the header `ce-id` |
//! | `subject` | the key |
//! | `time` | the `ts` |
//! | `data` | the payload; without it, `null` |
//! | all others | headers `ce-…` |

use super::error::{Failure, shown};
use super::rfc3339;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use hub_proto::{Error, EventId, NewEvent, Payload, PublishOptions, Result, TopicName};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Whether the body of a request is a CloudEvent, by its type. Those in other ways of writing are refused: taken for a
/// plain payload, they would lose their ids.
pub(super) fn is_one(headers: &HeaderMap) -> Result<bool, Failure> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/cloudevents+json" => Ok(true),
        other if other.starts_with("application/cloudevents") => Err(Failure::bad_request(format!(
            "content type {}; of CloudEvents only application/cloudevents+json is taken, one at a time",
            shown(other)
        ))),
        _ if headers.contains_key("ce-specversion") => Err(Failure::bad_request(
            "CloudEvents in binary mode (headers ce-…) are not taken; send application/cloudevents+json",
        )),
        _ => Ok(false),
    }
}

/// The event that a CloudEvent stands for, with `options` of the request beside its own.
pub(super) fn read(topic: TopicName, body: &Bytes, mut options: PublishOptions) -> Result<NewEvent> {
    let Attributes(attributes) = serde_json::from_slice(body).map_err(|error| {
        let text = format!("the CloudEvent cannot be read: {}", cut(&error.to_string()));
        if error.is_data() { Error::bad_request(text) } else { Error::bad_json(text) }
    })?;
    let mut payload = Payload::null();
    let (mut id, mut source, mut version, mut kind) = (None, None, None, None);
    for (name, value) in &attributes {
        if !is_name(name) {
            return Err(Error::bad_request(format!(
                "CloudEvent attribute {} is not a name of lower-case letters and digits",
                shown(name)
            )));
        }
        match name.as_ref() {
            "data" => payload = Payload::from_json(body.slice_ref(value.get().as_bytes()))?,
            // Only a name with an underscore, and the only one that the standard has.
            "data_base64" => {
                return Err(Error::bad_request("a payload is JSON: send data in place of data_base64"));
            }
            "subject" => options.key = Some(text(name, value)?),
            "time" => options.ts = Some(time(&text(name, value)?)?),
            "id" => id = Some(text(name, value)?),
            "source" => source = Some(text(name, value)?),
            "specversion" => version = Some(text(name, value)?),
            "type" => kind = Some(text(name, value)?),
            _ => options.headers.push((format!("ce-{name}"), plain(name, value)?)),
        }
    }
    let [id, source, version, kind] =
        [("id", id), ("source", source), ("specversion", version), ("type", kind)].map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| Error::bad_request(format!("the CloudEvent has no {name}")))
        });
    let (id, source, version, kind) = (id?, source?, version?, kind?);
    if version != "1.0" {
        return Err(Error::bad_request(format!("CloudEvent specversion {}; 1.0 is taken", shown(&version))));
    }
    let event_id =
        EventId::parse(&id).unwrap_or_else(|_| EventId::derived(&[source.as_bytes(), id.as_bytes()]));
    if event_id.to_string() != id {
        options.headers.push(("ce-id".to_owned(), id));
    }
    options.id = Some(event_id);
    for (name, value) in [("ce-source", source), ("ce-specversion", version), ("ce-type", kind)] {
        options.headers.push((name.to_owned(), value));
    }
    Ok(NewEvent { topic, payload, options })
}

fn is_name(name: &str) -> bool {
    name == "data_base64"
        || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn text(name: &str, value: &RawValue) -> Result<String> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::bad_request(format!("the CloudEvent's {name} is not a string")))
}

fn time(text: &str) -> Result<u64> {
    rfc3339::millis(text).ok_or_else(|| {
        Error::bad_request(format!(
            "the CloudEvent's time {} is not a time since 1970 like 2026-04-01T12:00:00Z",
            shown(text)
        ))
    })
}

/// A header's value: what a CloudEvent has beside its data is a string, a whole number, or true or false.
fn plain(name: &str, value: &RawValue) -> Result<String> {
    let bad = || {
        Error::bad_request(format!(
            "the CloudEvent's {name} is not a string, a whole number, true or false; only data has structure"
        ))
    };
    // Looked at before it is read: reading goes as deep as the value does.
    if value.get().starts_with(['{', '[']) {
        return Err(bad());
    }
    match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
        Ok(Value::Bool(flag)) => Ok(flag.to_string()),
        _ => Err(bad()),
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

/// The attributes as they are written, without those that are null. A name that comes twice is refused.
struct Attributes<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Attributes<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Attributes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a CloudEvent, which is an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if found.len() == MAX_ATTRIBUTES {
                        return Err(serde::de::Error::custom(format!(
                            "more than {MAX_ATTRIBUTES} attributes"
                        )));
                    }
                    if found.iter().any(|(other, _)| *other == name) {
                        return Err(serde::de::Error::custom(format!("{} is there twice", shown(&name))));
                    }
                    found.push((name, value));
                }
                found.retain(|(name, value)| value.get() != "null" || name == "data");
                Ok(Attributes(found))
            }
        }

        from.deserialize_map(Object)
    }
}

/// More would not fit an event's headers.
const MAX_ATTRIBUTES: usize = 128;

/// A name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
