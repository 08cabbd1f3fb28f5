//! A disk that something happens to.

use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::disk::{Disk, DiskFile, Wait};
use std::io;
use std::sync::Arc;

/// A disk on which something is done before each sync of a file.
pub struct Watched {
    disk: SimDisk,
    before: Arc<dyn Fn() + Send + Sync>,
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    before: Arc<dyn Fn() + Send + Sync>,
}

impl Watched {
    /// The disk in this life.
    pub fn new(disk: &SimDisk, before: impl Fn() + Send + Sync + 'static) -> Self {
        Self { disk: disk.for_this_life(), before: Arc::new(before) }
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile { file, before: self.before.clone() })
    }
}

impl Disk for Watched {
    fn place(&self) -> String {
        self.disk.place()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
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

impl DiskFile for WatchedFile {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        self.file.read_at(into, offset, wait)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn begin_sync(&self, offset: u64, len: usize) {
        self.file.begin_sync(offset, len);
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn sync(&self) -> io::Result<()> {
        (self.before)();
        self.file.sync()
    }
}
