//! The conformance suite over the real disk, on threads and without, and over segments so small that every case sees
//! them sealed and rewritten.

use hub_core::store::{Durability, EventStore};
use hub_core::testkit::conformance::{Features, StoreFactory, Support};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, OpenError, Options, Threads};
use std::sync::Arc;
use tempfile::TempDir;

struct Embedded {
    directory: TempDir,
    options: Options,
}

impl Embedded {
    fn with(options: Options) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), options }
    }
}

impl StoreFactory for Embedded {
    fn features(&self) -> Features {
        Features { durability: Durability::Fsync, reopen: Support::Yes, manual_clock: Support::Yes }
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        again(|| EmbeddedStore::open(self.directory.path(), self.options.clone())).await
    }
}

/// A bus that was dropped takes its tasks a moment to let go of the store.
async fn again(open: impl Fn() -> Result<EmbeddedStore, OpenError>) -> Arc<dyn EventStore> {
    for _ in 0..1000 {
        match open() {
            Err(OpenError::Locked(_)) => tokio::task::yield_now().await,
            opened => return Arc::new(opened.unwrap()),
        }
    }
    panic!("somebody holds on to the store");
}

struct Tiny(SimDisk);

impl StoreFactory for Tiny {
    fn features(&self) -> Features {
        Features { durability: Durability::Fsync, reopen: Support::Yes, manual_clock: Support::Yes }
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        let options =
            Options { segment_bytes: 2048, threads: Threads::None, disk_reserve: 0, ..Options::default() };
        again(|| EmbeddedStore::open_on(Arc::new(self.0.clone()), options.clone())).await
    }
}

/// With its threads, on segments that are sealed every few events.
struct Threaded(SimDisk);

impl StoreFactory for Threaded {
    fn features(&self) -> Features {
        let manual_clock = Support::No("time would run away while its threads work");
        Features { durability: Durability::Fsync, reopen: Support::Yes, manual_clock }
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        let options =
            Options { segment_bytes: 4096, threads: Threads::Own, disk_reserve: 0, ..Options::default() };
        again(|| EmbeddedStore::open_on(Arc::new(self.0.clone()), options.clone())).await
    }
}

fn threaded() -> Threaded {
    Threaded(SimDisk::new(1))
}

fn inline() -> Embedded {
    Embedded::with(Options {
        segment_bytes: 256 << 10,
        threads: Threads::None,
        disk_reserve: 0,
        ..Options::default()
    })
}

fn tiny_segments() -> Tiny {
    Tiny(SimDisk::new(1))
}

hub_core::conformance_suite!(embedded, inline);
hub_core::conformance_suite!(tiny, tiny_segments);
hub_core::conformance_suite!(threads, threaded);
