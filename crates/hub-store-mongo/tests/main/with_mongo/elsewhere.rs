//! A store that lives on a runtime of its own.
//!
//! Many cases of the conformance suite hold the clock in their hands: tokio's time stands still, and runs ahead as soon
//! as nobody has anything to do. Waiting for a socket counts as that. Waiting for a thread does not, so every call is
//! made on a thread that waits, while the sockets are on another runtime, whose time is real.

use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::store::{
    Bounds, CleanPolicy, Cleaned, Commit, Committed, EventStore, Health, Image, ReadLimit, StoreResult,
};
use hub_proto::{Event, EventId, Key, TopicName};
use hub_store_mongo::MongoStore;
use std::sync::{Arc, LazyLock};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// Runs `work` where time is real.
pub fn there<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    Box::pin(async { tokio::task::spawn_blocking(|| RUNTIME.block_on(work)).await.unwrap() })
}

pub struct Elsewhere(pub MongoStore);

macro_rules! pass_on {
    ($self:ident, $store:ident => $call:expr) => {{
        let $store = $self.0.clone();
        there(async move { $call.await })
    }};
}

impl EventStore for Elsewhere {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Committed> {
        pass_on!(self, store => store.commit(commit))
    }

    fn load(&self) -> BoxFuture<'_, StoreResult<Image>> {
        pass_on!(self, store => store.load())
    }

    fn read<'a>(
        &'a self,
        topic: &'a TopicName,
        after: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let topic = topic.clone();
        pass_on!(self, store => store.read(&topic, after, limit))
    }

    fn bounds<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, StoreResult<Bounds>> {
        let topic = topic.clone();
        pass_on!(self, store => store.bounds(&topic))
    }

    fn seq_of<'a>(&'a self, topic: &'a TopicName, id: EventId) -> BoxFuture<'a, StoreResult<Option<u64>>> {
        let topic = topic.clone();
        pass_on!(self, store => store.seq_of(&topic, id))
    }

    fn seq_before<'a>(&'a self, topic: &'a TopicName, time: Millis) -> BoxFuture<'a, StoreResult<u64>> {
        let topic = topic.clone();
        pass_on!(self, store => store.seq_before(&topic, time))
    }

    fn newest<'a>(
        &'a self,
        topic: &'a TopicName,
        keys: &'a [Key],
    ) -> BoxFuture<'a, StoreResult<Vec<Option<Arc<Event>>>>> {
        let (topic, keys) = (topic.clone(), keys.to_vec());
        pass_on!(self, store => store.newest(&topic, &keys))
    }

    fn newest_page<'a>(
        &'a self,
        topic: &'a TopicName,
        after: Option<&'a str>,
        limit: ReadLimit,
    ) -> BoxFuture<'a, StoreResult<Vec<Arc<Event>>>> {
        let (topic, after) = (topic.clone(), after.map(str::to_owned));
        pass_on!(self, store => store.newest_page(&topic, after.as_deref(), limit))
    }

    fn clean<'a>(&'a self, topic: &'a TopicName, policy: CleanPolicy) -> BoxFuture<'a, StoreResult<Cleaned>> {
        let topic = topic.clone();
        pass_on!(self, store => store.clean(&topic, policy))
    }

    fn health(&self) -> Health {
        self.0.health()
    }
}
