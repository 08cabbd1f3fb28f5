//! Push subscriptions over restarts, and on several hubs.

use super::endpoint::{Endpoint, SECRET, until};
use crate::cluster::nodes::{Cluster, Node};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn ask(node: &Node, method: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = node.ask(method, path, body.clone()).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn state(node: &Node) -> String {
    ask(node, "GET", "/push/crm", &Value::Null).await["state"].as_str().unwrap().to_owned()
}

fn definition(endpoint: &Endpoint) -> Value {
    json!({"topic": "t", "url": endpoint.url(), "secrets": [SECRET], "allowPrivate": true, "from": "earliest"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_hubs_one_delivers_and_another_when_that_one_is_gone() {
    let (cluster, endpoint) = (Cluster::new(), Endpoint::taking_all().await);
    let (first, second) = (cluster.node().await, cluster.node().await);
    ask(&first, "PUT", "/push/crm", &definition(&endpoint)).await;
    first.start_push();
    until(async || (state(&first).await == "active").then_some(())).await;
    second.start_push();
    let shown = until(async || {
        Some(ask(&second, "GET", "/push/crm", &Value::Null).await)
            .filter(|shown| shown["state"] == "elsewhere")
    })
    .await;
    assert_eq!(shown["owner"], format!("ws://{}/", first.address));
    for n in 1..=20 {
        let by = if n % 2 == 0 { &first } else { &second };
        by.hub.bus().publish("t", json!(n)).await.unwrap();
    }
    endpoint.received(20).await;
    until(async || first.hub.bus().group("t", "push.crm").filter(|group| group.floor == 20)).await;
    assert_eq!(endpoint.so_far().len(), 20, "each once");
    first.stop().await;
    until(async || (state(&second).await == "active").then_some(())).await;
    for n in 21..=30 {
        second.hub.bus().publish("t", json!(n)).await.unwrap();
    }
    let received = endpoint.received(30).await;
    let numbers: BTreeSet<u64> = received.iter().map(|one| one.data().as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=30).collect());
    assert_eq!(received.len(), 30, "what was acked before the stop does not come again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_hub_is_told_all_hubs_know() {
    let (cluster, endpoint) = (Cluster::new(), Endpoint::answering(&[410, 200]).await);
    let (first, second) = (cluster.node().await, cluster.node().await);
    first.start_push();
    ask(&second, "PUT", "/push/crm", &definition(&endpoint)).await;
    until(async || first.hub.bus().group("t", "push.crm").filter(|group| group.members == 1)).await;
    second.start_push();
    first.hub.bus().publish("t", json!(1)).await.unwrap();
    until(async || (state(&first).await == "paused").then_some(())).await;
    until(async || (state(&second).await == "paused").then_some(())).await;
    ask(&second, "POST", "/push/crm/resume", &Value::Null).await;
    endpoint.received(2).await;
    until(async || (state(&first).await == "active").then_some(())).await;
    ask(&second, "DELETE", "/push/crm", &Value::Null).await;
    until(async || first.hub.bus().group("t", "push.crm").filter(|group| group.members == 0)).await;
}
