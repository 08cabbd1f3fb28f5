//! What a store must hold, from what its hubs have said before they were killed.

use super::child::{BOUNDED_BYTES, FILLING, GROUP, KEYS, event};
use super::{Random, TOPICS};
use hub_core::store::{Appended, Commit, EventStore, ReadLimit};
use hub_core::{Event, EventId, Key, TopicName};
use hub_proto::Draft;
use hub_store_embedded::EmbeddedStore;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// More than the JSON of any event takes beside its filling.
const AROUND: u64 = 400;
/// Ids that are looked up each time.
const SAMPLE: usize = 100;
const PAGE: ReadLimit = ReadLimit { events: 1000, bytes: 1 << 20 };

/// What was counted over all rounds.
#[derive(Default)]
pub struct Tally {
    pub rounds: u64,
    pub killed_while_opening: u64,
    /// Segments that were begun, and those that were made of others.
    pub segments: u64,
    pub rewritten: u64,
    /// Publishes that were answered.
    pub acked: u64,
    /// Of events that nobody had answered: those that turned out to be stored, and the others.
    pub there: u64,
    pub not_there: u64,
    /// Acknowledged and not found.
    pub lost: u64,
    /// Found twice, or places with two events.
    pub doubled: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, killed_while_opening, segments, rewritten, .. } = self;
        let Self { acked, there, not_there, lost, doubled, .. } = self;
        write!(
            f,
            "{rounds} rounds ({killed_while_opening} killed while opening), {segments} segments ({rewritten} rewritten), \
             {acked} events acked, unanswered: {there} there and {not_there} not there, lost {lost}, doubled {doubled}"
        )
    }
}

/// Everything that is known.
#[derive(Default)]
pub struct Model {
    topics: BTreeMap<String, Known>,
}

/// What is known of a topic.
#[derive(Default)]
struct Known {
    /// Ids that a hub was about to publish.
    asked: HashSet<EventId>,
    /// Those that the hub that runs has not answered.
    waiting: HashSet<EventId>,
    /// Those that no hub has answered before it was killed.
    unanswered: HashSet<EventId>,
    /// Where events are: acknowledged, or seen by somebody.
    places: BTreeMap<u64, EventId>,
    seqs: HashMap<EventId, u64>,
    /// Places that were found empty: cleaned away, for ever.
    gone: BTreeSet<u64>,
    /// The highest seq that a consumer was about to ack.
    took: u64,
    /// The highest floor that is known to be saved.
    saved: u64,
}

impl Known {
    /// An event has a place, now and for ever.
    fn place(&mut self, topic: &str, seq: u64, id: EventId, tally: &mut Tally) {
        assert!(self.asked.contains(&id), "{topic} {seq}: nobody has published {id}");
        let (before, there) = (self.seqs.insert(id, seq), self.places.insert(seq, id));
        if before.is_some_and(|before| before != seq) || there.is_some_and(|there| there != id) {
            tally.doubled += 1;
            panic!("{topic} {seq} {id}: the id was at {before:?}, and there was {there:?}");
        }
    }

    /// A publish was answered.
    fn answered(&mut self, topic: &str, seq: u64, id: EventId, was_known: bool, tally: &mut Tally) {
        tally.acked += 1;
        if self.unanswered.remove(&id) {
            *(if was_known { &mut tally.there } else { &mut tally.not_there }) += 1;
        } else {
            assert_ne!(self.waiting.remove(&id), was_known, "{topic} {seq} {id}: known {was_known}");
        }
        self.place(topic, seq, id, tally);
    }
}

impl Model {
    /// The hub was killed: nobody will answer what is still waiting.
    pub fn killed(&mut self) {
        for known in self.topics.values_mut() {
            known.unanswered.extend(known.waiting.drain());
        }
    }

    /// What was not answered, for the next hub to send again.
    pub fn unanswered(&self) -> String {
        let all =
            self.topics.iter().flat_map(|(topic, known)| known.unanswered.iter().map(move |id| (topic, id)));
        all.map(|(topic, id)| format!("{topic} {id},")).collect()
    }

    /// Takes a line of a hub to heart; true if it says that a publish was answered.
    pub fn hear(&mut self, line: &str, tally: &mut Tally) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let id = |text: &str| text.parse::<EventId>().unwrap();
        let known = match words[..] {
            [_, topic, ..] if TOPICS.contains(&topic) => self.topics.entry(topic.to_owned()).or_default(),
            _ => panic!("the hub said: {line}"),
        };
        match words[..] {
            ["asked", _, text] => {
                assert!(known.asked.insert(id(text)) && known.waiting.insert(id(text)), "{line}");
            }
            ["acked", topic, seq, text, how] => {
                known.answered(topic, number(seq), id(text), how == "known", tally);
                return true;
            }
            ["took", topic, seq, text] => {
                let (seq, id) = (number(seq), id(text));
                known.place(topic, seq, id, tally);
                known.took = known.took.max(seq);
            }
            ["saved", _, floor] => known.saved = known.saved.max(number(floor)),
            _ => panic!("the hub said: {line}"),
        }
        false
    }
}

impl Model {
    /// Compares a store with what is known. The `last` time everything is looked up that was ever published.
    pub async fn verify(&mut self, store: EmbeddedStore, random: &mut Random, last: bool, tally: &mut Tally) {
        let health = store.health();
        assert!(health.unavailable.is_none() && health.warnings.is_empty(), "{health:?}");
        assert_eq!(health.damaged, 0, "{health:?}");
        for (topic, known) in &mut self.topics {
            let name: TopicName = topic.parse().unwrap();
            let events = everything(&store, &name).await;
            known.check_events(&name, &events, tally);
            known.check_bounds(&store, &name, &events).await;
            if topic == "compacted" {
                check_newest(&store, &name, &events).await;
            }
            if last {
                known.resend_unanswered(&store, &name, tally).await;
            }
            known.check_ids(&store, &name, if last { usize::MAX } else { SAMPLE }, random).await;
        }
        self.check_groups(&store).await;
        let health = store.health();
        assert!(health.warnings.is_empty() && health.damaged == 0, "{health:?}");
        if random.below(2) == 0 {
            store.close().await.unwrap();
        }
    }

    async fn check_groups(&self, store: &EmbeddedStore) {
        let image = store.load().await.unwrap();
        for (topic, known) in &self.topics {
            let group = image.groups.iter().find(|group| group.record.topic.as_str() == topic);
            let Some(group) = group.filter(|group| group.record.name.as_str() == GROUP) else {
                assert_eq!(known.saved, 0, "{topic}: the group is gone");
                continue;
            };
            let bounds = store.bounds(&group.record.topic).await.unwrap();
            let state = &group.state;
            assert!(state.floor >= known.saved, "{topic}: saved {}, stored {state:?}", known.saved);
            // What was cleaned away before the group came to it is passed over.
            let most = known.took.max(bounds.first.saturating_sub(1));
            assert!(state.floor <= most, "{topic}: took {}, stored {state:?}", known.took);
            let beyond = state.settled.iter().find(|&(_, to)| to > known.took);
            assert_eq!(beyond, None, "{topic}: took {}, stored {state:?}", known.took);
            assert!(state.high <= bounds.last, "{topic}: {state:?}, {bounds:?}");
        }
    }
}

async fn everything(store: &EmbeddedStore, topic: &TopicName) -> BTreeMap<u64, Arc<Event>> {
    let (mut events, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = store.read(topic, after, PAGE).await.unwrap();
        if page.is_empty() {
            return events;
        }
        for event in page {
            assert!(event.seq() > after, "{topic}: {} after {after}", event.seq());
            after = event.seq();
            events.insert(after, event);
        }
    }
}

impl Known {
    /// Nothing is there that was not published, and everything that was acknowledged or seen is.
    fn check_events(&mut self, topic: &TopicName, events: &BTreeMap<u64, Arc<Event>>, tally: &mut Tally) {
        for (&seq, found) in events {
            self.place(topic, seq, found.id(), tally);
            let wanted = event(topic, found.id());
            let same = found.same_content(wanted.options.key.as_deref(), wanted.payload.as_bytes());
            assert!(same && found.topic() == topic, "{topic} {seq}: {found:?} is not what was published");
        }
        let first = events.keys().next().copied().unwrap_or(u64::MAX);
        let newest = newest_by_key(events);
        let lost = self.places.iter().filter(|(seq, id)| match topic.as_str() {
            _ if events.contains_key(seq) => false,
            "bounded" => **seq >= first,
            "compacted" => {
                let key = event(topic, **id).options.key.unwrap();
                newest.get(key.as_str()).is_none_or(|newest| newest.seq() <= **seq)
            }
            _ => true,
        });
        let lost: Vec<_> = lost.collect();
        tally.lost += lost.len() as u64;
        assert!(lost.is_empty(), "{topic}: lost {lost:?}");
        let back = self.gone.iter().find(|seq| events.contains_key(seq));
        assert_eq!(back, None, "{topic}: this had been cleaned away");
        self.gone.extend(self.places.keys().filter(|seq| !events.contains_key(seq)));
    }

    async fn check_bounds(
        &self,
        store: &EmbeddedStore,
        topic: &TopicName,
        events: &BTreeMap<u64, Arc<Event>>,
    ) {
        let bounds = store.bounds(topic).await.unwrap();
        let (first, last) = (events.keys().next(), events.keys().next_back());
        assert_eq!(bounds.last, last.copied().unwrap_or_default(), "{topic}");
        assert_eq!(bounds.events, events.len() as u64, "{topic}: {bounds:?}");
        let bytes: u64 = events.values().map(|event| event.json().len() as u64).sum();
        assert_eq!(bounds.bytes, bytes, "{topic}");
        if let Some(&first) = first {
            assert!(first >= bounds.first, "{topic}: {first}, {bounds:?}");
        }
        if topic.as_str() != "compacted" {
            // A topic that has never had an event has no first one either.
            let wanted = bounds.last + 1 - bounds.first.max(1);
            assert_eq!(bounds.events, wanted, "{topic} has gaps: {bounds:?}");
        }
        let removed = bounds.first > 1;
        match topic.as_str() {
            "bounded" => {
                assert!(!removed || bytes + FILLING + AROUND > BOUNDED_BYTES, "too much went: {bounds:?}");
            }
            "durable" | "relaxed" => assert!(!removed, "{topic}: {bounds:?}"),
            _ => {}
        }
    }

    /// An id keeps its place, also when its event is gone; sent again, it is known.
    async fn check_ids(&self, store: &EmbeddedStore, topic: &TopicName, most: usize, random: &mut Random) {
        let step = self.places.len().div_ceil(most).max(1);
        let skip = random.below(step as u64) as usize;
        for (&seq, &id) in self.places.iter().skip(skip).step_by(step) {
            assert_eq!(store.seq_of(topic, id).await, Ok(Some(seq)), "{topic} {id}");
            let (again, was_known) = resend(store, topic, id).await;
            assert!(was_known && again == seq, "{topic} {seq} {id}: sent again, it is at {again}");
        }
    }

    /// With what nobody had answered, nothing is unknown any more: every place has its event.
    async fn resend_unanswered(&mut self, store: &EmbeddedStore, topic: &TopicName, tally: &mut Tally) {
        for id in self.unanswered.clone() {
            let (seq, was_known) = resend(store, topic, id).await;
            self.answered(topic, seq, id, was_known, tally);
        }
        let last = store.bounds(topic).await.unwrap().last;
        let gap = (1..=last).find(|seq| !self.places.contains_key(seq));
        assert_eq!(gap, None, "{topic}: nobody was given this place");
        assert_eq!(self.places.len() as u64, last, "{topic}");
    }
}

/// Sends an event again; answers its place, and whether the store had it.
async fn resend(store: &EmbeddedStore, topic: &TopicName, id: EventId) -> (u64, bool) {
    let mut draft = Draft::encode(event(topic, id), id, 1);
    draft.set_relaxed(topic.as_str() == "relaxed");
    let commit = Commit { now: 1, events: vec![draft], ..Commit::default() };
    match store.commit(commit).await.events.remove(0).unwrap().decided() {
        Appended::New { event, .. } => (event.seq(), false),
        Appended::Known { seq, same, .. } => {
            assert!(same, "{topic} {seq} {id}: the store takes it for another event");
            (seq, true)
        }
        Appended::Twin { .. } => unreachable!("it is decided"),
    }
}

fn newest_by_key(events: &BTreeMap<u64, Arc<Event>>) -> BTreeMap<&str, &Arc<Event>> {
    events.values().filter_map(|event| Some((&**event.key()?, event))).collect()
}

async fn check_newest(store: &EmbeddedStore, topic: &TopicName, events: &BTreeMap<u64, Arc<Event>>) {
    let wanted = newest_by_key(events);
    let keys: Vec<Key> = (0..KEYS).map(|key| Key::from(format!("key-{key}").as_str())).collect();
    let newest = store.newest(topic, &keys).await.unwrap();
    for (key, found) in keys.iter().zip(newest) {
        let wanted = wanted.get(&**key).map(|event| event.seq());
        assert_eq!(found.map(|event| event.seq()), wanted, "the newest event of {key}");
    }
    let page = store.newest_page(topic, None, PAGE).await.unwrap();
    let found: Vec<u64> = page.iter().map(|event| event.seq()).collect();
    let wanted = wanted.values().filter(|event| !event.is_tombstone()).map(|event| event.seq());
    assert_eq!(found, wanted.collect::<Vec<_>>(), "the newest events of all keys");
}
