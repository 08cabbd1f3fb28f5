//! Names of topics, and of the topics the hub derives from them.

use std::sync::Arc;

use super::{is_segment_byte, name_traits};
use crate::error::shown;
use crate::{Error, Result, limits};

const DEAD_LETTER: &str = "dlq";
const SNAPSHOT: &str = "snapshot";

/// A topic's name: segments of `[A-Za-z0-9_-]+` with dots between them, at most 200 bytes.
///
/// Names the hub makes (`dlq.<topic>`, `<topic>.snapshot`) may be longer. Such names come back from clients in
/// acks and subscriptions, so `Deserialize` takes any length, like [`TopicName::stored`];
/// [`NewEvent::check`](crate::NewEvent::check) bounds what is published.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

name_traits!(TopicName, TopicName::stored);

impl TopicName {
    /// Checks a name.
    ///
    /// ```
    /// use hub_proto::TopicName;
    /// assert_eq!(TopicName::parse("orders.placed")?.as_str(), "orders.placed");
    /// assert!(TopicName::parse("orders..placed").is_err());
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_request` if the name is too long, has an empty segment or other characters.
    pub fn parse(name: &str) -> Result<Self> {
        check_length(name)?;
        Self::stored(name)
    }

    /// Checks a name like [`TopicName::parse`], but of any length: for names the hub itself wrote.
    ///
    /// # Errors
    /// `bad_request` if the name has an empty segment or other characters.
    pub fn stored(name: &str) -> Result<Self> {
        // The bytes before decide about each dot, so one pass with one byte of memory is enough.
        let mut before = b'.';
        for byte in name.bytes() {
            if !is_segment_byte(byte) && (byte != b'.' || before == b'.') {
                return Err(malformed(name));
            }
            before = byte;
        }
        if before == b'.' {
            return Err(malformed(name));
        }
        Ok(Self(name.into()))
    }

    /// Where this topic's dead letters go: `dlq.<topic>`, whatever its length.
    #[must_use]
    pub fn dead_letter(&self) -> Self {
        Self(format!("{DEAD_LETTER}.{}", self.0).into())
    }

    /// Where the compactor keeps this topic's snapshot: `<topic>.snapshot`, whatever its length.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self(format!("{}.{SNAPSHOT}", self.0).into())
    }

    /// Whether this is some topic's `dlq.…`.
    pub fn is_dead_letter(&self) -> bool {
        self.0.split_once('.').is_some_and(|(first, _)| first == DEAD_LETTER)
    }

    /// Whether this is some topic's `….snapshot`. The dead letters of one are not: they are letters.
    pub fn is_snapshot(&self) -> bool {
        !self.is_dead_letter() && self.0.rsplit_once('.').is_some_and(|(_, last)| last == SNAPSHOT)
    }

    /// Reads a name that somebody wants to read from: like [`TopicName::parse`], but the hub's own topics have names of
    /// any length.
    ///
    /// # Errors
    /// As for [`TopicName::parse`].
    pub fn readable(name: &str) -> Result<Self> {
        let name = Self::stored(name)?;
        if !name.is_dead_letter() && !name.is_snapshot() {
            name.check_length()?;
        }
        Ok(name)
    }

    /// The limit on names a client may publish to.
    pub(crate) fn check_length(&self) -> Result<()> {
        check_length(&self.0)
    }
}

fn check_length(name: &str) -> Result<()> {
    if name.len() > limits::TOPIC_BYTES {
        return Err(Error::bad_request(format!(
            "topic name {} has {} bytes; at most {} are allowed",
            shown(name),
            name.len(),
            limits::TOPIC_BYTES
        )));
    }
    Ok(())
}

fn malformed(name: &str) -> Error {
    Error::bad_request(format!(
        "topic name {} is not segments of [A-Za-z0-9_-] with single dots between them",
        shown(name)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_topic_name_is_segments_with_single_dots() {
        for good in ["a", "a.b", "A-1_b.c", "-", "_._", &"t".repeat(200)] {
            assert_eq!(TopicName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a*", "**", "é", "a\0b", &"t".repeat(201)] {
            assert!(TopicName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_the_hub_makes_have_no_length_limit() {
        let longest = TopicName::parse(&"t".repeat(200)).unwrap();
        let dead = longest.dead_letter();
        assert_eq!(dead.len(), 204);
        assert!(TopicName::parse(&dead).is_err());
        assert_eq!(TopicName::stored(&dead).unwrap(), dead);
        let json = serde_json::to_string(&dead).unwrap();
        assert_eq!(serde_json::from_str::<TopicName>(&json).unwrap(), dead);
    }

    #[test]
    fn derived_names_are_recognised_and_lookalikes_are_not() {
        let topic = TopicName::parse("orders.placed").unwrap();
        assert_eq!(topic.dead_letter().as_str(), "dlq.orders.placed");
        assert_eq!(topic.snapshot().as_str(), "orders.placed.snapshot");
        assert!(topic.dead_letter().is_dead_letter() && !topic.dead_letter().is_snapshot());
        assert!(topic.snapshot().is_snapshot() && !topic.snapshot().is_dead_letter());
        for plain in ["dlq", "snapshot", "dlqs.a", "a.dlq", "snapshot.a", "a.snapshots"] {
            let topic = TopicName::parse(plain).unwrap();
            assert!(!topic.is_dead_letter() && !topic.is_snapshot(), "{plain}");
        }
    }

    #[test]
    fn errors_name_the_value_and_what_is_allowed() {
        let err = TopicName::parse("a..b").unwrap_err();
        assert_eq!(
            err.to_string(),
            "bad_request: topic name \"a..b\" is not segments of [A-Za-z0-9_-] with single dots between them"
        );
        let err = TopicName::parse(&"t".repeat(4000)).unwrap_err().to_string();
        assert!(err.contains("4000 bytes") && err.len() < 150, "{err}");
    }
}
