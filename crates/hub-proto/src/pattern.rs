//! Topic patterns: `*` is one segment, `**` any number of them, none included, anywhere.
//!
//! Three questions are asked about them, each in time bounded by the product of the two lengths and without
//! recursion: does a pattern match a topic ([`Pattern::matches`]), does it match everything another one
//! matches ([`Pattern::contains`]), is there a topic both match ([`Pattern::intersects`]). The last two speak
//! of all topics there could be, not of those that exist.

mod matching;
mod relation;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::shown;
use crate::name::is_segment_byte;
use crate::{Derivation, Derived, Error, Result, TopicName, limits};

/// A topic pattern. Two patterns are equal if they are written alike; whether they *mean* the same is asked
/// with [`Pattern::contains`] both ways.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    tokens: Arc<[Token]>,
}

/// One step of a pattern in normal form: a run of wildcards with a `**` among them is one [`Token::AtLeast`],
/// wherever in the run the `**` stands, for `*.**`, `**.*` and `**.*.**` mean the same.
///
/// So what follows an `AtLeast` is always a literal or the end.
#[derive(Clone, Copy)]
enum Token {
    /// A segment that must be exactly this part of the pattern's text.
    Literal { start: u16, end: u16 },
    /// Any one segment.
    One,
    /// That many segments or more.
    AtLeast(u16),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// ```
    /// use hub_proto::Pattern;
    /// let pattern = Pattern::parse("process.*.state.**")?;
    /// assert!(pattern.matches("process.42.state"));
    /// assert!(pattern.matches("process.42.state.changed"));
    /// assert!(!pattern.matches("process.state"));
    /// assert!(Pattern::parse("process.4*").is_err());
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_request` if the pattern is too long or a segment is neither `*`, `**` nor a topic's segment.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > limits::PATTERN_BYTES {
            return Err(Error::bad_request(format!(
                "pattern {} has {} bytes; at most {} are allowed",
                shown(text),
                text.len(),
                limits::PATTERN_BYTES
            )));
        }
        let tokens = tokens(text)?;
        Ok(Self { text: text.into(), tokens: tokens.into() })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has no wildcard, and so matches one topic only.
    pub fn is_literal(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Literal { .. }))
    }

    /// What every topic that it matches begins with, as far as that can be told by its literal segments.
    ///
    /// ```
    /// use hub_proto::Pattern;
    /// assert_eq!(Pattern::parse("orders.eu.*.paid")?.prefix(), "orders.eu");
    /// assert_eq!(Pattern::parse("**.paid")?.prefix(), "");
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn prefix(&self) -> &str {
        let wildcard = self.text.find('*').unwrap_or(self.text.len());
        // `a.**` matches `a`, too.
        self.text[..wildcard].trim_end_matches('.')
    }

    /// Whether a *subscription* to this pattern covers the topic: derived topics must be named. `dlq.…` only matches if the
    /// pattern begins with a literal `dlq`, `….snapshot` only if it ends with a literal `snapshot`, `dlq.….snapshot` only if it
    /// does both. So a subscription to `**` does not get its own dead letters back, and [`sources`](Self::sources) of a pattern
    /// are all that its topics are derived from. The hub's own topics are not covered by any pattern.
    ///
    /// ```
    /// use hub_proto::{Pattern, TopicName};
    /// let dead = TopicName::readable("dlq.orders")?;
    /// assert!(!Pattern::parse("**")?.matches_for_subscription(&dead));
    /// assert!(Pattern::parse("dlq.**")?.matches_for_subscription(&dead));
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn matches_for_subscription(&self, topic: &TopicName) -> bool {
        let Some(derived) = topic.derived() else { return !topic.is_system() && self.matches(topic) };
        let names_letters = || self.text.split('.').next() == Some("dlq");
        let names_snapshot = || self.text.rsplit('.').next() == Some("snapshot");
        let of_snapshot = || derived.source.rsplit_once('.').is_some_and(|(_, last)| last == "snapshot");
        let named = match derived.how {
            Derivation::DeadLetters => names_letters() && (!of_snapshot() || names_snapshot()),
            Derivation::Snapshot => names_snapshot(),
        };
        named && self.matches(topic)
    }

    /// What the topics of a subscription to this pattern are derived from, one pattern per step: `orders.*` for
    /// `dlq.orders.*`, none for `orders.*`. Who reads derived topics needs the right to read these, too.
    ///
    /// ```
    /// use hub_proto::Pattern;
    /// let sources: Vec<_> = Pattern::parse("dlq.**.snapshot")?.sources().collect();
    /// assert_eq!(sources, [Pattern::parse("**.snapshot")?, Pattern::parse("**")?]);
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    pub fn sources(&self) -> impl Iterator<Item = Self> {
        // A part of a pattern that ends at a dot is a pattern.
        Derived::sources(&self.text).filter_map(|source| Self::parse(source).ok())
    }

    /// The text of a literal token.
    fn literal(&self, start: u16, end: u16) -> &str {
        &self.text[usize::from(start)..usize::from(end)]
    }
}

/// Splits a pattern, of a length that fits `u16`, into its normal form.
fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut run = Wildcards::default();
    let mut start = 0;
    for segment in text.split('.') {
        let end = start + segment.len();
        match segment {
            "*" => run.ones += 1,
            "**" => run.many = true,
            _ if !segment.is_empty() && segment.bytes().all(is_segment_byte) => {
                run.flush(&mut tokens);
                tokens.push(Token::Literal { start: start as u16, end: end as u16 });
            }
            _ => {
                return Err(Error::bad_request(format!(
                    "pattern {}: segment {} is neither *, ** nor [A-Za-z0-9_-]+",
                    shown(text),
                    shown(segment)
                )));
            }
        }
        start = end + 1;
    }
    if tokens.is_empty() && run.many {
        // A topic has a segment, so a pattern of wildcards alone asks for one at least. With this the empty
        // list of segments matches no pattern at all, and nothing further down has to think of it.
        run.ones = run.ones.max(1);
    }
    run.flush(&mut tokens);
    Ok(tokens)
}

/// A run of wildcards between two literals.
#[derive(Default)]
struct Wildcards {
    ones: u16,
    many: bool,
}

impl Wildcards {
    fn flush(&mut self, tokens: &mut Vec<Token>) {
        let Self { ones, many } = std::mem::take(self);
        if many {
            tokens.push(Token::AtLeast(ones));
        } else {
            tokens.extend((0..ones).map(|_| Token::One));
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        Self::parse(&text).map_err(|err| serde::de::Error::custom(err.msg))
    }
}

#[cfg(test)]
mod tests;
