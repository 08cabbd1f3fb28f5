//! Saves what groups have done: shortly after it happened, together with whatever else is committed then.

use crate::engine::Engine;
use crate::group::Group;
use crate::group::state::GroupState;
use crate::store::Record;
use hub_proto::{GroupName, Result};
use parking_lot::Mutex;
use std::collections::BTreeSet;
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
        for (label, group) in &subscriptions {
            let tenure = engine.tenure(group);
            if !tenure.is_lost() {
                records
                    .extend(engine.fans.with(label, group, |fan| Record::Subscription(fan.record.clone())));
                epochs.resize(records.len(), tenure.epoch());
            }
        }
        let groups_saved = Vec::with_capacity(groups.len());
        let mut save = Save { saver: self, number, groups: groups_saved, subscriptions, done: false };
        for group in groups {
            let (mut unsaved, state) = group.unsaved();
            records.append(&mut unsaved);
            // The one that it was made under: its name may have been lost and come back since.
            epochs.resize(records.len(), group.tenure.epoch());
            save.groups.push((group, state));
        }
        let result = write_in_parts(engine, records, epochs).await;
        save.done = result.is_ok();
        result
    }
}

/// Writes records, a part after the other: events that are published meanwhile do not wait for all of them.
async fn write_in_parts(engine: &Arc<Engine>, mut records: Vec<Record>, mut epochs: Vec<u64>) -> Result<()> {
    while !records.is_empty() {
        let count = records.len().min(RECORDS_PER_COMMIT);
        let part = records.drain(..count).collect();
        let epochs = epochs.drain(..count.min(epochs.len())).collect();
        engine.write_under(part, epochs).await?;
    }
    Ok(())
}

/// A save under way. However it ends, its groups hear of it.
struct Save<'a> {
    saver: &'a Saver,
    number: u64,
    groups: Vec<(Arc<Group>, GroupState)>,
    subscriptions: BTreeSet<(String, GroupName)>,
    done: bool,
}

impl Drop for Save<'_> {
    fn drop(&mut self) {
        for (group, state) in self.groups.drain(..) {
            group.saved(state, self.done);
        }
        if !self.done {
            self.saver.dirty.lock().subscriptions.append(&mut self.subscriptions);
            self.saver.wake.notify_one();
        }
        // Behind that: what was not saved is unsaved again.
        if self.done {
            self.saver.succeeded.store(self.number, SeqCst);
        }
        self.saver.ended.store(self.number, SeqCst);
    }
}
