//! A full disk: events are refused, the store's own records are not, and what retention takes away makes room again.

use crate::ledger::{Ledger, T0, draft, id, now, progress, served, small, topic};
use hub_core::store::{CleanPolicy, Commit, Committed, EventStore, Health, StoreError};
use hub_proto::{Draft, NewEvent, Payload};
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use std::sync::Arc;

/// The disk has room for about so many bytes.
const DISK: u64 = 100 << 10;

fn options() -> Options {
    Options { disk_reserve: 8192, ..small() }
}

fn open(disk: &SimDisk) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options()).unwrap()
}

fn publish(store: &EmbeddedStore, number: u64) -> Committed {
    let events = vec![draft("orders", number, None)];
    now(store.commit(Commit { now: T0 + number, events, ..Commit::default() }))
}

/// Publishes until the disk is full; answers the first number that was refused.
fn fill(disk: &SimDisk, store: &EmbeddedStore) -> u64 {
    let mut ledger = Ledger::default();
    let group = crate::ledger::group_record("shop", "orders");
    ledger.publish(store, vec![draft("orders", 1, None)], vec![group]);
    disk.full_after(Some(DISK));
    // A few small ones may fit in where a larger one did not.
    let mut refused = 0;
    for number in 2.. {
        match publish(store, number).events.remove(0) {
            Ok(_) => refused = 0,
            Err(StoreError::Unavailable(why)) => {
                assert!(why.contains("the disk is full"), "{why}");
                refused += 1;
                if refused > 20 {
                    return fill_rest(store, number + 1);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// Publishes events of all sizes until nothing is left of the segment, not even for the smallest frames; answers the next
/// number.
fn fill_rest(store: &EmbeddedStore, number: u64) -> u64 {
    for len in (0..600).rev() {
        let payload = Payload::from_json(format!("\"{}\"", "x".repeat(len))).unwrap();
        let at = number + 600 - len as u64;
        let events = vec![Draft::encode(NewEvent::new(topic("orders"), payload), id(at), T0 + at)];
        now(store.commit(Commit { now: T0 + at, events, ..Commit::default() }));
    }
    number + 601
}

/// Takes away all but the last events.
fn clean(store: &EmbeddedStore, upto: u64) {
    let policy =
        CleanPolicy { committed_before: Some(T0 + upto), ids_since: T0 + upto, ..CleanPolicy::default() };
    now(store.clean(&topic("orders"), policy)).unwrap_or_else(|error| panic!("{error}"));
}

/// Events are taken again, as many as before.
fn is_free_again(disk: &SimDisk, store: &EmbeddedStore, next: u64) {
    let sizes = |disk: &SimDisk| -> Vec<(String, usize)> {
        disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).len())).collect()
    };
    for number in next..next + 100 {
        assert!(publish(store, number).events[0].is_ok(), "{number}: {:?} {:?}", store.health(), sizes(disk));
    }
    assert_eq!(store.health(), Health { failed_commits: store.health().failed_commits, ..Health::default() });
    assert!(disk.names().contains(&"reserve".to_owned()), "it is made again: {:?}", disk.names());
}

#[test]
fn a_full_disk_is_freed_by_retention() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    assert_eq!(disk.bytes("reserve"), vec![0; 8192]);
    let next = fill(&disk, &store);
    assert!(store.health().unavailable.unwrap().contains("the disk is full"));
    clean(&store, next - 700);
    is_free_again(&disk, &store, next);
}

#[test]
fn a_full_disk_is_freed_by_retention_after_a_restart() {
    for close in [true, false] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        let next = fill(&disk, &store);
        let before = served(&store);
        if close {
            now(store.close()).unwrap();
        }
        disk.process_death();
        drop(store);
        let store = open(&disk);
        assert!(served(&store) == before);
        assert!(publish(&store, next).events[0].is_err());
        clean(&store, next - 700);
        is_free_again(&disk, &store, next + 1);
    }
}

#[test]
fn groups_are_saved_on_a_full_disk_also_beside_events_that_are_refused() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let next = fill(&disk, &store);
    for floor in 1..40 {
        let events = if floor % 2 == 0 { vec![draft("orders", next, None)] } else { vec![] };
        let records = vec![progress("shop", "orders", floor)];
        let committed = now(store.commit(Commit { now: T0, events, records, ..Commit::default() }));
        assert!(committed.events.iter().all(Result::is_err));
        assert_eq!(committed.records, [Ok(())]);
        assert!(store.health().unavailable.is_some(), "events are still refused");
    }
    let floor = |store: &EmbeddedStore| now(store.load()).unwrap().groups[0].state.floor;
    assert_eq!(floor(&store), 39);
    disk.process_death();
    drop(store);
    assert_eq!(floor(&open(&disk)), 39);
}

#[test]
fn a_reserve_of_another_size_is_made_anew_and_one_that_is_not_wanted_goes() {
    let disk = SimDisk::new(1);
    drop(open(&disk));
    for (wanted, is) in [(1024, Some(1024)), (0, None), (2048, Some(2048))] {
        disk.process_death();
        let options = Options { disk_reserve: wanted, ..options() };
        drop(EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options).unwrap());
        let size = disk.open("reserve").ok().map(|file| file.size().unwrap());
        assert_eq!(size, is);
    }
}
