//! A replica set of a test's own.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mongodb::bson::{Bson, doc};
use uuid::Uuid;

use crate::admin;
use crate::node::Node;
use crate::programs::Programs;
use crate::server::{LIMIT, PAUSE};
use crate::watchdog::Watchdog;

/// How long the members of a set wait for their primary before they elect another (10 s by default). Longer than a busy
/// machine keeps a process waiting.
const ELECTION_TIMEOUT_MS: i32 = 2_000;
/// How long a primary that has stepped down does not become it again.
const STEPPED_DOWN_SECONDS: i32 = 10;

/// A replica set. It is gone, with its data, when this value is dropped.
#[derive(Debug)]
pub struct ReplicaSet {
    name: String,
    // Before the watchdog, whose end removes their directories.
    nodes: Vec<Node>,
    watchdog: Arc<Mutex<Watchdog>>,
}

impl ReplicaSet {
    /// Starts a set with this many members on free ports, and waits until it has a primary and all have joined.
    pub async fn start(nodes: usize) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        let watchdog = Arc::new(Mutex::new(Watchdog::start()?));
        Self::start_as(nodes, None, &programs, watchdog).await
    }

    /// Starts a set that is part of something larger: `role` is an option of `mongod`.
    pub(crate) async fn start_as(
        nodes: usize,
        role: Option<&str>,
        programs: &Programs,
        watchdog: Arc<Mutex<Watchdog>>,
    ) -> Result<Self> {
        ensure!((1..=7).contains(&nodes), "a replica set has 1 to 7 nodes that vote, not {nodes}");
        // Its own name, so that a client of another set that had one of our ports does not take us for it.
        let name = format!("hub-{}", Uuid::new_v4().simple());
        let nodes = (0..nodes).map(|index| Node::start(index, &name, role, programs.mongod(), &watchdog));
        let set = Self { nodes: nodes.collect::<Result<_>>()?, name, watchdog };
        for node in &set.nodes {
            node.server().listening().await?;
        }
        set.initiate(role == Some("--configsvr")).await?;
        set.primary().await?;
        for node in &set.nodes {
            node.member().await?;
        }
        Ok(set)
    }

    async fn initiate(&self, config_server: bool) -> Result<()> {
        let members = self.nodes.iter().zip(0_i32..);
        let members =
            members.map(|(node, id)| Bson::from(doc! { "_id": id, "host": node.address().to_string() }));
        let mut config = doc! {
            "_id": &self.name,
            "members": members.collect::<Vec<_>>(),
            "settings": { "electionTimeoutMillis": ELECTION_TIMEOUT_MS },
        };
        if config_server {
            config.insert("configsvr", true);
        }
        admin::command(self.nodes[0].address(), doc! { "replSetInitiate": config }, LIMIT).await?;
        Ok(())
    }

    /// How clients find it: all members, and the name of the set.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/?replicaSet={}", self.hosts(), self.name)
    }

    /// The members' addresses, with commas.
    pub(crate) fn hosts(&self) -> String {
        self.nodes.iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// The name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The members.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The primary; waits for one to be elected.
    pub async fn primary(&self) -> Result<&Node> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(node) = self.current_primary().await {
                return Ok(node);
            }
            ensure!(Instant::now() < deadline, "the set {} has no primary after {LIMIT:?}", self.name);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The node that was elected last, among those that say they are primary: a deposed one may not know yet.
    async fn current_primary(&self) -> Option<&Node> {
        let mut best = None;
        for node in &self.nodes {
            if let Some(election) = node.elected().await {
                best = best.max(Some((election, node.index())));
            }
        }
        best.map(|(_, index)| &self.nodes[index])
    }

    /// Makes the primary give up its place, and returns the next one: another node, if there is another.
    pub async fn step_down(&self) -> Result<&Node> {
        let old = self.primary().await?;
        let alone = self.nodes.len() == 1;
        let seconds = if alone { 1 } else { STEPPED_DOWN_SECONDS };
        let deadline = Instant::now() + LIMIT;
        loop {
            let request = if alone {
                doc! { "replSetStepDown": seconds, "force": true }
            } else {
                doc! { "replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": STEPPED_DOWN_SECONDS - 1 }
            };
            match admin::command(old.address(), request, Duration::from_secs(30)).await {
                Ok(_) => break,
                // Just after a start no other node may be ready to take over.
                Err(_) if Instant::now() < deadline && old.is_primary().await => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error).context("the primary does not step down"),
            }
        }
        loop {
            let new = self.primary().await?;
            if alone || new.index() != old.index() {
                return Ok(new);
            }
            if Instant::now() > deadline {
                bail!("no other node of {} became primary within {LIMIT:?}", self.name);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Leaves a set of one node without a primary for so many seconds, as a long election does; waits for the next one.
    pub async fn without_primary(&self, seconds: i32) -> Result<()> {
        ensure!(self.nodes.len() == 1, "another node of {} would become primary at once", self.name);
        let request = doc! { "replSetStepDown": seconds, "force": true };
        admin::command(self.primary().await?.address(), request, Duration::from_secs(30)).await?;
        self.primary().await.map(drop)
    }

    /// Ends all servers and removes their data, as dropping does.
    pub fn stop(self) {}

    /// Its watchdog, which no other set has unless it is part of something larger.
    pub(crate) fn guarded_by(&self) -> &Mutex<Watchdog> {
        &self.watchdog
    }
}
