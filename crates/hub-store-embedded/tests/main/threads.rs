//! A disk that stalls, fails or lies under a store with threads of its own.

use super::tools::page;
use super::watched::{Call, Watched};
use hub_core::store::{Appended, Commit, Committed, EventStore, StoreError};
use hub_core::{Bus, Code, Config};
use hub_proto::{Draft, Event, EventId, NewEvent, Payload, TopicName};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Far beyond what anything here takes.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn open(disk: &SimDisk) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options()).unwrap())
}

pub fn options() -> Options {
    Options { segment_bytes: 4096, reserve: 100, disk_reserve: 0, ..Options::default() }
}

pub fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

/// The event number `n` of a topic; those of `r` are relaxed.
pub fn event(name: &str, n: u64) -> Commit {
    let payload = Payload::from_json(format!("\"{n}{}\"", "z".repeat(200))).unwrap();
    let id = EventId::derived(&[name.as_bytes(), &n.to_be_bytes()]);
    let mut draft = Draft::encode(NewEvent::new(topic(name), payload), id, 1_780_000_000_000 + n);
    draft.set_relaxed(name == "r");
    Commit { now: 1_780_000_000_000 + n, events: vec![draft], ..Commit::default() }
}

pub fn given(committed: Committed) -> Result<Arc<Event>, StoreError> {
    committed.events.into_iter().next().unwrap().map(|appended| match appended {
        Appended::New { event, .. } => event,
        known => panic!("it was known: {known:?}"),
    })
}

pub async fn seqs(store: &EmbeddedStore, name: &str) -> Vec<u64> {
    let read = store.read(&topic(name), 0, page(10_000)).await.unwrap();
    read.iter().map(|event| event.seq()).collect()
}

/// Asks again and again, until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(LIMIT, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_stalls_holds_answers_back_and_nothing_else() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    given(store.commit(event("a", 1)).await).unwrap();
    disk.stall_syncs(true);
    let commit = tokio::spawn({
        let store = store.clone();
        async move { given(store.commit(event("a", 2)).await) }
    });
    until("a sync is stalled", || disk.stalled() > 0).await;
    assert!(!commit.is_finished(), "it was answered before it was safe");
    // Readers go on, on any thread, and do not see it.
    assert_eq!(seqs(&store, "a").await, [1]);
    assert_eq!(store.bounds(&topic("a")).await.unwrap().last, 1);
    assert_eq!(store.seq_of(&topic("a"), EventId::derived(&[b"a", &2u64.to_be_bytes()])).await, Ok(None));
    assert_eq!(store.health().unavailable, None);
    assert!(!commit.is_finished(), "it was answered before it was safe");
    disk.stall_syncs(false);
    assert_eq!(commit.await.unwrap().unwrap().seq(), 2);
    assert_eq!(seqs(&store, "a").await, [1, 2]);
    store.close().await.unwrap();
}

/// A disk that takes 100 ms for each sync, while the segment after the first is prepared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_closes_does_not_wait_for_the_next_segment_to_be_prepared() {
    const STEPS: usize = 64;
    let disk = SimDisk::new(1);
    let (begun, syncs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let watched = Watched::with(&disk, {
        let (begun, syncs) = (begun.clone(), syncs.clone());
        move |call| match call {
            Call::Create("log-00000002.new") => begun.store(true, Relaxed),
            Call::Sync if begun.load(Relaxed) => {
                syncs.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
            _ => {}
        }
    });
    let options = Options { segment_bytes: (STEPS << 18) as u64, ..options() };
    let store = EmbeddedStore::open_on(Arc::new(watched), options).unwrap();
    until("a segment is being prepared", || begun.load(Relaxed)).await;
    store.close().await.unwrap();
    drop(store);
    let syncs = syncs.load(Relaxed);
    assert!(syncs < STEPS, "{syncs} syncs: the segment was prepared to its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_that_fails_during_a_stalled_sync_takes_only_what_nobody_was_promised() {
    for luck in 0..16 {
        let disk = SimDisk::new(luck);
        let store = open(&disk);
        given(store.commit(event("a", 1)).await).unwrap();
        disk.stall_syncs(true);
        let commit = tokio::spawn({
            let store = store.clone();
            async move { given(store.commit(event("a", 2)).await) }
        });
        until("a sync is stalled", || disk.stalled() > 0).await;
        disk.power_loss(luck);
        assert!(commit.await.unwrap().is_err());
        let store = open(&disk);
        let seqs = seqs(&store, "a").await;
        assert!(seqs == [1] || seqs == [1, 2], "{seqs:?}");
        assert_eq!(store.health(), Default::default());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relaxed_events_are_answered_while_a_sync_stalls() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    // The first one reserves seqs, which is durable.
    given(store.commit(event("r", 1)).await).unwrap();
    disk.stall_syncs(true);
    for n in 2..6 {
        assert_eq!(given(store.commit(event("r", n)).await).unwrap().seq(), n);
    }
    assert_eq!(seqs(&store, "r").await, [1, 2, 3, 4, 5]);
    until("the syncing thread is at work", || disk.stalled() > 0).await;
    disk.stall_syncs(false);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relaxed_events_are_synced_without_another_commit() {
    // Nothing tells when; so the power fails later and later, until it comes too late.
    let mut patience = Duration::from_millis(4);
    while patience < LIMIT {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        // The first one reserves seqs, which is durable anyhow.
        given(store.commit(event("r", 1)).await).unwrap();
        given(store.commit(event("r", 2)).await).unwrap();
        tokio::time::sleep(patience).await;
        disk.power_loss(0);
        if seqs(&open(&disk), "r").await == [1, 2] {
            return;
        }
        patience *= 2;
    }
    panic!("nothing syncs what was relaxed");
}

/// Writes or syncs fail for a while, under durable and relaxed events.
async fn comes_back_from(fault: impl Fn(&SimDisk, bool)) {
    let disk = SimDisk::new(3);
    let store = open(&disk);
    let mut last = [0, 0];
    for n in 1..6 {
        last = [given(store.commit(event("a", n)).await).unwrap().seq(), n];
        given(store.commit(event("r", n)).await).unwrap();
    }
    fault(&disk, true);
    let mut relaxed = last[1];
    // Relaxed events may still be taken, until the first failure is noticed.
    while let Ok(event) = given(store.commit(event("r", relaxed + 1)).await) {
        relaxed += 1;
        assert_eq!(event.seq(), relaxed);
    }
    let refused = given(store.commit(event("a", 6)).await).unwrap_err();
    assert!(matches!(&refused, StoreError::Unavailable(why) if why.contains("the disk fails")), "{refused}");
    let health = store.health();
    assert!(health.unavailable.is_some_and(|why| why.contains("the disk fails")));
    assert!(health.failed_commits >= 2);
    // Readers see what they saw.
    let seen: Vec<u64> = (1..=relaxed).collect();
    assert_eq!((seqs(&store, "a").await, seqs(&store, "r").await), (vec![1, 2, 3, 4, 5], seen.clone()));
    fault(&disk, false);
    // By itself: nobody has to commit anything.
    until("it takes commits again", || store.health().unavailable.is_none()).await;
    assert_eq!(seqs(&store, "r").await, seen);
    assert_eq!(given(store.commit(event("a", 7)).await).unwrap().seq(), 6);
    assert_eq!(given(store.commit(event("r", relaxed + 1)).await).unwrap().seq(), relaxed + 1);
    given(store.commit(event("a", 8)).await).unwrap();
    // What was answered before, during and after the bad time is there without power, too.
    disk.power_loss(0);
    let store = open(&disk);
    assert_eq!(seqs(&store, "a").await, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seqs(&store, "r").await, (1..=relaxed + 1).collect::<Vec<_>>());
    assert_eq!(store.health(), Default::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_comes_back_by_itself_when_writes_work_again() {
    comes_back_from(SimDisk::fail_writes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_comes_back_by_itself_when_syncs_work_again() {
    comes_back_from(SimDisk::fail_syncs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishers_are_answered_in_time_while_a_sync_stalls() {
    let disk = SimDisk::new(1);
    let config = Config { publish_timeout: 200, ..Config::default() };
    let bus = Bus::builder_over(open(&disk)).config(config).open().await.unwrap();
    let publish = |n: u64| {
        let bus = bus.clone();
        tokio::spawn(
            async move { bus.send(NewEvent::new(topic("a"), Payload::of(&n).unwrap())).await.map(drop) },
        )
    };
    // One after the other: the disk is quick, so the next one may be synced on the thread that brings it.
    for n in 0..5 {
        publish(n).await.unwrap().unwrap();
    }
    disk.stall_syncs(true);
    let first = publish(5);
    until("a sync is stalled", || disk.stalled() > 0).await;
    let behind = publish(6);
    for late in [first, behind] {
        let answered = tokio::time::timeout(LIMIT, late).await.expect("nobody is left waiting");
        assert_eq!(answered.unwrap().unwrap_err().code, Code::Unavailable);
    }
    disk.stall_syncs(false);
    until("it takes events again", || bus.health().unavailable.is_none()).await;
    publish(7).await.unwrap().unwrap();
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_planned_behind_a_sync_that_fails_fails_with_it_and_leaves_no_trace() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    given(store.commit(event("a", 1)).await).unwrap();
    given(store.commit(event("r", 1)).await).unwrap();
    disk.stall_syncs(true);
    let first = store.commit(event("a", 2));
    until("a sync is stalled", || disk.stalled() > 0).await;
    // A known topic, one that is new, a relaxed one, and one that is on its way already.
    let behind = [event("a", 3), event("b", 1), event("r", 2), event("a", 2), event("a", 3)];
    let behind: Vec<_> = behind.into_iter().map(|commit| store.commit(commit)).collect();
    disk.fail_syncs(true);
    disk.stall_syncs(false);
    for commit in std::iter::once(first).chain(behind) {
        let answer = commit.await.events.remove(0);
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert_eq!((seqs(&store, "a").await, seqs(&store, "b").await), (vec![1], vec![]));
    assert_eq!(seqs(&store, "r").await, [1]);
    disk.fail_syncs(false);
    until("it takes commits again", || store.health().unavailable.is_none()).await;
    // None of it is known, and no seq is used up.
    for (name, n, seq) in [("b", 1, 1), ("a", 3, 2), ("r", 2, 2), ("a", 2, 3)] {
        assert_eq!(given(store.commit(event(name, n)).await).unwrap().seq(), seq, "{name} {n}");
    }
    given(store.commit(event("c", 1)).await).unwrap();
    disk.power_loss(0);
    let store = open(&disk);
    assert_eq!((seqs(&store, "a").await, seqs(&store, "b").await), (vec![1, 2, 3], vec![1]));
    assert_eq!(seqs(&store, "r").await, [1, 2]);
    assert_eq!(store.health(), Default::default());
}

#[tokio::test]
async fn an_event_that_is_sent_again_while_it_is_synced_is_answered_when_it_is_safe() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    disk.stall_syncs(true);
    let first = store.commit(event("a", 1));
    until("a sync is stalled", || disk.stalled() > 0).await;
    let mut again = store.commit(event("a", 1));
    let waited = tokio::time::timeout(Duration::from_millis(50), &mut again).await;
    assert!(waited.is_err(), "it was answered before it was safe");
    disk.stall_syncs(false);
    assert_eq!(given(first.await).unwrap().seq(), 1);
    let again = again.await.events.remove(0).unwrap();
    assert!(matches!(again, Appended::Known { seq: 1, same: true, .. }), "{again:?}");
    assert_eq!(seqs(&store, "a").await, [1]);
    store.close().await.unwrap();
}

/// The system drops what it could not sync, and may tell only the one who asked first.
#[tokio::test]
async fn a_commit_does_not_count_on_a_sync_beside_one_that_failed() {
    let disk = SimDisk::new(1);
    let options = Options { sync_interval: Duration::from_secs(1), ..options() };
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options).unwrap();
    given(store.commit(event("r", 1)).await).unwrap();
    keeper_is_idle(&disk).await;
    disk.stall_syncs(true);
    // Within a second: the syncing thread leaves this one alone for so long.
    given(store.commit(event("r", 2)).await).unwrap();
    let durable = store.commit(event("a", 1));
    until("a sync is stalled", || disk.stalled() == 1).await;
    let behind = store.commit(event("a", 2));
    disk.fail_at(disk.ops(), io::ErrorKind::Other);
    until("the sync of the relaxed event fails", || store.health().unavailable.is_some()).await;
    disk.stall_syncs(false);
    let answers = [given(durable.await), given(behind.await)];
    until("it takes commits again", || store.health().unavailable.is_none()).await;
    let answered: Vec<u64> = answers.iter().flatten().map(|event| event.seq()).collect();
    let seen = seqs(&store, "a").await;
    given(store.commit(event("b", 1)).await).unwrap();
    disk.power_loss(0);
    let store = open(&disk);
    assert_eq!(seqs(&store, "r").await, [1, 2]);
    assert_eq!((seqs(&store, "a").await, answered), (seen.clone(), seen));
    assert_eq!(store.health(), Default::default());
}

/// The next segment is prepared, and nothing else is to be done.
pub async fn keeper_is_idle(disk: &SimDisk) {
    let mut ops = disk.ops();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if ops == std::mem::replace(&mut ops, disk.ops())
            && disk.names().iter().any(|name| name.ends_with(".new"))
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_could_not_begin_a_segment_comes_back_by_itself() {
    let segments = |disk: &SimDisk| {
        let names = disk.names();
        names.iter().filter(|name| name.starts_with("log-") && !name.contains('.')).count()
    };
    // How many events fill the first segment.
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let mut full = 0;
    while segments(&disk) < 2 {
        full += 1;
        given(store.commit(event("a", full)).await).unwrap();
    }
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for n in 1..full {
        given(store.commit(event("a", n)).await).unwrap();
    }
    assert_eq!(segments(&disk), 1);
    keeper_is_idle(&disk).await;
    disk.fail_syncs(true);
    given(store.commit(event("a", full)).await).unwrap_err();
    assert!(store.health().unavailable.is_some());
    disk.fail_syncs(false);
    until("it takes commits again", || store.health().unavailable.is_none()).await;
    assert_eq!(given(store.commit(event("a", full)).await).unwrap().seq(), full);
}

/// A disk whose syncs panic, once they are told to: those of commits, not of upkeep.
fn mine(disk: &SimDisk, armed: &Arc<AtomicBool>) -> Watched {
    let armed = armed.clone();
    let is_keeper = || std::thread::current().name() == Some("hub-keeper");
    Watched::new(disk, move || assert!(!armed.load(Relaxed) || is_keeper(), "as it was told to"))
}

/// Commits into a panic, from one thread, and once more.
async fn breaks_off() {
    let disk = SimDisk::new(1);
    let armed = Arc::new(AtomicBool::new(false));
    let mine = mine(&disk, &armed);
    let store = EmbeddedStore::open_on(Arc::new(mine), options()).unwrap();
    for n in 1..4 {
        given(store.commit(event("a", n)).await).unwrap();
    }
    keeper_is_idle(&disk).await;
    armed.store(true, Relaxed);
    for n in 4..6 {
        let answer = tokio::time::timeout(LIMIT, store.commit(event("a", n))).await;
        given(answer.expect("nobody is left waiting")).unwrap_err();
    }
    assert!(store.health().unavailable.is_some());
    assert_eq!(seqs(&store, "a").await, [1, 2, 3]);
    assert!(store.close().await.is_err());
    drop(store);
    disk.power_loss(0);
    assert_eq!(seqs(&open(&disk), "a").await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_mid_commit_on_the_threads_of_the_hub_leaves_nobody_waiting() {
    tokio::spawn(breaks_off()).await.unwrap();
}

#[tokio::test]
async fn a_panic_in_mid_commit_on_the_threads_of_the_store_leaves_nobody_waiting() {
    breaks_off().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upkeep_that_panics_is_told_of_and_begun_again() {
    let armed = Arc::new(AtomicBool::new(false));
    let (disk, mine) = (SimDisk::new(1), armed.clone());
    let watched = Watched::new(&disk, move || {
        let keeper = std::thread::current().name() == Some("hub-keeper");
        assert!(!(keeper && mine.load(Relaxed)), "as it was told to");
    });
    let store = EmbeddedStore::open_on(Arc::new(watched), options()).unwrap();
    armed.store(true, Relaxed);
    // More than a segment; commits go on without upkeep.
    for n in 1..=60 {
        given(store.commit(event("a", n)).await).unwrap();
    }
    until("it is told of", || store.health().warnings.iter().any(|warning| warning.contains("broke off")))
        .await;
    assert_eq!(store.health().unavailable, None);
    armed.store(false, Relaxed);
    until("it works again", || store.health().warnings.is_empty()).await;
    for n in 61..=120 {
        given(store.commit(event("a", n)).await).unwrap();
    }
    assert_eq!(seqs(&store, "a").await, (1..=120).collect::<Vec<_>>());
}
