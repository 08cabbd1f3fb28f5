//! A database of a test's own.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use uuid::Uuid;

use super::shared;
use super::wire::{self, Row};
use crate::database::with_path;

/// A server that does not take the dropping of a database in this time is left alone.
const PATIENCE: Duration = Duration::from_secs(10);

/// An empty database with a name that no other test has. It is dropped with this value, whoever is connected to it.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

/// A new database on the server that tests [share](super::url).
pub async fn database() -> Result<Database> {
    database_on(&shared::url().await?).await
}

/// A new database on the server at `url`.
pub async fn database_on(url: &str) -> Result<Database> {
    // Letters, digits and `_`: a name that needs no quotes.
    let name = format!("test_{}", Uuid::now_v7().simple());
    // Of the two templates, the one that nobody is ever connected to: PostgreSQL makes no copy of one that is in use.
    let made = wire::query(url, &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    made.context("cannot make a database")?;
    Ok(Database { server: url.to_owned(), name })
}

impl Database {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's address with this database in its path: what clients take.
    pub fn url(&self) -> String {
        with_path(&self.server, &self.name)
    }

    /// The same by another way, say a [`Proxy`](crate::Proxy)'s address.
    pub fn url_by(&self, address: SocketAddr) -> String {
        let url = self.url();
        let Some((scheme, rest)) = url.split_once("://") else { return url };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let who = authority.rsplit_once('@').map(|(who, _)| format!("{who}@")).unwrap_or_default();
        format!("{scheme}://{who}{address}/{path}")
    }

    /// The address of the server alone, with the database that it was given with.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Runs statements in it: see [`query`](super::query).
    pub async fn query(&self, sql: &str) -> Result<Vec<Row>> {
        wire::query(&self.url(), sql).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (std::mem::take(&mut self.server), std::mem::take(&mut self.name));
        // On a thread and a runtime of its own: the test's may be blocked by this very call, or be ending.
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            let drop_it = async { wire::query(&server, &statement).await.ok() };
            runtime.block_on(async { tokio::time::timeout(PATIENCE, drop_it).await.ok().flatten() })
        });
        // A failure is no failure of the test: the server is thrown away in any case.
        let _ = dropped.join();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_way_to_a_database_can_be_another() {
        let database = Database { server: "postgres://me@h:1/postgres?a=b".into(), name: String::new() };
        let database = std::mem::ManuallyDrop::new(database);
        assert_eq!(database.url_by("127.0.0.1:9".parse().unwrap()), "postgres://me@127.0.0.1:9/?a=b");
    }
}
