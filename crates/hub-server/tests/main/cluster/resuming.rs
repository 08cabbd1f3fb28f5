//! A client that loses its connection comes back, and goes on with its leases.

use super::nodes::*;
use crate::world::Client;
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const MEMBER: &str = "0b6f2c1e-8d4a-4f7b-9c3d-5e6f7a8b9c0d";

/// Three hubs; the first owns the group.
pub struct Scene {
    pub nodes: Vec<Node>,
}

impl Scene {
    pub async fn new() -> Self {
        let cluster = Cluster::new();
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(cluster.node_with(Default::default(), watchful()).await);
        }
        nodes[0].owns("g").await;
        until("they know each other", || nodes.iter().all(|node| node.bus().hubs().len() == 3)).await;
        Self { nodes }
    }

    /// A client of one of the hubs. It has subscribed, and says that it holds these events.
    pub async fn member(&self, at: usize, held: &[Value]) -> (Client, Value) {
        let mut client = self.nodes[at].client().await;
        let held: Vec<&Value> = held.iter().map(|event| &event["event"]["id"]).collect();
        // A failure would be a dead letter.
        let opts = json!({"from": "earliest", "maxAttempts": 1, "member": MEMBER, "held": held});
        let answer = client.ok(subscribe("t", opts)).await;
        (client, answer)
    }

    pub async fn all_settled(&self) {
        until("everything is settled", || {
            let group = self.nodes[0].bus().group("t", "g").unwrap();
            (group.lag, group.inflight) == (0, 0)
        })
        .await;
        assert!(!self.nodes[0].bus().topics().iter().any(|topic| &**topic == "dlq.t"), "nothing has failed");
    }
}

pub fn ids(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| event["event"]["id"].clone()).collect()
}

/// The client loses its connection to one hub and comes back to another, or the same. It goes on with what it names, and what it
/// does not name is delivered again.
async fn comes_back(from: usize, to: usize) {
    let scene = Scene::new().await;
    let (mut client, answer) = scene.member(from, &[]).await;
    assert_eq!(answer["held"], json!([]), "it named nothing");
    scene.nodes[0].publish("t", 1..=4).await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(event(&mut client).await);
    }
    client.ok(ack(&events[3])).await;
    drop(client);

    let (mut client, answer) = scene.member(to, &[events[0].clone(), events[2].clone()]).await;
    let held: BTreeSet<String> = answer["held"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let named = [&events[0], &events[2]].map(|event| event["event"]["id"].to_string());
    assert_eq!(held, BTreeSet::from(named));
    let again = event(&mut client).await;
    assert_eq!((seq(&again), &again["ctx"]["attempt"]), (2, &json!(2)));

    scene.nodes[2].publish("t", [5]).await;
    let fifth = event(&mut client).await;
    assert_eq!(seq(&fifth), 5);
    let extend = json!({"op": "MODACK", "topic": "t", "group": "g", "id": events[0]["event"]["id"], "extend_ms": 60_000});
    let answer = client.ok(extend).await;
    assert!(answer["ack_deadline_ms"].as_u64().unwrap() > 50_000, "{answer}");
    for event in [&events[0], &events[2], &again, &fifth] {
        client.ok(ack(event)).await;
    }
    scene.all_settled().await;
    until("it is one member", || scene.nodes[0].members("t", "g") == 1).await;
}

macro_rules! ways {
    ($($case:ident: $from:literal, $to:literal;)+) => {
        $(#[tokio::test]
        async fn $case() {
            comes_back($from, $to).await;
        })+
    };
}

ways! {
    a_client_comes_back_to_the_owner: 0, 0;
    a_client_comes_back_to_the_same_edge: 1, 1;
    a_client_comes_back_through_another_edge: 1, 2;
    a_client_of_the_owner_comes_back_through_an_edge: 0, 1;
    a_client_of_an_edge_comes_back_to_the_owner: 1, 0;
}

/// Both connections of the client are open: the second one gets the member, and the first one hears of it once.
async fn takes_over(from: usize, to: usize) {
    let scene = Scene::new().await;
    let (mut first, _) = scene.member(from, &[]).await;
    scene.nodes[0].publish("t", [1, 2]).await;
    let events = [event(&mut first).await, event(&mut first).await];
    let (mut second, answer) = scene.member(to, &events).await;
    assert_eq!(answer["held"], json!(ids(&events)));
    let ended = first.next().await;
    assert_eq!((&ended["op"], &ended["code"]), (&json!("ERR"), &json!("already_subscribed")), "{ended}");
    assert_eq!((&ended["topic"], &ended["group"]), (&json!("t"), &json!("g")));

    scene.nodes[0].publish("t", 3..=20).await;
    for n in 3..=20 {
        let event = event(&mut second).await;
        assert_eq!((seq(&event), &event["ctx"]["attempt"]), (n, &json!(1)));
        second.ok(ack(&event)).await;
    }
    for event in &events {
        assert_eq!(first.err(ack(event)).await, "not_subscribed");
        second.ok(ack(event)).await;
    }
    scene.all_settled().await;
    assert!(first.is_quiet());
}

#[tokio::test]
async fn a_second_connection_takes_over_through_another_edge() {
    Box::pin(takes_over(1, 2)).await;
}

#[tokio::test]
async fn a_second_connection_takes_over_from_the_owner() {
    Box::pin(takes_over(0, 1)).await;
}

#[tokio::test]
async fn a_second_connection_takes_over_at_the_owner() {
    Box::pin(takes_over(1, 0)).await;
}

#[tokio::test]
async fn a_client_whose_hub_dies_goes_on_through_another() {
    let mut scene = Scene::new().await;
    let (mut client, _) = scene.member(1, &[]).await;
    scene.nodes[0].publish("t", [1, 2]).await;
    let events = [event(&mut client).await, event(&mut client).await];
    scene.nodes.remove(1).kill();
    let (mut client, answer) = scene.member(1, &events).await;
    assert_eq!(answer["held"], json!(ids(&events)));
    for event in &events {
        client.ok(ack(event)).await;
    }
    scene.all_settled().await;
}

#[tokio::test]
async fn a_client_that_comes_back_too_late_has_lost_its_leases() {
    let cluster = Cluster::new();
    let settings =
        Settings { limits: Limits { reconnect_grace: 0, ..Default::default() }, ..Default::default() };
    let owner = cluster.node_with(settings.clone(), watchful()).await;
    let edge = cluster.node_with(settings, watchful()).await;
    owner.owns("g").await;
    until("they know each other", || owner.bus().hubs().len() == 2).await;
    let opts = json!({"from": "earliest", "member": MEMBER});
    let mut client = edge.client().await;
    client.ok(subscribe("t", opts.clone())).await;
    owner.publish("t", [1]).await;
    let first = event(&mut client).await;
    drop(client);
    until("it has left", || owner.members("t", "g") == 0).await;

    let mut client = edge.client().await;
    let mut opts = opts;
    opts["held"] = json!([first["event"]["id"]]);
    assert_eq!(client.ok(subscribe("t", opts)).await["held"], json!([]));
    assert_eq!(event(&mut client).await["ctx"]["attempt"], 2);
}

#[tokio::test]
async fn a_lease_that_is_given_back_through_an_edge_counts_no_failure() {
    let scene = Scene::new().await;
    let (mut client, _) = scene.member(1, &[]).await;
    scene.nodes[0].publish("t", [1]).await;
    for attempt in 1..=3 {
        let event = event(&mut client).await;
        assert_eq!(event["ctx"]["attempt"], attempt);
        let give_back =
            json!({"op": "RETURN", "topic": "t", "group": "g", "ids": [event["event"]["id"]], "delay_ms": 5});
        let answer = client.ok(give_back).await;
        assert_eq!((&answer["returned"], &answer["unknown"]), (&json!(1), &json!([])));
    }
    let last = event(&mut client).await;
    client.ok(ack(&last)).await;
    scene.all_settled().await;
}
