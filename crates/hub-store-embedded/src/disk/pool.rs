//! Files that are open only while they are used: a directory may hold more segments than a process may open files.

use super::{Disk, DiskFile, Wait};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Opens the files of a disk when they are used, and closes those that were not used for longest.
///
/// At most `limit` files are open, and those that are held ([`DiskFile::hold`]) or being read at that moment.
pub struct FilePool {
    disk: Arc<dyn Disk>,
    limit: usize,
    /// Files that are open, in the order in which they are looked at when one has to be closed.
    open: Mutex<VecDeque<Weak<PooledFile>>>,
}

impl FilePool {
    /// A pool with nothing open. A limit of 0 counts as 1.
    pub fn new(disk: Arc<dyn Disk>, limit: usize) -> Arc<Self> {
        Arc::new(Self { disk, limit: limit.max(1), open: Mutex::default() })
    }

    /// A file that is there. It is opened now, so that one that is not there is an error now.
    pub fn file(self: &Arc<Self>, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let handle = self.with_descriptor(|| self.disk.open(name))?;
        Ok(self.pooled(name, handle, false))
    }

    /// A file that is open already, with the name by which it is found later. It is held until it is released.
    pub fn adopt(self: &Arc<Self>, name: &str, handle: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        self.pooled(name, handle, true)
    }

    fn pooled(self: &Arc<Self>, name: &str, handle: Arc<dyn DiskFile>, held: bool) -> Arc<dyn DiskFile> {
        let file = Arc::new_cyclic(|this| PooledFile {
            name: name.to_owned(),
            pool: self.clone(),
            handle: RwLock::new(Some(handle)),
            held: AtomicBool::new(held),
            used: AtomicBool::new(true),
            this: this.clone(),
        });
        if !held {
            self.enter(&file.this);
        }
        file
    }

    /// Does what needs a file descriptor. If the process has none left, those of the pool are given up for it.
    fn with_descriptor<T>(&self, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match act() {
            Err(error) if is_out_of_files(&error) => {
                self.shrink(0);
                act()
            }
            done => done,
        }
    }

    /// Takes note of a file that was opened, and closes another one if there are too many.
    fn enter(&self, file: &Weak<PooledFile>) {
        self.shrink(self.limit - 1);
        self.open.lock().push_back(file.clone());
    }

    /// Closes files until so many are open. One that was used since it was last looked at is passed over once.
    fn shrink(&self, most: usize) {
        let mut open = self.open.lock();
        for _ in 0..2 * open.len() {
            if open.len() <= most {
                return;
            }
            let Some(file) = open.pop_front() else { return };
            let Some(alive) = file.upgrade() else { continue };
            if most > 0 && alive.used.swap(false, Relaxed) {
                open.push_back(file);
                continue;
            }
            // Not waited for: the thread that has the lock may be about to ask the pool for another file.
            let Some(mut handle) = alive.handle.try_write() else {
                open.push_back(file);
                continue;
            };
            if !alive.held.load(Relaxed) {
                // A thread that reads the file at this moment has a reference of its own.
                *handle = None;
            }
        }
    }
}

/// The same disk, where the files of the pool make room for others.
impl Disk for FilePool {
    fn place(&self) -> String {
        self.disk.place()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.with_descriptor(|| self.disk.list())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.with_descriptor(|| self.disk.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.with_descriptor(|| self.disk.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.with_descriptor(|| self.disk.sync_names())
    }

    fn path_of(&self, name: &str) -> Option<PathBuf> {
        self.disk.path_of(name)
    }

    fn link(&self, file: &Path, name: &str) -> io::Result<()> {
        self.disk.link(file, name)
    }

    fn free(&self) -> Option<u64> {
        self.disk.free()
    }

    fn boot(&self) -> u64 {
        self.disk.boot()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.with_descriptor(|| self.disk.lock())
    }
}

/// Whether the process, or the system, has as many files open as it may.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// A file of a pool.
struct PooledFile {
    name: String,
    pool: Arc<FilePool>,
    handle: RwLock<Option<Arc<dyn DiskFile>>>,
    /// It stays open.
    held: AtomicBool,
    /// It was used since the pool last looked for one to close.
    used: AtomicBool,
    this: Weak<Self>,
}

impl PooledFile {
    fn handle(&self) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(handle) = &*self.handle.read() {
            self.used.store(true, Relaxed);
            return Ok(handle.clone());
        }
        let handle = {
            let mut slot = self.handle.write();
            if let Some(handle) = &*slot {
                return Ok(handle.clone());
            }
            let handle = self.pool.with_descriptor(|| self.pool.disk.open(&self.name))?;
            *slot = Some(handle.clone());
            handle
        };
        // Not under the lock: the pool takes that of any other file.
        self.used.store(true, Relaxed);
        self.pool.enter(&self.this);
        Ok(handle)
    }
}

impl DiskFile for PooledFile {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        let handle = match wait {
            Wait::Yes => self.handle()?,
            // To open a file may take a while.
            Wait::No => {
                let handle = self.handle.try_read().and_then(|handle| handle.clone());
                self.used.store(true, Relaxed);
                handle.ok_or(io::ErrorKind::WouldBlock)?
            }
        };
        handle.read_at(into, offset, wait)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.handle()?.write_at(bytes, offset)
    }

    fn begin_sync(&self, offset: u64, len: usize) {
        if let Ok(handle) = self.handle() {
            handle.begin_sync(offset, len);
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.handle()?.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.handle()?.size()
    }

    fn sync(&self) -> io::Result<()> {
        self.handle()?.sync()
    }

    fn unreadable(&self) -> Vec<Range<u64>> {
        self.handle.read().as_ref().map_or_else(Vec::new, |handle| handle.unreadable())
    }

    fn hold(&self) -> io::Result<()> {
        self.held.store(true, Relaxed);
        // The pool may have closed it before it could know.
        self.handle().map(drop)
    }

    fn release(&self) {
        if self.held.swap(false, Relaxed) {
            self.pool.enter(&self.this);
        }
    }
}

#[cfg(all(test, feature = "testkit"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::disk::sim::SimDisk;

    /// A pool over files `0`, `1`, …, each of which holds its number.
    fn pool(disk: &SimDisk, limit: usize, files: u8) -> (Arc<FilePool>, Vec<Arc<dyn DiskFile>>) {
        (0..files).for_each(|number| disk.put(&number.to_string(), vec![number]));
        let pool = FilePool::new(Arc::new(disk.clone()), limit);
        let files = (0..files).map(|number| pool.file(&number.to_string()).unwrap()).collect();
        (pool, files)
    }

    fn read(file: &Arc<dyn DiskFile>, wait: Wait) -> io::Result<u8> {
        let mut byte = [0];
        file.read_at(&mut byte, 0, wait).map(|_| byte[0])
    }

    #[test]
    fn files_that_were_not_used_for_longest_are_closed() {
        let disk = SimDisk::new(1);
        let (_pool, files) = pool(&disk, 3, 9);
        assert_eq!(disk.handles(), 3);
        for _ in 0..2 {
            for (number, file) in files.iter().enumerate() {
                assert_eq!(read(file, Wait::Yes).unwrap(), number as u8);
                assert_eq!(read(&files[4], Wait::Yes).unwrap(), 4);
                assert_eq!(disk.handles(), 3);
                if number > 0 {
                    assert_eq!(read(&files[4], Wait::No).unwrap(), 4, "it is used all the time");
                }
            }
        }
        let closed = read(&files[0], Wait::No).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::WouldBlock, "to open it may take a while");
    }

    #[test]
    fn a_file_that_is_held_is_read_after_its_name_is_gone() {
        let disk = SimDisk::new(1);
        let (pool, files) = pool(&disk, 1, 3);
        files[0].hold().unwrap();
        disk.remove("0").unwrap();
        disk.remove("1").unwrap();
        assert_eq!(read(&files[2], Wait::Yes).unwrap(), 2);
        assert_eq!(read(&files[0], Wait::Yes).unwrap(), 0);
        assert_eq!(read(&files[1], Wait::Yes).unwrap_err().kind(), io::ErrorKind::NotFound);
        let made = disk.create("new").unwrap();
        let made = pool.adopt("9", made);
        disk.rename("new", "9").unwrap();
        made.write_at(&[9], 0).unwrap();
        assert_eq!(read(&files[2], Wait::Yes).unwrap(), 2);
        assert_eq!(disk.handles(), 3, "two are held");
        made.release();
        assert_eq!((read(&files[2], Wait::Yes).unwrap(), read(&made, Wait::Yes).unwrap()), (2, 9));
        assert_eq!(disk.handles(), 2);
    }

    #[test]
    fn a_pool_gives_its_files_up_for_one_that_has_to_be_opened() {
        let disk = SimDisk::new(1);
        let (pool, files) = pool(&disk, 4, 6);
        disk.limit_handles(Some(4));
        let other = Disk::open(&*pool, "0").unwrap();
        assert!(disk.handles() <= 4);
        let made = Disk::create(&*pool, "new").unwrap();
        assert!(files.iter().zip(0..).all(|(file, number)| read(file, Wait::Yes).unwrap() == number));
        drop((other, made));
        disk.limit_handles(Some(0));
        assert!(is_out_of_files(&Disk::open(&*pool, "0").err().unwrap()));
    }
}
