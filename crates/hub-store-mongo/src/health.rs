//! How the store is doing, in words.

use hub_core::store::{Health, StoreError};
use parking_lot::Mutex;
use std::time::Instant;

/// The most findings that are kept; the rest is counted.
const FINDINGS: usize = 20;

#[derive(Default)]
struct Board {
    /// The last write failed.
    writes: Option<String>,
    /// The last call of any kind did.
    calls: Option<String>,
    findings: Vec<String>,
    more: usize,
    damaged: u64,
    failed_commits: u64,
    /// When a majority last took a write.
    last_write: Option<Instant>,
}

/// Where everything that is wrong is written down.
#[derive(Default)]
pub struct HealthBoard(Mutex<Board>);

impl HealthBoard {
    /// A commit failed that began then. If others succeeded meanwhile, the database takes commits, but not those of this topic: one
    /// shard may be away.
    pub fn commit_failed(&self, why: &StoreError, began: Instant) {
        let mut board = self.0.lock();
        board.failed_commits += 1;
        found(&mut board, why);
        if let StoreError::Unavailable(why) = why {
            if board.last_write.is_some_and(|at| at > began) {
                tracing::warn!(why, "a commit failed while others succeed");
                return;
            }
            if board.writes.is_none() {
                tracing::error!(why, "the database takes no commits");
            }
            board.writes = Some(why.clone());
        }
    }

    /// Something else did.
    pub fn failed(&self, why: &StoreError) {
        let mut board = self.0.lock();
        found(&mut board, why);
        if let StoreError::Unavailable(why) = why {
            if board.writes.is_none() && board.calls.is_none() {
                tracing::error!(why, "the database does not answer as it should");
            }
            board.calls = Some(why.clone());
        }
    }

    /// The database answers. That it can be read does not mean that it can be written.
    pub fn answers(&self) {
        let mut board = self.0.lock();
        if board.calls.take().is_some() && board.writes.is_none() {
            tracing::info!("the database answers again");
        }
    }

    /// A majority takes writes.
    pub fn takes_writes(&self) {
        let mut board = self.0.lock();
        board.last_write = Some(Instant::now());
        let (writes, calls) = (board.writes.take(), board.calls.take());
        if writes.or(calls).is_some() {
            tracing::info!("the database takes commits again");
        }
    }

    /// Whether a commit failed, and no write has succeeded since.
    pub fn is_failing(&self) -> bool {
        self.0.lock().writes.is_some()
    }

    pub fn read(&self) -> Health {
        let board = self.0.lock();
        let more = (board.more > 0).then(|| format!("and {} more", board.more));
        Health {
            unavailable: board.writes.clone().or_else(|| board.calls.clone()),
            warnings: board.findings.iter().cloned().chain(more).collect(),
            damaged: board.damaged,
            failed_commits: board.failed_commits,
        }
    }
}

/// Notes damage. What was said already is not said again.
fn found(board: &mut Board, why: &StoreError) {
    let StoreError::Damaged(what) = why else { return };
    if board.findings.contains(what) {
        return;
    }
    tracing::error!(what, "damage");
    board.damaged += 1;
    match board.findings.len() < FINDINGS {
        true => board.findings.push(what.clone()),
        false => board.more += 1,
    }
}
