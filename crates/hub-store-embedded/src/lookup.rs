//! Finding records: by place, by id, by time, by key.
//!
//! Every function takes a [`Wait`]. With [`Wait::No`] they answer `WouldBlock` when a byte they need is not in memory;
//! the caller then asks again on a thread that may wait.

use crate::catalog::{Span, Topic};
use crate::disk::Wait;
use crate::format::entry::Past;
use crate::index::{Entry, Flags, id_hash};
use crate::losses::Losses;
use crate::segment::{Segment, Stored, json_len};
use crate::shared::Shared;
use hub_core::Millis;
use hub_core::store::{ReadLimit, StoreError, StoreResult};
use hub_proto::{Event, EventId, Key};
use std::io;
use std::sync::Arc;

/// Entries looked at together.
const CHUNK: usize = 1024;
/// Keys looked at together.
const KEYS: usize = 256;
/// Entries of removed records that a read passes over on a thread that may not wait.
const MAX_PASSED: usize = 16 << 10;

/// A failed lookup.
#[derive(Debug)]
pub enum Failed {
    /// The bytes are not in memory, and waiting was not allowed.
    WouldBlock,
    /// What the port hears.
    Store(StoreError),
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::WouldBlock => Self::Unavailable("a read that may not wait had to".into()),
            Failed::Store(error) => error,
        }
    }
}

/// The answer of a lookup.
pub type Answer<T> = Result<T, Failed>;

/// An error of the disk.
pub fn failed(shared: &Shared, error: &io::Error) -> Failed {
    match error.kind() {
        io::ErrorKind::WouldBlock => Failed::WouldBlock,
        _ => Failed::Store(shared.refused("reading", error)),
    }
}

/// What an id belongs to.
pub enum Found {
    /// A record, which may be cleaned away but is still there.
    Event(Event),
    /// What is left of one.
    Past(Past),
}

/// Looks an id up.
pub fn find_id(shared: &Shared, topic: &Topic, id: EventId, hash: u64, wait: Wait) -> Answer<Option<Found>> {
    loop {
        // Before the segments are listed: records move to a segment that is in the list already.
        let moves = topic.state.lock().moves;
        match find_listed_id(shared, topic, id, hash, wait) {
            Ok(None) | Err(Failed::Store(StoreError::Damaged(_))) if has_moved(topic, moves) => {}
            answer => return answer,
        }
    }
}

/// Looks an id up in the segments that there are now.
fn find_listed_id(
    shared: &Shared,
    topic: &Topic,
    id: EventId,
    hash: u64,
    wait: Wait,
) -> Answer<Option<Found>> {
    let segments = shared.segments();
    for segment in segments.last().into_iter().chain(segments.sealed_with(id)) {
        let offsets = shared.ask(segment, wait, || segment.offsets(id, hash, wait));
        for offset in offsets.map_err(|error| failed(shared, &error))? {
            let stored = segment.frame(offset, &topic.name, wait).map_err(|error| failed(shared, &error))?;
            match stored {
                Some(Stored::Event(event)) if event.id() == id => return Ok(Some(Found::Event(event))),
                Some(Stored::Past(past)) if past.id == id => return Ok(Some(Found::Past(past))),
                Some(_) => {}
                None => {
                    let place = shared.place(segment, u64::from(offset));
                    return Err(Failed::Store(StoreError::Damaged(format!(
                        "the record that may have the id {id} on {} cannot be read: {place}",
                        topic.name
                    ))));
                }
            }
        }
    }
    Ok(None)
}

/// The seq of an id, cleaned away or not.
pub fn seq_of(shared: &Shared, topic: &Topic, id: EventId, wait: Wait) -> Answer<Option<u64>> {
    let hash = id_hash(shared.seed, topic.number, id);
    Ok(find_id(shared, topic, id, hash, wait)?.map(|found| match found {
        Found::Event(event) => event.seq(),
        Found::Past(past) => past.seq,
    }))
}

/// The first span with something above `after`, and the state of places at that time.
pub fn span_after(topic: &Topic, after: u64) -> (u64, u64, Option<Span>) {
    let state = topic.state.lock();
    let after = after.max(state.meta.floor);
    let at = state.spans.partition_point(|span| span.last <= after);
    (after, state.moves, state.spans.get(at).cloned())
}

/// Those of some entries that a reader may see; `None` if records have changed places meanwhile.
pub fn served(topic: &Topic, moves: u64, mut entries: Vec<Entry>) -> Option<Vec<Entry>> {
    let state = topic.state.lock();
    entries.retain(|entry| state.serves(entry));
    (state.moves == moves).then_some(entries)
}

/// Whether records have changed places since. A record that could not be read where it was is not damaged then: after an error of
/// the disk the old segment is cut.
fn has_moved(topic: &Topic, moves: u64) -> bool {
    topic.state.lock().moves != moves
}

/// Events above `after`.
pub fn read(
    shared: &Shared,
    topic: &Topic,
    after: u64,
    limit: ReadLimit,
    wait: Wait,
) -> Answer<Vec<Arc<Event>>> {
    let (mut fits, mut at, mut found, mut passed) = (limit.gate(), after, Vec::new(), 0);
    let more = |found: &Vec<_>, error: io::Error| match error.kind() {
        // What is there is enough for now.
        io::ErrorKind::WouldBlock if !found.is_empty() => None,
        _ => Some(failed(shared, &error)),
    };
    while found.len() < limit.events {
        let (from, moves, span) = span_after(topic, at);
        let Some(Span { segment, last, .. }) = span else { break };
        let want = (limit.events - found.len()).min(CHUNK);
        let entries = match shared.ask(&segment, wait, || segment.entries(topic.number, from + 1, want, wait))
        {
            Ok(entries) => entries,
            Err(error) => match more(&found, error) {
                Some(failed) => return Err(failed),
                None => return Ok(found),
            },
        };
        let (upto, all) = (entries.last().map_or(last, |entry| entry.seq), entries.len());
        let Some(entries) = served(topic, moves, entries) else { continue };
        passed += all - entries.len();
        let count = entries.iter().take_while(|entry| fits(json_len(entry) as usize)).count();
        let events = match segment.events(&entries[..count], &topic.name, wait) {
            Ok(events) => events,
            Err(error) => match more(&found, error) {
                Some(failed) => return Err(failed),
                None => return Ok(found),
            },
        };
        let has_moved = events.iter().any(Option::is_none) && has_moved(topic, moves);
        let mut lost = Vec::new();
        for (entry, event) in entries.iter().zip(events).filter(|_| !has_moved) {
            match event {
                Some(event) => found.push(event),
                None => lost.push(*entry),
            }
        }
        if has_moved || !lost.is_empty() {
            // What is not there takes no room: an empty answer would be the end of the log.
            fits = limit.gate();
            for event in &found {
                let _ = fits(Event::json(event).len());
            }
        }
        if has_moved {
            continue;
        }
        if let Some(behind) = entries[..count].last().filter(|_| !lost.is_empty()) {
            lose(shared, topic, &segment, &lost);
            at = behind.seq;
            continue;
        }
        if count < entries.len() {
            break;
        }
        at = upto;
        if wait == Wait::No && passed > MAX_PASSED {
            if found.is_empty() {
                return Err(Failed::WouldBlock);
            }
            break;
        }
    }
    Ok(found)
}

/// Records are not what was written: they are holes from now on, and everybody hears of it.
fn lose(shared: &Shared, topic: &Topic, segment: &Segment, entries: &[Entry]) {
    let Some(first) = entries.first() else { return };
    segment.damaged.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut losses = Losses::default();
    {
        let mut state = topic.state.lock();
        for entry in entries.iter().filter(|entry| state.lost.insert(entry.seq)) {
            losses.add(&topic.name, entry.seq, entry.seq);
        }
    }
    if !losses.is_empty() {
        let place = shared.place(segment, u64::from(first.offset));
        shared.health.found(format!("{place}: {losses} cannot be read"), losses.count());
    }
}

/// The highest seq that was committed before a time.
pub fn seq_before(shared: &Shared, topic: &Topic, time: Millis, wait: Wait) -> Answer<u64> {
    loop {
        let (last, moves, spans) = {
            let state = topic.state.lock();
            (state.meta.last, state.moves, state.spans.clone())
        };
        let mut after = 0;
        for span in &spans {
            match span.segment.committed(topic.number) {
                Some((_, newest)) if newest >= time => {
                    after = search_time(shared, topic, span, time, wait)?;
                    break;
                }
                _ => after = span.last,
            }
        }
        // A segment that was cut meanwhile has no commit times of the records that it had.
        if has_moved(topic, moves) {
            continue;
        }
        let one = ReadLimit { events: 1, bytes: 1 };
        return Ok(read(shared, topic, after, one, wait)?.first().map_or(last, |event| event.seq() - 1));
    }
}

/// The highest seq of a span that was committed before a time.
fn search_time(shared: &Shared, topic: &Topic, span: &Span, time: Millis, wait: Wait) -> Answer<u64> {
    let (mut low, mut high) = (span.first - 1, span.last);
    // Everything up to `low` was committed before; what follows `high` was not.
    while low < high {
        let middle = low + (high - low) / 2;
        let segment = &span.segment;
        let entries = shared.ask(segment, wait, || segment.entries(topic.number, middle + 1, 1, wait));
        let entries = entries.map_err(|error| failed(shared, &error))?;
        let Some(entry) = entries.first().filter(|entry| entry.seq <= high) else {
            high = middle;
            continue;
        };
        let stored =
            segment.frame(entry.offset, &topic.name, wait).map_err(|error| failed(shared, &error))?;
        let committed = match &stored {
            Some(Stored::Event(event)) => event.committed(),
            Some(Stored::Past(past)) => past.committed,
            // Its neighbours will tell.
            None => time,
        };
        if committed < time { low = entry.seq } else { high = middle }
    }
    Ok(low)
}

/// What became of a record that the index points to.
enum Fetched {
    /// It is there.
    Event(Arc<Event>),
    /// It is damaged.
    Lost,
    /// It is somewhere else by now.
    Moved,
}

/// Reads one record that the index points to, as of `moves`.
fn one(
    shared: &Shared,
    topic: &Topic,
    segment: &Segment,
    entry: Entry,
    moves: u64,
    wait: Wait,
) -> Answer<Fetched> {
    let events = segment.events(&[entry], &topic.name, wait).map_err(|error| failed(shared, &error))?;
    Ok(match events.into_iter().next().flatten() {
        Some(event) => Fetched::Event(event),
        None if has_moved(topic, moves) => Fetched::Moved,
        None => {
            lose(shared, topic, segment, &[entry]);
            Fetched::Lost
        }
    })
}

/// The newest record of a key.
pub fn newest(shared: &Shared, topic: &Topic, key: &str, wait: Wait) -> Answer<Option<Arc<Event>>> {
    'again: loop {
        let (moves, spans) = {
            let state = topic.state.lock();
            (state.moves, state.spans.clone())
        };
        for Span { segment, .. } in spans.iter().rev() {
            let entry = shared.ask(segment, wait, || segment.newest(topic.number, key, wait));
            if let Some(entry) = entry.map_err(|error| failed(shared, &error))? {
                let Some(entries) = served(topic, moves, vec![entry]) else { continue 'again };
                if let Some(&entry) = entries.first() {
                    match one(shared, topic, segment, entry, moves, wait)? {
                        Fetched::Event(event) => return Ok(Some(event)),
                        Fetched::Moved => continue 'again,
                        Fetched::Lost => {}
                    }
                }
                if topic.state.lock().is_lost(&entry) {
                    // Not an older one, and not none: nobody knows what this key is now.
                    let place = shared.place(segment, u64::from(entry.offset));
                    let what = format!("seq {} of {} cannot be read: {place}", entry.seq, topic.name);
                    return Err(Failed::Store(StoreError::Damaged(what)));
                }
                // Gone: then everything older of this key is, too.
                return Ok(None);
            }
        }
        // After an error of the disk records move to another segment: this one may have been in neither.
        if !has_moved(topic, moves) {
            return Ok(None);
        }
    }
}

/// The keys of one span, read ahead.
struct KeyRun {
    segment: Arc<Segment>,
    ahead: std::vec::IntoIter<(Key, Entry)>,
    head: Option<(Key, Entry)>,
    last: Option<Key>,
    ended: bool,
}

impl KeyRun {
    fn advance(&mut self, shared: &Shared, topic: &Topic, wait: Wait) -> Answer<()> {
        self.head = self.ahead.next();
        if self.head.is_none() && !self.ended {
            let segment = &self.segment;
            let keys =
                shared.ask(segment, wait, || segment.keys(topic.number, self.last.as_deref(), KEYS, wait));
            let keys = keys.map_err(|error| failed(shared, &error))?;
            self.ended = keys.len() < KEYS;
            self.last = keys.last().map(|(key, _)| key.clone());
            self.ahead = keys.into_iter();
            self.head = self.ahead.next();
        }
        Ok(())
    }
}

/// The newest entry of every key above `after`, in byte order of the keys, tombstones and what is gone included.
pub struct Keys<'a> {
    shared: &'a Shared,
    topic: &'a Topic,
    wait: Wait,
    runs: Vec<KeyRun>,
    moves: u64,
}

impl<'a> Keys<'a> {
    /// All keys above `after`.
    pub fn new(shared: &'a Shared, topic: &'a Topic, after: Option<&str>, wait: Wait) -> Answer<Self> {
        let (moves, spans) = {
            let state = topic.state.lock();
            (state.moves, state.spans.clone())
        };
        let run = |span: Span| KeyRun {
            segment: span.segment,
            ahead: Vec::new().into_iter(),
            head: None,
            last: after.map(Key::from),
            ended: false,
        };
        let mut runs: Vec<KeyRun> = spans.into_iter().map(run).collect();
        runs.iter_mut().try_for_each(|run| run.advance(shared, topic, wait))?;
        Ok(Self { shared, topic, wait, runs, moves })
    }

    /// Whether no record has changed places since: no key was missed.
    pub fn is_current(&self) -> bool {
        !has_moved(self.topic, self.moves)
    }

    /// The next key's newest entry.
    pub fn next(&mut self) -> Answer<Option<(Arc<Segment>, Entry)>> {
        let least = self.runs.iter().filter_map(|run| run.head.as_ref()).map(|(key, _)| key).min().cloned();
        let Some(least) = least else { return Ok(None) };
        let mut newest = None;
        for run in &mut self.runs {
            // Later spans have higher seqs.
            if let Some((key, entry)) = &run.head
                && *key == least
            {
                newest = Some((run.segment.clone(), *entry));
                run.advance(self.shared, self.topic, self.wait)?;
            }
        }
        Ok(newest)
    }
}

/// A page of the newest records of all keys, tombstones left out.
pub fn newest_page(
    shared: &Shared,
    topic: &Topic,
    after: Option<&str>,
    limit: ReadLimit,
    wait: Wait,
) -> Answer<Vec<Arc<Event>>> {
    'again: loop {
        let mut keys = Keys::new(shared, topic, after, wait)?;
        let (mut fits, mut page) = (limit.gate(), Vec::new());
        while let Some((segment, entry)) = keys.next()? {
            let Some(entries) = served(topic, keys.moves, vec![entry]) else { continue 'again };
            let Some(&entry) = entries.first() else { continue };
            if entry.flags.has(Flags::TOMBSTONE) {
                continue;
            }
            // One that is damaged takes no room in the page: an empty page is the last one.
            let event = match one(shared, topic, &segment, entry, keys.moves, wait)? {
                Fetched::Event(event) => event,
                Fetched::Moved => continue 'again,
                Fetched::Lost => continue,
            };
            if !fits(event.json().len()) {
                break;
            }
            page.push(event);
        }
        if keys.is_current() {
            return Ok(page);
        }
    }
}

/// For the writer, which may wait.
impl From<Failed> for io::Error {
    fn from(failed: Failed) -> Self {
        Self::other(StoreError::from(failed).to_string())
    }
}

/// The port's answer.
pub fn told<T>(answer: Answer<T>) -> StoreResult<T> {
    answer.map_err(StoreError::from)
}
