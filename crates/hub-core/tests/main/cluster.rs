//! Several hubs over one store.

#[path = "cluster/deletion.rs"]
mod deletion;
#[path = "cluster/lapses.rs"]
mod lapses;
#[path = "cluster/moving.rs"]
mod moving;
#[path = "cluster/ownership.rs"]
mod ownership;
#[path = "cluster/random.rs"]
mod random;
#[path = "cluster/tails.rs"]
mod tails;
#[path = "cluster/wide.rs"]
mod wide;

use crate::world::code;
use hub_core::store::HubId;
use hub_core::testkit::{Fault, FaultyStore, ManualClock};
use hub_core::{
    Bus, ById, ClusterConfig, Code, Config, Handed, Luggage, MemoryStore, Owner, Position, Result,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A store, and as many hubs as a test wants.
struct Cluster {
    memory: MemoryStore,
    clock: ManualClock,
}

/// One of them, with its own view of the store.
struct Hub {
    bus: Bus,
    store: FaultyStore,
}

impl Cluster {
    fn new() -> Self {
        Self { memory: MemoryStore::new(), clock: ManualClock::new() }
    }

    async fn hub(&self) -> Hub {
        self.hub_with(Config::default()).await
    }

    async fn hub_with(&self, config: Config) -> Hub {
        let store = FaultyStore::new(Arc::new(self.memory.clone()));
        let cluster = ClusterConfig { address: "ws://hub.test/".into(), ..ClusterConfig::default() };
        let bus = Bus::builder(store.clone()).clock(self.clock.clone()).config(config).cluster(cluster);
        Hub { bus: bus.open().await.unwrap(), store }
    }

    /// Lets time pass until `hub` is the one that owns `group`; answers how long that took.
    async fn owned_by(&self, hub: &Hub, group: &str) -> u64 {
        let start = self.now();
        while hub.bus.owner_of(group).await != Ok(Owner::Here) {
            assert!(self.now() - start < 60_000, "it never became the owner");
            self.clock.advance(20).await;
        }
        self.now() - start
    }

    fn now(&self) -> u64 {
        hub_core::Clock::steady(&self.clock)
    }
}

impl Hub {
    fn id(&self) -> HubId {
        self.bus.hub().unwrap().id
    }

    /// Nothing of the store can be reached any more.
    fn cut_off(&self) {
        self.store.script(|_| Some(Fault::Refuse));
    }

    async fn publish(&self, topic: &str, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            self.bus.publish(topic, json!(n)).await.unwrap();
        }
    }

    async fn member(&self, topic: &str) -> Result<ById> {
        self.bus.subscribe(topic).group("g").from(Position::Earliest).open_by_id().await
    }

    async fn member_with(&self, topic: &str, luggage: Luggage) -> Result<ById> {
        let member = self.bus.subscribe(topic).group("g").from(Position::Earliest);
        member.bringing(luggage).open_by_id().await
    }
}

fn luggage(hub: &Hub, held: Vec<hub_core::Held>, settled: Vec<hub_core::Held>) -> Luggage {
    Luggage { hub: hub.id(), members: 1, held, settled }
}

async fn next(member: &mut ById) -> Handed {
    let next = tokio::time::timeout(Duration::from_secs(10), member.recv()).await;
    next.expect("an event has to come").expect("the subscription goes on")
}

/// Takes and acks `count` events; answers their seqs.
async fn consume(member: &mut ById, count: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    for _ in 0..count {
        let handed = next(member).await;
        seqs.push(handed.event.seq());
        member.ack(handed.event.id(), Some(handed.attempt)).unwrap();
    }
    seqs
}

/// Nothing comes for a while.
async fn assert_silent(member: &mut ById) {
    let next = tokio::time::timeout(Duration::from_millis(500), member.recv()).await;
    assert!(next.is_err(), "{next:?}");
}
