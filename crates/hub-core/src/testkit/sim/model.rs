//! What the engine is allowed to do, and what it must.
//!
//! The model keeps the whole history. It is told what was asked and what the engine did, and answers with an error in
//! words when that breaks a promise. It knows nothing of how the engine works.

use crate::group::options::GroupOptions;
use crate::{Millis, Ordering};
use hub_proto::{EventId, GroupName, Key, TopicName};
use std::collections::{BTreeMap, BTreeSet};

/// A promise that was broken, in words.
pub(super) type Broken = String;

/// What a crash may undo: what was done within this time before it.
const UNSAVED: Millis = 200;

#[derive(Default)]
pub(super) struct Model {
    pub now: Millis,
    /// Since then nothing has gone wrong with the store.
    pub healthy_since: Millis,
    pub topics: BTreeMap<TopicName, Log>,
    pub groups: BTreeMap<(TopicName, GroupName), Group>,
}

/// Every event a topic ever had.
#[derive(Default)]
pub(super) struct Log {
    pub events: Vec<Known>,
    /// Seqs that cleaning has left.
    pub present: BTreeSet<u64>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub id: EventId,
    pub key: Option<Key>,
    pub payload: Vec<u8>,
}

/// Who holds an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub member: u64,
    pub attempt: u32,
    pub epoch: u64,
    pub deadline: Millis,
}

/// Whether an event was acked, or became a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ack {
    #[default]
    No,
    /// And a crash may undo it for a while.
    At(Millis),
    /// And nothing undoes it.
    Safe,
    /// A crash came too soon to know.
    Perhaps,
}

#[derive(Default)]
struct Track {
    ack: Ack,
    attempt: u32,
    /// A crash has made the number of attempts uncertain.
    fuzzy: u32,
    /// Failures at least and at most, up to the last crash, and the times of those since.
    at_least: u32,
    at_most: u32,
    failed: Vec<Millis>,
    lease: Option<Lease>,
    /// Not to be had before; and by then at the latest.
    due: Millis,
    due_by: Millis,
    /// A dead letter exists.
    letter: bool,
}

impl Track {
    fn failures(&self) -> (u32, u32) {
        let since = self.failed.len() as u32;
        (self.at_least + since, self.at_most + since)
    }

    /// A failure after which the event may go out at once, unless it has failed too often on a dead-letter topic.
    fn fail(&mut self, now: Millis, bury: bool, max: u32) {
        self.failed.push(now);
        let wait = |failures: u32| if !bury && failures >= max { 30_000 } else { 0 };
        let (fewest, most) = self.failures();
        (self.due, self.due_by) = (now + wait(fewest), now + wait(most));
    }
}

pub(super) struct Group {
    pub options: GroupOptions,
    start: u64,
    tracks: BTreeMap<u64, Track>,
    floor: u64,
    /// Per key, the newest seq delivered to a coalescing group.
    newest: BTreeMap<Key, u64>,
    bury: bool,
}

impl Group {
    pub fn new(topic: &TopicName, options: GroupOptions, start: u64) -> Self {
        let bury = !topic.is_dead_letter();
        Self { options, start, tracks: BTreeMap::new(), floor: start, newest: BTreeMap::new(), bury }
    }

    fn ordered(&self) -> bool {
        self.options.coalesce || self.options.ordering == Ordering::Key
    }

    fn wants(&self, known: &Known) -> bool {
        self.options.filter.key.as_deref().is_none_or(|key| known.key.as_deref() == Some(key))
    }

    fn track(&self, seq: u64) -> Option<&Track> {
        self.tracks.get(&seq)
    }

    fn is_overtaken(&self, log: &Log, seq: u64) -> bool {
        self.options.coalesce && log.key(seq).is_some_and(|key| log.newest_of(key) > seq)
    }

    /// Whether nothing more has to happen to an event. `sure`: a crash has not left it open.
    fn is_settled(&self, log: &Log, seq: u64, sure: bool) -> bool {
        let acked = self.track(seq).is_some_and(|track| match track.ack {
            // Given up once more after a crash: the letter of the first time counts. The crash may have forgotten the last
            // failure, though, and the event is tried again.
            Ack::No => {
                let (fewest, most) = track.failures();
                track.letter && (if sure { fewest } else { most }) >= self.options.max_attempts
            }
            Ack::Perhaps => !sure,
            Ack::At(_) | Ack::Safe => true,
        });
        seq <= self.start
            || acked
            || !log.present.contains(&seq)
            || !self.wants(&log.events[seq as usize - 1])
            || self.is_overtaken(log, seq)
    }

    /// Whether the engine owes the event to a member that has room.
    fn is_due(&self, log: &Log, seq: u64, now: Millis) -> bool {
        let free = self.track(seq).is_none_or(|track| {
            track.lease.is_none() && track.due_by + 20 < now && track.failures().1 < self.options.max_attempts
        });
        free && !self.is_settled(log, seq, false) && !self.is_blocked(log, seq, true)
    }

    /// Whether an older event of the same key is open; with `perhaps`, whether it may be.
    fn is_blocked(&self, log: &Log, seq: u64, perhaps: bool) -> bool {
        let Some(key) = log.key(seq).filter(|_| self.ordered()) else { return false };
        (self.floor.max(self.start) + 1..seq).any(|older| {
            log.key(older) == Some(key)
                && (!self.is_settled(log, older, perhaps) || self.holder(older).is_some())
        })
    }

    fn holder(&self, seq: u64) -> Option<Lease> {
        self.track(seq).and_then(|track| track.lease)
    }
}

impl Log {
    pub fn last(&self) -> u64 {
        self.events.len() as u64
    }

    pub fn key(&self, seq: u64) -> Option<&Key> {
        self.events.get(seq as usize - 1).and_then(|known| known.key.as_ref())
    }

    pub fn newest_of(&self, key: &Key) -> u64 {
        let newest = self.events.iter().rposition(|known| known.key.as_ref() == Some(key));
        newest.map_or(0, |at| at as u64 + 1)
    }
}

impl Model {
    fn parts(&mut self, at: &(TopicName, GroupName)) -> Option<(&Log, &mut Group)> {
        Some((self.topics.get(&at.0)?, self.groups.get_mut(at)?))
    }

    /// A consumer got an event in hand.
    pub fn delivered(
        &mut self,
        at: &(TopicName, GroupName),
        seq: u64,
        known: &Known,
        lease: Lease,
    ) -> Result<(), Broken> {
        let now = self.now;
        let Some((log, group)) = self.parts(at) else { return Err(format!("{at:?} is not a group")) };
        if log.events.get(seq as usize - 1) != Some(known) {
            return Err(format!("{at:?} got an event at {seq} that is not the one in the log"));
        }
        if seq <= group.start {
            return Err(format!("{at:?} got {seq}, before its start {}", group.start));
        }
        if !group.wants(known) {
            return Err(format!("{at:?} got {seq}, which its filter refuses"));
        }
        if group.is_blocked(log, seq, false) {
            return Err(format!("{at:?} got {seq} before an older open event of its key"));
        }
        if let (true, Some(key)) = (group.options.coalesce, &known.key) {
            let newest = group.newest.entry(key.clone()).or_default();
            if *newest > seq {
                return Err(format!("{at:?} got {seq} of key {key} after {newest}"));
            }
            *newest = seq;
        }
        let max = group.options.max_attempts;
        let bury = group.bury;
        let track = group.tracks.entry(seq).or_default();
        if matches!(track.ack, Ack::At(_) | Ack::Safe) {
            return Err(format!("{at:?} got {seq} again after it was acked ({:?})", track.ack));
        }
        if bury && track.failures().0 >= max {
            return Err(format!("{at:?} got {seq} again after it was given up"));
        }
        if let Some(holder) = track.lease.filter(|holder| holder.deadline > now) {
            return Err(format!("{at:?} gave {seq} to {lease:?} while it is with {holder:?}"));
        }
        if track.due > now {
            return Err(format!("{at:?} got {seq} at {now}, before its time {}", track.due));
        }
        let expected = track.attempt + 1;
        let fits = match track.fuzzy {
            0 => lease.attempt == expected,
            crashes => (1..=expected + crashes).contains(&lease.attempt),
        };
        if !fits {
            return Err(format!("{at:?} got {seq} as attempt {}, after {}", lease.attempt, track.attempt));
        }
        track.ack = Ack::No;
        track.attempt = lease.attempt;
        track.fuzzy = 0;
        track.lease = Some(lease);
        Ok(())
    }

    /// Whether a lease is in force.
    pub fn holds(&self, at: &(TopicName, GroupName), seq: u64, lease: Lease) -> bool {
        let holder = self.groups.get(at).and_then(|group| group.holder(seq));
        holder.is_some_and(|holder| {
            Lease { deadline: holder.deadline, ..lease } == holder && holder.deadline > self.now
        })
    }

    pub fn acked(&mut self, at: &(TopicName, GroupName), seq: u64) {
        let now = self.now;
        if let Some(track) = self.groups.get_mut(at).and_then(|group| group.tracks.get_mut(&seq)) {
            (track.ack, track.lease) = (Ack::At(now), None);
        }
    }

    pub fn nacked(&mut self, at: &(TopicName, GroupName), seq: u64, delay: Option<Millis>) {
        let now = self.now;
        let Some(group) = self.groups.get_mut(at) else { return };
        let (bury, max) = (group.bury, group.options.max_attempts);
        if let Some(track) = group.tracks.get_mut(&seq) {
            let (fewest, most) = track.failures();
            let wait = |failures: u32| match !bury && failures + 1 >= max {
                true => 30_000,
                false => delay.unwrap_or((20 << failures.min(16)).min(30_000)),
            };
            (track.due, track.due_by) = (now + wait(fewest), now + wait(most));
            track.failed.push(now);
            track.lease = None;
        }
    }

    /// An event was given back, which is not its failure.
    pub fn returned(&mut self, at: &(TopicName, GroupName), seq: u64, delay: Millis) {
        let due = self.now + delay;
        if let Some(track) = self.groups.get_mut(at).and_then(|group| group.tracks.get_mut(&seq)) {
            (track.due, track.due_by, track.lease) = (due, due, None);
        }
    }

    pub fn extended(&mut self, at: &(TopicName, GroupName), seq: u64, deadline: Millis) {
        let track = self.groups.get_mut(at).and_then(|group| group.tracks.get_mut(&seq));
        if let Some(lease) = track.and_then(|track| track.lease.as_mut()) {
            lease.deadline = lease.deadline.max(deadline);
        }
    }

    /// Leases that have run out count a failure.
    pub fn expire(&mut self) {
        let now = self.now;
        for group in self.groups.values_mut() {
            let (bury, max) = (group.bury, group.options.max_attempts);
            for track in group.tracks.values_mut() {
                if let Some(lease) = track.lease.take_if(|lease| lease.deadline <= now) {
                    track.fail(lease.deadline, bury, max);
                }
            }
        }
    }

    /// A member is gone, with what it held; `blamed` are the events of which one counts a failure.
    pub fn left(&mut self, member: u64, blamed: &[((TopicName, GroupName), u64)]) {
        let now = self.now;
        for (at, group) in &mut self.groups {
            let (bury, max) = (group.bury, group.options.max_attempts);
            for (&seq, track) in &mut group.tracks {
                if track.lease.is_none_or(|lease| lease.member != member) {
                    continue;
                }
                track.lease = None;
                (track.due, track.due_by) = (now, now);
                match blamed.contains(&(at.clone(), seq)) {
                    true if blamed.len() == 1 => track.fail(now, bury, max),
                    true => track.at_most += 1,
                    false => {}
                }
            }
        }
    }

    /// The hub is down. `clean`: it said that everything was saved.
    pub fn down(&mut self, clean: bool) {
        let (now, healthy) = (self.now, self.healthy_since);
        let saved = |at: Millis| clean || (now - at >= UNSAVED && healthy <= at);
        for group in self.groups.values_mut() {
            group.floor = group.start;
            for track in group.tracks.values_mut() {
                let safe = track.failed.iter().filter(|&&at| saved(at)).count() as u32;
                track.at_least += safe;
                track.at_most += track.failed.len() as u32;
                track.failed.clear();
                track.lease = None;
                (track.due, track.due_by) = (0, now);
                track.fuzzy += 1;
                track.ack = match track.ack {
                    Ack::At(at) if saved(at) => Ack::Safe,
                    Ack::At(_) => Ack::Perhaps,
                    ack => ack,
                };
            }
        }
    }

    /// A dead letter was found.
    pub fn buried(&mut self, at: &(TopicName, GroupName), seq: u64) -> Result<(), Broken> {
        let now = self.now;
        let Some((_, group)) = self.parts(at) else { return Ok(()) };
        let max = group.options.max_attempts;
        let track = group.tracks.entry(seq).or_default();
        if track.letter {
            return Err(format!("{at:?} wrote two dead letters for {seq}"));
        }
        if track.failures().1 < max {
            return Err(format!("{at:?} gave {seq} up after {} failures of {max}", track.failures().1));
        }
        if matches!(track.ack, Ack::At(_) | Ack::Safe) {
            return Err(format!("{at:?} gave {seq} up after it was acked"));
        }
        // Like an ack: within a moment a crash may undo that it is settled, but never the letter.
        (track.letter, track.ack, track.lease) = (true, Ack::At(now), None);
        Ok(())
    }

    pub fn set_cursor(&mut self, at: &(TopicName, GroupName), seq: u64) {
        if let Some(group) = self.groups.get_mut(at) {
            group.start = seq;
            group.floor = seq;
            group.tracks.clear();
            group.newest.clear();
        }
    }

    /// The floor only passes what is settled, and never goes back.
    pub fn floor(&mut self, at: &(TopicName, GroupName), floor: u64) -> Result<(), Broken> {
        let Some((log, group)) = self.parts(at) else { return Err(format!("{at:?} is not a group")) };
        if floor < group.floor {
            return Err(format!("the floor of {at:?} went back from {} to {floor}", group.floor));
        }
        if floor > log.last() {
            return Err(format!("the floor of {at:?} is {floor}, beyond the end {}", log.last()));
        }
        if let Some(open) = (group.floor + 1..=floor).find(|&seq| !group.is_settled(log, seq, false)) {
            return Err(format!("the floor of {at:?} is {floor} and passes {open}, which is open"));
        }
        group.floor = floor;
        Ok(())
    }

    /// An event that the engine should have given to a group's only member, which has room.
    pub fn owed(&self, at: &(TopicName, GroupName), max_parked: usize) -> Option<u64> {
        let (log, group) = (self.topics.get(&at.0)?, self.groups.get(at)?);
        // What is overtaken may still be parked: the group does not know before it reads on. So may what was acked and
        // perhaps not saved.
        let tried = |seq: u64| group.track(seq).is_some_and(|track| track.ack == Ack::No);
        let overtaken = |seq: u64| group.is_overtaken(log, seq) && tried(seq);
        let open = |seq: &u64| {
            (!group.is_settled(log, *seq, true) || overtaken(*seq)) && group.holder(*seq).is_none()
        };
        let from = group.floor.max(group.start) + 1;
        if (from..=log.last()).filter(open).count() > max_parked {
            return None;
        }
        (from..=log.last()).find(|&seq| group.is_due(log, seq, self.now))
    }

    /// Everything is over: whatever is not settled was lost.
    pub fn drained(&self, at: &(TopicName, GroupName)) -> Result<(), Broken> {
        let (Some(log), Some(group)) = (self.topics.get(&at.0), self.groups.get(at)) else { return Ok(()) };
        let max = group.options.max_attempts;
        for seq in group.start + 1..=log.last() {
            if !group.is_settled(log, seq, false) {
                return Err(format!("{at:?} lost {seq}"));
            }
            let unburied = |track: &Track| track.failures().0 >= max && !track.letter && track.ack == Ack::No;
            let covered = log.present.contains(&seq) && !group.is_overtaken(log, seq);
            if group.bury && covered && group.track(seq).is_some_and(unburied) {
                return Err(format!("{at:?} gave {seq} up without a dead letter"));
            }
        }
        Ok(())
    }
}
