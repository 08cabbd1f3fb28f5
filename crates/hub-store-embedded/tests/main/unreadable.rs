//! Sectors that the disk cannot read: damage like any other, and nothing waits for it.

use crate::ledger::{Ledger, T0, draft, fill, id, now, served, small, topic};
use hub_core::store::{CleanPolicy, EventStore, Health};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::disk::sim::{SECTOR, SimDisk};
use hub_store_embedded::doctor;
use std::sync::Arc;

fn open(disk: &SimDisk) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap()
}

/// A store that was written and closed: its disk, and what it serves.
fn filled() -> (SimDisk, Ledger) {
    let disk = SimDisk::new(7);
    let store = open(&disk);
    fill(&store);
    let kept = served(&store);
    now(store.close()).unwrap();
    drop(store);
    disk.process_death();
    (disk, kept)
}

fn copy(disk: &SimDisk) -> SimDisk {
    let again = SimDisk::new(8);
    disk.names().iter().for_each(|name| again.put(name, disk.bytes(name)));
    again
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter_map(|name| name.strip_suffix(".idx").map(str::to_owned)).collect()
}

fn sectors(disk: &SimDisk, name: &str) -> u64 {
    disk.bytes(name).len().div_ceil(SECTOR) as u64
}

/// The bytes of a sector.
fn sector(number: u64) -> std::ops::Range<u64> {
    number * SECTOR as u64..(number + 1) * SECTOR as u64
}

/// The same disk, where a sector is zeros.
fn zeroed(disk: &SimDisk, name: &str, number: u64) -> SimDisk {
    let zeroed = copy(disk);
    let mut bytes = disk.bytes(name);
    let end = bytes.len().min(sector(number).end as usize);
    bytes[sector(number).start as usize..end].fill(0);
    zeroed.put(name, bytes);
    zeroed
}

#[test]
fn a_sector_that_cannot_be_read_costs_no_more_than_one_of_zeros() {
    let (disk, _) = filled();
    let mut lost = 0;
    for name in segments(&disk) {
        for number in 0..sectors(&disk, &name) {
            let (spoiled, zeroed) = (copy(&disk), zeroed(&disk, &name, number));
            spoiled.spoil(&name, sector(number));
            let (one, other) = (open(&spoiled), open(&zeroed));
            let (left, expected) = (served(&one), served(&other));
            assert!(left == expected, "{name}, sector {number}: {:?}", one.health());
            assert_eq!(one.health(), other.health(), "{name}, sector {number}");
            lost += one.health().damaged;
            // The doctor says the same, and does not end there.
            drop(one);
            spoiled.process_death();
            let report = doctor::examine(&spoiled, &mut |_, _, _| {}).unwrap();
            assert!(!report.healthy, "{name}, sector {number}");
        }
    }
    assert!(lost > 0);
}

#[test]
fn a_store_goes_on_behind_a_sector_that_can_no_longer_be_read() {
    let (disk, before) = filled();
    for name in segments(&disk) {
        let disk = copy(&disk);
        let store = open(&disk);
        let middle = sectors(&disk, &name) / 2;
        disk.spoil(&name, sector(middle));
        let left = served(&store);
        for (topic, seqs) in &left.0 {
            assert!(seqs.iter().all(|(seq, json)| before.0[topic].get(seq) == Some(json)));
        }
        assert!(left != before && store.health().damaged > 0, "{name}: {:?}", store.health());
        assert_eq!(store.health().unavailable, None);
        let mut written = Ledger::default();
        for number in 5_000..5_060 {
            written.publish(&store, vec![draft("orders", number, None)], vec![]);
        }
        let policy = CleanPolicy { committed_before: Some(T0 + 5_050), ..CleanPolicy::default() };
        now(store.clean(&topic("orders"), policy)).unwrap();
        let warnings = store.health().warnings;
        assert!(warnings.iter().all(|what| what.contains(&name)), "{name}: {warnings:?}");
        assert!(disk.names().contains(&name), "what is damaged stays");
    }
}

#[test]
fn a_sidecar_that_cannot_be_read_is_made_again() {
    let (disk, before) = filled();
    for (name, all) in segments(&disk).into_iter().flat_map(|name| [(name.clone(), true), (name, false)]) {
        for running in [false, true] {
            let disk = copy(&disk);
            let sidecar = format!("{name}.idx");
            let bytes = if all { 0..u64::MAX >> 16 } else { sector(sectors(&disk, &sidecar) - 1) };
            let bytes = bytes.start..bytes.end.min(disk.bytes(&sidecar).len() as u64);
            if !running {
                disk.spoil(&sidecar, bytes.clone());
            }
            let store = open(&disk);
            if running {
                disk.spoil(&sidecar, bytes);
            }
            assert!(served(&store) == before, "{sidecar}, {all}, {running}: {:?}", store.health());
            let known = now(store.seq_of(&topic("orders"), id(1)));
            assert!(known.is_ok(), "{sidecar}, {all}, {running}: {known:?}");
            assert_eq!(store.health(), Health::default(), "{sidecar}, {all}, {running}");
        }
    }
}

#[test]
fn a_copy_of_the_manifest_that_cannot_be_read_is_written_again() {
    let (disk, before) = filled();
    for name in ["manifest.1", "manifest.2"] {
        let disk = copy(&disk);
        disk.spoil(name, 0..disk.bytes(name).len() as u64);
        let store = open(&disk);
        assert!(served(&store) == before);
        let warnings = store.health().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(name), "{warnings:?}");
        drop(store);
        disk.process_death();
        assert_eq!(open(&disk).health(), Health::default(), "it is whole again");
    }
}

#[test]
fn an_end_of_the_log_that_cannot_be_read_is_not_taken_for_a_torn_one() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let mut written = Ledger::default();
    for number in 1..=8 {
        written.publish(&store, vec![draft("orders", number, None)], vec![]);
    }
    drop(store);
    disk.process_death();
    // The sector with the last mark, behind which there is nothing that would vouch for it.
    let bytes = disk.bytes("log-00000001");
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
    disk.spoil("log-00000001", last..last + 1);
    let store = open(&disk);
    let warnings = store.health().warnings;
    assert!(warnings.iter().any(|what| what.contains("cannot read")), "{warnings:?}");
    let next = written.publish(&store, vec![draft("orders", 9, None)], vec![])[0];
    assert!(next > 8, "seq {next} was given before");
    assert!(!disk.names().iter().any(|name| name.contains("torn")), "{:?}", disk.names());
}
