//! Backups of a store with threads, while several publishers commit and retention and compaction remove what they can.
//!
//! `EVENT_HUB_BACKUP_LOAD_ROUNDS` says how many rounds there are, `EVENT_HUB_BACKUP_LOAD_FROM` with which seed they begin.

use crate::ledger::{Ledger, draft, group, group_record, served, topic};
use crate::tools::{Rng, setting};
use hub_core::store::{Appended, CleanPolicy, Commit, EventStore, Progress, Record};
use hub_core::{Bus, Position};
use hub_proto::{Draft, Payload};
use hub_store_embedded::backup::{self, BackupOptions, Source};
use hub_store_embedded::disk::RealDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const PUBLISHERS: u64 = 3;
/// Events of a publisher that have been answered before a backup begins.
const AHEAD: u64 = 150;

fn options() -> Options {
    Options { segment_bytes: 16 << 10, segment_events: 60, disk_reserve: 1 << 10, ..Options::default() }
}

/// What all publishers know.
#[derive(Default)]
struct Known {
    acknowledged: Mutex<Ledger>,
    /// The highest seq that a group has settled, and that was acknowledged.
    settled: AtomicU64,
    answers: AtomicU64,
    stop: AtomicBool,
}

/// `kept-N` keeps everything, `state` the newest of each key.
async fn publish(store: &EmbeddedStore, me: u64, known: &Known) {
    let mut number = me * 1_000_000;
    let kept = format!("kept-{me}");
    while !known.stop.load(SeqCst) {
        number += 1;
        let key = format!("k{}", number % 5);
        let mut state = draft("state", number + 500_000, Some(&key));
        state.set_relaxed(number.is_multiple_of(3));
        let events: Vec<Draft> = vec![draft(&kept, number, None), state];
        let mut records = Vec::new();
        let settled = known.acknowledged.lock().last(&topic("kept-0"));
        if me == 0 && settled > 0 {
            let (settled, high) = (Vec::new(), settled);
            let progress = Progress { epoch: 0, reset: false, floor: high, high, settled, tries: Vec::new() };
            records.push(Record::Progress(topic("kept-0"), group("workers"), progress));
        }
        let commit = Commit { now: events[0].ts(), events, records, ..Commit::default() };
        let committed = store.commit(commit).await;
        let mut ledger = known.acknowledged.lock();
        for appended in committed.events {
            let Appended::New { event, .. } = appended.unwrap() else { panic!("no event comes again") };
            ledger.note(&event);
        }
        drop(ledger);
        committed.records.into_iter().for_each(|record| record.unwrap());
        if me == 0 {
            known.settled.fetch_max(settled, SeqCst);
        }
        known.answers.fetch_add(1, SeqCst);
    }
}

/// Cleans without end: segments are rewritten and removed all the time.
async fn clean(store: &EmbeddedStore, known: &Known) {
    let compact = CleanPolicy { compact: true, ..CleanPolicy::default() };
    let nothing = CleanPolicy { max_bytes: Some(1), ..CleanPolicy::default() };
    let mut number = 900_000_000;
    while !known.stop.load(SeqCst) {
        number += 10;
        let events: Vec<Draft> = (0..10).map(|at| draft("filler", number + at, None)).collect();
        let committed = store.commit(Commit { now: events[0].ts(), events, ..Commit::default() }).await;
        committed.events.into_iter().for_each(|event| drop(event.unwrap()));
        store.clean(&topic("state"), compact).await.unwrap();
        store.clean(&topic("filler"), nothing).await.unwrap();
    }
}

/// Waits until so many more commits were answered.
async fn answered(known: &Known, more: u64) {
    let enough = known.answers.load(SeqCst) + more;
    while known.answers.load(SeqCst) < enough {
        tokio::task::yield_now().await;
    }
}

/// Everything that had to be there, and nothing that contradicts it.
fn check(copy: &Path, before: &Ledger, settled: u64, seed: u64) {
    let store = EmbeddedStore::open(copy, options()).unwrap();
    let health = store.health();
    assert!(health.damaged == 0 && health.unavailable.is_none(), "seed {seed}: {health:?}");
    let found = served(&store);
    for (name, events) in &before.0 {
        let found = &found.0[name];
        if name.as_str() == "state" {
            // Compacted: the newest is there, or a newer one.
            assert!(found.last_key_value() >= events.last_key_value(), "seed {seed}: {name}");
            continue;
        }
        for (seq, json) in events {
            assert_eq!(found.get(seq), Some(json), "seed {seed}: {name} {seq}");
        }
        assert!(found.keys().copied().eq(1..=found.len() as u64), "seed {seed}: {name} has a gap");
    }
    let image = crate::ledger::now(store.load()).unwrap();
    let workers = image.groups.iter().find(|stored| stored.record.name == group("workers")).unwrap();
    let last = found.last(&topic("kept-0"));
    let floor = workers.state.floor;
    assert!(
        settled <= floor && floor <= last,
        "seed {seed}: settled {settled}, in the copy {floor} of {last}"
    );
}

async fn round(seed: u64) {
    let mut rng = Rng::new(seed);
    let place = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(place.path().join("data"), options()).unwrap());
    let records = vec![group_record("workers", "kept-0")];
    let created = store.commit(Commit { records, ..Commit::default() }).await;
    created.records.into_iter().for_each(|record| record.unwrap());
    let known = Arc::new(Known::default());
    let mut tasks = Vec::new();
    for me in 0..PUBLISHERS {
        let (store, known) = (store.clone(), known.clone());
        tasks.push(tokio::spawn(async move { publish(&store, me, &known).await }));
    }
    let cleaner = (store.clone(), known.clone());
    tasks.push(tokio::spawn(async move { clean(&cleaner.0, &cleaner.1).await }));
    let target = place.path().join("backup");
    let options = BackupOptions { copy: rng.chance(50), allow_damage: false };
    for step in 0..3 {
        answered(&known, AHEAD).await;
        let (before, settled) = (known.acknowledged.lock().clone(), known.settled.load(SeqCst));
        let pinned = store.pin_files().await.unwrap().unwrap();
        // Time for rewrites between the pin and the copy.
        answered(&known, rng.below(AHEAD)).await;
        let path = target.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let disk = RealDisk::read_only(&pinned.directory).unwrap();
            let source = Source::pinned(&disk, &pinned.manifest, pinned.end).unwrap();
            backup::run(&source, &path, options, 1, &mut |_, _, _, _| {})
        });
        let outcome = outcome.await.unwrap().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(outcome.verified.events > 0);
        // A hub that is started on a backup makes it a data directory: one more copy is for that.
        let copy = place.path().join(format!("restored-{step}"));
        let disk = RealDisk::read_only(&target).unwrap();
        let copies = BackupOptions { copy: true, ..BackupOptions::default() };
        backup::run(&Source::stopped(&disk).unwrap(), &copy, copies, 1, &mut |_, _, _, _| {}).unwrap();
        tokio::task::spawn_blocking(move || check(&copy, &before, settled, seed)).await.unwrap();
    }
    known.stop.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await.unwrap();
}

#[test]
fn a_backup_under_load_has_everything_acknowledged_before_it() {
    let (rounds, from) =
        (setting("EVENT_HUB_BACKUP_LOAD_ROUNDS", 6), setting("EVENT_HUB_BACKUP_LOAD_FROM", 0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for seed in from..from + rounds {
        runtime.block_on(round(seed));
    }
}

#[tokio::test]
async fn an_ack_that_the_hub_has_not_saved_yet_is_in_a_backup() {
    let place = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(place.path().join("data"), options()).unwrap();
    let bus = Bus::builder(store).open().await.unwrap();
    let mut workers = bus.subscribe("orders").group("workers").from(Position::Earliest).open().await.unwrap();
    for number in 1..=20 {
        bus.publish("orders", Payload::of(&number).unwrap()).await.unwrap();
        workers.recv().await.unwrap().ack().unwrap();
    }
    let pinned = bus.pin_files().await.unwrap().unwrap();
    let disk = RealDisk::read_only(&pinned.directory).unwrap();
    let source = Source::pinned(&disk, &pinned.manifest, pinned.end).unwrap();
    let copy = place.path().join("backup");
    backup::run(&source, &copy, BackupOptions::default(), 1, &mut |_, _, _, _| {}).unwrap();
    let image = EmbeddedStore::open(&copy, options()).unwrap().load().await.unwrap();
    let workers = image.groups.iter().find(|stored| stored.record.name == group("workers")).unwrap();
    assert_eq!(workers.state.floor, 20);
    bus.stop().await.unwrap();
}
