//! What an examination answers.
//!
//! The types are serialised as they are: `event-hub doctor --json` prints them, and `docs/cli.md` lists the fields.
//! Fields may be added; none is renamed or removed.

use roaring::RoaringTreemap;
use serde::Serialize;

/// The most findings that are told one by one; the rest is counted.
pub const MOST_FINDINGS: usize = 1_000;
/// The most ranges of seqs that are listed for one topic of one finding.
const MOST_RANGES: usize = 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be after a crash or a repair: nothing needs to be done.
    Note,
    /// Something is not as it should be; no acknowledged event is lost by it.
    Problem,
    /// Acknowledged events are lost, or may be.
    Loss,
}

/// Seqs of a topic, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seqs {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// What a finding means for a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Affected {
    /// The topic, or `number N` if its name is not known.
    pub topic: String,
    /// How many events.
    pub events: u64,
    /// Which; the first 20 ranges.
    pub seqs: Vec<Seqs>,
}

impl Affected {
    pub(super) fn new(topic: String, seqs: &RoaringTreemap) -> Self {
        Self { topic, events: seqs.len(), seqs: ranges(seqs, MOST_RANGES) }
    }

    /// In words.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self.seqs.iter().map(Seqs::words).collect();
        let told: u64 = self.seqs.iter().map(|seqs| seqs.last - seqs.first + 1).sum();
        if told < self.events {
            words.push(format!("{} more", self.events - told));
        }
        let seqs = if self.events == 1 { "seq" } else { "seqs" };
        format!("{}: {seqs} {}", self.topic, words.join(", "))
    }
}

impl Seqs {
    fn words(&self) -> String {
        if self.first == self.last {
            self.first.to_string()
        } else {
            format!("{} to {}", self.first, self.last)
        }
    }
}

/// The first ranges of a set.
fn ranges(set: &RoaringTreemap, most: usize) -> Vec<Seqs> {
    let mut ranges: Vec<Seqs> = Vec::new();
    for seq in set {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == seq => range.last = seq,
            _ => {
                if ranges.len() == most {
                    break;
                }
                ranges.push(Seqs { first: seq, last: seq });
            }
        }
    }
    ranges
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A word for programs; see `docs/cli.md`.
    pub code: &'static str,
    /// The file, within the directory.
    pub file: String,
    /// Where in it.
    pub offset: Option<u64>,
    /// How many bytes.
    pub bytes: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What that means.
    pub means: String,
    /// What can be done.
    pub remedy: String,
    /// The flag that repairs it.
    pub repair: Option<&'static str>,
    /// Events that are lost, as far as that is known.
    pub lost: Vec<Affected>,
}

impl Finding {
    pub(super) fn new(severity: Severity, code: &'static str, file: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            file: file.into(),
            offset: None,
            bytes: None,
            what: String::new(),
            means: String::new(),
            remedy: String::new(),
            repair: None,
            lost: Vec::new(),
        }
    }

    pub(super) fn at(mut self, offset: u64, bytes: u64) -> Self {
        (self.offset, self.bytes) = (Some(offset), Some(bytes));
        self
    }

    pub(super) fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    pub(super) fn means(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    pub(super) fn repair(mut self, flag: &'static str) -> Self {
        self.repair = Some(flag);
        self
    }

    /// Where it is, in words.
    pub fn place(&self) -> String {
        match (self.offset, self.bytes) {
            (Some(offset), Some(1)) => format!("{} at byte {offset}, 1 byte", self.file),
            (Some(offset), Some(bytes)) => format!("{} at byte {offset}, {bytes} bytes", self.file),
            (Some(offset), None) => format!("{} at byte {offset}", self.file),
            _ => self.file.clone(),
        }
    }
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Events in them, those that are cleaned away and still there included.
    pub events: u64,
    /// Topics.
    pub topics: u64,
    /// Groups.
    pub groups: u64,
}

/// The outcome of an examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The directory.
    pub directory: String,
    /// Whether there is nothing but notes.
    pub healthy: bool,
    /// How much was read.
    pub examined: Examined,
    /// What was found, in the order of the log.
    pub findings: Vec<Finding>,
    /// Findings that are not listed.
    pub more_findings: u64,
    /// Events known to be lost.
    pub lost_events: u64,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// The flag that asked for it.
    pub repair: &'static str,
    /// What was done, or why nothing was.
    pub what: String,
    /// Whether anything was changed.
    pub changed: bool,
    /// Where what was there before is now.
    pub copies: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seqs_are_told_as_ranges_and_the_rest_is_counted() {
        let set: RoaringTreemap = [1, 2, 3, 9].into_iter().chain((100..200).step_by(2)).collect();
        let affected = Affected::new("a".into(), &set);
        assert_eq!(affected.events, 54);
        assert!(affected.words().starts_with("a: seqs 1 to 3, 9, 100, 102"), "{}", affected.words());
        assert!(affected.words().ends_with(", 32 more"), "{}", affected.words());
        let one = Affected::new("a".into(), &[7].into_iter().collect());
        assert_eq!(one.words(), "a: seq 7");
    }
}
