//! Backups in directories of the file system: which are refused, and how one takes the place of another.

use crate::ledger::{Ledger, draft, now, served, small, topic};
use hub_core::store::{CleanPolicy, EventStore};
use hub_store_embedded::EmbeddedStore;
use hub_store_embedded::backup::{self, BackupError, BackupOptions, Outcome, RECORD, Source};
use hub_store_embedded::disk::RealDisk;
use hub_store_embedded::doctor;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A store in `data`, and room for backups beside it.
pub struct Place {
    directory: TempDir,
    pub store: EmbeddedStore,
    pub ledger: Ledger,
    made: u64,
}

const LINKS: BackupOptions = BackupOptions { copy: false, allow_damage: false };
const COPIES: BackupOptions = BackupOptions { copy: true, allow_damage: false };

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(directory.path().join("data"), small()).unwrap();
        let mut place = Self { directory, store, ledger: Ledger::default(), made: 0 };
        place.publish(100);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn publish(&mut self, events: u64) {
        for _ in 0..events {
            self.made += 1;
            self.ledger.publish(&self.store, vec![draft("orders", self.made, Some("k"))], vec![]);
        }
    }

    fn back_up(&self, target: &Path, options: BackupOptions) -> Result<Outcome, BackupError> {
        let pinned = now(self.store.pin_files()).unwrap().unwrap();
        let disk = RealDisk::read_only(&pinned.directory).unwrap();
        let source = Source::pinned(&disk, &pinned.manifest, pinned.end)?;
        backup::run(&source, target, options, 1, &mut |_, _, _, _| {})
    }

    #[track_caller]
    fn is_refused(&self, target: &Path, words: &str) {
        let error = self.back_up(target, LINKS).unwrap_err();
        assert!(matches!(error, BackupError::Refused(_)) && error.to_string().contains(words), "{error}");
    }
}

/// Opens a copy of the backup, which stays one.
fn restored(backup: &Path) -> Ledger {
    let copy = backup.with_extension("restored");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(backup).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    served(&EmbeddedStore::open(&copy, small()).unwrap())
}

fn is_healthy(directory: &Path) -> bool {
    doctor::examine(&RealDisk::read_only(directory).unwrap(), &mut |_, _, _| {}).unwrap().healthy
}

#[test]
fn sealed_segments_are_hard_links_and_the_log_that_is_written_to_is_a_copy() {
    let mut place = Place::new();
    let target = place.path("backup");
    let outcome = place.back_up(&target, LINKS).unwrap();
    assert!(outcome.linked.files > 4 && outcome.copied.files == 1, "{outcome:?}");
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    let data = place.path("data");
    let mut logs = 0;
    for entry in fs::read_dir(&target).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        if name.starts_with("log-") {
            let is_linked = inode(target.join(name)) == inode(data.join(name));
            let is_last = !target.join(format!("{name}.idx")).exists() && !name.ends_with(".idx");
            assert_eq!(is_linked, !is_last, "{name}");
            logs += 1;
        }
    }
    assert!(logs > 4);
    // The hub goes on: nothing of it shows in the backup.
    let before = place.ledger.clone();
    place.publish(50);
    let all = CleanPolicy { max_bytes: Some(1), ..CleanPolicy::default() };
    now(place.store.clean(&topic("orders"), all)).unwrap();
    place.publish(20);
    assert!(is_healthy(&target));
    assert_eq!(restored(&target), before);
}

#[test]
fn a_second_backup_copies_only_what_is_new() {
    let mut place = Place::new();
    for (options, name) in [(COPIES, "copies"), (LINKS, "links")] {
        let target = place.path(name);
        let first = place.back_up(&target, options).unwrap();
        place.publish(30);
        let second = place.back_up(&target, options).unwrap();
        assert_eq!(restored(&target), place.ledger, "{name}");
        let kept = if options.copy { second.reused } else { second.linked };
        let before = if options.copy { first.copied.files - 1 } else { first.linked.files };
        assert!(kept.files >= before, "{first:?} {second:?}");
        let third = place.back_up(&target, options).unwrap();
        assert_eq!(third.copied.files, 1, "the segment that is written to: {third:?}");
        assert!(is_healthy(&target));
    }
}

#[test]
fn a_file_of_an_earlier_backup_that_has_changed_is_copied_again() {
    let place = Place::new();
    let target = place.path("backup");
    place.back_up(&target, COPIES).unwrap();
    let damaged = target.join("log-00000001");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[300] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    assert!(!is_healthy(&target));
    let second = place.back_up(&target, COPIES).unwrap();
    assert_eq!(second.copied.files, 2, "{second:?}");
    assert!(is_healthy(&target));
    assert_eq!(restored(&target), place.ledger);
}

#[test]
fn directories_that_hold_something_else_are_refused() {
    let place = Place::new();
    let data = place.path("data");
    place.is_refused(&data, "is the data directory itself");
    place.is_refused(&data.join("backup"), "is inside the data directory");
    place.is_refused(place.directory.path(), "the data directory");
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full").join("letter"), "dear").unwrap();
    place.is_refused(&place.path("full"), "is not empty, and not a backup");
    fs::write(place.path("file"), "").unwrap();
    place.is_refused(&place.path("file"), "is not a directory");
    let other = EmbeddedStore::open(place.path("other"), small()).unwrap();
    place.is_refused(&place.path("other"), "of a hub that runs");
    drop(other);
    place.is_refused(&place.path("other"), "a hub was started on it");
    fs::create_dir(place.path("empty")).unwrap();
    place.back_up(&place.path("empty"), LINKS).unwrap();
    assert!(!data.join("backup").exists() && !place.path("full.partial").exists());
}

#[test]
fn a_backup_that_a_hub_was_started_on_is_not_replaced() {
    let place = Place::new();
    let target = place.path("backup");
    place.back_up(&target, LINKS).unwrap();
    let started = EmbeddedStore::open(&target, small()).unwrap();
    assert_eq!(served(&started), place.ledger);
    place.is_refused(&target, "of a hub that runs");
    drop(started);
    place.is_refused(&target, "a hub was started on it");
    assert!(is_healthy(&place.path("backup")));
    assert!(place.store.health().warnings.is_empty(), "the hub's own files are as they were");
    assert_eq!(served(&place.store), place.ledger);
}

#[test]
fn what_an_interrupted_backup_has_left_is_replaced_and_the_earlier_one_stays_until_then() {
    let mut place = Place::new();
    let (target, partial) = (place.path("backup"), place.path("backup.partial"));
    place.back_up(&target, COPIES).unwrap();
    let before = place.ledger.clone();
    place.publish(40);
    // As a process leaves it that is killed while it copies.
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("unfinished"), "").unwrap();
    fs::write(partial.join("log-00000001"), "half a segment").unwrap();
    assert_eq!(restored(&target), before);
    assert!(EmbeddedStore::open(&partial, small()).is_err(), "half a copy does not open");
    let _ = fs::remove_file(partial.join("lock"));
    place.back_up(&target, COPIES).unwrap();
    assert_eq!(restored(&target), place.ledger);
    assert!(!partial.exists());
    // As it leaves it between two names, where these cannot be exchanged.
    fs::rename(&target, place.path("backup.replaced")).unwrap();
    let again = place.back_up(&target, COPIES).unwrap();
    assert!(again.reused.files > 4 && !place.path("backup.replaced").exists(), "{again:?}");
    // Somebody else's directory is left alone.
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("letter"), "dear").unwrap();
    place.is_refused(&target, "is in the way");
    assert_eq!(fs::read(partial.join("letter")).unwrap(), b"dear");
}

#[test]
fn one_backup_at_a_time_is_made_in_a_directory() {
    let place = Place::new();
    let (target, partial) = (place.path("backup"), place.path("backup.partial"));
    fs::create_dir(&partial).unwrap();
    let other = fs::File::open(&partial).unwrap();
    other.lock().unwrap();
    place.is_refused(&target, "another backup");
    drop(other);
    place.back_up(&target, LINKS).unwrap();
}

#[test]
fn a_damaged_source_leaves_the_earlier_backup_as_it_was() {
    let mut place = Place::new();
    let target = place.path("backup");
    place.back_up(&target, COPIES).unwrap();
    let before = place.ledger.clone();
    place.publish(40);
    let damaged = place.path("data").join("log-00000002");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[300] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let error = place.back_up(&target, LINKS).unwrap_err();
    assert!(error.to_string().contains("log-00000002"), "{error}");
    assert!(!place.path("backup.partial").exists());
    assert_eq!(restored(&target), before);
    assert!(target.join(RECORD).exists());
}

#[test]
fn a_stopped_directory_is_backed_up_and_not_changed() {
    let mut place = Place::new();
    now(place.store.close()).unwrap();
    let data = place.path("data");
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(&data);
    let disk = RealDisk::read_only(&data).unwrap();
    let source = Source::stopped(&disk).unwrap();
    let target = place.path("backup");
    backup::run(&source, &target, LINKS, 1, &mut |_, _, _, _| {}).unwrap();
    assert_eq!(names(&data), before);
    assert_eq!(restored(&target), place.ledger);
    place.store = EmbeddedStore::open(&data, small()).unwrap();
    assert_eq!(served(&place.store), place.ledger);
}
