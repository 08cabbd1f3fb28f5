//! CloudEvents 1.0, in and out.
//!
//! | to know about | look at |
//! | --- | --- |
//! | what an attribute becomes in an event | `incoming` |
//! | structured mode and batches (JSON) | `structured` |
//! | binary mode: attributes in HTTP headers | `binary` |
//! | an event as a CloudEvent | `outgoing` |
//! | times | `rfc3339` |
//!
//! What came in as a CloudEvent goes out as the same one: attributes that an event has no field for are headers `ce-…`
//! meanwhile. `docs/http.md` has the table for users.

mod binary;
mod incoming;
mod outgoing;
pub(crate) mod rfc3339;
mod structured;

pub(crate) use binary::BinaryAttributes;
pub(crate) use outgoing::CloudEvent;
pub(crate) use structured::{read, read_batch};

use axum::http::{HeaderMap, header};
use hub_proto::{Error, Result, shown};

/// The content type of one CloudEvent in JSON.
pub(crate) const STRUCTURED: &str = "application/cloudevents+json";
/// The content type of a JSON array of CloudEvents.
pub(crate) const BATCH: &str = "application/cloudevents-batch+json";

/// Extension attributes that this hub adds. Those that tell where an event is stored are passed over on the way in.
mod extension {
    /// The event's `seq` in its topic; a string, as integers of CloudEvents have 32 bits.
    pub const SEQ: &str = "hubseq";
    /// The topic.
    pub const TOPIC: &str = "hubtopic";
    /// The event's id, where the CloudEvent has another.
    pub const ID: &str = "hubid";
    /// Headers whose names are no names of attributes: a JSON object, as text.
    pub const HEADERS: &str = "hubheaders";
    /// Tags: a JSON array, as text.
    pub const TAGS: &str = "hubtags";
    /// The publisher's session.
    pub const SID: &str = "hubsid";
    /// The ids of the events that led to this one: a JSON array, as text.
    pub const CAUSED_BY: &str = "hubcausedby";
}

/// What the headers of attributes begin with.
const PREFIX: &str = "ce-";
/// Marks an event whose payload is the base64 text of binary data. No attribute has an underscore in its name.
const BASE64_MARK: &str = "ce-data_base64";

/// How a request carries CloudEvents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The body is one CloudEvent in JSON.
    Structured,
    /// The body is a JSON array of them.
    Batch,
    /// Attributes are headers, the body is the data.
    Binary,
}

impl Mode {
    /// How a request carries CloudEvents, if it does, by its headers.
    ///
    /// # Errors
    /// `bad_request` for other formats of CloudEvents: taken for plain payloads, they would lose their ids.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>> {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match essence(content_type.unwrap_or_default()).as_str() {
            STRUCTURED => Ok(Some(Self::Structured)),
            BATCH => Ok(Some(Self::Batch)),
            other if other.starts_with("application/cloudevents") => Err(Error::bad_request(format!(
                "content type {}; of CloudEvents {STRUCTURED} and {BATCH} are taken, and the binary mode",
                shown(other)
            ))),
            _ if headers.contains_key("ce-specversion") => Ok(Some(Self::Binary)),
            // The content type of the data is the header Content-Type, so this one alone is a mistake, too.
            _ if headers.keys().any(|name| name.as_str().starts_with(PREFIX)) => Err(Error::bad_request(
                "headers ce-… without ce-specversion; a CloudEvent in binary mode has it",
            )),
            _ => Ok(None),
        }
    }
}

/// Which of the formats of CloudEvents an answer should have, by the header `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// `application/cloudevents+json`.
    Structured,
    /// `application/cloudevents-batch+json`.
    Batch,
}

impl Accepted {
    /// The format that is named with the highest preference, if that is one of CloudEvents; of equals the first.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let lists = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best: (u16, Option<Self>) = (0, None);
        for range in lists.flat_map(|list| list.split(',')) {
            let format = match essence(range).as_str() {
                STRUCTURED => Some(Self::Structured),
                BATCH => Some(Self::Batch),
                "application/json" | "application/x-ndjson" => None,
                _ => continue,
            };
            let preference = preference(range);
            if preference > best.0 {
                best = (preference, format);
            }
        }
        best.1
    }
}

/// The `q` of a media range, in thousandths.
fn preference(range: &str) -> u16 {
    let q = range.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())?
    });
    q.map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as u16)
}

/// A media type without its parameters, in lower case.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether data of this type is JSON.
fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence.split_once('/').is_some_and(|(_, subtype)| subtype == "json" || subtype.ends_with("+json"))
}

/// Whether a name can be one of an attribute.
fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
