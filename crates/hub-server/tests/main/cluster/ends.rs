//! How a member at an edge ends, and what counts against its events.

use super::nodes::*;
use crate::world::{Client, ruled};
use hub_core::Position;
use hub_server::Settings;
use hub_server::acl::Policy;
use serde_json::{Value, json};

/// A hub that owns the group, an edge with a member that has three events in hand, and its client. One failure makes a dead
/// letter.
async fn holding(cluster: &Cluster) -> (Node, Node, Client, Vec<Value>) {
    let (owner, edge) = (cluster.node().await, cluster.node().await);
    owner.owns("g").await;
    owner.publish("t", 1..=3).await;
    let mut client = edge.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "maxAttempts": 1}))).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(event(&mut client).await);
    }
    (owner, edge, client, events)
}

/// Takes what is left with a member at the owner; answers seqs and attempts.
async fn left_at(owner: &Node, count: usize) -> Vec<(u64, u64)> {
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({}))).await;
    let mut left = Vec::new();
    for _ in 0..count {
        let event = event(&mut client).await;
        client.ok(ack(&event)).await;
        left.push((seq(&event), event["ctx"]["attempt"].as_u64().unwrap()));
    }
    left.sort_unstable();
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
    left
}

async fn dead_letters(owner: &Node) -> Vec<u64> {
    if !owner.bus().has_topic("dlq.t") {
        return Vec::new();
    }
    let letters = owner.bus().scan("dlq.t", Position::Earliest, None).await.unwrap();
    let seq = |event: &std::sync::Arc<hub_core::Event>| {
        let payload: Value = serde_json::from_slice(event.payload()).unwrap();
        payload["original"]["seq"].as_u64().unwrap()
    };
    letters.iter().map(seq).collect()
}

#[tokio::test]
async fn a_user_that_vanishes_has_its_oldest_event_blamed_and_no_other() {
    let cluster = Cluster::new();
    let (owner, _edge, client, _events) = holding(&cluster).await;
    drop(client);
    assert_eq!(left_at(&owner, 2).await, [(2, 2), (3, 2)]);
    assert_eq!(dead_letters(&owner).await, [1]);
}

#[tokio::test]
async fn what_was_acked_before_is_not_blamed() {
    let cluster = Cluster::new();
    let (owner, _edge, mut client, events) = holding(&cluster).await;
    client.send(ack(&events[0])).await;
    client.ok(ack(&events[1])).await;
    drop(client);
    until("the last one is given up", || owner.bus().group("t", "g").unwrap().lag == 0).await;
    assert_eq!(dead_letters(&owner).await, [3]);
}

#[tokio::test]
async fn who_unsubscribes_at_an_edge_blames_nothing() {
    let cluster = Cluster::new();
    let (owner, _edge, mut client, _events) = holding(&cluster).await;
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    assert_eq!(owner.members("t", "g"), 0, "it is answered when the owner knows");
    assert_eq!(left_at(&owner, 3).await, [(1, 2), (2, 2), (3, 2)]);
    assert!(dead_letters(&owner).await.is_empty());
}

#[tokio::test]
async fn an_edge_that_stops_or_dies_blames_nothing() {
    for dies in [false, true] {
        let cluster = Cluster::new();
        let (owner, edge, mut client, events) = holding(&cluster).await;
        client.ok(ack(&events[1])).await;
        match dies {
            true => {
                until("the ack has come", || owner.bus().group("t", "g").unwrap().inflight == 2).await;
                edge.kill();
            }
            false => edge.stop().await,
        }
        assert_eq!(left_at(&owner, 2).await, [(1, 2), (3, 2)], "dies: {dies}");
        assert!(dead_letters(&owner).await.is_empty());
    }
}

#[tokio::test]
async fn a_right_that_is_lost_at_the_edge_ends_the_subscription_and_blames_nothing() {
    let cluster = Cluster::new();
    let (owner, edge, mut client, _events) = holding(&cluster).await;
    let rules = json!([{"effect": "deny", "action": "subscribe", "topics": ["t"]}]);
    let claims = json!({"policy": {"rules": rules}});
    let policy = Policy::from_claims(claims.as_object().unwrap()).unwrap();
    edge.hub.apply(Settings { policy, ..Settings::default() });
    let ended = client.next().await;
    assert_eq!(
        (&ended["code"], &ended["topic"], &ended["group"]),
        (&json!("forbidden"), &json!("t"), &json!("g"))
    );
    until("the member has left", || owner.members("t", "g") == 0).await;
    assert_eq!(left_at(&owner, 3).await, [(1, 2), (2, 2), (3, 2)]);
    assert!(dead_letters(&owner).await.is_empty());
    let narrow = ruled(&json!([{"effect": "allow", "action": "subscribe", "topics": ["u"]}]));
    let mut other = edge.client_with(&narrow).await;
    assert_eq!(other.err(subscribe("t", json!({}))).await, "forbidden", "the owner is not even asked");
}

#[tokio::test]
async fn a_group_that_is_deleted_at_its_owner_ends_the_subscription_at_the_edge() {
    let cluster = Cluster::new();
    let (owner, _edge, mut client, _events) = holding(&cluster).await;
    owner.bus().delete_group("t", "g").await.unwrap();
    let ended = client.next().await;
    assert_eq!((&ended["op"], &ended["code"]), (&json!("ERR"), &json!("not_subscribed")), "{ended}");
    assert_eq!((&ended["topic"], &ended["group"]), (&json!("t"), &json!("g")));
}
