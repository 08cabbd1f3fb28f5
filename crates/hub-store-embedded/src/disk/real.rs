//! The file system.

use super::salvage::{Salvage, is_unreadable};
use super::{Disk, DiskFile, Wait};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::ops::Range;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A directory of the file system. Files are made readable for their owner alone.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// Nothing is written: files are opened to be read.
    read_only: bool,
}

const LOCK: &str = "lock";
/// Between two tries to read a sector.
const RETRY: Duration = Duration::from_millis(50);

impl RealDisk {
    /// The directory, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        let made: Vec<&Path> = root.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(&root)?;
        // What is in it is as durable as its own name, which is in the directory above.
        for path in made {
            match path.parent() {
                Some(parent) if parent.as_os_str().is_empty() => sync_directory(Path::new("."))?,
                Some(parent) => sync_directory(parent)?,
                None => {}
            }
        }
        Ok(Self { root, read_only: false })
    }

    /// A directory that must be there already: for looking at one.
    ///
    /// # Errors
    /// If it is not there.
    pub fn existing(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if fs::metadata(&root)?.is_dir() {
            Ok(Self { root, read_only: false })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// As [`RealDisk::existing`], and nothing in it can be changed: whatever would is refused. Its
    /// [`lock`](Disk::lock) is shared with others that only look, and leaves no file behind.
    ///
    /// # Errors
    /// If it is not there.
    pub fn read_only(root: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self { read_only: true, ..Self::existing(root)? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn may_write(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.read_only).mode(0o600);
        options
    }

    /// Makes the directory of a name one level down.
    fn make_parent(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path(name);
        match path.parent() {
            Some(parent) if name.contains('/') => fs::create_dir_all(parent).map(|()| path),
            _ => Ok(path),
        }
    }

    fn directories(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.root)?.collect::<io::Result<Vec<_>>>()?;
        Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Disk for RealDisk {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut add = |path: &Path, prefix: &str| -> io::Result<()> {
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                if entry.file_type()?.is_file() && entry.file_name() != LOCK {
                    names.push(format!("{prefix}{}", entry.file_name().to_string_lossy()));
                }
            }
            Ok(())
        };
        add(&self.root, "")?;
        for directory in self.directories()? {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            add(&directory, &format!("{name}/"))?;
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.may_write()?;
        let file = self.options().create_new(true).open(self.make_parent(name)?)?;
        Ok(Arc::new(RealFile::new(file, name)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::new(self.options().open(self.path(name))?, name)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_write()?;
        fs::rename(self.path(from), self.make_parent(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.may_write()?;
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.directories()?.iter().try_for_each(|path| sync_directory(path))?;
        sync_directory(&self.root)
    }

    fn path_of(&self, name: &str) -> Option<PathBuf> {
        Some(self.path(name))
    }

    fn link(&self, file: &Path, name: &str) -> io::Result<()> {
        self.may_write()?;
        fs::hard_link(file, self.make_parent(name)?)
    }

    fn free(&self) -> Option<u64> {
        let about = rustix::fs::statvfs(&self.root).ok()?;
        // A file system without a size, as some network ones are, says nothing about its room.
        (about.f_blocks > 0).then_some(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn boot(&self) -> u64 {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        u64::from_str_radix(id.get(..8).unwrap_or_default(), 16).unwrap_or(0)
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let (opened, how) = if self.read_only {
            (self.options().open(self.path(LOCK)), FlockOperation::NonBlockingLockShared)
        } else {
            let opened = self.options().create(true).truncate(false).open(self.path(LOCK));
            (opened, FlockOperation::NonBlockingLockExclusive)
        };
        let file = match opened {
            // Nobody has ever locked it.
            Err(error) if self.read_only && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Box::new(()));
            }
            opened => opened?,
        };
        match flock(&file, how) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut who = [0; 20];
                let read = file.read_at(&mut who, 0).unwrap_or(0);
                let who = String::from_utf8_lossy(&who[..read]);
                let who = format!("process {}", who.lines().next().unwrap_or("unknown"));
                return Err(io::Error::new(io::ErrorKind::WouldBlock, who));
            }
            Err(error) => return Err(error.into()),
        }
        if !self.read_only {
            // For whoever comes and wonders who has it; the lock itself does not depend on it.
            let _ = file
                .set_len(0)
                .and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
        }
        Ok(Box::new(Guard(file)))
    }
}

/// Gives the lock back at once: a file alone would hold it as long as a program that is just being started by another
/// thread has a copy of its handle.
struct Guard(File);

impl Drop for Guard {
    fn drop(&mut self) {
        // Closing gives it back, too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

struct RealFile {
    file: File,
    /// Whether the file system can say that a read would wait.
    nowait: AtomicBool,
    salvage: Salvage,
}

impl RealFile {
    fn new(file: File, name: &str) -> Self {
        Self { file, nowait: AtomicBool::new(true), salvage: Salvage::new(name, RETRY) }
    }

    fn read_all(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.read_some(&mut into[done..], offset + done as u64, wait) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn read_some(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        if wait == Wait::Yes {
            return self.file.read_at(into, offset);
        }
        if !self.nowait.load(Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                self.nowait.store(false, Relaxed);
                Err(io::ErrorKind::WouldBlock.into())
            }
            answer => Ok(answer?),
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        match wait {
            Wait::Yes => self.salvage.read(
                into,
                offset,
                || self.size(),
                |into, offset| self.read_all(into, offset, Wait::Yes),
            ),
            // To ask again may take a while.
            Wait::No => self.read_all(into, offset, Wait::No).map_err(|error| match is_unreadable(&error) {
                true => io::ErrorKind::WouldBlock.into(),
                false => error,
            }),
        }
    }

    fn unreadable(&self) -> Vec<Range<u64>> {
        self.salvage.unreadable()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    fn begin_sync(&self, offset: u64, len: usize) {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        // SAFETY: the call takes numbers only, and the file is open as long as `self` is.
        //
        // What it answers is no matter: the sync that follows tells whether the bytes are safe.
        let _ =
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    #[cfg(not(target_os = "linux"))]
    fn begin_sync(&self, _offset: u64, _len: usize) {}

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
