//! A database of a test's own.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use mongodb::{Client, Database};
use uuid::Uuid;

use crate::shared;

/// A server that does not take the dropping of a database in this time is left alone.
const PATIENCE: Duration = Duration::from_secs(10);

/// An empty database with a name that no other test has. It is dropped with this value.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    name: String,
}

/// A new database on the server that tests [share](crate::mongo).
pub async fn database() -> Result<TestDatabase> {
    Ok(database_on(&shared::mongo().await?))
}

/// A new database on a server of the test's own, say a [`ReplicaSet`](crate::ReplicaSet).
pub fn database_on(uri: &str) -> TestDatabase {
    TestDatabase { server: uri.to_owned(), name: format!("test-{}", Uuid::now_v7().simple()) }
}

impl TestDatabase {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's address with this database in its path: what `MONGO_URL` takes.
    pub fn uri(&self) -> String {
        with_path(&self.server, &self.name)
    }

    /// The address of the server alone.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// A new client, and this database through it.
    pub async fn connect(&self) -> Result<Database> {
        let client =
            Client::with_uri_str(&self.server).await.context("cannot connect to the test's MongoDB")?;
        Ok(client.database(&self.name))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (std::mem::take(&mut self.server), std::mem::take(&mut self.name));
        // On a thread and a runtime of its own: the test's may be blocked by this very call, or be ending.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let drop_it = async {
                let client = Client::with_uri_str(&server).await.ok()?;
                client.database(&name).drop().await.ok()?;
                client.shutdown().immediate(true).await;
                Some(())
            };
            runtime.block_on(async { tokio::time::timeout(PATIENCE, drop_it).await.ok().flatten() })
        });
        // A failure is no failure of the test: the server is thrown away in any case.
        let _ = dropped.join();
    }
}

/// `uri` with the path `/name`, whether or not it has options.
pub(crate) fn with_path(uri: &str, name: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("mongodb", uri));
    let (before, options) =
        rest.split_once('?').map_or((rest, None), |(before, after)| (before, Some(after)));
    let hosts = before.split('/').next().unwrap_or_default();
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    format!("{scheme}://{hosts}/{name}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_goes_into_the_path_of_any_address() {
        for (uri, wanted) in [
            ("mongodb://a:1", "mongodb://a:1/x"),
            ("mongodb://a:1/", "mongodb://a:1/x"),
            ("mongodb://a:1,b:2/old?replicaSet=r", "mongodb://a:1,b:2/x?replicaSet=r"),
            ("mongodb://a:1?w=1", "mongodb://a:1/x?w=1"),
        ] {
            assert_eq!(with_path(uri, "x"), wanted);
        }
    }
}
