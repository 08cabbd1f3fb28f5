//! Tokens that run out while they are used.

use crate::world::{ALL, Client, Wall, World};
use hub_core::{Bus, Config, MemoryStore};
use hub_server::Settings;
use hub_server::limits::Limits;
use serde_json::{Value, json};

/// Long enough to get something done before, also on a busy machine.
const SOON: u64 = 900;

async fn world(expiry_grace: u64) -> (World, Wall) {
    let wall = Wall::new();
    let bus = Bus::builder(MemoryStore::new()).config(Config::default()).clock(wall.clone());
    let settings = Settings { limits: Limits { expiry_grace, ..Limits::default() }, ..Settings::default() };
    (World::by(wall.clone(), bus.open().await.unwrap(), settings).await, wall)
}

fn subscribe(max_in_flight: u32) -> Value {
    let opts = json!({"maxInFlight": max_in_flight, "maxAttempts": 1, "ordering": "none"});
    json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts})
}

fn publish(n: u32) -> Value {
    json!({"op": "PUBLISH", "topic": "t", "payload": n})
}

fn settle(op: &str, event: &Value) -> Value {
    let mut frame = json!({"op": op, "topic": "t", "group": "g", "id": event["event"]["id"]});
    if op == "MODACK" {
        frame["extend_ms"] = json!(60_000);
    }
    frame
}

async fn events(client: &mut Client, n: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..n {
        let event = client.next().await;
        assert_eq!(event["op"], "EVENT", "{event}");
        events.push(event);
    }
    events
}

async fn told_that_it_expired(client: &mut Client) {
    let told = client.next().await;
    assert_eq!((&told["op"], &told["code"]), (&json!("ERR"), &json!("token_expired")), "{told}");
    assert!(told.get("corr").is_none() && told.get("topic").is_none(), "{told}");
}

#[tokio::test]
async fn a_token_that_runs_out_stops_deliveries_but_what_is_in_hand_can_be_settled() {
    let (world, wall) = world(60_000).await;
    let mut publisher = world.client_with(&wall.signed(None, ALL, 3600)).await;
    let mut client = world.client_with(&wall.short(None, ALL, SOON)).await;
    client.ok(subscribe(3)).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t"})).await;
    for n in 1..=3 {
        publisher.ok(publish(n)).await;
    }
    let mut held = events(&mut client, 6).await;
    held.retain(|event| event["group"] == "g");
    told_that_it_expired(&mut client).await;

    // Nothing of what comes now goes to it, though it has room; another member gets it.
    client.ok(settle("ACK", &held[0])).await;
    publisher.ok(publish(4)).await;
    let mut other = world.client_with(&wall.signed(None, ALL, 3600)).await;
    other.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    assert_eq!(events(&mut other, 1).await[0]["event"]["seq"], 4);

    for op in ["NACK", "MODACK"] {
        client.ok(settle(op, &held[if op == "NACK" { 1 } else { 2 }])).await;
    }
    for frame in [
        publish(9),
        json!({"op": "SUBSCRIBE", "topic": "u"}),
        json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"}),
        json!({"op": "PAUSE", "topic": "t", "group": "g"}),
        json!({"op": "RESUME", "topic": "t", "group": "g"}),
        json!({"op": "PUBLISH", "events": []}),
    ] {
        assert_eq!(client.err(frame.clone()).await, "token_expired", "{frame}");
    }
    assert_eq!(
        client.err(json!({"op": "AUTH", "token": wall.signed(Some("other"), ALL, 60)})).await,
        "jwt_invalid"
    );

    // A new token brings everything back: the reader without a group has missed nothing either.
    client.ok(json!({"op": "AUTH", "token": wall.signed(None, ALL, 3600)})).await;
    assert_eq!(events(&mut client, 1).await[0]["event"]["seq"], 4);
    client.ok(settle("ACK", &held[2])).await;
    other.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    let again = events(&mut client, 1).await;
    assert_eq!((&again[0]["event"]["seq"], &again[0]["group"]), (&json!(4), &json!("g")), "{again:?}");
}

#[tokio::test]
async fn a_token_that_is_not_renewed_costs_the_connection_and_counts_no_failure() {
    let (world, wall) = world(200).await;
    let mut publisher = world.client_with(&wall.signed(None, ALL, 3600)).await;
    let mut client = world.client_with(&wall.short(None, ALL, SOON)).await;
    client.ok(subscribe(10)).await;
    for n in 1..=2 {
        publisher.ok(publish(n)).await;
    }
    events(&mut client, 2).await;
    told_that_it_expired(&mut client).await;
    let close = client.closed().await.unwrap();
    assert_eq!(u16::from(close.code), 1008, "{close:?}");
    // With one attempt allowed, anything that counted would be a dead letter by now.
    let mut other = world.client_with(&wall.signed(None, ALL, 3600)).await;
    other.ok(subscribe(10)).await;
    let again = events(&mut other, 2).await;
    assert_eq!((&again[0]["ctx"]["attempt"], &again[1]["event"]["seq"]), (&json!(2), &json!(2)));
    assert!(!world.bus().has_topic("dlq.t"));
}

#[tokio::test]
async fn a_renewal_in_time_is_never_noticed() {
    let (world, wall) = world(0).await;
    let mut client = world.client_with(&wall.short(None, ALL, SOON)).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    client.ok(json!({"op": "AUTH", "token": wall.signed(None, ALL, 3600)})).await;
    // Longer than the first token held.
    tokio::time::sleep(std::time::Duration::from_millis(SOON + 100)).await;
    let answer = client.ok(publish(1)).await;
    assert_eq!(client.next().await["event"]["id"], answer["id"]);
}

#[tokio::test]
async fn a_token_that_has_run_out_is_no_way_in() {
    let (world, wall) = world(0).await;
    let token = wall.signed(None, ALL, 0);
    let mut client = world.stranger().await;
    assert_eq!(client.err(json!({"op": "AUTH", "token": token})).await, "token_expired");
    assert_eq!(client.err(publish(1)).await, "unauthorized");
    client.ok(json!({"op": "AUTH", "token": wall.signed(None, ALL, 60)})).await;
}

#[tokio::test]
async fn what_was_paused_before_a_token_ran_out_is_paused_after_it_was_renewed() {
    let (world, wall) = world(60_000).await;
    let mut publisher = world.client_with(&wall.signed(None, ALL, 3600)).await;
    let mut client = world.client_with(&wall.short(None, ALL, SOON)).await;
    for topic in ["t", "u"] {
        client.ok(json!({"op": "SUBSCRIBE", "topic": topic, "group": "g"})).await;
    }
    client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    told_that_it_expired(&mut client).await;
    client.ok(json!({"op": "AUTH", "token": wall.signed(None, ALL, 3600)})).await;
    publisher.ok(publish(1)).await;
    publisher.ok(json!({"op": "PUBLISH", "topic": "u", "payload": 1})).await;
    assert_eq!(client.next().await["topic"], "u");
    client.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    assert_eq!(client.next().await["topic"], "t");
}
