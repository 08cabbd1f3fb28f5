//! The only way to files: a directory of flat names, and what the store asks of it.
//!
//! Everything the store reads or writes goes through [`Disk`] and [`DiskFile`], so that a test can put a disk in their
//! place that loses power between any two calls, is full, or lies.

pub(crate) mod pool;
mod real;
pub(crate) mod salvage;
#[cfg(feature = "testkit")]
pub mod sim;

pub use real::RealDisk;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Answer [`io::ErrorKind::WouldBlock`] if the bytes are not in memory.
    No,
    /// Wait for them.
    Yes,
}

/// A directory.
///
/// Names are flat, but for one level of directories (`quarantine/…`), which come into being when a file is created in
/// or renamed into them. Changes of names are durable after [`Disk::sync_names`], and in no order before it; a rename
/// is atomic and replaces what was there.
pub trait Disk: Send + Sync + 'static {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// The names of all files, those one level down with their directory before them, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new, empty file; an error if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that is there, to read and write.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name. Handles stay valid.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away. Handles stay valid, and the bytes with them until the last one is gone.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes every change of names durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Where a file is in the file system; `None` for a disk that is not in one.
    fn path_of(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Gives a file of the file system a second name here: both names lead to the same bytes. An error if the name is taken, or if
    /// the disk cannot do it.
    fn link(&self, _file: &Path, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Bytes that can still be written, if that is known.
    fn free(&self) -> Option<u64> {
        None
    }

    /// The life of the machine: another number after a reboot. 0 if that is not known.
    fn boot(&self) -> u64 {
        0
    }

    /// Makes this process the only one that uses the directory, until the guard is dropped.
    /// [`io::ErrorKind::WouldBlock`] if another one does; its text says which, if that is known.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads until `into` is full or the file ends; answers how many bytes there were. Sectors that the disk cannot read,
    /// also when asked again, are zeros: [`DiskFile::unreadable`] tells of them.
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize>;

    /// Writes all of it; on an error, any part of it may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Has the disk begin with bytes that were written, for a sync that follows: it has less to wait for then. Promises
    /// nothing, and waits for no more than a place in the disk's queue.
    fn begin_sync(&self, offset: u64, len: usize);

    /// Cuts the file, or makes it longer with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Its length. (Not `len`: it can fail.)
    fn size(&self) -> io::Result<u64>;

    /// Waits until everything written and cut before is durable. After an error nothing is known of what was written
    /// since the last sync that succeeded, and a later sync that succeeds says nothing about it either.
    fn sync(&self) -> io::Result<()>;

    /// Sectors that could not be read since the file was opened.
    fn unreadable(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Keeps the file open, also if its name is taken away, until it is released or dropped. A file that is open for
    /// as long as it is there has nothing to do for that.
    fn hold(&self) -> io::Result<()> {
        Ok(())
    }

    /// The file may be closed and opened again by its name.
    fn release(&self) {}
}

/// Reads a whole file.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.size()?).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, 0, Wait::Yes)?;
    bytes.truncate(read);
    Ok(bytes)
}
