//! Stores, drafts and servers that fail on demand, in few words.

use hub_core::store::{Appended, Commit, EventStore, ReadLimit, Record, StoreResult};
use hub_proto::{Draft, Event, EventId, GroupName, NewEvent, Payload, TopicName};
use hub_store_mongo::{MongoStore, Options, SteadyClock};
use hub_testbed::TestDatabase;
use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::mongodb::{Client, Database};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uuid::Uuid;

pub const T0: u64 = 1_780_000_000_000;
pub const ALL: ReadLimit = ReadLimit { events: 1_000_000, bytes: 1 << 30 };

/// A database of the test's own, and a client to look at it with.
pub struct World {
    pub database: TestDatabase,
    pub db: Database,
}

impl World {
    pub async fn new() -> Self {
        Self::on(hub_testbed::database().await.unwrap()).await
    }

    pub async fn on(database: TestDatabase) -> Self {
        let db = database.connect().await.unwrap();
        Self { database, db }
    }

    pub fn options(&self) -> Options {
        Options::new(self.database.uri())
    }

    /// Another hub.
    pub async fn store(&self) -> MongoStore {
        MongoStore::connect(self.options()).await.unwrap()
    }

    /// Another hub, whose commands can be made to fail.
    pub async fn victim(&self, options: Options) -> (MongoStore, Trap) {
        let app = format!("victim-{}", Uuid::new_v4().simple());
        let store = MongoStore::connect(Options { app_name: app.clone(), ..options }).await.unwrap();
        // A server has each failpoint once, and all tests share the server.
        let turn = File::create(std::env::temp_dir().join("event-hub-failpoints.lock")).unwrap();
        let turn = tokio::task::spawn_blocking(move || turn.lock().map(|()| turn)).await.unwrap().unwrap();
        (store, Trap { client: self.db.client().clone(), app, _turn: turn })
    }

    pub fn documents(&self, collection: &str) -> hub_testbed::mongodb::Collection<Document> {
        self.db.collection(collection)
    }
}

/// Makes commands of one client fail.
pub struct Trap {
    client: Client,
    app: String,
    _turn: File,
}

impl Trap {
    /// The next `times` of these commands fail as `how` says.
    pub async fn set(&self, times: i32, commands: &[&str], how: Document) {
        let mut data = doc! { "failCommands": commands.to_vec(), "appName": &self.app };
        data.extend(how);
        self.configure("failCommand", doc! { "times": times }, data).await;
    }

    /// Like [`Trap::set`], for any failpoint.
    pub async fn configure(&self, point: &str, mode: Document, data: Document) {
        let command = doc! { "configureFailPoint": point, "mode": mode, "data": data };
        self.client.database("admin").run_command(command).await.unwrap();
    }

    /// The name of the client.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Ends a failpoint.
    pub async fn off(&self, point: &str) {
        let command = doc! { "configureFailPoint": point, "mode": "off" };
        self.client.database("admin").run_command(command).await.unwrap();
    }
}

/// A steady clock in the test's hands.
#[derive(Clone, Default)]
pub struct Hands(Arc<AtomicU64>);

impl Hands {
    pub fn clock(&self) -> SteadyClock {
        let now = self.0.clone();
        SteadyClock::of(move || Duration::from_secs(now.load(Relaxed)))
    }

    pub fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Relaxed);
    }
}

pub fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

pub fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

/// Ids that no other draft has.
pub fn fresh_id() -> EventId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    EventId::derived(&[b"mongo", &NEXT.fetch_add(1, Relaxed).to_be_bytes(), Uuid::new_v4().as_bytes()])
}

pub fn draft(name: &str, json: &str) -> Draft {
    draft_with(name, fresh_id(), json)
}

pub fn draft_with(name: &str, id: EventId, json: &str) -> Draft {
    Draft::encode(NewEvent::new(topic(name), Payload::from_json(json.to_owned()).unwrap()), id, T0)
}

pub fn keyed(name: &str, key: &str, json: &str) -> Draft {
    let event = NewEvent::new(topic(name), Payload::from_json(json.to_owned()).unwrap()).with_key(key);
    Draft::encode(event, fresh_id(), T0)
}

pub async fn commit(store: &MongoStore, events: Vec<Draft>) -> Vec<StoreResult<Appended>> {
    commit_at(store, T0, events).await
}

pub async fn commit_at(store: &MongoStore, now: u64, events: Vec<Draft>) -> Vec<StoreResult<Appended>> {
    store.commit(Commit { now, events, ..Commit::default() }).await.events
}

/// Commits events that are all new, and answers their seqs.
pub async fn append(store: &MongoStore, events: Vec<Draft>) -> Vec<u64> {
    commit(store, events).await.into_iter().map(|answer| new(answer).seq()).collect()
}

pub async fn write(store: &MongoStore, epoch: u64, records: Vec<Record>) -> Vec<StoreResult<()>> {
    let epochs = vec![epoch; records.len()];
    store.commit(Commit { now: T0, records, epochs, ..Commit::default() }).await.records
}

pub fn new(answer: StoreResult<Appended>) -> Arc<Event> {
    match answer.unwrap() {
        Appended::New { event, .. } => event,
        known => panic!("the event was known already: {known:?}"),
    }
}

pub async fn log(store: &MongoStore, name: &str) -> Vec<Arc<Event>> {
    store.read(&topic(name), 0, ALL).await.unwrap()
}

pub fn seqs(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| event.seq()).collect()
}

/// The log has these ids, each once, numbered from 1 without a gap.
pub async fn assert_log_is(store: &MongoStore, name: &str, ids: &[EventId]) {
    let events = log(store, name).await;
    assert_eq!(seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.iter().map(|event| event.id()).collect::<Vec<_>>(), ids);
}
