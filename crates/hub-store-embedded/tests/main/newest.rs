//! The newest record of a key is damaged: that key has no state that anybody knows, and the others do.

use crate::ledger::{Ledger, draft, small};
use crate::threads::{LIMIT, options};
use hub_core::{Bus, Config, Position, TopicSettings};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::sim::SimDisk;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Fills some segments: key `a` has seqs 1 and 3, the others one each. Then seq 3 is damaged, in a sealed segment.
fn damaged(disk: &SimDisk) -> u64 {
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap();
    let mut written = Ledger::default();
    let last = 60;
    for number in 1..=last {
        let key = if number <= 3 && number != 2 { "a".to_owned() } else { format!("k{number}") };
        written.publish(&store, vec![draft("state", number, Some(&key))], vec![]);
    }
    drop(store);
    disk.process_death();
    let bytes = disk.bytes("log-00000001");
    let at = memchr::memmem::find(&bytes, b"{\"n\":3,").unwrap();
    disk.flip("log-00000001", at as u64 + 5, 0);
    last
}

#[test]
fn a_coalescing_group_goes_on_beside_a_key_whose_newest_record_is_damaged() {
    let disk = SimDisk::new(1);
    let last = damaged(&disk);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(consume(&disk, last));
}

async fn consume(disk: &SimDisk, last: u64) {
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options()).unwrap();
    let bus = Bus::builder(store).open().await.unwrap();
    let group = bus.subscribe("state").group("g").from(Position::Earliest).coalesce(true);
    let mut group = group.open().await.unwrap();
    let mut seen = BTreeSet::new();
    while !seen.contains(&last) {
        let delivery = tokio::time::timeout(LIMIT, group.recv()).await.expect("the group goes on").unwrap();
        seen.insert(delivery.event().seq());
        delivery.ack().unwrap();
    }
    let expected: BTreeSet<u64> = (1..=last).filter(|seq| *seq != 3).collect();
    assert_eq!(seen, expected);
    bus.stop().await.unwrap();
}

#[test]
fn snapshots_and_compaction_go_on_beside_a_key_whose_newest_record_is_damaged() {
    let disk = SimDisk::new(1);
    let last = damaged(&disk);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options()).unwrap();
        let compacted = TopicSettings { compaction: true, ..TopicSettings::default() };
        let config =
            Config { clean_interval: 1 << 40, ..Config::default() }.topic("state", compacted).unwrap();
        let bus = Bus::builder(store).config(config).open().await.unwrap();
        bus.publish("state", serde_json::json!("newer")).key("k10").await.unwrap();
        // The older ones of k10, and of the damaged key: its newest record overtook that one before it was damaged.
        assert_eq!(bus.clean("state").await.unwrap().removed, 2);
        let written = bus.scan("state.snapshot", Position::Earliest, None).await.unwrap();
        let keys: BTreeSet<&str> = written.iter().map(|event| &**event.key().unwrap()).collect();
        assert!(!keys.contains("a"), "nobody knows its state");
        assert!(keys.contains("k2") && keys.contains("k10"), "{keys:?}");
        let end: serde_json::Value = written.last().unwrap().decode().unwrap();
        assert_eq!(end, serde_json::json!({ "upto": last + 1 }));
        bus.stop().await.unwrap();
    });
}
