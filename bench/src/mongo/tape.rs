//! A store that remembers how large its commits were, so that a bare loop can do the same.

use futures_util::future::BoxFuture;
use hub_core::store::{
    Bounds, CleanPolicy, Cleaned, Commit, Committed, Deleted, DiskUsage, EventStore, Health, Image,
    ReadLimit, SharedStore, StoreResult,
};
use hub_core::{Event, EventId, Key, Millis, TopicName};
use parking_lot::Mutex;
use std::sync::Arc;

/// Events per commit.
#[derive(Debug, Default)]
pub struct Tape(Mutex<Vec<usize>>);

impl Tape {
    /// Takes what was recorded since the last time.
    pub fn cut(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Any store, with a [`Tape`].
pub struct TapedStore {
    store: Arc<dyn EventStore>,
    tape: Arc<Tape>,
}

impl TapedStore {
    pub fn new(store: Arc<dyn EventStore>) -> (Self, Arc<Tape>) {
        let tape = Arc::<Tape>::default();
        (Self { store, tape: tape.clone() }, tape)
    }
}

impl EventStore for TapedStore {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        if !commit.events.is_empty() {
            self.tape.0.lock().push(commit.events.len());
        }
        self.store.commit(commit)
    }

    fn lanes(&self) -> Option<usize> {
        self.store.lanes()
    }

    fn give_way<'a>(&'a self, topic: &'a TopicName) -> Option<BoxFuture<'a, ()>> {
        self.store.give_way(topic)
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        self.store.load()
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        self.store.read(topic, after, limit)
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        self.store.bounds(topic)
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        self.store.seq_of(topic, id)
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        self.store.seq_before(topic, time)
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        self.store.newest(topic, keys)
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        self.store.newest_page(topic, after, limit)
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        self.store.clean(topic, policy)
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        self.store.delete(topic, upto, ids_since)
    }

    fn learn_deleted(&self, topic: &TopicName, upto: u64) {
        self.store.learn_deleted(topic, upto);
    }

    fn time(&self) -> BoxFuture<'_, StoreResult<Option<Millis>>> {
        self.store.time()
    }

    fn max_payload(&self) -> Option<usize> {
        self.store.max_payload()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        self.store.disk_usage()
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn shared(&self) -> Option<SharedStore> {
        self.store.shared()
    }

    fn close(&self) -> BoxFuture<'_, StoreResult<()>> {
        self.store.close()
    }
}
