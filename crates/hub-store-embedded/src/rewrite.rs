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
use crate::segment::{Index, KeptPart, Segment, SegmentId, Segments, Stored};
use crate::shared::Shared;
use crate::sidecar::TopicPart;
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
    /// Records that are not gone: estimated for a log segment, exact for a kept one.
    live: u64,
    /// Records that it began with.
    whole: u64,
    /// Records, and what is left of others that were gone before.
    all: u64,
    /// Of those, what need not be remembered any more.
    forgotten: u64,
    bytes: u64,
}

impl Share {
    /// `None` if a kept segment cannot be read.
    fn of(shared: &Shared, segment: &Segment) -> Option<Self> {
        let mut share = Self { live: 0, whole: 0, all: 0, forgotten: 0, bytes: segment.len() };
        if matches!(&*segment.index.read(), Index::Open(_)) {
            return Some(Self { live: 1, whole: 1, all: 1, ..share });
        }
        match segment.id {
            SegmentId::Log(_) => share.add_log(shared, segment),
            SegmentId::Kept(_) => kept(shared, segment)?.iter().for_each(|part| share.add_kept(shared, part)),
        }
        Some(share)
    }

    fn add_log(&mut self, shared: &Shared, segment: &Segment) {
        for TopicPart { number, first_seq: first, last_seq: last, count, .. } in parts(segment) {
            let Some(topic) = shared.catalog.numbered(number) else { continue };
            let (state, count) = (topic.state.lock(), u64::from(count));
            let below = (state.meta.floor + 1).saturating_sub(first).min(count);
            let below = if state.meta.floor >= last { count } else { below };
            let above = first.max(state.meta.floor + 1);
            let dead = if above <= last { state.meta.dead.range_cardinality(above..=last) } else { 0 };
            (self.all, self.whole) = (self.all + count, self.whole + count);
            self.live += count.saturating_sub(below + dead);
        }
    }

    fn add_kept(&mut self, shared: &Shared, part: &KeptPart) {
        let Some(topic) = shared.catalog.numbered(part.topic) else { return };
        let state = topic.state.lock();
        let records = part.records.len();
        let above = part.records.range_cardinality(state.meta.floor + 1..);
        self.live += above - part.records.intersection_len(&state.meta.dead).min(above);
        (self.all, self.whole) = (self.all + records + part.pasts, self.whole + records);
        if part.pasts_committed < state.meta.ids_since {
            self.forgotten += part.pasts;
        }
    }

    /// About what a rewrite leaves of it, with what has to be remembered.
    fn left_bytes(&self) -> u64 {
        let live = u128::from(self.bytes) * u128::from(self.live) / u128::from(self.all.max(1));
        let remembered = self.all.saturating_sub(self.live + self.forgotten);
        (live as u64 + remembered * PAST_BYTES).min(self.bytes)
    }

    /// Whether so much is gone that it is worth a rewrite.
    fn is_worth(&self) -> bool {
        let live = self.live * 2 <= self.whole && (self.live < self.whole || self.all == 0);
        live || self.forgotten > 0 && self.forgotten * 2 >= self.all
    }
}

/// Whether a manifest that covers the logs up to a number knows a segment, and it may be rewritten or removed.
fn may_go(segment: &Segment, covered: u64) -> bool {
    let known = match segment.id {
        SegmentId::Log(number) => number <= covered,
        SegmentId::Kept(_) => true,
    };
    known && !segment.damaged.load(Relaxed)
}

/// Segments of which nothing is left and nothing has to be remembered. Their sidecars' directories say so: they need
/// not be read.
pub fn dead(shared: &Shared, covered: u64) -> (Vec<Arc<Segment>>, Written) {
    let segments = shared.segments();
    let sealed = segments.iter().take(segments.len() - 1);
    let dead: Vec<Arc<Segment>> =
        sealed.filter(|segment| may_go(segment, covered) && is_dead(shared, segment)).cloned().collect();
    let mut dropped: BTreeMap<u32, RoaringTreemap> = BTreeMap::new();
    for part in dead.iter().flat_map(|segment| parts(segment)) {
        let Some(topic) = shared.catalog.numbered(part.number) else { continue };
        // No other segment has seqs between those of this one.
        let mut seqs = topic.state.lock().meta.dead.clone();
        seqs.remove_range(..part.first_seq);
        seqs.remove_range(part.last_seq + 1..);
        *dropped.entry(part.number).or_default() |= seqs;
    }
    (dead, Written { segment: None, dropped })
}

/// What a sealed segment has of each topic; nothing if its index is in memory.
fn parts(segment: &Segment) -> Vec<TopicPart> {
    match &*segment.index.read() {
        Index::Open(_) => Vec::new(),
        Index::Sealed(sidecar) => sidecar.topics().to_vec(),
    }
}

fn is_dead(shared: &Shared, segment: &Segment) -> bool {
    if matches!(&*segment.index.read(), Index::Open(_)) {
        return false;
    }
    let is_gone = |part: &TopicPart| {
        let Some(topic) = shared.catalog.numbered(part.number) else { return false };
        let state = topic.state.lock();
        let meta = &state.meta;
        let above = part.first_seq.max(meta.floor + 1);
        let gone = meta.floor >= part.last_seq || {
            let dead = meta.dead.range_cardinality(above..=part.last_seq);
            dead == u64::from(part.count) || part.is_dense() && dead == part.last_seq + 1 - above
        };
        // Commit times do not decrease: the last one is the newest.
        gone && part.last_committed < meta.ids_since
    };
    let is_forgotten = |part: &KeptPart| {
        let topic = shared.catalog.numbered(part.topic);
        part.pasts == 0 || topic.is_some_and(|topic| part.pasts_committed < topic.state.lock().meta.ids_since)
    };
    parts(segment).iter().all(is_gone)
        && match segment.id {
            SegmentId::Log(_) => true,
            // Read, once, only where the rest is gone.
            SegmentId::Kept(_) => kept(shared, segment).is_some_and(|kept| kept.iter().all(is_forgotten)),
        }
}

/// Picks neighbours that are worth it, among the segments that the manifest covers. On a disk without room for what is
/// left of several, the one of which the least is left.
pub fn choose(shared: &Shared, covered: u64, is_tight: bool) -> Option<Vec<Arc<Segment>>> {
    let mut least: Option<(u64, Arc<Segment>)> = None;
    let max = shared.options.segment_bytes;
    let mut run: Vec<Arc<Segment>> = Vec::new();
    let mut small: Vec<Arc<Segment>> = Vec::new();
    let (mut run_bytes, mut small_bytes) = (0, 0);
    let segments = shared.segments();
    for segment in segments.iter().take(segments.len() - 1) {
        if !may_go(segment, covered) {
            if !run.is_empty() {
                break;
            }
            small.clear();
            small_bytes = 0;
            continue;
        }
        let share = Share::of(shared, segment);
        let worth = share.as_ref().is_some_and(Share::is_worth);
        // What is remembered counts, too: places in a segment are 32 bits wide, and all of it would be copied each time.
        let left = share.as_ref().map_or(segment.len(), Share::left_bytes);
        if worth && least.as_ref().is_none_or(|(bytes, _)| left < *bytes) {
            least = Some((left, segment.clone()));
        }
        if is_tight {
            continue;
        }
        if worth && (run.is_empty() || run_bytes + left <= max) {
            run.push(segment.clone());
            run_bytes += left;
        } else if !run.is_empty() {
            break;
        }
        if segment.len() * SMALL_RUN as u64 <= max && small_bytes + left <= max {
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
    if is_tight {
        return least.map(|(_, segment)| vec![segment]);
    }
    (!run.is_empty()).then_some(run)
}

/// What a kept segment has of each topic; `None` if that cannot be read. It is read once.
fn kept<'a>(shared: &Shared, segment: &'a Segment) -> Option<&'a [KeptPart]> {
    if let Some(kept) = segment.kept.get() {
        return Some(kept);
    }
    // A later read of the segment reports what is wrong with it.
    let kept = read_kept(shared, segment).ok()?;
    Some(segment.kept.get_or_init(|| kept))
}

fn read_kept(shared: &Shared, segment: &Segment) -> io::Result<Vec<KeptPart>> {
    let mut found = Vec::new();
    for number in topics(segment) {
        let Some(topic) = shared.catalog.numbered(number) else { continue };
        let mut part =
            KeptPart { topic: number, records: RoaringTreemap::new(), pasts: 0, pasts_committed: 0 };
        let (mut from, mut last) = (0, None);
        loop {
            let entries =
                shared.ask(segment, Wait::Yes, || segment.entries(number, from, CHUNK, Wait::Yes))?;
            let Some(end) = entries.last() else { break };
            from = end.seq + 1;
            for entry in &entries {
                if entry.flags.has(Flags::PAST) {
                    (part.pasts, last) = (part.pasts + 1, Some(entry.offset));
                } else {
                    part.records.insert(entry.seq);
                }
            }
        }
        if let Some(offset) = last {
            // Commit times do not decrease: the last one is the newest. One that is damaged is never over.
            part.pasts_committed = match segment.frame(offset, &topic.name, Wait::Yes)? {
                Some(Stored::Past(past)) => past.committed,
                _ => u64::MAX,
            };
        }
        found.push(part);
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
        let mut list = segments.to_vec();
        let at = list.iter().position(among).unwrap_or(list.len());
        list.retain(|segment| !among(segment));
        if let Some(segment) = &written.segment {
            list.insert(at, segment.clone());
        }
        *segments = Arc::new(Segments::new(list));
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
