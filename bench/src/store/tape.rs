//! A disk that remembers what commits did to it, so that a bare loop can do the same.

use hub_store_embedded::disk::{Disk, DiskFile, RealDisk, Wait};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What was done to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes were written, behind the last ones.
    Write(u32),
    /// They were synced.
    Sync,
}

/// A run of steps.
#[derive(Debug, Default)]
pub struct Tape {
    steps: Mutex<Vec<Step>>,
    /// Everything that was ever done, to whatever file.
    done: AtomicU64,
    /// Nanoseconds that the steps took.
    busy: AtomicU64,
}

impl Tape {
    /// Takes what was recorded since the last time, and how long the disk took for it.
    pub fn cut(&self) -> (Vec<Step>, Duration) {
        let steps = std::mem::replace(&mut *self.steps.lock(), Vec::with_capacity(1 << 18));
        (steps, Duration::from_nanos(self.busy.swap(0, Relaxed)))
    }

    /// Waits until nothing has been done to the disk for a moment: the next segment is ready, the last one sealed.
    pub async fn settle(&self) {
        let mut before = self.done.load(Relaxed);
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.done.load(Relaxed);
            if now == before {
                return;
            }
            before = now;
        }
    }
}

/// A directory of the file system that records to a [`Tape`].
pub struct TapedDisk {
    disk: RealDisk,
    tape: Arc<Tape>,
    /// Files that were created, by name, and whether they are part of the log yet.
    logs: Mutex<HashMap<String, Arc<AtomicBool>>>,
}

impl TapedDisk {
    pub fn new(directory: &Path) -> io::Result<(Self, Arc<Tape>)> {
        let tape = Arc::new(Tape::default());
        Ok((Self { disk: RealDisk::new(directory)?, tape: tape.clone(), logs: Mutex::default() }, tape))
    }

    fn taped(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let log = self.logs.lock().entry(name.to_owned()).or_default().clone();
        log.store(is_log(name), Relaxed);
        Arc::new(TapedFile { file, log, tape: self.tape.clone() })
    }
}

/// A segment that commits are written to; one that is only being prepared has another ending.
fn is_log(name: &str) -> bool {
    name.starts_with("log-") && !name.contains('.')
}

impl Disk for TapedDisk {
    fn place(&self) -> String {
        self.disk.place()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.taped(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.taped(name, self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)?;
        let mut logs = self.logs.lock();
        if let Some(log) = logs.remove(from) {
            log.store(is_log(to), Relaxed);
            logs.insert(to.to_owned(), log);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }

    fn boot(&self) -> u64 {
        self.disk.boot()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock()
    }
}

struct TapedFile {
    file: Arc<dyn DiskFile>,
    log: Arc<AtomicBool>,
    tape: Arc<Tape>,
}

impl TapedFile {
    fn record(&self, step: Step, since: Instant) {
        self.tape.done.fetch_add(1, Relaxed);
        if self.log.load(Relaxed) {
            self.tape.busy.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
            self.tape.steps.lock().push(step);
        }
    }
}

impl DiskFile for TapedFile {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        self.file.read_at(into, offset, wait)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let since = Instant::now();
        self.file.write_at(bytes, offset)?;
        self.record(Step::Write(bytes.len() as u32), since);
        Ok(())
    }

    fn begin_sync(&self, offset: u64, len: usize) {
        let since = Instant::now();
        self.file.begin_sync(offset, len);
        if self.log.load(Relaxed) {
            self.tape.busy.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn sync(&self) -> io::Result<()> {
        let since = Instant::now();
        self.file.sync()?;
        self.record(Step::Sync, since);
        Ok(())
    }
}
