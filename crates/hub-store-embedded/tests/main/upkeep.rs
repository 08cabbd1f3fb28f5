//! Making room, when the power or the disk fails in the middle of it: nothing that is needed goes, and nothing that is
//! not needed stays.

use crate::ledger::{Ledger, T0, draft, now, progress, served, small, topic};
use hub_core::store::{CleanPolicy, Commit, EventStore, Health};
use hub_store_embedded::disk::Disk;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::doctor::{self, Repairs};
use hub_store_embedded::manifest::{COPIES, Copy, Manifest, read_copy};
use hub_store_embedded::{EmbeddedStore, Options};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

/// Points of a cleaning, and more.
const POINTS: u64 = 90;

fn open(disk: &SimDisk) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap()
}

/// Some full segments, of which a cleaning leaves half.
fn filled(disk: &SimDisk) -> (EmbeddedStore, Ledger) {
    let store = open(disk);
    let mut ledger = Ledger::default();
    for number in 1..60 {
        ledger.publish(&store, vec![draft("orders", number, None)], vec![]);
    }
    (store, ledger)
}

/// Removes what is old, and has the keeper make room; whether it was answered.
fn clean(store: &EmbeddedStore, before: u64) -> bool {
    let policy = CleanPolicy {
        committed_before: Some(T0 + before),
        ids_since: T0 + before - 5,
        ..CleanPolicy::default()
    };
    now(store.clean(&topic("orders"), policy)).is_ok()
}

fn newest(disk: &SimDisk) -> Manifest {
    let copies = COPIES.map(|name| match read_copy(disk, name).unwrap() {
        Copy::Good(manifest) => *manifest,
        other => panic!("{name}: {other:?}"),
    });
    copies.into_iter().max_by_key(|manifest| manifest.generation).unwrap()
}

/// Files of segments that the manifest does not know, and that are no newer logs.
fn strangers(disk: &SimDisk) -> Vec<String> {
    let manifest = newest(disk);
    let known: BTreeSet<String> = manifest.segments.iter().map(|row| row.id.to_string()).collect();
    let newer = format!("log-{:08}", manifest.upto + 1);
    let stranger = |name: &String| {
        let segment = name.strip_suffix(".idx").unwrap_or(name);
        let is_log = segment.starts_with("log-") && !segment.contains('.');
        !known.contains(segment) && (segment.starts_with("kept-") || is_log && *segment < *newer)
    };
    disk.names().into_iter().filter(stranger).collect()
}

#[test]
fn either_copy_of_the_manifest_may_be_lost_after_a_power_loss_while_room_was_made() {
    let mut lagged = 0;
    for point in 0..POINTS {
        let disk = SimDisk::new(point);
        let (store, _) = filled(&disk);
        disk.cut_at(disk.ops() + point);
        clean(&store, 30);
        drop(store);
        disk.power_loss(point);
        lagged += u64::from(disk.bytes(COPIES[0]) != disk.bytes(COPIES[1]));
        let store = open(&disk);
        let before = served(&store);
        drop(store);
        disk.process_death();
        for lost in COPIES {
            let again = SimDisk::new(point);
            disk.names().iter().for_each(|name| again.put(name, disk.bytes(name)));
            again.flip(lost, 40, 3);
            let store = open(&again);
            assert!(served(&store) == before, "point {point}, {lost}: {:?}", store.health());
        }
    }
    assert!(lagged > 0, "no point was between the two copies");
}

#[test]
fn room_is_made_after_the_disk_has_failed_at_any_point_of_it_and_nothing_is_left_over() {
    let control = {
        let disk = SimDisk::new(1);
        let (store, _) = filled(&disk);
        assert!(clean(&store, 30) && clean(&store, 31));
        newest(&disk).segments.len()
    };
    for point in 0..POINTS {
        let disk = SimDisk::new(point);
        let (store, _) = filled(&disk);
        disk.fail_at(disk.ops() + point, ErrorKind::Other);
        clean(&store, 30);
        disk.heal();
        assert!(clean(&store, 31), "point {point}");
        let Health { unavailable, warnings, .. } = store.health();
        assert_eq!((unavailable, warnings), (None, vec![]), "point {point}");
        let manifest = newest(&disk);
        assert!(manifest.segments.len() <= control + 1, "point {point}: {:?}", disk.names());
        let before = served(&store);
        assert_eq!(before.0[&topic("orders")].first_key_value().unwrap().0, &31, "point {point}");
        assert_eq!(strangers(&disk), Vec::<String>::new(), "point {point}");
        drop(store);
        disk.process_death();
        let store = open(&disk);
        assert!(served(&store) == before, "point {point}: {:?}", store.health());
    }
}

#[test]
fn a_disk_that_goes_on_failing_is_not_filled_with_tries() {
    for point in 0..POINTS {
        let disk = SimDisk::new(point);
        let (store, _) = filled(&disk);
        for before in 30..40 {
            disk.heal();
            disk.fail_at(disk.ops() + point, ErrorKind::Other);
            clean(&store, before);
        }
        // One that waits for its manifest, or those that it has replaced.
        let left = strangers(&disk);
        assert!(left.len() <= 6, "point {point}: {left:?}");
        disk.heal();
        clean(&store, 40);
        let left: Vec<String> = strangers(&disk).into_iter().filter(|name| !name.ends_with(".tmp")).collect();
        assert_eq!(left, Vec::<String>::new(), "point {point}");
    }
}

#[test]
fn segments_that_an_old_manifest_does_not_know_are_kept() {
    let disk = SimDisk::new(1);
    let (store, _) = filled(&disk);
    let old = COPIES.map(|name| disk.bytes(name));
    assert!(clean(&store, 30));
    drop(store);
    disk.process_death();
    // Somebody puts back what is older than the rewrite.
    COPIES.iter().zip(old).for_each(|(name, bytes)| disk.put(name, bytes));
    let kept = disk.bytes("kept-00000001");
    let store = open(&disk);
    assert!(kept == disk.bytes("quarantine/kept-00000001.unknown"), "{:?}", disk.names());
    let told = store.health().warnings;
    assert!(told.iter().any(|what| what.contains("quarantine/kept-00000001.unknown")), "{told:?}");
}

#[test]
fn a_full_segment_is_not_shortened_before_a_manifest_knows_its_end() {
    let mut unknown = 0;
    for point in 0..POINTS {
        let disk = SimDisk::new(point);
        let (store, _) = filled(&disk);
        disk.cut_at(disk.ops() + point);
        for number in 60..90 {
            let events = vec![draft("orders", number, None)];
            now(store.commit(Commit { now: T0 + number, events, ..Commit::default() }));
        }
        drop(store);
        assert!(disk.is_out());
        disk.power_loss(point);
        // The next one, which says where it ends, cannot be read.
        let logs = disk.names().into_iter().filter(|name| name.starts_with("log-") && !name.contains('.'));
        let last = logs.max().unwrap();
        let number: u64 = last[4..].parse().unwrap();
        if newest(&disk).upto + 1 == number {
            continue;
        }
        unknown += 1;
        (0..64).for_each(|byte| disk.flip(&last, byte, 0));
        let told = open(&disk).health().warnings;
        let before = format!("log-{:08}", number - 1);
        assert!(told.iter().all(|what| !what.contains(&before)), "point {point}: {told:?}");
        assert!(told.iter().any(|what| what.contains(&last)), "point {point}: {told:?}");
    }
    assert!(unknown > 0, "the manifest knew every segment");
}

#[test]
fn a_segment_in_which_every_second_record_is_damaged_opens_and_serves_the_others() {
    const EVENTS: u64 = 40_000;
    let options = Options { segment_bytes: 64 << 20, ..small() };
    let disk = SimDisk::new(1);
    let open = || EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options.clone()).unwrap();
    let store = open();
    let mut ledger = Ledger::default();
    for first in (1..=EVENTS).step_by(100) {
        let events = (first..first + 100).map(|number| draft("orders", number, None)).collect();
        ledger.publish(&store, events, vec![]);
    }
    now(store.close()).unwrap();
    drop(store);
    disk.process_death();
    let mut bytes = disk.bytes("log-00000001");
    let starts: Vec<usize> = memchr::memmem::find_iter(&bytes, b"{\"id\":").collect();
    starts.iter().step_by(2).for_each(|at| bytes[at + 20] ^= 1);
    disk.put("log-00000001", bytes);
    // Once as the end of the log, once as a segment that a manifest covers, with a sidecar and without.
    for sidecar in [true, true, false] {
        if !sidecar {
            disk.names()
                .iter()
                .filter(|name| name.ends_with(".idx"))
                .for_each(|name| disk.remove(name).unwrap());
        }
        let store = open();
        let left = &served(&store).0[&topic("orders")];
        assert_eq!(left.len() as u64, EVENTS / 2);
        assert_eq!(store.health().damaged, EVENTS / 2);
        drop(store);
        disk.process_death();
    }
}

#[test]
fn a_manifest_made_anew_after_a_power_loss_gives_no_seq_of_a_relaxed_topic_twice() {
    let relaxed = |number| {
        let mut event = draft("audit", number, None);
        event.set_relaxed(true);
        event
    };
    let mut lost = 0;
    for luck in 0..20 {
        let disk = SimDisk::new(luck);
        let (store, mut ledger) = filled(&disk);
        // Another topic has to go on higher up: the repair says so in a log that counts as closed.
        ledger.publish(&store, vec![], vec![progress("shop", "orders", 500)]);
        // Readers see each of them before it is durable.
        let seen = (100..109).map(|number| ledger.publish(&store, vec![relaxed(number)], vec![])[0]).max();
        drop(store);
        disk.power_loss(luck);
        COPIES.iter().for_each(|name| disk.flip(name, 40, 3));
        let repairs = Repairs { rebuild_manifest: true, ..Repairs::default() };
        let repaired = doctor::repair(&disk.for_this_life(), repairs, "now", &mut |_, _, _| {});
        assert!(repaired.unwrap().1.healthy, "luck {luck}");
        let store = open(&disk);
        let left = served(&store);
        lost += u64::from(Some(left.last(&topic("audit"))) < seen);
        let next = Ledger::default().publish(&store, vec![relaxed(200)], vec![])[0];
        assert!(Some(next) > seen, "luck {luck}: {next} was given before");
    }
    assert!(lost > 0, "nothing was lost");
}

/// The names of segments that are not written to.
fn sealed(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter_map(|name| name.strip_suffix(".idx").map(str::to_owned)).collect()
}

#[test]
fn segments_with_nothing_left_are_removed_without_being_read() {
    let disk = SimDisk::new(1);
    let (store, _) = filled(&disk);
    let before = sealed(&disk);
    // Reading them would report damage.
    for name in &before[..before.len() - 2] {
        (0..disk.bytes(name).len() as u64).for_each(|byte| disk.flip(name, byte, 0));
    }
    let policy =
        CleanPolicy { committed_before: Some(T0 + 59), ids_since: T0 + 59, ..CleanPolicy::default() };
    now(store.clean(&topic("orders"), policy)).unwrap();
    let left = sealed(&disk);
    assert!(before[..before.len() - 2].iter().all(|name| !left.contains(name)), "{left:?}");
    assert_eq!(store.health(), Health::default());
}

#[test]
fn segments_whose_ids_have_to_be_remembered_are_not_dropped() {
    let disk = SimDisk::new(1);
    let (store, _) = filled(&disk);
    let policy =
        CleanPolicy { committed_before: Some(T0 + 50), ids_since: T0 + 20, ..CleanPolicy::default() };
    now(store.clean(&topic("orders"), policy)).unwrap();
    for number in 20..50 {
        let known = now(store.seq_of(&topic("orders"), crate::ledger::id(number)));
        assert_eq!(known, Ok(Some(number)), "{number}");
    }
}

/// What was kept of others, and has lost the rest of its records since.
#[test]
fn kept_segments_that_lose_their_last_records_are_removed_after_a_restart() {
    let disk = SimDisk::new(1);
    let (store, mut ledger) = filled(&disk);
    for number in 60..90 {
        ledger.publish(&store, vec![draft("users", number, None)], vec![]);
    }
    let clean = |store: &EmbeddedStore, before: u64, since: u64| {
        let policy = CleanPolicy {
            committed_before: Some(T0 + before),
            ids_since: T0 + since,
            ..CleanPolicy::default()
        };
        now(store.clean(&topic("orders"), policy)).unwrap();
    };
    clean(&store, 30, 10);
    let kept = |disk: &SimDisk| -> Vec<String> {
        sealed(disk).into_iter().filter(|name| name.starts_with("kept-")).collect()
    };
    assert!(!kept(&disk).is_empty());
    // The rest goes, and the process ends before the keeper has made room of it.
    let policy =
        CleanPolicy { committed_before: Some(T0 + 59), ids_since: T0 + 10, ..CleanPolicy::default() };
    disk.full_at(disk.ops() + 2);
    now(store.clean(&topic("orders"), policy)).unwrap();
    let left = kept(&disk);
    disk.process_death();
    disk.heal();
    drop(store);
    let store = open(&disk);
    // As after any cleaning of another topic.
    ledger.publish(&store, vec![draft("users", 90, None)], vec![]);
    let policy = CleanPolicy { committed_before: Some(T0 + 61), ..CleanPolicy::default() };
    now(store.clean(&topic("users"), policy)).unwrap();
    assert!(left.iter().all(|name| !kept(&disk).contains(name)), "{left:?} {:?}", kept(&disk));
}
