//! What has to be true of a ledger, whatever was done to the hubs.

use super::ledger::{Harm, Holding, How, Records};
use hub_client::EventId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

/// A crash may forget acks of so long before it, and of as long as the store takes.
pub const UNSAVED: Duration = Duration::from_millis(200);
/// A hub that was frozen, or cut off, learns in this time who has its groups now.
pub const LEARNS: Duration = Duration::from_secs(10);
/// A member may be slow to see that its connection has ended.
const SEES: Duration = Duration::from_millis(500);

/// What was counted, for people.
#[derive(Default)]
pub struct Figures {
    pub answered: usize,
    pub stored: usize,
    pub lost: usize,
    pub doubled: usize,
    pub delivered: usize,
    /// Deliveries of events that had been acked by then.
    pub again: usize,
    /// Those of them that a crash does not excuse: the ack was older than 200 ms.
    pub beyond: usize,
    /// How old the oldest ack was that a crash made forget.
    pub oldest: Duration,
    pub at_once: usize,
    pub unavailable: u64,
    pub longest: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, stored, lost, doubled, delivered, again, beyond, oldest, at_once, .. } = self;
        write!(
            f,
            "{answered} answered, {stored} stored, {lost} lost, {doubled} doubled; {delivered} deliveries, "
        )?;
        write!(
            f,
            "{again} of what was acked ({beyond} beyond the promise, {oldest:?}), {at_once} in two hands; "
        )?;
        write!(f, "{} unavailable, the longest answer after {:?}", self.unavailable, self.longest)
    }
}

/// Every event of a topic, as a hub exports it: place, id, and what was published.
pub type Exported = Vec<(u64, EventId, String)>;

/// Checks everything. The second part is what is wrong.
pub fn check(records: &Records, exports: &[Exported]) -> (Figures, Vec<String>) {
    let mut wrong = records.wrong.clone();
    let mut figures = Figures {
        answered: records.places.len(),
        delivered: records.holdings.len(),
        unavailable: records.unavailable,
        longest: records.longest,
        ..Figures::default()
    };
    for other in &exports[1..] {
        if *other != exports[0] {
            wrong.push("two hubs export different events".to_owned());
        }
    }
    log(records, &exports[0], &mut figures, &mut wrong);
    watchers(records, &exports[0], &mut wrong);
    let by_seq = by_seq(records);
    for &(seq, ..) in &exports[0] {
        if !by_seq.get(&seq).is_some_and(|held| held.iter().any(|held| held.acked.is_some())) {
            wrong.push(format!("{seq} was never delivered and acked"));
        }
    }
    for (seq, held) in &by_seq {
        redelivered(records, *seq, held, &mut figures, &mut wrong);
        at_once(records, *seq, held, &mut figures, &mut wrong);
    }
    keys(records, &mut wrong);
    (figures, wrong)
}

/// Every answered event is there once, in its place; no place is empty.
fn log(records: &Records, log: &Exported, figures: &mut Figures, wrong: &mut Vec<String>) {
    figures.stored = log.len();
    let (mut ids, mut payloads) = (HashMap::new(), HashSet::new());
    for (expected, (seq, id, payload)) in (1..).zip(log) {
        if *seq != expected {
            wrong.push(format!("{seq} stands where {expected} should"));
        }
        if ids.insert(*id, *seq).is_some() || !payloads.insert(payload) {
            figures.doubled += 1;
            wrong.push(format!("{seq} is in the topic twice: {id} {payload}"));
        }
    }
    for (id, seq) in &records.places {
        match ids.get(id) {
            Some(found) if found == seq => {}
            Some(found) => wrong.push(format!("{id} was answered as {seq}, and is {found}")),
            None => {
                figures.lost += 1;
                wrong.push(format!("{id} was answered as {seq}, and is lost"));
            }
        }
    }
    for id in ids.keys().filter(|id| !records.places.contains_key(id)) {
        wrong.push(format!("{id} is stored, and its publisher was never told"));
    }
}

/// Everybody has seen the same, in the same order, but for what they were told that they missed.
fn watchers(records: &Records, log: &Exported, wrong: &mut Vec<String>) {
    for (watcher, watched) in records.watched.iter().enumerate() {
        let (saw, missed, there) = (watched.seen.len(), watched.missed, log.len());
        if !watched.seen.is_sorted_by(|a, b| a.0 < b.0) {
            wrong.push(format!("watcher {watcher} saw events in another order"));
        }
        let is_there = |(seq, id): &(u64, EventId)| log.get(*seq as usize - 1).is_some_and(|it| it.1 == *id);
        if !watched.seen.iter().all(is_there) {
            wrong.push(format!("watcher {watcher} saw events that are not there"));
        }
        if saw as u64 + missed != there as u64 {
            wrong.push(format!(
                "watcher {watcher} saw {saw} events and was told of {missed}; there are {there}"
            ));
        }
    }
}

fn by_seq(records: &Records) -> BTreeMap<u64, Vec<&Holding>> {
    let mut all: BTreeMap<u64, Vec<&Holding>> = BTreeMap::new();
    for holding in &records.holdings {
        all.entry(holding.seq).or_default().push(holding);
    }
    all.values_mut().for_each(|held| held.sort_by_key(|holding| holding.from));
    all
}

/// What was acked does not come again.
fn redelivered(
    records: &Records,
    seq: u64,
    held: &[&Holding],
    figures: &mut Figures,
    wrong: &mut Vec<String>,
) {
    for (at, later) in held.iter().enumerate().skip(1) {
        let acked = held[..at].iter().filter(|held| held.acked.is_some_and(|acked| acked < later.from));
        let Some(before) = acked.max_by_key(|held| held.acked) else { continue };
        let Some(acked) = before.acked else { continue };
        figures.again += 1;
        let hub = records.lives[before.life].hub;
        // A member that has left cannot say again what it acked, if the hub that served its group had not saved that.
        let left = records.lives[before.life].ended.filter(|ended| *ended < later.from);
        let is_unsaved = |harm: &Harm| harm.from <= acked + UNSAVED + store_took(records, acked, harm.from);
        let is_forgotten = |harm: &Harm| acked <= harm.from + SEES && is_unsaved(harm);
        let is_unheard =
            |harm: &Harm| harm.until.is_none_or(|until| acked <= until + LEARNS) && is_unsaved(harm);
        let excuse = |harm: &Harm| match (harm.how, harm.hub == hub) {
            (How::Stopped, _) => false,
            (How::Killed, true) => is_forgotten(harm),
            (How::Killed | How::Frozen, false) => left.is_some() && is_forgotten(harm),
            (How::Frozen | How::CutOff, true) => is_unheard(harm),
            (How::CutOff, false) => left.is_some() && is_unheard(harm),
        };
        if records.harms.iter().any(excuse) {
            continue;
        }
        figures.beyond += 1;
        let next = records.harms.iter().filter(|harm| harm.from > acked).min_by_key(|harm| harm.from);
        let age = next.map(|harm| harm.from - acked);
        figures.oldest = figures.oldest.max(age.unwrap_or_default());
        let there = records.lives[later.life].hub;
        let (after, left) = (later.from - acked, left.map(|left| left - acked));
        wrong.push(format!(
            "{seq} was acked at hub {hub}, and came again at hub {there} {after:?} later; after the ack its member left \
             ({left:?} after) and harm came to a hub ({age:?} after)"
        ));
    }
}

/// The longest that the store took, between two times, for something that it was given before the second: a publish waits for
/// nothing else.
fn store_took(records: &Records, from: Instant, to: Instant) -> Duration {
    let took = records.stored.iter().filter_map(|(answered, took)| {
        let asked = answered.checked_sub(*took)?;
        (asked <= to && *answered >= from).then(|| (*answered).min(to).saturating_duration_since(asked))
    });
    took.max().unwrap_or_default()
}

/// When the event was in the member's hands no more. The member may be slow to see the end of its connection.
fn end(records: &Records, holding: &Holding, slow: Duration) -> Option<Instant> {
    let ended = records.lives[holding.life].ended.map(|ended| ended.checked_sub(slow).unwrap_or(ended));
    match (holding.said, ended) {
        (Some(said), Some(ended)) => Some(said.min(ended)),
        (said, ended) => said.or(ended),
    }
}

/// Whether a hub may have had no say in who holds what it had given away, in some of this time.
fn was_unheard(records: &Records, hub: usize, from: Instant, until: Instant) -> bool {
    let unheard = |harm: &&Harm| harm.hub == hub && matches!(harm.how, How::Frozen | How::CutOff);
    records
        .harms
        .iter()
        .filter(unheard)
        .any(|harm| harm.from <= until && harm.until.is_none_or(|thawed| thawed + LEARNS >= from))
}

/// No event is in two hands.
fn at_once(records: &Records, seq: u64, held: &[&Holding], figures: &mut Figures, wrong: &mut Vec<String>) {
    for pair in held.windows(2) {
        let [first, second] = pair else { continue };
        let open = end(records, first, SEES).is_none_or(|end| end > second.from);
        let hub = records.lives[first.life].hub;
        if open && !was_unheard(records, hub, first.from, second.from) {
            figures.at_once += 1;
            let there = records.lives[second.life].hub;
            let after = second.from - first.from;
            wrong.push(format!("{seq} was in hand at hub {hub}, and {after:?} later at hub {there} as well"));
        }
    }
}

/// Events of a key come in their order, one at a time.
fn keys(records: &Records, wrong: &mut Vec<String>) {
    let mut by_key: HashMap<&str, Vec<&Holding>> = HashMap::new();
    for holding in &records.holdings {
        if let Some(key) = &holding.key {
            by_key.entry(key).or_default().push(holding);
        }
    }
    for (key, held) in by_key {
        let mut said: BTreeMap<u64, Instant> = BTreeMap::new();
        for holding in &held {
            if let Some(at) = holding.said {
                let first = said.entry(holding.seq).or_insert(at);
                *first = at.min(*first);
            }
        }
        let mut seqs: Vec<u64> = held.iter().map(|holding| holding.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        for holding in &held {
            let before = seqs.iter().rev().find(|seq| **seq < holding.seq);
            if let Some(before) = before
                && said.get(before).is_none_or(|said| *said > holding.from)
            {
                wrong.push(format!("key {key}: {} came before {before} was acked", holding.seq));
            }
            let other = held.iter().find(|other| {
                let hub = records.lives[other.life].hub;
                other.seq != holding.seq
                    && other.from <= holding.from
                    && end(records, other, SEES).is_none_or(|end| end > holding.from)
                    && !was_unheard(records, hub, other.from, holding.from)
            });
            if let Some(other) = other {
                wrong.push(format!("key {key}: {} and {} were in hand at once", other.seq, holding.seq));
            }
        }
    }
}
