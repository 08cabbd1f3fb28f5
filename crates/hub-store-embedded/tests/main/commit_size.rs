//! Places in a segment are 32 bits wide: a commit may not have more bytes than that.

use crate::ledger::{Ledger, T0, draft, group_record, now, served, small};
use hub_core::store::{Appended, Commit, EventStore, StoreError};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, Options};
use std::sync::Arc;

/// Room for some of the events below.
const COMMIT_BYTES: usize = 6000;

fn open(disk: &SimDisk) -> EmbeddedStore {
    let options = Options { commit_bytes: COMMIT_BYTES, ..small() };
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options).unwrap()
}

#[test]
fn events_beyond_the_size_of_a_commit_are_refused_and_can_be_published_again_in_order() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let (mut ledger, mut left, mut commits) = (Ledger::default(), (1..=100).collect::<Vec<u64>>(), 0);
    while !left.is_empty() {
        commits += 1;
        let events = left.iter().map(|&number| draft("orders", number, None)).collect();
        let committed = now(store.commit(Commit { now: T0, events, ..Commit::default() }));
        let mut refused = Vec::new();
        for (number, result) in left.into_iter().zip(committed.events) {
            match result {
                Ok(Appended::New { event, .. }) => {
                    assert!(refused.is_empty(), "an event was stored behind {refused:?}");
                    assert_eq!(event.seq(), number);
                    ledger.note(&event);
                }
                Err(StoreError::Unavailable(why)) => {
                    assert!(why.contains("at most 6000 bytes"), "{why}");
                    refused.push(number);
                }
                other => panic!("{other:?}"),
            }
        }
        left = refused;
    }
    assert!(commits > 1);
    assert_eq!(served(&store), ledger);
    drop(store);
    disk.process_death();
    assert_eq!(served(&open(&disk)), ledger);
}

#[test]
fn records_beyond_the_size_of_a_commit_are_refused_and_the_others_are_stored() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let records = (0..200).map(|number| group_record(&format!("group-{number}"), "orders")).collect();
    let committed = now(store.commit(Commit { now: T0, records, ..Commit::default() }));
    let stored = committed.records.iter().filter(|record| record.is_ok()).count();
    assert!((1..200).contains(&stored), "{stored}");
    drop(store);
    disk.process_death();
    assert_eq!(now(open(&disk).load()).unwrap().groups.len(), stored);
}
