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
