//! Replaying at a rate: a job that outlives its request.

use super::super::auth::Caller;
use super::super::error::{Answer, in_time};
use super::replay::{Cut, Outcome};
use crate::Hub;
use crate::acl::{Action, Target};
use crate::jobs::{Ended, Job};
use crate::limits::Work;
use axum::Json;
use axum::response::IntoResponse;
use hub_core::{Bus, DeadLetter, LetterFilter, LetterRange, Replay};
use hub_proto::{Code, Result, TopicName, limits};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Letters that are counted before a job begins: pages of what one call looks at.
const COUNTED_PAGES: usize = 8;
/// Batches of a job per second.
const BATCHES: u32 = 10;
/// How long a job waits while its subject has used up its rate, and while the store is away.
const WAIT: Duration = Duration::from_millis(200);
/// Times that a job asks a store that is away before it gives up.
const PATIENCE: u32 = 150;

/// Letters that a request or a job would replay.
#[derive(Default)]
pub(super) struct Counted {
    pub matched: u64,
    /// Those of them that were replayed in this round before.
    pub skipped: u64,
    pub bytes: usize,
    /// Not counted behind this seq.
    pub next: Option<u64>,
}

impl Counted {
    /// What a dry run answers of the letters that it counted.
    pub fn answer(&self, topic: &TopicName, range: LetterRange) -> Value {
        let mut answer = json!({
            "topic": topic, "dryRun": true, "matched": self.matched, "complete": self.next.is_none(), "upto": range.upto,
        });
        if let Some(after) = self.next {
            answer["next"] = json!(Cut::write(after, range.upto));
        }
        answer
    }
}

/// Counts letters, within bounds.
pub(super) async fn count(
    bus: &Bus,
    topic: &TopicName,
    filter: &LetterFilter,
    mut range: LetterRange,
    round: u32,
) -> Result<Counted> {
    let mut counted = Counted::default();
    for _ in 0..COUNTED_PAGES {
        let page = bus.dead_letters(topic, filter, range, limits::BATCH_EVENTS).await?;
        counted.matched += page.letters.len() as u64;
        counted.skipped += page.letters.iter().filter(|letter| letter.replays() >= round).count() as u64;
        counted.bytes += page.bytes;
        counted.next = page.next;
        match page.next {
            Some(after) => range.after = after,
            None => break,
        }
        tokio::task::yield_now().await;
    }
    Ok(counted)
}

/// Starts a job, and answers its id.
pub(super) async fn start(
    hub: &Hub,
    mut caller: Caller,
    topic: TopicName,
    filter: LetterFilter,
    range: LetterRange,
    how: Replay,
    rate: u32,
) -> Answer {
    let counted = in_time(count(hub.bus(), &topic, &filter, range, how.round)).await?;
    caller.owe(Work::bytes(counted.bytes));
    let (total, is_complete) = (counted.matched, counted.next.is_none());
    let job = hub.jobs().begin(topic.clone(), caller.subject(), total, is_complete, hub.bus().now())?;
    let answer =
        json!({"job": job.id, "topic": topic, "total": total, "complete": is_complete, "rate": rate});
    tracing::info!(%topic, job = %job.id, total, rate, "replay job started");
    let letters = Vec::new();
    let work = ReplayJob { caller, topic, filter, range, how, rate, letters, next: None, is_over: false };
    let (hub, running) = (hub.clone(), job);
    hub.sessions().clone().spawn(async move {
        let ended = tokio::select! {
            biased;
            () = hub.draining().cancelled() => Ended::CutOff,
            () = running.cancelled() => Ended::Cancelled,
            ended = work.run(&hub, &running) => ended,
        };
        let progress = running.end(ended, hub.bus().now());
        tracing::info!(job = %running.id, state = progress.state(), replayed = progress.outcome.replayed, "replay job ended");
    });
    Ok(Json(answer).into_response())
}

/// A replay under way.
struct ReplayJob {
    caller: Caller,
    topic: TopicName,
    filter: LetterFilter,
    range: LetterRange,
    how: Replay,
    rate: u32,
    /// Letters that were read and are not replayed yet.
    letters: Vec<DeadLetter>,
    /// There may be more letters behind this seq.
    next: Option<u64>,
    is_over: bool,
}

impl ReplayJob {
    async fn run(mut self, hub: &Hub, job: &Job) -> Ended {
        let batch = (self.rate / BATCHES).clamp(1, limits::BATCH_EVENTS as u32) as usize;
        let (mut due, mut tries) = (Instant::now(), 0);
        loop {
            tokio::time::sleep_until(due).await;
            // What a job publishes counts for the subject that started it.
            loop {
                if let Err(failure) = self.caller.still_may(hub, Action::Admin, Target::Topic(&self.topic)) {
                    return Ended::Failed(failure.to_string());
                }
                if self.caller.take_one().is_ok() {
                    break;
                }
                tokio::time::sleep(WAIT).await;
            }
            match self.step(hub, batch).await {
                Ok(outcome) => {
                    tries = 0;
                    let replayed = u32::try_from(outcome.replayed).unwrap_or(u32::MAX);
                    job.advance(&outcome);
                    if self.is_over {
                        return Ended::Done;
                    }
                    // A job that was held up does not catch up: the rate is a limit.
                    due = due.max(Instant::now()) + Duration::from_secs(1) * replayed / self.rate;
                }
                Err(error) => {
                    tries += 1;
                    if tries > PATIENCE {
                        return Ended::Failed(error.to_string());
                    }
                    due = Instant::now() + WAIT;
                }
            }
        }
    }

    /// Replays the next letters. Those that the store does not take stay the next ones.
    ///
    /// # Errors
    /// `unavailable` if it takes none.
    async fn step(&mut self, hub: &Hub, batch: usize) -> Result<Outcome> {
        if self.letters.is_empty() {
            let page = hub.bus().dead_letters(&self.topic, &self.filter, self.range, batch).await?;
            self.caller.owe(Work::bytes(page.bytes));
            self.letters = page.letters;
            self.next = page.next;
        }
        // Letters that were asked for by their ids come all at once, and the rate holds for them, too.
        let count = batch.min(self.letters.len());
        let results = hub.bus().replay_dead_letters(&self.letters[..count], &self.how).await?;
        let later = self.letters.split_off(count);
        let letters = std::mem::take(&mut self.letters);
        let (mut outcome, mut why) = (Outcome::default(), None);
        for (letter, result) in letters.into_iter().zip(results) {
            match result {
                Err(error) if error.code == Code::Unavailable => {
                    self.letters.push(letter);
                    why = Some(error);
                }
                result => outcome.add(&[letter], vec![result]),
            }
        }
        self.caller.owe(Work::publishes(outcome.replayed as usize));
        let refused = self.letters.len();
        self.letters.extend(later);
        match (why, self.next) {
            (Some(error), _) if refused == count => return Err(error),
            _ if !self.letters.is_empty() => {}
            (_, Some(after)) => self.range.after = after,
            (_, None) => self.is_over = true,
        }
        Ok(outcome)
    }
}
