//! The index of a segment from its frames.

use crate::catalog::Topic;
use crate::format::entry::{Entry as Content, event, place_of};
use crate::index::{Entry, Flags, Item, SegmentIndex, id_hash};
use crate::losses::{Losses, SMALLEST_EVENT};
use crate::scan::{At, Damage, scan};
use crate::segment::{Segment, SegmentId};
use crate::shared::Shared;
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reads a segment again, as far as it counts, and says what is wrong with it.
pub fn index(shared: &Shared, segment: &Segment) -> io::Result<SegmentIndex> {
    index_upto(shared, segment, segment.len())
}

/// Reads a segment again, up to a place, and says what is wrong with it.
pub fn index_upto(shared: &Shared, segment: &Segment, end: u64) -> io::Result<SegmentIndex> {
    let (index, damage) = read(shared, segment, end)?;
    report(shared, segment, &index, &damage);
    Ok(index)
}

/// Reads a segment again, up to a place.
pub fn read(shared: &Shared, segment: &Segment, end: u64) -> io::Result<(SegmentIndex, Vec<Damage>)> {
    let mut index = SegmentIndex::default();
    let outcome = scan(&*segment.file, segment.seal, Some(end), 0, &mut |at| {
        let topic = |number| shared.catalog.numbered(number);
        if let Err(what) = add(&mut index, shared.seed, &at, topic) {
            segment.damaged.store(true, Relaxed);
            shared.health.found(format!("{}: {what}", shared.place(segment, at.offset)), 1);
        }
    })?;
    if !outcome.damage.is_empty() {
        segment.damaged.store(true, Relaxed);
    }
    Ok((index, outcome.damage))
}

/// Says what is wrong with a segment, and what it has cost. Other segments have to be known by now.
pub fn report(shared: &Shared, segment: &Segment, index: &SegmentIndex, damage: &[Damage]) {
    for Damage { bytes, what } in damage {
        // The index that there was knows best. If it is gone, the neighbours do.
        let mut lost = Losses::indexed(shared, segment, bytes);
        let mut cleaned = "";
        if lost.is_empty() {
            lost = between(shared, segment, index, bytes);
            if matches!(segment.id, SegmentId::Kept(_)) {
                cleaned = ", as far as they were not cleaned away";
            }
        }
        let cost = match lost.is_empty() {
            true => "no record is missing".to_string(),
            false => format!("missing: {lost}{cleaned}"),
        };
        let (place, len) = (shared.place(segment, bytes.start), bytes.end - bytes.start);
        shared.health.found(format!("{place}, {len} bytes: {what}; {cost}"), lost.count().max(1));
    }
}

/// What the records on both sides of a stretch leave out; for a topic that has none on one side, what the segments on
/// that side leave out.
fn between(shared: &Shared, segment: &Segment, index: &SegmentIndex, bytes: &Range<u64>) -> Losses {
    if bytes.end - bytes.start < SMALLEST_EVENT {
        return Losses::default();
    }
    around(shared, segment.id, |topic| {
        let entries = index.topics.get(&topic).map_or(&[][..], |topic| &topic.entries);
        let at = entries.partition_point(|entry| u64::from(entry.offset) < bytes.start);
        (entries[..at].last().map(|entry| entry.seq), entries.get(at).map(|entry| entry.seq))
    })
}

/// What no segment has of the seqs around a place in one of them. `here` says which seqs of a topic are before and
/// behind the place in that segment itself, if any are.
pub fn around(shared: &Shared, id: SegmentId, here: impl Fn(u32) -> (Option<u64>, Option<u64>)) -> Losses {
    let mut lost = Losses::default();
    let segments = shared.segments();
    let place_of = |id: SegmentId| segments.iter().position(|segment| segment.id == id);
    let place = place_of(id);
    for topic in shared.catalog.topics() {
        let state = topic.state.lock();
        let (before, after) = here(topic.number);
        let spans = || state.spans.iter().filter(|span| span.segment.id != id);
        let before = before.or_else(|| {
            let mut earlier = spans().filter(|span| place_of(span.segment.id) < place);
            earlier.next_back().map(|span| span.last)
        });
        let after = after.or_else(|| {
            let mut later = spans().filter(|span| place_of(span.segment.id) > place);
            later.next().map(|span| span.first)
        });
        let from = before.unwrap_or(0).max(state.meta.floor) + 1;
        let to = after.unwrap_or(state.meta.last + 1);
        if from < to {
            lost.add(&topic.name, from, to - 1);
        }
    }
    lost
}

/// Adds what a frame says to an index.
pub fn add(
    index: &mut SegmentIndex,
    seed: u64,
    at: &At<'_>,
    topic: impl Fn(u32) -> Option<Arc<Topic>>,
) -> Result<(), String> {
    let offset = u32::try_from(at.offset).map_err(|_| "beyond 4 GiB".to_string())?;
    match &at.entry {
        Content::Event(number, committed, json) => {
            let topic =
                topic(*number).ok_or_else(|| format!("an event of topic {number}, which is unknown"))?;
            let event = event(Bytes::copy_from_slice(json), *committed, &topic.name)
                .map_err(|error| error.to_string())?;
            let entry = place_of(&event, offset);
            let key = event.key().filter(|_| entry.flags.has(Flags::KEYED));
            let hash = id_hash(seed, *number, event.id());
            insert(index, Item { topic: *number, entry, id: event.id(), hash, key, committed: *committed })
        }
        Content::Past(number, past) => {
            let entry = Entry { seq: past.seq, offset, len: at.len as u32, flags: Flags::PAST };
            let hash = id_hash(seed, *number, past.id);
            let (id, committed) = (past.id, past.committed);
            insert(index, Item { topic: *number, entry, id, hash, key: None, committed })
        }
        _ => Ok(()),
    }
}

fn insert(index: &mut SegmentIndex, item: Item<'_>) -> Result<(), String> {
    let last = index.topics.get(&item.topic).and_then(|topic| topic.entries.last());
    if last.is_some_and(|last| last.seq >= item.entry.seq) {
        return Err(format!("seq {} of topic {} out of order", item.entry.seq, item.topic));
    }
    index.add(item);
    Ok(())
}
