//! What a group cannot do under its lock: read the store, wait, write dead letters.

use super::dispatch::Burial;
use super::{FETCH, Group, Inner};
use crate::Millis;
use crate::store::{ReadLimit, StoreError};
use crate::topic::TailRead;
use crate::{coalesce, dead_letter, derived};
use futures_core::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One read of a group that lags.
const BLOCK: ReadLimit = ReadLimit { events: 1024, bytes: 1 << 20 };
/// Dead letters written in one go.
const BURY: usize = 100;
/// How long a failing store is left alone.
const RETRY: Millis = 200;

/// How often a group that may not deliver yet looks whether it may.
const GATED: Millis = 20;

/// What to do next.
struct Plan {
    /// Something for the store, unless it is still at the last.
    work: Option<Work>,
    /// When to look again, if nothing happens before.
    until: Option<Millis>,
}

/// What needs the store.
enum Work {
    Bury(Vec<Burial>),
    Fetch { from: u64, generation: u64 },
    Read { after: u64, generation: u64 },
}

/// Runs until the group has no members and nothing to bury, or the hub stops.
pub(super) async fn run(group: Arc<Group>) {
    let stopped = group.engine.stopping.clone();
    tokio::select! {
        biased;
        () = stopped.cancelled() => {}
        () = drive(&group) => {}
    }
}

/// Leases run out and redeliveries fall due however long the store takes, so its work is waited for beside the timer.
async fn drive(group: &Arc<Group>) {
    let mut working: Option<BoxFuture<'_, ()>> = None;
    while let Some(Plan { work, until }) = group.plan(working.is_some()) {
        if let Some(work) = work {
            working = Some(Box::pin(group.work(work)));
        }
        let wait = until.map(|until| until.saturating_sub(group.engine.clock.steady()));
        tokio::select! {
            biased;
            () = finished(&mut working) => working = None,
            () = group.wake.notified() => {}
            () = sleep(wait) => {}
        }
    }
}

async fn finished(working: &mut Option<BoxFuture<'_, ()>>) {
    match working {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn sleep(millis: Option<Millis>) {
    match millis {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}

impl Group {
    /// Delivers what can be delivered and says what to do next; `None` when the task has nothing left to do.
    fn plan(self: &Arc<Self>, working: bool) -> Option<Plan> {
        self.locked(|inner| self.plan_locked(inner, working))
    }

    fn plan_locked(self: &Arc<Self>, inner: &mut Inner, working: bool) -> Option<Plan> {
        let now = self.engine.clock.steady();
        self.deliver(inner, super::pump::Pump::All, now);
        if inner.deleted || (inner.members.is_empty() && !inner.disp.has_burials()) {
            inner.has_task = false;
            return None;
        }
        let generation = inner.generation;
        let retry_at = inner.retry_at.filter(|&at| at > now);
        let work = if working || retry_at.is_some() {
            None
        } else if inner.disp.has_burials() {
            Some(Work::Bury(inner.disp.burials().take(BURY).collect()))
        } else if let Some(&from) = inner.missing.first() {
            Some(Work::Fetch { from, generation })
        } else if inner.behind {
            Some(Work::Read { after: inner.disp.pos(), generation })
        } else {
            None
        };
        if work.is_none() && !working && retry_at.is_none() {
            // What failed is no longer wanted: it was cleaned away, or the cursor was set.
            inner.retry_at = None;
        }
        if work.is_some() {
            inner.working_since = Some(now);
        } else if !working {
            inner.working_since = None;
        }
        inner.armed = match inner.gated {
            // What is due cannot go out: nothing to hurry for.
            true => Some(now + GATED),
            false => inner.disp.next_deadline().into_iter().chain(retry_at).min(),
        };
        Some(Plan { work, until: inner.armed })
    }

    async fn work(self: &Arc<Self>, work: Work) {
        match work {
            Work::Bury(burials) => self.bury(burials).await,
            Work::Fetch { from, generation } => self.fetch(from, generation).await,
            Work::Read { after, generation } => self.read_block(after, generation).await,
        }
    }

    /// Notes how the store answered.
    fn heard(&self, what: &str, failed: Option<&StoreError>) {
        let mut inner = self.inner.lock();
        match failed {
            None => inner.retry_at = None,
            Some(error) => {
                if inner.retry_at.is_none() {
                    tracing::warn!(topic = %self.topic.name, group = %self.name, %error, "{what} failed, trying again");
                }
                inner.retry_at = Some(self.engine.clock.steady() + RETRY);
            }
        }
    }

    /// Reads the next block for a group that lags, or one that coalesces.
    async fn read_block(&self, after: u64, generation: u64) {
        let started = Instant::now();
        let known_last = self.topic.last();
        let coalesce = self.inner.lock().disp.rules().coalesce;
        let mut block = VecDeque::new();
        if self.topic.read(after, BLOCK, &mut block, || None) == TailRead::Behind {
            match self.engine.store.read(&self.topic.name, after, BLOCK).await {
                Ok(events) => block = events.into(),
                Err(error) => return self.heard("a read", Some(&error)),
            }
        }
        // Nothing above `after`: it is all holes, up to the end as it was before the read.
        let upto = block.back().map_or(known_last, |event| event.seq());
        if coalesce
            && let Err(error) =
                coalesce::drop_overtaken(&*self.engine.store, &self.topic.name, &mut block).await
        {
            return self.heard("a look at the newest of each key", Some(&error));
        }
        self.heard("a read", None);
        self.metrics.polled(started.elapsed());
        let mut inner = self.inner.lock();
        if inner.generation == generation {
            inner.behind = false;
            inner.ahead = block;
            inner.ahead_upto = upto;
        }
    }

    /// Fetches redeliveries; those that were cleaned away, or overtaken in a coalescing group, are settled.
    async fn fetch(self: &Arc<Self>, from: u64, generation: u64) {
        let limit = ReadLimit { events: FETCH, ..BLOCK };
        let read = self.engine.store.read(&self.topic.name, from - 1, limit).await;
        let events = match read {
            Ok(events) => events,
            Err(error) => return self.heard("a read", Some(&error)),
        };
        let upto = events.last().map_or(u64::MAX, |event| event.seq());
        let mut events = VecDeque::from(events);
        let coalesce = self.inner.lock().disp.rules().coalesce;
        if coalesce
            && let Err(error) =
                coalesce::drop_overtaken(&*self.engine.store, &self.topic.name, &mut events).await
        {
            return self.heard("a look at the newest of each key", Some(&error));
        }
        self.heard("a read", None);
        let mut inner = self.inner.lock();
        if inner.generation != generation {
            return;
        }
        // The read speaks of what lies between its start and its last event; what is wanted meanwhile may lie outside.
        let found: Vec<u64> = inner.missing.range(from..=upto).copied().collect();
        let mut events = events.into_iter().peekable();
        for seq in found {
            inner.missing.remove(&seq);
            while events.next_if(|event| event.seq() < seq).is_some() {}
            match events.next_if(|event| event.seq() == seq) {
                Some(event) => drop(inner.fetched.insert(seq, event)),
                None => {
                    inner.disp.gone(seq);
                    self.mark(&mut inner);
                }
            }
        }
    }

    /// Writes dead letters, then settles their events.
    async fn bury(self: &Arc<Self>, burials: Vec<Burial>) {
        let mut letters = Vec::new();
        let mut written = Vec::new();
        let born = self.inner.lock().record.born;
        for burial in burials {
            let limit = ReadLimit { events: 1, bytes: 1 };
            let original = match self.topic.get(burial.seq) {
                Some(event) => Some(event),
                None => match self.engine.store.read(&self.topic.name, burial.seq - 1, limit).await {
                    Ok(events) => events.into_iter().next().filter(|event| event.seq() == burial.seq),
                    Err(error) => return self.heard("reading a failed event", Some(&error)),
                },
            };
            match original {
                Some(event) => letters.push((burial, event)),
                // Cleaned away meanwhile: there is nothing to bury.
                None => written.push(burial),
            }
        }
        let now = self.engine.clock.wall();
        let records: Vec<derived::Record> = letters
            .iter()
            .map(|(burial, event)| dead_letter::Letter { group: &self.name, born, burial, event }.record(now))
            .collect();
        let results = derived::write(&self.engine, &records).await;
        let (mut failed, mut deadlettered) = (None, 0);
        let mut given_up = Vec::new();
        for ((burial, event), result) in letters.into_iter().zip(results) {
            match result {
                Ok(how) => {
                    if how == derived::Written::Now {
                        self.metrics.deadlettered.inc();
                        deadlettered += 1;
                        given_up.push((event, burial.err.clone()));
                    }
                    written.push(burial);
                }
                Err(error) => failed = Some(unavailable(&error)),
            }
        }
        self.heard("writing a dead letter", failed.as_ref());
        let mut inner = self.inner.lock();
        if deadlettered > 0 {
            self.count(&mut inner, |activity| activity.deadlettered += deadlettered);
        }
        if let Some(spans) = &inner.spans {
            given_up.iter().for_each(|(event, reason)| spans.dead_lettered(event, reason));
        }
        for burial in written {
            inner.disp.buried(burial.epoch, burial.seq);
        }
        self.mark(&mut inner);
    }
}

fn unavailable(error: &hub_proto::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
