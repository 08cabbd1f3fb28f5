//! The conformance suite over the stores of this crate, and what the engine does when things go wrong.
#![allow(clippy::unwrap_used)]

#[path = "main/bursts.rs"]
mod bursts;
#[path = "main/clock_jumps.rs"]
mod clock_jumps;
#[path = "main/cluster.rs"]
mod cluster;
#[path = "main/cut_off.rs"]
mod cut_off;
#[path = "main/deletion.rs"]
mod deletion;
#[path = "main/expiry.rs"]
mod expiry;
#[path = "main/faults.rs"]
mod faults;
#[path = "main/groups.rs"]
mod groups;
#[path = "main/health.rs"]
mod health;
#[path = "main/in_order.rs"]
mod in_order;
#[path = "main/lanes.rs"]
mod lanes;
#[path = "main/limits.rs"]
mod limits;
#[path = "main/metrics.rs"]
mod metrics;
#[path = "main/outbox.rs"]
mod outbox;
#[path = "main/overlaps.rs"]
mod overlaps;
#[path = "main/panics.rs"]
mod panics;
#[path = "main/quotas.rs"]
mod quotas;
#[path = "main/settings.rs"]
mod settings;
#[path = "main/spans.rs"]
mod spans;
#[path = "main/threads.rs"]
mod threads;
#[path = "main/wakeups.rs"]
mod wakeups;
#[path = "main/wide.rs"]
mod wide;
#[path = "main/world.rs"]
mod world;

use hub_core::MemoryStore;
use hub_core::store::{Durability, EventStore};
use hub_core::testkit::FaultyStore;
use hub_core::testkit::conformance::{Features, StoreFactory, Support};
use std::sync::Arc;

#[derive(Default)]
struct Memory(MemoryStore);

const MEMORY: Features =
    Features { durability: Durability::Memory, reopen: Support::Yes, manual_clock: Support::Yes };

impl StoreFactory for Memory {
    fn features(&self) -> Features {
        MEMORY
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        Arc::new(self.0.clone())
    }
}

/// The decorator changes nothing while it is quiet, and neither do lanes.
#[derive(Default)]
struct Quiet(MemoryStore);

impl StoreFactory for Quiet {
    fn features(&self) -> Features {
        MEMORY
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        Arc::new(FaultyStore::new(Arc::new(self.0.clone())).with_lanes(Some(2)))
    }
}

hub_core::conformance_suite!(memory, Memory::default);
hub_core::conformance_suite!(quiet_faulty, Quiet::default);
