//! What deliveries are signed with, by the scheme of Standard Webhooks.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hub_proto::{Error, Result};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a key. Standard Webhooks recommends these.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// An endpoint has one, and while that is rotated a second.
const MAX_SECRETS: usize = 8;

/// A secret such as `whsec_` and the base64 of 24 to 64 bytes. It is shown nowhere.
#[derive(Clone)]
pub struct SigningSecret {
    text: Box<str>,
    key: hmac::Key,
}

impl SigningSecret {
    /// Reads one.
    ///
    /// # Errors
    /// `bad_request`, without what was written.
    pub fn parse(text: &str) -> Result<Self> {
        let key = text.strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let Some(key) = key.filter(|key| KEY_BYTES.contains(&key.len())) else {
            return Err(Error::bad_request(format!(
                "a signing secret is {PREFIX} and the base64 of {} to {} bytes, such as the output of \
                 `echo {PREFIX}$(openssl rand -base64 32)`",
                KEY_BYTES.start(),
                KEY_BYTES.end()
            )));
        };
        Ok(Self { text: text.into(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    /// What was written, to be stored.
    pub(super) fn expose(&self) -> &str {
        &self.text
    }
}

impl PartialEq for SigningSecret {
    fn eq(&self, other: &Self) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(self.text.as_bytes(), other.text.as_bytes()).is_ok()
    }
}

impl Eq for SigningSecret {}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

/// The header `webhook-signature`: one signature per secret, so that receivers can change theirs at any time.
pub(super) fn signature(secrets: &[SigningSecret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut text = String::new();
    let start = format!("{id}.{timestamp}.");
    for secret in secrets {
        let mut context = hmac::Context::with_key(&secret.key);
        context.update(start.as_bytes());
        context.update(body);
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str("v1,");
        STANDARD.encode_string(context.sign(), &mut text);
    }
    text
}

/// Reads one secret, or a list of them. No error has what was written.
pub(super) fn one_or_several<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<SigningSecret>>, D::Error> {
    struct Secrets;

    impl<'de> Visitor<'de> for Secrets {
        type Value = Option<Vec<SigningSecret>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a signing secret, or a list of them")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            SigningSecret::parse(text).map(|secret| Some(vec![secret])).map_err(|error| E::custom(error.msg))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut secrets = Vec::new();
            while let Some(Entry(secret)) = seq.next_element()? {
                if secrets.len() == MAX_SECRETS {
                    return Err(serde::de::Error::custom(format!("more than {MAX_SECRETS} signing secrets")));
                }
                secrets.push(secret);
            }
            Ok(Some(secrets))
        }
    }

    struct Entry(SigningSecret);

    impl<'de> Deserialize<'de> for Entry {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Text;

            impl Visitor<'_> for Text {
                type Value = Entry;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a signing secret")
                }

                fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Entry, E> {
                    SigningSecret::parse(text).map(Entry).map_err(|error| E::custom(error.msg))
                }
            }

            from.deserialize_str(Text)
        }
    }

    from.deserialize_any(Secrets)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{SigningSecret, signature};

    #[test]
    fn the_example_of_standard_webhooks_has_its_signature() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(
            signature(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_secret_is_24_to_64_bytes_and_shown_nowhere() {
        for bad in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_not base64 at all, but long enough",
        ] {
            let error = SigningSecret::parse(bad).unwrap_err();
            assert!(bad.len() < 7 || !error.msg.contains(&bad[6..]), "{}", error.msg);
        }
        let good = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert!(!format!("{good:?}").contains("MfKQ"));
    }
}
