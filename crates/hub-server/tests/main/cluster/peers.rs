//! What hubs may, and nobody else.

use super::nodes::*;
use crate::world::{ALL, Client, SECRET, token};
use hub_core::store::HubId;
use hub_core::{Clock, SystemClock};
use hub_server::Settings;
use hub_server::limits::Limits;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// A token as a hub makes it, signed with `key`.
fn hubs_token(key: &[u8], from: HubId, to: HubId) -> String {
    let header = Header { kid: Some("event-hub-cluster".into()), ..Header::new(Algorithm::HS256) };
    let claims = json!({"aud": "event-hub-cluster", "hub": from.to_string(), "to": to.to_string(), "exp": SystemClock::new().wall() / 1000 + 30});
    jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(key)).unwrap()
}

/// The key of the tests' cluster, worked out anew.
fn real_key() -> Vec<u8> {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    aws_lc_rs::hmac::sign(&key, b"event-hub cluster key of JWT_SECRET").as_ref().to_vec()
}

async fn peer(node: &Node) -> Client {
    peer_as(node, HubId::random()).await
}

async fn peer_as(node: &Node, hub: HubId) -> Client {
    let mut client = Client::open(node.address).await;
    let to = node.bus().hub().unwrap().id;
    client.ok(json!({"op": "AUTH", "token": hubs_token(&real_key(), hub, to)})).await;
    client
}

/// A SUBSCRIBE of a member that its hub calls so.
fn subscribe_as(member: HubId) -> Value {
    let mut frame = subscribe("t", json!({"maxInFlight": 1}));
    frame["member"] = json!(member.to_string());
    frame
}

#[tokio::test]
async fn a_member_of_one_hub_is_not_given_to_another() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let (mut one, mut two) = (peer(&node).await, peer(&node).await);
    let member = HubId::random();
    one.ok(subscribe_as(member)).await;
    two.ok(subscribe_as(member)).await;
    assert_eq!(node.members("t", "g"), 2);
    node.publish("t", [1, 2]).await;
    for client in [&mut one, &mut two] {
        let event = event(client).await;
        client.ok(ack(&event)).await;
    }
}

/// A SUBSCRIBE of a member that its client has just opened and can resume.
fn subscribe_for_client(member: HubId) -> Value {
    let mut frame = subscribe("t", json!({"from": "earliest", "maxAttempts": 1}));
    frame["member"] = json!(HubId::random().to_string());
    frame["client_member"] = json!(member.to_string());
    frame["resumed"] = json!([]);
    frame
}

#[tokio::test]
async fn a_client_that_is_lost_with_nothing_in_hand_blames_no_event_on_the_way() {
    let cluster = Cluster::new();
    let limits = Limits { reconnect_grace: 0, ..Limits::default() };
    let node = cluster.node_with(Settings { limits, ..Settings::default() }, patient()).await;
    let mut hub = peer(&node).await;
    hub.ok(subscribe_for_client(HubId::random())).await;
    node.publish("t", [1]).await;
    event(&mut hub).await;
    hub.ok(json!({"op": "DETACH", "topic": "t", "group": "g"})).await;
    let mut client = node.client().await;
    client.ok(subscribe("t", json!({}))).await;
    let again = event(&mut client).await;
    assert_eq!(seq(&again), 1, "it is no dead letter");
    client.ok(ack(&again)).await;
}

#[tokio::test]
async fn a_hub_hears_what_is_left_of_the_time_of_what_its_member_holds() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let mut hub = peer(&node).await;
    hub.ok(subscribe_for_client(HubId::random())).await;
    node.publish("t", [1]).await;
    let held = event(&mut hub).await;
    let answer = hub.ok(json!({"op": "HELD", "topic": "t", "group": "g"})).await;
    assert_eq!(answer["held"][0]["id"], held["event"]["id"]);
    let left = answer["held"][0]["left_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&left), "{answer}");
}

/// The hub that had the member may still have acks to say when the client has connected anew.
#[tokio::test]
async fn what_a_hub_says_of_a_member_that_was_taken_over_counts_until_it_hangs_up() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let (mut old, mut new) = (peer(&node).await, peer(&node).await);
    let member = HubId::random();
    old.ok(subscribe_for_client(member)).await;
    node.publish("t", [1, 2]).await;
    let events = [event(&mut old).await, event(&mut old).await];
    let mut frame = subscribe_for_client(member);
    frame["resumed"] = json!([events[1]["event"]["id"]]);
    new.send(frame).await;
    let told = old.next().await;
    assert_eq!(told["code"], "already_subscribed", "{told}");
    old.send(ack(&events[0])).await;
    drop(old);
    assert_eq!(new.next().await["op"], "OK");
    new.ok(ack(&events[1])).await;
    until("everything is settled", || node.bus().group("t", "g").unwrap().lag == 0).await;
    assert!(new.is_quiet(), "nothing came again");
}

#[tokio::test]
async fn a_member_that_was_taken_over_is_released_though_its_hub_says_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let (mut old, mut new) = (peer(&node).await, peer(&node).await);
    let member = HubId::random();
    old.ok(subscribe_for_client(member)).await;
    node.publish("t", [1]).await;
    let held = event(&mut old).await;
    let mut frame = subscribe_for_client(member);
    frame["resumed"] = json!([held["event"]["id"]]);
    new.ok(frame).await;
    new.ok(ack(&held)).await;
    old.closed().await;
    assert_eq!(node.members("t", "g"), 1);
}

#[tokio::test]
async fn a_hub_that_connects_a_member_anew_ends_the_connection_that_it_had() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let (hub, member) = (HubId::random(), HubId::random());
    let (mut old, mut new) = (peer_as(&node, hub).await, peer_as(&node, hub).await);
    let mut bad = subscribe("t", json!({}));
    bad["member"] = json!("somebody");
    assert_eq!(old.err(bad).await, "bad_request");
    old.ok(subscribe_as(member)).await;
    // One of another name is another one.
    new.ok(subscribe_as(HubId::random())).await;
    assert_eq!(node.members("t", "g"), 2);
    new.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    new.ok(subscribe_as(member)).await;
    old.closed().await;
    assert_eq!(node.members("t", "g"), 1);
    node.publish("t", [1]).await;
    assert_eq!(seq(&event(&mut new).await), 1);
}

#[tokio::test]
async fn a_hubs_token_is_taken_by_the_hub_that_it_is_for_and_by_no_other() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node().await, cluster.node().await);
    let (me, to) = (HubId::random(), one.bus().hub().unwrap().id);
    let good = hubs_token(&real_key(), me, to);
    for (node, token, taken) in [
        (&one, good.clone(), true),
        (&two, good.clone(), false),
        (&one, hubs_token(SECRET.as_bytes(), me, to), false),
        (&one, hubs_token(b"", me, to), false),
    ] {
        let mut client = Client::open(node.address).await;
        let answer = client.ask(json!({"op": "AUTH", "token": token})).await;
        assert_eq!(answer["op"] == "OK", taken, "{answer}");
        assert!(!answer.to_string().contains(&token));
    }
    let mut client = one.client().await;
    assert_eq!(client.err(json!({"op": "AUTH", "token": good})).await, "jwt_invalid", "a user stays a user");
    let answer =
        reqwest::Client::new().get(format!("http://{}/hubs", one.ops)).bearer_auth(&good).send().await;
    assert_eq!(answer.unwrap().status(), 401, "HTTP is for users");
}

#[tokio::test]
async fn a_hub_that_is_alone_takes_no_hubs_tokens() {
    let world = crate::world::World::new().await;
    let mut client = world.stranger().await;
    let token = hubs_token(&real_key(), HubId::random(), HubId::random());
    assert_eq!(client.err(json!({"op": "AUTH", "token": token})).await, "jwt_invalid");
}

#[tokio::test]
async fn what_is_between_hubs_is_refused_from_users() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let mut users = [node.client().await, node.client_with(crate::world::STATIC).await];
    for client in &mut users {
        for (member, value) in [
            ("held", json!([])),
            ("settled", json!([])),
            ("members", json!(1)),
            ("member", json!(HubId::random().to_string())),
            ("paused", json!(true)),
            ("client_member", json!(HubId::random().to_string())),
            ("resumed", json!([])),
        ] {
            let mut frame = subscribe("t", json!({}));
            frame[member] = value;
            let answer = client.ask(frame).await;
            assert_eq!(answer["code"], "bad_request", "{answer}");
            assert!(answer["msg"].as_str().unwrap().starts_with(member), "{answer}");
        }
        for op in ["RELEASE", "DETACH", "HELD", "BRING", "LIST", "SEEK", "DELETE"] {
            let frame =
                json!({"op": op, "topic": "t", "group": "g", "ids": [], "opts": {"from": "earliest"}});
            assert_eq!(client.err(frame).await, "unknown_op", "{op}");
        }
    }
    // Claims do not make a hub.
    let claims = json!({"hub": HubId::random().to_string(), "to": node.bus().hub().unwrap().id.to_string(), "aud": "event-hub-cluster", "scopes": ALL, "exp": 4_000_000_000u64});
    let forged = jsonwebtoken::encode(
        &Header::new(Algorithm::HS256),
        &claims,
        &EncodingKey::from_secret(SECRET.as_bytes()),
    )
    .unwrap();
    let mut client = node.client_with(&forged).await;
    assert_eq!(client.err(json!({"op": "RELEASE", "topic": "t", "group": "g"})).await, "unknown_op");
}

#[tokio::test]
async fn a_hub_may_have_members_and_nothing_that_a_user_needs_a_token_for() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let mut client = peer(&node).await;
    for frame in [
        json!({"op": "PUBLISH", "topic": "t", "payload": 1}),
        json!({"op": "PUBLISH", "events": []}),
        json!({"op": "SUBSCRIBE", "topic": "t"}),
        json!({"op": "AUTH", "token": token(ALL)}),
    ] {
        let answer = client.ask(frame).await;
        assert_eq!((&answer["op"], &answer["code"]), (&json!("ERR"), &json!("forbidden")), "{answer}");
    }
    client.ok(subscribe("t", json!({}))).await;
    node.publish("t", [1]).await;
    let event = event(&mut client).await;
    client.ok(ack(&event)).await;
}

#[tokio::test]
async fn a_hub_that_asks_the_wrong_one_is_told_so_and_not_forwarded() {
    let cluster = Cluster::new();
    let (owner, other) = (cluster.node().await, cluster.node().await);
    owner.owns("g").await;
    let mut client = peer(&other).await;
    assert_eq!(client.err(subscribe("t", json!({}))).await, "not_owner");
    assert_eq!(client.err(json!({"op": "LIST", "topic": "t", "group": "g"})).await, "not_owner");
    owner.publish("t", [1]).await;
    until("it heard of the topic", || other.bus().has_topic("t")).await;
    let seek = json!({"op": "SEEK", "topic": "t", "group": "g", "opts": {"from": "earliest"}});
    assert_eq!(client.err(seek).await, "not_owner");
    assert_eq!(owner.members("t", "g"), 0);
}

#[tokio::test]
async fn what_a_hub_says_is_bounded_and_checked_too() {
    let cluster = Cluster::new();
    let node = cluster.node().await;
    let mut client = peer(&node).await;
    let bad = |held: Value| {
        let mut frame = subscribe("t", json!({}));
        frame["held"] = held;
        frame
    };
    for held in [
        json!(1),
        json!([1]),
        json!([{"topic": "t"}]),
        json!([{"topic": "not a topic", "id": HubId::random().to_string(), "seq": 1, "attempt": 1}]),
    ] {
        assert_eq!(client.err(bad(held.clone())).await, "bad_request", "{held}");
    }
    let one = json!({"topic": "t", "id": HubId::random().to_string(), "seq": 1, "attempt": 1});
    let many = vec![one; 25_000];
    for _ in 0..4 {
        client.ok(json!({"op": "BRING", "held": many, "settled": []})).await;
    }
    assert_eq!(client.err(json!({"op": "BRING", "held": many, "settled": []})).await, "too_large");
}

#[tokio::test]
async fn connections_of_hubs_take_no_seats_and_have_no_rates() {
    let cluster = Cluster::new();
    let limits = Limits { connections_per_address: 3, connection_rate: Some(20), ..Limits::default() };
    let owner = cluster.node_with(Settings { limits, ..Settings::default() }, patient()).await;
    let edge = cluster.node().await;
    owner.owns("g").await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = edge.client().await;
        client.ok(subscribe("t", json!({"maxInFlight": 1}))).await;
        clients.push(client);
    }
    assert_eq!(owner.members("t", "g"), 6);
    edge.publish("t", 1..=60).await;
    let mut tasks = Vec::new();
    for mut client in clients {
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let event = event(&mut client).await;
                client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
                client.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
                client.send(ack(&event)).await;
            }
            client
        }));
    }
    for task in tasks {
        // Somebody may have got less than ten because others got more.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1500), task).await;
    }
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
}

#[tokio::test]
async fn hubs_reach_each_other_over_tls_if_they_trust_the_certificate() {
    let cluster = Cluster::new();
    let pair = Pair::new();
    let (owner, plain) = (cluster.secure_node(&pair).await, cluster.node().await);
    owner.owns("g").await;
    // One that does not trust it has no way there, and says so to its user in the end.
    let mut client = plain.client().await;
    let refused = client.ask(subscribe("t", json!({}))).await;
    assert_eq!(refused["code"], "unavailable", "{refused}");
    assert!(refused["msg"].as_str().unwrap().contains("certificate"), "{refused}");
    let other = cluster.secure_node(&pair).await;
    let connection = hub_client::Target::new(format!("wss://localhost:{}/", other.address.port())).unwrap();
    let connection = connection.root_certificates(&pair.pem).unwrap();
    let connection = hub_client::Connection::connect(&connection).await.unwrap();
    connection.authenticate(&token(ALL)).await.unwrap();
    let request = hub_client::SubscribeRequest::new("t", Some("g"));
    let mut deliveries = connection.subscribe(request).await.unwrap();
    assert_eq!(owner.members("t", "g"), 1);
    other.publish("t", [1]).await;
    let hub_client::Arrival::Event(delivered) = deliveries.recv().await.unwrap() else { panic!("no event") };
    assert_eq!(delivered.event.seq(), 1);
}
