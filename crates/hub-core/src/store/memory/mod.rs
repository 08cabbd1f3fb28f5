//! The memory store: complete, fast, and gone with the process.
//!
//! It keeps every promise of [`EventStore`] but durability, which it reports as [`Durability::Memory`]. Tests run on it,
//! and programs that want the bus without the disk.

mod log;
mod shared;

use self::log::Log;
use self::shared::Common;
use super::{
    Appended, Bounds, CleanPolicy, Cleaned, Commit, Committed, Deleted, Durability, EventStore, Image,
    ReadLimit, Record, SharedStore, StoreResult, StoredGroup, SubscriptionRecord, delete_by_cleaning,
};
use crate::Millis;
use crate::group::state::GroupState;
use foldhash::fast::RandomState;
use futures_core::future::BoxFuture;
use hashbrown::HashMap;
use hub_proto::{Draft, Event, EventId, GroupName, Key, TopicName};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

/// A store in this process's memory. Cloning gives another handle to the same data, so that a bus can be opened on it
/// again.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    topics: RwLock<HashMap<TopicName, Arc<Mutex<Log>>, RandomState>>,
    groups: Mutex<BTreeMap<(TopicName, GroupName), StoredGroup>>,
    subscriptions: Mutex<BTreeMap<(String, GroupName), SubscriptionRecord>>,
    common: Common,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn log(&self, topic: &TopicName) -> Option<Arc<Mutex<Log>>> {
        self.shared.topics.read().get(topic).cloned()
    }

    fn log_or_new(&self, topic: &TopicName) -> Arc<Mutex<Log>> {
        match self.log(topic) {
            Some(log) => log,
            None => self.shared.topics.write().entry(topic.clone()).or_default().clone(),
        }
    }

    fn append(&self, events: Vec<Draft>, now: Millis) -> Vec<StoreResult<Appended>> {
        let mut last: Option<(TopicName, Arc<Mutex<Log>>)> = None;
        let mut append = |draft: Draft| {
            // Runs of one topic are the rule: look the log up once per run.
            let log = match &last {
                Some((topic, log)) if topic == draft.topic() => log,
                _ => {
                    let log = self.log_or_new(draft.topic());
                    &last.insert((draft.topic().clone(), log)).1
                }
            };
            log.lock().append(draft, now)
        };
        events.into_iter().map(|draft| Ok(append(draft))).collect()
    }

    fn write(&self, record: Record) {
        match record {
            Record::Group(record) => {
                let mut groups = self.shared.groups.lock();
                let at = (record.topic.clone(), record.name.clone());
                match groups.get_mut(&at) {
                    Some(stored) => stored.record = record,
                    None => drop(groups.insert(at, StoredGroup { record, state: GroupState::default() })),
                }
            }
            Record::Progress(topic, group, progress) => {
                if let Some(stored) = self.shared.groups.lock().get_mut(&(topic, group)) {
                    stored.state.apply(&progress);
                }
            }
            Record::GroupGone(topic, group) => drop(self.shared.groups.lock().remove(&(topic, group))),
            Record::Subscription(record) => {
                let at = (record.label.clone(), record.group.clone());
                self.shared.subscriptions.lock().insert(at, record);
            }
            Record::SubscriptionGone(label, group) => {
                self.shared.subscriptions.lock().remove(&(label, group));
            }
        }
    }

    fn with_log<T: Default>(&self, topic: &TopicName, read: impl FnOnce(&mut Log) -> T) -> T {
        self.log(topic).map(|log| read(&mut log.lock())).unwrap_or_default()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("topics", &self.shared.topics.read().len()).finish()
    }
}

fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, StoreResult<T>> {
    Box::pin(ready(Ok(value)))
}

/// The topics of new events, each with its highest seq.
fn news(events: &[StoreResult<Appended>]) -> Vec<(TopicName, u64)> {
    let mut news: BTreeMap<&TopicName, u64> = BTreeMap::new();
    for appended in events {
        if let Ok(Appended::New { event, .. }) = appended {
            news.insert(event.topic(), event.seq());
        }
    }
    news.into_iter().map(|(topic, seq)| (topic.clone(), seq)).collect()
}

impl EventStore for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        let Commit { now, events, records, epochs } = commit;
        let events = self.append(events, now);
        let write = |(record, epoch): (Record, u64)| {
            self.shared.common.admits(record.group(), epoch)?;
            self.write(record);
            Ok(())
        };
        let epochs = epochs.into_iter().chain(std::iter::repeat(0));
        let records = records.into_iter().zip(epochs).map(write).collect();
        self.shared.common.tell(|| news(&events));
        Box::pin(ready(Committed { events, records }))
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        let topics =
            self.shared.topics.read().iter().map(|(name, log)| (name.clone(), log.lock().bounds())).collect();
        let groups = self.shared.groups.lock().values().cloned().collect();
        let subscriptions = self.shared.subscriptions.lock().values().cloned().collect();
        done(Image { topics, groups, subscriptions })
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        done(self.with_log(topic, |log| log.read(after, limit)))
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        done(self.with_log(topic, |log| log.bounds()))
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        done(self.with_log(topic, |log| log.seq_of(id)))
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        done(self.with_log(topic, |log| log.seq_before(time)))
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        let newest = self.log(topic).map(|log| {
            let log = log.lock();
            keys.iter().map(|key| log.newest(key)).collect()
        });
        done(newest.unwrap_or_else(|| vec![None; keys.len()]))
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        done(self.with_log(topic, |log| log.newest_page(after, limit)))
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        done(self.with_log(topic, |log| log.clean(policy)))
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        Box::pin(delete_by_cleaning(self, topic, upto, ids_since))
    }

    // All handles read the same log.
    fn learn_deleted(&self, _topic: &TopicName, _upto: u64) {}

    fn shared(&self) -> Option<SharedStore> {
        Some(Arc::new(self.clone()))
    }
}

/// The durability of everything here.
const DURABILITY: Durability = Durability::Memory;
