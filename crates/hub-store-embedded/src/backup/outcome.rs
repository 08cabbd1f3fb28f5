//! What a backup did. `event-hub backup --json` prints it; `docs/cli.md` lists the fields.

use crate::doctor::report::Finding;
use serde::Serialize;

/// Files, and the bytes of them that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// What was read of the copy, and found well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Segments.
    pub segments: u64,
    /// Events, those that are cleaned away and still there included.
    pub events: u64,
    /// Topics.
    pub topics: u64,
    /// Groups.
    pub groups: u64,
    /// The number of the last commit.
    pub last_commit: u64,
    /// Sidecars that were wrong and are not in the copy; the hub makes them again when it starts on it.
    pub sidecars_left_out: Vec<String>,
    /// Damage that is in the copy, because it was allowed.
    pub damage: Vec<Finding>,
}

/// The outcome of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Where the copy is.
    pub directory: String,
    /// When it was begun, in milliseconds since 1970.
    pub taken: u64,
    /// Files that are hard links to those of the hub.
    pub linked: Amount,
    /// Files of the backup before that are the same.
    pub reused: Amount,
    /// Files that were copied.
    pub copied: Amount,
    /// What was verified.
    pub verified: Verified,
}
