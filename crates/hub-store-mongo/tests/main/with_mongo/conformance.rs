//! The conformance suite over a real server.

use super::elsewhere::{Elsewhere, there};
use hub_core::store::{Durability, EventStore};
use hub_core::testkit::conformance::{Features, StoreFactory, Support};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::TestDatabase;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

#[derive(Default)]
struct Mongo(OnceCell<TestDatabase>);

impl StoreFactory for Mongo {
    fn features(&self) -> Features {
        Features { durability: Durability::Majority, reopen: Support::Yes, manual_clock: Support::Yes }
    }

    async fn open(&self) -> Arc<dyn EventStore> {
        let database = self.0.get_or_init(|| there(async { hub_testbed::database().await.unwrap() })).await;
        // One hub alone: nobody else can have an old idea of where a topic ends, so nothing has to wait.
        let options = Options { clean_delay: Duration::ZERO, ..Options::new(database.uri()) };
        Arc::new(Elsewhere(there(async { MongoStore::connect(options).await.unwrap() }).await))
    }
}

hub_core::conformance_suite!(mongo, Mongo::default);
