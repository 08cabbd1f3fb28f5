//! After an error of the disk, records that readers have seen move to another segment, and the old one is cut. A reader
//! that has found a record in the old place finds it in the new one.

use crate::ledger::{draft, id, small};
use crate::threads::{LIMIT, topic};
use crate::tools::now;
use crate::watched::{Call, Watched};
use hub_core::store::{Commit, EventStore, Health, ReadLimit};
use hub_proto::Key;
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::sim::SimDisk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::channel;

const ALL: ReadLimit = ReadLimit { events: 100, bytes: 1 << 20 };
const READER: &str = "reader";

fn commit(store: &EmbeddedStore, name: &str, number: u64, relaxed: bool) -> bool {
    let mut event = draft(name, number, Some(&format!("k{number}")));
    event.set_relaxed(relaxed);
    now(store.commit(Commit { now: event.ts(), events: vec![event], ..Commit::default() })).events[0].is_ok()
}

/// What `read` answers, with the seqs of `state`, if the old segment is cut while it waits for the disk.
fn read_while_records_move(read: fn(&EmbeddedStore) -> Vec<u64>) {
    let disk = SimDisk::new(1);
    let (tell, begun) = channel();
    let (go_on, held) = channel::<()>();
    let held = Mutex::new(held);
    // The reader's first read stops before it gets its bytes.
    let watched = Watched::with(&disk, move |call| {
        let is_reader = std::thread::current().name() == Some(READER);
        if is_reader && matches!(call, Call::Read(name) if name.starts_with("log-00000001")) {
            let _ = tell.send(());
            let _ = held.lock().recv();
        }
    });
    let store = EmbeddedStore::open_on(Arc::new(watched), small()).unwrap();
    // The first one reserves seqs, which is durable; the second is seen before it is.
    assert!(commit(&store, "state", 1, true) && commit(&store, "state", 2, true));
    std::thread::scope(|scope| {
        let go_on = go_on;
        let reader = std::thread::Builder::new().name(READER.into());
        let reader = reader.spawn_scoped(scope, || read(&store)).unwrap();
        begun.recv_timeout(LIMIT).expect("the reader has found the record");
        disk.fail_syncs(true);
        assert!(!commit(&store, "other", 3, false));
        disk.fail_syncs(false);
        assert!(commit(&store, "other", 4, false));
        let names = disk.names();
        assert!(names.contains(&"log-00000002".to_owned()) && names.contains(&"log-00000001.idx".to_owned()));
        assert!(disk.bytes("log-00000001").len() < 4096, "the old segment is cut");
        drop(go_on);
        assert_eq!(reader.join().unwrap().last(), Some(&2));
    });
    // The commit that failed is counted; nothing is damaged.
    assert_eq!(store.health(), Health { failed_commits: 1, ..Health::default() });
    assert_eq!(now(store.read(&topic("state"), 0, ALL)).unwrap().len(), 2);
}

#[test]
fn the_newest_record_of_a_key_that_moves_while_it_is_read_is_not_taken_for_damaged() {
    read_while_records_move(|store| {
        let newest = now(store.newest(&topic("state"), &[Key::from("k2")])).unwrap();
        newest.iter().flatten().map(|event| event.seq()).collect()
    });
}

#[test]
fn a_page_of_keys_that_move_while_it_is_read_is_not_taken_for_damaged() {
    read_while_records_move(|store| {
        let page = now(store.newest_page(&topic("state"), Some("k1"), ALL)).unwrap();
        page.iter().map(|event| event.seq()).collect()
    });
}

#[test]
fn events_that_move_while_they_are_read_are_not_taken_for_damaged() {
    read_while_records_move(|store| {
        let read = now(store.read(&topic("state"), 0, ALL)).unwrap();
        read.iter().map(|event| event.seq()).collect()
    });
}

#[test]
fn an_id_whose_record_moves_while_it_is_read_is_found() {
    read_while_records_move(|store| {
        let seq = now(store.seq_of(&topic("state"), id(2))).unwrap();
        seq.into_iter().collect()
    });
}
