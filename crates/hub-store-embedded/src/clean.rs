//! What a topic's policy does not keep.
//!
//! Nothing is moved here: what goes is written down in one frame, and readers pass it over from then on. The room it
//! takes comes back when its segment is rewritten.

use crate::catalog::{Span, Topic};
use crate::disk::Wait;
use crate::format::entry::Cleaned;
use crate::index::{Entry, Flags};
use crate::lookup::{self, Answer, Keys};
use crate::segment::{Stored, json_len};
use crate::shared::Shared;
use hub_core::store::CleanPolicy;
use roaring::RoaringTreemap;
use std::sync::atomic::Ordering::Relaxed;

/// Entries looked at together.
const CHUNK: usize = 1024;

/// What would go. `None` if nothing would.
pub fn plan(shared: &Shared, topic: &Topic, policy: &CleanPolicy) -> Answer<Option<Cleaned>> {
    let (before, last, bytes) = {
        let mut state = topic.state.lock();
        state.meta.ids_since = state.meta.ids_since.max(policy.ids_since);
        (state.meta.floor, state.meta.last, state.meta.bytes)
    };
    let reach = policy.keep_above.unwrap_or(last).min(last);
    let mut floor = before;
    if let Some(time) = policy.committed_before {
        floor = floor.max(lookup::seq_before(shared, topic, time, Wait::Yes)?.min(reach));
    }
    let mut gone = Gone::default();
    if policy.compact {
        let newest = newest(shared, topic, policy, reach)?;
        walk(shared, topic, before, reach, |entry| {
            let overtaken = entry.flags.has(Flags::KEYED) && !newest.contains(entry.seq);
            if entry.seq <= floor || overtaken {
                gone.add(entry);
            }
            true
        })?;
    } else {
        walk(shared, topic, before, floor, |entry| {
            gone.add(entry);
            true
        })?;
    }
    // Size comes last: what is overtaken makes room for what is not.
    let left = bytes.saturating_sub(gone.bytes);
    let mut excess = policy.max_bytes.map_or(0, |max| left.saturating_sub(max));
    if excess > 0 {
        walk(shared, topic, floor, reach, |entry| {
            if excess > 0 && !gone.seqs.contains(entry.seq) {
                excess = excess.saturating_sub(json_len(entry));
                gone.add(entry);
            }
            if excess > 0 || gone.seqs.contains(entry.seq) {
                floor = entry.seq;
            }
            excess > 0
        })?;
    }
    if gone.events == 0 {
        return Ok(None);
    }
    // The floor goes up to the first record that stays.
    let mut first = None;
    walk(shared, topic, floor, last, |entry| {
        first = (!gone.seqs.contains(entry.seq)).then_some(entry.seq);
        first.is_none()
    })?;
    floor = first.map_or(last, |first| first - 1).max(floor);
    gone.seqs.remove_range(..=floor);
    let Gone { seqs, events, bytes } = gone;
    Ok(Some(Cleaned { floor, ids_since: policy.ids_since, events, bytes, dead: seqs }))
}

#[derive(Default)]
struct Gone {
    seqs: RoaringTreemap,
    events: u64,
    bytes: u64,
}

impl Gone {
    fn add(&mut self, entry: &Entry) {
        if self.seqs.insert(entry.seq) {
            self.events += 1;
            self.bytes += json_len(entry);
        }
    }
}

/// The newest record of every key, but for tombstones whose grace is over; those stay while the log is damaged.
fn newest(shared: &Shared, topic: &Topic, policy: &CleanPolicy, reach: u64) -> Answer<RoaringTreemap> {
    // A damaged or missing segment may be put back from a backup: without its tombstone a deleted key would come back.
    let is_whole = shared.segments().iter().all(|segment| !segment.damaged.load(Relaxed));
    loop {
        let mut newest = RoaringTreemap::new();
        let mut keys = Keys::new(shared, topic, None, Wait::Yes)?;
        while let Some((segment, entry)) = keys.next()? {
            let mut over = false;
            if entry.flags.has(Flags::TOMBSTONE) && entry.seq <= reach && is_whole {
                let stored = segment.frame(entry.offset, &topic.name, Wait::Yes);
                let stored = stored.map_err(|error| lookup::failed(shared, &error))?;
                over = matches!(stored, Some(Stored::Event(event)) if event.committed() < policy.tombstones_before);
            }
            if !over {
                newest.insert(entry.seq);
            }
        }
        // A record that was missed while it moved would count as overtaken, and go.
        if keys.is_current() {
            return Ok(newest);
        }
    }
}

/// Looks at every record that readers see in `after + 1..=upto`, until it is told to stop.
fn walk(
    shared: &Shared,
    topic: &Topic,
    after: u64,
    upto: u64,
    mut look: impl FnMut(&Entry) -> bool,
) -> Answer<()> {
    let mut at = after;
    while at < upto {
        let (from, moves, span) = lookup::span_after(topic, at);
        let Some(Span { segment, last, .. }) = span else { break };
        let entries =
            shared.ask(&segment, Wait::Yes, || segment.entries(topic.number, from + 1, CHUNK, Wait::Yes));
        let entries = entries.map_err(|error| lookup::failed(shared, &error))?;
        let next = entries.last().map_or(last, |entry| entry.seq);
        let Some(entries) = lookup::served(topic, moves, entries) else { continue };
        for entry in entries.iter().take_while(|entry| entry.seq <= upto) {
            if !look(entry) {
                return Ok(());
            }
        }
        at = next;
    }
    Ok(())
}
