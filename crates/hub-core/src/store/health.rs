//! How a store is doing.

/// How a store is doing, for readiness probes and people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it takes no commits at present, in words; `None` while it does.
    pub unavailable: Option<String>,
    /// What is wrong without keeping it from working: damage that was found, a disk that is nearly full. In words,
    /// bounded in number by the store.
    pub warnings: Vec<String>,
    /// Records that were found damaged since the store was opened (they are not served).
    pub damaged: u64,
    /// Commits that failed since the store was opened.
    pub failed_commits: u64,
}

/// What a store with files of its own takes of its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes of the store's segments.
    pub bytes: u64,
    /// Bytes of events that topics keep. The rest of `bytes` is indexes, group progress, and what upkeep has not reclaimed yet.
    pub live_bytes: u64,
    /// Bytes that the file system has left for this process; `None` if the file system does not tell.
    pub free_bytes: Option<u64>,
    /// Files of the log.
    pub segments: u64,
}
