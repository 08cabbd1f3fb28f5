//! A client that loses its connection to a hub that is alone, and comes back.

use crate::world::{ALL, Client, Wall, World};
use hub_core::testkit::{Fault, FaultyStore};
use hub_core::{Bus, MemoryStore, Position};
use hub_server::Settings;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const MEMBER: &str = "0b6f2c1e-8d4a-4f7b-9c3d-5e6f7a8b9c0d";

#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
fn subscribe(opts: Value) -> Value {
    let mut frame = json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": opts});
    frame["opts"]["member"] = json!(MEMBER);
    frame
}

fn settle(op: &str, event: &Value) -> Value {
    json!({"op": op, "topic": "t", "group": "g", "id": event["event"]["id"]})
}

/// The client takes so many new events.
async fn take(world: &World, client: &mut Client, numbers: std::ops::RangeInclusive<u64>) -> Vec<Value> {
    let mut events = Vec::new();
    for n in numbers {
        world.bus().publish("t", json!(n)).await.unwrap();
        let event = client.next().await;
        assert_eq!(event["event"]["seq"], n, "{event}");
        events.push(event);
    }
    events
}

#[tokio::test]
async fn a_token_that_has_run_out_costs_a_client_none_of_its_leases() {
    let wall = Wall::new();
    let bus = Bus::builder(MemoryStore::new()).clock(wall.clone()).open().await.unwrap();
    let world = World::by(wall.clone(), bus, Settings::default()).await;
    let mut client = world.client_with(&wall.short(Some("ada"), ALL, 900)).await;
    client.ok(subscribe(json!({"maxAttempts": 1}))).await;
    let held = take(&world, &mut client, 1..=1).await;
    assert_eq!(client.next().await["code"], "token_expired");
    drop(client);

    let mut client = world.client_with(&wall.signed(Some("ada"), ALL, 3600)).await;
    let id = &held[0]["event"]["id"];
    let answer = client.ok(subscribe(json!({"maxAttempts": 1, "held": [id]}))).await;
    assert_eq!(answer["held"], json!([id]));
    client.ok(settle("ACK", &held[0])).await;
}

/// The leases would have run out while the client is away, each with a failure.
#[tokio::test]
async fn a_client_that_stays_away_has_one_event_blamed_however_short_its_leases_are() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(subscribe(json!({"maxAttempts": 1, "ackTimeoutMs": 3000}))).await;
    take(&world, &mut client, 1..=3).await;
    drop(client);

    let mut other = world.client(ALL).await;
    other.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    for n in 2..=3 {
        let event = other.next().await;
        assert_eq!((&event["event"]["seq"], &event["ctx"]["attempt"]), (&json!(n), &json!(2)), "{event}");
        other.ok(settle("ACK", &event)).await;
    }
    while world.bus().group("t", "g").unwrap().lag > 0 {
        tokio::task::yield_now().await;
    }
    let letters = world.bus().scan("dlq.t", Position::Earliest, None).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter: Value = serde_json::from_slice(letters[0].payload()).unwrap();
    assert_eq!(letter["original"]["seq"], 1);
}

/// The first connection has asked for the member and has no answer yet when the second one asks.
#[tokio::test]
async fn a_member_that_is_still_being_opened_is_taken_over_when_it_is_there() {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    let world = World::over(Bus::builder(store.clone()).open().await.unwrap(), Settings::default()).await;
    world.bus().publish("t", json!(1)).await.unwrap();
    let is_slow = Arc::new(AtomicBool::new(false));
    let seen = is_slow.clone();
    store.script(move |call| {
        let is_first = call == "commit" && !seen.swap(true, SeqCst);
        is_first.then_some(Fault::Delay(300))
    });
    let (mut first, mut second) = (world.client(ALL).await, world.client(ALL).await);
    let mut ask = subscribe(json!({"from": "earliest"}));
    ask["corr"] = json!("s");
    first.send(ask.clone()).await;
    while !is_slow.load(SeqCst) {
        tokio::task::yield_now().await;
    }
    second.ok(subscribe(json!({"from": "earliest"}))).await;
    let event = second.next().await;
    assert_eq!(event["event"]["seq"], 1, "{event}");

    let answer = first.next().await;
    assert_eq!((&answer["op"], &answer["corr"]), (&json!("OK"), &json!("s")));
    let mut told = first.next().await;
    if told["op"] == "EVENT" {
        // It had the event for a moment.
        told = first.next().await;
    }
    assert_eq!((&told["code"], &told["topic"]), (&json!("already_subscribed"), &json!("t")), "{told}");
    assert_eq!(world.bus().group("t", "g").unwrap().members, 1);
}
