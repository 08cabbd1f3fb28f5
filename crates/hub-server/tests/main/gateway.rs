//! The protocol, frame by frame.

use crate::world::{ALL, World};
use futures_util::SinkExt;
use hub_core::Config;
use hub_server::Settings;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn an_event_goes_from_one_socket_to_another_and_is_acked() {
    let world = World::new().await;
    let (mut publisher, mut consumer) = (world.client(ALL).await, world.client(ALL).await);
    consumer.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing"})).await;
    let answer = publisher
        .ok(json!({"op": "PUBLISH", "topic": "orders", "payload": {"n": 1}, "opts": {"key": "k"}}))
        .await;
    assert_eq!((&answer["seq"], &answer["durable"]), (&json!(1), &json!("memory")));
    let event = consumer.next().await;
    assert_eq!(
        event,
        json!({
            "op": "EVENT", "topic": "orders", "group": "billing",
            "event": {"id": answer["id"], "seq": 1, "ts": answer["ts"], "topic": "orders", "key": "k", "payload": {"n": 1}},
            "ctx": {"attempt": 1, "maxAttempts": 5, "ack_deadline_ms": 30000},
        })
    );
    let acked =
        consumer.ok(json!({"op": "ACK", "topic": "orders", "group": "billing", "id": answer["id"]})).await;
    assert_eq!(acked["id"], answer["id"]);
    assert_eq!(world.bus().group("orders", "billing").unwrap().floor, 1);
}

/// What is published by frames that come together, with whatever else is among them.
async fn answers_keep_their_order(world: World) {
    let mut client = world.client(ALL).await;
    let text = "x".repeat(900);
    let good = json!({"topic": "t", "payload": text});
    for n in 0..100 {
        let mut frame = match n % 5 {
            0 | 1 => json!({"topic": "t", "payload": text}),
            2 => json!({"events": [good, {"topic": "t"}, good]}),
            3 => json!({"events": [{"topic": "t"}, {"topic": "a..b", "payload": 1}]}),
            _ => json!({"topic": "a..b", "payload": 1}),
        };
        (frame["op"], frame["corr"]) = ("PUBLISH".into(), n.to_string().into());
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    let mut last = 0;
    let mut follows = |answer: &Value| {
        last += 1;
        assert_eq!(answer["seq"], last, "{answer}");
    };
    for n in 0..100 {
        let answer = client.next().await;
        assert_eq!(answer["corr"], n.to_string(), "{answer}");
        match n % 5 {
            0 | 1 => follows(&answer),
            2 => {
                follows(&answer["results"][0]);
                assert_eq!(answer["results"][1]["code"], "bad_request", "{answer}");
                follows(&answer["results"][2]);
            }
            3 => assert!(answer["results"][1]["code"].is_string(), "{answer}"),
            _ => assert_eq!(answer["op"], "ERR", "{answer}"),
        }
    }
}

#[tokio::test]
async fn frames_that_come_together_are_published_and_answered_in_their_order() {
    answers_keep_their_order(World::new().await).await;
}

#[tokio::test]
async fn frames_that_come_together_keep_their_order_when_there_is_little_room() {
    // Enough for two events, so that most of them have to wait.
    let config = Config { queue_bytes: 2_500, ..Config::default() };
    answers_keep_their_order(World::with(config, Settings::default()).await).await;
}

/// Each goes out again at once, so the order in which they are returned is the one in which they come.
#[tokio::test]
async fn events_that_are_returned_come_again_in_the_order_of_the_log() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let mut ids = Vec::new();
    for n in 1..=3 {
        world.bus().publish("t", json!(n)).await.unwrap();
        ids.push(client.next().await["event"]["id"].clone());
    }
    ids.reverse();
    client.send(json!({"op": "RETURN", "topic": "t", "group": "g", "ids": ids})).await;
    let mut seqs = Vec::new();
    while seqs.len() < 3 {
        let frame = client.next().await;
        if frame["op"] == "EVENT" {
            seqs.push(frame["event"]["seq"].as_u64().unwrap());
        }
    }
    assert_eq!(seqs, [1, 2, 3]);
}
