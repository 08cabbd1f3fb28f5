//! A disk that stalls, fails or lies under a store with threads of its own.

use super::tools::page;
use hub_core::store::{Appended, Commit, Committed, EventStore, StoreError};
use hub_proto::{Draft, Event, EventId, NewEvent, Payload, TopicName};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use std::sync::Arc;
use std::time::Duration;

/// Far beyond what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

fn open(disk: &SimDisk) -> Arc<EmbeddedStore> {
    let options = Options { segment_bytes: 4096, reserve: 100, ..Options::default() };
    Arc::new(EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options).unwrap())
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

/// The event number `n` of a topic; those of `r` are relaxed.
fn event(name: &str, n: u64) -> Commit {
    let payload = Payload::from_json(format!("\"{n}{}\"", "z".repeat(200))).unwrap();
    let id = EventId::derived(&[name.as_bytes(), &n.to_be_bytes()]);
    let mut draft = Draft::encode(NewEvent::new(topic(name), payload), id, 1_780_000_000_000 + n);
    draft.set_relaxed(name == "r");
    Commit { now: 1_780_000_000_000 + n, events: vec![draft], records: Vec::new() }
}

fn given(committed: Committed) -> Result<Arc<Event>, StoreError> {
    committed.events.into_iter().next().unwrap().map(|appended| match appended {
        Appended::New { event, .. } => event,
        Appended::Known { seq, .. } => panic!("it was known, at {seq}"),
    })
}

async fn seqs(store: &EmbeddedStore, name: &str) -> Vec<u64> {
    let read = store.read(&topic(name), 0, page(10_000)).await.unwrap();
    read.iter().map(|event| event.seq()).collect()
}

/// Asks again and again, until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
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
