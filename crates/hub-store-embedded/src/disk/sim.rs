//! A disk in memory that loses power, fills up and fails.
//!
//! [`SimDisk`] keeps for every file what is durable, what reads see (the page cache) and the changes between the two,
//! and the same for names. Bytes and names are durable independently: a synced file whose name was not synced can
//! vanish, and a synced name can lead to a file of which only a part is there.
//!
//! - A power loss ([`SimDisk::power_loss`]) lets any part of what was not synced survive, in any order; a killed
//!   process ([`SimDisk::process_death`]) loses nothing, but its handles and its lock.
//! - Every call that changes something is a point, counted from 0; the power goes out ([`SimDisk::cut_at`]), or a call
//!   fails ([`SimDisk::fail_at`]), at any of them.
//! - The same seed, calls and luck give the same bytes.
//!
//! What survives is decided in `luck`, for bytes in `inode`, for names in `names`.

mod inode;
mod luck;
mod names;
mod state;
#[cfg(test)]
mod tests;

use super::salvage::{Salvage, is_unreadable};
use super::{Disk, DiskFile, Wait};
use inode::Inode;
use state::{Shared, State};
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What a disk writes in one piece or not at all.
pub const SECTOR: usize = 512;

/// A disk in memory; a clone is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
    /// The only life it works in, if it is for one.
    life: Option<u64>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("life", &self.life).finish_non_exhaustive()
    }
}

/// Lives and the power.
impl SimDisk {
    /// An empty disk. The seed decides what part of a failing write is done.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { shared: Arc::new(Shared::new(seed)), life: None }
    }

    /// The same disk for the process that lives now: its calls fail after the next power loss or process death, so
    /// that threads left over from an earlier life cannot touch the files of the next.
    #[must_use]
    pub fn for_this_life(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), life: Some(self.shared.state.lock().life) }
    }

    /// The machine loses power, and has it again: what was not synced is lost, or not, in parts. Handles are dead, the
    /// lock is released, faults and the cut are off ([`SimDisk::cold`] stays).
    ///
    /// `luck % 8` picks the kind: 0 nothing survives; 1 everything; 2 what came first; 3 what came last; 4 and 5 each
    /// sector and each name for itself; 6 and 7 any of these for each file and for the names.
    pub fn power_loss(&self, luck: u64) {
        self.shared.change(|state| state.power_loss(luck));
    }

    /// The process is killed: what was written stays as it is, durable or not; handles are dead, the lock is released.
    /// Faults and the cut stay.
    pub fn process_death(&self) {
        self.shared.change(State::next_life);
    }

    /// What went out at the cut was not the power, but the process: as [`SimDisk::process_death`], and the cut is off.
    pub fn death_at_cut(&self) {
        self.shared.change(|state| {
            (state.cut, state.out) = (None, false);
            state.next_life();
        });
    }

    /// How many points there were: calls of `create`, `rename`, `remove`, `sync_names`, `write_at`, `set_len` and
    /// `sync` that found the power on and their handle alive. The next one has this number.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.shared.state.lock().ops
    }

    /// The power is out from this point on: the call does not happen (a write may in part, in whole sectors), and it
    /// and all that follow fail, until [`SimDisk::power_loss`]. A point that is past means the next one.
    pub fn cut_at(&self, op: u64) {
        self.shared.state.lock().cut = Some(op);
    }

    /// Whether the cut was reached.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.shared.state.lock().out
    }
}

/// Faults.
impl SimDisk {
    /// The call at this point fails, once. A write may be done in part; a sync fails as in [`SimDisk::fail_syncs`].
    pub fn fail_at(&self, op: u64, kind: ErrorKind) {
        self.shared.state.lock().faults.fail_at.insert(op, kind);
    }

    /// The disk holds so many bytes: the lengths of all files, removed ones too as long as they are open. What needs
    /// more fails with [`ErrorKind::StorageFull`]; a write may be done in part.
    pub fn full_after(&self, bytes: Option<u64>) {
        self.shared.state.lock().faults.full_after = bytes;
    }

    /// From this point on there is no room: a new file, a write beyond the end of a file (it may be done up to there)
    /// and a longer `set_len` fail with [`ErrorKind::StorageFull`].
    pub fn full_at(&self, op: u64) {
        self.shared.state.lock().faults.full_at = Some(op);
    }

    /// Every sync fails. As in Linux, what was to be synced counts as clean from then on: reads see it, later syncs do
    /// not write it, a power loss loses it. Names that fail to be synced stay pending.
    pub fn fail_syncs(&self, on: bool) {
        self.shared.state.lock().faults.fail_syncs = on;
    }

    /// Every sync, of names too, answers `Ok` and does nothing; what it left is synced by the first honest one.
    pub fn lie_syncs(&self, on: bool) {
        self.shared.state.lock().faults.lie_syncs = on;
    }

    /// Every sync, of names too, blocks its thread until this is turned off, or the process or the power is gone. It
    /// then makes durable what was written before it was called, and nothing that was written meanwhile.
    pub fn stall_syncs(&self, on: bool) {
        self.shared.change(|state| state.faults.stall_syncs = on);
    }

    /// How many threads are blocked by [`SimDisk::stall_syncs`].
    #[must_use]
    pub fn stalled(&self) -> usize {
        self.shared.state.lock().stalled
    }

    /// Every `write_at` fails, and may be done in part.
    pub fn fail_writes(&self, on: bool) {
        self.shared.state.lock().faults.fail_writes = on;
    }

    /// At most so many files are open at a time: to open another one fails as in a process that has no file descriptor
    /// left. Handles that are open stay open.
    pub fn limit_handles(&self, most: Option<usize>) {
        self.shared.state.lock().faults.max_handles = most;
    }

    /// How many files are open.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.shared.state.lock().handles()
    }

    /// How many files were open at the same time, at most, since the disk was made.
    #[must_use]
    pub fn most_handles(&self) -> usize {
        self.shared.state.lock().most_handles
    }

    /// One read fails, after so many that do not; asked again, the disk reads it.
    pub fn fail_read_after(&self, reads: u64) {
        self.shared.state.lock().faults.fail_read = Some(reads);
    }

    /// Turns all faults off. A cut that was set stays, and so does [`SimDisk::cold`].
    pub fn heal(&self) {
        self.shared.change(|state| state.faults = state::Faults::default());
    }

    /// Nothing is in memory: every read that may not wait answers [`ErrorKind::WouldBlock`].
    pub fn cold(&self, on: bool) {
        self.shared.state.lock().cold = on;
    }
}

/// What a test does behind the store's back. None of it is a point, and all of it works with the power out.
impl SimDisk {
    /// The names of all files, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.shared.state.lock().names.current().map(str::to_owned).collect()
    }

    /// What a read of the whole file would see.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.shared.state.lock().named(name).bytes().to_vec()
    }

    /// Flips a bit (0 to 7) of a file, durable and in memory.
    ///
    /// # Panics
    /// If there is no such file, or byte, or bit.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) {
        assert!(bit < 8, "a byte has no bit {bit}");
        self.shared.state.lock().named(name).flip(index(offset).expect("an offset in memory"), 1 << bit);
    }

    /// The sectors of these bytes cannot be read any more, until they are written.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn spoil(&self, name: &str, bytes: Range<u64>) {
        let end = bytes.end.div_ceil(SECTOR as u64);
        let sectors = (bytes.start / SECTOR as u64..end).map(|sector| sector as usize);
        self.shared.state.lock().named(name).unreadable.extend(sectors);
    }

    /// Cuts a file that is longer, durable and in memory.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn truncate(&self, name: &str, len: u64) {
        self.shared.state.lock().named(name).truncate(index(len).expect("a length in memory"));
    }

    /// A file with these bytes, in the place of what had the name; all of it durable.
    pub fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.shared.state.lock().put(name, bytes.into());
    }
}

impl SimDisk {
    fn file(&self, state: &mut State, id: u64) -> Arc<dyn DiskFile> {
        state.inode(id).handles += 1;
        state.most_handles = state.most_handles.max(state.handles());
        let salvage = Salvage::new(format!("file {id}"), Duration::ZERO);
        Arc::new(SimFile { shared: Arc::clone(&self.shared), id, life: state.life, salvage })
    }
}

impl Disk for SimDisk {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.alive(self.life)?.shuffled_names())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let (mut state, op, verdict) = self.shared.point(self.life)?;
        verdict?;
        check_name(name)?;
        state.check_handles()?;
        if state.names.get(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if state.is_full(op) {
            return Err(ErrorKind::StorageFull.into());
        }
        let id = state.add(Inode::default());
        state.names.link(op, id, name);
        Ok(self.file(&mut state, id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.shared.alive(self.life)?;
        let id = state.names.get(name).ok_or(ErrorKind::NotFound)?;
        state.check_handles()?;
        Ok(self.file(&mut state, id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, op, verdict) = self.shared.point(self.life)?;
        verdict?;
        check_name(to)?;
        let id = state.names.get(from).ok_or(ErrorKind::NotFound)?;
        if from != to {
            state.names.link(op, id, to);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, op, verdict) = self.shared.point(self.life)?;
        verdict?;
        let id = state.names.get(name).ok_or(ErrorKind::NotFound)?;
        state.names.unlink(op, id);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let (state, _, verdict) = self.shared.point(self.life)?;
        verdict?;
        let (life, mark) = (state.life, state.names.mark());
        let mut state = self.shared.stall(state, life)?;
        if state.faults.fail_syncs {
            return Err(io::Error::other("the disk fails its syncs"));
        }
        if !state.faults.lie_syncs {
            state.names.sync(mark);
            state.collect();
        }
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.shared.state.lock().boot
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.shared.alive(self.life)?;
        if state.guard.is_some() {
            return Err(ErrorKind::WouldBlock.into());
        }
        state.guards += 1;
        state.guard = Some(state.guards);
        Ok(Box::new(Guard { shared: Arc::clone(&self.shared), number: state.guards }))
    }
}

/// Holds the lock of the disk, if it is still the one that does.
struct Guard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.state.lock().guard.take_if(|number| *number == self.number);
    }
}

struct SimFile {
    shared: Arc<Shared>,
    id: u64,
    life: u64,
    salvage: Salvage,
}

impl SimFile {
    fn read_once(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.shared.alive(Some(self.life))?;
        state.check_read()?;
        let inode = state.inode(self.id);
        let bytes = inode.bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let read = into.len().min(bytes.len() - start);
        let sectors = start / SECTOR..(start + read).div_ceil(SECTOR);
        if read > 0 && inode.unreadable.range(sectors).next().is_some() {
            return Err(rustix::io::Errno::IO.into());
        }
        into[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, into: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
        if wait == Wait::Yes {
            return self.salvage.read(into, offset, || self.size(), |into, at| self.read_once(into, at));
        }
        if self.shared.alive(Some(self.life))?.cold {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.read_once(into, offset).map_err(|error| match is_unreadable(&error) {
            true => ErrorKind::WouldBlock.into(),
            false => error,
        })
    }

    fn unreadable(&self) -> Vec<Range<u64>> {
        self.salvage.unreadable()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, op, verdict) = self.shared.point(Some(self.life))?;
        let offset = index(offset)?;
        let end = index(offset as u64 + bytes.len() as u64)?;
        let lacking = if bytes.is_empty() { 0 } else { state.lacking(op, self.id, end) };
        let fits = bytes.len().saturating_sub(lacking);
        let verdict = verdict.and_then(|()| {
            if state.faults.fail_writes {
                Err(io::Error::other("the disk fails its writes"))
            } else if lacking > 0 {
                Err(ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        });
        let done = match verdict {
            Ok(()) => bytes.len(),
            Err(_) if state.out => whole_sectors(offset, state.rng.part(fits), bytes.len()),
            Err(_) => state.rng.part(fits),
        };
        state.inode(self.id).write(op, offset, &bytes[..done]);
        verdict
    }

    /// What is not synced may be kept or lost, whenever the disk began with it.
    fn begin_sync(&self, _: u64, _: usize) {}

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut state, op, verdict) = self.shared.point(Some(self.life))?;
        verdict?;
        let len = index(len)?;
        if state.lacking(op, self.id, len) > 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        state.inode(self.id).set_len(op, len);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.shared.alive(Some(self.life))?.inode(self.id).bytes().len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, _, verdict) = self.shared.point(Some(self.life))?;
        let mark = state.inode(self.id).mark();
        if let Err(error) = verdict {
            // Without power nothing was decided yet: that is for the power loss to do.
            if !state.out {
                state.inode(self.id).lose(mark);
            }
            return Err(error);
        }
        let mut state = self.shared.stall(state, self.life)?;
        if state.faults.fail_syncs {
            state.inode(self.id).lose(mark);
            return Err(io::Error::other("the disk fails its syncs"));
        }
        if !state.faults.lie_syncs {
            state.inode(self.id).sync(mark);
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.life == self.life {
            state.close(self.id);
        }
    }
}

/// An offset, or [`ErrorKind::FileTooLarge`] where a file in memory should not reach.
fn index(offset: u64) -> io::Result<usize> {
    const LONGEST: u64 = 1 << 32;
    usize::try_from(offset).ok().filter(|_| offset <= LONGEST).ok_or_else(|| ErrorKind::FileTooLarge.into())
}

/// So much of a write of `len` bytes, of which `done` were chosen, that no sector is written in part.
fn whole_sectors(offset: usize, done: usize, len: usize) -> usize {
    if done == len { len } else { ((offset + done) / SECTOR * SECTOR).saturating_sub(offset) }
}

/// A name is flat, or one level down.
fn check_name(name: &str) -> io::Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() <= 2 && parts.iter().all(|part| !matches!(*part, "" | "." | "..")) {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{name:?} is not a name, nor one in a directory")))
}
