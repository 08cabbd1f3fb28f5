//! An event as a publisher hands it in.

mod explain;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::shown;
use crate::{Error, Payload, PublishOptions, Result, TopicName, header, limits};

/// An event on its way in: no `seq` yet, maybe no id and no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Where it goes.
    pub topic: TopicName,
    /// What it carries.
    pub payload: Payload,
    /// What else the publisher said.
    pub options: PublishOptions,
}

/// The shape of a publish on the wire.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(default, deserialize_with = "object")]
    opts: Option<PublishOptions>,
}

/// Options that are an object, or null: not an array of their values in order.
fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PublishOptions>, D::Error> {
    struct Object;

    impl<'de> Visitor<'de> for Object {
        type Value = Option<PublishOptions>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            PublishOptions::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    from.deserialize_any(Object)
}

impl NewEvent {
    /// An event without options.
    pub fn new(topic: TopicName, payload: Payload) -> Self {
        Self { topic, payload, options: PublishOptions::default() }
    }

    /// The same event with an entity key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// The same event with an id of the publisher's.
    #[must_use]
    pub fn with_id(mut self, id: crate::EventId) -> Self {
        self.options.id = Some(id);
        self
    }

    /// The same event with other options, in place of all it had.
    #[must_use]
    pub fn with_options(mut self, options: PublishOptions) -> Self {
        self.options = options;
        self
    }

    /// Reads `{topic, payload, opts?}`, as in a PUBLISH. The payload stays the text it is.
    ///
    /// # Errors
    /// `bad_json` if the text is no JSON, `bad_request` if it has another shape, if the topic is malformed or
    /// if the payload is nested too deep. The other limits are a matter for [`NewEvent::check`].
    pub fn from_wire(json: &[u8]) -> Result<Self> {
        Self::read(json, None)
    }

    /// Reads the same as [`NewEvent::from_wire`] without copying the payload, which keeps the whole frame in
    /// memory as long as the event lives.
    ///
    /// # Errors
    /// As for [`NewEvent::from_wire`].
    pub fn from_wire_shared(json: &Bytes) -> Result<Self> {
        Self::read(json, Some(json))
    }

    /// Puts an event together from the fields of a frame, whose text serde_json has read: the payload stays a part of the
    /// frame, and keeps it in memory.
    ///
    /// # Errors
    /// As for [`NewEvent::from_wire`].
    pub fn from_fields(
        frame: &Bytes,
        topic: &str,
        payload: &RawValue,
        opts: Option<&RawValue>,
    ) -> Result<Self> {
        let options = match opts {
            Some(opts) => object(&mut serde_json::Deserializer::from_str(opts.get())).map_err(|err| {
                explain::explain(frame).unwrap_or_else(|| Error::from_json_error("publish: opts", &err))
            })?,
            None => None,
        };
        let payload = Payload::of_raw(payload, Some(frame));
        payload.check_depth()?;
        Ok(Self { topic: TopicName::parse(topic)?, payload, options: options.unwrap_or_default() })
    }

    fn read(json: &[u8], frame: Option<&Bytes>) -> Result<Self> {
        // Derived readers take an array for an object.
        let is_object = json.trim_ascii_start().first() == Some(&b'{');
        let wire = serde_json::from_slice::<Wire<'_>>(json);
        let wire = match wire {
            Ok(wire) if is_object => wire,
            Ok(_) => {
                return Err(
                    explain::explain(json).unwrap_or_else(|| Error::bad_request("publish: not an object"))
                );
            }
            Err(err) => {
                let named = if err.is_data() { explain::explain(json) } else { None };
                return Err(named.unwrap_or_else(|| Error::from_json_error("publish", &err)));
            }
        };
        let payload = Payload::of_raw(wire.payload, frame);
        payload.check_depth()?;
        Ok(Self { topic: TopicName::parse(&wire.topic)?, payload, options: wire.opts.unwrap_or_default() })
    }

    /// Checks every limit on what a publisher may send. The hub's own records are not checked: they may have
    /// longer topics, deeper payloads and reserved headers.
    ///
    /// # Errors
    /// `too_large` if the payload has more than `max_payload` bytes, `forbidden` if the topic is a derived one,
    /// `bad_request` for all else.
    pub fn check(&self, max_payload: usize) -> Result<()> {
        if self.payload.len() > max_payload {
            return Err(Error::too_large(format!(
                "payload has {} bytes; at most {max_payload} are allowed",
                self.payload.len()
            )));
        }
        self.payload.check_depth()?;
        if self.topic.derived().is_some() {
            return Err(Error::forbidden(format!(
                "topic {} is written by the hub alone: it is derived from {}; publish there",
                shown(&self.topic),
                shown(self.topic.root())
            )));
        }
        self.topic.check_length()?;
        let options = &self.options;
        if let Some(key) = &options.key {
            check_bytes("key", key, limits::KEY_BYTES)?;
            if key.contains('\0') {
                return Err(Error::bad_request(format!(
                    "key {} has a NUL character; those are reserved for the hub",
                    shown(key)
                )));
            }
        }
        if let Some(ts) = options.ts.filter(|&ts| ts > limits::TS) {
            return Err(Error::bad_request(format!(
                "ts is {ts}; at most {} (the year 9999) is allowed",
                limits::TS
            )));
        }
        if let Some(sid) = &options.sid {
            check_bytes("sid", sid, limits::SID_BYTES)?;
        }
        check_headers(&options.headers)?;
        check_count("caused_by", options.caused_by.len(), limits::CAUSED_BY)?;
        check_count("tags", options.tags.len(), limits::TAGS)?;
        options.tags.iter().try_for_each(|tag| check_bytes("tag", tag, limits::TAG_BYTES))
    }
}

fn check_headers(headers: &[(String, String)]) -> Result<()> {
    check_count("headers", headers.len(), limits::HEADERS)?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > limits::HEADERS_BYTES {
        return Err(Error::bad_request(format!(
            "headers have {bytes} bytes in names and values; at most {} are allowed",
            limits::HEADERS_BYTES
        )));
    }
    let mut seen = HashSet::new();
    for (name, _) in headers {
        let wrong = if name.is_empty() {
            "is empty; a header needs a name"
        } else if header::is_reserved(name) {
            "is reserved: names with x-hub- are the hub's own"
        } else if !seen.insert(name) {
            "is there twice; a name may be used once"
        } else {
            continue;
        };
        return Err(Error::bad_request(format!("header {} {wrong}", shown(name))));
    }
    Ok(())
}

fn check_bytes(what: &str, value: &str, max: usize) -> Result<()> {
    if value.len() > max {
        return Err(Error::bad_request(format!(
            "{what} {} has {} bytes; at most {max} are allowed",
            shown(value),
            value.len()
        )));
    }
    Ok(())
}

fn check_count(what: &str, count: usize, max: usize) -> Result<()> {
    if count > max {
        return Err(Error::bad_request(format!("{what} has {count} entries; at most {max} are allowed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
