//! What the handles of a disk share: its files, its points, its faults and the life it is in.

use super::inode::Inode;
use super::luck::{Luck, Rng};
use super::names::Names;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// For stalled threads: the fault, the power or the life may have changed.
    changed: Condvar,
}

pub(super) struct State {
    files: BTreeMap<u64, Inode>,
    next_file: u64,
    pub(super) names: Names,
    pub(super) rng: Rng,
    pub(super) ops: u64,
    pub(super) cut: Option<u64>,
    /// The cut was reached.
    pub(super) out: bool,
    /// Counts power losses and process deaths; handles belong to one life.
    pub(super) life: u64,
    /// Counts power losses, from 1.
    pub(super) boot: u64,
    pub(super) faults: Faults,
    pub(super) cold: bool,
    pub(super) stalled: usize,
    /// How many files were open at the same time, at most.
    pub(super) most_handles: usize,
    /// Who holds the lock.
    pub(super) guard: Option<u64>,
    pub(super) guards: u64,
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) fail_at: BTreeMap<u64, ErrorKind>,
    pub(super) full_after: Option<u64>,
    pub(super) full_at: Option<u64>,
    pub(super) fail_syncs: bool,
    pub(super) lie_syncs: bool,
    pub(super) stall_syncs: bool,
    pub(super) fail_writes: bool,
    pub(super) max_handles: Option<usize>,
    /// The number of reads that succeed before one fails.
    pub(super) fail_read: Option<u64>,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Self {
        let state = State {
            files: BTreeMap::new(),
            next_file: 0,
            names: Names::default(),
            rng: Rng::new(seed),
            ops: 0,
            cut: None,
            out: false,
            life: 0,
            boot: 1,
            faults: Faults::default(),
            cold: false,
            stalled: 0,
            most_handles: 0,
            guard: None,
            guards: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Changes what a stalled thread waits for.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// For a call in this life, or in any: an error if the power is out or the life is over.
    pub(super) fn alive(&self, life: Option<u64>) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        state.check(life)?;
        Ok(state)
    }

    /// Counts a call that changes something, and says whether it is to fail.
    pub(super) fn point(
        &self,
        life: Option<u64>,
    ) -> io::Result<(MutexGuard<'_, State>, u64, io::Result<()>)> {
        let mut state = self.alive(life)?;
        let op = state.ops;
        state.ops += 1;
        let verdict = if state.cut.is_some_and(|cut| cut <= op) {
            state.out = true;
            self.changed.notify_all();
            Err(power_is_out())
        } else if let Some(kind) = state.faults.fail_at.remove(&op) {
            Err(io::Error::new(kind, format!("the call at point {op} was made to fail")))
        } else {
            Ok(())
        };
        Ok((state, op, verdict))
    }

    /// Waits as long as syncs are stalled.
    pub(super) fn stall<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        life: u64,
    ) -> io::Result<MutexGuard<'a, State>> {
        state.stalled += 1;
        while state.faults.stall_syncs && state.check(Some(life)).is_ok() {
            self.changed.wait(&mut state);
        }
        state.stalled -= 1;
        state.check(Some(life))?;
        Ok(state)
    }
}

fn power_is_out() -> io::Error {
    io::Error::other("the power is out")
}

impl State {
    fn check(&self, life: Option<u64>) -> io::Result<()> {
        if self.out {
            return Err(power_is_out());
        }
        match life {
            Some(life) if life != self.life => {
                Err(io::Error::other("opened before the process or the power was gone"))
            }
            _ => Ok(()),
        }
    }

    /// A file that has a handle or a name.
    pub(super) fn inode(&mut self, id: u64) -> &mut Inode {
        self.files.get_mut(&id).expect("a file is kept as long as it has a handle or a name")
    }

    #[cfg(test)]
    pub(super) fn inodes(&self) -> &BTreeMap<u64, Inode> {
        &self.files
    }

    /// The file of this name, for a test that knows it is there.
    pub(super) fn named(&mut self, name: &str) -> &mut Inode {
        let Some(id) = self.names.get(name) else { panic!("there is no file {name:?}") };
        self.inode(id)
    }

    pub(super) fn add(&mut self, inode: Inode) -> u64 {
        self.next_file += 1;
        self.files.insert(self.next_file, inode);
        self.next_file
    }

    pub(super) fn put(&mut self, name: &str, bytes: Vec<u8>) {
        let id = self.add(Inode::of(bytes));
        self.names.put(id, name);
        self.collect();
    }

    /// In no order, so that nobody relies on one.
    pub(super) fn shuffled_names(&mut self) -> Vec<String> {
        let mut names: Vec<String> = self.names.current().map(str::to_owned).collect();
        for last in (1..names.len()).rev() {
            names.swap(last, self.rng.below(last as u64 + 1) as usize);
        }
        names
    }

    /// An error if this is the read that is to fail.
    pub(super) fn check_read(&mut self) -> io::Result<()> {
        match &mut self.faults.fail_read {
            None => Ok(()),
            Some(0) => {
                self.faults.fail_read = None;
                Err(rustix::io::Errno::IO.into())
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// How many files are open.
    pub(super) fn handles(&self) -> usize {
        self.files.values().map(|inode| inode.handles).sum()
    }

    /// An error if no other file may be opened.
    pub(super) fn check_handles(&self) -> io::Result<()> {
        match self.faults.max_handles {
            Some(most) if self.handles() >= most => Err(rustix::io::Errno::MFILE.into()),
            _ => Ok(()),
        }
    }

    /// Whether there is no room at all.
    pub(super) fn is_full(&self, op: u64) -> bool {
        self.faults.full_at.is_some_and(|full| full <= op)
    }

    /// How many bytes of room are missing to let a file reach to `end`.
    pub(super) fn lacking(&mut self, op: u64, id: u64, end: usize) -> usize {
        let need = end.saturating_sub(self.inode(id).bytes().len());
        let room = match self.faults.full_after {
            _ if need == 0 || self.is_full(op) => 0,
            Some(limit) => usize::try_from(limit.saturating_sub(self.used())).unwrap_or(usize::MAX),
            None => need,
        };
        need.saturating_sub(room)
    }

    fn used(&self) -> u64 {
        let named: BTreeSet<u64> = self.names.files().collect();
        let takes_room = |(id, inode): &(&u64, &Inode)| inode.handles > 0 || named.contains(id);
        self.files.iter().filter(takes_room).map(|(_, inode)| inode.bytes().len() as u64).sum()
    }

    /// A handle is gone.
    pub(super) fn close(&mut self, id: u64) {
        let inode = self.inode(id);
        inode.handles -= 1;
        if inode.handles == 0 && self.names.all_files().all(|file| file != id) {
            self.files.remove(&id);
        }
    }

    /// Forgets the files that nobody can reach any more.
    pub(super) fn collect(&mut self) {
        let reachable: BTreeSet<u64> = self.names.all_files().collect();
        self.files.retain(|id, inode| inode.handles > 0 || reachable.contains(id));
    }

    pub(super) fn next_life(&mut self) {
        self.life += 1;
        self.guard = None;
        self.files.values_mut().for_each(|inode| inode.handles = 0);
        self.collect();
    }

    pub(super) fn power_loss(&mut self, luck: u64) {
        let spans = || self.files.values().filter_map(Inode::span).chain(self.names.span());
        let first = spans().map(|(first, _)| first).min().unwrap_or(0);
        let last = spans().map(|(_, last)| last).max().unwrap_or(0);
        let mut luck = Luck::new(luck, (first, last));
        self.names.power_loss(&mut luck);
        self.files.values_mut().for_each(|inode| inode.power_loss(&mut luck));
        self.faults = Faults::default();
        self.cut = None;
        self.out = false;
        self.boot += 1;
        self.next_life();
    }
}
