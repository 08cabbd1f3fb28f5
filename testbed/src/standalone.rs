//! A server that belongs to no replica set.

use std::ffi::OsString;
use std::fs;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

use crate::ports::Port;
use crate::programs::Programs;
use crate::server::{Server, guard_of};
use crate::watchdog::Watchdog;

/// A single server, for programs that have to refuse one. It is gone, with its data, when this value is dropped.
#[derive(Debug)]
pub struct Standalone(Server);

impl Standalone {
    /// Starts one.
    pub async fn start() -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::get).await??;
        let watchdog = Arc::new(Mutex::new(Watchdog::start()?));
        let port = Port::take()?;
        let data = guard_of(&watchdog).scratch().path().join(format!("data-{}", port.number()));
        fs::create_dir(&data).with_context(|| format!("cannot make {}", data.display()))?;
        let words = ["--wiredTigerCacheSizeGB", "0.25", "--nounixsocket", "--dbpath"];
        let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        arguments.push(data.into());
        let server = Server::mongo(programs.mongod(), port, arguments, watchdog);
        server.start()?;
        server.listening().await?;
        Ok(Self(server))
    }

    /// How clients find it.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.0.address())
    }
}
