//! The outbox in a real database: what every outbox keeps, and what is MongoDB's own.

use futures_util::TryStreamExt;
use hub_core::outbox::{Drainer, DrainerOptions, NewRow, OutboxStore, RowStatus};
use hub_core::{Bus, MemoryStore, Position};
use hub_proto::Payload;
use hub_store_mongo::outbox::{self, MongoOutbox, OutboxOptions};
use hub_testbed::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Collection, Database};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// An outbox with its database, which goes with it.
struct Outbox {
    inner: Arc<MongoOutbox>,
    database: TestDatabase,
}

impl Deref for Outbox {
    type Target = MongoOutbox;
    fn deref(&self) -> &MongoOutbox {
        &self.inner
    }
}

async fn open() -> Outbox {
    open_in(hub_testbed::database().await.unwrap()).await
}

async fn open_in(database: TestDatabase) -> Outbox {
    let inner = Arc::new(MongoOutbox::connect(OutboxOptions::new(database.uri())).await.unwrap());
    Outbox { inner, database }
}

impl Outbox {
    /// As a service sees it.
    async fn client(&self) -> (Client, Database) {
        let client = Client::with_uri_str(self.database.uri()).await.unwrap();
        let database = client.default_database().unwrap();
        (client, database)
    }

    fn drain(&self, bus: &Bus) -> (CancellationToken, tokio::task::JoinHandle<hub_core::outbox::Drained>) {
        let stop = CancellationToken::new();
        let drainer = Drainer::new(self.inner.clone(), Arc::new(bus.clone()), DrainerOptions::default());
        (stop.clone(), tokio::spawn(drainer.run(stop)))
    }

    async fn settled(&self) {
        while self.counts().await.unwrap().pending > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn bus() -> Bus {
    Bus::builder(MemoryStore::new()).open().await.unwrap()
}

async fn log(bus: &Bus, topic: &str) -> Vec<String> {
    let events = bus.scan(topic, Position::Earliest, None).await.unwrap_or_default();
    events.iter().map(|event| String::from_utf8(event.payload().to_vec()).unwrap()).collect()
}

mod suite {
    use super::*;

    /// The suite's outboxes are left to the testbed, which removes their databases with the server.
    async fn open() -> Arc<dyn OutboxStore> {
        let outbox = super::open().await;
        std::mem::forget(outbox.database);
        outbox.inner
    }

    hub_core::outbox_suite!(mongo, open);
}

#[tokio::test]
async fn a_transaction_that_is_aborted_publishes_nothing_and_a_committed_one_its_rows() {
    let outbox = open().await;
    let (client, shop) = outbox.client().await;
    let orders: Collection<Document> = shop.collection("orders");
    orders.insert_one(doc! { "_id": 0 }).await.unwrap();
    let bus = bus().await;
    let (stop, drainer) = outbox.drain(&bus);
    for n in 1..=20 {
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        orders.insert_one(doc! { "_id": n }).session(&mut session).await.unwrap();
        let row = NewRow::new("orders", Payload::of(&n).unwrap()).key("k");
        outbox::add(&mut session, &shop.collection("outbox"), [row]).await.unwrap();
        match n % 2 {
            0 => session.commit_transaction().await.unwrap(),
            _ => session.abort_transaction().await.unwrap(),
        }
    }
    outbox.settled().await;
    stop.cancel();
    assert_eq!(drainer.await.unwrap().sent, 10);
    let even: Vec<String> = (1..=20).filter(|n| n % 2 == 0).map(|n| n.to_string()).collect();
    assert_eq!(log(&bus, "orders").await, even);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_router_it_is_drained_as_well() {
    let cluster = hub_testbed::Sharded::start(2).await.unwrap();
    let outbox = open_in(hub_testbed::database_on(&cluster.uri())).await;
    let (client, shop) = outbox.client().await;
    let bus = bus().await;
    let (stop, drained) = outbox.drain(&bus);
    // The first ones come into a collection with nothing in it, the others wake the drainer.
    for n in 0..20 {
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let orders = shop.collection::<Document>("orders");
        orders.insert_one(doc! { "n": n }).session(&mut session).await.unwrap();
        let rows = (0..5).map(|m| NewRow::new("orders", Payload::of(&(n * 5 + m)).unwrap()).key("k"));
        outbox::add(&mut session, &shop.collection("outbox"), rows).await.unwrap();
        session.commit_transaction().await.unwrap();
    }
    outbox.settled().await;
    stop.cancel();
    let drained = drained.await.unwrap();
    assert_eq!((drained.sent, drained.parked, drained.resets), (100, 0, 0));
    assert_eq!(log(&bus, "orders").await, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn rows_of_strangers_are_published_or_parked_with_a_reason() {
    let outbox = open().await;
    let (_, shop) = outbox.client().await;
    let rows: Collection<Document> = shop.collection("outbox");
    let good = |id: &str, topic: &str| doc! { "_id": id, "topic": topic, "payload": { "n": 1 }, "status": "pending" };
    let mut wrong = vec![
        good("not a uuid", "t"),
        good("018f4e3a-1b2c-7d3e-8f40-000000000001", "a b"),
        doc! { "_id": 7, "topic": "t", "payload": 1, "status": "pending" },
        doc! { "topic": "t", "payload": 1, "status": "pending", "ts": mongodb::bson::DateTime::now() },
        doc! { "_id": "018f4e3a-1b2c-7d3e-8f40-000000000002", "status": "pending", "key": 7 },
    ];
    let last = wrong.len();
    wrong.push(good("018f4e3a-1b2c-7d3e-8f40-000000000003", "t"));
    rows.insert_many(wrong).await.unwrap();
    let bus = bus().await;
    let (stop, drainer) = outbox.drain(&bus);
    outbox.settled().await;
    let parked = outbox.list(Some(RowStatus::Error), 100).await.unwrap();
    assert_eq!(parked.len(), last);
    assert!(parked.iter().all(|row| row.error.as_deref().is_some_and(|why| why.starts_with("bad_request"))));
    assert_eq!(log(&bus, "t").await, [r#"{"n":1}"#]);
    // Somebody puts it right.
    let id = doc! { "_id": "018f4e3a-1b2c-7d3e-8f40-000000000001" };
    rows.update_one(id, doc! { "$set": { "topic": "t" } }).await.unwrap();
    let named = ["018f4e3a-1b2c-7d3e-8f40-000000000001".into()];
    assert_eq!(outbox.retry(Some(&named)).await.unwrap(), 1);
    outbox.settled().await;
    assert_eq!(log(&bus, "t").await.len(), 2);
    // And another one by hand altogether.
    let id = doc! { "_id": "018f4e3a-1b2c-7d3e-8f40-000000000002" };
    let right = doc! { "$set": { "topic": "t", "payload": 3, "key": "k", "status": "pending" } };
    rows.update_one(id, right).await.unwrap();
    while log(&bus, "t").await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    outbox.settled().await;
    stop.cancel();
    drainer.await.unwrap();
}

/// The stages of a plan, from the top down.
fn stages(plan: &Bson, found: &mut Vec<String>) {
    match plan {
        Bson::Document(plan) => {
            if let Ok(stage) = plan.get_str("stage") {
                found.push(stage.to_owned());
            }
            plan.iter()
                .filter(|(name, _)| *name != "rejectedPlans")
                .for_each(|(_, value)| stages(value, found));
        }
        Bson::Array(plans) => plans.iter().for_each(|plan| stages(plan, found)),
        _ => {}
    }
}

#[tokio::test]
async fn with_many_rows_pending_every_call_looks_at_those_it_answers() {
    const ROWS: usize = 200_000;
    let outbox = open().await;
    let (_, shop) = outbox.client().await;
    let rows: Collection<Document> = shop.collection("outbox");
    let ts = 1_700_000_000_000_i64;
    for from in (0..ROWS).step_by(20_000) {
        let some = (from..from + 20_000).map(|n| {
            let at = mongodb::bson::DateTime::from_millis(ts + n as i64);
            let mut row = doc! {
                "_id": format!("018f4e3a-1b2c-7d3e-8f40-{n:012}"), "topic": "t", "payload": n as i64,
                "key": format!("key-{}", n % 1000), "status": "pending", "ts": at, "attempts": 0,
            };
            // A key with a row that is parked, and all the others behind it.
            if n % 1000 == 7 {
                row.insert("stage", if n == 7 { "parked" } else { "behind" });
                row.insert("status", if n == 7 { "error" } else { "pending" });
            }
            row
        });
        rows.insert_many(some).await.unwrap();
    }
    let profile = |level: i32| shop.run_command(doc! { "profile": level, "slowms": 0 });
    profile(2).await.unwrap();
    let all = hub_core::outbox::Holding { worker: "w", parked: true, behind: true };
    let claim = hub_core::outbox::Claim { worker: "w".into(), number: 1 };
    let fresh = outbox.fresh(None, 100).await.unwrap();
    let keys: Vec<Arc<str>> = fresh.iter().filter_map(|row| row.key.clone()).collect();
    let later = outbox.fresh(fresh.last().map(|row| &row.place), 100).await.unwrap();
    assert_eq!((fresh.len(), later.len()), (100, 100));
    outbox.due(100).await.unwrap();
    let before: Vec<_> = later.iter().map(|row| (row.key.clone().unwrap(), row.place.clone())).collect();
    assert_eq!(outbox.fresh_before(&before, 100).await.unwrap().len(), 0);
    let held: Vec<Arc<str>> = keys.iter().cloned().chain(["key-7".into()]).collect();
    assert!(!outbox.holding(&held, all).await.unwrap().is_empty());
    let ids: Vec<_> = fresh.iter().map(|row| row.place.id.clone()).collect();
    assert_eq!(outbox.claim(&claim, &ids, 60_000, usize::MAX).await.unwrap().len(), 100);
    let sent = |id: &hub_core::outbox::RowId| hub_core::outbox::Settled {
        id: id.clone(),
        outcome: hub_core::outbox::Outcome::Sent,
    };
    assert_eq!(outbox.settle(&claim, &ids.iter().map(sent).collect::<Vec<_>>()).await.unwrap(), 100);
    outbox.put_behind(&[later[0].place.id.clone()]).await.unwrap();
    outbox.release(&["key-7".into()], 50).await.unwrap();
    assert_eq!(outbox.keys_behind(None, 10).await.unwrap().len(), 2);
    outbox.renew(&claim.worker, claim.number..=claim.number, 1000).await.unwrap();
    outbox.requeue_expired().await.unwrap();
    outbox.take_from(&["nobody".into()]).await.unwrap();
    outbox.purge(0, 50).await.unwrap();
    outbox.list(Some(RowStatus::Error), 10).await.unwrap();
    outbox.list(Some(RowStatus::Sent), 10).await.unwrap();
    profile(0).await.unwrap();
    let log: Collection<Document> = shop.collection("system.profile");
    let calls: Vec<Document> = log.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    assert!(calls.len() >= 14, "{}", calls.len());
    for call in calls {
        let looked = ["keysExamined", "docsExamined"].map(|field| match call.get(field) {
            Some(Bson::Int32(number)) => i64::from(*number),
            Some(Bson::Int64(number)) => *number,
            _ => 0,
        });
        let mut found = Vec::new();
        stages(&Bson::Document(call.clone()), &mut found);
        assert!(looked.iter().all(|looked| *looked <= 2_500), "{looked:?} {found:?} {call}");
        assert!(!found.iter().any(|stage| stage == "COLLSCAN"), "{call}");
    }
}

/// Has reads of the outbox stop where they let writers have a turn, which they do after every row.
struct HungReads {
    admin: Database,
    namespace: String,
    entered: i64,
}

impl HungReads {
    const POINT: &'static str = "setYieldAllLocksHang";

    /// After some rows.
    async fn begin(client: &Client, shop: &Database) -> Self {
        let (admin, namespace) = (client.database("admin"), format!("{}.outbox", shop.name()));
        let often = doc! { "setParameter": 1, "internalQueryExecYieldIterations": 1 };
        admin.run_command(often).await.unwrap();
        let mut hung = Self { admin, namespace, entered: 0 };
        let before = hung.set(Bson::from(doc! { "skip": 10 })).await;
        hung.entered = before.get_i64("count").or(before.get_i32("count").map(i64::from)).unwrap_or(0);
        hung
    }

    async fn set(&self, mode: Bson) -> Document {
        let data = doc! { "namespace": &self.namespace };
        let command = doc! { "configureFailPoint": Self::POINT, "mode": mode, "data": data };
        self.admin.run_command(command).await.unwrap()
    }

    /// Waits until a read hangs, or is over without having let anybody have a turn.
    async fn hangs<T>(&self, reading: &tokio::task::JoinHandle<T>) {
        while !reading.is_finished() {
            let wait =
                doc! { "waitForFailPoint": Self::POINT, "timesEntered": self.entered + 1, "maxTimeMS": 200 };
            if self.admin.run_command(wait).await.is_ok() {
                return;
            }
        }
    }

    async fn end(&self) {
        self.set("off".into()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_row_of_a_key_is_not_found_without_an_earlier_one() {
    let set = hub_testbed::ReplicaSet::start(1).await.unwrap();
    let outbox = open_in(hub_testbed::database_on(&set.uri())).await;
    let (client, shop) = outbox.client().await;
    let row = |at: u64, key: &str| NewRow {
        at: at * 1_000_000,
        ..NewRow::new("t", Payload::of(&at).unwrap()).key(key)
    };
    outbox.add((100..150).map(|at| row(at, &format!("other {at}"))).collect()).await.unwrap();
    let (first, second) = (row(1, "k"), row(200, "k"));
    let hung = HungReads::begin(&client, &shop).await;
    let reader = outbox.inner.clone();
    let reading = tokio::spawn(async move { reader.fresh(None, 1_000).await.unwrap() });
    hung.hangs(&reading).await;
    // One after the other, as somebody does who writes them under a lock: the first behind the place where the read is, the
    // second before it.
    outbox.add(vec![first]).await.unwrap();
    outbox.add(vec![second]).await.unwrap();
    hung.end().await;
    let found = reading.await.unwrap();
    let of_key: Vec<_> =
        found.iter().filter(|row| row.key.as_deref() == Some("k")).map(|row| row.place.at).collect();
    assert!(found.len() >= 50, "{found:?}");
    assert!(of_key.is_empty() || of_key.len() == 2, "the second one was found without the first: {of_key:?}");
    // Who looks again finds both.
    assert_eq!(outbox.fresh(None, 1_000).await.unwrap().len(), 52);
}
