//! Work that goes on behind a request: started by one, looked at and cancelled by others.
//!
//! Jobs live in the memory of the hub that began them. A drain ends them; each kind of job is safe to start again. Their number is
//! bounded, and those that have ended are forgotten after a while.

use crate::http::Outcome;
use hub_core::Millis;
use hub_proto::{Code, Error, EventId, IdGenerator, Result, TopicName};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Jobs that run at the same time, and those of one subject.
const MAX_RUNNING: usize = 16;
const MAX_PER_SUBJECT: usize = 4;
/// How long jobs that have ended are shown, and how many of them.
const KEPT: usize = 200;
const KEPT_FOR: Millis = 60 * 60 * 1000;
/// Failures that are told in words.
const SHOWN_FAILURES: usize = 10;

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything was done.
    Done,
    /// Somebody cancelled it.
    Cancelled,
    /// The hub stopped; what was not done can be begun again.
    CutOff,
    /// It could not go on.
    Failed(String),
}

/// How far a job is.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub outcome: Outcome,
    pub ended: Option<(Ended, Millis)>,
}

impl Progress {
    /// The word on the wire.
    pub fn state(&self) -> &'static str {
        match self.ended.as_ref().map(|(ended, _)| ended) {
            None => "running",
            Some(Ended::Done) => "done",
            Some(Ended::Cancelled) => "cancelled",
            Some(Ended::CutOff) => "cut_off",
            Some(Ended::Failed(_)) => "failed",
        }
    }
}

/// One job.
#[derive(Debug)]
pub(crate) struct Job {
    pub id: EventId,
    /// What it is about, and what the right to see it hangs on.
    pub topic: TopicName,
    /// Who began it.
    pub subject: String,
    /// What there was to do when it began; at least so much, unless `is_counted`.
    pub total: u64,
    pub is_counted: bool,
    pub started: Millis,
    progress: Mutex<Progress>,
    cancelled: CancellationToken,
}

impl Job {
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    pub fn advance(&self, by: &Outcome) {
        let outcome = &mut self.progress.lock().outcome;
        outcome.replayed += by.replayed;
        outcome.skipped += by.skipped;
        outcome.failed += by.failed;
        let room = SHOWN_FAILURES.saturating_sub(outcome.failures.len());
        outcome.failures.extend(by.failures.iter().take(room).cloned());
    }

    pub fn end(&self, how: Ended, now: Millis) -> Progress {
        let mut progress = self.progress.lock();
        progress.ended.get_or_insert((how, now));
        progress.clone()
    }

    /// Asks it to end.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    fn ended_at(&self) -> Option<Millis> {
        self.progress.lock().ended.as_ref().map(|(_, at)| *at)
    }
}

/// The jobs of a hub, oldest first.
pub(crate) struct Jobs {
    ids: IdGenerator,
    jobs: Mutex<VecDeque<Arc<Job>>>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { ids: IdGenerator::new(), jobs: Mutex::default() }
    }
}

impl Jobs {
    /// A new job.
    ///
    /// # Errors
    /// `rate_limited` while there are too many.
    pub fn begin(
        &self,
        topic: TopicName,
        subject: &str,
        total: u64,
        is_counted: bool,
        now: Millis,
    ) -> Result<Arc<Job>> {
        let mut jobs = self.jobs.lock();
        jobs.retain(|job| job.ended_at().is_none_or(|at| now.saturating_sub(at) < KEPT_FOR));
        while jobs.len() >= KEPT
            && let Some(oldest) = jobs.iter().position(|job| job.ended_at().is_some())
        {
            jobs.remove(oldest);
        }
        let is_running = |job: &&Arc<Job>| job.ended_at().is_none();
        let running = jobs.iter().filter(is_running).count();
        let own = jobs.iter().filter(is_running).filter(|job| job.subject == subject).count();
        if running >= MAX_RUNNING || own >= MAX_PER_SUBJECT {
            return Err(Error::new(
                Code::RateLimited,
                format!(
                    "{running} jobs are running, {own} of them of this subject; at most {MAX_RUNNING} run at once, and \
                     {MAX_PER_SUBJECT} of a subject: wait for one to end, or cancel one"
                ),
            )
            .with_retry_after(1000));
        }
        let job = Arc::new(Job {
            id: self.ids.next(now),
            topic,
            subject: subject.to_owned(),
            total,
            is_counted,
            started: now,
            progress: Mutex::new(Progress { outcome: Outcome::default(), ended: None }),
            cancelled: CancellationToken::new(),
        });
        jobs.push_back(job.clone());
        Ok(job)
    }

    pub fn all(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().iter().cloned().collect()
    }

    pub fn get(&self, id: EventId) -> Option<Arc<Job>> {
        self.jobs.lock().iter().find(|job| job.id == id).cloned()
    }
}
