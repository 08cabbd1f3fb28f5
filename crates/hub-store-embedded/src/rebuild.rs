//! The index of a segment from its frames.

use crate::catalog::Topic;
use crate::format::entry::{Entry as Content, event, place_of};
use crate::index::{Entry, Flags, Item, SegmentIndex, id_hash};
use crate::scan::{At, scan};
use crate::segment::Segment;
use crate::shared::Shared;
use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// Reads a segment again, as far as it counts.
pub fn index(shared: &Shared, segment: &Segment) -> io::Result<SegmentIndex> {
    index_upto(shared, segment, segment.len())
}

/// Reads a segment again, up to a place.
pub fn index_upto(shared: &Shared, segment: &Segment, end: u64) -> io::Result<SegmentIndex> {
    let mut index = SegmentIndex::default();
    let outcome = scan(&*segment.file, segment.seal, Some(end), 0, &mut |at| {
        let topic = |number| shared.catalog.numbered(number);
        if let Err(what) = add(&mut index, shared.seed, &at, topic) {
            shared.health.found(format!("{}: {what}", shared.place(segment, at.offset)), 1);
        }
    })?;
    for damage in outcome.damage {
        segment.damaged.store(true, std::sync::atomic::Ordering::Relaxed);
        shared.health.found(format!("{}: {}", shared.place(segment, damage.bytes.start), damage.what), 1);
    }
    Ok(index)
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
