//! What the attributes of a CloudEvent become.
//!
//! | attribute | becomes |
//! | --- | --- |
//! | `id` | the event's id; if it is no UUID, a UUID v5 of source and id, and itself the header `ce-id` |
//! | `subject` | the key |
//! | `time` | the `ts`; one that is finer than a millisecond is the header `ce-time`, too |
//! | `data` | the payload; without it, `null` |
//! | `data_base64` | the payload, as the text it is, with a header as a mark |
//! | those of this hub | what they were before this hub wrote them |
//! | all others | headers `ce-…` |

use super::{BASE64_MARK, PREFIX, extension, is_attribute_name, rfc3339};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hub_proto::{Error, EventId, NewEvent, Payload, PublishOptions, Result, TopicName, header, shown};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A CloudEvent on its way in.
pub(super) struct Incoming {
    topic: TopicName,
    options: PublishOptions,
    data: Option<Payload>,
    id: Option<String>,
    source: Option<String>,
    specversion: Option<String>,
    kind: Option<String>,
}

impl Incoming {
    /// A CloudEvent without attributes yet, with `options` of the request beside its own.
    pub fn new(topic: TopicName, options: PublishOptions) -> Self {
        Self { topic, options, data: None, id: None, source: None, specversion: None, kind: None }
    }

    /// Takes an attribute.
    ///
    /// # Errors
    /// `bad_request` if it cannot be one, or has a value that it cannot have.
    pub fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "subject" => self.options.key = Some(value),
            "time" => {
                self.options.ts = Some(time(&value)?);
                if rfc3339::is_finer_than_millis(&value) {
                    self.push_header("ce-time".to_owned(), value);
                }
            }
            "id" => self.id = Some(value),
            "source" => self.source = Some(value),
            "specversion" => self.specversion = Some(value),
            "type" => self.kind = Some(value),
            // They say where another hub has it.
            extension::SEQ | extension::TOPIC | extension::ID => {}
            extension::SID => self.options.sid = Some(value),
            extension::TAGS => self.options.tags = listed(name, &value, "an array of strings")?,
            extension::CAUSED_BY => self.options.caused_by = listed(name, &value, "an array of ids")?,
            extension::HEADERS => {
                let Headers { headers } =
                    listed(name, &format!("{{\"headers\":{value}}}"), "an object of strings")?;
                headers.into_iter().for_each(|(name, value)| self.push_header(name, value));
            }
            _ if !is_attribute_name(name) => {
                return Err(Error::bad_request(format!(
                    "CloudEvent attribute {} is not a name of lower-case letters and digits",
                    shown(name)
                )));
            }
            _ => self.push_header(format!("{PREFIX}{name}"), value),
        }
        Ok(())
    }

    /// Adds a header, unless it is the hub's own or there already.
    fn push_header(&mut self, name: String, value: String) {
        let headers = &mut self.options.headers;
        if !header::is_reserved(&name) && headers.iter().all(|(other, _)| *other != name) {
            headers.push((name, value));
        }
    }

    /// Takes the data.
    pub fn set_data(&mut self, data: Payload) -> Result<()> {
        match self.data.replace(data) {
            None => Ok(()),
            Some(_) => Err(Error::bad_request("the CloudEvent has data and data_base64; send one of them")),
        }
    }

    /// Takes binary data as the JSON string of its base64 text, whose text is `text`.
    pub fn set_base64(&mut self, json: Payload, text: &str) -> Result<()> {
        if let Err(error) = STANDARD.decode(text) {
            let text = format!("the CloudEvent's data_base64 is not base64: {error}");
            return Err(Error::bad_request(text));
        }
        self.options.headers.push((BASE64_MARK.to_owned(), "true".to_owned()));
        self.set_data(json)
    }

    /// Takes binary data.
    pub fn set_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.options.headers.push((BASE64_MARK.to_owned(), "true".to_owned()));
        self.set_data(Payload::of(&STANDARD.encode(bytes))?)
    }

    /// The event.
    ///
    /// # Errors
    /// `bad_request` if something is missing that every CloudEvent has.
    pub fn finish(mut self) -> Result<NewEvent> {
        let required = |name: &str, value: Option<String>| {
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| Error::bad_request(format!("the CloudEvent has no {name}")))
        };
        let id = required("id", self.id.take())?;
        let source = required("source", self.source.take())?;
        let specversion = required("specversion", self.specversion.take())?;
        let kind = required("type", self.kind.take())?;
        if specversion != "1.0" {
            let text = format!("CloudEvent specversion {}; 1.0 is taken", shown(&specversion));
            return Err(Error::bad_request(text));
        }
        let event_id =
            EventId::parse(&id).unwrap_or_else(|_| EventId::derived(&[source.as_bytes(), id.as_bytes()]));
        if event_id.to_string() != id {
            self.push_header("ce-id".to_owned(), id);
        }
        self.options.id = Some(event_id);
        for (name, value) in [("ce-source", source), ("ce-specversion", specversion), ("ce-type", kind)] {
            self.push_header(name.to_owned(), value);
        }
        let payload = self.data.unwrap_or_else(Payload::null);
        Ok(NewEvent { topic: self.topic, payload, options: self.options })
    }
}

/// Headers of an event, which keep their order.
#[derive(Deserialize)]
struct Headers {
    #[serde(deserialize_with = "in_order")]
    headers: Vec<(String, String)>,
}

fn in_order<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    struct Pairs;

    impl<'de> serde::de::Visitor<'de> for Pairs {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }

    from.deserialize_map(Pairs)
}

/// JSON in the text of an extension attribute of this hub.
fn listed<T: DeserializeOwned>(name: &str, text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|_| Error::bad_request(format!("the CloudEvent's {name} is not {what}, written as JSON")))
}

fn time(text: &str) -> Result<u64> {
    rfc3339::millis(text).ok_or_else(|| {
        Error::bad_request(format!(
            "the CloudEvent's time {} is not a time since 1970 like 2026-04-01T12:00:00Z",
            shown(text)
        ))
    })
}
