//! A store on a simulated disk, a random workload, and the model beside it.

use super::model::{End, Model, Seen, Sent, Verdict};
use super::tools::{Rng, now};
use hub_core::store::{
    CleanPolicy, Commit, EventStore, GroupRecord, Health, Progress, Record, StoreError, SubscriptionRecord,
    Tries,
};
use hub_proto::{Draft, EventId, GroupName, IdGenerator, NewEvent, Payload, TopicName};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, OpenError, Options, Threads};
use std::sync::Arc;

/// `c` is compacted, `r` and `rk` are relaxed, `rk` has keys as well.
const TOPICS: [&str; 5] = ["a", "b", "c", "r", "rk"];
const START: u64 = 1_780_000_000_000;

/// See the module.
pub struct World {
    pub disk: SimDisk,
    pub store: Option<EmbeddedStore>,
    pub model: Model,
    pub rng: Rng,
    pub options: Options,
    ids: IdGenerator,
    time: u64,
    made: u64,
    /// Whether the disk may refuse something while the power is on.
    pub faults: bool,
    /// Commits and cleanings that were refused with the power on.
    pub refused: u64,
}

/// Segments so small that everything happens within a few commits.
pub fn tiny(rng: &mut Rng) -> Options {
    Options {
        segment_bytes: 2048 + 512 * rng.below(5),
        segment_events: if rng.chance(30) { 6 } else { 400_000 },
        unsynced_bytes: if rng.chance(30) { 600 } else { 1 << 20 },
        reserve: 1 + rng.below(30),
        disk_reserve: 1024,
        // So few that files are opened and closed all the time.
        open_files: 2,
        threads: Threads::None,
        ..Options::default()
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let options = tiny(&mut rng);
        Self {
            disk: SimDisk::new(rng.next()),
            store: None,
            model: Model::default(),
            options,
            ids: IdGenerator::seeded(rng.next()),
            rng,
            time: START,
            made: 0,
            faults: false,
            refused: 0,
        }
    }

    /// A world on a copy of the directory, which has what `model` knows.
    pub fn on_copy(&self, disk: SimDisk, model: Model) -> Self {
        Self {
            disk,
            store: None,
            model,
            rng: self.rng.clone(),
            options: self.options.clone(),
            ids: IdGenerator::seeded(self.time),
            time: self.time,
            made: self.made,
            faults: false,
            refused: 0,
        }
    }

    pub fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    pub fn health(&self) -> Health {
        self.store().health()
    }

    /// Opens the store, for this life.
    pub fn open(&mut self) -> Result<(), OpenError> {
        // The one before may still be there; its handles are dead.
        self.store = None;
        let disk = Arc::new(self.disk.for_this_life());
        self.store = Some(EmbeddedStore::open_on(disk, self.options.clone())?);
        Ok(())
    }

    /// Opens the store after a life, and checks everything.
    pub fn reopen(&mut self, end: End) -> Verdict {
        let mut opened = self.open();
        if self.disk.is_out() {
            return Ok(());
        }
        if opened.is_err() && self.faults {
            self.refused += 1;
            self.disk.heal();
            opened = self.open();
        }
        opened.map_err(|error| format!("after {end:?} it does not open: {error}"))?;
        self.look(end)
    }

    /// Everything is as it has to be at the beginning of a life.
    pub fn look(&mut self, end: End) -> Verdict {
        let seen = Seen::of(self.store())
            .map_err(|what| format!("after {end:?}: {what}; {:?}; {:?}", self.health(), self.disk.names()))?;
        let same = self.model.reopened(&seen, end);
        same.map_err(|what| format!("{what}\n{:?}", self.health()))?;
        self.model.lookups(self.store())?;
        let health = self.health();
        // Upkeep may have met a fault; it is tried again.
        if health.damaged > 0 || health.unavailable.is_some() || !self.faults && health != Health::default() {
            return Err(format!("after {end:?} it is not well: {health:?}"));
        }
        Ok(())
    }

    /// The power fails and is back.
    pub fn lose_power(&mut self, luck: u64) {
        self.disk.power_loss(luck);
        self.store = None;
    }

    /// The process is killed.
    pub fn die(&mut self) {
        self.disk.process_death();
        self.store = None;
    }

    /// Does something. After it the power may be out.
    pub fn step(&mut self) -> Verdict {
        self.time = (self.time + self.rng.below(60)).saturating_sub(if self.rng.chance(2) { 500 } else { 0 });
        match self.rng.below(100) {
            0..62 => self.publish(),
            62..72 => self.resend(),
            72..82 => self.save(),
            82..93 => self.clean(),
            93..96 => self.check(),
            96..98 => self.restart(),
            _ => {
                self.die();
                self.reopen(End::Death)
            }
        }
    }

    /// Publishes, saves and cleans, in one life of the store.
    pub fn work(&mut self, steps: u64) -> Verdict {
        for _ in 0..steps {
            self.time += self.rng.below(60);
            match self.rng.below(90) {
                0..60 => self.publish(),
                60..70 => self.resend(),
                70..80 => self.save(),
                _ => self.clean(),
            }?;
        }
        Ok(())
    }

    pub fn steps(&mut self, steps: u64) -> Verdict {
        for step in 0..steps {
            if self.disk.is_out() {
                break;
            }
            self.step().map_err(|what| format!("at step {step}: {what}"))?;
        }
        Ok(())
    }

    /// What a reader sees is what was answered.
    pub fn check(&mut self) -> Verdict {
        self.model.check(&Seen::of(self.store())?)?;
        self.model.lookups(self.store())
    }

    fn id(&mut self) -> EventId {
        self.made += 1;
        match self.rng.chance(70) {
            true => self.ids.next(self.time),
            false => EventId::derived(&[&self.made.to_be_bytes(), &self.rng.next().to_be_bytes()]),
        }
    }

    fn draft(&mut self, topic: &str, id: EventId) -> Draft {
        let len = match self.rng.below(100) {
            0..2 => 3000,
            2..7 => 900,
            _ => self.rng.below(160),
        };
        self.made += 1;
        let payload = format!("\"{}{}\"", self.made, "x".repeat(len as usize));
        let mut event = NewEvent::new(name(topic), Payload::from_json(payload).unwrap());
        if matches!(topic, "c" | "rk") && self.rng.chance(85) {
            event = event.with_key(format!("k{}", self.rng.below(4)));
            if self.rng.chance(15) {
                event.payload = Payload::from_json("null".to_owned()).unwrap();
            }
        }
        let mut draft = Draft::encode(event, id, self.time);
        draft.set_relaxed(topic.starts_with('r'));
        draft
    }

    fn topic(&mut self, relaxed: bool) -> String {
        match (relaxed, self.rng.below(12)) {
            (true, at) => TOPICS[3 + at as usize % 2].to_owned(),
            (false, 0) => format!("new{}", self.rng.below(4)),
            (false, at) => TOPICS[at as usize % 3].to_owned(),
        }
    }

    fn publish(&mut self) -> Verdict {
        let count = if self.rng.chance(60) { 1 } else { 1 + self.rng.below(5) };
        let kind = self.rng.below(10);
        let mut drafts = Vec::new();
        for _ in 0..count {
            // Some commits are all durable, some all relaxed, some both.
            let relaxed = kind < 4 || kind < 6 && self.rng.chance(50);
            let (topic, id) = (self.topic(relaxed), self.id());
            drafts.push(self.draft(&topic, id));
        }
        self.commit(drafts, Vec::new()).map(drop)
    }

    /// An old id once more, with the same content or another, alone or among new ones.
    fn resend(&mut self) -> Verdict {
        let topics: Vec<&TopicName> = self.model.topics.keys().collect();
        if topics.is_empty() {
            return Ok(());
        }
        let topic = (*self.rng.pick(&topics)).clone();
        let known = self.model.topics[&topic].known();
        if known.is_empty() {
            return Ok(());
        }
        let (id, seq) = *self.rng.pick(&known);
        let mut drafts = Vec::new();
        if self.rng.chance(80) {
            let first = &self.model.topics[&topic].events[&seq];
            let payload = Payload::from_json(String::from_utf8(first.payload().to_vec()).unwrap()).unwrap();
            let mut event = NewEvent::new(topic.clone(), payload);
            event.options.key = first.key().map(|key| key.to_string());
            let mut draft = Draft::encode(event, id, first.ts());
            draft.set_relaxed(topic.starts_with('r'));
            drafts.push(draft);
        } else {
            drafts.push(self.draft(&topic, id));
        }
        if self.rng.chance(30) {
            let id = self.id();
            drafts.push(self.draft(&topic, id));
        }
        self.commit(drafts, Vec::new()).map(drop)
    }

    /// Groups, their progress, subscriptions; alone or with an event.
    fn save(&mut self) -> Verdict {
        let group = |number: u64| GroupName::parse(&format!("g{number}")).unwrap();
        let mut records = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let (topic, group) = (name(self.rng.pick::<&str>(&TOPICS)), group(self.rng.below(3)));
            let last = self.model.topics.get(&topic).map_or(0, |log| log.last);
            let idle_since = self.rng.chance(50).then_some(self.time);
            let label = format!("p{}.*", self.rng.below(3));
            records.push(match self.rng.below(12) {
                0..4 => Record::Group(GroupRecord {
                    topic,
                    name: group,
                    options: Default::default(),
                    created: self.time,
                    idle_since,
                    driven: false,
                    born: self.rng.below(5),
                }),
                4..9 => {
                    let high = self.rng.below(last + 1);
                    let floor = self.rng.below(high + 1);
                    let (reset, epoch) = (self.rng.chance(20), self.rng.below(3));
                    let tries = Tries { attempts: self.rng.below(9) as u32, failures: 2 };
                    let settled = if high > floor + 1 { vec![(floor + 2, high)] } else { Vec::new() };
                    let tries = vec![(floor + 1, tries)];
                    Record::Progress(topic, group, Progress { epoch, reset, floor, high, settled, tries })
                }
                9 => Record::GroupGone(topic, group),
                10 => Record::Subscription(SubscriptionRecord {
                    label,
                    group,
                    topics: vec![topic],
                    options: Default::default(),
                    created: self.time,
                    idle_since,
                }),
                _ => Record::SubscriptionGone(label, group),
            });
        }
        let mut drafts = Vec::new();
        if self.rng.chance(40) {
            let relaxed = self.rng.chance(50);
            let (topic, id) = (self.topic(relaxed), self.id());
            drafts.push(self.draft(&topic, id));
        }
        self.commit(drafts, records).map(drop)
    }

    /// Hands a commit in. True if it was done.
    pub fn commit(&mut self, events: Vec<Draft>, records: Vec<Record>) -> Result<bool, String> {
        let sent = events.iter().map(Sent::of).collect();
        let has_events = !events.is_empty();
        let commit = Commit { now: self.time, events, records: records.clone(), ..Commit::default() };
        let (before, written) = (self.health().failed_commits, self.model.counts.written());
        let answer = now(self.store().commit(commit));
        let done = self.model.answered(sent, records, &answer)?;
        let health = self.health();
        if done {
            // What was all known already needed no disk, and says nothing about it.
            // Records alone say nothing about a disk that is too full for events.
            let wrote = has_events && self.model.counts.written() > written;
            if (wrote && health.unavailable.is_some()) || health.failed_commits != before {
                return Err(format!("a commit was done, and the store says {health:?}"));
            }
        } else {
            self.is_allowed(&format!("{answer:?}"))?;
            let why = health.unavailable.as_deref().unwrap_or_default();
            let told = answer.events.iter().filter_map(|result| result.as_ref().err());
            let mut told = told.chain(answer.records.iter().filter_map(|result| result.as_ref().err()));
            let same = |error: &StoreError| *error == StoreError::Unavailable(why.to_owned());
            if why.is_empty() || !told.all(same) || health.failed_commits != before + 1 {
                return Err(format!("{answer:?}, and the store says {health:?}"));
            }
        }
        Ok(done)
    }

    /// An event on a topic. True if it was taken.
    pub fn put(&mut self, topic: &str) -> Result<bool, String> {
        let id = self.id();
        let draft = self.draft(topic, id);
        self.commit(vec![draft], Vec::new())
    }

    /// One that takes a good part of a segment.
    pub fn put_large(&mut self, topic: &str) -> Result<bool, String> {
        self.put_sized(topic, 700)
    }

    /// One that fits in almost anywhere.
    pub fn put_tiny(&mut self, topic: &str) -> Result<bool, String> {
        self.put_sized(topic, 1)
    }

    fn put_sized(&mut self, topic: &str, len: usize) -> Result<bool, String> {
        let payload = Payload::from_json(format!("\"{}\"", "y".repeat(len))).unwrap();
        let mut draft = Draft::encode(NewEvent::new(name(topic), payload), self.id(), self.time);
        draft.set_relaxed(topic.starts_with('r'));
        self.commit(vec![draft], Vec::new())
    }

    fn clean(&mut self) -> Verdict {
        let topics: Vec<&TopicName> = self.model.topics.keys().collect();
        if topics.is_empty() {
            return Ok(());
        }
        let topic = (*self.rng.pick(&topics)).clone();
        let mut policy = CleanPolicy::default();
        if self.rng.chance(40) {
            policy.committed_before = Some(self.time.saturating_sub(self.rng.below(700)));
        }
        if self.rng.chance(40) {
            policy.max_bytes = Some(100 + self.rng.below(1500));
        }
        policy.compact = matches!(topic.as_str(), "c" | "rk") && self.rng.chance(70);
        policy.tombstones_before = self.time.saturating_sub(self.rng.below(400));
        if self.rng.chance(40) {
            policy.ids_since = self.time.saturating_sub(1000 + self.rng.below(2000));
        }
        let gone = self.model.cleaning(&topic, &policy);
        let answer = now(self.store().clean(&topic, policy));
        match &answer {
            Ok(cleaned) if cleaned.removed != gone.len() as u64 => {
                return Err(format!("cleaning {topic} by {policy:?} took {cleaned:?}, not {gone:?}"));
            }
            Ok(_) => {}
            Err(error) => self.is_allowed(&error.to_string())?,
        }
        self.model.cleaned(&topic, gone, answer.is_ok());
        Ok(())
    }

    fn restart(&mut self) -> Verdict {
        let closed = now(self.store().close());
        if let Err(error) = &closed {
            self.is_allowed(&format!("closing: {error}"))?;
        }
        if self.disk.is_out() {
            return Ok(());
        }
        self.reopen(if closed.is_ok() { End::Closed } else { End::Death })
    }

    /// Something was refused: the disk must have given a reason, and the store must say so.
    fn is_allowed(&mut self, what: &str) -> Verdict {
        if self.disk.is_out() {
            return Ok(());
        }
        self.refused += 1;
        if self.faults { Ok(()) } else { Err(format!("refused for no reason: {what}")) }
    }
}

fn name(topic: &str) -> TopicName {
    TopicName::parse(topic).unwrap()
}
