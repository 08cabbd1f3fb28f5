//! What a schema is for.

use hub_proto::{Error, Pattern, Result, TopicName, limits, shown};
use std::fmt;

/// A topic, or a pattern for topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaTarget {
    pattern: Pattern,
}

impl SchemaTarget {
    /// Reads the name of a topic, or a pattern: a text with `*`.
    ///
    /// # Errors
    /// `bad_request` if it is neither, `forbidden` if it names topics that only the hub writes.
    pub fn parse(text: &str) -> Result<Self> {
        if !text.contains('*') {
            let topic = TopicName::parse(text)?;
            if text.len() > limits::TOPIC_BYTES {
                return Err(Error::bad_request(format!(
                    "topic {} has {} bytes; at most {} are allowed",
                    shown(text),
                    text.len(),
                    limits::TOPIC_BYTES
                )));
            }
            if topic.derived().is_some() || topic.is_system() {
                return Err(Error::forbidden(format!(
                    "topic {} is written by the hub alone, and has no schema; give one to its source",
                    shown(text)
                )));
            }
        }
        Ok(Self { pattern: Pattern::parse(text)? })
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    /// The pattern; that of a topic matches this topic alone.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether it is a topic.
    pub fn is_topic(&self) -> bool {
        self.pattern.is_literal()
    }

    /// Whether it is about a topic.
    pub fn matches(&self, topic: &TopicName) -> bool {
        self.pattern.matches(topic)
    }
}

impl fmt::Display for SchemaTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
