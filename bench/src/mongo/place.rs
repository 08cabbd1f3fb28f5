//! A replica set for the run, and hubs over databases of their own.

use super::tape::{Tape, TapedStore};
use anyhow::Result;
use hub_core::{Bus, ClusterConfig, Config};
use hub_store_mongo::{MongoStore, Options};
use hub_testbed::{ReplicaSet, TestDatabase, database_on};
use std::sync::Arc;

/// A running MongoDB.
pub struct Place {
    set: ReplicaSet,
}

impl Place {
    /// Starts it; it goes with this.
    pub async fn start() -> Result<Self> {
        Ok(Self { set: ReplicaSet::start(1).await? })
    }

    /// A database with nothing in it, which goes with the answer.
    pub fn fresh(&self) -> TestDatabase {
        database_on(&self.set.uri())
    }
}

/// A hub in this process.
pub struct Hub {
    pub bus: Bus,
    /// The sizes of its commits.
    pub tape: Arc<Tape>,
}

impl Hub {
    /// One of the hubs over a database.
    pub async fn open(database: &TestDatabase, config: Config) -> Result<Self> {
        let store = MongoStore::connect(Options::new(database.uri())).await?;
        let (store, tape) = TapedStore::new(Arc::new(store));
        // It is reached by nobody: its members are in this process.
        let bus = Bus::builder(store).config(config).cluster(ClusterConfig::default()).open().await?;
        Ok(Self { bus, tape })
    }
}
