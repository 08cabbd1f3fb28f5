//! Planning a commit: every event gets its place, every frame its bytes. No disk is needed for that, most of the time, so
//! it is done on the thread that brings the batch, also while another one is being synced.

use crate::catalog::Topic;
use crate::disk::Wait;
use crate::format::entry::{Cleaned, EVENT_OVERHEAD, MARK, place_of};
use crate::format::{frame, record};
use crate::index::{Entry, Flags, id_hash, is_v7};
use crate::lookup::{self, Failed, Found};
use crate::segment::{Index, Segment};
use crate::writer::Writer;
use hub_core::Millis;
use hub_core::store::{Appended, Commit, Committed, Durability, First, Record, StoreError, StoreResult};
use hub_proto::{Draft, Event, EventId, Key, TopicName, limits};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::oneshot;

/// The largest record.
pub const LARGEST: usize = frame::MAX - 64;
/// The largest payload of an event: the rest is for its headers, tags and names, and for what a dead letter has beside them.
pub const MAX_PAYLOAD: usize = 15 << 20;
/// The largest set of seqs in a frame: beside it are the topic's number and four others.
pub const LARGEST_SET: usize = LARGEST - 64;
/// The most digits that a seq has.
const ROOM_FOR_SEQ: usize = 20;
/// What an event takes beside its JSON without a seq.
const EVENT_ROOM: usize = ROOM_FOR_SEQ + EVENT_OVERHEAD;
/// What a topic takes beside its name: two headers, its number twice, and how far it is reserved.
const ROOM_FOR_TOPIC: usize = 2 * frame::HEADER + 2 * 4 + 8;

/// The largest buffer that is kept for the frames of another commit.
const SPARE_BYTES: usize = 1 << 20;

/// The most searches of sealed segments that planning does on a thread that must not wait.
const LOOKUPS: usize = 1 << 15;

/// What is committed as a whole.
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

/// Who waits for a batch.
pub type Reply = oneshot::Sender<StoreResult<Committed>>;

/// Why a batch was not planned.
pub enum Refused {
    /// That needs the disk.
    NotNow(Box<Batch>, Reply),
    /// The disk was needed, and failed.
    Failed(io::Error, Reply),
}

/// What is planned and not on its way to the disk yet: it becomes one write and one sync.
pub struct Open {
    /// Where it goes.
    pub segment: Arc<Segment>,
    /// From here on.
    pub start: u64,
    /// The frames, but for the mark.
    pub frames: Vec<u8>,
    /// The batches that they are of.
    pub chunks: Vec<Chunk>,
}

impl Open {
    /// Nothing yet.
    pub fn at(segment: Arc<Segment>, start: u64) -> Self {
        Self { segment, start, frames: Vec::new(), chunks: Vec::new() }
    }

    fn end(&self) -> u64 {
        self.start + self.frames.len() as u64
    }

    /// Whether there is something to write: the mark that closes the store needs no frame before it.
    pub fn has_frames(&self) -> bool {
        !self.frames.is_empty() || self.chunks.iter().any(|chunk| chunk.closed)
    }
}

/// A batch that is planned.
pub struct Chunk {
    /// The topics of its events.
    pub touched: Vec<Touched>,
    /// The events that are new.
    pub news: Vec<New>,
    /// Why its events are refused, while its records are not: the disk is full.
    pub refused: Option<StoreError>,
    /// What its events are answered.
    pub results: Vec<StoreResult<Appended>>,
    /// As given, but for those that are too large.
    pub records: Vec<Record>,
    /// How many were given.
    pub recorded: usize,
    /// The places of those that are too large for a frame, or that the commit has no room for.
    pub oversized: Vec<usize>,
    /// The commit has as many bytes as one may have.
    full: bool,
    /// As given.
    pub cleaned: Vec<(Arc<Topic>, Cleaned)>,
    /// As given.
    pub jumps: Vec<(Arc<Topic>, u64)>,
    /// It is not answered before a sync.
    pub sync: bool,
    /// The last one.
    pub closed: bool,
    /// Who waits for it.
    pub reply: Reply,
}

/// A topic within one batch.
pub struct Touched {
    /// The topic.
    pub topic: Arc<Topic>,
    /// It is not in the catalog yet.
    pub is_new: bool,
    /// The first seq of the batch.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The commit time of that.
    pub committed: Millis,
    /// How many events.
    pub events: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
    /// Seqs that may have been seen when the power fails.
    pub reserved: u64,
}

/// An event that gets a place: what the index is told of it.
pub struct New {
    /// Its topic: an index into [`Chunk::touched`].
    pub touched: usize,
    /// Its place.
    pub entry: Entry,
    /// Its id.
    pub id: EventId,
    /// The hash of that.
    pub hash: u64,
    /// Its key, if it counts for the state of that.
    pub key: Option<Key>,
}

/// Where a topic is once everything that is planned is written.
pub struct Ahead {
    topic: Arc<Topic>,
    is_new: bool,
    last: u64,
    committed: Millis,
    reserved: u64,
    /// Events that readers do not see yet.
    unseen: usize,
    /// The last batch that had events of it, and its place in [`Chunk::touched`].
    at: (u64, usize),
}

/// What a topic has of an id.
type Known = Option<First>;

/// An event that readers do not see yet.
pub struct Unseen {
    /// The number of its topic.
    number: u32,
    /// The hash of its id.
    hash: u64,
    event: Arc<Event>,
}

impl Unseen {
    fn is(&self, number: u32, id: EventId) -> bool {
        self.number == number && self.event.id() == id
    }
}

impl Batch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        let Self { commit, cleaned, jumps, opened, closed } = self;
        let nothing = commit.events.is_empty() && commit.records.is_empty();
        nothing && cleaned.is_empty() && jumps.is_empty() && !opened && !closed
    }

    /// Whether it has more than events: records of the store, which a full disk has a reserve for.
    pub fn has_own(&self) -> bool {
        let Self { commit, cleaned, jumps, opened, closed } = self;
        *opened || *closed || !(commit.records.is_empty() && cleaned.is_empty() && jumps.is_empty())
    }
}

impl Writer {
    /// Plans a batch. With [`Wait::No`] only if that needs no disk; with [`Wait::Yes`] nothing else may be planned or on
    /// its way.
    pub fn plan(&mut self, batch: Batch, reply: Reply, wait: Wait) -> Result<(), Refused> {
        let waits = wait == Wait::Yes;
        let rare = batch.opened || batch.closed || !batch.cleaned.is_empty() || !batch.jumps.is_empty();
        if !waits && (rare || self.shared.tail().failed.is_some()) {
            return Err(Refused::NotNow(Box::new(batch), reply));
        }
        if self.shared.closed.load(Relaxed) && !batch.closed {
            return Err(Refused::Failed(io::Error::other("the store is closed"), reply));
        }
        if batch.closed {
            // Whatever comes behind it is refused.
            self.shared.closed.store(true, Relaxed);
        }
        if waits && let Err(error) = self.heal() {
            return Err(Refused::Failed(error, reply));
        }
        let Some(looked) = self.look_up(&batch.commit.events, wait) else {
            return Err(Refused::NotNow(Box::new(batch), reply));
        };
        if batch.closed
            && let Err(error) = self.sync_rest()
        {
            // So that the last mark says of everything before it that it is safe; of itself it cannot.
            return Err(Refused::Failed(error, reply));
        }
        let mut refused = None;
        if self.is_full(self.room(&batch), !batch.commit.events.is_empty()) {
            if !waits {
                return Err(Refused::NotNow(Box::new(batch), reply));
            }
            match self.make_room(&batch) {
                Ok(error) => refused = error.map(|error| self.shared.unavailable(&error)),
                Err(error) => return Err(Refused::Failed(error, reply)),
            }
        }
        self.lay_out(batch, looked, refused, reply);
        Ok(())
    }

    /// Looks ids up that may be in the log. Answers what is known of them, each with the place of its event in the batch; the
    /// other events are new. `None` if that needs the disk.
    fn look_up(&self, events: &[Draft], wait: Wait) -> Option<Vec<(usize, StoreResult<Known>)>> {
        let mut newest = self.newest;
        // Most ids are made by the hub, and newer than any before: there is nothing to look up.
        let old = events.iter().enumerate().filter(|(_, draft)| !is_newer(draft.id(), &mut newest));
        let (mut looked, mut doubtful, mut searches) = (Vec::new(), Vec::new(), 0);
        {
            // Of the others most are newer than any segment that is sealed, and not in this one: one look under one lock.
            let active = self.open.segment.index.read();
            let segments = self.shared.segments();
            let mut run: Option<(&TopicName, Option<Arc<Topic>>)> = None;
            for (at, draft) in old {
                let topic = match &run {
                    Some((name, topic)) if *name == draft.topic() => topic,
                    _ => &run.insert((draft.topic(), self.shared.catalog.named(draft.topic()))).1,
                };
                looked.push((at, Ok(None)));
                let Some(topic) = topic else { continue };
                let hash = id_hash(self.shared.seed, topic.number, draft.id());
                let sealed = segments.sealed_with(draft.id()).len();
                match &*active {
                    Index::Open(index) if sealed == 0 && index.ids.of(hash).next().is_none() => {}
                    _ => {
                        searches += sealed;
                        doubtful.push((looked.len() - 1, topic.clone(), hash));
                    }
                }
            }
        }
        if wait == Wait::No && searches > LOOKUPS {
            return None;
        }
        for (place, topic, hash) in doubtful {
            let (at, known) = &mut looked[place];
            *known = match self.find(&topic, events[*at].id(), hash, wait) {
                Err(Failed::WouldBlock) if wait == Wait::No => return None,
                found => found.map_err(StoreError::from),
            };
        }
        Some(looked)
    }

    fn find(&self, topic: &Topic, id: EventId, hash: u64, wait: Wait) -> Result<Known, Failed> {
        let found = lookup::find_id(&self.shared, topic, id, hash, wait)?;
        Ok(found.map(|found| match found {
            Found::Event(event) => First::Record(Arc::new(event)),
            Found::Past(past) => First::Remembered(past.seq, past.ts, past.content),
        }))
    }

    /// At least the bytes that a batch takes.
    pub(crate) fn room(&self, batch: &Batch) -> u64 {
        let events = batch.commit.events.iter();
        let events: usize = events.map(|draft| draft.len() + EVENT_ROOM).sum();
        let mut run = None;
        let names = batch.commit.events.iter().map(Draft::topic);
        let names = names.filter(|name| run.replace(*name) != Some(*name));
        let names: usize = names.map(|name| name.len() + ROOM_FOR_TOPIC).sum();
        // What does not fit is refused.
        let most = self.shared.options.commit_bytes + ROOM_FOR_TOPIC + limits::TOPIC_BYTES;
        (events + names).min(most) as u64 + self.room_for_own(batch)
    }

    /// The bytes that a batch takes without its events.
    pub(crate) fn room_for_own(&self, batch: &Batch) -> u64 {
        let mut own = Vec::new();
        self.lay_out_rest(batch, &mut own);
        own.len() as u64
    }

    /// Whether another segment has to be begun for so many bytes. One that was begun on a full disk takes no events.
    pub(crate) fn is_full(&self, room: u64, events: bool) -> bool {
        let Open { segment, .. } = &self.open;
        let records = match &*segment.index.read() {
            Index::Open(index) => index.len() + self.unseen.len(),
            Index::Sealed(_) => return true,
        };
        let options = &self.shared.options;
        let is_small = segment.capacity < options.segment_bytes;
        let end = self.open.end() + room + MARK as u64;
        let is_empty = self.open.end() <= crate::format::header::LEN as u64;
        records >= options.segment_events
            || is_small && (events || end > segment.capacity)
            || end > options.segment_bytes && !is_empty
    }

    /// Gives every new event its place, and writes the frames. Events that are refused get that as their answer.
    fn lay_out(
        &mut self,
        batch: Batch,
        looked: Vec<(usize, StoreResult<Known>)>,
        refused: Option<StoreError>,
        reply: Reply,
    ) {
        let mut frames = std::mem::take(&mut self.open.frames);
        let oversized = self.lay_out_rest(&batch, &mut frames);
        self.open.frames = frames;
        let Batch { commit: Commit { now, mut events, mut records, .. }, cleaned, jumps, opened, closed } =
            batch;
        let recorded = records.len();
        oversized.iter().rev().for_each(|&at| drop(records.remove(at)));
        let mut results = Vec::with_capacity(events.len());
        if let Some(refused) = &refused {
            results.extend(events.drain(..).map(|_| Err(refused.clone())));
        }
        let sync = opened || closed || !records.is_empty() || !cleaned.is_empty() || !jumps.is_empty();
        let (touched, news) = (Vec::new(), Vec::with_capacity(events.len()));
        let mut chunk = Chunk {
            touched,
            news,
            refused,
            results,
            records,
            recorded,
            oversized,
            full: false,
            cleaned,
            jumps,
            sync,
            closed,
            reply,
        };
        self.serial += 1;
        let mut looked = looked.into_iter().peekable();
        let mut touched: Option<usize> = None;
        for (at, draft) in events.into_iter().enumerate() {
            let place = match touched {
                Some(place) if chunk.touched[place].topic.name == *draft.topic() => place,
                _ => self.touch(&mut chunk, draft.topic()),
            };
            touched = Some(place);
            let known = looked.next_if(|(looked, _)| *looked == at).map(|(_, known)| known);
            let result = self.place(&mut chunk, place, draft, known, now);
            chunk.results.push(result);
        }
        for touched in chunk.touched.iter().filter(|touched| touched.events > 0) {
            if let Some(ahead) = self.ahead.get_mut(&touched.topic.name) {
                let Touched { last, committed, reserved, .. } = *touched;
                (ahead.last, ahead.committed, ahead.reserved) = (last, committed, reserved);
                ahead.is_new = false;
                ahead.unseen += touched.events as usize;
            }
        }
        self.open.chunks.push(chunk);
    }

    /// The frames of what is no event. Answers the places of records that no frame can hold: a reader would take one for
    /// damage, and everything behind it in the commit with it.
    fn lay_out_rest(&self, batch: &Batch, frames: &mut Vec<u8>) -> Vec<usize> {
        let seal = self.open.segment.seal;
        if batch.opened {
            seal.opened(frames, self.shared.boot, batch.commit.now);
        }
        for (topic, last) in &batch.jumps {
            seal.topic(frames, topic.number, &topic.name);
            seal.jump(frames, topic.number, *last);
        }
        let mut oversized = Vec::new();
        for (at, record) in batch.commit.records.iter().enumerate() {
            let start = frames.len();
            seal.record(frames, record);
            if frames.len() - start > frame::HEADER + LARGEST {
                frames.truncate(start);
                if let Record::Progress(topic, group, progress) = record {
                    for part in record::parts(progress) {
                        seal.record(frames, &Record::Progress(topic.clone(), group.clone(), part));
                    }
                } else {
                    oversized.push(at);
                }
            }
            if frames.len() > self.shared.options.commit_bytes {
                frames.truncate(start);
                oversized.push(at);
            }
        }
        for (topic, cleaned) in &batch.cleaned {
            seal.topic(frames, topic.number, &topic.name);
            seal.cleaned(frames, topic.number, cleaned);
        }
        oversized
    }

    fn touch(&mut self, chunk: &mut Chunk, name: &TopicName) -> usize {
        let shared = &self.shared;
        let ahead = self.ahead.entry(name.clone()).or_insert_with(|| match shared.catalog.named(name) {
            Some(topic) => {
                let state = topic.state.lock();
                let (last, committed, reserved) =
                    (state.meta.last, state.meta.last_committed, state.meta.reserved);
                drop(state);
                Ahead { topic, is_new: false, last, committed, reserved, unseen: 0, at: (0, 0) }
            }
            None => {
                let number = shared.catalog.next_number();
                shared.catalog.take_number(number);
                let topic = Arc::new(Topic { number, name: name.clone(), state: Default::default() });
                Ahead { topic, is_new: true, last: 0, committed: 0, reserved: 0, unseen: 0, at: (0, 0) }
            }
        });
        if ahead.at.0 == self.serial {
            return ahead.at.1;
        }
        ahead.at = (self.serial, chunk.touched.len());
        let Ahead { last, committed, reserved, .. } = *ahead;
        chunk.touched.push(Touched {
            topic: ahead.topic.clone(),
            is_new: ahead.is_new,
            first: last + 1,
            last,
            committed,
            events: 0,
            bytes: 0,
            reserved,
        });
        chunk.touched.len() - 1
    }

    /// Gives an event its place, if it is new, and writes its frame. `known` is what is known of its id, if it may be.
    fn place(
        &mut self,
        chunk: &mut Chunk,
        at: usize,
        draft: Draft,
        known: Option<StoreResult<Known>>,
        now: Millis,
    ) -> StoreResult<Appended> {
        let relaxed = draft.relaxed();
        let durability = if relaxed { Durability::Interval } else { Durability::Fsync };
        if draft.len() > LARGEST {
            let what = format!("a record of {} bytes; this store takes at most {LARGEST}", draft.len());
            return Err(StoreError::Unavailable(what));
        }
        let touched = &mut chunk.touched[at];
        let (number, id) = (touched.topic.number, draft.id());
        let hash = id_hash(self.shared.seed, number, id);
        if let Some(known) = known {
            if let Some(Unseen { event: first, .. }) = self.unseen.find(hash, |unseen| unseen.is(number, id))
            {
                return Ok(Appended::known(First::Record(first.clone()), draft, durability));
            }
            if let Some(first) = known? {
                return Ok(Appended::known(first, draft, durability));
            }
        }
        let Open { segment, start, frames, .. } = &mut self.open;
        // An event behind one that is refused is refused, too: events of a topic keep their order when they come again.
        let (commit_bytes, event_bytes) = (self.shared.options.commit_bytes, draft.len() + EVENT_ROOM);
        chunk.full |= frames.len() + event_bytes > commit_bytes;
        if chunk.full {
            let what = format!("a commit has at most {commit_bytes} bytes; publish the event again");
            return Err(StoreError::Unavailable(what));
        }
        if touched.events == 0 && self.named.insert(number) {
            segment.seal.topic(frames, number, &touched.topic.name);
        }
        touched.last += 1;
        touched.committed = touched.committed.max(now);
        if relaxed && touched.last > touched.reserved {
            touched.reserved = touched.last + self.shared.options.reserve;
            segment.seal.reserved(frames, number, touched.reserved);
            chunk.sync = true;
        }
        chunk.sync |= !relaxed;
        let event = Arc::new(draft.commit(touched.last, touched.committed));
        touched.events += 1;
        touched.bytes += event.json().len() as u64;
        let entry = place_of(&event, (*start + frames.len() as u64) as u32);
        segment.seal.event(frames, number, event.committed(), event.json());
        let key = event.key().filter(|_| entry.flags.has(Flags::KEYED)).cloned();
        chunk.news.push(New { touched: at, entry, id, hash, key });
        is_newer(id, &mut self.newest);
        self.unseen.insert_unique(hash, Unseen { number, hash, event: event.clone() }, |unseen| unseen.hash);
        Ok(Appended::New { event, durability })
    }

    /// Everything that is planned, to be written; `None` if there is nothing.
    pub fn take_open(&mut self) -> Option<Open> {
        if self.open.chunks.is_empty() {
            return None;
        }
        let mark = if self.open.has_frames() { MARK as u64 } else { 0 };
        let mut next = Open::at(self.open.segment.clone(), self.open.end() + mark);
        next.frames = std::mem::take(&mut self.spare);
        Some(std::mem::replace(&mut self.open, next))
    }

    /// What was planned has become visible.
    pub fn seen(&mut self, open: &mut Open) {
        if (self.spare.capacity()..SPARE_BYTES).contains(&open.frames.capacity()) {
            self.spare = std::mem::take(&mut open.frames);
            self.spare.clear();
        }
        if self.open.chunks.is_empty() {
            // There was nothing else.
            self.unseen.clear();
            self.ahead.clear();
            return;
        }
        for chunk in &open.chunks {
            for new in &chunk.news {
                let number = chunk.touched[new.touched].topic.number;
                if let Ok(unseen) = self.unseen.find_entry(new.hash, |unseen| unseen.is(number, new.id)) {
                    unseen.remove();
                }
            }
            for touched in &chunk.touched {
                let name = &touched.topic.name;
                if let Some(ahead) = self.ahead.get_mut(name) {
                    ahead.unseen -= touched.events as usize;
                    if ahead.unseen == 0 {
                        self.ahead.remove(name);
                    }
                }
            }
        }
    }

    /// What was planned will not come: neither what was on its way nor what follows it. Answers what follows.
    pub fn forget(&mut self) -> Vec<Chunk> {
        self.ahead.clear();
        self.unseen.clear();
        self.open.frames.clear();
        std::mem::take(&mut self.open.chunks)
    }
}

/// Whether an id is newer than any before it, which it can be only if its time is in it.
fn is_newer(id: EventId, newest: &mut Option<EventId>) -> bool {
    let newer = is_v7(id) && newest.is_none_or(|newest| id > newest);
    if newer {
        *newest = Some(id);
    }
    newer
}
