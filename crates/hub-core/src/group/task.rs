//! What a group cannot do under its lock: read the store, wait, write dead letters.

use super::dispatch::Burial;
use super::{FETCH, Group};
use crate::Millis;
use crate::dead_letter;
use crate::store::{ReadLimit, StoreError};
use crate::topic::TailRead;
use hub_proto::{Code, Event, Key};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One read of a group that lags.
const BLOCK: ReadLimit = ReadLimit { events: 1024, bytes: 1 << 20 };
/// Dead letters written in one go.
const BURY: usize = 100;
/// How long a failing store is left alone.
const RETRY: Millis = 200;

/// What to do next.
enum Step {
    Done,
    Bury(Vec<Burial>),
    Fetch { from: u64, generation: u64 },
    Read { after: u64, generation: u64 },
    Wait(Option<Millis>),
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

async fn drive(group: &Arc<Group>) {
    loop {
        match group.step() {
            Step::Done => return,
            Step::Bury(burials) => group.bury(burials).await,
            Step::Fetch { from, generation } => group.fetch(from, generation).await,
            Step::Read { after, generation } => group.read_block(after, generation).await,
            Step::Wait(until) => {
                let wait = until.map(|until| until.saturating_sub(group.engine.clock.steady()));
                tokio::select! {
                    biased;
                    () = group.wake.notified() => {}
                    () = sleep(wait) => {}
                }
            }
        }
    }
}

async fn sleep(millis: Option<Millis>) {
    match millis {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}

impl Group {
    fn step(self: &Arc<Self>) -> Step {
        let mut inner = self.inner.lock();
        let now = self.engine.clock.steady();
        inner.armed = None;
        self.deliver(&mut inner, super::Pump::All, now);
        if inner.deleted || (inner.members.is_empty() && !inner.disp.has_burials()) {
            inner.has_task = false;
            return Step::Done;
        }
        let generation = inner.generation;
        let retry_at = inner.retry_at.filter(|&at| at > now);
        if retry_at.is_none() {
            if inner.disp.has_burials() {
                return Step::Bury(inner.disp.burials().take(BURY).collect());
            }
            if let Some(&from) = inner.missing.first() {
                return Step::Fetch { from, generation };
            }
            if inner.behind {
                return Step::Read { after: inner.disp.pos(), generation };
            }
        }
        inner.armed = inner.disp.next_deadline().into_iter().chain(retry_at).min();
        Step::Wait(inner.armed)
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
        if self.topic.read(after, BLOCK.events, &mut block, || None) == TailRead::Behind {
            match self.engine.store.read(&self.topic.name, after, BLOCK).await {
                Ok(events) => block = events.into(),
                Err(error) => return self.heard("a read", Some(&error)),
            }
        }
        // Nothing above `after`: it is all holes, up to the end as it was before the read.
        let upto = block.back().map_or(known_last, |event| event.seq());
        if coalesce && let Err(error) = self.drop_overtaken(&mut block).await {
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

    /// Leaves out what a newer event of the same key has overtaken.
    async fn drop_overtaken(&self, block: &mut VecDeque<Arc<Event>>) -> Result<(), StoreError> {
        let keyed = |event: &&Arc<Event>| event.audience().is_none();
        let mut keys: Vec<Key> =
            block.iter().filter(keyed).filter_map(|event| event.key().cloned()).collect();
        keys.sort_unstable();
        keys.dedup();
        let newest = self.engine.store.newest(&self.topic.name, &keys).await?;
        block.retain(|event| {
            let Some(key) = event.key().filter(|_| event.audience().is_none()) else { return true };
            let at = keys.binary_search(key).ok();
            let newest = at.and_then(|at| newest[at].as_ref());
            newest.is_none_or(|newest| newest.seq() <= event.seq())
        });
        Ok(())
    }

    /// Fetches redeliveries that have left the tail; those that were cleaned away are settled.
    async fn fetch(self: &Arc<Self>, from: u64, generation: u64) {
        let limit = ReadLimit { events: FETCH, ..BLOCK };
        let read = self.engine.store.read(&self.topic.name, from - 1, limit).await;
        let events = match read {
            Ok(events) => events,
            Err(error) => return self.heard("a read", Some(&error)),
        };
        self.heard("a read", None);
        let mut inner = self.inner.lock();
        if inner.generation != generation {
            return;
        }
        let upto = events.last().map_or(u64::MAX, |event| event.seq());
        let rest = if upto == u64::MAX { Default::default() } else { inner.missing.split_off(&(upto + 1)) };
        let mut found = std::mem::replace(&mut inner.missing, rest);
        for event in events {
            if found.remove(&event.seq()) {
                inner.fetched.insert(event.seq(), event);
            }
        }
        for seq in found {
            inner.disp.gone(seq);
            self.mark(&mut inner);
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
        let drafts = letters.iter().map(|(burial, event)| {
            let letter = dead_letter::Letter { group: &self.name, born, burial, event };
            letter.draft(now)
        });
        let drafts = match self.engine.topics_of(drafts.collect()) {
            Ok(drafts) => drafts,
            Err(error) => return self.heard("opening the dead-letter topic", Some(&unavailable(&error))),
        };
        let receipts = self.engine.committer.publish_all(drafts, self.engine.clock.steady()).await;
        let mut failed = None;
        for ((burial, _), receipt) in letters.into_iter().zip(receipts) {
            match receipt {
                Ok(receipt) => {
                    if !receipt.duplicate {
                        self.metrics.deadlettered.inc();
                    }
                    written.push(burial);
                }
                // Written by an earlier life, at another time of day.
                Err(error) if error.code == Code::IdConflict => written.push(burial),
                Err(error) => failed = Some(unavailable(&error)),
            }
        }
        self.heard("writing a dead letter", failed.as_ref());
        let mut inner = self.inner.lock();
        for burial in written {
            inner.disp.buried(burial.epoch, burial.seq);
        }
        self.mark(&mut inner);
    }
}

fn unavailable(error: &hub_proto::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
