//! The program on MongoDB.

mod cluster;
mod failover;
mod lost;
mod outbox;
mod push;
mod refused;
mod schemas;
mod serving;
mod stopping;
mod waiting;
mod writers;

use crate::hub::{Hub, Running};
use reqwest::Method;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs what the test bed does beside the test, a proxy for one.
struct Bed(Runtime);

impl Bed {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self(runtime.unwrap())
    }

    #[track_caller]
    fn get<T>(&self, asked: impl Future<Output = anyhow::Result<T>>) -> T {
        self.0.block_on(asked).unwrap()
    }
}

/// Status and body of a GET without a token.
fn get(url: &str) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let response = reqwest::get(url).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    })
}

/// Asks again until the answer is as wanted.
#[track_caller]
fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ask() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The HTTP address of a hub that waits, which is in its log.
fn ops_of(process: &mut Running) -> String {
    process.logs("waiting for MongoDB");
    let at = process.log().split("ops=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    format!("http://{at}")
}

/// Publishes; status and answer.
fn publish(hub: &Hub, path: &str, payload: &str) -> (u16, Value) {
    let (status, body) = hub.ask(Method::POST, &format!("publish/{path}"), Some(hub.token()), payload);
    (status, serde_json::from_str(&body).unwrap())
}
