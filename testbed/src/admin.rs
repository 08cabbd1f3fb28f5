//! Commands to one server, whatever its role: over a connection of their own, with a limit.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc, oid::ObjectId};
use mongodb::options::ClientOptions;

/// A server that says nothing for this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a server says about itself.
#[derive(Debug)]
pub struct Hello {
    /// It takes writes.
    pub primary: bool,
    /// It follows a primary.
    pub secondary: bool,
    /// Of two that think they are primary, the one with the greater value is right.
    pub election: Option<ObjectId>,
}

/// Asks the server at `address` who it is.
pub async fn hello(address: SocketAddr) -> Result<Hello> {
    let answer = command(address, doc! { "hello": 1 }, PATIENCE).await?;
    let is = |name: &str| answer.get_bool(name).unwrap_or(false);
    Ok(Hello {
        primary: is("isWritablePrimary"),
        secondary: is("secondary"),
        election: answer.get("electionId").and_then(Bson::as_object_id),
    })
}

/// Runs a command on the `admin` database of the server at `address` and of no other.
pub async fn command(address: SocketAddr, command: Document, limit: Duration) -> Result<Document> {
    let name = command.keys().next().cloned().unwrap_or_default();
    let client = direct(address).await?;
    let run = async { Ok(client.database("admin").run_command(command).await?) };
    let answer = tokio::time::timeout(limit, run).await;
    let answer = answer.with_context(|| format!("{address} does not answer")).flatten();
    // Its background tasks would go on for a while, and complain about servers that tests kill.
    client.shutdown().immediate(true).await;
    answer.with_context(|| format!("`{name}` failed on {address}"))
}

/// A client that talks to the server at `address` alone.
async fn direct(address: SocketAddr) -> Result<Client> {
    let mut options = ClientOptions::parse(format!("mongodb://{address}/?directConnection=true")).await?;
    options.server_selection_timeout = Some(PATIENCE);
    options.connect_timeout = Some(PATIENCE);
    Ok(Client::with_options(options)?)
}
