//! One topic's log in memory: the records, and indexes by id and by key.

use super::DURABILITY;
use crate::Millis;
use crate::store::{Appended, Bounds, CleanPolicy, Cleaned, ReadLimit};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_proto::{Draft, Event, EventId, Key};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Log {
    /// Ascending by seq; cleaning leaves holes.
    events: VecDeque<Arc<Event>>,
    ids: HashMap<EventId, u64, RandomState>,
    /// Ids of records that were cleaned away.
    past: HashMap<EventId, Past, RandomState>,
    /// The newest record's seq per key.
    keys: BTreeMap<Key, u64>,
    last: u64,
    last_committed: Millis,
    bytes: u64,
}

/// What stays of a cleaned record: enough to answer a resend.
struct Past {
    seq: u64,
    ts: Millis,
    committed: Millis,
    content: EventId,
}

impl Log {
    pub fn append(&mut self, draft: Draft, now: Millis) -> Appended {
        if let Some(known) = self.known(&draft) {
            return known;
        }
        self.last += 1;
        self.last_committed = self.last_committed.max(now);
        let event = Arc::new(draft.commit(self.last, self.last_committed));
        self.ids.insert(event.id(), event.seq());
        if let Some(key) = ordered_key(&event) {
            match self.keys.get_mut(key) {
                Some(newest) => *newest = event.seq(),
                None => drop(self.keys.insert(key.clone(), event.seq())),
            }
        }
        self.bytes += event.json().len() as u64;
        self.events.push_back(event.clone());
        Appended::New { event, durability: DURABILITY }
    }

    fn known(&self, draft: &Draft) -> Option<Appended> {
        let (seq, ts, same) = match self.ids.get(&draft.id()).and_then(|&seq| self.get(seq)) {
            Some(event) => {
                let key = draft.key().map(|key| &**key);
                (event.seq(), event.ts(), event.same_content(key, draft.payload()))
            }
            None => {
                let past = self.past.get(&draft.id())?;
                (past.seq, past.ts, past.content == draft.content())
            }
        };
        Some(Appended::Known { seq, ts, same, durability: DURABILITY })
    }

    pub fn bounds(&self) -> Bounds {
        Bounds {
            first: self.events.front().map_or(self.last + 1, |event| event.seq()),
            last: self.last,
            events: self.events.len() as u64,
            bytes: self.bytes,
            last_committed: self.last_committed,
        }
    }

    pub fn read(&self, after: u64, limit: ReadLimit) -> Vec<Arc<Event>> {
        let mut fits = limit.gate();
        let events = self.events.range(self.index_after(after)..);
        events.take_while(|event| fits(event.json().len())).cloned().collect()
    }

    pub fn seq_of(&self, id: EventId) -> Option<u64> {
        self.ids.get(&id).copied().or_else(|| self.past.get(&id).map(|past| past.seq))
    }

    pub fn seq_before(&self, time: Millis) -> u64 {
        let at = self.events.partition_point(|event| event.committed() < time);
        // Between two kept records the boundary may lie anywhere in the hole; next to the kept one nothing is missed.
        self.events.get(at).map_or(self.last, |event| event.seq() - 1)
    }

    pub fn newest(&self, key: &str) -> Option<Arc<Event>> {
        self.keys.get(key).and_then(|&seq| self.get(seq)).cloned()
    }

    pub fn newest_page(&self, after: Option<&str>, limit: ReadLimit) -> Vec<Arc<Event>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let mut fits = limit.gate();
        let newest = self.keys.range::<str, _>((from, Unbounded)).filter_map(|(_, &seq)| self.get(seq));
        let living = newest.filter(|event| !event.is_tombstone());
        living.take_while(|event| fits(event.json().len())).cloned().collect()
    }

    pub fn clean(&mut self, policy: CleanPolicy) -> Cleaned {
        let CleanPolicy { committed_before, max_bytes, compact, tombstones_before, keep_above, ids_since } =
            policy;
        let in_reach = |event: &Event| keep_above.is_none_or(|seq| event.seq() <= seq);
        let before = self.events.len();
        self.remove(ids_since, |event, newest| {
            let too_old = committed_before.is_some_and(|time| event.committed() < time);
            let overtaken = newest.is_some_and(|newest| newest > event.seq());
            let dead = newest.is_some() && event.is_tombstone() && event.committed() < tombstones_before;
            in_reach(event) && (too_old || (compact && (overtaken || dead)))
        });
        // Size comes last: what is overtaken makes room for what is not.
        let mut excess = max_bytes.map_or(0, |max| self.bytes.saturating_sub(max));
        if excess > 0 {
            self.remove(ids_since, |event, _| {
                let over = excess > 0 && in_reach(event);
                excess = excess.saturating_sub(event.json().len() as u64);
                over
            });
        }
        self.past.retain(|_, past| past.committed >= ids_since);
        Cleaned { removed: (before - self.events.len()) as u64, bounds: self.bounds(), is_partial: false }
    }

    /// Removes the records that `goes` picks, oldest first; it is told the newest seq of the record's key.
    fn remove(&mut self, ids_since: Millis, mut goes: impl FnMut(&Event, Option<u64>) -> bool) {
        let Self { events, ids, past, keys, bytes, .. } = self;
        events.retain(|event| {
            let newest = ordered_key(event).and_then(|key| keys.get(key)).copied();
            if !goes(event, newest) {
                return true;
            }
            *bytes -= event.json().len() as u64;
            ids.remove(&event.id());
            if event.committed() >= ids_since {
                let (seq, ts, committed) = (event.seq(), event.ts(), event.committed());
                past.insert(event.id(), Past { seq, ts, committed, content: event.content() });
            }
            if newest == Some(event.seq())
                && let Some(key) = event.key()
            {
                keys.remove(key);
            }
            false
        });
    }

    fn get(&self, seq: u64) -> Option<&Arc<Event>> {
        self.events.get(self.index_after(seq.checked_sub(1)?)).filter(|event| event.seq() == seq)
    }

    /// The index of the first record above `after`: in a log without holes, their distance.
    fn index_after(&self, after: u64) -> usize {
        let Some(first) = self.events.front().map(|event| event.seq()) else { return 0 };
        let Some(distance) = (after + 1).checked_sub(first).and_then(|d| usize::try_from(d).ok()) else {
            return 0;
        };
        match self.events.get(distance) {
            Some(event) if event.seq() == after + 1 => distance,
            _ => self.events.partition_point(|event| event.seq() <= after),
        }
    }
}

/// The key under which a record counts for its topic's state; one replayed for a single group does not.
fn ordered_key(event: &Event) -> Option<&Key> {
    event.key().filter(|_| event.audience().is_none())
}
