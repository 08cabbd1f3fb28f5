//! How the store is doing, in words.

use hub_core::store::Health;
use parking_lot::Mutex;

/// The most findings that are kept; the rest is counted.
const FINDINGS: usize = 20;

#[derive(Default)]
struct Board {
    failing: Option<String>,
    /// It fails because the disk is full.
    is_full: bool,
    upkeep: Option<String>,
    findings: Vec<String>,
    more: usize,
    damaged: u64,
    failed_commits: u64,
}

/// Where everything that is wrong is written down.
#[derive(Default)]
pub struct HealthBoard(Mutex<Board>);

impl HealthBoard {
    /// Commits fail; on a full disk those with events do.
    pub fn failing(&self, why: &str, is_full: bool) {
        let mut board = self.0.lock();
        board.failed_commits += 1;
        if board.failing.is_none() {
            tracing::error!(why, "the store takes no commits");
        }
        (board.failing, board.is_full) = (Some(why.to_string()), is_full);
    }

    /// Commits succeed. Those without events say nothing about a disk that is too full for events.
    pub fn working(&self, with_events: bool) {
        let mut board = self.0.lock();
        if board.is_full && !with_events {
            return;
        }
        if board.failing.take().is_some() {
            tracing::info!("the store takes commits again");
        }
    }

    /// Whether commits fail because the disk is full.
    pub fn is_full(&self) -> bool {
        let board = self.0.lock();
        board.failing.is_some() && board.is_full
    }

    /// Sealing, preparing or cleaning fails, or does not any more.
    pub fn upkeep(&self, why: Option<String>) {
        let mut board = self.0.lock();
        if board.upkeep != why {
            match &why {
                Some(why) => tracing::warn!(why, "the store's upkeep fails, trying again"),
                None => tracing::info!("the store's upkeep works again"),
            }
            board.upkeep = why;
        }
    }

    /// Something was found that is not what was written; how many records that concerns, or 1. What was said already
    /// is not said again.
    pub fn found(&self, what: String, records: u64) {
        let mut board = self.0.lock();
        if board.findings.contains(&what) {
            return;
        }
        tracing::error!(what, "damage");
        board.damaged += records;
        if board.findings.len() < FINDINGS { board.findings.push(what) } else { board.more += 1 }
    }

    /// For the port.
    pub fn read(&self) -> Health {
        let board = self.0.lock();
        let more =
            (board.more > 0).then(|| format!("and {} more; `event-hub doctor` lists them", board.more));
        Health {
            unavailable: board.failing.clone(),
            warnings: board.upkeep.iter().chain(&board.findings).cloned().chain(more).collect(),
            damaged: board.damaged,
            failed_commits: board.failed_commits,
        }
    }
}
