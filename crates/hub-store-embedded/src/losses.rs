//! What damage has cost, in words: which seqs of which topics.
//!
//! A damaged stretch cannot say what was in it, its neighbours can: seqs have no gaps, so what is missing between two
//! records of a topic was between them in the log.

use crate::catalog::Topic;
use crate::disk::Wait;
use crate::health::HealthBoard;
use crate::index::Flags;
use crate::segment::Segment;
use crate::shared::Shared;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::TopicName;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Less than any event takes on disk.
pub const SMALLEST_EVENT: u64 = 100;
/// So many topics are named, and so many runs of seqs of each.
const NAMED: usize = 6;

/// Seqs that cannot be read any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<TopicName, Vec<(u64, u64)>>);

impl Losses {
    /// Adds seqs; those of a topic ascend.
    pub fn add(&mut self, topic: &TopicName, from: u64, to: u64) {
        let runs = self.0.entry(topic.clone()).or_default();
        match runs.last_mut() {
            Some(last) if last.1 + 1 >= from => last.1 = last.1.max(to),
            _ => runs.push((from, to)),
        }
    }

    /// How many seqs.
    pub fn count(&self) -> u64 {
        self.0.values().flatten().map(|(from, to)| to - from + 1).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records in some stretches of a segment, as its index has them. The stretches ascend.
    pub fn indexed(shared: &Shared, segment: &Segment, stretches: &[Range<u64>]) -> Vec<Self> {
        let mut losses = vec![Self::default(); stretches.len()];
        for number in segment.topics() {
            let Some(topic) = shared.catalog.numbered(number) else { continue };
            let entries = segment.entries(number, 0, usize::MAX, Wait::Yes).unwrap_or_default();
            for entry in entries.iter().filter(|entry| !entry.flags.has(Flags::PAST)) {
                let (from, to) = (u64::from(entry.offset), u64::from(entry.offset) + u64::from(entry.len));
                let first = stretches.partition_point(|bytes| bytes.end <= from);
                let hit = stretches[first..].iter().take_while(|bytes| bytes.start < to).count();
                losses[first..first + hit]
                    .iter_mut()
                    .for_each(|lost| lost.add(&topic.name, entry.seq, entry.seq));
            }
        }
        losses
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (topic, runs)) in self.0.iter().take(NAMED).enumerate() {
            f.write_str(if at == 0 { "" } else { "; " })?;
            for (at, (from, to)) in runs.iter().take(NAMED).enumerate() {
                f.write_str(if at == 0 { "" } else { ", " })?;
                match from == to {
                    true => write!(f, "seq {from}")?,
                    false => write!(f, "seqs {from} to {to}")?,
                }
            }
            if runs.len() > NAMED {
                write!(f, " and {} more runs", runs.len() - NAMED)?;
            }
            write!(f, " of {topic}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; and of {more} more topics"),
        }
    }
}

/// A place in the log: a segment's number and an offset in it.
pub type Place = (u64, u64);

/// A stretch of the log that cannot be read.
#[derive(Debug)]
pub struct Hole {
    /// Where it begins.
    pub from: Place,
    /// Where the log can be read again.
    pub to: Place,
    /// Bytes that were there, or more.
    pub bytes: u64,
    /// What happened.
    pub what: String,
}

/// Seqs that no record has, between two frames of a topic.
#[derive(Debug)]
struct Gap {
    topic: TopicName,
    seqs: (u64, u64),
    after: Place,
    before: Place,
    /// The log itself says that they are not there.
    told: bool,
}

/// What was come across on the way through the log.
#[derive(Default)]
pub struct Trail {
    /// By topic: its last record or jump.
    last: HashMap<u32, Place, RandomState>,
    gaps: Vec<Gap>,
    holes: Vec<Hole>,
}

impl Trail {
    /// A record. `expected` is the seq that it should have had, or a lower one.
    pub fn record(&mut self, topic: &Topic, expected: u64, seq: u64, at: Place) {
        self.step(topic, expected, seq, at, false);
    }

    /// The numbering goes on above `last`.
    pub fn jump(&mut self, topic: &Topic, expected: u64, last: u64, at: Place) {
        self.step(topic, expected, last + 1, at, true);
    }

    fn step(&mut self, topic: &Topic, expected: u64, seq: u64, before: Place, told: bool) {
        let after = self.last.insert(topic.number, before).unwrap_or_default();
        if seq > expected {
            let seqs = (expected, seq - 1);
            self.gaps.push(Gap { topic: topic.name.clone(), seqs, after, before, told });
        }
    }

    /// A stretch that cannot be read.
    pub fn hole(&mut self, hole: Hole) {
        self.holes.push(hole);
    }

    /// Says what is missing, and answers where the numbering of topics has to go on that may have lost their last
    /// records: nobody gets a seq again that somebody has seen.
    pub fn end(self, health: &HealthBoard, place: &str, topics: &[Arc<Topic>]) -> Vec<(Arc<Topic>, u64)> {
        let Self { last, gaps, mut holes } = self;
        holes.sort_by_key(|hole| hole.from);
        // Bytes from each hole on.
        let mut bytes: Vec<u64> = vec![0; holes.len() + 1];
        for (at, hole) in holes.iter().enumerate().rev() {
            bytes[at] = bytes[at + 1].saturating_add(hole.bytes);
        }
        let mut jumps = Vec::new();
        // Topics that may have lost their last records: where the last one that is known is, and its seq.
        let mut loose: Vec<(Place, u64, &Topic)> = Vec::new();
        for topic in topics {
            let last = last.get(&topic.number).copied().unwrap_or_default();
            let bytes = bytes[holes.partition_point(|hole| hole.from <= last)];
            if bytes >= SMALLEST_EVENT {
                let before = topic.state.lock().meta.last;
                loose.push((last, before, topic));
                jumps.push((topic.clone(), before + bytes / SMALLEST_EVENT + 1));
            }
        }
        loose.sort_by_key(|(last, _, topic)| (*last, topic.number));
        let mut explained = vec![false; gaps.len()];
        let mut losses = vec![Losses::default(); holes.len()];
        for (gap, explained) in gaps.iter().zip(&mut explained) {
            let first = holes.partition_point(|hole| hole.from <= gap.after);
            for (hole, lost) in holes[first..].iter().zip(&mut losses[first..]) {
                if hole.from >= gap.before {
                    break;
                }
                if hole.to <= gap.before {
                    lost.add(&gap.topic, gap.seqs.0, gap.seqs.1);
                    *explained = true;
                }
            }
        }
        for (hole, lost) in holes.iter().zip(losses) {
            let behind = match hole.bytes {
                SMALLEST_EVENT.. => loose.partition_point(|(last, ..)| *last < hole.from),
                _ => 0,
            };
            let open = &loose[..behind];
            let mut words = hole.what.clone();
            if !lost.is_empty() {
                words += &format!("; missing: {lost}");
            }
            if !open.is_empty() {
                let more = match open.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and the last of {more} more topics"),
                };
                let named =
                    open.iter().take(NAMED).map(|(_, seq, topic)| format!("seq {seq} of {}", topic.name));
                let named = named.collect::<Vec<String>>().join(", ");
                words += &format!("; perhaps missing: what followed {named}{more}");
            }
            if lost.is_empty() && open.is_empty() {
                words += match hole.bytes < SMALLEST_EVENT {
                    true => "; no record is missing",
                    false => "; no topic that is known misses a record, others may have been in it",
                };
            }
            health.found(words, lost.count().max(1));
        }
        for (gap, _) in gaps.iter().zip(&explained).filter(|(gap, explained)| !**explained && !gap.told) {
            let mut lost = Losses::default();
            lost.add(&gap.topic, gap.seqs.0, gap.seqs.1);
            let (segment, offset) = gap.before;
            health.found(
                format!("{place}/log-{segment:08} at byte {offset}: before it, {lost} are missing"),
                lost.count(),
            );
        }
        jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> TopicName {
        TopicName::parse(name).expect("a name")
    }

    fn topic(number: u32, topic: &str, last: u64) -> Arc<Topic> {
        let topic = Topic { number, name: name(topic), state: Default::default() };
        topic.state.lock().meta.last = last;
        Arc::new(topic)
    }

    fn hole(from: Place, to: Place, bytes: u64) -> Hole {
        Hole { from, to, bytes, what: format!("hole at {from:?}") }
    }

    #[test]
    fn losses_are_said_in_runs() {
        let mut lost = Losses::default();
        for (topic, from, to) in [("b", 3, 3), ("a", 1, 2), ("a", 3, 3), ("a", 9, 9)] {
            lost.add(&name(topic), from, to);
        }
        assert_eq!((lost.to_string().as_str(), lost.count()), ("seqs 1 to 3, seq 9 of a; seq 3 of b", 5));
    }

    #[test]
    fn what_is_missing_is_blamed_on_the_hole_it_was_in() {
        let (a, b) = (topic(1, "a", 9), topic(2, "b", 5));
        let mut trail = Trail::default();
        trail.record(&a, 1, 1, (1, 100));
        trail.hole(hole((1, 200), (1, 600), 400));
        trail.record(&b, 5, 5, (1, 600));
        trail.record(&a, 2, 4, (1, 700));
        trail.record(&a, 5, 9, (2, 100));
        let health = HealthBoard::default();
        assert!(trail.end(&health, "here", &[a, b]).is_empty(), "both have later records");
        let health = health.read();
        assert_eq!(
            health.warnings,
            [
                "hole at (1, 200); missing: seqs 2 to 3 of a",
                "here/log-00000002 at byte 100: before it, seqs 5 to 8 of a are missing"
            ]
        );
        assert_eq!(health.damaged, 6);
    }

    #[test]
    fn topics_that_may_have_lost_their_last_records_go_on_higher_up() {
        let (a, b) = (topic(1, "a", 1), topic(2, "b", 5));
        let mut trail = Trail::default();
        trail.record(&a, 1, 1, (1, 100));
        trail.hole(hole((1, 200), (1, 600), 400));
        trail.jump(&b, 4, 5, (1, 700));
        let health = HealthBoard::default();
        let jumps = trail.end(&health, "here", &[a, b]);
        assert_eq!(jumps.iter().map(|(topic, last)| (topic.number, *last)).collect::<Vec<_>>(), [(1, 6)]);
        let words = "hole at (1, 200); missing: seqs 4 to 5 of b; perhaps missing: what followed seq 1 of a";
        assert_eq!(health.read().warnings, [words]);
    }

    #[test]
    fn a_hole_too_small_for_a_record_costs_nothing() {
        let a = topic(1, "a", 1);
        let mut trail = Trail::default();
        trail.record(&a, 1, 1, (1, 100));
        trail.hole(hole((1, 200), (1, 230), 30));
        let health = HealthBoard::default();
        assert!(trail.end(&health, "here", &[a]).is_empty());
        assert_eq!(health.read().warnings, ["hole at (1, 200); no record is missing"]);
    }
}
