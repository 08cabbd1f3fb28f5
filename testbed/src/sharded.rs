//! A sharded cluster: config servers, shards and a router, each as small as it can be.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use mongodb::bson::doc;

use crate::admin;
use crate::ports::Port;
use crate::programs::Programs;
use crate::replica_set::ReplicaSet;
use crate::server::{LIMIT, Server};
use crate::watchdog::Watchdog;

/// A cluster behind one `mongos`. It is gone, with its data, when this value is dropped.
#[derive(Debug)]
pub struct Sharded {
    // In the order in which they may go.
    router: Server,
    shards: Vec<ReplicaSet>,
    _config: ReplicaSet,
}

impl Sharded {
    /// Starts a cluster with this many shards, named `shard0` and so on, each a replica set of one node.
    pub async fn start(shards: usize) -> Result<Self> {
        ensure!((1..=8).contains(&shards), "a cluster for tests has 1 to 8 shards, not {shards}");
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        let mongos = programs.mongos()?;
        let watchdog = Arc::new(Mutex::new(Watchdog::start()?));
        let set = |role| ReplicaSet::start_as(1, Some(role), &programs, Arc::clone(&watchdog));

        let config = set("--configsvr").await?;
        let place = format!("{}/{}", config.name(), config.hosts());
        let arguments = ["--nounixsocket", "--configdb", &place].map(OsString::from).to_vec();
        let router = Server::mongo(mongos, Port::take()?, arguments, Arc::clone(&watchdog));
        router.start()?;
        let mut started = Vec::new();
        for _ in 0..shards {
            started.push(set("--shardsvr").await?);
        }
        router.listening().await?;
        let cluster = Self { router, shards: started, _config: config };
        for (index, shard) in cluster.shards.iter().enumerate() {
            let place = format!("{}/{}", shard.name(), shard.hosts());
            let add = doc! { "addShard": place, "name": format!("shard{index}") };
            admin::command(cluster.router.address(), add, LIMIT).await?;
        }
        Ok(cluster)
    }

    /// How clients find it: the router.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.router.address())
    }

    /// The shards, for looking at what is where and for making them fail.
    pub fn shards(&self) -> &[ReplicaSet] {
        &self.shards
    }

    /// Ends all servers and removes their data, as dropping does.
    pub fn stop(self) {}
}
