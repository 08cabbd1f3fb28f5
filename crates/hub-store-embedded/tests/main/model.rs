//! What a store has promised so far, and whether it keeps it.
//!
//! The model is told what was asked and what was answered. What was asked and not answered well is *open*: it may have
//! happened as a whole, or not at all. After a crash the store is compared with both.

use super::tools::{now, page};
use hub_core::store::{
    Appended, CleanPolicy, Committed, EventStore, Health, Image, Record, StoredGroup, SubscriptionRecord,
};
use hub_proto::{Draft, Event, EventId, GroupName, Key, TopicName};
use hub_store_embedded::EmbeddedStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A promise that was broken, in words.
pub type Verdict = Result<(), String>;

/// How the life before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The store was closed, and said so.
    Closed,
    /// The process was killed: nothing that was written is lost.
    Death,
    /// The power failed: what was not synced is lost, or not.
    Power,
}

/// An event as it was handed in.
#[derive(Clone, Debug)]
pub struct Sent {
    pub topic: TopicName,
    pub id: EventId,
    pub key: Option<Key>,
    pub payload: Vec<u8>,
    pub relaxed: bool,
}

impl Sent {
    pub fn of(draft: &Draft) -> Self {
        Self {
            topic: draft.topic().clone(),
            id: draft.id(),
            key: draft.key().cloned(),
            payload: draft.payload().to_vec(),
            relaxed: draft.relaxed(),
        }
    }

    fn is(&self, event: &Event) -> bool {
        (&self.topic, self.id, self.key.as_ref(), &self.payload[..])
            == (event.topic(), event.id(), event.key(), event.payload())
    }
}

/// Something that may have happened, or not.
#[derive(Clone, Debug)]
enum Open {
    Commit(Vec<Sent>, Vec<Record>),
    Clean(TopicName, BTreeSet<u64>),
}

/// Every event that anybody has seen on a topic.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub events: BTreeMap<u64, Arc<Event>>,
    /// What is there.
    pub present: BTreeSet<u64>,
    /// Where each id is.
    pub ids: BTreeMap<EventId, u64>,
    /// The highest seq ever given.
    pub last: u64,
    /// Ids of what is gone may be forgotten for events committed before.
    pub ids_since: u64,
    /// It has, or had, relaxed events: its numbering may jump.
    pub relaxed: bool,
}

impl Log {
    fn is_remembered(&self, seq: u64) -> bool {
        self.present.contains(&seq) || self.events[&seq].committed() >= self.ids_since
    }

    /// What a policy removes.
    pub fn gone(&self, policy: &CleanPolicy) -> BTreeSet<u64> {
        let present = || self.present.iter().map(|seq| &self.events[seq]);
        let before = policy.committed_before.unwrap_or(0);
        let newest: BTreeMap<&Key, u64> =
            present().filter_map(|event| Some((event.key()?, event.seq()))).collect();
        let goes = |event: &&Arc<Event>| {
            let overtaken = event.key().is_some_and(|key| newest[key] > event.seq());
            let settled = event.is_tombstone() && event.committed() < policy.tombstones_before;
            event.committed() < before || policy.compact && (overtaken || settled)
        };
        let mut gone: BTreeSet<u64> = present().filter(goes).map(|event| event.seq()).collect();
        let left = || present().filter(|event| !gone.contains(&event.seq()));
        let bytes: usize = left().map(|event| event.json().len()).sum();
        let mut excess = policy.max_bytes.map_or(0, |max| bytes.saturating_sub(max as usize));
        let oldest = left().take_while(|event| {
            let goes = excess > 0;
            excess = excess.saturating_sub(event.json().len());
            goes
        });
        let oldest: Vec<u64> = oldest.map(|event| event.seq()).collect();
        gone.extend(oldest);
        gone
    }

    /// The ids that a resend has to find.
    pub fn known(&self) -> Vec<(EventId, u64)> {
        let known = self.ids.iter().filter(|&(_, &seq)| self.is_remembered(seq));
        known.map(|(&id, &seq)| (id, seq)).collect()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub topics: BTreeMap<TopicName, Log>,
    groups: BTreeMap<(TopicName, GroupName), StoredGroup>,
    subscriptions: BTreeMap<(String, GroupName), SubscriptionRecord>,
    /// Answered commits of relaxed events that nothing has synced since, oldest first.
    unsynced: Vec<Vec<(TopicName, u64)>>,
    open: Vec<Open>,
    /// Every commit since the disk began to lie, in order: where it put which events.
    lies: Option<Vec<Vec<(TopicName, u64)>>>,
    /// For the summary.
    pub counts: Counts,
}

/// What there was to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub acknowledged: u64,
    pub relaxed: u64,
    pub records: u64,
    pub resent: u64,
    pub cleaned: u64,
    pub lost_relaxed: u64,
    pub open_there: u64,
    pub open_gone: u64,
    pub jumps: u64,
}

impl Counts {
    pub fn written(&self) -> u64 {
        self.acknowledged + self.relaxed + self.records
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.relaxed += other.relaxed;
        self.records += other.records;
        self.resent += other.resent;
        self.cleaned += other.cleaned;
        self.lost_relaxed += other.lost_relaxed;
        self.open_there += other.open_there;
        self.open_gone += other.open_gone;
        self.jumps += other.jumps;
    }
}

/// Everything a store shows.
pub struct Seen {
    image: Image,
    events: BTreeMap<TopicName, Vec<Arc<Event>>>,
}

impl Seen {
    pub fn of(store: &EmbeddedStore) -> Result<Self, String> {
        let image = now(store.load()).map_err(|error| error.to_string())?;
        let mut events = BTreeMap::new();
        for (topic, bounds) in &image.topics {
            let mut read: Vec<Arc<Event>> = Vec::new();
            loop {
                let after = read.last().map_or(0, |event| event.seq());
                let more = now(store.read(topic, after, page(7))).map_err(|error| error.to_string())?;
                if more.is_empty() {
                    break;
                }
                read.extend(more);
            }
            let bytes: usize = read.iter().map(|event| event.json().len()).sum();
            if (bounds.events, bounds.bytes) != (read.len() as u64, bytes as u64) {
                return Err(format!(
                    "{topic} says {bounds:?} and has {} events, {bytes} bytes: {:?}",
                    read.len(),
                    read.iter().map(|e| e.seq()).collect::<Vec<_>>()
                ));
            }
            let out = read
                .windows(2)
                .find(|pair| pair[0].seq() >= pair[1].seq() || pair[0].committed() > pair[1].committed());
            if let Some(pair) = out {
                return Err(format!("{topic} has {} before {}", pair[0].seq(), pair[1].seq()));
            }
            let (first, last) = (read.first().map(|e| e.seq()), read.last().map(|e| e.seq()));
            if first.is_some_and(|first| first < bounds.first) || last.is_some_and(|last| last > bounds.last)
            {
                return Err(format!("{topic} says {bounds:?} and has {first:?} to {last:?}"));
            }
            events.insert(topic.clone(), read);
        }
        Ok(Self { image, events })
    }
}

/// Asking.
impl Model {
    /// The answer to a commit. True if it was done.
    pub fn answered(
        &mut self,
        sent: Vec<Sent>,
        records: Vec<Record>,
        answer: &Committed,
    ) -> Result<bool, String> {
        let failed = answer.events.iter().filter(|result| result.is_err()).count()
            + answer.records.iter().filter(|result| result.is_err()).count();
        if failed > 0 {
            let is_refused = Result::is_err;
            if failed == sent.len() && answer.events.iter().all(is_refused) && !records.is_empty() {
                // The disk is full, and has room for records: the events are not there, nor is what failed before.
                self.counts.records += records.len() as u64;
                records.into_iter().for_each(|record| self.record(record));
                self.unsynced.clear();
                self.open.clear();
                return Ok(false);
            }
            if failed < sent.len() + records.len() {
                return Err(format!("a commit was done in part: {answer:?}"));
            }
            if !sent.is_empty() && !records.is_empty() {
                // On a full disk the records may have been written without the events.
                self.open.push(Open::Commit(Vec::new(), records.clone()));
            }
            self.open.push(Open::Commit(sent, records));
            return Ok(false);
        }
        let mut written = Vec::new();
        let mut synced = !records.is_empty();
        for (sent, result) in sent.iter().zip(&answer.events) {
            let log = self.topics.entry(sent.topic.clone()).or_default();
            match result {
                Ok(Appended::New { event, .. }) => {
                    log.given(sent, event)?;
                    log.relaxed |= sent.relaxed;
                    written.push((sent.topic.clone(), event.seq()));
                    synced |= !sent.relaxed;
                    *(if sent.relaxed { &mut self.counts.relaxed } else { &mut self.counts.acknowledged }) +=
                        1;
                }
                Ok(Appended::Known { seq, same, ts, .. }) => {
                    let there = log.ids.get(&sent.id).map(|seq| &log.events[seq]);
                    let Some(there) = there.filter(|event| event.seq() == *seq && event.ts() == *ts) else {
                        return Err(format!("{} on {} is said to be {seq}", sent.id, sent.topic));
                    };
                    if *same != sent.is(there) {
                        return Err(format!("{} on {} is said to be same: {same}", sent.id, sent.topic));
                    }
                    self.counts.resent += 1;
                }
                Ok(Appended::Twin { .. }) => {
                    return Err(format!("{} is small and was not compared", sent.id));
                }
                Err(_) => unreachable!("none failed"),
            }
        }
        if let Some(lies) = &mut self.lies {
            lies.push(written.clone());
        }
        self.counts.records += records.len() as u64;
        records.into_iter().for_each(|record| self.record(record));
        if synced {
            self.unsynced.clear();
        } else if !written.is_empty() {
            self.unsynced.push(written);
        }
        self.open.clear();
        Ok(true)
    }

    /// A topic is about to be cleaned; answers how many events go.
    pub fn cleaning(&mut self, topic: &TopicName, policy: &CleanPolicy) -> BTreeSet<u64> {
        let log = self.topics.get_mut(topic).unwrap();
        log.ids_since = log.ids_since.max(policy.ids_since);
        log.gone(policy)
    }

    /// It was, or was not.
    pub fn cleaned(&mut self, topic: &TopicName, gone: BTreeSet<u64>, done: bool) {
        if !done {
            return self.open.push(Open::Clean(topic.clone(), gone));
        }
        self.counts.cleaned += gone.len() as u64;
        if !gone.is_empty() {
            self.unsynced.clear();
            self.open.clear();
        }
        self.topics.get_mut(topic).unwrap().present.retain(|seq| !gone.contains(seq));
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::Group(record) => {
                let at = (record.topic.clone(), record.name.clone());
                let state = self.groups.remove(&at).map(|stored| stored.state).unwrap_or_default();
                self.groups.insert(at, StoredGroup { record, state });
            }
            Record::Progress(topic, group, progress) => {
                if let Some(stored) = self.groups.get_mut(&(topic, group)) {
                    stored.state.apply(&progress);
                }
            }
            Record::GroupGone(topic, group) => drop(self.groups.remove(&(topic, group))),
            Record::Subscription(record) => {
                self.subscriptions.insert((record.label.clone(), record.group.clone()), record);
            }
            Record::SubscriptionGone(label, group) => drop(self.subscriptions.remove(&(label, group))),
        }
    }
}

impl Log {
    /// An event got its place.
    fn given(&mut self, sent: &Sent, event: &Arc<Event>) -> Verdict {
        if !sent.is(event) {
            return Err(format!("{} was answered with {event:?}", sent.id));
        }
        if event.seq() != self.last + 1 {
            return Err(format!("{} got {} after {}", sent.topic, event.seq(), self.last));
        }
        if let Some(other) = self.events.get(&event.seq()) {
            return Err(format!("{} {} was {} and is {}", sent.topic, event.seq(), other.id(), event.id()));
        }
        self.events.insert(event.seq(), event.clone());
        self.present.insert(event.seq());
        self.ids.insert(event.id(), event.seq());
        self.last = event.seq();
        Ok(())
    }
}

/// Comparing.
impl Model {
    /// Within a life: what was not answered is not seen, and everything else is.
    pub fn check(&self, seen: &Seen) -> Verdict {
        for (topic, bounds) in &seen.image.topics {
            if bounds.last != self.topics.get(topic).map_or(0, |log| log.last) {
                return Err(format!("{topic} says {bounds:?}"));
            }
        }
        self.same(seen)
    }

    /// After a life: what was answered is there, and what is open is, or is not.
    pub fn reopened(&mut self, seen: &Seen, end: End) -> Verdict {
        let mut broken = Vec::new();
        for guess in std::iter::once(None).chain((0..self.open.len()).map(Some)) {
            let mut trial = self.clone();
            match trial.suppose(guess, seen, end) {
                Ok(()) => {
                    let count = if guess.is_some() {
                        &mut trial.counts.open_there
                    } else {
                        &mut trial.counts.open_gone
                    };
                    *count += u64::from(!self.open.is_empty());
                    *self = trial;
                    return Ok(());
                }
                Err(what) => broken.push(match guess {
                    None => what,
                    Some(at) => format!("or, with {:?}: {what}", self.open[at]),
                }),
            }
        }
        Err(format!("after {end:?}: {}", broken.join("\n")))
    }

    /// Supposes that one of the open ones has happened, or none.
    fn suppose(&mut self, guess: Option<usize>, seen: &Seen, end: End) -> Verdict {
        let open = std::mem::take(&mut self.open);
        let unsynced = std::mem::take(&mut self.unsynced);
        match guess.map(|at| &open[at]) {
            // Everything that was written before it is there with it.
            Some(Open::Commit(sent, records)) => {
                for sent in sent {
                    let log = self.topics.entry(sent.topic.clone()).or_default();
                    if log.ids.contains_key(&sent.id) {
                        continue;
                    }
                    let found = seen.events.get(&sent.topic).into_iter().flatten();
                    let found = found.into_iter().find(|event| event.seq() == log.last + 1);
                    let Some(event) = found else { return Err(format!("{} is not there", sent.id)) };
                    log.relaxed |= sent.relaxed;
                    log.given(sent, event)?;
                }
                records.iter().for_each(|record| self.record(record.clone()));
            }
            Some(Open::Clean(topic, gone)) => {
                self.topics.get_mut(topic).unwrap().present.retain(|seq| !gone.contains(seq));
            }
            None if end == End::Power => self.lose(&unsynced, seen)?,
            None => {}
        }
        for (topic, bounds) in &seen.image.topics {
            let log = self.topics.entry(topic.clone()).or_default();
            let may_jump = log.relaxed && end == End::Power;
            if bounds.last < log.last || bounds.last > log.last && !may_jump {
                return Err(format!("{topic} had {} last and says {bounds:?}", log.last));
            }
            self.counts.jumps += u64::from(bounds.last > log.last);
            log.last = bounds.last;
        }
        self.same(seen)
    }

    /// Of the commits that were not synced the first ones are there, each of them whole.
    fn lose(&mut self, unsynced: &[Vec<(TopicName, u64)>], seen: &Seen) -> Verdict {
        let is_there = |(topic, seq): &(TopicName, u64)| {
            seen.events.get(topic).is_some_and(|events| events.iter().any(|event| event.seq() == *seq))
        };
        let mut lost = false;
        for commit in unsynced {
            let there = commit.iter().filter(|at| is_there(at)).count();
            if there > 0 && (lost || there < commit.len()) {
                return Err(format!("of {commit:?} {there} are there; lost before: {lost}"));
            }
            lost |= there == 0;
            for (topic, seq) in commit.iter().filter(|_| lost) {
                let log = self.topics.get_mut(topic).unwrap();
                log.present.remove(seq);
                log.ids.remove(&log.events[seq].id());
                self.counts.lost_relaxed += 1;
            }
        }
        Ok(())
    }

    /// From now on the disk lies about what it has synced.
    pub fn begin_lies(&mut self) {
        self.lies = Some(Vec::new());
    }

    /// After that and a power loss: what is served was written, and if nothing is said to be damaged, what is missing is
    /// the end. Answers how many events are missing, and whether damage was found.
    pub fn after_lies(&self, store: &EmbeddedStore) -> Result<(u64, bool), String> {
        let text = |error: hub_core::store::StoreError| error.to_string();
        let mut found: BTreeSet<(TopicName, u64)> = BTreeSet::new();
        for (topic, log) in &self.topics {
            let mut last = 0;
            for event in now(store.read(topic, 0, page(100_000))).map_err(text)? {
                let given = log.events.get(&event.seq());
                if event.seq() <= last || given.is_none_or(|given| given.json() != event.json()) {
                    return Err(format!("{topic} serves {event:?} after {last}; it was {given:?}"));
                }
                last = event.seq();
                found.insert((topic.clone(), last));
            }
        }
        // Some damage is found when it is read.
        let damaged = store.health() != Health::default();
        let lies = self.lies.as_deref().unwrap_or_default();
        let told: BTreeSet<&(TopicName, u64)> = lies.iter().flatten().collect();
        let mut lost = 0;
        for (topic, log) in &self.topics {
            for at in log.present.iter().map(|&seq| (topic.clone(), seq)) {
                if !found.contains(&at) {
                    lost += 1;
                    if !damaged && !told.contains(&at) {
                        return Err(format!(
                            "{at:?} was safe before the lies, and nobody says that it is gone"
                        ));
                    }
                }
            }
        }
        let mut ended = false;
        for commit in lies.iter().filter(|_| !damaged) {
            // What was cleaned away meanwhile says nothing.
            let mut there = commit.iter().filter(|(topic, seq)| self.topics[topic].present.contains(seq));
            let count = there.clone().count();
            let there = there.by_ref().filter(|at| found.contains(at)).count();
            if there > 0 && (ended || there < count) {
                return Err(format!("of {commit:?} {there} are there; something before it is not: {ended}"));
            }
            ended |= there < count;
        }
        Ok((lost, damaged))
    }

    fn same(&self, seen: &Seen) -> Verdict {
        if let Some(topic) = seen.events.keys().find(|topic| !self.topics.contains_key(*topic)) {
            return Err(format!("{topic} is there, and nobody made it"));
        }
        for (topic, log) in &self.topics {
            let found = seen.events.get(topic).map_or(&[][..], |events| &events[..]);
            let seqs: BTreeSet<u64> = found.iter().map(|event| event.seq()).collect();
            if let Some(seq) = log.present.difference(&seqs).next() {
                return Err(format!("{topic} lost {seq}; {seqs:?} are there"));
            }
            if let Some(seq) = seqs.difference(&log.present).next() {
                let was = if log.events.contains_key(seq) { "again" } else { "that nobody was told of" };
                return Err(format!("{topic} has {seq} {was}"));
            }
            for event in found {
                let given = &log.events[&event.seq()];
                if (event.json(), event.committed()) != (given.json(), given.committed()) {
                    return Err(format!("{topic} {} is {event:?}, and was {given:?}", event.seq()));
                }
            }
        }
        let groups: Vec<&StoredGroup> = self.groups.values().collect();
        let found: Vec<&StoredGroup> = seen.image.groups.iter().collect();
        if groups != found {
            return Err(format!("the groups are {found:?}, not {groups:?}"));
        }
        let subscriptions: Vec<&SubscriptionRecord> = self.subscriptions.values().collect();
        let found: Vec<&SubscriptionRecord> = seen.image.subscriptions.iter().collect();
        if subscriptions != found {
            return Err(format!("the subscriptions are {found:?}, not {subscriptions:?}"));
        }
        Ok(())
    }

    /// The other ways to an event lead to the same ones: by id, by key, by time.
    pub fn lookups(&self, store: &EmbeddedStore) -> Verdict {
        let text = |error: hub_core::store::StoreError| error.to_string();
        for (topic, log) in &self.topics {
            for (&id, &seq) in &log.ids {
                let found = now(store.seq_of(topic, id)).map_err(text)?;
                if found != Some(seq) && (found.is_some() || log.is_remembered(seq)) {
                    return Err(format!("{id} on {topic} is {seq}, not {found:?}"));
                }
            }
            let mut newest: BTreeMap<Key, &Arc<Event>> = BTreeMap::new();
            for event in log.present.iter().map(|seq| &log.events[seq]) {
                newest.extend(event.key().map(|key| (key.clone(), event)));
            }
            let keys: Vec<Key> = newest.keys().cloned().collect();
            let found = now(store.newest(topic, &keys)).map_err(text)?;
            let found: Vec<u64> = found.iter().flatten().map(|event| event.seq()).collect();
            if found != newest.values().map(|event| event.seq()).collect::<Vec<_>>() {
                return Err(format!("the newest of {keys:?} on {topic} are {found:?}"));
            }
            let page = now(store.newest_page(topic, None, page(1000))).map_err(text)?;
            let page: Vec<u64> = page.iter().map(|event| event.seq()).collect();
            let living = newest.values().filter(|event| !event.is_tombstone());
            if page != living.map(|event| event.seq()).collect::<Vec<_>>() {
                return Err(format!("the page of keys on {topic} is {page:?}"));
            }
            if let Some(middle) = log.present.iter().nth(log.present.len() / 2) {
                let time = log.events[middle].committed();
                let first = log.present.iter().find(|seq| log.events[seq].committed() >= time);
                let found = now(store.seq_before(topic, time)).map_err(text)?;
                if log.present.range(found + 1..).next() != first {
                    return Err(format!("{topic} has {found} before {time}, and {first:?} after"));
                }
            }
        }
        Ok(())
    }
}
