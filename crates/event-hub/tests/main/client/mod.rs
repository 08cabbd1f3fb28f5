//! `hub-client` against the real program.

mod connection;
mod killed;
mod talk;

use crate::hub::Hub;
use hub_client::{Client, Connection, Target};
use std::time::Duration;

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Runs clients on threads of their own.
fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future);
}

fn target(hub: &Hub) -> Target {
    Target::new(hub.ws()).unwrap()
}

async fn connection(hub: &Hub) -> Connection {
    let connection = soon(Connection::connect(&target(hub))).await.unwrap();
    soon(connection.authenticate(hub.token())).await.unwrap();
    connection
}

async fn client(hub: &Hub) -> Client {
    let (first, longest) = (Duration::from_millis(5), Duration::from_millis(200));
    let builder = Client::builder(target(hub)).token(hub.token());
    let builder = builder.backoff(first, longest).reconnect_within(first);
    soon(Box::pin(builder.connect())).await.unwrap()
}
