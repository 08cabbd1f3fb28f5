//! Requests that were sent and have no answer yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answer::Answer;
use super::queue::Queue;
use crate::Result;

/// Who waits.
pub(super) enum Waiter {
    /// Somebody who wants the answer.
    Asked(oneshot::Sender<Result<Answer>>),
    /// A subscription that begins with the answer.
    Subscribes(Arc<Queue>, oneshot::Sender<Result<Answer>>),
    /// Nobody: the task has asked, and only has to know the answer when it comes.
    Nobody,
}

/// Requests by their `corr`. All have the same time, so the first that was sent is the first that is late.
pub(super) struct Waiting {
    waiters: HashMap<u64, Waiter>,
    deadlines: VecDeque<(Instant, u64)>,
    patience: Duration,
}

impl Waiting {
    pub fn new(patience: Duration) -> Self {
        Self { waiters: HashMap::new(), deadlines: VecDeque::new(), patience }
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn add(&mut self, corr: u64, waiter: Waiter, now: Instant) {
        self.waiters.insert(corr, waiter);
        self.deadlines.push_back((now + self.patience, corr));
        // One that is slow must not keep all that came after it in the list.
        if self.deadlines.len() > 2 * self.waiters.len() + 64 {
            self.deadlines.retain(|(_, corr)| self.waiters.contains_key(corr));
        }
    }

    /// Who waits for this answer.
    pub fn remove(&mut self, corr: u64) -> Option<Waiter> {
        self.waiters.remove(&corr)
    }

    /// When the first of them is late.
    pub fn deadline(&mut self) -> Option<Instant> {
        while let Some((deadline, corr)) = self.deadlines.front() {
            if self.waiters.contains_key(corr) {
                return Some(*deadline);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// All of them; nobody is waited for any more.
    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> {
        self.deadlines.clear();
        std::mem::take(&mut self.waiters).into_values()
    }
}
