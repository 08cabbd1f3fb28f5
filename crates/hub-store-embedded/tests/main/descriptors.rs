//! A process may open so many files and no more: the number of segments does not count.

use crate::ledger::{Ledger, T0, draft, id, now, served, small, topic};
use hub_core::store::{CleanPolicy, Commit, EventStore, Health};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options, doctor};
use std::sync::Arc;

/// Files of segments that the store may keep open.
const POOL: usize = 8;
/// Files that the process may open: those, the segment that is written to, the next one, and what upkeep writes.
const LIMIT: usize = POOL + 8;
const EVENTS: u64 = 2_500;

fn open(disk: &SimDisk) -> EmbeddedStore {
    let options = Options { open_files: POOL, ..small() };
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options).unwrap()
}

fn segments(disk: &SimDisk) -> usize {
    disk.names().iter().filter(|name| name.ends_with(".idx")).count()
}

/// A store with hundreds of segments, on a disk with few handles.
fn filled(disk: &SimDisk) -> (EmbeddedStore, Ledger) {
    disk.limit_handles(Some(LIMIT));
    let store = open(disk);
    let mut written = Ledger::default();
    for number in 1..=EVENTS {
        written.publish(&store, vec![draft("orders", number, Some(&format!("k{}", number % 50)))], vec![]);
    }
    assert!(segments(disk) > 150, "{} segments", segments(disk));
    (store, written)
}

#[test]
fn hundreds_of_segments_are_written_read_and_reopened_with_few_open_files() {
    let disk = SimDisk::new(1);
    let (store, written) = filled(&disk);
    assert_eq!(store.health(), Health::default());
    assert!(served(&store) == written);
    disk.process_death();
    drop(store);
    let store = open(&disk);
    assert!(served(&store) == written);
    for number in (1..=EVENTS).rev().step_by(17) {
        assert_eq!(now(store.seq_of(&topic("orders"), id(number))), Ok(Some(number)));
    }
    let newest = now(store.newest(&topic("orders"), &["k7".into()])).unwrap();
    assert_eq!(newest[0].as_ref().map(|event| event.seq()), Some(EVENTS - 43));
    assert_eq!(store.health(), Health::default());
    let figures = doctor::stat(&disk).unwrap();
    assert_eq!((figures.totals.events, figures.segments.len()), (EVENTS, segments(&disk) + 1));
    assert!(disk.most_handles() <= LIMIT, "{} files were open", disk.most_handles());
}

#[test]
fn hundreds_of_segments_are_cleaned_away_with_few_open_files() {
    let disk = SimDisk::new(1);
    let (store, mut written) = filled(&disk);
    let policy = CleanPolicy {
        committed_before: Some(T0 + EVENTS - 100),
        ids_since: T0 + EVENTS,
        ..CleanPolicy::default()
    };
    now(store.clean(&topic("orders"), policy)).unwrap();
    written.0.get_mut(&topic("orders")).unwrap().retain(|seq, _| *seq >= EVENTS - 100);
    assert!(served(&store) == written);
    assert_eq!(store.health(), Health::default());
    assert!(segments(&disk) < 20, "{} segments", segments(&disk));
}

#[test]
fn a_store_gives_its_open_files_up_when_the_rest_of_the_process_has_taken_all_others() {
    let disk = SimDisk::new(1);
    let (store, mut written) = filled(&disk);
    assert!(served(&store) == written);
    // From here on the process has no descriptor left, but for those that the store itself gives back.
    disk.limit_handles(Some(disk.handles()));
    for number in EVENTS + 1..=EVENTS + 40 {
        let events = vec![draft("orders", number, None)];
        let committed = now(store.commit(Commit { now: T0 + number, events, ..Commit::default() }));
        let event = committed.events.into_iter().next().unwrap().unwrap();
        let hub_core::store::Appended::New { event, .. } = event else { panic!("{event:?}") };
        written.note(&event);
    }
    assert!(served(&store) == written);
    assert_eq!(store.health(), Health::default());
}
