//! What several hubs share, failing on demand: the other half of [`FaultyStore`].

use super::faulty::{Fault, FaultyStore, failure};
use crate::Millis;
use crate::store::{
    Changes, Claim, Estate, Heartbeat, HubId, HubInfo, Ownership, Shared, SharedStore, StoreResult,
    StoredGroup,
};
use futures_core::future::BoxFuture;
use hub_proto::TopicName;
use std::time::Duration;

pub(super) struct FaultyShared {
    pub inner: SharedStore,
    pub store: FaultyStore,
}

impl FaultyShared {
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        answer: impl FnOnce(&'a dyn Shared) -> BoxFuture<'a, StoreResult<T>>,
    ) -> BoxFuture<'a, StoreResult<T>> {
        match self.store.fault(call) {
            None => answer(&*self.inner),
            Some(Fault::Refuse) => Box::pin(std::future::ready(Err(failure(call)))),
            Some(Fault::LoseAnswer) => {
                let answer = answer(&*self.inner);
                Box::pin(async move {
                    answer.await?;
                    Err(failure(call))
                })
            }
            Some(Fault::Delay(millis) | Fault::Stall(millis)) => {
                let answer = answer(&*self.inner);
                Box::pin(async move {
                    let answer = answer.await;
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    answer
                })
            }
        }
    }
}

/// News that stop when the script says so.
struct FaultyChanges {
    inner: Box<dyn Changes>,
    store: FaultyStore,
}

impl Changes for FaultyChanges {
    fn next(&mut self) -> BoxFuture<'_, StoreResult<Vec<(TopicName, u64)>>> {
        match self.store.fault("next") {
            Some(_) => Box::pin(std::future::ready(Err(failure("next")))),
            None => self.inner.next(),
        }
    }
}

impl Shared for FaultyShared {
    fn beat<'a>(&'a self, me: &'a HubInfo) -> BoxFuture<'a, StoreResult<Vec<Heartbeat>>> {
        self.call("beat", move |shared| shared.beat(me))
    }

    fn forget<'a>(&'a self, hubs: &'a [HubId]) -> BoxFuture<'a, StoreResult<()>> {
        self.call("forget", move |shared| shared.forget(hubs))
    }

    fn owner<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StoreResult<Ownership>> {
        self.call("owner", move |shared| shared.owner(name))
    }

    fn owned(&self, hub: HubId) -> BoxFuture<'_, StoreResult<Vec<(String, u64)>>> {
        self.call("owned", move |shared| shared.owned(hub))
    }

    fn owners(&self) -> BoxFuture<'_, StoreResult<Vec<(String, Ownership)>>> {
        self.call("owners", |shared| shared.owners())
    }

    fn claim<'a>(&'a self, name: &'a str, seen: u64, me: HubId) -> BoxFuture<'a, StoreResult<Claim>> {
        self.call("claim", move |shared| shared.claim(name, seen, me))
    }

    fn renew<'a>(
        &'a self,
        names: &'a [&'a str],
        me: HubId,
    ) -> BoxFuture<'a, StoreResult<Vec<(String, u64)>>> {
        self.call("renew", move |shared| shared.renew(names, me))
    }

    fn set_edges<'a>(
        &'a self,
        name: &'a str,
        epoch: u64,
        edges: &'a [HubId],
    ) -> BoxFuture<'a, StoreResult<()>> {
        self.call("set_edges", move |shared| shared.set_edges(name, epoch, edges))
    }

    fn release<'a>(&'a self, names: &'a [(String, u64)]) -> BoxFuture<'a, StoreResult<()>> {
        self.call("release", move |shared| shared.release(names))
    }

    fn estate<'a>(&'a self, group: &'a str, epoch: u64) -> BoxFuture<'a, StoreResult<Estate>> {
        self.call("estate", move |shared| shared.estate(group, epoch))
    }

    fn groups<'a>(&'a self, topics: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<StoredGroup>>> {
        self.call("groups", move |shared| shared.groups(topics))
    }

    fn idle_since(&self, time: Millis) -> BoxFuture<'_, StoreResult<Vec<String>>> {
        self.call("idle_since", move |shared| shared.idle_since(time))
    }

    fn tails<'a>(&'a self, of: Option<&'a [TopicName]>) -> BoxFuture<'a, StoreResult<Vec<(TopicName, u64)>>> {
        self.call("tails", move |shared| shared.tails(of))
    }

    fn changes(&self) -> BoxFuture<'_, StoreResult<Box<dyn Changes>>> {
        if self.store.fault("changes").is_some() {
            return Box::pin(std::future::ready(Err(failure("changes"))));
        }
        Box::pin(async {
            let inner = self.inner.changes().await?;
            let changes: Box<dyn Changes> = Box::new(FaultyChanges { inner, store: self.store.clone() });
            Ok(changes)
        })
    }
}
