//! The PostgreSQL that all test processes of this machine share.

use std::env;
use std::sync::Mutex;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use super::server::Postgres;
use super::wire;
use crate::lease::{Shareable, Shared};
use crate::server::Server;
use crate::watchdog::Watchdog;

/// Names a PostgreSQL for tests to use instead of one of our own, with a user who may make databases and who needs no
/// password.
pub const URL_VARIABLE: &str = "EVENT_HUB_TEST_POSTGRES";

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// The address of a PostgreSQL for tests, with nothing in it that matters.
///
/// What `EVENT_HUB_TEST_POSTGRES` says, else a server that all test processes share. It is started by the first and ends a
/// few seconds after the last. Tests keep out of each other's way by using [databases](super::database()) of their own.
pub async fn url() -> Result<String> {
    let shared = SHARED.get_or_try_init(|| Shared::get::<Postgres>(env::var(URL_VARIABLE).ok()));
    Ok(shared.await.context("tests need PostgreSQL")?.address.clone())
}

impl Shareable for Postgres {
    const NAME: &str = "shared-postgres";

    async fn start_shared() -> Result<Self> {
        Self::start().await
    }

    async fn answers(address: &str) -> bool {
        wire::query(address, "SELECT 1").await.is_ok()
    }

    fn address(&self) -> String {
        self.url()
    }

    fn server(&self) -> &Server {
        self.server()
    }

    fn watchdog(&self) -> &Mutex<Watchdog> {
        self.guarded_by()
    }
}
