//! Which events a consumer wants.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Error, Event, Result, limits};

/// Which events a group wants; everything that is given must match. What does not match is settled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filter {
    /// Each of these is among the event's tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The event has this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The event has these headers with these values.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "pairs::serialize")]
    pub headers: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for Filter {
    /// Takes an object only: a derived reader would take `[["vip"], "k"]` for a filter as well.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            #[serde(default, deserialize_with = "null_as_empty")]
            tags: Vec<String>,
            #[serde(default)]
            key: Option<String>,
            #[serde(default, deserialize_with = "pairs::deserialize")]
            headers: Vec<(String, String)>,
        }

        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Filter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a filter, which is an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Filter, A::Error> {
                let Fields { tags, key, headers } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Filter { tags, key, headers })
            }
        }

        from.deserialize_map(Object)
    }
}

/// In what a client sends, null counts as absent.
fn null_as_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Filter {
    /// Whether the filter lets `event` pass.
    pub fn matches(&self, event: &Event) -> bool {
        self.key.as_deref().is_none_or(|key| event.key().is_some_and(|k| &**k == key))
            && self.tags.iter().all(|tag| event.tags().contains(tag))
            && self.headers.iter().all(|(name, value)| event.header(name) == Some(value))
    }

    /// The same filter in the one form in which it is stored and compared.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.tags.sort_unstable();
        self.tags.dedup();
        self.headers.sort_unstable();
        self.headers.dedup();
        self
    }

    /// A filter is stored: it has the limits of what it filters.
    ///
    /// # Errors
    /// `bad_request` names what is over its limit.
    pub fn check(&self) -> Result<()> {
        let counts =
            [("tags", self.tags.len(), limits::TAGS), ("headers", self.headers.len(), limits::HEADERS)];
        for (name, count, max) in counts {
            if count > max {
                return Err(Error::bad_request(format!(
                    "filter has {count} {name}; at most {max} are allowed"
                )));
            }
        }
        let key = self.key.iter().map(|key| ("key", key.len(), limits::KEY_BYTES));
        let tags = self.tags.iter().map(|tag| ("tag", tag.len(), limits::TAG_BYTES));
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| ("header", name.len() + value.len(), limits::HEADERS_BYTES));
        match key.chain(tags).chain(headers).find(|(_, bytes, max)| bytes > max) {
            Some((name, bytes, max)) => Err(Error::bad_request(format!(
                "filter: a {name} has {bytes} bytes; at most {max} are allowed"
            ))),
            None => Ok(()),
        }
    }

    /// Whether it lets everything pass.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Headers are a JSON object on the wire.
mod pairs {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
        let pairs = Option::<BTreeMap<String, String>>::deserialize(from)?;
        Ok(pairs.unwrap_or_default().into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn a_filter_is_an_object() {
        let read = |json: &str| serde_json::from_str::<Filter>(json);
        let vip = Filter { tags: vec!["vip".into()], key: Some("k".into()), ..Filter::default() };
        assert_eq!(read(r#"{"tags":["vip"],"key":"k"}"#).ok(), Some(vip));
        assert_eq!(read(r#"{"tags":null,"key":null,"headers":null}"#).ok(), Some(Filter::default()));
        for bad in [r#"[["vip"],"k"]"#, "[]", "null", "\"vip\"", r#"{"tag":"vip"}"#, r#"{"tags":"vip"}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
