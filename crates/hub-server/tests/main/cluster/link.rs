//! The connection between two hubs is lost, and both are alive.

use super::nodes::*;
use super::wire::Wire;
use crate::world::Client;
use hub_core::ClusterConfig;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// An owner that others reach over a wire, another hub, and a user there.
struct Scene {
    owner: Node,
    /// It lives for as long as its users.
    _edge: Node,
    wire: Wire,
    user: Client,
}

impl Scene {
    async fn new() -> Self {
        let cluster = Cluster::new();
        let wire = Wire::new().await;
        let config = ClusterConfig { address: format!("ws://{}/", wire.address), ..patient() };
        let owner = cluster.node_with(Default::default(), config).await;
        wire.lead_to(owner.address);
        let edge = cluster.node().await;
        owner.owns("g").await;
        until("they know each other", || owner.bus().hubs().len() == 2).await;
        let mut user = edge.client().await;
        user.ok(subscribe("t", json!({"from": "earliest", "maxInFlight": 5}))).await;
        Self { owner, _edge: edge, wire, user }
    }

    /// The user takes so many events, and holds them.
    async fn hold(&mut self, count: u64) -> Vec<Value> {
        self.owner.publish("t", 1..=count).await;
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(event(&mut self.user).await);
        }
        held
    }

    /// Somebody else, who would take whatever there is.
    async fn other(&self) -> Client {
        let mut other = self.owner.client().await;
        other.ok(subscribe("t", json!({}))).await;
        other
    }

    fn inflight(&self) -> usize {
        self.owner.bus().group("t", "g").unwrap().inflight
    }

    async fn all_settled(&self) {
        until("everything is settled", || {
            let group = self.owner.bus().group("t", "g").unwrap();
            (group.lag, group.inflight) == (0, 0)
        })
        .await;
        assert_eq!(self.owner.members("t", "g"), 2);
    }
}

/// What the user holds stays its own, and what was lost on the way is delivered.
async fn survive(cut: impl FnOnce(&Wire)) {
    let mut scene = Scene::new().await;
    let held = scene.hold(3).await;
    scene.wire.silence();
    scene.owner.publish("t", [4, 5]).await;
    until("they are on their way", || scene.inflight() == 5).await;
    let mut other = scene.other().await;
    cut(&scene.wire);
    scene.wire.carried(2).await;

    let mut seen: BTreeSet<u64> = held.iter().map(seq).collect();
    while seen.len() < 5 {
        let (client, event) = tokio::select! {
            event = event(&mut scene.user) => (&mut scene.user, event),
            event = event(&mut other) => (&mut other, event),
        };
        assert!(seen.insert(seq(&event)), "{event} is in somebody's hands");
        assert_eq!(event["ctx"]["attempt"], 1, "nobody has seen it before: {event}");
        client.ok(ack(&event)).await;
    }
    for event in &held {
        scene.user.ok(ack(event)).await;
    }
    scene.all_settled().await;
    // Everything that was given out to the others was given out before this.
    scene.user.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    scene.owner.publish("t", [6]).await;
    let last = event(&mut other).await;
    assert_eq!(seq(&last), 6, "{last}");
    other.ok(ack(&last)).await;
    scene.user.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    other.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    scene.owner.publish("t", [7]).await;
    assert_eq!(seq(&event(&mut scene.user).await), 7);
}

#[tokio::test]
async fn what_a_user_holds_stays_its_own_when_the_connection_between_two_hubs_is_lost() {
    Box::pin(survive(Wire::cut)).await;
}

#[tokio::test]
async fn what_a_user_holds_stays_its_own_when_the_owner_does_not_notice_the_loss() {
    Box::pin(survive(Wire::cut_near_end)).await;
}

#[tokio::test]
async fn what_a_user_holds_goes_to_others_when_its_hub_does_not_come_back() {
    let mut scene = Scene::new().await;
    let held = scene.hold(3).await;
    let mut other = scene.other().await;
    scene.wire.cut_for_good();
    for before in &held {
        let event = event(&mut other).await;
        assert_eq!((seq(&event), &event["ctx"]["attempt"]), (seq(before), &json!(2)), "{event}");
        other.ok(ack(&event)).await;
    }
    until("it is alone", || scene.owner.members("t", "g") == 1).await;
}

/// An ack that never reached the owner counts all the same.
async fn ack_into_the_void(cut: impl FnOnce(&Wire)) {
    let mut scene = Scene::new().await;
    let held = scene.hold(3).await;
    let mut other = scene.other().await;
    scene.wire.silence();
    for event in &held[..2] {
        scene.user.ok(ack(event)).await;
    }
    assert_eq!(scene.inflight(), 3, "the owner knows nothing of it");
    cut(&scene.wire);
    scene.wire.carried(2).await;
    until("the owner has heard of it", || scene.inflight() == 1).await;
    scene.user.ok(ack(&held[2])).await;
    scene.all_settled().await;
    scene.user.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    scene.owner.publish("t", [4]).await;
    let next = event(&mut other).await;
    assert_eq!(seq(&next), 4, "nothing else came: {next}");
}

#[tokio::test]
async fn an_ack_said_right_before_the_connection_is_lost_counts() {
    Box::pin(ack_into_the_void(Wire::cut)).await;
}

#[tokio::test]
async fn an_ack_said_right_before_a_loss_that_the_owner_does_not_notice_counts() {
    Box::pin(ack_into_the_void(Wire::cut_near_end)).await;
}

#[tokio::test]
async fn an_ack_said_long_before_a_silent_connection_is_found_dead_counts() {
    let mut scene = Scene::new().await;
    let held = scene.hold(2).await;
    let mut other = scene.other().await;
    scene.wire.silence();
    scene.user.ok(ack(&held[0])).await;
    // Longer than an owner that lives takes to save an ack that it has heard of.
    tokio::time::sleep(Duration::from_secs(7)).await;
    scene.user.ok(ack(&held[1])).await;
    assert_eq!(scene.inflight(), 2, "the owner knows nothing of it");
    scene.wire.cut();
    scene.wire.carried(2).await;
    until("the owner has heard of it", || scene.inflight() == 0).await;
    scene.all_settled().await;
    scene.user.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    scene.owner.publish("t", [3]).await;
    let next = event(&mut other).await;
    assert_eq!(seq(&next), 3, "nothing else came: {next}");
}

#[tokio::test]
async fn a_connection_that_is_lost_again_and_again_delivers_each_event_once() {
    let mut scene = Scene::new().await;
    let mut other = scene.other().await;
    let mut seen = BTreeSet::new();
    for round in 1..=5usize {
        scene.owner.publish("t", 1..=20).await;
        while seen.len() < 20 * round {
            let (client, event) = tokio::select! {
                event = event(&mut scene.user) => (&mut scene.user, event),
                event = event(&mut other) => (&mut other, event),
            };
            assert!(seen.insert(seq(&event)), "{event} came twice");
            client.ok(ack(&event)).await;
            if seen.len() == 20 * round - 10 {
                match round % 2 {
                    0 => scene.wire.cut(),
                    _ => scene.wire.cut_near_end(),
                }
            }
        }
        scene.wire.carried(round + 1).await;
    }
    scene.all_settled().await;
}

#[tokio::test]
async fn a_user_that_leaves_while_the_connection_is_lost_has_had_what_it_held() {
    let mut scene = Scene::new().await;
    let held = scene.hold(2).await;
    let mut other = scene.other().await;
    scene.wire.silence();
    scene.user.ok(ack(&held[0])).await;
    scene.user.send(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    scene.wire.cut();
    let event = event(&mut other).await;
    assert_eq!((seq(&event), &event["ctx"]["attempt"]), (2, &json!(2)), "the other was acked: {event}");
    other.ok(ack(&event)).await;
    until("it is alone, and everything is settled", || {
        let group = scene.owner.bus().group("t", "g").unwrap();
        (group.members, group.lag, group.inflight) == (1, 0, 0)
    })
    .await;
}
