//! The MongoDB that all test processes of this machine share.

use std::env;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use crate::admin;
use crate::lease::{Shareable, Shared};
use crate::replica_set::ReplicaSet;
use crate::server::Server;
use crate::watchdog::Watchdog;

/// Names a MongoDB for tests to use instead of one of our own: a replica set that can be filled and emptied.
pub const URI_VARIABLE: &str = "EVENT_HUB_TEST_MONGO";

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// The address of a MongoDB for tests: a replica set of one node with nothing in it that matters.
///
/// What `EVENT_HUB_TEST_MONGO` says, else a server that all test processes share. It is started by the first and ends a
/// few seconds after the last. Tests keep out of each other's way by using [databases](crate::database) of their own.
pub async fn mongo() -> Result<String> {
    let shared = SHARED.get_or_try_init(|| Shared::get::<ReplicaSet>(env::var(URI_VARIABLE).ok()));
    Ok(shared.await.context("tests need MongoDB")?.address.clone())
}

impl Shareable for ReplicaSet {
    const NAME: &str = "shared";

    async fn start_shared() -> Result<Self> {
        Self::start(1).await
    }

    async fn answers(address: &str) -> bool {
        let server = address.strip_prefix("mongodb://").and_then(|rest| rest.split('/').next());
        match server.and_then(|server| server.parse().ok()) {
            Some(server) => admin::hello(server).await.is_ok_and(|hello| hello.primary),
            None => false,
        }
    }

    fn address(&self) -> String {
        self.uri()
    }

    fn server(&self) -> &Server {
        self.nodes()[0].server()
    }

    fn watchdog(&self) -> &Mutex<Watchdog> {
        self.guarded_by()
    }
}
