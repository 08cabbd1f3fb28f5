//! Each promise of the simulated disk, and that without faults it is a disk like the real one.

#![allow(clippy::unwrap_used)]

use super::super::RealDisk;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

const LUCKS: std::ops::Range<u64> = 0..400;

/// A disk with a durable file `a` of these bytes, and a handle to it.
fn disk_with(bytes: &[u8]) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new(7);
    disk.put("a", bytes);
    let file = disk.open("a").unwrap();
    (disk, file)
}

fn read(file: &dyn DiskFile) -> Vec<u8> {
    super::super::read_all(file).unwrap()
}

fn assert_out<T>(answer: io::Result<T>) {
    assert_eq!(answer.err().expect("an error").to_string(), "the power is out");
}

fn assert_kind<T>(answer: io::Result<T>, kind: ErrorKind) {
    assert_eq!(answer.err().expect("an error").kind(), kind);
}

/// What is there after a power loss, over many lucks.
fn outcomes<T: Ord>(prepare: impl Fn() -> SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    LUCKS
        .map(|luck| {
            let disk = prepare();
            disk.power_loss(luck);
            look(&disk)
        })
        .collect()
}

#[test]
fn what_was_synced_survives_any_luck() {
    let prepare = || {
        let disk = SimDisk::new(1);
        let file = disk.create("a").unwrap();
        file.write_at(&[1; 2000], 0).unwrap();
        file.write_at(&[2; 100], 500).unwrap();
        file.set_len(1500).unwrap();
        file.sync().unwrap();
        disk.create("gone").unwrap();
        disk.remove("gone").unwrap();
        disk.rename("a", "quarantine/b").unwrap();
        disk.sync_names().unwrap();
        disk
    };
    let mut bytes = vec![1; 1500];
    bytes[500..600].fill(2);
    let expected = BTreeSet::from([(vec!["quarantine/b".to_owned()], bytes)]);
    assert_eq!(outcomes(prepare, |disk| (disk.names(), disk.bytes("quarantine/b"))), expected);
}

#[test]
fn an_unsynced_rename_may_or_may_not_survive_but_never_half() {
    let prepare = || {
        let disk = SimDisk::new(1);
        disk.put("new", [2]);
        disk.put("it", [1]);
        disk.rename("new", "it").unwrap();
        disk
    };
    let look = |disk: &SimDisk| (disk.names().join(" "), disk.bytes("it"));
    assert_eq!(outcomes(prepare, look), BTreeSet::from([("it".into(), vec![2]), ("it new".into(), vec![1])]));
}

#[test]
fn a_file_renamed_twice_has_one_name() {
    let prepare = || {
        let disk = SimDisk::new(1);
        disk.put("a", [1]);
        disk.rename("a", "b").unwrap();
        disk.rename("b", "c").unwrap();
        disk
    };
    let expected = ["a", "b", "c"].map(|name| vec![name.to_owned()]);
    assert_eq!(outcomes(prepare, SimDisk::names), BTreeSet::from(expected));
}

#[test]
fn names_survive_in_no_order() {
    let prepare = || {
        let disk = SimDisk::new(1);
        disk.put("old", []);
        disk.create("x").unwrap();
        disk.remove("old").unwrap();
        disk.create("y").unwrap();
        disk
    };
    assert_eq!(outcomes(prepare, SimDisk::names).len(), 8);
}

#[test]
fn a_synced_file_can_vanish_if_its_name_was_not_synced() {
    let prepare = || {
        let disk = SimDisk::new(1);
        let file = disk.create("a").unwrap();
        file.write_at(b"safe", 0).unwrap();
        file.sync().unwrap();
        disk
    };
    let look = |disk: &SimDisk| disk.names().first().map(|name| disk.bytes(name));
    assert_eq!(outcomes(prepare, look), BTreeSet::from([None, Some(b"safe".to_vec())]));
}

#[test]
fn a_synced_name_can_lead_to_any_part_of_a_file_that_was_not_synced() {
    let prepare = || {
        let disk = SimDisk::new(1);
        let file = disk.create("a").unwrap();
        file.write_at(&[1; SECTOR * 2], 0).unwrap();
        disk.sync_names().unwrap();
        disk
    };
    let seen = outcomes(prepare, |disk| disk.bytes("a"));
    let half = [[0; SECTOR], [1; SECTOR]].concat();
    let zeros_after = [[1; SECTOR], [0; SECTOR]].concat();
    for part in [vec![], vec![1; SECTOR], half, zeros_after, vec![0; SECTOR * 2], vec![1; SECTOR * 2]] {
        assert!(seen.contains(&part), "not seen: {part:?}");
    }
}

#[test]
fn a_later_write_can_survive_an_earlier_one_in_the_same_and_in_another_file() {
    let prepare = || {
        let disk = SimDisk::new(1);
        disk.put("a", [0; 2000]);
        disk.put("b", [0; 1]);
        let (a, b) = (disk.open("a").unwrap(), disk.open("b").unwrap());
        a.write_at(&[1], 0).unwrap();
        a.write_at(&[1], 1999).unwrap();
        b.write_at(&[1], 0).unwrap();
        disk
    };
    assert_eq!(
        outcomes(prepare, |disk| (disk.bytes("a")[0], disk.bytes("a")[1999], disk.bytes("b")[0])).len(),
        8
    );
}

#[test]
fn what_came_first_or_last_is_so_over_all_files_and_names() {
    for (kind, expected) in [(2, ["___", "a__", "ab_", "abc"]), (3, ["___", "__c", "_bc", "abc"])] {
        let run = |luck: u64| {
            let (disk, file) = disk_with(b"_");
            disk.put("b", b"_");
            file.write_at(b"a", 0).unwrap();
            disk.open("b").unwrap().write_at(b"b", 0).unwrap();
            disk.create("c").unwrap();
            disk.power_loss(luck * 8 + kind);
            let c: &[u8] = if disk.names().len() == 3 { b"c" } else { b"_" };
            String::from_utf8([&disk.bytes("a"), &disk.bytes("b"), c].concat()).unwrap()
        };
        assert_eq!(LUCKS.map(run).collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
    }
}

#[test]
fn an_unsynced_cut_survives_or_not_and_what_was_written_after_it_too() {
    let prepare = || {
        let (disk, file) = disk_with(&[1; 1000]);
        file.set_len(10).unwrap();
        file.write_at(&[2; 10], 10).unwrap();
        disk
    };
    let both = [[1; 10], [2; 10]].concat();
    let only_write = [&both[..], &[1; 980]].concat();
    let seen = outcomes(prepare, |disk| disk.bytes("a"));
    let length_only = [[1; 10], [0; 10]].concat();
    assert_eq!(seen, BTreeSet::from([both, only_write, length_only, vec![1; 10], vec![1; 1000]]));
}

#[test]
fn the_same_seed_and_luck_give_the_same_bytes() {
    let run = |luck| {
        let disk = SimDisk::new(3);
        let file = disk.create("a").unwrap();
        disk.fail_writes(true);
        (0..20).for_each(|n| assert!(file.write_at(&[n; 700], u64::from(n) * 300).is_err()));
        let before = disk.bytes("a");
        disk.sync_names().unwrap();
        disk.power_loss(luck);
        (before, disk.bytes("a"))
    };
    for luck in LUCKS {
        assert_eq!(run(luck), run(luck));
    }
}

#[test]
fn after_a_power_loss_handles_are_dead_and_the_disk_can_be_opened_again() {
    let (disk, file) = disk_with(b"abc");
    let _guard = disk.lock().unwrap();
    disk.fail_writes(true);
    disk.full_after(Some(0));
    disk.cut_at(disk.ops());
    assert_out(file.sync());
    disk.power_loss(0);
    assert!(file.read_at(&mut [0], 0, Wait::Yes).is_err());
    assert!(file.write_at(&[0], 0).is_err());
    assert!(file.set_len(0).is_err());
    assert!(file.size().is_err());
    assert!(file.sync().is_err());
    let _guard = disk.lock().unwrap();
    let file = disk.open("a").unwrap();
    file.write_at(b"def", 3).unwrap();
    file.sync().unwrap();
    assert_eq!(read(&*file), b"abcdef");
}

#[test]
fn a_killed_process_loses_its_handles_and_nothing_else() {
    let (disk, file) = disk_with(b"abc");
    let _guard = disk.lock().unwrap();
    file.write_at(b"xyz", 0).unwrap();
    disk.rename("a", "b").unwrap();
    disk.process_death();
    assert!(file.size().is_err());
    assert!(disk.lock().is_ok());
    assert_eq!(read(&*disk.open("b").unwrap()), b"xyz");
    disk.power_loss(0);
    assert_eq!(disk.bytes("a"), b"abc");
}

#[test]
fn what_a_killed_process_wrote_is_synced_by_the_next() {
    let (disk, file) = disk_with(b"abc");
    file.write_at(b"xyz", 0).unwrap();
    disk.process_death();
    disk.open("a").unwrap().sync().unwrap();
    disk.power_loss(0);
    assert_eq!(disk.bytes("a"), b"xyz");
}

#[test]
fn the_machine_has_another_life_after_a_power_loss_and_the_same_after_a_process_death() {
    let disk = SimDisk::new(1);
    assert_eq!(disk.boot(), 1);
    disk.process_death();
    assert_eq!(disk.boot(), 1);
    disk.power_loss(0);
    assert_eq!(disk.boot(), 2);
}

#[test]
fn a_disk_for_one_life_is_dead_in_the_next() {
    let disk = SimDisk::new(1);
    let view = disk.for_this_life();
    view.create("a").unwrap();
    disk.process_death();
    assert!(view.list().is_err());
    assert!(view.create("b").is_err());
    assert!(view.lock().is_err());
    assert_eq!(disk.list().unwrap(), ["a"]);
    disk.for_this_life().remove("a").unwrap();
}

#[test]
fn every_change_is_a_point_and_the_power_can_go_at_each() {
    let run = |disk: &SimDisk| -> io::Result<()> {
        let file = disk.create("a")?;
        file.write_at(&[1; 2000], 0)?;
        file.set_len(1500)?;
        file.size()?;
        file.read_at(&mut [0; 9], 0, Wait::No)?;
        file.sync()?;
        disk.list()?;
        disk.rename("a", "b")?;
        disk.open("b")?;
        disk.sync_names()?;
        disk.remove("b")?;
        drop(disk.lock()?);
        Ok(())
    };
    let whole = SimDisk::new(0);
    run(&whole).unwrap();
    assert_eq!(whole.ops(), 7);
    for cut in 0..7 {
        let disk = SimDisk::new(cut);
        disk.cut_at(cut);
        assert_out(run(&disk));
        assert!(disk.is_out());
        assert_eq!(disk.ops(), cut + 1);
        assert_out(disk.list());
        assert_out(disk.open("a"));
        assert_out(disk.create("z"));
        assert_out(disk.lock());
        disk.process_death();
        assert_out(disk.list());
        disk.power_loss(1);
        assert!(!disk.is_out());
        assert_eq!(disk.names().join(" "), ["", "a", "a", "a", "a", "b", "b"][cut as usize]);
        disk.create("z").unwrap();
    }
}

#[test]
fn a_handle_fails_while_the_power_is_out() {
    let (disk, file) = disk_with(b"abc");
    disk.cut_at(0);
    assert_out(disk.remove("a"));
    assert_out(file.read_at(&mut [0], 0, Wait::Yes));
    assert_out(file.read_at(&mut [0], 0, Wait::No));
    assert_out(file.size());
    assert_out(file.write_at(&[1], 0));
    assert_out(file.set_len(0));
    assert_out(file.sync());
    assert_eq!(disk.ops(), 1);
    disk.power_loss(1);
    assert_eq!(disk.bytes("a"), b"abc");
}

#[test]
fn a_write_at_the_cut_is_done_in_whole_sectors() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        disk.put("a", [0; 2000]);
        disk.cut_at(0);
        assert_out(disk.open("a").unwrap().write_at(&[1; 1500], 100));
        disk.power_loss(1);
        let bytes = disk.bytes("a");
        let end = bytes.iter().rposition(|byte| *byte == 1).map_or(0, |last| last + 1);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == u8::from((100..end).contains(&at))));
        seen.insert(end);
    }
    assert_eq!(seen, BTreeSet::from([0, 512, 1024, 1536, 1600]));
}

#[test]
fn a_point_that_is_made_to_fail_fails_once() {
    let (disk, file) = disk_with(b"");
    disk.fail_at(1, ErrorKind::Interrupted);
    disk.fail_at(3, ErrorKind::PermissionDenied);
    file.write_at(b"a", 0).unwrap();
    assert_kind(file.write_at(b"b", 1), ErrorKind::Interrupted);
    file.write_at(b"b", 1).unwrap();
    assert_kind(disk.rename("a", "b"), ErrorKind::PermissionDenied);
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.bytes("b"), b"ab");
}

#[test]
fn a_write_that_fails_may_be_done_in_part() {
    let (disk, file) = disk_with(b"");
    let seen: BTreeSet<usize> = (0..200)
        .map(|_| {
            disk.truncate("a", 0);
            disk.fail_at(disk.ops(), ErrorKind::Other);
            assert!(file.write_at(b"abcdef", 0).is_err());
            assert!(b"abcdef".starts_with(&disk.bytes("a")));
            disk.bytes("a").len()
        })
        .collect();
    assert_eq!(seen, (0..=6).collect());
}

#[test]
fn a_sync_that_is_made_to_fail_once_loses_what_it_was_for() {
    let (disk, file) = disk_with(b"old");
    file.write_at(b"new", 0).unwrap();
    disk.fail_at(disk.ops(), ErrorKind::Other);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    disk.power_loss(1);
    assert_eq!(disk.bytes("a"), b"old");
}

#[test]
fn a_disk_holds_so_many_bytes_over_all_files() {
    let (disk, a) = disk_with(&[0; 60]);
    let b = disk.create("b").unwrap();
    disk.full_after(Some(100));
    b.write_at(&[1; 40], 0).unwrap();
    assert_kind(b.write_at(&[1; 2], 39), ErrorKind::StorageFull);
    assert_kind(b.set_len(41), ErrorKind::StorageFull);
    assert_eq!(b.size().unwrap(), 40);
    disk.create("c").unwrap();
    a.write_at(&[1; 60], 0).unwrap();
    a.set_len(60).unwrap();
    b.write_at(&[], 1000).unwrap();
    a.set_len(50).unwrap();
    b.write_at(&[1; 10], 40).unwrap();
    disk.full_after(Some(101));
    b.write_at(&[1], 50).unwrap();
    disk.full_after(None);
    b.write_at(&[1; 1000], 0).unwrap();
}

#[test]
fn a_write_for_which_there_is_no_room_is_done_up_to_where_there_is() {
    let (disk, file) = disk_with(&[0; 4]);
    disk.full_after(Some(6));
    let seen: BTreeSet<Vec<u8>> = (0..200)
        .map(|_| {
            disk.truncate("a", 4);
            file.write_at(&[0; 4], 0).unwrap();
            assert_kind(file.write_at(&[1; 5], 2), ErrorKind::StorageFull);
            disk.bytes("a")
        })
        .collect();
    let part = |ones: usize| [vec![0; 2], vec![1; ones], vec![0; 2_usize.saturating_sub(ones)]].concat();
    assert_eq!(seen, (0..=4).map(part).collect());
}

#[test]
fn a_removed_file_takes_room_until_its_last_handle_is_gone() {
    let (disk, file) = disk_with(&[0; 100]);
    let other = disk.create("b").unwrap();
    disk.full_after(Some(100));
    disk.remove("a").unwrap();
    assert_kind(other.set_len(1), ErrorKind::StorageFull);
    assert_eq!(read(&*file).len(), 100);
    drop(file);
    other.set_len(100).unwrap();
}

#[test]
fn a_disk_that_is_full_from_a_point_on_is_so_until_it_is_healed() {
    let (disk, file) = disk_with(&[0; 10]);
    disk.full_at(1);
    file.set_len(11).unwrap();
    assert_kind(file.set_len(12), ErrorKind::StorageFull);
    assert_kind(disk.create("b"), ErrorKind::StorageFull);
    assert_kind(file.write_at(&[1; 2], 10), ErrorKind::StorageFull);
    assert_eq!(file.size().unwrap(), 11);
    file.write_at(&[1; 11], 0).unwrap();
    file.set_len(5).unwrap();
    file.sync().unwrap();
    disk.rename("a", "c").unwrap();
    disk.sync_names().unwrap();
    disk.heal();
    disk.create("b").unwrap();
    file.write_at(&[1; 2], 10).unwrap();
}

#[test]
fn what_a_failed_sync_was_for_is_seen_but_never_durable() {
    let (disk, file) = disk_with(&[0; 6]);
    file.write_at(&[1], 0).unwrap();
    file.sync().unwrap();
    file.write_at(&[2; 2], 1).unwrap();
    file.write_at(&[2], 6).unwrap();
    disk.fail_syncs(true);
    assert!(file.sync().is_err());
    disk.heal();
    file.sync().unwrap();
    file.write_at(&[3], 4).unwrap();
    file.sync().unwrap();
    disk.process_death();
    assert_eq!(disk.bytes("a"), [1, 2, 2, 0, 3, 0, 2]);
    disk.power_loss(1);
    assert_eq!(disk.bytes("a"), [1, 0, 0, 0, 3, 0]);
}

#[test]
fn names_whose_sync_failed_stay_pending() {
    let prepare = || {
        let disk = SimDisk::new(1);
        disk.create("a").unwrap();
        disk.fail_syncs(true);
        assert!(disk.sync_names().is_err());
        disk
    };
    assert_eq!(outcomes(prepare, |disk| disk.names().len()), BTreeSet::from([0, 1]));
    let disk = prepare();
    disk.heal();
    disk.sync_names().unwrap();
    disk.power_loss(0);
    assert_eq!(disk.names(), ["a"]);
}

#[test]
fn a_sync_that_lies_makes_nothing_durable() {
    let (disk, file) = disk_with(b"old");
    disk.lie_syncs(true);
    let write = |file: &dyn DiskFile| {
        file.write_at(b"new", 0).unwrap();
        file.sync().unwrap();
        disk.rename("a", "b").unwrap();
        disk.sync_names().unwrap();
    };
    write(&*file);
    disk.power_loss(0);
    assert_eq!((disk.names(), disk.bytes("a")), (vec!["a".into()], b"old".to_vec()));
    disk.lie_syncs(true);
    let file = disk.open("a").unwrap();
    write(&*file);
    disk.heal();
    file.sync().unwrap();
    disk.sync_names().unwrap();
    disk.power_loss(0);
    assert_eq!((disk.names(), disk.bytes("b")), (vec!["b".into()], b"new".to_vec()));
}

fn wait_for_stalled(disk: &SimDisk, count: usize) {
    while disk.stalled() < count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_stalled_sync_waits_and_then_covers_what_was_written_before_it() {
    let (disk, file) = disk_with(b"....");
    file.write_at(b"a", 0).unwrap();
    disk.stall_syncs(true);
    thread::scope(|scope| {
        let sync = scope.spawn(|| file.sync());
        let names = scope.spawn(|| disk.sync_names());
        wait_for_stalled(&disk, 2);
        file.write_at(b"b", 1).unwrap();
        disk.rename("a", "b").unwrap();
        assert!(!sync.is_finished());
        disk.stall_syncs(false);
        sync.join().unwrap().unwrap();
        names.join().unwrap().unwrap();
    });
    assert_eq!(disk.bytes("b"), b"ab..");
    disk.power_loss(0);
    assert_eq!(disk.bytes("a"), b"a...");
}

#[test]
fn a_stalled_sync_ends_with_the_life_the_power_or_the_fault() {
    type End = fn(&SimDisk);
    let ends: [(End, bool); 5] = [
        (|disk| disk.power_loss(0), false),
        (SimDisk::process_death, false),
        (|disk| (disk.cut_at(0), assert_out(disk.remove("a"))).1, false),
        (|disk| (disk.fail_syncs(true), disk.stall_syncs(false)).1, false),
        (SimDisk::heal, true),
    ];
    for (end, ok) in ends {
        let (disk, file) = disk_with(b"");
        disk.stall_syncs(true);
        thread::scope(|scope| {
            let sync = scope.spawn(|| file.sync());
            let names = scope.spawn(|| disk.sync_names());
            wait_for_stalled(&disk, 2);
            end(&disk);
            assert_eq!(sync.join().unwrap().is_ok(), ok);
            assert_eq!(names.join().unwrap().is_ok(), ok);
        });
        assert_eq!(disk.stalled(), 0);
    }
}

#[test]
fn writes_fail_until_they_are_healed() {
    let (disk, file) = disk_with(b"");
    disk.fail_writes(true);
    assert!(file.write_at(b"a", 0).is_err());
    file.set_len(5).unwrap();
    file.sync().unwrap();
    disk.heal();
    file.write_at(b"a", 0).unwrap();
}

#[test]
fn healing_leaves_the_cut() {
    let disk = SimDisk::new(1);
    disk.cut_at(0);
    disk.heal();
    assert_out(disk.sync_names());
    disk.heal();
    assert_out(disk.list());
}

#[test]
fn a_flipped_bit_is_flipped_in_memory_and_for_good() {
    for synced in [false, true] {
        let (disk, file) = disk_with(&[0; 2]);
        file.write_at(&[0xf0; 3], 0).unwrap();
        if synced {
            file.sync().unwrap();
        }
        disk.flip("a", 1, 7);
        assert_eq!(read(&*file), [0xf0, 0x70, 0xf0]);
        disk.power_loss(u64::from(synced));
        assert_eq!(disk.bytes("a"), if synced { vec![0xf0, 0x70, 0xf0] } else { vec![0, 0x80] });
    }
    let (disk, file) = disk_with(&[0; 2]);
    file.write_at(&[0xf0; 3], 0).unwrap();
    disk.flip("a", 2, 0);
    file.sync().unwrap();
    disk.power_loss(0);
    assert_eq!(disk.bytes("a"), [0xf0, 0xf0, 0xf1]);
}

#[test]
fn a_truncated_file_is_so_in_memory_and_for_good() {
    for luck in LUCKS {
        let (disk, file) = disk_with(&[1; 10]);
        file.write_at(&[2; 2], 4).unwrap();
        file.write_at(&[2; 2], 20).unwrap();
        file.set_len(30).unwrap();
        disk.truncate("a", 5);
        assert_eq!(read(&*file), [1, 1, 1, 1, 2]);
        if luck % 2 == 0 {
            file.sync().unwrap();
        }
        disk.power_loss(luck);
        let bytes = disk.bytes("a");
        assert!(bytes == [1, 1, 1, 1, 2] || luck % 2 == 1 && bytes == [1, 1, 1, 1, 1], "{bytes:?}");
    }
}

#[test]
fn a_file_put_there_is_durable_and_replaces_what_had_its_name() {
    let (disk, old) = disk_with(b"old");
    disk.create("b").unwrap().write_at(b"b", 0).unwrap();
    disk.put("a", b"new");
    disk.put("b", b"put");
    assert_eq!(read(&*old), b"old");
    assert_eq!(disk.ops(), 2);
    for luck in LUCKS {
        disk.power_loss(luck);
        assert_eq!((disk.bytes("a"), disk.bytes("b")), (b"new".to_vec(), b"put".to_vec()));
    }
}

#[test]
fn the_lock_has_one_holder_and_a_guard_of_an_earlier_life_does_not_release_it() {
    let disk = SimDisk::new(1);
    let first = disk.lock().unwrap();
    assert_kind(disk.clone().lock(), ErrorKind::WouldBlock);
    drop(first);
    let first = disk.lock().unwrap();
    disk.process_death();
    let second = disk.lock().unwrap();
    drop(first);
    assert_kind(disk.lock(), ErrorKind::WouldBlock);
    disk.power_loss(0);
    let _third = disk.lock().unwrap();
    drop(second);
    assert_kind(disk.lock(), ErrorKind::WouldBlock);
}

#[test]
fn a_cold_disk_makes_reads_wait() {
    let (disk, file) = disk_with(b"abc");
    let mut into = [0; 3];
    assert_eq!(file.read_at(&mut into, 0, Wait::No).unwrap(), 3);
    disk.cold(true);
    assert_kind(file.read_at(&mut into, 0, Wait::No), ErrorKind::WouldBlock);
    assert_eq!(file.read_at(&mut into, 0, Wait::Yes).unwrap(), 3);
    disk.cold(false);
    assert_eq!(file.read_at(&mut into, 0, Wait::No).unwrap(), 3);
}

#[test]
fn handles_stay_valid_after_a_rename_and_a_removal() {
    let (disk, file) = disk_with(b"abc");
    disk.put("b", b"replaced");
    let replaced = disk.open("b").unwrap();
    disk.rename("a", "b").unwrap();
    disk.sync_names().unwrap();
    file.write_at(b"d", 3).unwrap();
    assert_eq!(disk.bytes("b"), b"abcd");
    assert_eq!(read(&*replaced), b"replaced");
    disk.remove("b").unwrap();
    disk.sync_names().unwrap();
    file.write_at(b"e", 4).unwrap();
    file.sync().unwrap();
    assert_eq!(read(&*file), b"abcde");
}

#[test]
fn a_removal_that_does_not_survive_brings_the_file_back() {
    let (disk, file) = disk_with(b"abc");
    disk.remove("a").unwrap();
    drop(file);
    disk.create("a").unwrap();
    disk.power_loss(0);
    assert_eq!(disk.bytes("a"), b"abc");
}

#[test]
fn files_that_nobody_can_reach_are_forgotten() {
    let disk = SimDisk::new(1);
    for _ in 0..10 {
        let file = disk.create("a").unwrap();
        disk.remove("a").unwrap();
        disk.sync_names().unwrap();
        drop(file);
        disk.create("b").unwrap();
        disk.remove("b").unwrap();
        disk.sync_names().unwrap();
    }
    disk.create("c").unwrap();
    disk.power_loss(0);
    assert_eq!(disk.shared.state.lock().inodes().len(), 0);
}

#[test]
fn names_that_no_directory_could_have_are_refused() {
    let disk = SimDisk::new(1);
    for name in ["", "/", "a/", "/a", "a/b/c", "..", "../a", "."] {
        assert_kind(disk.create(name), ErrorKind::InvalidInput);
    }
    let file = disk.create("a").unwrap();
    assert_kind(disk.rename("a", "b/c/d"), ErrorKind::InvalidInput);
    assert_kind(file.set_len(u64::MAX), ErrorKind::FileTooLarge);
    assert_kind(file.write_at(&[1], u64::MAX), ErrorKind::FileTooLarge);
}

/// A call, on one of three names.
#[derive(Clone, Debug)]
enum Call {
    Create(usize),
    Rename(usize, usize),
    Remove(usize),
    SyncNames,
    Write(usize, u64, u8, usize),
    SetLen(usize, u64),
    Sync(usize),
    Read(usize, u64, usize),
}

impl Call {
    fn is_sync(&self) -> bool {
        matches!(self, Self::Sync(_) | Self::SyncNames)
    }
}

const NAMES: [&str; 3] = ["a", "b", "dir/c"];

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        2 => (0..3_usize).prop_map(Call::Create),
        1 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Call::Rename(from, to)),
        1 => (0..3_usize).prop_map(Call::Remove),
        1 => Just(Call::SyncNames),
        6 => (0..3_usize, 0..3000_u64, 1..=255_u8, 0..1500_usize).prop_map(|(n, at, b, len)| Call::Write(n, at, b, len)),
        2 => (0..3_usize, 0..4000_u64).prop_map(|(name, len)| Call::SetLen(name, len)),
        1 => (0..3_usize).prop_map(Call::Sync),
        2 => (0..3_usize, 0..5000_u64, 0..2000_usize).prop_map(|(name, at, len)| Call::Read(name, at, len)),
    ];
    prop::collection::vec(call, 0..60)
}

/// Does it, and answers what there is to see.
fn call(disk: &dyn Disk, call: &Call) -> Result<Vec<u8>, ErrorKind> {
    let done = |(): ()| Vec::new();
    let open = |name: usize| disk.open(NAMES[name]);
    let answer = match *call {
        Call::Create(name) => disk.create(NAMES[name]).map(|_| Vec::new()),
        Call::Rename(from, to) => disk.rename(NAMES[from], NAMES[to]).map(done),
        Call::Remove(name) => disk.remove(NAMES[name]).map(done),
        Call::SyncNames => disk.sync_names().map(done),
        Call::Write(name, at, byte, len) => {
            open(name).and_then(|file| file.write_at(&vec![byte; len], at)).map(done)
        }
        Call::SetLen(name, len) => open(name).and_then(|file| file.set_len(len)).map(done),
        Call::Sync(name) => open(name).and_then(|file| file.sync()).map(done),
        Call::Read(name, at, len) => open(name).and_then(|file| {
            let mut bytes = vec![0; len];
            let read = file.read_at(&mut bytes, at, Wait::Yes)?;
            bytes.truncate(read);
            Ok(bytes)
        }),
    };
    answer.map_err(|error| error.kind())
}

type View = Vec<(String, Vec<u8>)>;

fn view(disk: &dyn Disk) -> View {
    let mut names = disk.list().unwrap();
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&*disk.open(&name).unwrap()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn after_a_power_loss_each_sector_of_an_unsynced_write_is_old_or_new(
        at in 0..2000_usize, len in 1..4000_usize, old_len in 0..4000_usize, luck: u64,
    ) {
        let (disk, file) = disk_with(&vec![1; old_len]);
        file.write_at(&vec![2; len], at as u64).unwrap();
        let new = disk.bytes("a");
        disk.power_loss(luck);
        let bytes = disk.bytes("a");
        prop_assert!(bytes.len() >= old_len && bytes.len() <= new.len());
        let mut old = vec![1; old_len];
        old.resize(bytes.len(), 0);
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            let range = n * SECTOR..n * SECTOR + sector.len();
            prop_assert!(*sector == old[range.clone()] || *sector == new[range]);
        }
    }

    #[test]
    fn it_is_a_disk_like_the_real_one(made in calls()) {
        let directory = tempfile::tempdir().unwrap();
        let (real, sim) = (RealDisk::new(directory.path()).unwrap(), SimDisk::new(1));
        // Its syncs are slow and show nothing.
        for made in made.iter().filter(|made| !made.is_sync()) {
            prop_assert_eq!(call(&real, made), call(&sim, made), "{:?}", made);
        }
        prop_assert_eq!(view(&real), view(&sim));
    }

    #[test]
    fn after_any_power_loss_all_that_is_seen_is_durable(
        lives in prop::collection::vec((calls(), any::<u64>(), 0..40_u64, any::<bool>()), 1..5),
    ) {
        let disk = SimDisk::new(1);
        for (made, luck, fail, cut) in &lives {
            if *cut {
                disk.cut_at(disk.ops() + fail);
            } else {
                disk.fail_at(disk.ops() + fail, ErrorKind::Other);
            }
            for made in made {
                let _any = call(&disk, made);
            }
            disk.power_loss(*luck);
            for inode in disk.shared.state.lock().inodes().values() {
                prop_assert_eq!(inode.bytes(), inode.durable());
            }
            let seen = view(&disk);
            disk.power_loss(luck.rotate_left(7));
            prop_assert_eq!(view(&disk), seen);
        }
    }

    #[test]
    fn with_the_best_luck_all_survives_and_with_the_worst_what_was_synced(made in calls(), more in calls()) {
        let disk = SimDisk::new(1);
        for made in &made {
            let _any = call(&disk, made);
        }
        let all = view(&disk);
        disk.power_loss(1);
        prop_assert_eq!(&view(&disk), &all);
        for made in more.iter().filter(|made| !made.is_sync()) {
            let _any = call(&disk, made);
        }
        disk.power_loss(0);
        prop_assert_eq!(view(&disk), all);
    }
}
