//! A thread that commits for publishers who keep coming, and tells them of one commit while the disk is at the next: when
//! disks stall, fail and panic.

use super::threads::{LIMIT, event, given, keeper_is_idle, open, options, seqs, topic, until};
use super::tools::page;
use super::watched::Watched;
use hub_core::store::EventStore;
use hub_core::{Bus, Code, Config, Receipt, TopicDurability, TopicSettings};
use hub_proto::{EventId, NewEvent, Payload};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::sim::SimDisk;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::task::JoinSet;

const PUBLISHERS: u64 = 12;

/// A hub that answers within 200 ms; topics below `r` are relaxed.
async fn hub(store: Arc<EmbeddedStore>) -> Bus {
    let relaxed = TopicSettings { durability: TopicDurability::Interval, ..TopicSettings::default() };
    let config = Config { publish_timeout: 200, ..Config::default() }.topic("r.**", relaxed).unwrap();
    Bus::builder_over(store).config(config).open().await.unwrap()
}

/// A store, and whether the committer's thread has ever synced something of it.
fn watch(disk: &SimDisk) -> (Arc<EmbeddedStore>, Arc<AtomicBool>) {
    mined(disk, &Arc::default())
}

/// The same, and that thread panics in its syncs, once it is told to.
fn mined(disk: &SimDisk, armed: &Arc<AtomicBool>) -> (Arc<EmbeddedStore>, Arc<AtomicBool>) {
    let (armed, seen) = (armed.clone(), Arc::new(AtomicBool::new(false)));
    let sees = seen.clone();
    let disk = Watched::new(disk, move || {
        if std::thread::current().name() == Some("hub-committer") {
            sees.store(true, SeqCst);
            assert!(!armed.load(SeqCst), "as it was told to");
        }
    });
    (Arc::new(EmbeddedStore::open_on(Arc::new(disk), options()).unwrap()), seen)
}

fn id(publisher: u64, n: u64) -> EventId {
    EventId::derived(&[&publisher.to_be_bytes(), &n.to_be_bytes()])
}

async fn publish(bus: &Bus, name: &str, publisher: u64, n: u64) -> hub_core::Result<Receipt> {
    let mut event = NewEvent::new(topic(name), Payload::of(&(publisher, n)).unwrap());
    event.options.id = Some(id(publisher, n));
    tokio::time::timeout(LIMIT, bus.send(event)).await.expect("nobody is left waiting")
}

/// Waits until much more was published.
async fn goes_on(bus: &Bus) {
    let last = bus.bounds("a").await.unwrap().last;
    let waited = tokio::time::timeout(LIMIT, async {
        while bus.bounds("a").await.unwrap().last < last + 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.expect("it goes on");
}

/// What the store has of topic `a`: payloads, in their order.
async fn stored(disk: &SimDisk) -> Vec<(u64, u64)> {
    let store = open(disk);
    assert_eq!(store.health(), Default::default());
    let read = store.read(&topic("a"), 0, page(1_000_000)).await.unwrap();
    assert!(read.iter().zip(1..).all(|(event, seq)| event.seq() == seq), "every seq once");
    read.iter().map(|event| serde_json::from_slice(event.payload()).unwrap()).collect()
}

/// Publishers who publish one event after the other, each until it is stored, until they are stopped.
struct Crowd {
    over: Arc<AtomicBool>,
    /// Answers that said that the store is unavailable.
    refused: Arc<AtomicU64>,
    /// Who each is, and the seqs of what it has published, in order.
    tasks: JoinSet<(u64, Vec<u64>)>,
}

impl Crowd {
    async fn gather(bus: &Bus, name: &'static str, thread: &AtomicBool) -> Self {
        let mut crowd = Self { over: Arc::default(), refused: Arc::default(), tasks: JoinSet::new() };
        for publisher in 0..PUBLISHERS {
            let (bus, over, refused) = (bus.clone(), crowd.over.clone(), crowd.refused.clone());
            crowd.tasks.spawn(async move {
                let mut seqs = Vec::new();
                while !over.load(SeqCst) {
                    match publish(&bus, name, publisher, seqs.len() as u64).await {
                        Ok(receipt) => seqs.push(receipt.seq),
                        Err(error) => {
                            assert_eq!(error.code, Code::Unavailable, "{error}");
                            refused.fetch_add(1, SeqCst);
                            // The answer may come at once, and others are to have their turn.
                            tokio::task::yield_now().await;
                        }
                    }
                }
                (publisher, seqs)
            });
        }
        until("a thread commits", || thread.load(SeqCst)).await;
        crowd
    }

    /// Ends it. What it has published, in the order of the answers' seqs: each is there once.
    async fn stop(mut self) -> Vec<(u64, u64)> {
        self.over.store(true, SeqCst);
        let mut all = BTreeMap::new();
        while let Some(published) = self.tasks.join_next().await {
            let (publisher, seqs) = published.unwrap();
            assert!(seqs.is_sorted(), "what is published later is later in the log: {seqs:?}");
            all.extend(seqs.into_iter().zip((0..).map(|n| (publisher, n))));
        }
        assert!(all.keys().copied().eq(1..=all.len() as u64), "no seq is left out or given twice");
        all.into_values().collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_publisher_needs_no_thread() {
    let (store, thread) = watch(&SimDisk::new(1));
    let bus = hub(store).await;
    for n in 0..500 {
        assert_eq!(publish(&bus, "a", 1, n).await.unwrap().seq, n + 1);
    }
    assert!(!thread.load(SeqCst));
    bus.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crowd_publishes_survives_in_its_order() {
    for luck in 0..4 {
        let disk = SimDisk::new(luck);
        let (store, thread) = watch(&disk);
        let bus = hub(store).await;
        let durable = Crowd::gather(&bus, "a", &thread).await;
        let relaxed = Crowd::gather(&bus, "r.a", &thread).await;
        // Many segments later.
        let at = disk.ops() + 3000;
        until("there was much to do", || disk.ops() > at).await;
        let published = durable.stop().await;
        relaxed.stop().await;
        disk.power_loss(luck);
        assert_eq!(stored(&disk).await, published);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_is_answered_in_time_while_a_sync_stalls_and_goes_on_afterwards() {
    let disk = SimDisk::new(1);
    let (store, thread) = watch(&disk);
    let bus = hub(store).await;
    let crowd = Crowd::gather(&bus, "a", &thread).await;
    for turn in 1..=3 {
        disk.stall_syncs(true);
        until("all are told", || crowd.refused.load(SeqCst) >= PUBLISHERS * turn).await;
        disk.stall_syncs(false);
        goes_on(&bus).await;
    }
    let published = crowd.stop().await;
    bus.stop().await.unwrap();
    disk.power_loss(0);
    assert_eq!(stored(&disk).await, published);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_is_told_of_failures_and_loses_nothing_that_was_answered() {
    for fault in [SimDisk::fail_syncs, SimDisk::fail_writes] {
        let disk = SimDisk::new(2);
        let (store, thread) = watch(&disk);
        let bus = hub(store).await;
        let crowd = Crowd::gather(&bus, "a", &thread).await;
        for turn in 1..=3 {
            fault(&disk, true);
            until("all are told", || crowd.refused.load(SeqCst) >= PUBLISHERS * turn).await;
            fault(&disk, false);
            goes_on(&bus).await;
        }
        let published = crowd.stop().await;
        bus.stop().await.unwrap();
        disk.power_loss(1);
        assert_eq!(stored(&disk).await, published);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_mid_commit_leaves_nobody_of_a_crowd_waiting() {
    let disk = SimDisk::new(1);
    let armed = Arc::new(AtomicBool::new(false));
    let (store, thread) = mined(&disk, &armed);
    let bus = hub(store).await;
    let crowd = Crowd::gather(&bus, "a", &thread).await;
    armed.store(true, SeqCst);
    until("all are told", || crowd.refused.load(SeqCst) >= 2 * PUBLISHERS).await;
    crowd.over.store(true, SeqCst);
    crowd.tasks.join_all().await;
    // The publishers are told first.
    until("the bus has failed", || bus.health().unavailable.is_some()).await;
}

#[test]
fn a_runtime_that_goes_away_while_the_disk_stalls_waits_for_the_thread_and_gives_the_directory_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let disk = SimDisk::new(1);
    let crowd = runtime.block_on(async {
        let (store, thread) = watch(&disk);
        let bus = hub(store).await;
        let crowd = Crowd::gather(&bus, "a", &thread).await;
        disk.stall_syncs(true);
        until("a sync is stalled", || disk.stalled() > 0).await;
        crowd
    });
    let gone = std::thread::spawn(move || drop((crowd, runtime)));
    disk.stall_syncs(false);
    gone.join().unwrap();
    EmbeddedStore::open_on(Arc::new(disk), options()).unwrap();
}

/// Commits on a thread of its own. Whether `meanwhile` was called, and what came of it.
fn commit_beside(store: &Arc<EmbeddedStore>, n: u64) -> (Arc<AtomicBool>, std::thread::JoinHandle<u64>) {
    let (store, told) = (store.clone(), Arc::new(AtomicBool::new(false)));
    let tell = told.clone();
    let commit = move || {
        let here = store.here().expect("it has threads");
        given(here.commit_here(event("a", n), &mut || assert!(!tell.swap(true, SeqCst)))).unwrap().seq()
    };
    (told, std::thread::spawn(commit))
}

#[tokio::test]
async fn there_is_time_for_something_else_while_the_disk_is_at_it() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    keeper_is_idle(&disk).await;
    disk.stall_syncs(true);
    let (told, commit) = commit_beside(&store, 1);
    until("a sync is stalled", || disk.stalled() > 0).await;
    assert!(told.load(SeqCst) && !commit.is_finished());
    assert!(seqs(&store, "a").await.is_empty(), "nobody sees it before it is safe");
    disk.stall_syncs(false);
    assert_eq!(commit.join().unwrap(), 1);
}

#[tokio::test]
async fn there_is_time_for_something_else_before_another_segment_is_begun() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let mut n = 0;
    loop {
        n += 1;
        let before = disk.names();
        let (told, commit) = commit_beside(&store, n);
        assert_eq!(commit.join().unwrap(), n);
        assert!(told.load(SeqCst));
        if n > 1 && disk.names().iter().any(|name| name.ends_with("2") && !before.contains(name)) {
            break;
        }
    }
    // The same again, to the event that does not fit.
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for n in 1..n {
        given(store.commit(event("a", n)).await).unwrap();
    }
    keeper_is_idle(&disk).await;
    disk.stall_syncs(true);
    let (told, commit) = commit_beside(&store, n);
    until("a sync is stalled", || disk.stalled() > 0).await;
    assert!(told.load(SeqCst));
    disk.stall_syncs(false);
    assert_eq!(commit.join().unwrap(), n);
}

/// Lets so many through.
struct Gate {
    free: Mutex<usize>,
    opened: Condvar,
    waiting: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { free: Mutex::new(1000), opened: Condvar::new(), waiting: AtomicU64::new(0) }
    }
}

impl Gate {
    fn pass(&self) {
        let mut free = self.free.lock();
        self.waiting.fetch_add(1, SeqCst);
        self.opened.wait_while(&mut free, |free| *free == 0);
        self.waiting.fetch_sub(1, SeqCst);
        *free -= 1;
    }

    fn open(&self, count: usize) {
        *self.free.lock() += count;
        self.opened.notify_all();
    }
}

#[tokio::test]
async fn who_waits_for_a_commit_does_not_wait_for_the_one_behind_it() {
    let disk = SimDisk::new(1);
    let gate = Arc::new(Gate::default());
    let gated = Watched::new(&disk, {
        let gate = gate.clone();
        move || gate.pass()
    });
    let store = Arc::new(EmbeddedStore::open_on(Arc::new(gated), options()).unwrap());
    keeper_is_idle(&disk).await;
    *gate.free.lock() = 0;
    let (_, commit) = commit_beside(&store, 1);
    until("a sync waits", || gate.waiting.load(SeqCst) == 1).await;
    // In the pipeline behind it. The bus does not do that, but cleaning does.
    let behind = store.commit(event("a", 2));
    gate.open(1);
    assert_eq!(commit.join().unwrap(), 1);
    until("another sync waits", || gate.waiting.load(SeqCst) == 1).await;
    gate.open(1000);
    assert_eq!(given(behind.await).unwrap().seq(), 2);
}
