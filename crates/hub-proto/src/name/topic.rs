//! Names of topics, and of the topics the hub derives from them.

use std::sync::Arc;

use super::{is_segment_byte, name_traits};
use crate::error::shown;
use crate::{Error, Result, limits};

const DEAD_LETTER: &str = "dlq";
const SNAPSHOT: &str = "snapshot";
/// The first segment of the hub's own topics.
const SYSTEM: &str = "_hub";

/// A topic's name: segments of `[A-Za-z0-9_-]+` with dots between them, at most 200 bytes.
///
/// Names of derived topics ([`TopicName::derived`]) are longer by what the hub adds to them. They come back from clients in acks
/// and subscriptions, so `Deserialize` takes any length, like [`TopicName::stored`]; [`TopicName::readable`] and
/// [`NewEvent::check`](crate::NewEvent::check) bound what a client may name.
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
        let name = Self::stored(name)?;
        if name.is_system() {
            return Err(Error::bad_request(format!(
                "topic name {} begins with {SYSTEM}, which is for the hub's own topics; choose another",
                shown(&name)
            )));
        }
        Ok(name)
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

    /// Where this topic's dead letters go: `dlq.<topic>`.
    #[must_use]
    pub fn dead_letter(&self) -> Self {
        Self(format!("{DEAD_LETTER}.{}", self.0).into())
    }

    /// Where the compactor keeps this topic's snapshot: `<topic>.snapshot`.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self(format!("{}.{SNAPSHOT}", self.0).into())
    }

    /// Whether the compactor keeps a snapshot of this topic. It keeps none of a derived topic, none of the hub's own, and none of the
    /// topic `dlq`: `dlq.snapshot` is where the dead letters of the topic `snapshot` go.
    pub fn has_snapshot(&self) -> bool {
        self.derived().is_none() && !self.is_system() && self.snapshot().is_snapshot()
    }

    /// What the topic is derived from; `None` for a topic that publishers write to.
    ///
    /// ```
    /// use hub_proto::{Derivation, TopicName};
    /// let letters = TopicName::parse("orders")?.dead_letter();
    /// let derived = letters.derived().expect("the hub writes it");
    /// assert_eq!((derived.how, derived.source), (Derivation::DeadLetters, "orders"));
    /// assert!(TopicName::parse("orders")?.derived().is_none());
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn derived(&self) -> Option<Derived<'_>> {
        Derived::of(&self.0)
    }

    /// The topic that publishers write to and that this one is derived from, over all steps; the topic itself if it is not
    /// derived.
    pub fn root(&self) -> &str {
        Derived::sources(&self.0).last().unwrap_or(&self.0)
    }

    /// Whether this is a topic of the hub's own, which nobody else reads or writes: its first segment is `_hub`.
    pub fn is_system(&self) -> bool {
        self.0.split('.').next() == Some(SYSTEM)
    }

    /// Whether this is some topic's `dlq.…`.
    pub fn is_dead_letter(&self) -> bool {
        self.derived().is_some_and(|derived| derived.how == Derivation::DeadLetters)
    }

    /// Whether this is some topic's `….snapshot`. The dead letters of one are not: they are letters.
    pub fn is_snapshot(&self) -> bool {
        self.derived().is_some_and(|derived| derived.how == Derivation::Snapshot)
    }

    /// Reads a name that somebody wants to read from: like [`TopicName::parse`], or the name of a topic that the hub derives
    /// from one. The hub derives `dlq.T`, `T.snapshot` and `dlq.T.snapshot`, where `T` is not derived itself.
    ///
    /// # Errors
    /// As for [`TopicName::parse`], and `bad_request` for a derived name that the hub never makes.
    pub fn readable(name: &str) -> Result<Self> {
        let Some(derived) = Derived::of(name) else { return Self::parse(name) };
        let root = match Derived::of(derived.source) {
            Some(Derived { how: Derivation::Snapshot, source }) if derived.how == Derivation::DeadLetters => {
                source
            }
            _ => derived.source,
        };
        if Derived::of(root).is_some() {
            return Err(Error::bad_request(format!(
                "topic name {} is derived more than once; a topic T has dlq.T, T.snapshot and dlq.T.snapshot",
                shown(name)
            )));
        }
        Self::parse(root)?;
        Self::stored(name)
    }

    /// The limit on names a client may publish to.
    pub(crate) fn check_length(&self) -> Result<()> {
        check_length(&self.0)
    }
}

/// How the hub derives a topic from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derivation {
    /// `dlq.T`: events of `T` that a group gave up.
    DeadLetters,
    /// `T.snapshot`: the newest state of every key of the compacted topic `T`.
    Snapshot,
}

impl Derivation {
    /// The word for it in headers and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead-letter",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A derived topic: the hub alone writes it, and reading it needs the right on its source, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived<'a> {
    /// How it is derived.
    pub how: Derivation,
    /// The name of the topic that it is derived from, which may be derived itself: `dlq.T.snapshot` is `T.snapshot`'s.
    pub source: &'a str,
}

impl<'a> Derived<'a> {
    /// What a name, or a pattern as it is written, is derived from, step by step: `T.snapshot` and `T` for `dlq.T.snapshot`.
    pub fn sources(name: &'a str) -> impl Iterator<Item = &'a str> {
        std::iter::successors(Self::of(name), |derived| Self::of(derived.source))
            .map(|derived| derived.source)
    }

    fn of(name: &'a str) -> Option<Self> {
        if let Some((DEAD_LETTER, source)) = name.split_once('.') {
            return Some(Self { how: Derivation::DeadLetters, source });
        }
        match name.rsplit_once('.') {
            Some((source, SNAPSHOT)) => Some(Self { how: Derivation::Snapshot, source }),
            _ => None,
        }
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
        for bad in [
            "_hub",
            "_hub.makers",
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a*",
            "**",
            "é",
            "a\0b",
            &"t".repeat(201),
        ] {
            assert!(TopicName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_derived_name_is_as_long_as_its_root_allows() {
        let longest = TopicName::parse(&"t".repeat(200)).unwrap();
        let derived = [longest.dead_letter(), longest.snapshot(), longest.snapshot().dead_letter()];
        for name in &derived {
            assert!(TopicName::parse(name).is_err(), "nobody publishes to {name}");
            assert_eq!(TopicName::readable(name).unwrap(), *name);
            let json = serde_json::to_string(name).unwrap();
            assert_eq!(serde_json::from_str::<TopicName>(&json).unwrap(), *name);
        }
        let long = "t".repeat(201);
        for name in [format!("dlq.{long}"), format!("{long}.snapshot"), format!("dlq.{long}.snapshot")] {
            let error = TopicName::readable(&name).unwrap_err().to_string();
            assert!(error.contains("201 bytes; at most 200"), "{error}");
        }
    }

    #[test]
    fn names_that_the_hub_never_derives_are_refused() {
        for name in ["dlq._hub.x", "_hub.snapshot"] {
            assert!(TopicName::readable(name).is_err(), "{name}");
        }
        for name in ["dlq.dlq.t", "t.snapshot.snapshot", "dlq.t.snapshot.snapshot", "dlq.dlq.t.snapshot"] {
            let error = TopicName::readable(name).unwrap_err();
            assert!(error.msg.contains("derived more than once"), "{name}: {error}");
        }
        for name in ["dlq.t", "t.snapshot", "dlq.t.snapshot", "dlq.snapshot", "dlq", "snapshot", "t"] {
            assert_eq!(TopicName::readable(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn the_root_of_a_name_is_what_publishers_write_to() {
        let root = |name: &str| TopicName::stored(name).unwrap().root().to_owned();
        for (name, of) in [
            ("t", "t"),
            ("dlq.t", "t"),
            ("t.snapshot", "t"),
            ("dlq.t.snapshot", "t"),
            ("dlq.snapshot", "snapshot"),
            ("dlq", "dlq"),
            ("dlq.dlq.t", "t"),
        ] {
            assert_eq!(root(name), of, "{name}");
        }
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
    fn no_snapshot_has_the_name_of_dead_letters() {
        let has_snapshot = |name: &str| TopicName::stored(name).unwrap().has_snapshot();
        assert!(has_snapshot("orders") && has_snapshot("snapshot") && has_snapshot("a.dlq"));
        for name in ["dlq", "dlq.orders", "orders.snapshot", "_hub.makers"] {
            assert!(!has_snapshot(name), "{name}");
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
