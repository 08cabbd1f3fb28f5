//! The index of a segment from its frames.

use crate::catalog::{Span, Topic};
use crate::format::entry::{Entry as Content, event, place_of};
use crate::index::{Entry, Flags, Item, SegmentIndex, id_hash};
use crate::losses::{Losses, SMALLEST_EVENT};
use crate::scan::{At, Damage, scan};
use crate::segment::{Segment, SegmentId};
use crate::shared::Shared;
use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
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
    let mut damage: Vec<&Damage> = damage.iter().collect();
    damage.sort_by_key(|damage| damage.bytes.start);
    let stretches: Vec<Range<u64>> = damage.iter().map(|damage| damage.bytes.clone()).collect();
    // The index that there was knows best. If it is gone, the neighbours do.
    let indexed = Losses::indexed(shared, segment, &stretches);
    let mut guessed = None;
    for (at, (Damage { bytes, what }, mut lost)) in damage.into_iter().zip(indexed).enumerate() {
        let mut cleaned = "";
        if lost.is_empty() {
            let guessed = guessed.get_or_insert_with(|| between(shared, segment, index, &stretches));
            lost = std::mem::take(&mut guessed[at]);
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

/// What the records on both sides of each stretch leave out; for a topic that has none on one side, what the segments
/// on that side leave out.
fn between(
    shared: &Shared,
    segment: &Segment,
    index: &SegmentIndex,
    stretches: &[Range<u64>],
) -> Vec<Losses> {
    let mut losses = vec![Losses::default(); stretches.len()];
    around(shared, segment.id, |topic, (before, after)| {
        let entries = index.topics.get(&topic.number).map_or(&[][..], |topic| &topic.entries);
        let (floor, last) = {
            let state = topic.state.lock();
            (state.meta.floor, state.meta.last)
        };
        for at in 0..=entries.len() {
            let (left, right) = (at.checked_sub(1).map(|at| &entries[at]), entries.get(at));
            let from = left.map(|entry| entry.seq).or(before).unwrap_or(0).max(floor) + 1;
            let to = right.map(|entry| entry.seq).or(after).unwrap_or(last + 1);
            if from >= to {
                continue;
            }
            let low = left.map_or(0, |left| u64::from(left.offset) + 1);
            let high = right.map_or(u64::MAX, |right| u64::from(right.offset));
            let first = stretches.partition_point(|bytes| bytes.start < low);
            for (bytes, lost) in stretches[first..].iter().zip(&mut losses[first..]) {
                if bytes.start > high {
                    break;
                }
                if bytes.end - bytes.start >= SMALLEST_EVENT {
                    lost.add(&topic.name, from, to - 1);
                }
            }
        }
    });
    losses
}

/// What no segment has of the seqs around one that is gone.
pub fn missing(shared: &Shared, id: SegmentId) -> Losses {
    let mut lost = Losses::default();
    around(shared, id, |topic, (before, after)| {
        let state = topic.state.lock();
        let from = before.unwrap_or(0).max(state.meta.floor) + 1;
        let to = after.unwrap_or(state.meta.last + 1);
        if from < to {
            lost.add(&topic.name, from, to - 1);
        }
    });
    lost
}

/// For each topic: its last seq in the segments before one, and its first in those behind it.
fn around(shared: &Shared, id: SegmentId, mut look: impl FnMut(&Topic, (Option<u64>, Option<u64>))) {
    let segments = shared.segments();
    let places: HashMap<SegmentId, usize, RandomState> =
        segments.iter().enumerate().map(|(place, segment)| (segment.id, place)).collect();
    let Some(&here) = places.get(&id) else { return };
    for topic in shared.catalog.topics() {
        let sides = {
            let state = topic.state.lock();
            let place = |span: &Span| places.get(&span.segment.id).copied();
            let before = state.spans.iter().rev().find(|span| place(span).is_some_and(|place| place < here));
            let after = state.spans.iter().find(|span| place(span).is_some_and(|place| place > here));
            (before.map(|span| span.last), after.map(|span| span.first))
        };
        look(&topic, sides);
    }
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
