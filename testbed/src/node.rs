//! A member of a replica set, and what can be done to it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mongodb::bson::oid::ObjectId;

use crate::admin;
use crate::ports::Port;
use crate::program::Program;
use crate::server::{self, LIMIT, PAUSE, Server};
use crate::watchdog::Watchdog;

/// A member of a [`ReplicaSet`](crate::ReplicaSet).
#[derive(Debug)]
pub struct Node {
    index: usize,
    server: Server,
}

impl Node {
    /// Starts a member of the set `set`, with an empty directory. `role` is what a sharded cluster asks for.
    pub(crate) fn start(
        index: usize,
        set: &str,
        role: Option<&str>,
        program: Program,
        watchdog: &Arc<Mutex<Watchdog>>,
    ) -> Result<Self> {
        let port = Port::take()?;
        let data = server::guard_of(watchdog).scratch().path().join(format!("data-{}", port.number()));
        fs::create_dir(&data).with_context(|| format!("cannot make {}", data.display()))?;
        let words = [
            // The smallest that is allowed: tests hold little, and several sets run beside each other.
            ["--wiredTigerCacheSizeGB", "0.25"],
            ["--oplogSize", "512"],
            // Megabytes of statistics that nobody reads.
            ["--setParameter", "diagnosticDataCollectionEnabled=false"],
            // Failpoints: commands that fail, wait or lose their connection on demand, for clients of a given name.
            ["--setParameter", "enableTestCommands=1"],
        ];
        let mut arguments: Vec<OsString> = words.iter().flatten().map(OsString::from).collect();
        arguments.extend(["--nounixsocket", "--replSet", set, "--dbpath"].map(OsString::from));
        arguments.push(data.into());
        arguments.extend(role.map(OsString::from));
        let node = Self { index, server: Server::mongo(program, port, arguments, Arc::clone(watchdog)) };
        node.server.start()?;
        Ok(node)
    }

    /// Its place among the set's nodes.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its process, unless it was killed.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Ends it at once, as a crash does. Nothing happens if it is down already.
    pub fn kill(&self) -> Result<()> {
        self.server.kill()
    }

    /// Stops it in its tracks: connections stay open, nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.server.freeze()
    }

    /// Lets it go on after [`Node::freeze`].
    pub fn thaw(&self) -> Result<()> {
        self.server.thaw()
    }

    /// Starts it again with the data that it had, killing it first if it runs, and waits until it is a member again.
    pub async fn restart(&self) -> Result<()> {
        self.server.kill()?;
        self.server.start()?;
        self.server.listening().await?;
        self.member().await
    }

    /// Whether it says that it is the primary. A server that is down, frozen or silent is none.
    pub async fn is_primary(&self) -> bool {
        self.elected().await.is_some()
    }

    /// The election that made it primary, if it says that it is.
    pub(crate) async fn elected(&self) -> Option<ObjectId> {
        if !self.server.is_running() {
            return None;
        }
        let hello = admin::hello(self.address()).await.ok()?;
        if hello.primary { Some(hello.election.unwrap_or(ObjectId::from_bytes([0; 12]))) } else { None }
    }

    /// Waits until it leads or follows.
    pub(crate) async fn member(&self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.server.check_alive()?;
            if admin::hello(self.address()).await.is_ok_and(|hello| hello.primary || hello.secondary) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{} has not joined its set after {LIMIT:?}", self.address());
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }
}
