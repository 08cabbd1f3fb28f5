//! A stop under load.

use crate::world::{ALL, Client, World};
use futures_util::{SinkExt, StreamExt};
use hub_core::{Bus, MemoryStore, Position};
use hub_server::Settings;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

const PATIENCE: Duration = Duration::from_secs(15);

/// The next frame, or the code of the close.
async fn frame(client: &mut Client) -> Result<Value, u16> {
    loop {
        match tokio::time::timeout(PATIENCE, client.socket.next()).await.expect("a frame in time") {
            Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(close))) => return Err(close.unwrap().code.into()),
            Some(Ok(_)) => {}
            other => panic!("no close: {other:?}"),
        }
    }
}

/// Acks what it gets until the hub stops: the seqs that it acked.
async fn consume(mut client: Client) -> Vec<u64> {
    let mut acked = Vec::new();
    loop {
        match frame(&mut client).await {
            Ok(event) => {
                assert_eq!(event["op"], "EVENT", "{event}");
                let ack = json!({"op": "ACK", "topic": "t", "group": "g", "id": event["event"]["id"]});
                client.send(ack).await;
                acked.push(event["event"]["seq"].as_u64().unwrap());
            }
            Err(code) => {
                assert_eq!(code, 1012);
                return acked;
            }
        }
    }
}

#[tokio::test]
async fn a_stop_answers_what_was_sent_and_takes_the_acks_that_were_sent() {
    let store = Arc::new(MemoryStore::new());
    let bus = Bus::builder_over(store.clone()).open().await.unwrap();
    let world = World::over(bus, Settings::default()).await;
    let mut consumers = Vec::new();
    for _ in 0..2 {
        let mut client = world.client(ALL).await;
        client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"maxInFlight": 50}})).await;
        consumers.push(tokio::spawn(consume(client)));
    }
    let mut publishers = Vec::new();
    for _ in 0..4 {
        let mut client = world.client(ALL).await;
        for corr in 0..1500 {
            let publish = json!({"op": "PUBLISH", "corr": corr.to_string(), "topic": "t", "payload": corr});
            client.socket.feed(Message::text(publish.to_string())).await.unwrap();
        }
        client.socket.flush().await.unwrap();
        publishers.push(client);
    }
    assert_eq!(world.hub.drain(PATIENCE).await, 0);

    let mut published = HashSet::new();
    for mut client in publishers {
        let mut answered = HashSet::new();
        let code = loop {
            match frame(&mut client).await {
                Ok(answer) => {
                    assert!(answered.insert(answer["corr"].to_string()), "answered twice: {answer}");
                    match answer["op"] == "OK" {
                        true => assert!(published.insert(answer["seq"].as_u64().unwrap())),
                        false => assert_eq!(answer["code"], "unavailable", "{answer}"),
                    }
                }
                Err(code) => break code,
            }
        };
        assert_eq!((code, answered.len()), (1012, 1500));
    }
    let mut acked = HashSet::new();
    for consumer in consumers {
        for seq in consumer.await.unwrap() {
            assert!(acked.insert(seq), "{seq} was delivered twice");
        }
    }
    world.bus().stop().await.unwrap();

    let bus = Bus::builder_over(store).open().await.unwrap();
    assert_eq!(
        bus.bounds("t").await.unwrap().last,
        published.len() as u64,
        "stored, and what was said of it"
    );
    let mut group = bus.subscribe("t").group("g").open().await.unwrap();
    for _ in acked.len()..published.len() {
        let delivery = tokio::time::timeout(PATIENCE, group.recv()).await.unwrap().unwrap();
        let seq = delivery.event().seq();
        assert!(published.remove(&seq) && !acked.contains(&seq), "{seq} was acked");
        delivery.ack().unwrap();
    }
    assert_eq!(bus.group("t", "g").unwrap().lag, 0);
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn readers_that_are_stuck_do_not_hold_up_a_stop_and_nothing_counts_against_them() {
    let world = World::new().await;
    let mut stuck = Vec::new();
    for n in 0..10 {
        let mut client = world.client(ALL).await;
        let mut subscribe = json!({"op": "SUBSCRIBE", "topic": "t", "opts": {"from": "earliest"}});
        if n % 2 == 0 {
            subscribe["group"] = json!("g");
            subscribe["opts"]["maxAttempts"] = json!(1);
        }
        client.ok(subscribe).await;
        stuck.push(client);
    }
    // More than the socket's buffers take.
    let event = json!({"topic": "t", "payload": "x".repeat(3000)});
    let mut publisher = world.client(ALL).await;
    for _ in 0..40 {
        publisher.ok(json!({"op": "PUBLISH", "events": vec![&event; 1000]})).await;
    }
    let mut idle = world.stranger().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(world.hub.drain(PATIENCE).await, 0);
    assert!(begun.elapsed() < PATIENCE);
    for client in [&mut idle, &mut publisher] {
        assert_eq!(u16::from(client.closed().await.unwrap().code), 1012);
    }
    assert!(!world.bus().has_topic("dlq.t"));
    let mut group = world.bus().subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(group.recv().await.unwrap().event().seq(), 1);
    drop(stuck);
}

#[tokio::test]
async fn a_hub_that_stops_takes_no_new_connections() {
    let world = World::new().await;
    let address = world.address;
    let mut client = world.client(ALL).await;
    let draining = world.hub.clone();
    let draining = tokio::spawn(async move { draining.drain(PATIENCE).await });
    assert_eq!(u16::from(client.closed().await.unwrap().code), 1012);
    assert_eq!(draining.await.unwrap(), 0);
    let refused = tokio_tungstenite::connect_async(format!("ws://{address}/")).await;
    assert!(refused.is_err());
}
