//! The options of a group: stored with it, shared by all its members.

use hub_proto::{Error, Event, Result, limits};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Whether events of one key keep their order within a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// Events go to whoever has room.
    #[default]
    None,
    /// Two events of one key are never in flight at once, and go in order, redeliveries included.
    Key,
}

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
    fn in_order(mut self) -> Self {
        self.tags.sort_unstable();
        self.tags.dedup();
        self.headers.sort_unstable();
        self.headers.dedup();
        self
    }

    /// A filter is stored: it has the limits of what it filters.
    fn check(&self) -> Result<()> {
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

/// How a group dispatches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupOptions {
    /// Which events it wants.
    #[serde(default)]
    pub filter: Filter,
    /// Whether keys keep their order.
    #[serde(default)]
    pub ordering: Ordering,
    /// Skip what a newer event of the same key has overtaken. Implies [`Ordering::Key`].
    #[serde(default)]
    pub coalesce: bool,
    /// Failures after which an event becomes a dead letter.
    #[serde(default = "max_attempts")]
    pub max_attempts: u32,
}

const fn max_attempts() -> u32 {
    5
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            ordering: Ordering::None,
            coalesce: false,
            max_attempts: max_attempts(),
        }
    }
}

/// What a subscriber says about its group; what it leaves out takes the stored value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRequest {
    /// See [`GroupOptions::filter`].
    pub filter: Option<Filter>,
    /// See [`GroupOptions::ordering`].
    pub ordering: Option<Ordering>,
    /// See [`GroupOptions::coalesce`].
    pub coalesce: Option<bool>,
    /// See [`GroupOptions::max_attempts`].
    pub max_attempts: Option<u32>,
}

impl GroupRequest {
    /// Refuses what no group can have.
    pub fn check(&self) -> Result<()> {
        if let Some(filter) = &self.filter {
            filter.check()?;
        }
        if self.max_attempts == Some(0) {
            return Err(Error::bad_request("maxAttempts is 0; it must be at least 1"));
        }
        if self.coalesce == Some(true) && self.ordering == Some(Ordering::None) {
            return Err(Error::bad_request(
                "coalesce implies ordering \"key\"; leave ordering out or set it to \"key\"",
            ));
        }
        Ok(())
    }

    /// The options that result from what is stored and what is asked for.
    pub fn over(&self, stored: &GroupOptions) -> GroupOptions {
        let coalesce = self.coalesce.unwrap_or(stored.coalesce && self.ordering != Some(Ordering::None));
        let ordering = if coalesce { Ordering::Key } else { self.ordering.unwrap_or(stored.ordering) };
        GroupOptions {
            filter: self.filter.clone().map_or_else(|| stored.filter.clone(), Filter::in_order),
            ordering,
            coalesce,
            max_attempts: self.max_attempts.unwrap_or(stored.max_attempts),
        }
    }

    /// The options that are asked for and differ from what is stored, in words.
    pub fn conflicts(&self, stored: &GroupOptions) -> Vec<String> {
        let wanted = self.over(stored);
        let mut found = Vec::new();
        let mut compare = |name: &str, has: String, wants: String| {
            if has != wants {
                found.push(format!("{name} is {has}, not {wants}"));
            }
        };
        compare("filter", json(&stored.filter), json(&wanted.filter));
        compare("ordering", json(&stored.ordering), json(&wanted.ordering));
        compare("coalesce", stored.coalesce.to_string(), wanted.coalesce.to_string());
        compare("maxAttempts", stored.max_attempts.to_string(), wanted.max_attempts.to_string());
        found
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
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
