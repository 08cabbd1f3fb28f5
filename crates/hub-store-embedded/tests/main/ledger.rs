//! A store whose contents are known: what was written, what must still be there, and how to compare.

use hub_core::store::{
    Appended, CleanPolicy, Commit, EventStore, GroupRecord, Progress, ReadLimit, Record, SubscriptionRecord,
};
use hub_core::{GroupName, GroupOptions};
use hub_proto::{Draft, Event, EventId, NewEvent, Payload, TopicName};
use hub_store_embedded::{EmbeddedStore, Options, Threads};
use std::collections::BTreeMap;

/// When everything begins.
pub const T0: u64 = 1_700_000_000_000;

/// Small segments, and everything within the calls.
pub fn small() -> Options {
    Options {
        segment_bytes: 4096,
        reserve: 10,
        disk_reserve: 0,
        threads: Threads::None,
        ..Options::default()
    }
}

/// Waits for what does not wait.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

pub fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

/// An id that is no UUID v7 for even numbers, and one for odd ones.
pub fn id(number: u64) -> EventId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    (bytes[6], bytes[8]) = (if number % 2 == 1 { 0x70 } else { 0x40 }, 0x80);
    EventId::from_bytes(bytes)
}

/// An event, with a key if one is given.
pub fn draft(name: &str, number: u64, key: Option<&str>) -> Draft {
    let text = format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat((number % 7 * 20) as usize));
    let mut event = NewEvent::new(topic(name), Payload::from_json(text).unwrap());
    if let Some(key) = key {
        event = event.with_key(key);
    }
    Draft::encode(event, id(number), T0 + number)
}

/// All that was ever written to a store: by topic, the JSON of each seq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(pub BTreeMap<TopicName, BTreeMap<u64, String>>);

impl Ledger {
    /// Writes down an event.
    pub fn note(&mut self, event: &Event) {
        let json = String::from_utf8(event.json().to_vec()).unwrap();
        self.0.entry(event.topic().clone()).or_default().insert(event.seq(), json);
    }

    /// Publishes events in one commit, and writes them down.
    pub fn publish(&mut self, store: &EmbeddedStore, events: Vec<Draft>, records: Vec<Record>) -> Vec<u64> {
        let now_is = events.first().map_or(T0, Draft::ts);
        let committed = now(store.commit(Commit { now: now_is, events, records, ..Commit::default() }));
        committed.records.into_iter().for_each(|record| record.unwrap());
        let mut seqs = Vec::new();
        for appended in committed.events {
            match appended.unwrap() {
                Appended::New { event, .. } => {
                    self.note(&event);
                    seqs.push(event.seq());
                }
                known => panic!("{known:?}"),
            }
        }
        seqs
    }

    /// The highest seq of a topic.
    pub fn last(&self, topic: &TopicName) -> u64 {
        self.0.get(topic).and_then(|seqs| seqs.last_key_value()).map_or(0, |(&seq, _)| seq)
    }
}

/// Everything that a store serves, read in small steps. Panics if it is out of order.
pub fn served(store: &EmbeddedStore) -> Ledger {
    let mut all = Ledger::default();
    for (topic, _) in now(store.load()).unwrap().topics {
        let mut after = 0;
        loop {
            let events = now(store.read(&topic, after, ReadLimit { events: 7, bytes: 4000 })).unwrap();
            let Some(last) = events.last() else { break };
            for event in &events {
                assert!(event.seq() > after, "{topic}: seq {} after {after}", event.seq());
                assert_eq!(*event.topic(), topic);
                after = event.seq();
                all.note(event);
            }
            assert_eq!(last.seq(), after);
        }
    }
    all
}

pub const TOPICS: [&str; 3] = ["orders", "users", "audit"];

/// A group that is new.
pub fn group_record(name: &str, at: &str) -> Record {
    record(name, at, false)
}

fn record(name: &str, at: &str, idle: bool) -> Record {
    Record::Group(GroupRecord {
        topic: topic(at),
        name: group(name),
        options: GroupOptions::default(),
        created: T0,
        idle_since: idle.then_some(T0 + 5),
        driven: false,
        born: 0,
    })
}

pub fn progress(name: &str, at: &str, floor: u64) -> Record {
    let tries = vec![(floor + 2, hub_core::store::Tries { attempts: 2, failures: 1 })];
    let settled = vec![(floor + 3, floor + 4)];
    let progress = Progress { epoch: 1, reset: false, floor, high: floor + 5, settled, tries };
    Record::Progress(topic(at), group(name), progress)
}

/// Groups and subscriptions, and then what becomes of some.
pub fn records() -> [Vec<Record>; 2] {
    let subscription = SubscriptionRecord {
        label: "or*".into(),
        group: group("all"),
        topics: vec![topic("orders")],
        options: GroupOptions::default(),
        created: T0,
        idle_since: None,
    };
    let gone = SubscriptionRecord { label: "u*".into(), ..subscription.clone() };
    let first = vec![
        record("shop", "orders", false),
        record("mail", "users", true),
        record("old", "users", true),
        Record::Subscription(subscription),
        Record::Subscription(gone),
    ];
    let second = vec![
        Record::GroupGone(topic("users"), group("old")),
        Record::SubscriptionGone("u*".into(), group("all")),
    ];
    [first, second]
}

/// Fills a store: three topics, one keyed, one relaxed; groups; a subscription; cleaned so that there are kept
/// segments, and more after that. The last commit is an event of `users`.
pub fn fill(store: &EmbeddedStore) -> Ledger {
    let mut ledger = Ledger::default();
    let [first, second] = records();
    ledger.publish(store, vec![draft("orders", 1, Some("a"))], first);
    ledger.publish(store, vec![draft("users", 2, None)], second);
    for number in 3..60 {
        step(store, &mut ledger, number);
    }
    let policy = CleanPolicy { compact: true, keep_above: Some(12), ids_since: T0, ..CleanPolicy::default() };
    now(store.clean(&topic("orders"), policy)).unwrap();
    let policy =
        CleanPolicy { committed_before: Some(T0 + 30), ids_since: T0 + 10, ..CleanPolicy::default() };
    now(store.clean(&topic("users"), policy)).unwrap();
    for number in 60..90 {
        step(store, &mut ledger, number);
    }
    ledger.publish(store, vec![draft("users", 90, None)], vec![]);
    ledger
}

fn step(store: &EmbeddedStore, ledger: &mut Ledger, number: u64) {
    let key = ["a", "b", "c"][(number / 3 % 3) as usize];
    match number % 3 {
        0 => drop(ledger.publish(store, vec![draft("orders", number, Some(key))], vec![])),
        1 => {
            let mut relaxed = draft("audit", number, None);
            relaxed.set_relaxed(true);
            let records = vec![progress("shop", "orders", number / 3)];
            ledger.publish(store, vec![relaxed, draft("users", number + 1000, None)], records);
        }
        _ => {
            let mut relaxed = draft("audit", number, Some(key));
            relaxed.set_relaxed(true);
            ledger.publish(store, vec![relaxed], vec![]);
        }
    }
}
