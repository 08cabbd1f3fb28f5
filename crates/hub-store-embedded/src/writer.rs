//! The commit: everything that waits becomes one run of frames, one write and one sync.
//!
//! Nothing is answered, and no reader sees it, before the sync has come back; relaxed events are answered after the
//! write. After any error of the disk the segment is not trusted any more: [`Writer::heal`] begins another one, in which
//! everything that readers have seen is written again, and which says how much of the old one counts.

use crate::catalog::Topic;
use crate::disk::{DiskFile, Wait};
use crate::format::entry::{Cleaned, Entry as Content, Mark, event, place_of};
use crate::format::frame::Seal;
use crate::format::header::{self, Header};
use crate::index::{Item, SegmentIndex, id_hash, is_v7};
use crate::keeper::{self, Job};
use crate::lookup::{self, Found};
use crate::rebuild;
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Shared, Tail, explain};
use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use hub_core::Millis;
use hub_core::store::{Appended, Commit, Committed, Durability, Record, StoreError, StoreResult};
use hub_proto::{Draft, Event, EventId, TopicName};
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What becomes one commit.
#[derive(Default)]
pub struct Batch {
    /// Events and records of the bus.
    pub commit: Commit,
    /// What was cleaned away.
    pub cleaned: Vec<(Arc<Topic>, Cleaned)>,
    /// Topics whose numbering goes on higher up.
    pub jumps: Vec<(Arc<Topic>, u64)>,
    /// The store was opened.
    pub opened: bool,
    /// The store is closed.
    pub closed: bool,
}

/// Writes the log. One at a time.
pub struct Writer {
    shared: Arc<Shared>,
    /// Takes what is sealed.
    keeper: keeper::Desk,
    /// Topics that the segment has named.
    named: HashSet<u32, RandomState>,
    /// The highest id v7 in any segment but the one that is written to.
    v7_before: Option<EventId>,
    /// The frames of the commit at hand.
    frames: Vec<u8>,
}

/// A topic within one commit.
struct Touched {
    topic: Arc<Topic>,
    /// The topic is not in the catalog yet.
    is_new: bool,
    /// Before, and with the events at hand.
    first: u64,
    last: u64,
    committed: Millis,
    events: u64,
    bytes: u64,
    /// Has given up to, after a power loss.
    reserved: u64,
    reserve: bool,
}

/// An event that gets a place.
struct New {
    touched: usize,
    event: Arc<Event>,
    hash: u64,
    offset: u32,
}

/// What a commit is going to do.
#[derive(Default)]
struct Plan {
    touched: Vec<Touched>,
    by_name: HashMap<TopicName, usize, RandomState>,
    news: Vec<New>,
    ids: HashMap<(u32, EventId), usize, RandomState>,
    results: Vec<StoreResult<Appended>>,
    sync: bool,
}

impl Writer {
    /// A writer at the end of the log.
    pub fn new(shared: Arc<Shared>, keeper: keeper::Desk, named: HashSet<u32, RandomState>) -> Self {
        let mut writer = Self { shared, keeper, named, v7_before: None, frames: Vec::new() };
        let segments = writer.shared.segments();
        for segment in segments.iter().take(segments.len().saturating_sub(1)) {
            writer.note_v7(segment);
        }
        writer
    }

    fn note_v7(&mut self, segment: &Segment) {
        let v7 = match &*segment.index.read() {
            Index::Open(index) => index.v7,
            Index::Sealed(sidecar) => sidecar.v7(),
        };
        self.v7_before = self.v7_before.max(v7.map(|(_, high)| high));
    }

    /// Makes a batch durable.
    pub fn commit(&mut self, batch: Batch) -> Committed {
        let (events, records) = (batch.commit.events.len(), batch.commit.records.len());
        match self.try_commit(batch) {
            Ok(committed) => committed,
            Err(error) => {
                let why = format!("{} in {}", explain(&error), self.shared.disk.place());
                self.shared.health.failing(&why);
                let error = StoreError::Unavailable(why);
                Committed {
                    events: (0..events).map(|_| Err(error.clone())).collect(),
                    records: (0..records).map(|_| Err(error.clone())).collect(),
                }
            }
        }
    }

    pub fn try_commit(&mut self, batch: Batch) -> io::Result<Committed> {
        if self.shared.closed.load(Relaxed) && !batch.closed {
            return Err(io::Error::other("the store is closed"));
        }
        self.heal()?;
        let Batch { commit: Commit { now, events, records }, cleaned, jumps, opened, closed } = batch;
        let mut plan = self.plan(events, now);
        let durable = !records.is_empty() || !cleaned.is_empty() || opened || closed;
        if plan.news.is_empty() && !durable {
            return Ok(Committed { events: plan.results, records: Vec::new() });
        }
        if closed {
            // So that the last mark says of everything before it that it is safe; of itself it cannot.
            self.sync_rest()?;
        }
        let rest = Rest { records: &records, cleaned: &cleaned, jumps: &jumps, opened, closed, now };
        let mut tail = (self.tail_segment(), self.shared.tail().end);
        self.encode(&mut plan, &rest, &tail.0, tail.1);
        let full = match &*tail.0.index.read() {
            Index::Open(index) => index.len() >= self.shared.options.segment_events,
            Index::Sealed(_) => true,
        };
        if full || tail.1 + self.frames.len() as u64 > self.shared.options.segment_bytes {
            self.roll(self.frames.len() as u64 + ROOM_FOR_NAMES * plan.touched.len() as u64)?;
            tail = (self.tail_segment(), self.shared.tail().end);
            self.encode(&mut plan, &rest, &tail.0, tail.1);
        }
        let (segment, start) = tail;
        let end = start + self.frames.len() as u64;
        let number = self.next_number();
        let crowded = self.shared.tail().unsynced_bytes > self.shared.options.unsynced_bytes;
        let sync = plan.sync || durable || crowded;
        let written = segment.file.write_at(&self.frames, start);
        let written = written.and_then(|()| if sync { segment.file.sync() } else { Ok(()) });
        if let Err(error) = written {
            // The number is used up: what may be there of it can never be taken for the next one.
            let mut tail = self.shared.tail();
            tail.number = number;
            tail.failed = Some(error.to_string());
            self.shared.unsynced.notify_all();
            return Err(error);
        }
        {
            let mut tail = self.shared.tail();
            (tail.number, tail.end) = (number, end);
            if sync {
                tail.synced(number, end);
            } else {
                tail.unsynced_bytes += self.frames.len();
                tail.unsynced.push_back((number, end, self.frames.clone()));
                self.shared.unsynced.notify_all();
            }
        }
        segment.end.store(end, Relaxed);
        let written = plan.touched.iter().filter(|touched| touched.events > 0);
        self.named.extend(written.map(|touched| touched.topic.number));
        self.named.extend(cleaned.iter().map(|(topic, _)| topic.number));
        self.named.extend(jumps.iter().map(|(topic, _)| topic.number));
        self.publish(&plan, &segment);
        for (topic, cleaned) in &cleaned {
            topic.state.lock().clean(cleaned);
        }
        for (topic, last) in jumps {
            topic.state.lock().jump(last);
        }
        let count = records.len();
        if count > 0 {
            let mut groups = self.shared.catalog.groups.lock();
            records.into_iter().for_each(|record| groups.apply(record));
        }
        self.shared.health.working();
        Ok(Committed { events: plan.results, records: (0..count).map(|_| Ok(())).collect() })
    }

    fn tail_segment(&self) -> Arc<Segment> {
        self.shared.tail().segment.clone()
    }

    fn next_number(&self) -> u64 {
        self.shared.tail().number + 1
    }

    /// Gives every new event its place.
    fn plan(&self, events: Vec<Draft>, now: Millis) -> Plan {
        let mut plan = Plan { results: Vec::with_capacity(events.len()), ..Plan::default() };
        plan.news.reserve(events.len());
        let mut next_topic = None;
        let mut run: Option<usize> = None;
        let several = events.len() > 1;
        for draft in events {
            let at = match run {
                Some(at) if plan.touched[at].topic.name == *draft.topic() => at,
                _ => self.touch(&mut plan, draft.topic(), &mut next_topic),
            };
            run = Some(at);
            let result = self.place(&mut plan, at, draft, now, several);
            plan.results.push(result);
        }
        plan
    }

    fn touch(&self, plan: &mut Plan, name: &TopicName, next_topic: &mut Option<u32>) -> usize {
        if let Some(&at) = plan.by_name.get(name) {
            return at;
        }
        let known = self.shared.catalog.named(name);
        let is_new = known.is_none();
        let topic = known.unwrap_or_else(|| {
            let number = next_topic.unwrap_or_else(|| self.shared.catalog.next_number());
            *next_topic = Some(number + 1);
            Arc::new(Topic { number, name: name.clone(), state: Default::default() })
        });
        let (last, committed, reserved) = {
            let state = topic.state.lock();
            (state.meta.last, state.meta.last_committed, state.meta.reserved)
        };
        let at = plan.touched.len();
        plan.by_name.insert(name.clone(), at);
        plan.touched.push(Touched {
            topic,
            is_new,
            first: last + 1,
            last,
            committed,
            events: 0,
            bytes: 0,
            reserved,
            reserve: false,
        });
        at
    }

    fn place(
        &self,
        plan: &mut Plan,
        at: usize,
        draft: Draft,
        now: Millis,
        several: bool,
    ) -> StoreResult<Appended> {
        let relaxed = draft.relaxed();
        let durability = if relaxed { Durability::Interval } else { Durability::Fsync };
        let largest = crate::format::frame::MAX - 64;
        if draft.len() > largest {
            let what = format!("a record of {} bytes; this store takes at most {largest}", draft.len());
            return Err(StoreError::Unavailable(what));
        }
        let Touched { topic, is_new, .. } = &plan.touched[at];
        let hash = id_hash(self.shared.seed, topic.number, draft.id());
        if several && let Some(&first) = plan.ids.get(&(topic.number, draft.id())) {
            let first = &plan.news[first].event;
            let same = first.same_content(draft.key().map(|key| &**key), draft.payload());
            return Ok(Appended::Known { seq: first.seq(), ts: first.ts(), same, durability });
        }
        if !is_new && let Some((seq, ts, same)) = self.known(topic, &draft, hash)? {
            return Ok(Appended::Known { seq, ts, same, durability });
        }
        if several {
            plan.ids.insert((topic.number, draft.id()), plan.news.len());
        }
        plan.sync |= !relaxed;
        let touched = &mut plan.touched[at];
        touched.last += 1;
        touched.committed = touched.committed.max(now);
        if relaxed && touched.last > touched.reserved {
            touched.reserved = touched.last + self.shared.options.reserve;
            touched.reserve = true;
            plan.sync = true;
        }
        let event = Arc::new(draft.commit(touched.last, touched.committed));
        touched.events += 1;
        touched.bytes += event.json().len() as u64;
        plan.news.push(New { touched: at, event: event.clone(), hash, offset: 0 });
        Ok(Appended::New { event, durability })
    }

    /// Whether the topic has the id: its seq, its time, and whether it is the same event.
    fn known(&self, topic: &Topic, draft: &Draft, hash: u64) -> StoreResult<Option<(u64, Millis, bool)>> {
        let sealed = !is_v7(draft.id()) || self.v7_before.is_some_and(|high| draft.id() <= high);
        let found = lookup::find_id(&self.shared, topic, draft.id(), hash, sealed, Wait::Yes);
        Ok(found?.map(|found| match found {
            Found::Event(event) => {
                let same = event.same_content(draft.key().map(|key| &**key), draft.payload());
                (event.seq(), event.ts(), same)
            }
            Found::Past(past) => (past.seq, past.ts, past.content == draft.content()),
        }))
    }

    /// Writes the frames of a commit that begins at `start`.
    fn encode(&mut self, plan: &mut Plan, rest: &Rest<'_>, segment: &Segment, start: u64) {
        let (synced, number) = {
            let tail = self.shared.tail();
            (tail.synced, tail.number + 1)
        };
        let (seal, frames, named) = (segment.seal, &mut self.frames, &self.named);
        frames.clear();
        let name = |frames: &mut Vec<u8>, topic: &Topic| {
            if !named.contains(&topic.number) {
                seal.topic(frames, topic.number, &topic.name);
            }
        };
        if rest.opened {
            seal.opened(frames, self.shared.boot, rest.now);
        }
        for (topic, last) in rest.jumps {
            name(frames, topic);
            seal.jump(frames, topic.number, *last);
        }
        for touched in plan.touched.iter().filter(|touched| touched.events > 0) {
            name(frames, &touched.topic);
            if touched.reserve {
                seal.reserved(frames, touched.topic.number, touched.reserved);
            }
        }
        for new in &mut plan.news {
            new.offset = (start + frames.len() as u64) as u32;
            let topic = plan.touched[new.touched].topic.number;
            seal.event(frames, topic, new.event.committed(), new.event.json());
        }
        rest.records.iter().for_each(|record| seal.record(frames, record));
        for (topic, cleaned) in rest.cleaned {
            name(frames, topic);
            seal.cleaned(frames, topic.number, cleaned);
        }
        seal.mark(frames, Mark { number, synced, start: start as u32, closed: rest.closed });
    }

    /// Shows what was written to readers.
    fn publish(&self, plan: &Plan, segment: &Arc<Segment>) {
        if plan.news.is_empty() {
            return;
        }
        // Held until the topics know: a reader that finds a record in the index is to find it served, too. Who took it
        // for one that is not there would go on behind it.
        let mut index = segment.index.write();
        if let Index::Open(index) = &mut *index {
            for new in &plan.news {
                add(index, plan.touched[new.touched].topic.number, &new.event, new.hash, new.offset);
            }
        }
        for touched in plan.touched.iter().filter(|touched| touched.events > 0) {
            {
                let mut state = touched.topic.state.lock();
                state.meta.last = touched.last;
                state.meta.last_committed = touched.committed;
                state.meta.events += touched.events;
                state.meta.bytes += touched.bytes;
                state.meta.reserved = touched.reserved;
                state.extend(segment, touched.first, touched.last);
            }
            if touched.is_new {
                self.shared.catalog.adopt(&touched.topic);
            }
        }
    }

    /// Seals the segment and begins the next one.
    fn roll(&mut self, need: u64) -> io::Result<()> {
        let (segment, number, end) = self.sync_rest()?;
        let next = self.begin(segment.id.number() + 1, number, end, need, |_| Vec::new())?;
        self.enter(next, number, number, segment);
        Ok(())
    }

    /// Syncs what relaxed topics have written. Answers where the log ends.
    fn sync_rest(&self) -> io::Result<(Arc<Segment>, u64, u64)> {
        let (segment, number, end, unsynced) = {
            let tail = self.shared.tail();
            (tail.segment.clone(), tail.number, tail.end, tail.synced < tail.number)
        };
        if unsynced {
            if let Err(error) = segment.file.sync() {
                self.shared.tail().failed = Some(error.to_string());
                return Err(error);
            }
            self.shared.tail().synced(number, end);
        }
        Ok((segment, number, end))
    }

    /// Makes the next segment, durable with what is in it from the start.
    fn begin(
        &self,
        number: u64,
        after_commit: u64,
        prev_end: u64,
        need: u64,
        frames: impl FnOnce(Seal) -> Vec<u8>,
    ) -> io::Result<Begun> {
        let bytes = self.shared.options.segment_bytes.max(need + header::LEN as u64);
        // Held until the file has its name: the keeper makes no other one meanwhile.
        let mut slot = self.shared.prepared.lock();
        let prepared = match slot.take() {
            Some(prepared) if prepared.number == number && prepared.bytes >= bytes => prepared,
            other => {
                if let Some(other) = other.filter(|other| other.number != number) {
                    // Made just before the tail went on. What cannot be removed goes at the next start.
                    let _ = self.shared.disk.remove(&format!("{}.new", SegmentId::Log(other.number)));
                }
                keeper::prepare(&self.shared, number, bytes)?
            }
        };
        let begun = begin_with(&self.shared, prepared.file, number, after_commit, prev_end, frames);
        begun.inspect_err(|error| {
            // It may have its name by now, and it says where this one ends: nothing more is written to this one.
            self.shared.tail().failed.get_or_insert_with(|| error.to_string());
        })
    }

    /// Goes over to the next segment. `before` is the last commit that the sealed one counts, `number` the last of all.
    fn enter(&mut self, next: Begun, before: u64, number: u64, sealed: Arc<Segment>) {
        self.note_v7(&sealed);
        self.named.clear();
        let image = self.shared.image(sealed.id.number(), before);
        *self.shared.tail() = Tail::at(next.segment.clone(), next.spare, number, next.segment.len());
        self.shared.push_segment(next.segment);
        self.keeper.hand_over(Job::Sealed(vec![sealed], Box::new(image)));
    }

    /// After an error of the disk: begins another segment, with everything in it that readers have seen and that is not
    /// safe. What nobody has seen of a commit that failed is given up: it was not acknowledged.
    pub fn heal(&mut self) -> io::Result<()> {
        let (old, number, synced_end, unsynced) = {
            let tail = self.shared.tail();
            if tail.failed.is_none() {
                return Ok(());
            }
            let unsynced: Vec<Vec<u8>> = tail.unsynced.iter().map(|(_, _, frames)| frames.clone()).collect();
            (tail.segment.clone(), tail.number, tail.synced_end, unsynced)
        };
        let seen = seen(&self.shared, &old, &unsynced);
        // The index of what stays of the old one.
        let cut =
            if seen.is_empty() { None } else { Some(rebuild::index_upto(&self.shared, &old, synced_end)?) };
        let room = unsynced.iter().map(Vec::len).sum::<usize>() as u64 + ROOM_FOR_NAMES * seen.len() as u64;
        let mut places = Vec::new();
        // It gets its name when everything is in it: from then on the old one is cut. On an error the next try takes
        // the name of this one, which nobody has seen.
        let next = self.begin(old.id.number() + 1, number, synced_end, room + ROOM_FOR_NAMES, |seal| {
            if seen.is_empty() {
                return Vec::new();
            }
            let (frames, offsets) = rewrite(&seen, seal, number + 1);
            places = offsets;
            frames
        })?;
        let segment = &next.segment;
        // From here on nothing fails. The old segment forgets what is above its end.
        old.end.store(synced_end, Relaxed);
        // Held until the topics know where the rest has gone.
        let mut old_index = old.index.write();
        if let Some(index) = cut {
            *old_index = Index::Open(index);
        }
        let mut named = HashSet::default();
        if let Index::Open(index) = &mut *segment.index.write() {
            for ((topic, event), offset) in seen.iter().zip(&places) {
                let hash = id_hash(self.shared.seed, topic.number, event.id());
                add(index, topic.number, event, hash, *offset);
                named.insert(topic.number);
            }
        }
        for (topic, event) in &seen {
            let mut state = topic.state.lock();
            if let Some(span) = state.spans.last_mut().filter(|span| Arc::ptr_eq(&span.segment, &old)) {
                span.last = span.last.min(event.seq() - 1);
                if span.last < span.first {
                    state.spans.pop();
                }
            }
            state.extend(segment, event.seq(), event.seq());
            state.moves += 1;
        }
        drop(old_index);
        let last = if seen.is_empty() { number } else { number + 1 };
        self.enter(next, number, last, old);
        self.named = named;
        self.shared.health.working();
        tracing::warn!("the disk works again: the log goes on in another segment");
        Ok(())
    }
}

/// What goes into a commit beside events.
struct Rest<'a> {
    records: &'a [Record],
    cleaned: &'a [(Arc<Topic>, Cleaned)],
    jumps: &'a [(Arc<Topic>, u64)],
    opened: bool,
    closed: bool,
    now: Millis,
}

/// More than a topic's frame takes.
const ROOM_FOR_NAMES: u64 = 512;

fn add(index: &mut SegmentIndex, topic: u32, event: &Event, hash: u64, offset: u32) {
    let entry = place_of(event, offset);
    let key = event.key().filter(|_| entry.flags.has(crate::index::Flags::KEYED));
    index.add(Item { topic, entry, id: event.id(), hash, key, committed: event.committed() });
}

/// The events in frames of a segment that readers have seen, in order.
fn seen(shared: &Shared, segment: &Segment, commits: &[Vec<u8>]) -> Vec<(Arc<Topic>, Event)> {
    let mut seen = Vec::new();
    for frames in commits {
        let mut rest = &frames[..];
        while let Ok(frame) = segment.seal.read(rest) {
            rest = &rest[frame.len()..];
            if let Ok(Content::Event(number, committed, json)) = Content::read(frame.kind, frame.content)
                && let Some(topic) = shared.catalog.numbered(number)
                && let Ok(event) = event(Bytes::copy_from_slice(json), committed, &topic.name)
            {
                seen.push((topic, event));
            }
        }
    }
    seen
}

/// The frames of events for another segment, as one commit, and where each is.
fn rewrite(seen: &[(Arc<Topic>, Event)], seal: Seal, number: u64) -> (Vec<u8>, Vec<u32>) {
    let (mut frames, mut places, mut named) =
        (Vec::new(), Vec::new(), HashSet::<u32, RandomState>::default());
    for (topic, event) in seen {
        if named.insert(topic.number) {
            seal.topic(&mut frames, topic.number, &topic.name);
        }
        places.push((header::LEN + frames.len()) as u32);
        seal.event(&mut frames, topic.number, event.committed(), event.json());
    }
    seal.mark(&mut frames, Mark { number, synced: number - 1, start: header::LEN as u32, closed: false });
    (frames, places)
}

/// A segment that is not part of the log yet.
pub struct Begun {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Another handle to its file.
    pub spare: Arc<dyn DiskFile>,
}

/// Writes the header of a prepared file and gives it its name.
pub fn begin_segment(
    shared: &Shared,
    file: Arc<dyn DiskFile>,
    number: u64,
    after_commit: u64,
    prev_end: u64,
) -> io::Result<Begun> {
    begin_with(shared, file, number, after_commit, prev_end, |_| Vec::new())
}

/// The same, with frames behind the header.
fn begin_with(
    shared: &Shared,
    file: Arc<dyn DiskFile>,
    number: u64,
    after_commit: u64,
    prev_end: u64,
    frames: impl FnOnce(Seal) -> Vec<u8>,
) -> io::Result<Begun> {
    let nonce = random();
    let id = SegmentId::Log(number);
    let mut bytes = Header { number, nonce, after_commit, prev_end, bytes: file.size()? }.encode();
    bytes.extend_from_slice(&frames(Seal::new(nonce)));
    file.write_at(&bytes, 0)?;
    file.sync()?;
    shared.disk.rename(&format!("{id}.new"), &id.to_string())?;
    shared.disk.sync_names()?;
    let spare = shared.disk.open(&id.to_string())?;
    let segment = Arc::new(Segment::new(id, file, nonce, bytes.len() as u64, Shared::empty_index()));
    Ok(Begun { segment, spare })
}

/// A number that nobody can guess.
pub fn random() -> u64 {
    RandomState::default().hash_one(0)
}
