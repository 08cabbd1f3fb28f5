//! Clients that are not ours, under Node. `cargo xtask test` installs what they need and says where everything is.

use crate::world::{ALL, World, token};
use std::process::{Command, Output};
use std::time::Duration;

/// Where npm's packages are, and the page with the seeds' client.
const SETTINGS: [&str; 2] = ["NODE_PATH", "EVENT_HUB_SEEDS"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Node and npm packages: run by `cargo xtask test`"]
async fn the_seeds_client_works_unchanged() {
    let [packages, seeds] =
        SETTINGS.map(|name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set")));
    let world = World::new().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocol/node/seeds-client.cjs");
    let mut node = Command::new("node");
    node.arg(script)
        .env("NODE_PATH", packages)
        .env("SEEDS", seeds)
        .env("HUB_URL", format!("ws://{}/", world.address))
        .env("HUB_TOKEN", token(ALL));
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || node.output().unwrap()).await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.starts_with("held: ")).count(), 6, "{stdout}");

    // What it acked is settled, and only that: the last event came after it had left.
    let settled = |topic| world.bus().group(topic, "ops").unwrap().floor;
    let acks = async {
        while (settled("process.state"), settled("fence")) != (1, 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), acks).await.expect("the last acks in time");
    assert_eq!(settled("heartbeat.received"), 2);
}
