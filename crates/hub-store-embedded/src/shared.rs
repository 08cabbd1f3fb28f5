//! What the parts of an open store share.

use crate::catalog::Catalog;
use crate::disk::pool::FilePool;
use crate::disk::salvage::is_unreadable;
use crate::disk::{Disk, DiskFile, Wait};
use crate::health::HealthBoard;
use crate::index::SegmentIndex;
use crate::manifest::{Manifest, Row};
use crate::options::Options;
use crate::pins::Pins;
use crate::rebuild;
use crate::reserve;
use crate::segment::{Index, Segment, SegmentId, Segments, Trouble};
use hub_core::store::StoreError;
use hub_proto::EventId;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// See the module.
pub struct Shared {
    /// The directory.
    pub disk: Arc<dyn Disk>,
    /// Opens the files of segments and sidecars when they are used.
    pub files: Arc<FilePool>,
    /// Settings.
    pub options: Options,
    /// The seed of the ids' hashes.
    pub seed: u64,
    /// Topics and groups.
    pub catalog: Catalog,
    /// Every segment, in the order of the log; the last one is written to.
    pub segments: RwLock<Arc<Segments>>,
    /// How it is doing.
    pub health: HealthBoard,
    /// How far the log goes, and how far it is safe.
    tail: OnceLock<Mutex<Tail>>,
    /// Told when something waits for a sync, and at the end.
    pub unsynced: Condvar,
    /// The next segment, ready to be written to.
    pub prepared: Mutex<Option<Prepared>>,
    /// The memory of an index that was sealed.
    pub spare_index: Mutex<Option<SegmentIndex>>,
    /// There is a file of [`Options::disk_reserve`] bytes that can be given up.
    pub has_reserve: AtomicBool,
    /// Nothing is taken any more.
    pub closed: AtomicBool,
    /// The number of the next kept segment.
    pub next_kept: AtomicU64,
    /// The life of the machine we were opened in.
    pub boot: u64,
    /// Backups that copy files at present.
    pub pins: Arc<Pins>,
    /// The guard of the directory; taken at close.
    pub lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// A file of zeros with the name `log-N.new`.
pub struct Prepared {
    /// The segment's number.
    pub number: u64,
    /// The file.
    pub file: Arc<dyn DiskFile>,
    /// Its length.
    pub bytes: u64,
}

/// The end of the log.
pub struct Tail {
    /// The segment that is written to.
    pub segment: Arc<Segment>,
    /// Another handle to its file: an error of a sync is told once to each.
    pub spare: Arc<dyn DiskFile>,
    /// The number of the last commit.
    pub number: u64,
    /// Where it ends.
    pub end: u64,
    /// The last commit that is known to be durable.
    pub synced: u64,
    /// Where it ends.
    pub synced_end: u64,
    /// Commits that readers see and that are not synced yet: number, end and frames.
    pub unsynced: VecDeque<(u64, u64, Vec<u8>)>,
    /// Bytes of them.
    pub unsynced_bytes: usize,
    /// Why the segment can no longer be trusted.
    pub failed: Option<String>,
}

impl Tail {
    /// The end of a segment, where everything is durable.
    pub fn at(segment: Arc<Segment>, spare: Arc<dyn DiskFile>, number: u64, end: u64) -> Self {
        Self {
            segment,
            spare,
            number,
            end,
            synced: number,
            synced_end: end,
            unsynced: VecDeque::new(),
            unsynced_bytes: 0,
            failed: None,
        }
    }

    /// An error if the segment can no longer be trusted.
    pub fn trusted(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }

    /// Everything up to a commit is durable.
    pub fn synced(&mut self, number: u64, end: u64) {
        if number > self.synced {
            (self.synced, self.synced_end) = (number, end);
        }
        while self.unsynced.front().is_some_and(|(front, ..)| *front <= number) {
            if let Some((_, _, bytes)) = self.unsynced.pop_front() {
                self.unsynced_bytes -= bytes.len();
            }
        }
    }
}

impl Shared {
    /// An empty store; recovery fills it.
    pub fn new(disk: Arc<dyn Disk>, options: Options, seed: u64, lock: Box<dyn Send + Sync>) -> Self {
        let files = FilePool::new(disk, options.open_files);
        Self {
            boot: files.boot(),
            disk: files.clone(),
            files,
            options,
            seed,
            catalog: Catalog::default(),
            segments: RwLock::default(),
            health: HealthBoard::default(),
            tail: OnceLock::new(),
            unsynced: Condvar::new(),
            prepared: Mutex::default(),
            spare_index: Mutex::default(),
            has_reserve: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            next_kept: AtomicU64::new(1),
            pins: Arc::default(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// The end of the log; once it is known.
    pub fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.get().expect("recovery has found the end").lock()
    }

    /// Recovery has found the end of the log.
    pub fn set_tail(&self, tail: Tail) {
        assert!(self.tail.set(Mutex::new(tail)).is_ok(), "the log has one end");
    }

    /// The segments, as of now.
    pub fn segments(&self) -> Arc<Segments> {
        self.segments.read().clone()
    }

    /// The segment that is written to cannot be trusted any more: wakes who begins another one.
    pub fn distrust(&self, error: &io::Error) {
        self.tail().failed.get_or_insert_with(|| error.to_string());
        self.unsynced.notify_all();
    }

    /// Adds a segment at the end of the log.
    pub fn push_segment(&self, segment: Arc<Segment>) {
        let highest = self.segments().last().and_then(|last| last.highest_v7());
        self.push_segment_behind(highest, segment);
    }

    /// The same for a caller that holds the index of the last segment, whose highest id v7 is `highest`.
    pub fn push_segment_behind(&self, highest: Option<EventId>, segment: Arc<Segment>) {
        let mut segments = self.segments.write();
        *segments = Arc::new(segments.followed_by(segment, highest));
    }

    /// Everything as of now, but for the segments.
    pub fn image(&self, upto: u64, last_commit: u64) -> Manifest {
        let topics = self.catalog.topics().into_iter();
        let topics = topics.map(|topic| (topic.number, topic.name.clone(), topic.state.lock().meta.clone()));
        let topics = topics.collect();
        let groups = self.catalog.groups.lock();
        Manifest {
            generation: 0,
            seed: self.seed,
            upto,
            last_commit,
            next_kept: self.next_kept.load(Relaxed),
            boot: self.boot,
            segments: Vec::new(),
            topics,
            groups: groups.groups.values().cloned().collect(),
            subscriptions: groups.subscriptions.values().cloned().collect(),
        }
    }

    /// The rows of the segments up to a number.
    pub fn rows(&self, upto: u64) -> Vec<Row> {
        let covered = |segment: &&Arc<Segment>| match segment.id {
            SegmentId::Log(number) => number <= upto,
            SegmentId::Kept(_) => true,
        };
        let row = |segment: &Arc<Segment>| Row {
            id: segment.id,
            nonce: segment.nonce,
            end: segment.len(),
            damaged: segment.damaged.load(Relaxed),
        };
        self.segments().iter().filter(covered).map(row).collect()
    }

    /// Asks a segment, and makes its sidecar anew if that turns out to be bad; who may not wait does not do that.
    pub fn ask<T>(
        &self,
        segment: &Segment,
        wait: Wait,
        ask: impl Fn() -> Result<T, Trouble>,
    ) -> io::Result<T> {
        match ask() {
            Ok(answer) => Ok(answer),
            // A sidecar of which nothing can be read is as good as none; so is one whose file was lost.
            Err(Trouble::Io(error)) if !is_unreadable(&error) => Err(error),
            Err(_) if wait == Wait::No => Err(io::ErrorKind::WouldBlock.into()),
            Err(trouble) => {
                let what = match trouble {
                    Trouble::Io(error) => error.to_string(),
                    Trouble::Sidecar(what) => what,
                };
                tracing::warn!(segment = %segment.id, what, "a sidecar is bad, the segment is read again");
                let index = rebuild::index(self, segment)?;
                *segment.index.write() = Index::Open(index);
                ask().map_err(|trouble| match trouble {
                    Trouble::Io(error) => error,
                    Trouble::Sidecar(what) => io::Error::other(what),
                })
            }
        }
    }

    /// Has long work break off when the store is being closed.
    pub fn check_open(&self) -> io::Result<()> {
        if self.closed.load(Relaxed) { Err(io::Error::other("the store is being closed")) } else { Ok(()) }
    }

    /// Where something is, for people.
    pub fn place(&self, segment: &Segment, offset: u64) -> String {
        format!("{}/{} at byte {offset}", self.disk.place(), segment.id)
    }

    /// The disk is full: gives the reserve up for the store's own records. Whether there was one.
    pub fn give_up_reserve(&self) -> io::Result<bool> {
        self.has_reserve.store(false, Relaxed);
        let given_up = reserve::give_up(&*self.disk)?;
        if given_up {
            tracing::warn!(
                bytes = self.options.disk_reserve,
                "the disk is full, the reserve is given up for records of the store"
            );
        }
        Ok(given_up)
    }

    /// Why a commit fails, for the port.
    pub fn unavailable(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("{} in {}", explain(error), self.disk.place()))
    }

    /// An error of the disk, for the port.
    pub fn refused(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("{what} in {}: {}", self.disk.place(), explain(error)))
    }

    /// An empty index.
    pub fn empty_index() -> Index {
        Index::Open(SegmentIndex::default())
    }

    /// An empty index for a segment that is begun, with the memory of one that was sealed.
    pub fn next_index(&self) -> Index {
        Index::Open(self.spare_index.lock().take().unwrap_or_default())
    }
}

/// An error of the disk with what to do about it.
pub fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the disk is full ({error}); make room, and the store goes on by itself")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            format!("the directory cannot be written to ({error}); check its owner, mode and mount")
        }
        _ => error.to_string(),
    }
}
