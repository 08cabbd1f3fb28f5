//! Users that leave while nobody serves their group.

use super::nodes::*;
use crate::world::Client;
use serde_json::json;

/// A user is told that an event is settled, and leaves before the group has a new owner. The event stays settled.
async fn leaves(leave: impl AsyncFn(&mut Client)) {
    let cluster = Cluster::new();
    let owner = cluster.node_with(Default::default(), watchful()).await;
    let edge = cluster.node_with(Default::default(), watchful()).await;
    let other = cluster.node_with(Default::default(), watchful()).await;
    owner.owns("g").await;
    let mut leaver = edge.client().await;
    leaver.ok(subscribe("t", json!({"from": "earliest", "maxInFlight": 2}))).await;
    edge.publish("t", 1..=5).await;
    let (first, _second) = (event(&mut leaver).await, event(&mut leaver).await);
    owner.kill();
    leaver.ok(ack(&first)).await;
    leave(&mut leaver).await;
    drop(leaver);

    let mut stays = other.client().await;
    stays.ok(subscribe("t", json!({}))).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = event(&mut stays).await;
        stays.ok(ack(&event)).await;
        seen.push(seq(&event));
    }
    seen.sort_unstable();
    assert_eq!(seen, [2, 3, 4, 5], "all but the one that was acked");
}

#[tokio::test]
async fn what_was_acked_before_an_unsubscribe_stays_so_when_the_owner_was_dead_by_then() {
    let unsubscribe = json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"});
    Box::pin(leaves(async |client| drop(client.ok(unsubscribe.clone()).await))).await;
}

#[tokio::test]
async fn what_was_acked_before_the_user_vanished_stays_so_when_the_owner_was_dead_by_then() {
    Box::pin(leaves(async |_| {})).await;
}
