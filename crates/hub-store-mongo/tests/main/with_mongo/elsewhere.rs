//! A store that lives on a runtime of its own.
//!
//! Many cases of the conformance suite hold the clock in their hands: tokio's time stands still, and runs ahead as soon
//! as nobody has anything to do. Waiting for a socket counts as that. Waiting for a thread does not, so every call is
//! made on a thread that waits, while the sockets are on another runtime, whose time is real.

use futures_core::future::BoxFuture;
use hub_core::Millis;
use hub_core::store::{
    Bounds, Changes, Claim, CleanPolicy, Cleaned, Commit, Committed, Deleted, Estate, EventStore, Health,
    Heartbeat, HubId, HubInfo, Image, Ownership, ReadLimit, Shared, SharedStore, StoreResult, StoredGroup,
};
use hub_proto::{Event, EventId, Key, TopicName};
use hub_store_mongo::MongoStore;
use std::sync::{Arc, LazyLock};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

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

    fn lanes(&self) -> Option<usize> {
        self.0.lanes()
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

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        upto: u64,
        ids_since: Millis,
    ) -> BoxFuture<'a, StoreResult<Deleted>> {
        let topic = topic.clone();
        pass_on!(self, store => store.delete(&topic, upto, ids_since))
    }

    fn learn_deleted(&self, topic: &TopicName, upto: u64) {
        self.0.learn_deleted(topic, upto);
    }

    fn max_payload(&self) -> Option<usize> {
        self.0.max_payload()
    }

    fn health(&self) -> Health {
        self.0.health()
    }

    fn shared(&self) -> Option<SharedStore> {
        Some(Arc::new(Elsewhere(self.0.clone())))
    }
}

impl Shared for Elsewhere {
    fn beat<'a>(&'a self, me: &'a HubInfo) -> BoxFuture<'a, StoreResult<Vec<Heartbeat>>> {
        let me = me.clone();
        pass_on!(self, store => store.beat(&me))
    }

    fn forget<'a>(&'a self, hubs: &'a [HubId]) -> BoxFuture<'a, StoreResult<()>> {
        let hubs = hubs.to_vec();
        pass_on!(self, store => store.forget(&hubs))
    }

    fn owner<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Ownership>> {
        let name = name.to_owned();
        pass_on!(self, store => store.owner(&name))
    }

    fn owned(&self, hub: HubId) -> BoxFuture<'_, StoreResult<Vec<(String, u64)>>> {
        pass_on!(self, store => store.owned(hub))
    }

    fn owners(&self) -> BoxFuture<'_, StoreResult<Vec<(String, Ownership)>>> {
        pass_on!(self, store => store.owners())
    }

    fn claim<'a>(&'a self, name: &'a str, seen: u64, me: HubId) -> BoxFuture<'a, StoreResult<Claim>> {
        let name = name.to_owned();
        pass_on!(self, store => store.claim(&name, seen, me))
    }

    fn renew<'a>(
        &'a self,
        names: &'a [&'a str],
        me: HubId,
    ) -> BoxFuture<'a, StoreResult<Vec<(String, u64)>>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        pass_on!(self, store => async move {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            store.renew(&names, me).await
        })
    }

    fn set_edges<'a>(
        &'a self,
        name: &'a str,
        epoch: u64,
        edges: &'a [HubId],
    ) -> BoxFuture<'a, StoreResult<()>> {
        let (name, edges) = (name.to_owned(), edges.to_vec());
        pass_on!(self, store => store.set_edges(&name, epoch, &edges))
    }

    fn release<'a>(&'a self, names: &'a [(String, u64)]) -> BoxFuture<'a, StoreResult<()>> {
        let names = names.to_vec();
        pass_on!(self, store => store.release(&names))
    }

    fn estate<'a>(&'a self, group: &'a str, epoch: u64) -> BoxFuture<'a, StoreResult<Estate>> {
        let group = group.to_owned();
        pass_on!(self, store => store.estate(&group, epoch))
    }

    fn groups<'a>(&'a self, topics: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<StoredGroup>>> {
        let topics = topics.map(<[TopicName]>::to_vec);
        pass_on!(self, store => store.groups(topics.as_deref()))
    }

    fn idle_since(&self, time: Millis) -> BoxFuture<'_, StoreResult<Vec<String>>> {
        pass_on!(self, store => store.idle_since(time))
    }

    fn tails<'a>(&'a self, of: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<(TopicName, u64)>>> {
        let of = of.map(<[TopicName]>::to_vec);
        pass_on!(self, store => store.tails(of.as_deref()))
    }

    fn changes(&self) -> BoxFuture<'_, StoreResult<Box<dyn Changes>>> {
        let store = self.0.clone();
        there(async move {
            let mut changes = store.changes().await?;
            let (tell, hear) = mpsc::channel(16);
            RUNTIME.spawn(async move {
                loop {
                    let news = tokio::select! {
                        news = changes.next() => news,
                        () = tell.closed() => return,
                    };
                    if tell.send(news).await.is_err() {
                        return;
                    }
                }
            });
            Ok(Box::new(Heard(hear)) as Box<dyn Changes>)
        })
    }
}

struct Heard(mpsc::Receiver<StoreResult<Vec<(TopicName, u64)>>>);

impl Changes for Heard {
    fn next(&mut self) -> BoxFuture<'_, StoreResult<Vec<(TopicName, u64)>>> {
        Box::pin(async { self.0.recv().await.unwrap() })
    }
}
