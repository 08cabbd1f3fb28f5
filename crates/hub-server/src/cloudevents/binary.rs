//! CloudEvents in binary mode: attributes are HTTP headers `ce-…`, the body is the data.

use super::incoming::Incoming;
use super::{PREFIX, essence, is_json};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use hub_proto::{Error, NewEvent, Payload, PublishOptions, Result, TopicName};

/// The attributes of a CloudEvent in binary mode, before its body is read.
pub(crate) struct BinaryAttributes {
    attributes: Vec<(String, String)>,
    content_type: Option<String>,
}

impl BinaryAttributes {
    /// Reads the headers of a request.
    ///
    /// # Errors
    /// `bad_request` if one is there twice, or cannot be decoded.
    pub fn read(headers: &HeaderMap) -> Result<Self> {
        let mut attributes = Vec::new();
        for name in headers.keys() {
            let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
            let wrong = |what: &str| Err(Error::bad_request(format!("the header {name} {what}")));
            let mut values = headers.get_all(name).iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                return wrong("is there twice; send it once");
            };
            if matches!(attribute, "datacontenttype" | "data" | "data_base64") {
                return wrong(
                    "is no attribute of the binary mode: Content-Type has the type, the body the data",
                );
            }
            match decoded(value.as_bytes()) {
                Some(value) => attributes.push((attribute.to_owned(), value)),
                None => return wrong("is not UTF-8 with percent-encoding; write % as %25"),
            }
        }
        let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().map(str::to_owned));
        let content_type = content_type
            .transpose()
            .map_err(|_| Error::bad_request("the header Content-Type is not ASCII"))?
            .filter(|content_type| !content_type.trim().is_empty());
        Ok(Self { attributes, content_type })
    }

    /// The event that the CloudEvent with this body stands for, with `options` of the request beside its own.
    ///
    /// # Errors
    /// `bad_request` if something is missing or malformed, `bad_json` if data that should be JSON is not.
    pub fn with_body(self, topic: TopicName, body: Bytes, options: PublishOptions) -> Result<NewEvent> {
        let mut event = Incoming::new(topic, options);
        for (name, value) in self.attributes {
            event.set(&name, value)?;
        }
        let content_type = self.content_type.as_deref().unwrap_or("application/json");
        if essence(content_type) != "application/json" {
            event.set("datacontenttype", content_type.to_owned())?;
        }
        if body.is_empty() {
            return event.finish();
        }
        if is_json(content_type) {
            event.set_data(Payload::from_json(body)?)?;
        } else {
            match std::str::from_utf8(&body).ok().filter(|_| is_text(content_type)) {
                Some(text) => event.set_data(Payload::of(text)?)?,
                None => event.set_bytes(&body)?,
            }
        }
        event.finish()
    }
}

/// Whether data of this type is text for people, in UTF-8: it is kept as a JSON string.
fn is_text(content_type: &str) -> bool {
    let essence = essence(content_type);
    let parameters = content_type.split(';').skip(1).map(|parameter| parameter.trim().to_ascii_lowercase());
    let charset = parameters.filter_map(|parameter| {
        parameter.strip_prefix("charset=").map(|name| name.trim_matches('"').to_owned())
    });
    match charset.last().as_deref() {
        Some(name) => matches!(name, "utf-8" | "utf8" | "us-ascii"),
        None => essence.starts_with("text/") || essence == "application/xml" || essence.ends_with("+xml"),
    }
}

/// The value of an attribute: a quoted string is unquoted, then one round of percent-decoding is done.
fn decoded(value: &[u8]) -> Option<String> {
    let unquoted = match value {
        [b'"', inner @ .., b'"'] => {
            let mut unquoted = Vec::with_capacity(inner.len());
            let mut rest = inner.iter();
            while let Some(&byte) = rest.next() {
                unquoted.push(if byte == b'\\' { *rest.next()? } else { byte });
            }
            unquoted
        }
        _ => value.to_vec(),
    };
    let mut bytes = Vec::with_capacity(unquoted.len());
    let mut rest = unquoted.into_iter();
    let hex = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The value of an attribute as a header has it: all but printable ASCII is percent-encoded, and so are space, quote and percent.
pub(super) fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'!' | b'#' | b'$' | b'&'..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{decoded, encoded};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_encoded_value_is_plain_ascii_and_is_decoded_to_the_same(value in "\\PC*|.*") {
            let text = encoded(&value);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
            prop_assert_eq!(decoded(text.as_bytes()), Some(value));
        }
    }

    #[test]
    fn the_examples_of_the_http_binding_hold() {
        assert_eq!(encoded("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        for value in ["Euro%20%E2%82%AC%20%F0%9F%98%80", "\"Euro %E2%82%AC %F0%9F%98%80\"", "Euro € 😀"] {
            assert_eq!(decoded(value.as_bytes()).as_deref(), Some("Euro € 😀"));
        }
        assert_eq!(decoded(br#""a \"quote\" and \\""#).as_deref(), Some(r#"a "quote" and \"#));
        assert_eq!(decoded(b"%2525").as_deref(), Some("%25"), "one round");
        for wrong in [&b"%"[..], b"%4", b"%zz", b"%ff", b"\"\\\""] {
            assert_eq!(decoded(wrong), None);
        }
    }
}
