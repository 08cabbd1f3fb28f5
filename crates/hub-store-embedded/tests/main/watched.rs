//! A disk that something happens to.

use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::disk::{Disk, DiskFile, Wait};
use std::io;
use std::sync::Arc;

/// A call that is about to be made. Files have the name that they were created or opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    Create(&'a str),
    Read(&'a str),
    Sync,
}

type Before = Arc<dyn Fn(Call<'_>) + Send + Sync>;

/// A disk on which something is done before some calls.
pub struct Watched {
    disk: SimDisk,
    before: Before,
}

struct WatchedFile {
    name: String,
    file: Arc<dyn DiskFile>,
    before: Before,
}

impl Watched {
    /// The disk in this life; `before` is called before each sync of a file.
    pub fn new(disk: &SimDisk, before: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with(disk, move |call| {
            if call == Call::Sync {
                before();
            }
        })
    }

    /// The disk in this life; `before` is called before each [`Call`].
    pub fn with(disk: &SimDisk, before: impl Fn(Call<'_>) + Send + Sync + 'static) -> Self {
        Self { disk: disk.for_this_life(), before: Arc::new(before) }
    }

    fn file(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile { name: name.to_owned(), file, before: self.before.clone() })
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
        (self.before)(Call::Create(name));
        self.disk.create(name).map(|file| self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(name, file))
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
        (self.before)(Call::Read(&self.name));
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
        (self.before)(Call::Sync);
        self.file.sync()
    }
}
