//! The segments that the manifest does not cover: what they say is taken over, and where the log goes on is found.

use crate::catalog::Topic;
use crate::disk::{DiskFile, Wait};
use crate::format::entry::{Entry as Content, event};
use crate::format::header::{self, Header};
use crate::index::SegmentIndex;
use crate::keeper;
use crate::losses::{Hole, Trail};
use crate::manifest::Manifest;
use crate::quarantine;
use crate::rebuild;
use crate::recover::{OpenError, Recovery, read_header};
use crate::scan::{At, Damage, Outcome, scan};
use crate::segment::{Index, Segment, SegmentId};
use crate::shared::{Shared, Tail};
use crate::writer::begin_segment;
use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use hub_core::Millis;
use hub_proto::{Event, TopicName};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A segment that is gone is taken to have been at least this long.
const SEGMENT: u64 = 128 << 20;
/// So many segments that are missing one after the other are remembered.
const REMEMBERED: usize = 64;

struct Log {
    header: Header,
    /// What is wrong with the header.
    wrong: Option<String>,
    file: Arc<dyn DiskFile>,
}

impl Recovery {
    /// Reads the segments that the manifest does not cover, and finds the end of the log. `known` says whether there
    /// was a manifest: then there was a segment after it.
    #[expect(clippy::type_complexity, reason = "two answers, used once")]
    pub fn replay(
        &mut self,
        names: &[String],
        manifest: &Manifest,
        known: bool,
    ) -> Result<(Option<(Vec<Arc<Segment>>, Manifest)>, HashSet<u32, RandomState>), OpenError> {
        let place = self.shared.disk.place();
        let during = |error: io::Error| OpenError::Io { what: format!("reading {place}"), error };
        let mut trail = Trail::default();
        let (logs, moved) = self.logs(names, manifest, &mut trail).map_err(during)?;
        let (mut number, mut last_end) = (manifest.last_commit, 0);
        let (mut sealed, mut image) = (Vec::new(), None);
        let mut active = None;
        let (mut closed, mut expected) = (true, manifest.upto + 1);
        for (at, log) in logs.iter().enumerate() {
            self.missing(expected..log.header.number, &moved, &mut trail);
            expected = log.header.number + 1;
            let next = logs.get(at + 1);
            let end = next.filter(|next| next.header.number == expected).map(|next| next.header.prev_end);
            number = number.max(log.header.after_commit);
            let (segment, outcome, named) = self.fold(log, end, number, &mut trail).map_err(during)?;
            (number, last_end, closed) = (outcome.last.max(number), outcome.end, outcome.closed);
            if next.is_none() {
                secure(&segment, &outcome).map_err(during)?;
            }
            if next.is_some() || segment.damaged.load(Relaxed) {
                // What is damaged is not written to any more.
                image = Some(self.shared.image(log.header.number, number));
                sealed.push(segment.clone());
            } else {
                self.cut(&segment, &outcome).map_err(during)?;
                active = Some((segment.clone(), named));
            }
            self.shared.push_segment(segment);
        }
        // Those that were moved come last, or there is none at all although there was one.
        let behind = moved.last().copied().unwrap_or(if known { manifest.upto + 1 } else { 0 });
        if behind >= expected {
            self.missing(expected..behind + 1, &moved, &mut trail);
            expected = behind + 1;
        }
        for (topic, last) in trail.end(&self.shared.health, &place, &self.shared.catalog.topics()) {
            self.jump(&topic, last);
        }
        self.raise(closed);
        let (segment, named) = match active {
            Some(active) => active,
            None => {
                let bytes = self.shared.options.segment_bytes;
                let prepared =
                    keeper::prepare_from_reserve(&self.shared, expected, bytes, || Ok(keeper::AT_ONCE));
                let prepared = prepared.map_err(during)?;
                let begun = begin_segment(&self.shared, prepared.file, expected, number, last_end);
                let segment = begun.map_err(during)?.segment;
                self.shared.push_segment(segment.clone());
                (segment, HashSet::default())
            }
        };
        segment.file.hold().map_err(during)?;
        let spare = self.shared.disk.open(&segment.id.to_string()).map_err(during)?;
        let end = segment.len();
        self.shared.set_tail(Tail::at(segment, spare, number, end));
        Ok((image.map(|image| (sealed, image)), named))
    }

    /// Takes note of segments that should be there and are not; of those that were moved just now that is known.
    fn missing(&self, numbers: Range<u64>, moved: &[u64], trail: &mut Trail) {
        for number in numbers.clone().take(REMEMBERED) {
            // They stay part of the log, so that the next start knows of them.
            let segment = Segment::absent(SegmentId::Log(number), 0, 0, Shared::empty_index());
            self.shared.push_segment(Arc::new(segment));
        }
        let moved = moved.iter().filter(|moved| numbers.contains(moved)).count() as u64;
        let count = numbers.end.saturating_sub(numbers.start);
        if count <= moved {
            return;
        }
        let (first, last) = (SegmentId::Log(numbers.start), SegmentId::Log(numbers.end - 1));
        let which = if first == last { format!("{first} is") } else { format!("{first} to {last} are") };
        trail.hole(Hole {
            from: (numbers.start, 0),
            to: (numbers.end, 0),
            bytes: count.saturating_mul(SEGMENT.max(self.shared.options.segment_bytes)),
            what: format!("{}/{which} missing, from byte 0 on", self.shared.disk.place()),
        });
    }

    /// The log's files above the manifest, in order, with their headers; and those that were moved to quarantine,
    /// because nothing in them can be read without one.
    fn logs(
        &self,
        names: &[String],
        manifest: &Manifest,
        trail: &mut Trail,
    ) -> io::Result<(Vec<Log>, Vec<u64>)> {
        let above = |name: &String| match SegmentId::parse(name) {
            Some(SegmentId::Log(number)) if number > manifest.upto => Some(number),
            _ => None,
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(above).collect();
        numbers.sort_unstable();
        let (mut logs, mut moved) = (Vec::new(), Vec::new());
        for number in numbers {
            let name = SegmentId::Log(number).to_string();
            let file = self.shared.files.file(&name)?;
            let wrong = match read_header(&*file)? {
                (Some(header), wrong) if header.number == number => {
                    logs.push(Log { header, wrong, file });
                    continue;
                }
                (Some(_), _) => "its header has another number".into(),
                (None, wrong) => wrong.unwrap_or_default(),
            };
            // It may have been longer.
            let bytes = file.size()?.max(self.shared.options.segment_bytes).max(SEGMENT);
            drop(file);
            let kept = quarantine::take(&*self.shared.disk, &name)?;
            let what =
                format!("{}/{name} at byte 0: {wrong}; it was moved to {kept}", self.shared.disk.place());
            trail.hole(Hole { from: (number, 0), to: (number + 1, 0), bytes, what });
            moved.push(number);
        }
        Ok((logs, moved))
    }

    /// Takes over what a segment says.
    fn fold(
        &mut self,
        log: &Log,
        end: Option<u64>,
        after: u64,
        trail: &mut Trail,
    ) -> io::Result<(Arc<Segment>, Outcome, HashSet<u32, RandomState>)> {
        let shared = self.shared.clone();
        let id = SegmentId::Log(log.header.number);
        let segment =
            Segment::new(id, log.file.clone(), log.header.nonce, header::LEN as u64, Shared::empty_index());
        let size = log.file.size()?;
        let segment = Arc::new(segment.with_capacity(size));
        if let Some(wrong) = &log.wrong {
            segment.damaged.store(true, Relaxed);
            let place = shared.place(&segment, 0);
            shared
                .health
                .found(format!("{place}: {wrong}; it is read as if it were not, no record is missing"), 1);
        }
        // A segment does not get shorter before a manifest covers it; what was behind its end was as safe as the rest.
        let cut_short = end.is_none() && log.header.bytes > size;
        let end = end.or(cut_short.then_some(log.header.bytes));
        let mut fold = Fold {
            recovery: self,
            segment: &segment,
            index: SegmentIndex::default(),
            named: HashSet::default(),
            reserved: HashMap::default(),
            trail,
        };
        let mut outcome = scan(&*segment.file, segment.seal, end, after, &mut |at| fold.frame(&at))?;
        let Fold { index, named, .. } = fold;
        add_unreadable(&segment, &mut outcome);
        segment.end.store(outcome.end, Relaxed);
        for Damage { bytes, what } in &outcome.damage {
            segment.damaged.store(true, Relaxed);
            let (place, len) = (shared.place(&segment, bytes.start), bytes.end - bytes.start);
            trail.hole(Hole {
                from: (id.number(), bytes.start),
                to: (id.number(), bytes.end),
                bytes: len,
                what: format!("{place}, {len} bytes: {what}"),
            });
        }
        *segment.index.write() = Index::Open(index);
        Ok((segment, outcome, named))
    }

    fn jump(&mut self, topic: &Arc<Topic>, last: u64) {
        topic.state.lock().jump(last);
        self.jumps.push((topic.clone(), last));
    }

    /// Takes what was torn off out of the segment, so that it can be written to.
    fn cut(&self, segment: &Segment, outcome: &Outcome) -> io::Result<()> {
        let shared = &self.shared;
        if let Some(torn) = &outcome.torn {
            let mut bytes = vec![0; (torn.end - torn.start) as usize];
            let read = segment.file.read_at(&mut bytes, torn.start, Wait::Yes)?;
            let name = format!("{}.torn-{}", segment.id, torn.start);
            let name = quarantine::copy(&*shared.disk, &name, &bytes[..read])?;
            bytes.fill(0);
            segment.file.write_at(&bytes, torn.start)?;
            segment.file.sync()?;
            tracing::warn!(
                segment = %segment.id, at = torn.start, bytes = bytes.len(), name,
                "the last commit was cut short, nobody was told that it is safe: it is in quarantine"
            );
        }
        Ok(())
    }

    /// After a power loss the numbering of relaxed topics goes on above whatever a reader can have seen.
    fn raise(&mut self, closed: bool) {
        let same_life = self.boot != 0 && self.boot == self.shared.boot;
        let lost_power = !closed && !same_life;
        // A disk that lies about its syncs can have lost more; who has settled an event has seen it.
        let mut seen: BTreeMap<TopicName, u64> = BTreeMap::new();
        for ((topic, _), group) in &self.shared.catalog.groups.lock().groups {
            let seen = seen.entry(topic.clone()).or_default();
            *seen = (*seen).max(group.state.high);
        }
        for topic in self.shared.catalog.topics() {
            let (last, reserved) = {
                let state = topic.state.lock();
                (state.meta.last, state.meta.reserved)
            };
            let seen = seen.get(&topic.name).copied().unwrap_or_default();
            let next = if lost_power { seen.max(reserved) } else { seen };
            if next > last {
                tracing::warn!(topic = %topic.name, last, next, "events were lost, their seqs are not given again");
                self.jump(&topic, next);
            }
        }
    }
}

/// Sectors behind the end that cannot be read look like zeros, as if nothing had been written there. But it may have been,
/// and safe: it is damage, and not a torn end.
fn add_unreadable(segment: &Segment, outcome: &mut Outcome) {
    for bytes in segment.file.unreadable() {
        let is_told = |damage: &Damage| damage.bytes.start <= bytes.start && bytes.end <= damage.bytes.end;
        if bytes.end > outcome.end && !outcome.damage.iter().any(is_told) {
            outcome.damage.push(Damage { bytes, what: "the disk cannot read it".into() });
        }
    }
}

/// After a killed process the last commits may be in memory only, and after a failed sync no sync would write them: they
/// are handed out from here on, so they are written once more.
fn secure(segment: &Segment, outcome: &Outcome) -> io::Result<()> {
    if outcome.synced_end < outcome.end {
        let mut bytes = vec![0; (outcome.end - outcome.synced_end) as usize];
        let read = segment.file.read_at(&mut bytes, outcome.synced_end, Wait::Yes)?;
        segment.file.write_at(&bytes[..read], outcome.synced_end)?;
        segment.file.sync()?;
    }
    Ok(())
}

/// Takes over the frames of one segment.
struct Fold<'a> {
    recovery: &'a mut Recovery,
    segment: &'a Arc<Segment>,
    index: SegmentIndex,
    named: HashSet<u32, RandomState>,
    /// Seqs reserved by topics whose names are not known yet.
    reserved: HashMap<u32, u64, RandomState>,
    trail: &'a mut Trail,
}

impl Fold<'_> {
    fn frame(&mut self, at: &At<'_>) {
        if let Err(what) = self.try_frame(at) {
            let shared = &self.recovery.shared;
            self.segment.damaged.store(true, Relaxed);
            shared.health.found(format!("{}: {what}", shared.place(self.segment, at.offset)), 1);
        }
    }

    /// The topic of an event. If the frame that names it is damaged, the event does.
    fn topic_of(&mut self, number: u32, committed: Millis, json: &[u8]) -> Result<Arc<Topic>, String> {
        let catalog = &self.recovery.shared.catalog;
        if let Some(topic) = catalog.numbered(number) {
            return Ok(topic);
        }
        let event = Event::from_json(Bytes::copy_from_slice(json), committed);
        let event =
            event.map_err(|error| format!("an event of topic {number}, which is unknown: {}", error.msg))?;
        let topic = catalog.add(number, event.topic(), Default::default())?;
        topic.state.lock().meta.reserved = self.reserved.remove(&number).unwrap_or_default();
        Ok(topic)
    }

    fn try_frame(&mut self, at: &At<'_>) -> Result<(), String> {
        let shared = self.recovery.shared.clone();
        let here = (self.segment.id.number(), at.offset);
        let topic = |number| {
            let topic = shared.catalog.numbered(number);
            topic.ok_or_else(|| format!("a frame of topic {number}, which is unknown"))
        };
        match &at.entry {
            Content::Topic(number, name) => {
                shared.catalog.take_number(*number);
                shared.catalog.add(*number, name, Default::default())?;
                self.named.insert(*number);
            }
            Content::Event(number, committed, json) => {
                shared.catalog.take_number(*number);
                let topic = self.topic_of(*number, *committed, json)?;
                let event = event(Bytes::copy_from_slice(json), *committed, &topic.name)
                    .map_err(|error| error.to_string())?;
                let mut state = topic.state.lock();
                let expected = state.meta.last + 1;
                self.trail.record(&topic, expected, event.seq(), here);
                if event.seq() < expected {
                    // Readers had seen it, a sync failed, and it was written again here: it was counted before.
                    if state.spans.last().is_some_and(|span| span.last >= event.seq()) {
                        return Err(format!("seq {} of {} comes again", event.seq(), topic.name));
                    }
                    state.extend(self.segment, event.seq(), event.seq());
                    drop(state);
                    return rebuild::add(&mut self.index, shared.seed, at, |_| Some(topic.clone()));
                }
                let meta = &mut state.meta;
                (meta.last, meta.last_committed) = (event.seq(), *committed);
                meta.events += 1;
                meta.bytes += json.len() as u64;
                state.extend(self.segment, event.seq(), event.seq());
                drop(state);
                rebuild::add(&mut self.index, shared.seed, at, |_| Some(topic.clone()))?;
            }
            Content::Past(..) => return Err("what is left of a record, in a log".into()),
            Content::Cleaned(number, cleaned) => topic(*number)?.state.lock().clean(cleaned),
            Content::Reserved(number, upto) => match shared.catalog.numbered(*number) {
                Some(topic) => {
                    let mut state = topic.state.lock();
                    state.meta.reserved = state.meta.reserved.max(*upto);
                }
                None => drop(self.reserved.insert(*number, *upto)),
            },
            Content::Jump(number, last) => {
                let topic = topic(*number)?;
                let mut state = topic.state.lock();
                self.trail.jump(&topic, state.meta.last + 1, *last, here);
                state.jump(*last);
            }
            Content::Opened(boot) => self.recovery.boot = *boot,
            Content::Record(record) => shared.catalog.groups.lock().apply(Clone::clone(record)),
            Content::Mark(_) => {}
        }
        Ok(())
    }
}
