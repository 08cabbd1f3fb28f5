//! The directory: who may use it, what is in the way, what is left alone.

use crate::ledger::{Ledger, draft, fill, now, served, small, topic};
use hub_core::store::EventStore;
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::disk::{Disk, RealDisk};
use hub_store_embedded::{EmbeddedStore, OpenError, Options, Threads};
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Says where the other process is to hold a directory.
const HELD: &str = "HUB_HELD_DIRECTORY";

fn open(directory: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(directory, small())
}

fn refused(directory: &Path) -> OpenError {
    open(directory).err().unwrap_or_else(|| panic!("{} was opened", directory.display()))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_directory_has_one_store_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path).unwrap();
    let error = refused(path);
    assert!(matches!(&error, OpenError::Locked(place) if *place == path.display().to_string()), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    // The first one does not notice.
    Ledger::default().publish(&store, vec![draft("a", 1, None)], vec![]);
    now(store.close()).unwrap();
    // Closed is enough, dropped it need not be.
    open(path).unwrap();
}

/// Not a test of its own: what the other process runs.
#[test]
#[ignore = "started by the one below"]
fn holds_a_directory_until_it_is_killed() {
    let Some(directory) = std::env::var_os(HELD) else { return };
    let _store = open(Path::new(&directory)).unwrap();
    println!("\nheld");
    std::thread::park();
}

struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hold(path: &Path) -> Holder {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "directory::holds_a_directory_until_it_is_killed", "--ignored", "--nocapture"])
        .env(HELD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"), "the other process did not get that far");
    Holder(child)
}

#[test]
fn a_directory_has_one_process_at_a_time_and_is_free_when_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let holder = hold(directory.path());
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
    drop(holder);
    let store = open(directory.path()).unwrap();
    Ledger::default().publish(&store, vec![draft("a", 1, None)], vec![]);
}

#[test]
fn a_later_format_is_refused_in_words_and_nothing_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("format"), "event-hub embedded store\nformat 2\nseed 07\nmore\n")
        .unwrap();
    fs::write(directory.path().join("log-00000001"), "who knows").unwrap();
    fs::write(directory.path().join("log-00000002.new"), "who knows").unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Newer { found: 2, .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("format 2") && words.contains("format 1") && words.contains("later"), "{words}");
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["format", "lock", "log-00000001", "log-00000002.new"]);
}

#[test]
fn what_is_no_directory_is_refused_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = refused(&path);
        assert!(matches!(error, OpenError::Io { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
}

/// A disk that can be read and not written: as for another user, or a mount of that kind. (Root could write to a
/// directory whatever its mode is, so the mode would prove nothing.)
struct ReadOnly(SimDisk, io::ErrorKind);

impl Disk for ReadOnly {
    fn place(&self) -> String {
        "/read/only".into()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn hub_store_embedded::disk::DiskFile>> {
        Err(self.1.into())
    }

    fn open(&self, _: &str) -> io::Result<Arc<dyn hub_store_embedded::disk::DiskFile>> {
        Err(self.1.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(self.1.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(self.1.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        Err(self.1.into())
    }
}

#[test]
fn a_directory_that_cannot_be_written_to_is_refused_with_what_to_do() {
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
        let disk = ReadOnly(SimDisk::new(1), kind);
        let error = EmbeddedStore::open_on(Arc::new(disk), small()).unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, OpenError::Io { .. }), "{words}");
        assert!(words.contains("/read/only") && words.contains("check its owner, mode and mount"), "{words}");
    }
    // Where there is a file system that nobody can write to, the same.
    let path = Path::new("/proc/event-hub");
    let words = refused(path).to_string();
    assert!(words.contains("/proc/event-hub"), "{words}");
}

#[test]
fn what_is_not_ours_is_left_alone_and_what_we_left_over_goes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = open(path).unwrap();
    let ledger = fill(&store);
    let kept = served(&store);
    now(store.close()).unwrap();
    let strange = [
        "README",
        "notes.tmp",
        "photo.new",
        "log",
        "log-1",
        "log-0000000x",
        "kept-00000001.bak",
        "manifest.3",
        "manifest.1.bak",
        ".hidden",
    ];
    let left_over = [
        "log-00009999.new",
        "manifest.1.tmp",
        "manifest.2.tmp",
        "format.tmp",
        "kept-00000777.tmp",
        "kept-00000777",
        "kept-00000777.idx",
        "kept-00000777.idx.tmp",
        "log-00000001.idx.tmp",
    ];
    for name in strange.iter().chain(&left_over) {
        fs::write(path.join(name), "strange").unwrap();
    }
    fs::create_dir(path.join("folder")).unwrap();
    fs::write(path.join("folder/file.tmp"), "strange").unwrap();
    let store = open(path).unwrap();
    assert_eq!(served(&store), kept);
    assert_eq!(store.health(), Default::default());
    let users = topic("users");
    let mut more = Ledger::default();
    assert_eq!(more.publish(&store, vec![draft("users", 9000, None)], vec![]), [ledger.last(&users) + 1]);
    now(store.close()).unwrap();
    for name in strange.iter().copied().chain(["folder/file.tmp"]) {
        assert_eq!(fs::read_to_string(path.join(name)).ok().as_deref(), Some("strange"), "{name}");
    }
    for name in left_over {
        assert!(!path.join(name).exists(), "{name}");
    }
}

#[test]
fn a_directory_that_was_copied_while_closed_opens_elsewhere() {
    for threads in [Threads::None, Threads::Own] {
        let options = Options { threads, ..small() };
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = EmbeddedStore::open(here.path(), options.clone()).unwrap();
        let ledger = fill(&store);
        let kept = served(&store);
        now(store.close()).unwrap();
        drop(store);
        let elsewhere: PathBuf = there.path().join("a/b");
        copy(here.path(), &elsewhere);
        let store = EmbeddedStore::open(&elsewhere, options.clone()).unwrap();
        assert_eq!(served(&store), kept);
        assert_eq!(store.health(), Default::default());
        // They go different ways from here.
        let other = EmbeddedStore::open(here.path(), options).unwrap();
        for store in [&store, &other] {
            let next = ledger.last(&topic("users")) + 1;
            let seqs = Ledger::default().publish(store, vec![draft("users", 9000, None)], vec![]);
            assert_eq!(seqs, [next]);
            now(store.close()).unwrap();
        }
    }
}

#[test]
fn a_disk_names_its_place_in_every_refusal() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    assert!(RealDisk::existing(directory.path().join("nowhere")).is_err());
    fs::write(directory.path().join("format"), "something else").unwrap();
    let words = refused(directory.path()).to_string();
    let place = directory.path().join("format").display().to_string();
    assert!(words.contains(&place) && words.contains("event-hub doctor"), "{words}");
}
