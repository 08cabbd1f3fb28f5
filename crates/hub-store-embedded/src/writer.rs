//! The end of the log, where commits are planned, and how it goes over from one segment to the next.
//!
//! After any error of the disk the segment is not trusted any more: [`Writer::heal`] begins another one, in which
//! everything that readers have seen is written again, and which says how much of the old one counts.

use crate::catalog::Topic;
use crate::disk::DiskFile;
use crate::format::entry::{Entry as Content, MARK, Mark, event, place_of};
use crate::format::frame::Seal;
use crate::format::header::{self, Header};
use crate::index::{Item, SegmentIndex, id_hash};
use crate::keeper::{self, Job};
use crate::options::Options;
use crate::plan::{Ahead, Batch, Open, Unseen};
use crate::rebuild;
use crate::reserve::{self, is_disk_full};
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Shared, Tail};
use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet, HashTable};
use hub_proto::{Event, EventId, TopicName};
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How large the file of the next segment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// As large as segments are.
    Full,
    /// As small as will do, and from the reserve: the disk is full.
    Small,
}

/// Plans what is written to the log. There is one.
pub struct Writer {
    pub(crate) shared: Arc<Shared>,
    /// Takes what is sealed.
    keeper: keeper::Desk,
    /// Topics that the segment has named.
    pub(crate) named: HashSet<u32, RandomState>,
    /// The highest of all that were planned or read: what is higher is new.
    pub(crate) newest: Option<EventId>,
    /// What is planned and not on its way to the disk yet.
    pub(crate) open: Open,
    /// A buffer for the frames of another commit, so that it need not grow from nothing.
    pub(crate) spare: Vec<u8>,
    /// Topics with events that readers do not see yet.
    pub(crate) ahead: HashMap<TopicName, Ahead, RandomState>,
    /// Those events, by the hash of their ids.
    pub(crate) unseen: HashTable<Unseen>,
    /// Counts batches.
    pub(crate) serial: u64,
}

impl Writer {
    /// A writer at the end of the log.
    pub fn new(shared: Arc<Shared>, keeper: keeper::Desk, named: HashSet<u32, RandomState>) -> Self {
        let open = {
            let tail = shared.tail();
            Open::at(tail.segment.clone(), tail.end)
        };
        let newest = shared.segments().iter().filter_map(|segment| segment.highest_v7()).max();
        let (spare, ahead, unseen) = Default::default();
        Self { shared, keeper, named, newest, open, spare, ahead, unseen, serial: 0 }
    }

    /// Begins another segment for a batch that does not fit into this one. On a full disk the store's own records get
    /// what is left, and the reserve: then the answer is why the events are refused.
    pub fn make_room(&mut self, batch: &Batch) -> io::Result<Option<io::Error>> {
        let error = match self.roll(self.room(batch), Size::Full) {
            Err(error) if is_disk_full(&error) && batch.has_own() => error,
            rolled => return rolled.map(|()| None),
        };
        // A segment that was begun in part ends this one.
        if self.shared.tail().failed.is_some() {
            return Err(error);
        }
        let own = self.room_for_own(batch);
        if self.is_full(own, false) {
            self.roll(own, Size::Small)?;
        }
        Ok((!batch.commit.events.is_empty()).then_some(error))
    }

    /// Seals the segment and begins the next one.
    fn roll(&mut self, need: u64, size: Size) -> io::Result<()> {
        let (segment, number, end) = self.sync_rest()?;
        let next = self.begin(segment.id.number() + 1, number, end, need, size, |_| Vec::new())?;
        self.shared.push_segment(next.segment.clone());
        self.enter(next, number, number, segment);
        Ok(())
    }

    /// Syncs what relaxed topics have written. Answers where the log ends.
    pub fn sync_rest(&self) -> io::Result<(Arc<Segment>, u64, u64)> {
        let (segment, number, end, unsynced) = {
            let tail = self.shared.tail();
            (tail.segment.clone(), tail.number, tail.end, tail.synced < tail.number)
        };
        if unsynced {
            if let Err(error) = segment.file.sync() {
                self.shared.distrust(&error);
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
        size: Size,
        frames: impl FnOnce(Seal) -> Vec<u8>,
    ) -> io::Result<Begun> {
        let Options { segment_bytes, disk_reserve, .. } = self.shared.options;
        let need = need + (header::LEN + MARK) as u64;
        let bytes = match size {
            Size::Full => segment_bytes.max(need),
            Size::Small => {
                self.shared.give_up_reserve()?;
                reserve::small_segment(disk_reserve, segment_bytes).max(need)
            }
        };
        // Held until the file has its name: the keeper makes no other one meanwhile.
        let mut slot = self.shared.prepared.lock();
        let prepared = match slot.take() {
            Some(prepared) if prepared.number == number && prepared.bytes >= bytes => prepared,
            other => {
                if let Some(other) = other.filter(|other| other.number != number) {
                    // Made just before the tail went on. What cannot be removed goes at the next start.
                    let _ = self.shared.disk.remove(&format!("{}.new", SegmentId::Log(other.number)));
                }
                match size {
                    Size::Full => keeper::prepare(&self.shared, number, bytes, || Ok(keeper::AT_ONCE))?,
                    Size::Small => {
                        keeper::prepare_from_reserve(&self.shared, number, bytes, || Ok(keeper::AT_ONCE))?
                    }
                }
            }
        };
        let begun = begin_with(&self.shared, prepared.file, number, after_commit, prev_end, frames);
        // It may have its name by now, and it says where this one ends: nothing more is written to this one.
        begun.inspect_err(|error| self.shared.distrust(error))
    }

    /// Goes over to the next segment, which is part of the log. `before` is the last commit that the sealed one counts, `number`
    /// the last of all.
    fn enter(&mut self, next: Begun, before: u64, number: u64, sealed: Arc<Segment>) {
        self.named.clear();
        let image = self.shared.image(sealed.id.number(), before);
        *self.shared.tail() = Tail::at(next.segment.clone(), next.spare, number, next.segment.len());
        self.open = Open::at(next.segment.clone(), next.segment.len());
        sealed.file.release();
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
        let mut begin = |size| {
            self.begin(old.id.number() + 1, number, synced_end, room + ROOM_FOR_NAMES, size, |seal| {
                if seen.is_empty() {
                    return Vec::new();
                }
                let (frames, offsets) = rewrite(&seen, seal, number + 1);
                places = offsets;
                frames
            })
        };
        let next = match begin(Size::Full) {
            Err(error) if is_disk_full(&error) => begin(Size::Small)?,
            next => next?,
        };
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
        // After the cut: the keeper seals every segment but the last. Before `moves` is raised: a lookup by id that begins after
        // that does not look again, so it has to find the new segment in the list.
        self.shared.push_segment_behind(old_index.highest_v7(), segment.clone());
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
        self.shared.health.working(false);
        tracing::warn!("the disk works again: the log goes on in another segment");
        Ok(())
    }
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
    let capacity = file.size()?;
    let mut bytes = Header { number, nonce, after_commit, prev_end, bytes: capacity }.encode();
    bytes.extend_from_slice(&frames(Seal::new(nonce)));
    file.write_at(&bytes, 0)?;
    file.sync()?;
    shared.disk.rename(&format!("{id}.new"), &id.to_string())?;
    shared.disk.sync_names()?;
    let spare = shared.disk.open(&id.to_string())?;
    let file = shared.files.adopt(&id.to_string(), file);
    let segment = Segment::new(id, file, nonce, bytes.len() as u64, shared.next_index());
    let segment = Arc::new(segment.with_capacity(capacity));
    Ok(Begun { segment, spare })
}

/// A number that nobody can guess.
pub fn random() -> u64 {
    RandomState::default().hash_one(0)
}
