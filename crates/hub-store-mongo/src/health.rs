//! How the store is doing, in words.

use hub_core::store::{Health, StoreError};
use parking_lot::Mutex;

/// The most findings that are kept; the rest is counted.
const FINDINGS: usize = 20;

#[derive(Default)]
struct Board {
    failing: Option<String>,
    findings: Vec<String>,
    more: usize,
    damaged: u64,
    failed_commits: u64,
}

/// Where everything that is wrong is written down.
#[derive(Default)]
pub struct HealthBoard(Mutex<Board>);

impl HealthBoard {
    /// A commit failed.
    pub fn commit_failed(&self, why: &StoreError) {
        let mut board = self.0.lock();
        board.failed_commits += 1;
        failing(&mut board, why);
    }

    /// Something else did.
    pub fn failed(&self, why: &StoreError) {
        failing(&mut self.0.lock(), why);
    }

    /// The database answers.
    pub fn working(&self) {
        let mut board = self.0.lock();
        if board.failing.take().is_some() {
            tracing::info!("the database answers again");
        }
    }

    pub fn read(&self) -> Health {
        let board = self.0.lock();
        let more = (board.more > 0).then(|| format!("and {} more", board.more));
        Health {
            unavailable: board.failing.clone(),
            warnings: board.findings.iter().cloned().chain(more).collect(),
            damaged: board.damaged,
            failed_commits: board.failed_commits,
        }
    }
}

fn failing(board: &mut Board, why: &StoreError) {
    match why {
        StoreError::Unavailable(why) => {
            if board.failing.is_none() {
                tracing::error!(why, "the database does not do what it is asked to");
            }
            board.failing = Some(why.clone());
        }
        StoreError::Damaged(what) => {
            // What was said already is not said again.
            if !board.findings.contains(what) {
                tracing::error!(what, "damage");
                board.damaged += 1;
                match board.findings.len() < FINDINGS {
                    true => board.findings.push(what.clone()),
                    false => board.more += 1,
                }
            }
        }
        StoreError::Fenced(_) => {}
    }
}
