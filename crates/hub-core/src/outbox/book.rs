//! What a drainer holds, and what may go out next. No clock, no I/O.

use super::options::OnError;
use super::row::Row;
use super::shares::{SLOTS, slot_of};
use super::store::{Outcome, Settled};
use crate::Millis;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Rows of a key that go out together, at most, and their bytes.
const RUN_ROWS: usize = 256;
const RUN_BYTES: usize = 1 << 20;

/// A claimed row on its way.
#[derive(Debug)]
pub struct Entry {
    pub row: Row,
    /// The number of the claim that it is held under.
    pub claim: u64,
}

/// Rows that go out together: of one key, in their order, or one without a key.
pub type Run = VecDeque<Entry>;

/// How publishing a row has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// For good.
    Final(String),
    /// This time; the next one is after so many milliseconds.
    Passing(String, Millis),
}

/// The rows of a key behind those that are out.
#[derive(Default)]
struct Queue {
    /// In their order.
    rows: VecDeque<Entry>,
    /// One that is out, or was, had been held before: there may be others behind it.
    waited: bool,
}

impl Queue {
    /// Adds rows to those that go out together.
    fn fill(&mut self, run: &mut Run) {
        let mut bytes: usize = run.iter().map(|entry| entry.row.bytes()).sum();
        while let Some(next) = self.rows.front() {
            bytes += next.row.bytes();
            if !run.is_empty() && (run.len() == RUN_ROWS || bytes > RUN_BYTES) {
                break;
            }
            run.extend(self.rows.pop_front());
        }
        self.waited |= run.iter().any(|entry| entry.row.waited);
    }
}

/// What became of rows of a claim, and their slots.
#[derive(Default)]
struct Outcomes {
    settled: Vec<Settled>,
    slots: Vec<usize>,
}

/// Rows of a claim.
struct Held {
    rows: usize,
    until: Millis,
}

/// See the module.
pub struct Book {
    on_error: OnError,
    max_attempts: u32,
    /// Keys of which a row is out.
    keys: HashMap<Arc<str>, Queue, RandomState>,
    /// Keys with a row that has failed or goes back, until the database knows: it still shows that row as claimed by this
    /// drainer, and such a row holds up no later row of its key. The value is the outcome of rows of the key that are claimed meanwhile.
    blocked: HashMap<Arc<str>, Outcome, RandomState>,
    /// Keys whose rows behind others can go on, once what was settled is.
    released: Vec<Arc<str>>,
    /// What is to be told, by claim.
    outcomes: BTreeMap<u64, Outcomes>,
    /// What is being told: the slots of rows of a claim.
    telling: Vec<(u64, usize)>,
    /// What the database takes to be in hand, by claim, and the first time that runs out.
    claims: BTreeMap<u64, Held>,
    held_until: Millis,
    /// Rows of each slot, and of all, of which the database has not been told what became of them.
    slots: [usize; SLOTS],
    held: usize,
    /// Bytes of rows that are not settled.
    bytes: usize,
}

impl Book {
    pub fn new(on_error: OnError, max_attempts: u32) -> Self {
        Self {
            on_error,
            max_attempts,
            keys: HashMap::default(),
            blocked: HashMap::default(),
            released: Vec::new(),
            outcomes: BTreeMap::new(),
            telling: Vec::new(),
            claims: BTreeMap::new(),
            held_until: Millis::MAX,
            slots: [0; SLOTS],
            held: 0,
            bytes: 0,
        }
    }

    /// Rows that are claimed as far as the database knows.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes of rows that are not settled.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Until when everything is held that the database takes to be in hand.
    pub fn held_until(&self) -> Millis {
        self.held_until
    }

    /// From the first to the last of the claims that run out before a time.
    pub fn running_out(&self, before: Millis) -> Option<RangeInclusive<u64>> {
        let mut claims = self.claims.iter().filter(|(_, held)| held.until < before).map(|(claim, _)| *claim);
        let first = claims.next()?;
        Some(first..=claims.next_back().unwrap_or(first))
    }

    /// Claims have more time.
    pub fn renewed(&mut self, claims: RangeInclusive<u64>, until: Millis) {
        self.claims.range_mut(claims).for_each(|(_, held)| held.until = until);
        self.look_when_first_runs_out();
    }

    fn look_when_first_runs_out(&mut self) {
        self.held_until = self.claims.values().map(|held| held.until).min().unwrap_or(Millis::MAX);
    }

    /// Whether the database takes something of a slot to be in hand.
    pub fn is_busy(&self, slot: usize) -> bool {
        self.slots[slot] > 0
    }

    /// Whether nothing may be claimed before more is settled: the database would give out what comes behind a row that has
    /// failed or goes back.
    pub fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Rows of a claim that is held until a time, those of a key in their order. Answers which go out at once.
    pub fn take(&mut self, claim: u64, until: Millis, rows: Vec<Row>) -> Vec<Run> {
        let mut out: Vec<Run> = Vec::new();
        let mut begun = Vec::new();
        for row in rows {
            let key = row.key.clone();
            let entry = self.enter(claim, until, row);
            // An earlier row of the key failed or went back while this one was claimed.
            if let Some(outcome) = key.as_ref().and_then(|key| self.blocked.get(key)).cloned() {
                self.settle(entry, outcome);
                continue;
            }
            match key {
                None => out.push(Run::from([entry])),
                Some(key) => match self.keys.get_mut(&key) {
                    Some(queue) => queue.rows.push_back(entry),
                    None => {
                        self.keys.insert(key.clone(), Queue::default());
                        begun.push((key, out.len()));
                        out.push(Run::from([entry]));
                    }
                },
            }
        }
        for (key, at) in begun {
            if let Some(queue) = self.keys.get_mut(&key) {
                queue.fill(&mut out[at]);
            }
        }
        out
    }

    /// A row is in the log.
    pub fn sent(&mut self, entry: Entry) {
        self.settle(entry, Outcome::Sent);
    }

    /// The first rows of a run are in the log, and these are left. Answers which go out next.
    pub fn go_on(&mut self, key: &Arc<str>, left: Run) -> Option<Run> {
        self.put_first(key, left);
        self.next(key.clone())
    }

    /// Puts rows that were out before those that are not.
    fn put_first(&mut self, key: &Arc<str>, left: Run) {
        for entry in left.into_iter().rev() {
            self.keys.entry(key.clone()).or_default().rows.push_front(entry);
        }
    }

    /// A row has failed, with these behind it that were out with it. Answers which go out next, if any, and whether this one
    /// is parked.
    pub fn failed(&mut self, entry: Entry, left: Run, failure: Failure) -> (Option<Run>, bool) {
        let key = entry.row.key.clone();
        let (outcome, parked) = match failure {
            Failure::Passing(error, after) if entry.row.attempts + 1 < self.max_attempts => {
                (Outcome::Retry { after, error }, false)
            }
            Failure::Final(error) | Failure::Passing(error, _) => (Outcome::Parked { error }, true),
        };
        self.settle(entry, outcome);
        let Some(key) = key else { return (None, parked) };
        self.put_first(&key, left);
        if parked && self.on_error == OnError::Skip {
            return (self.next(key), true);
        }
        let queue = self.keys.remove(&key).unwrap_or_default();
        queue.rows.into_iter().for_each(|behind| self.settle(behind, Outcome::Behind));
        self.blocked.insert(key, Outcome::Behind);
        (None, parked)
    }

    /// The next rows of a key. After the last one those can go on that the database keeps behind them.
    fn next(&mut self, key: Arc<str>) -> Option<Run> {
        let mut run = Run::new();
        self.keys.get_mut(&key)?.fill(&mut run);
        if !run.is_empty() {
            return Some(run);
        }
        if self.keys.remove(&key).is_some_and(|queue| queue.waited) {
            self.released.push(key);
        }
        None
    }

    fn enter(&mut self, claim: u64, until: Millis, row: Row) -> Entry {
        self.held += 1;
        self.claims.entry(claim).or_insert(Held { rows: 0, until }).rows += 1;
        self.held_until = self.held_until.min(until);
        self.bytes += row.bytes();
        self.slots[slot_of(row.key.as_deref(), row.place.id.as_str())] += 1;
        Entry { row, claim }
    }

    fn settle(&mut self, entry: Entry, outcome: Outcome) {
        self.bytes -= entry.row.bytes();
        let outcomes = self.outcomes.entry(entry.claim).or_default();
        outcomes.slots.push(slot_of(entry.row.key.as_deref(), entry.row.place.id.as_str()));
        outcomes.settled.push(Settled { id: entry.row.place.id, outcome });
    }

    /// Gives everything back that is not out.
    pub fn give_back(&mut self) {
        let queued: Vec<_> = self.keys.values_mut().flat_map(|queue| queue.rows.drain(..)).collect();
        queued.into_iter().for_each(|entry| self.give_back_entry(entry));
    }

    /// Gives back rows that were out, and did not get there; and what is behind them.
    pub fn give_back_run(&mut self, run: Run) {
        let key = run.front().and_then(|entry| entry.row.key.as_ref());
        let queue = key.and_then(|key| self.keys.remove(key)).unwrap_or_default();
        run.into_iter().chain(queue.rows).for_each(|entry| self.give_back_entry(entry));
    }

    /// Gives a row back. No later row of its key goes out before the database knows.
    fn give_back_entry(&mut self, entry: Entry) {
        if let Some(key) = &entry.row.key {
            self.blocked.entry(key.clone()).or_insert(Outcome::Returned);
        }
        self.settle(entry, Outcome::Returned);
    }

    /// Gives rows of a claim back that never went out. Rows of the same claim that go out are taken before.
    pub fn give_back_rows(&mut self, claim: u64, until: Millis, rows: Vec<Row>) {
        for row in rows {
            let entry = self.enter(claim, until, row);
            self.give_back_entry(entry);
        }
    }

    /// What the database is to be told next, from the oldest claim on.
    pub fn outcomes(&mut self) -> Option<(u64, Vec<Settled>)> {
        let (claim, Outcomes { settled, slots }) = self.outcomes.pop_first()?;
        self.telling.extend(slots.into_iter().map(|slot| (claim, slot)));
        Some((claim, settled))
    }

    /// The database knows what it was told last.
    pub fn told(&mut self) {
        for (claim, slot) in self.telling.drain(..) {
            self.slots[slot] -= 1;
            self.held -= 1;
            if let Some(held) = self.claims.get_mut(&claim) {
                held.rows -= 1;
            }
        }
        self.claims.retain(|_, held| held.rows > 0);
        self.look_when_first_runs_out();
    }

    /// Everything that was settled is known, and nothing is being claimed: what was blocked is the database's to hold up.
    pub fn unblock(&mut self) {
        if self.outcomes.is_empty() {
            self.blocked.clear();
        }
    }

    /// Whether there is something to tell.
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// Keys whose rows behind others can go on.
    pub fn released(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.released)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::outbox::{Micros, Place};
    use hub_proto::Error;

    fn row(key: Option<&str>, at: Micros) -> Row {
        let place = Place { ord: None, at, id: at.to_string().as_str().into() };
        let event = Err(Error::bad_request("nobody looks at it here"));
        Row { key: key.map(Arc::from), place, attempts: 0, waited: false, event }
    }

    fn names(runs: &[Run]) -> Vec<Vec<Micros>> {
        runs.iter().map(|run| run.iter().map(|entry| entry.row.place.at).collect()).collect()
    }

    fn told(book: &mut Book) -> Vec<(String, Outcome)> {
        let mut told = Vec::new();
        while let Some((_, settled)) = book.outcomes() {
            told.extend(settled.into_iter().map(|it| (it.id.to_string(), it.outcome)));
        }
        told
    }

    fn only<T: std::fmt::Debug>(them: impl IntoIterator<Item = T>) -> T {
        let mut them: Vec<T> = them.into_iter().collect();
        assert_eq!(them.len(), 1, "{them:?}");
        them.remove(0)
    }

    /// All of a run is in the log. Answers what goes out next.
    fn sent(book: &mut Book, run: Run) -> Option<Run> {
        let key = run[0].row.key.clone();
        run.into_iter().for_each(|entry| book.sent(entry));
        book.go_on(&key?, Run::new())
    }

    #[test]
    fn rows_of_a_key_go_out_in_their_order_and_others_beside_them() {
        let mut book = Book::new(OnError::Hold, 10);
        let rows = vec![row(Some("a"), 1), row(None, 2), row(Some("a"), 3), row(Some("b"), 4), row(None, 5)];
        let mut out = book.take(1, 10, rows);
        assert_eq!(names(&out), [vec![1, 3], vec![2], vec![4], vec![5]]);
        // A later claim queues behind.
        assert!(book.take(2, 20, vec![row(Some("a"), 6), row(Some("a"), 7)]).is_empty());
        // The first one got there, and nobody has tried the second.
        let mut first = out.remove(0);
        book.sent(first.pop_front().unwrap());
        let next = book.go_on(&"a".into(), first).unwrap();
        assert_eq!(names(std::slice::from_ref(&next)), [[3, 6, 7]]);
        assert!(sent(&mut book, next).is_none());
        assert_eq!(names(&book.take(3, 30, vec![row(Some("a"), 8)])), [[8]]);
    }

    #[test]
    fn a_run_is_bounded_by_rows_and_by_bytes() {
        let mut book = Book::new(OnError::Hold, 10);
        let rows = (0..RUN_ROWS as u64 + 10).map(|at| row(Some("a"), at)).collect();
        let first = only(book.take(1, 10, rows));
        assert_eq!(first.len(), RUN_ROWS);
        assert_eq!(sent(&mut book, first).unwrap().len(), 10);
        let large = |at| {
            let payload = hub_proto::Payload::of(&"x".repeat(RUN_BYTES / 3)).unwrap();
            let event = hub_proto::NewEvent::new("t".parse().unwrap(), payload);
            Row { event: Ok(event), ..row(Some("b"), at) }
        };
        let first = only(book.take(2, 10, (0..5).map(large).collect()));
        assert_eq!(first.len(), 2);
        assert_eq!(sent(&mut book, first).unwrap().len(), 2);
    }

    #[test]
    fn a_failure_holds_back_its_key_and_nothing_else() {
        let mut book = Book::new(OnError::Hold, 2);
        let rows = vec![row(Some("a"), 1), row(Some("a"), 2), row(Some("b"), 3)];
        let mut out = book.take(1, 10, rows);
        let mut failing = out.remove(0);
        let entry = failing.pop_front().unwrap();
        let (next, parked) = book.failed(entry, failing, Failure::Passing("no".into(), 70));
        assert!(next.is_none() && !parked && book.is_blocked());
        // What was claimed before the database knew of it.
        assert!(book.take(2, 20, vec![row(Some("a"), 4)]).is_empty());
        assert!(sent(&mut book, out.remove(0)).is_none());
        let retry = Outcome::Retry { after: 70, error: "no".into() };
        let behind = |name: &str| (name.to_owned(), Outcome::Behind);
        assert_eq!(
            told(&mut book),
            [("1".to_owned(), retry), behind("2"), ("3".to_owned(), Outcome::Sent), behind("4")]
        );
        assert_eq!(book.held(), 4, "the database does not know it yet");
        book.told();
        book.unblock();
        assert!(!book.is_blocked());
        // The next time it is enough.
        let again = Row { attempts: 1, waited: true, ..row(Some("a"), 1) };
        let entry = only(only(book.take(3, 30, vec![again])));
        let (next, parked) = book.failed(entry, Run::new(), Failure::Passing("no".into(), 70));
        assert!(next.is_none() && parked && book.released().is_empty());
        assert_eq!(told(&mut book), [("1".to_owned(), Outcome::Parked { error: "no".into() })]);
        let is_busy = |book: &Book| (0..SLOTS).any(|slot| book.is_busy(slot));
        assert_eq!((book.held(), is_busy(&book), book.held_until()), (1, true, 30), "nobody knows it yet");
        book.told();
        assert_eq!((book.held(), is_busy(&book), book.held_until()), (0, false, Millis::MAX));
    }

    #[test]
    fn skipping_lets_the_key_go_on_once_the_row_is_parked() {
        let mut book = Book::new(OnError::Skip, 2);
        let rows = vec![Row { waited: true, ..row(Some("a"), 1) }, row(Some("a"), 2)];
        let mut run = only(book.take(1, 10, rows));
        let entry = run.pop_front().unwrap();
        let (next, parked) = book.failed(entry, run, Failure::Final("never".into()));
        let next = next.unwrap();
        assert_eq!((next[0].row.place.at, next.len(), parked), (2, 1, true));
        assert!(book.released().is_empty());
        assert!(sent(&mut book, next).is_none());
        assert_eq!(book.released(), [Arc::from("a")], "others may be behind it since the first one waited");
        assert!(!book.is_blocked());
    }

    #[test]
    fn who_stops_gives_back_what_is_not_out() {
        let mut book = Book::new(OnError::Hold, 2);
        let mut out = book.take(1, 10, vec![row(Some("a"), 1), row(Some("b"), 3), row(Some("b"), 4)]);
        assert!(book.take(2, 10, vec![row(Some("a"), 2)]).is_empty());
        book.give_back();
        book.give_back_run(out.pop().unwrap());
        assert!(sent(&mut book, out.pop().unwrap()).is_none());
        let mut told = told(&mut book);
        told.sort_by(|a, b| a.0.cmp(&b.0));
        let outcomes: Vec<_> = told.into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Sent, Outcome::Returned, Outcome::Returned, Outcome::Returned]);
    }

    #[test]
    fn nothing_of_a_key_goes_out_before_the_database_knows_which_rows_went_back() {
        let mut book = Book::new(OnError::Hold, 2);
        let rows = vec![row(Some("a"), 1), row(Some("b"), 2), row(Some("b"), 3), row(None, 4)];
        let mut out = book.take(1, 10, rows);
        assert!(book.take(2, 10, vec![row(Some("a"), 5)]).is_empty());
        // The first row of one key is still out, nothing of the other.
        book.give_back();
        book.give_back_run(out.remove(1));
        assert!(book.is_blocked());
        let late = vec![row(Some("a"), 6), row(Some("b"), 7), row(Some("c"), 8)];
        assert_eq!(names(&book.take(3, 10, late)), [[8]]);
        assert!(sent(&mut book, out.remove(0)).is_none(), "a row behind it went back");
        let mut told = told(&mut book);
        told.retain(|(_, outcome)| *outcome == Outcome::Returned);
        let mut ids: Vec<_> = told.into_iter().map(|(id, _)| id).collect();
        ids.sort();
        assert_eq!(ids, ["2", "3", "5", "6", "7"]);
        book.told();
        book.unblock();
        assert!(!book.is_blocked());
        // A claim with a gap: what is before the gap goes out, what is behind it goes back.
        assert_eq!(names(&book.take(4, 20, vec![row(Some("a"), 5)])), [[5]]);
        book.give_back_rows(4, 20, vec![row(Some("a"), 7)]);
        assert!(book.is_blocked());
    }

    #[test]
    fn claims_that_run_out_are_known_until_their_last_row_is_told() {
        let mut book = Book::new(OnError::Hold, 3);
        let mut out = book.take(1, 10, vec![row(None, 1), row(None, 2)]);
        out.extend(book.take(2, 20, vec![row(None, 3)]));
        out.extend(book.take(3, 30, vec![row(None, 4)]));
        assert_eq!((book.held_until(), book.running_out(10), book.running_out(11)), (10, None, Some(1..=1)));
        assert_eq!(book.running_out(31), Some(1..=3));
        book.renewed(1..=2, 40);
        assert_eq!((book.held_until(), book.running_out(40)), (30, Some(3..=3)));
        assert!(sent(&mut book, out.pop().unwrap()).is_none());
        told(&mut book);
        assert_eq!(book.held_until(), 30, "the database does not know it yet");
        book.told();
        assert_eq!((book.held_until(), book.running_out(41)), (40, Some(1..=2)));
        out.into_iter().for_each(|run| assert!(sent(&mut book, run).is_none()));
        told(&mut book);
        book.told();
        assert_eq!((book.held_until(), book.running_out(Millis::MAX)), (Millis::MAX, None));
    }
}
