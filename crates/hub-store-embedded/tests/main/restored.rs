//! A segment that was missing for a while is put back from a backup.

use crate::ledger::{Ledger, T0, draft, id, now, small, topic};
use hub_core::store::{CleanPolicy, EventStore};
use hub_proto::{Draft, NewEvent, Payload};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use std::sync::Arc;

fn open(disk: &SimDisk) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap()
}

/// Deletes key `a`, which was written to the first segment, in a later one. Answers the last event's number.
fn delete_a_key(store: &EmbeddedStore) -> u64 {
    let mut ledger = Ledger::default();
    ledger.publish(store, vec![draft("state", 1, Some("a"))], vec![]);
    for number in 2..=60 {
        ledger.publish(store, vec![draft("state", number, Some(&format!("k{number}")))], vec![]);
    }
    let tombstone = NewEvent::new(topic("state"), Payload::null()).with_key("a");
    ledger.publish(store, vec![Draft::encode(tombstone, id(61), T0 + 61)], vec![]);
    ledger.publish(store, vec![draft("state", 62, Some("k62"))], vec![]);
    62
}

fn drop_tombstones(store: &EmbeddedStore) {
    let policy = CleanPolicy { compact: true, tombstones_before: T0 + 1000, ..CleanPolicy::default() };
    now(store.clean(&topic("state"), policy)).unwrap();
}

#[test]
fn a_deleted_key_stays_deleted_when_a_missing_segment_is_put_back() {
    let disk = SimDisk::new(1);
    delete_a_key(&open(&disk));
    disk.process_death();
    let first = "log-00000001";
    let backup = disk.bytes(first);
    disk.for_this_life().remove(first).unwrap();

    let store = open(&disk);
    drop_tombstones(&store);
    drop(store);
    disk.process_death();

    disk.put(first, backup);
    let store = open(&disk);
    let of_a = now(store.newest(&topic("state"), &["a".into()])).unwrap();
    assert!(of_a[0].as_ref().is_none_or(|event| event.is_tombstone()), "{of_a:?}");
    let of_first = now(store.newest(&topic("state"), &["k2".into()])).unwrap();
    assert!(of_first[0].is_some(), "the segment is back");
}

#[test]
fn tombstones_go_after_their_grace_from_a_log_that_is_whole() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let last = delete_a_key(&store);
    drop_tombstones(&store);
    assert_eq!(now(store.bounds(&topic("state"))).unwrap().events, last - 2);
}
