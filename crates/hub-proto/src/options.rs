//! What a publisher may say about an event beside its topic and payload.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize as DeriveDeserialize, Serialize as DeriveSerialize};

use crate::EventId;

/// Options of a publish. All are optional; on the wire `null` counts as absent and unknown fields are ignored.
///
/// ```
/// use hub_proto::PublishOptions;
/// let options: PublishOptions = serde_json::from_str(r#"{"key":"o-1","tags":null,"headers":{"trace":"7"}}"#)?;
/// assert_eq!(options.key.as_deref(), Some("o-1"));
/// assert_eq!(options.headers, [("trace".to_owned(), "7".to_owned())]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, DeriveDeserialize, DeriveSerialize)]
pub struct PublishOptions {
    /// The event's id. Publishing an id again appends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EventId>,
    /// The publisher's time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<u64>,
    /// The entity the event is about: what ordering and compaction go by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The publisher's session or boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// Headers, in the order given. A JSON object on the wire.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "pairs")]
    pub headers: Vec<(String, String)>,
    /// The events that led to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_empty")]
    pub caused_by: Vec<EventId>,
    /// Labels that groups can filter by.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_empty")]
    pub tags: Vec<String>,
}

fn null_as_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A JSON object as a list of pairs, so that its order and its duplicates survive.
mod pairs {
    use super::*;

    pub(super) fn serialize<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
        from.deserialize_any(Pairs)
    }

    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, Option<String>>()? {
                if let Some(value) = value {
                    pairs.push((name, value));
                }
            }
            Ok(pairs)
        }
    }
}
