//! What can be set about the store.

use std::time::Duration;

/// The largest [`Options::commit_bytes`].
pub const LARGEST_COMMIT: usize = 1 << 30;

/// Settings of an [`EmbeddedStore`](crate::EmbeddedStore).
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a segment; its file is filled with zeros before it is used. At most 1 GiB.
    pub segment_bytes: u64,
    /// Records after which a segment is full, however small they are: its index is in memory.
    pub segment_events: usize,
    /// Bytes of a commit, at most 1 GiB: places in a segment are 32 bits wide. Events and records beyond it are answered
    /// `unavailable`, and can be committed in a later one.
    pub commit_bytes: usize,
    /// How long a relaxed topic's events may wait for a sync.
    pub sync_interval: Duration,
    /// Bytes of relaxed events that may wait for a sync; further ones wait with it.
    pub unsynced_bytes: usize,
    /// Seqs a relaxed topic reserves at a time: after a power loss its numbering goes on above them.
    pub reserve: u64,
    /// Bytes that are kept on the disk for the store's own records, so that a full disk can be freed. 0 for none.
    pub disk_reserve: u64,
    /// Files of sealed segments that are open at a time; others are opened when they are read.
    pub open_files: usize,
    /// Whether the store works on threads of its own.
    pub threads: Threads,
}

/// Where the store works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Syncs and upkeep each have a thread, and so have commits that nobody waits for by
    /// [`commit_here`](hub_core::store::CommitHere::commit_here).
    Own,
    /// Everything happens within the calls, one after the other: for simulations.
    None,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 128 << 20,
            segment_events: 400_000,
            commit_bytes: LARGEST_COMMIT,
            sync_interval: Duration::from_millis(2),
            unsynced_bytes: 1 << 20,
            reserve: 10_000,
            disk_reserve: 16 << 20,
            open_files: 256,
            threads: Threads::Own,
        }
    }
}
