//! The conformance suite over the real disk, on threads and without, and over segments so small that every case sees
//! them sealed and rewritten.

use hub_core::store::{Durability, EventStore};
use hub_core::testkit::conformance::{Features, StoreFactory, Support};
use hub_store_embedded::{EmbeddedStore, Options, Threads};
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
        Arc::new(EmbeddedStore::open(self.directory.path(), self.options.clone()).unwrap())
    }
}

fn inline() -> Embedded {
    Embedded::with(Options { segment_bytes: 1 << 20, threads: Threads::None, ..Options::default() })
}

fn tiny_segments() -> Embedded {
    Embedded::with(Options { segment_bytes: 2048, threads: Threads::None, ..Options::default() })
}

hub_core::conformance_suite!(embedded, inline);
hub_core::conformance_suite!(tiny, tiny_segments);
