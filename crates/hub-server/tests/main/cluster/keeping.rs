//! What happens to the leases of a client that can come back while the hubs have troubles of their own.

use super::nodes::*;
use super::resuming::{MEMBER, Scene, ids};
use super::wire::Wire;
use hub_core::ClusterConfig;
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::json;

#[tokio::test]
async fn a_client_whose_hub_stops_goes_on_through_another() {
    let mut scene = Scene::new().await;
    let (mut client, _) = scene.member(1, &[]).await;
    scene.nodes[0].publish("t", [1, 2]).await;
    let events = [event(&mut client).await, event(&mut client).await];
    scene.nodes.remove(1).stop().await;
    let (mut client, answer) = scene.member(1, &events).await;
    assert_eq!(answer["held"], json!(ids(&events)));
    for event in &events {
        client.ok(ack(event)).await;
    }
    scene.all_settled().await;
}

/// The group has no owner when the client goes. The next owner keeps what the client held.
#[tokio::test]
async fn a_client_that_is_lost_together_with_the_owner_finds_its_leases_with_the_next_one() {
    let mut scene = Scene::new().await;
    let (mut client, _) = scene.member(1, &[]).await;
    scene.nodes[0].publish("t", [1, 2]).await;
    let events = [event(&mut client).await, event(&mut client).await];
    scene.nodes.remove(0).kill();
    drop(client);
    let inflight = |node: &Node| node.bus().group("t", "g").map_or(0, |group| group.inflight);
    until("the next owner knows of the leases", || scene.nodes.iter().any(|node| inflight(node) == 2)).await;
    let (mut client, answer) = scene.member(1, &events).await;
    assert_eq!(answer["held"], json!(ids(&events)));
    for event in &events {
        client.ok(ack(event)).await;
    }
    let lag = |node: &Node| node.bus().group("t", "g").map_or(0, |group| group.lag);
    until("everything is settled", || scene.nodes.iter().all(|node| (inflight(node), lag(node)) == (0, 0)))
        .await;
}

/// However many connections a client opens at once: one of them has the member, and every other one is told.
#[tokio::test]
async fn of_many_connections_with_one_member_one_stays() {
    let scene = Scene::new().await;
    let mut clients = Vec::new();
    for at in 0..12 {
        let mut client = scene.nodes[at % 3].client().await;
        client.send(subscribe("t", json!({"from": "earliest", "member": MEMBER}))).await;
        clients.push(client);
    }
    // Each is answered; those that another one has taken over from hear of it.
    let mut serving = Vec::new();
    for mut client in clients {
        let answer = client.next().await;
        if answer["op"] != "OK" {
            assert_eq!(answer["code"], "already_subscribed", "{answer}");
            continue;
        }
        serving.push(client);
    }
    until("it is one member", || scene.nodes[0].members("t", "g") == 1).await;
    scene.nodes[0].publish("t", [1]).await;
    let mut delivered = 0;
    for mut client in serving {
        let frame = client.next().await;
        match frame["op"] == "EVENT" {
            true => delivered += 1,
            false => assert_eq!(frame["code"], "already_subscribed", "{frame}"),
        }
    }
    assert_eq!(delivered, 1, "one goes on");
}

/// Leases that a client can resume are no worse off than others when only the connection between two hubs is lost.
#[tokio::test]
async fn a_lost_connection_between_hubs_costs_nothing_where_clients_have_no_time_to_come_back() {
    let cluster = Cluster::new();
    let wire = Wire::new().await;
    let config = ClusterConfig { address: format!("ws://{}/", wire.address), ..patient() };
    let limits = Limits { reconnect_grace: 0, ..Limits::default() };
    let owner = cluster.node_with(Settings { limits, ..Settings::default() }, config).await;
    wire.lead_to(owner.address);
    let edge = cluster.node().await;
    owner.owns("g").await;
    until("they know each other", || owner.bus().hubs().len() == 2).await;
    let mut client = edge.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "member": MEMBER}))).await;
    owner.publish("t", [1, 2]).await;
    let events = [event(&mut client).await, event(&mut client).await];
    let mut other = owner.client().await;
    other.ok(subscribe("t", json!({}))).await;
    wire.cut();
    wire.carried(2).await;
    for event in &events {
        client.ok(ack(event)).await;
    }
    until("everything is settled", || {
        let group = owner.bus().group("t", "g").unwrap();
        (group.lag, group.inflight) == (0, 0)
    })
    .await;
    owner.publish("t", [3, 4]).await;
    let next = tokio::select! {
        next = event(&mut other) => next,
        next = event(&mut client) => next,
    };
    assert!(seq(&next) > 2, "nothing came again: {next}");
}
