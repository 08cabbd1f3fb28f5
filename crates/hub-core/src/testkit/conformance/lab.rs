//! The world of one case: its store, its clock, its bus.

use super::port::tools::Port;
use super::{Features, StoreFactory};
use crate::clock::{Clock, SystemClock};
use crate::store::EventStore;
use crate::testkit::ManualClock;
use crate::{Bus, Config, Millis};
use futures_core::future::BoxFuture;
use hub_proto::IdGenerator;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The world of one case: its store, its clock, its bus.
pub struct Lab {
    factory: Box<dyn Open>,
    manual: Option<ManualClock>,
    /// Every life of the bus makes other ids.
    lives: AtomicU64,
}

/// [`StoreFactory`], as an object.
trait Open: Send + Sync {
    fn features(&self) -> Features;
    fn open(&self) -> BoxFuture<'_, Arc<dyn EventStore>>;
}

impl<F: StoreFactory> Open for F {
    fn features(&self) -> Features {
        StoreFactory::features(self)
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn EventStore>> {
        Box::pin(StoreFactory::open(self))
    }
}

/// Either clock, as the store allows.
struct LabClock(Box<dyn Clock>);

impl Clock for LabClock {
    fn wall(&self) -> Millis {
        self.0.wall()
    }

    fn steady(&self) -> Millis {
        self.0.steady()
    }
}

impl Lab {
    pub(super) fn new(factory: impl StoreFactory, manual: bool) -> Self {
        let manual = manual.then(ManualClock::new);
        Self { factory: Box::new(factory), manual, lives: AtomicU64::new(1) }
    }

    pub(super) fn features(&self) -> Features {
        self.factory.features()
    }

    /// The store, opened (again).
    pub(super) async fn port(&self) -> Port {
        Port(self.factory.open().await)
    }

    /// A bus over the store, opened (again).
    pub(super) async fn bus(&self) -> Bus {
        self.bus_with(Config::default()).await
    }

    pub(super) async fn bus_with(&self, config: Config) -> Bus {
        let clock: Box<dyn Clock> = match &self.manual {
            Some(clock) => Box::new(clock.clone()),
            None => Box::new(SystemClock::new()),
        };
        let store = self.factory.open().await;
        let ids = IdGenerator::seeded(self.lives.fetch_add(1, Relaxed));
        let builder = Bus::builder_over(store).clock(LabClock(clock)).config(config).ids(ids);
        builder.open().await.unwrap()
    }

    /// Stops the bus cleanly and opens it again.
    pub(super) async fn reopen(&self, bus: Bus) -> Bus {
        bus.stop().await.unwrap();
        drop(bus);
        self.bus().await
    }

    /// Drops everything that was alive, as a crash does, and opens the bus again.
    pub(super) async fn crash<T>(&self, alive: T) -> Bus {
        drop(alive);
        self.bus().await
    }

    /// Lets time pass; on the real clock it takes that long.
    pub(super) async fn pass(&self, millis: Millis) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// The clock in the case's hands, for cases that need it.
    pub(super) fn clock(&self) -> &ManualClock {
        self.manual.as_ref().expect("a case that moves the clock says that it needs to")
    }
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("features", &self.features()).finish()
    }
}
