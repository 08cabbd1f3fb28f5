//! Segments that are mostly gone are written anew, sorted by topic, without what is gone.
//!
//! What is left of a record that is gone is enough to answer a resend, for as long as its id has to be remembered.

use crate::catalog::{Span, Topic};
use crate::disk::DiskFile;
use crate::disk::Wait;
use crate::format::entry::{Mark, Past};
use crate::format::frame::Seal;
use crate::format::header::{self, Header};
use crate::index::{Entry, Flags, Item, SegmentIndex, id_hash};
use crate::keeper::seal;
use crate::segment::{Index, Pasts, Segment, SegmentId, Stored};
use crate::shared::Shared;
use crate::writer::random;
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Entries looked at together.
const CHUNK: usize = 1024;
/// Bytes written together.
const BUFFER: usize = 1 << 20;
/// About what is left on disk of a record that is gone.
const PAST_BYTES: u64 = 80;
/// So many small neighbours become one.
const SMALL_RUN: usize = 8;

/// What a rewrite made.
pub struct Written {
    /// The new segment; none if nothing was left.
    pub segment: Option<Arc<Segment>>,
    /// By topic: what is in no segment any more.
    pub dropped: BTreeMap<u32, RoaringTreemap>,
}

/// How much of a segment is left, and how large it is.
struct Share {
    live: u64,
    all: u64,
    bytes: u64,
}

impl Share {
    fn of(shared: &Shared, segment: &Segment) -> Self {
        let mut share = Self { live: 0, all: 0, bytes: segment.len() };
        let parts: Vec<(u32, u64, u64, u64)> = match &*segment.index.read() {
            Index::Open(_) => return Self { live: 1, all: 1, ..share },
            Index::Sealed(sidecar) => {
                let part = |part: &crate::sidecar::TopicPart| {
                    (part.number, part.first_seq, part.last_seq, u64::from(part.count))
                };
                sidecar.topics().iter().map(part).collect()
            }
        };
        for (number, first, last, count) in parts {
            let Some(topic) = shared.catalog.numbered(number) else { continue };
            let state = topic.state.lock();
            let below = (state.meta.floor + 1).saturating_sub(first).min(count);
            let below = if state.meta.floor >= last { count } else { below };
            let above = first.max(state.meta.floor + 1);
            let dead = if above <= last { state.meta.dead.range_cardinality(above..=last) } else { 0 };
            share.all += count;
            share.live += count.saturating_sub(below + dead);
        }
        share
    }

    /// About what a rewrite leaves of it, with what has to be remembered.
    fn left_bytes(&self, forgotten: u64) -> u64 {
        let live = u128::from(self.bytes) * u128::from(self.live) / u128::from(self.all.max(1));
        let remembered = self.all.saturating_sub(self.live + forgotten);
        (live as u64 + remembered * PAST_BYTES).min(self.bytes)
    }
}

/// Picks neighbours that are worth it, among the segments that the manifest covers.
pub fn choose(shared: &Shared, covered: u64) -> Option<Vec<Arc<Segment>>> {
    let max = shared.options.segment_bytes;
    let mut run: Vec<Arc<Segment>> = Vec::new();
    let mut small: Vec<Arc<Segment>> = Vec::new();
    let (mut run_bytes, mut small_bytes) = (0, 0);
    let segments = shared.segments();
    for segment in segments.iter().take(segments.len() - 1) {
        let known = match segment.id {
            SegmentId::Log(number) => number <= covered,
            SegmentId::Kept(_) => true,
        };
        if !known || segment.damaged.load(Relaxed) {
            if !run.is_empty() {
                break;
            }
            small.clear();
            small_bytes = 0;
            continue;
        }
        let share = Share::of(shared, segment);
        // What a kept segment began with: it may hold more that is gone, and has to be remembered.
        let whole = match segment.id {
            SegmentId::Log(_) => share.all,
            SegmentId::Kept(_) => *segment.whole.get_or_init(|| share.live),
        };
        let worth = share.live * 2 <= whole && (share.live < whole || share.all == 0);
        let forgotten = forgotten(shared, segment);
        // What is remembered counts, too: places in a segment are 32 bits wide, and all of it would be copied each time.
        let left = share.left_bytes(forgotten);
        let worth = worth || forgotten > 0 && forgotten * 2 >= share.all;
        if worth && (run.is_empty() || run_bytes + left <= max) {
            run.push(segment.clone());
            run_bytes += left;
        } else if !run.is_empty() {
            break;
        }
        if share.bytes * SMALL_RUN as u64 <= max && small_bytes + left <= max {
            small.push(segment.clone());
            small_bytes += left;
            if small.len() >= SMALL_RUN && run.is_empty() {
                return Some(small);
            }
        } else {
            small.clear();
            small_bytes = 0;
        }
    }
    (!run.is_empty()).then_some(run)
}

/// Records of a kept segment that are gone and need not be remembered any more either.
fn forgotten(shared: &Shared, segment: &Segment) -> u64 {
    if matches!(segment.id, SegmentId::Log(_)) {
        return 0;
    }
    let pasts = match segment.pasts.get() {
        Some(pasts) => pasts,
        // What cannot be read is not rewritten; who does read it says so.
        None => match pasts(shared, segment) {
            Ok(pasts) => segment.pasts.get_or_init(|| pasts),
            Err(_) => return 0,
        },
    };
    let over = |past: &&Pasts| {
        let topic = shared.catalog.numbered(past.topic);
        topic.is_some_and(|topic| past.committed < topic.state.lock().meta.ids_since)
    };
    pasts.iter().filter(over).map(|past| past.count).sum()
}

fn pasts(shared: &Shared, segment: &Segment) -> io::Result<Vec<Pasts>> {
    let mut found = Vec::new();
    for number in topics(segment) {
        let Some(topic) = shared.catalog.numbered(number) else { continue };
        let (mut from, mut count, mut last) = (0, 0, None);
        loop {
            let entries =
                shared.ask(segment, Wait::Yes, || segment.entries(number, from, CHUNK, Wait::Yes))?;
            let Some(end) = entries.last() else { break };
            from = end.seq + 1;
            let pasts = entries.iter().filter(|entry| entry.flags.has(Flags::PAST));
            (count, last) = pasts.fold((count, last), |(count, _), entry| (count + 1, Some(entry.offset)));
        }
        if let Some(offset) = last
            && let Some(Stored::Past(past)) = segment.frame(offset, &topic.name, Wait::Yes)?
        {
            // Commit times do not decrease: the last one is the newest.
            found.push(Pasts { topic: number, count, committed: past.committed });
        }
    }
    Ok(found)
}

/// The topics that have something in a segment.
fn topics(segment: &Segment) -> BTreeSet<u32> {
    match &*segment.index.read() {
        Index::Open(index) => index.topics.keys().copied().collect(),
        Index::Sealed(sidecar) => sidecar.topics().iter().map(|part| part.number).collect(),
    }
}

/// Writes what is left of some neighbours. `None` if one of them turned out to be damaged.
pub fn write(shared: &Shared, run: &[Arc<Segment>]) -> io::Result<Option<Written>> {
    // Given once something has come of it: a try that fails leaves no more behind than the next one takes.
    let number = shared.next_kept.load(Relaxed);
    let (id, nonce) = (SegmentId::Kept(number), random());
    let unfinished = format!("{id}.tmp");
    match shared.disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = shared.disk.create(&unfinished)?;
    let mut out = Out {
        shared,
        file: file.clone(),
        seal: Seal::new(nonce),
        buffer: Header { number, nonce, after_commit: 0, prev_end: 0, bytes: 0 }.encode(),
        at: 0,
        index: SegmentIndex::default(),
        dropped: BTreeMap::new(),
    };
    let result = out.fill(run).and_then(|whole| if whole { out.finish() } else { Ok(()) }.map(|()| whole));
    let Out { index, at: end, dropped, .. } = out;
    match result {
        Ok(true) => {}
        Ok(false) => return shared.disk.remove(&unfinished).map(|()| None),
        Err(error) => {
            let _ = shared.disk.remove(&unfinished);
            return Err(error);
        }
    }
    if index.is_empty() {
        shared.disk.remove(&unfinished)?;
        return Ok(Some(Written { segment: None, dropped }));
    }
    let file = shared.files.adopt(&id.to_string(), file);
    let segment = Arc::new(Segment::new(id, file, nonce, end, Index::Open(index)));
    let name = || {
        shared.disk.rename(&unfinished, &id.to_string())?;
        shared.disk.sync_names()?;
        seal(shared, &segment)
    };
    if let Err(error) = name() {
        // No manifest knows of it: room for the next try.
        for name in [unfinished, id.to_string(), id.sidecar()] {
            let _ = shared.disk.remove(&name);
        }
        return Err(error);
    }
    segment.file.release();
    shared.next_kept.store(number + 1, Relaxed);
    Ok(Some(Written { segment: Some(segment), dropped }))
}

struct Out<'a> {
    shared: &'a Shared,
    file: Arc<dyn DiskFile>,
    seal: Seal,
    buffer: Vec<u8>,
    /// Where the buffer goes.
    at: u64,
    index: SegmentIndex,
    dropped: BTreeMap<u32, RoaringTreemap>,
}

impl Out<'_> {
    /// Copies topic by topic; false if something could not be read.
    fn fill(&mut self, run: &[Arc<Segment>]) -> io::Result<bool> {
        let topics: BTreeSet<u32> = run.iter().flat_map(|segment| topics(segment)).collect();
        for number in topics {
            let Some(topic) = self.shared.catalog.numbered(number) else {
                // Whoever chooses next is not to choose them again.
                run.iter().for_each(|segment| segment.damaged.store(true, Relaxed));
                return Ok(false);
            };
            self.seal.topic(&mut self.buffer, number, &topic.name);
            for segment in run {
                if !self.copy(&topic, segment)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn copy(&mut self, topic: &Topic, segment: &Segment) -> io::Result<bool> {
        let mut from = 0;
        loop {
            self.shared.check_open()?;
            let ask = || segment.entries(topic.number, from, CHUNK, Wait::Yes);
            let entries = self.shared.ask(segment, Wait::Yes, ask)?;
            let Some(last) = entries.last() else { return Ok(true) };
            from = last.seq + 1;
            let (living, ids_since): (Vec<bool>, u64) = {
                let state = topic.state.lock();
                let living = entries.iter().map(|entry| {
                    let seq = entry.seq;
                    // What is damaged stays where it is: `serves` is not asked.
                    seq > state.meta.floor && !state.meta.dead.contains(seq) && !entry.flags.has(Flags::PAST)
                });
                (living.collect(), state.meta.ids_since)
            };
            for (entry, living) in entries.iter().zip(living) {
                let stored = segment.frame(entry.offset, &topic.name, Wait::Yes)?;
                let Some(stored) = stored else {
                    segment.damaged.store(true, Relaxed);
                    let place = self.shared.place(segment, u64::from(entry.offset));
                    let what = format!("{place}: seq {} of {} cannot be read", entry.seq, topic.name);
                    self.shared.health.found(what, 1);
                    return Ok(false);
                };
                self.put(topic, entry, stored, living, ids_since)?;
            }
        }
    }

    fn put(
        &mut self,
        topic: &Topic,
        entry: &Entry,
        stored: Stored,
        living: bool,
        since: u64,
    ) -> io::Result<()> {
        let offset = (self.at + self.buffer.len() as u64) as u32;
        let past = match stored {
            Stored::Event(event) if living => {
                self.seal.event(&mut self.buffer, topic.number, event.committed(), event.json());
                let entry = Entry { offset, ..*entry };
                let key = event.key().filter(|_| entry.flags.has(Flags::KEYED));
                let hash = id_hash(self.shared.seed, topic.number, event.id());
                let (id, committed) = (event.id(), event.committed());
                self.index.add(Item { topic: topic.number, entry, id, hash, key, committed });
                return self.flush(BUFFER);
            }
            Stored::Event(event) => {
                self.dropped.entry(topic.number).or_default().insert(event.seq());
                let (seq, ts, committed) = (event.seq(), event.ts(), event.committed());
                if committed < since {
                    return Ok(());
                }
                Past { seq, ts, committed, id: event.id(), content: event.content() }
            }
            Stored::Past(past) if past.committed < since => return Ok(()),
            Stored::Past(past) => past,
        };
        self.seal.past(&mut self.buffer, topic.number, &past);
        let len = self.at as u32 + self.buffer.len() as u32 - offset;
        let entry = Entry { seq: past.seq, offset, len, flags: Flags::PAST };
        let hash = id_hash(self.shared.seed, topic.number, past.id);
        let (id, committed) = (past.id, past.committed);
        self.index.add(Item { topic: topic.number, entry, id, hash, key: None, committed });
        self.flush(BUFFER)
    }

    fn flush(&mut self, above: usize) -> io::Result<()> {
        if self.buffer.len() > above {
            self.file.write_at(&self.buffer, self.at)?;
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let mark = Mark { number: 1, synced: 0, start: header::LEN as u32, closed: true };
        self.seal.mark(&mut self.buffer, mark);
        self.flush(0)?;
        self.file.sync()
    }
}

/// Has readers look in the new place.
pub fn swap(shared: &Shared, run: &[Arc<Segment>], written: &Written) {
    let among = |segment: &Arc<Segment>| run.iter().any(|old| Arc::ptr_eq(old, segment));
    {
        let mut segments = shared.segments.write();
        let mut list = Vec::clone(&segments);
        let at = list.iter().position(among).unwrap_or(list.len());
        list.retain(|segment| !among(segment));
        if let Some(segment) = &written.segment {
            list.insert(at, segment.clone());
        }
        *segments = Arc::new(list);
    }
    for topic in shared.catalog.topics() {
        let mut state = topic.state.lock();
        let Some(at) = state.spans.iter().position(|span| among(&span.segment)) else { continue };
        state.spans.retain(|span| !among(&span.segment));
        if let Some(segment) = &written.segment
            && let Some((first, last)) = extent(segment, topic.number)
        {
            state.spans.insert(at, Span { segment: segment.clone(), first, last });
        }
        if let Some(dropped) = written.dropped.get(&topic.number) {
            state.meta.dead -= dropped;
        }
        state.moves += 1;
    }
}

/// The seqs of a topic in a segment.
pub fn extent(segment: &Segment, topic: u32) -> Option<(u64, u64)> {
    match &*segment.index.read() {
        Index::Open(index) => {
            let entries = &index.topics.get(&topic)?.entries;
            Some((entries.first()?.seq, entries.last()?.seq))
        }
        Index::Sealed(sidecar) => sidecar.topic(topic).map(|part| (part.first_seq, part.last_seq)),
    }
}
