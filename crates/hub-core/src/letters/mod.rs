//! Dead letters, for those who look at them, replay them or discard them.
//!
//! A letter is a record of `dlq.T`, which nobody changes. What an operator did with one is remembered beside it, by
//! [marks] on a system topic. [ADR 14](../../../../docs/adr/0014-what-was-done-with-a-dead-letter-is-marked-beside-it.md) says why.
//!
//! | to know about | look at |
//! | --- | --- |
//! | one letter, which letters somebody means | here |
//! | reading letters, with bounded work per call | `read` |
//! | what was done with letters | `marks` |
//! | replaying and discarding | `replay` |

mod marks;
mod read;
mod replay;

pub(crate) use marks::forget as forget_marks;
pub(crate) use read::{find, find_any, page};
pub use replay::{Replay, Replayed};
pub(crate) use replay::{discard, id_of_replay, replay};

use crate::Millis;
use hub_proto::{Derivation, Event, EventId, GroupName, TopicName, header};
use marks::Mark;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Errors whose first bytes, up to this number, are equal count as one.
pub const SHOWN_ERROR_BYTES: usize = 200;

/// The most ids that one filter may name.
pub(crate) const MAX_IDS: usize = 1000;

/// The topic that a dead-letter topic is derived from.
pub(crate) fn source_of(letters: &TopicName) -> Option<TopicName> {
    let derived = letters.derived().filter(|derived| derived.how == Derivation::DeadLetters)?;
    TopicName::stored(derived.source).ok()
}

/// An event that a group gave up, and why.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    record: Arc<Event>,
    topic: TopicName,
    group: GroupName,
    original: Event,
    err: String,
    buried: Millis,
    attempts: u32,
    mark: Mark,
}

/// A letter as `dead_letter::Letter` writes it.
#[derive(Deserialize)]
struct Written<'a> {
    group: GroupName,
    #[serde(borrow)]
    original: &'a RawValue,
    err: String,
    ts: Millis,
    attempts: u32,
}

impl DeadLetter {
    /// Reads a letter; `None` if the hub did not write the record.
    fn read(record: Arc<Event>) -> Option<Self> {
        let topic = source_of(record.topic())?;
        if record.header(header::DERIVED) != Some(Derivation::DeadLetters.as_str()) {
            return None;
        }
        let Written { group, original, err, ts, attempts } = serde_json::from_slice(record.payload()).ok()?;
        // The bytes of the original stay where they are.
        let original = record.json().slice_ref(original.get().as_bytes());
        let original = Event::from_json(original, ts).ok()?;
        Some(Self { topic, group, original, err, buried: ts, attempts, mark: Mark::default(), record })
    }

    /// Its own id.
    pub fn id(&self) -> EventId {
        self.record.id()
    }

    /// Its seq on the dead-letter topic.
    pub fn seq(&self) -> u64 {
        self.record.seq()
    }

    /// When the hub committed it: the time that filters go by.
    pub fn committed(&self) -> Millis {
        self.record.committed()
    }

    /// The topic of the event.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// The group that gave the event up.
    pub fn group(&self) -> &GroupName {
        &self.group
    }

    /// The event, as the group got it.
    pub fn original(&self) -> &Event {
        &self.original
    }

    /// The event that was published first, if the original is itself a replayed letter.
    pub fn replay_of(&self) -> Option<EventId> {
        EventId::parse(self.original.header(header::REPLAY_OF)?).ok()
    }

    /// Why the last delivery failed.
    pub fn err(&self) -> &str {
        &self.err
    }

    /// The error as it is counted and filtered by: cut at [`SHOWN_ERROR_BYTES`].
    pub fn short_err(&self) -> &str {
        short(&self.err)
    }

    /// When it was given up.
    pub fn buried(&self) -> Millis {
        self.buried
    }

    /// How often it was delivered.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The last round in which it was replayed; 0 if it never was.
    pub fn replays(&self) -> u32 {
        self.mark.replays
    }

    /// When it was replayed last.
    pub fn replayed(&self) -> Option<Millis> {
        self.mark.replayed
    }

    /// When it was discarded, if it was.
    pub fn discarded(&self) -> Option<Millis> {
        self.mark.discarded
    }

    /// The id of the record that a round of replaying made, or makes.
    pub fn replay_id(&self, round: u32) -> EventId {
        id_of_replay(self.id(), round)
    }

    /// Bytes of the letter's record.
    pub fn bytes(&self) -> usize {
        self.record.json().len()
    }
}

/// Which letters of a topic somebody means: those for which everything holds that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// These letters, by their own ids; at most 1,000.
    pub ids: Option<Vec<EventId>>,
    /// Given up by this group.
    pub group: Option<GroupName>,
    /// With this error, compared up to [`SHOWN_ERROR_BYTES`].
    pub err: Option<String>,
    /// With this text in the error.
    pub text: Option<String>,
    /// Of an event with this key.
    pub key: Option<String>,
    /// Written at this time or later, by the commit time of the letter.
    pub from: Option<Millis>,
    /// Written before this time.
    pub until: Option<Millis>,
    /// Replayed before, or not.
    pub replayed: Option<bool>,
}

impl LetterFilter {
    /// Whether it excludes no letter.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything but the time, the ids and what is marked.
    fn matches(&self, letter: &DeadLetter) -> bool {
        let key = || letter.original.key().map(|key| &**key);
        self.group.as_ref().is_none_or(|group| *group == letter.group)
            && self.err.as_deref().is_none_or(|err| short(err) == letter.short_err())
            && self.text.as_deref().is_none_or(|text| letter.err.contains(text))
            && self.key.as_deref().is_none_or(|wanted| key() == Some(wanted))
    }

    fn matches_mark(&self, mark: &Mark) -> bool {
        !mark.is_discarded() && self.replayed.is_none_or(|replayed| replayed == (mark.replays > 0))
    }
}

fn short(err: &str) -> &str {
    &err[..err.floor_char_boundary(SHOWN_ERROR_BYTES)]
}

/// A part of the dead-letter topic, by seqs: above `after`, up to `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterRange {
    /// Letters above this seq.
    pub after: u64,
    /// Letters up to this seq. A replay of all letters sets it to the end of the topic at the beginning: what fails again
    /// meanwhile is not replayed over and over.
    pub upto: u64,
}

impl Default for LetterRange {
    fn default() -> Self {
        Self { after: 0, upto: u64::MAX }
    }
}

/// Letters that were found.
#[derive(Clone, Debug, Default)]
pub struct LetterPage {
    /// In the order of their seqs, or of the ids that were asked for.
    pub letters: Vec<DeadLetter>,
    /// There may be more: read on after this seq.
    pub next: Option<u64>,
    /// How many records were looked at.
    pub looked_at: usize,
    /// Their bytes.
    pub bytes: usize,
}
