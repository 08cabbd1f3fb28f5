//! Schemas of several hubs over one store in memory.

use super::nodes::{Cluster, Node};
use hub_core::Code;
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(node: &Node, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = node.ask(method, path, body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Whether a hub refuses a payload for its schema.
async fn refuses(node: &Node, topic: &str, payload: Value) -> bool {
    match node.hub.bus().publish(topic, payload).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.code, Code::SchemaViolation, "{error}");
            true
        }
    }
}

/// Nothing takes so long unless it hangs.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let look = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_at_one_hub_is_enforced_at_the_others() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node().await, cluster.node().await);
    assert!(!refuses(&second, "orders", json!("text")).await);
    ask(&first, "PUT", "/schemas/orders", json!({"type": "integer"})).await;
    assert!(refuses(&first, "orders", json!("text")).await);
    until("the second hub enforces it", async || refuses(&second, "orders", json!("text")).await).await;
    // One that comes later enforces it from its first event on.
    let third = cluster.node().await;
    assert!(refuses(&third, "orders", json!("text")).await);
    ask(&third, "PUT", "/schemas/orders", json!({"type": ["integer", "string"]})).await;
    for node in [&first, &second] {
        until("the new version holds", async || !refuses(node, "orders", json!("text")).await).await;
    }
    ask(&second, "DELETE", "/schemas/orders", Value::Null).await;
    until("nothing is checked", async || !refuses(&first, "orders", json!(1.5)).await).await;
    until("nothing is checked", async || !refuses(&third, "orders", json!(1.5)).await).await;
}
