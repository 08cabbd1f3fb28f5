//! What an event carries: any JSON value, kept as the text it came in.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::{Error, Result, json, limits};

/// A JSON value as text, known to be valid.
///
/// The text is what the publisher wrote, but for whitespace around it, and for line breaks between tokens,
/// which become spaces: a record is one line of NDJSON. Cloning shares the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    json: Bytes,
    /// The nesting of `json`, counted once: it is checked after the payload has been made.
    depth: usize,
}

impl Payload {
    /// Takes JSON text.
    ///
    /// ```
    /// use hub_proto::{Code, Payload};
    /// assert_eq!(Payload::from_json(" {\n} ")?.as_bytes(), b"{ }");
    /// assert_eq!(Payload::from_json("{,}").unwrap_err().code, Code::BadJson);
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_json` if the bytes are not exactly one JSON value in UTF-8, `bad_request` if it is nested deeper
    /// than [`limits::NESTING`]. Its size is a matter for [`NewEvent::check`](crate::NewEvent::check).
    pub fn from_json(bytes: impl Into<Bytes>) -> Result<Self> {
        let payload = Self::stored(bytes)?;
        payload.check_depth()?;
        Ok(payload)
    }

    /// Takes JSON text like [`Payload::from_json`], nested to any depth: for payloads the hub itself composes,
    /// such as a dead letter around an event that is as deep as allowed.
    ///
    /// # Errors
    /// `bad_json` if the bytes are not exactly one JSON value in UTF-8.
    pub fn stored(bytes: impl Into<Bytes>) -> Result<Self> {
        let bytes = bytes.into();
        check_syntax(&bytes)?;
        Ok(Self::of_valid(&bytes))
    }

    /// Writes a value as JSON.
    ///
    /// ```
    /// assert_eq!(hub_proto::Payload::of(&[1, 2])?.as_bytes(), b"[1,2]");
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_request` if the value cannot be written as JSON (a map whose keys are no strings, say) or is nested
    /// deeper than [`limits::NESTING`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let text = serde_json::to_vec(value)
            .map_err(|err| Error::bad_request(format!("payload cannot be written as JSON: {err}")))?;
        let payload = Self::of_valid(&text.into());
        payload.check_depth()?;
        Ok(payload)
    }

    /// `null`; with a key, a tombstone on compacted topics.
    pub fn null() -> Self {
        Self { json: Bytes::from_static(b"null"), depth: 0 }
    }

    /// The JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.json
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        &*self.json == b"null"
    }

    /// Bytes of the JSON text.
    #[expect(clippy::len_without_is_empty, reason = "no JSON text is empty")]
    pub fn len(&self) -> usize {
        self.json.len()
    }

    /// Takes text that serde_json has just checked, as part of the frame it came in.
    pub(crate) fn of_raw(raw: &RawValue, frame: Option<&Bytes>) -> Self {
        let text = raw.get().as_bytes();
        Self::of_valid(&frame.map_or_else(|| Bytes::copy_from_slice(text), |frame| frame.slice_ref(text)))
    }

    fn of_valid(bytes: &Bytes) -> Self {
        let json = one_line(bytes);
        let depth = json::depth(&json);
        Self { json, depth }
    }

    pub(crate) fn check_depth(&self) -> Result<()> {
        if self.depth > limits::NESTING {
            return Err(Error::bad_request(format!(
                "payload is nested {} deep; at most {} is allowed",
                self.depth,
                limits::NESTING
            )));
        }
        Ok(())
    }
}

/// Whether the bytes are one JSON value in UTF-8. Without recursion, so of any depth.
pub(crate) fn check_syntax(bytes: &[u8]) -> Result<()> {
    // serde_json does not look at the encoding of what it skips.
    let text = std::str::from_utf8(bytes)
        .map_err(|err| Error::bad_json(format!("payload is not UTF-8 from byte {} on", err.valid_up_to())))?;
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(err) => Err(Error::bad_json(format!("payload is not JSON: {err}"))),
    }
}

/// Valid JSON without whitespace around it and without line breaks.
fn one_line(bytes: &Bytes) -> Bytes {
    let bytes = bytes.slice_ref(bytes.trim_ascii());
    let Some(first) = memchr::memchr2(b'\n', b'\r', &bytes) else { return bytes };
    // In valid JSON a raw line break is never inside a string.
    let mut line = Vec::from(bytes);
    for byte in &mut line[first..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.into()
}

impl From<serde_json::Value> for Payload {
    fn from(value: serde_json::Value) -> Self {
        Self::of_valid(&value.to_string().into())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests;
