//! CloudEvents as JSON: one (structured mode), or an array of them (batched mode).

use super::incoming::Incoming;
use bytes::Bytes;
use hub_proto::{Error, NewEvent, Payload, PublishOptions, Result, TopicName, shown};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The event that a CloudEvent stands for, with `options` of the request beside its own.
pub(crate) fn read(topic: TopicName, body: &Bytes, options: PublishOptions) -> Result<NewEvent> {
    let Attributes(attributes) =
        serde_json::from_slice(body).map_err(|error| unreadable("CloudEvent", &error))?;
    let mut event = Incoming::new(topic, options);
    for (name, value) in &attributes {
        match name.as_ref() {
            "data" => event.set_data(Payload::from_json(body.slice_ref(value.get().as_bytes()))?)?,
            "data_base64" => {
                let json = Payload::from_json(body.slice_ref(value.get().as_bytes()))?;
                event.set_base64(json, &text(name, value)?)?;
            }
            "subject" | "time" | "id" | "source" | "specversion" | "type" => {
                event.set(name, text(name, value)?)?;
            }
            _ => event.set(name, plain(name, value)?)?,
        }
    }
    event.finish()
}

/// The events of a batch, each with what is wrong with it if something is. All have the `options` of the request.
///
/// # Errors
/// `bad_json` or `bad_request` if the body is no array, or one with more than `most` entries.
pub(crate) fn read_batch(
    topic: &TopicName,
    body: &Bytes,
    options: &PublishOptions,
    most: usize,
) -> Result<Vec<Result<NewEvent>>> {
    let mut from = serde_json::Deserializer::from_slice(body);
    let entries = Entries { most }.deserialize(&mut from).and_then(|entries| from.end().map(|()| entries));
    let entries = entries.map_err(|error| unreadable("batch of CloudEvents", &error))?;
    let read =
        |entry: &&RawValue| read(topic.clone(), &body.slice_ref(entry.get().as_bytes()), options.clone());
    Ok(entries.iter().map(read).collect())
}

/// Reads an array of at most so many entries, as they are written.
struct Entries {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Entries {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of CloudEvents")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(entry) = seq.next_element()? {
            if found.len() == self.most {
                return Err(serde::de::Error::custom(format!(
                    "more than {} events, which is the limit; send several batches",
                    self.most
                )));
            }
            found.push(entry);
        }
        Ok(found)
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> Error {
    let text = format!("the {what} cannot be read: {}", cut(&error.to_string()));
    if error.is_data() { Error::bad_request(text) } else { Error::bad_json(text) }
}

fn text(name: &str, value: &RawValue) -> Result<String> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::bad_request(format!("the CloudEvent's {name} is not a string")))
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
