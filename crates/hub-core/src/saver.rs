//! Saves what groups have done: shortly after it happened, together with whatever else is committed then.

use crate::engine::Engine;
use crate::group::Group;
use crate::group::state::GroupState;
use crate::store::Record;
use hub_proto::{GroupName, Result};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::{MutexGuard, Notify};

/// Records that are saved with one commit.
const RECORDS_PER_COMMIT: usize = 512;

/// Groups and subscriptions with something to save.
#[derive(Default)]
pub(crate) struct Saver {
    dirty: Mutex<Dirty>,
    wake: Notify,
    /// One save at a time, so that what is saved never goes back.
    saving: tokio::sync::Mutex<()>,
    /// Saves that were begun, that came to an end, and the last of them that succeeded.
    begun: AtomicU64,
    ended: AtomicU64,
    succeeded: AtomicU64,
}

#[derive(Default)]
struct Dirty {
    /// A group lists itself at most once.
    groups: Vec<Arc<Group>>,
    /// Labels and groups of subscriptions.
    subscriptions: BTreeSet<(String, GroupName)>,
}

impl Saver {
    pub fn mark(&self, group: Arc<Group>) {
        let mut dirty = self.dirty.lock();
        dirty.groups.push(group);
        if dirty.groups.len() == 1 {
            self.wake.notify_one();
        }
    }

    pub fn mark_subscription(&self, label: &str, group: &GroupName) {
        self.dirty.lock().subscriptions.insert((label.to_owned(), group.clone()));
        self.wake.notify_one();
    }

    /// Stands for all that groups have done by now. See [`is_saved`](Self::is_saved).
    pub fn save_mark(&self) -> u64 {
        self.begun.load(SeqCst)
    }

    /// Whether everything is saved that groups had done when this mark was made.
    pub fn is_saved(&self, mark: u64) -> bool {
        if self.succeeded.load(SeqCst) > mark {
            // It began after the mark, and took everything that was unsaved.
            return true;
        }
        let (ended, begun) = (self.ended.load(SeqCst), self.begun.load(SeqCst));
        let is_clean = self.dirty.lock().groups.is_empty();
        // Nothing is unsaved, and nothing was being saved while that was looked at.
        is_clean && ended == begun && self.begun.load(SeqCst) == begun
    }

    /// Holds saves up: who deletes a group does it under this, or a save on its way would bring the group back.
    pub async fn hold(&self) -> MutexGuard<'_, ()> {
        self.saving.lock().await
    }

    pub fn clear(&self) {
        *self.dirty.lock() = Dirty::default();
    }

    /// Saves whenever there is something, a little later than the first change. Idle, it costs nothing.
    pub async fn run(&self, engine: &Arc<Engine>) {
        let interval = Duration::from_millis(engine.config.save_interval);
        loop {
            self.wake.notified().await;
            tokio::time::sleep(interval).await;
            if let Err(error) = self.flush(engine).await {
                engine.metrics.save_failed();
                tracing::warn!(%error, "saving group state failed, trying again");
            }
        }
    }

    /// Saves everything that is unsaved now.
    ///
    /// Cancel safe: what is not known to be saved is saved again.
    pub async fn flush(&self, engine: &Arc<Engine>) -> Result<()> {
        let _turn = self.saving.lock().await;
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        let Dirty { groups, subscriptions } = std::mem::take(&mut *self.dirty.lock());
        let (mut records, mut epochs): (Vec<Record>, Vec<u64>) = Default::default();
        let parts = VecDeque::with_capacity(groups.len() + subscriptions.len());
        let mut save = Save { saver: self, number, parts, done: false };
        for (label, group) in subscriptions {
            let (tenure, before) = (engine.tenure(&group), records.len());
            if !tenure.is_lost() {
                let record = engine.fans.with(&label, &group, |fan| Record::Subscription(fan.record.clone()));
                records.extend(record);
                epochs.resize(records.len(), tenure.epoch());
            }
            save.parts.push_back((Saved::Subscription(label, group), records.len() - before));
        }
        for group in groups {
            let before = records.len();
            let (mut unsaved, state) = group.unsaved();
            records.append(&mut unsaved);
            // The one that it was made under: its name may have been lost and come back since.
            epochs.resize(records.len(), group.tenure.epoch());
            save.parts.push_back((Saved::Group(group, state), records.len() - before));
        }
        let results = write_in_parts(engine, records, epochs).await;
        save.finish(results)
    }
}

/// Writes records, a part after the other: events that are published meanwhile do not wait for all of them. A part that fails does
/// not keep the next one from being saved; if that fails too, the store is taken to be away.
async fn write_in_parts(
    engine: &Arc<Engine>,
    mut records: Vec<Record>,
    mut epochs: Vec<u64>,
) -> Vec<Result<()>> {
    let mut results: Vec<Result<()>> = Vec::with_capacity(records.len());
    let mut failures = 0;
    while !records.is_empty() {
        let count = records.len().min(RECORDS_PER_COMMIT);
        let part = records.drain(..count).collect();
        let epochs = epochs.drain(..count.min(epochs.len())).collect();
        let mut written = engine.write_each(part, epochs).await;
        failures = if written.iter().any(Result::is_ok) { 0 } else { failures + 1 };
        let error = written.last().and_then(|result| result.clone().err());
        results.append(&mut written);
        if let Some(error) = error.filter(|_| failures > 1) {
            results.resize(results.len() + records.len(), Err(error));
            break;
        }
    }
    results
}

/// What is saved.
enum Saved {
    Group(Arc<Group>, GroupState),
    /// A label and a group.
    Subscription(String, GroupName),
}

/// A save under way. However it ends, its groups hear of it.
struct Save<'a> {
    saver: &'a Saver,
    number: u64,
    /// Everything is saved.
    done: bool,
    /// What is not known to be saved, each with the number of its records.
    parts: VecDeque<(Saved, usize)>,
}

impl Save<'_> {
    /// Tells each what came of its records. Answers the first error.
    fn finish(mut self, results: Vec<Result<()>>) -> Result<()> {
        let (mut results, mut failed) = (results.into_iter(), Ok(()));
        while let Some((saved, records)) = self.parts.pop_front() {
            let result: Result<()> = results.by_ref().take(records).fold(Ok(()), Result::and);
            self.tell(saved, result.is_ok());
            failed = failed.and(result);
        }
        self.done = failed.is_ok();
        failed
    }

    fn tell(&self, saved: Saved, is_saved: bool) {
        match saved {
            Saved::Group(group, state) => group.saved(state, is_saved),
            Saved::Subscription(label, group) if !is_saved => self.saver.mark_subscription(&label, &group),
            Saved::Subscription(..) => {}
        }
    }
}

impl Drop for Save<'_> {
    fn drop(&mut self) {
        for (saved, _) in std::mem::take(&mut self.parts) {
            self.tell(saved, false);
        }
        // Behind that: what was not saved is unsaved again.
        if self.done {
            self.saver.succeeded.store(self.number, SeqCst);
        }
        self.saver.ended.store(self.number, SeqCst);
    }
}
