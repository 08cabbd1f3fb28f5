//! Readers that cannot keep up.

use crate::world::{ALL, Client, World, token};
use hub_core::Config;
use serde_json::{Value, json};

/// A reader is behind by more than a thousand events before it is told.
const EVENTS: u64 = 2_000;
/// Together far more than sockets take: what a client does not read is not delivered.
const PAYLOAD_BYTES: usize = 16 << 10;

async fn narrow(world: &World) -> Client {
    let mut client = Client::open_narrow(world.address).await;
    client.ok(json!({"op": "AUTH", "token": token(ALL)})).await;
    client
}

async fn flood(world: &World, topic: &str, events: u64) {
    let payload = json!("x".repeat(PAYLOAD_BYTES));
    for _ in 0..events {
        world.bus().publish(topic, payload.clone()).await.unwrap();
    }
}

/// Reads on until something is missing: the seq before it, and the frame that says so.
async fn until_lagged(reader: &mut Client, events: impl Fn(&Value) -> Vec<Value>) -> (u64, Value) {
    let mut last = 0;
    loop {
        let frame = reader.next().await;
        if frame["op"] == "LAGGED" {
            return (last, frame);
        }
        for event in events(&frame) {
            last += 1;
            assert_eq!(event["seq"], last, "in order, nothing left out without a word");
        }
    }
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_how_much_it_missed_and_goes_on_at_the_newest() {
    let world = World::with(Config { tail_bytes: 1 << 20, ..Config::default() }, Default::default()).await;
    let mut reader = narrow(&world).await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "news"})).await;
    flood(&world, "news", EVENTS).await;
    let (last, lagged) = until_lagged(&mut reader, |frame| vec![frame["event"].clone()]).await;
    assert!(last > 0);
    assert_eq!(lagged, json!({"op": "LAGGED", "topic": "news", "missed": EVENTS - last}));
    world.bus().publish("news", json!("next")).await.unwrap();
    let next = reader.next().await;
    assert_eq!((&next["event"]["seq"], &next["event"]["payload"]), (&json!(EVENTS + 1), &json!("next")));
}

#[tokio::test]
async fn of_a_pattern_the_topic_that_was_missed_is_named_and_batches_keep_their_order() {
    let world = World::with(Config { tail_bytes: 1 << 20, ..Config::default() }, Default::default()).await;
    let mut reader = narrow(&world).await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "news.*", "opts": {"batch": true, "batchSize": 10}})).await;
    flood(&world, "news.local", EVENTS).await;
    let parts = |frame: &Value| {
        let events = frame["events"].as_array().unwrap();
        events.iter().map(|part| part["event"].clone()).collect()
    };
    let (last, lagged) = until_lagged(&mut reader, parts).await;
    assert_eq!(
        lagged,
        json!({"op": "LAGGED", "topic": "news.*", "of": "news.local", "missed": EVENTS - last})
    );
    world.bus().publish("news.local", json!("next")).await.unwrap();
    assert_eq!(reader.next().await["events"][0]["event"]["seq"], EVENTS + 1);
}

#[tokio::test]
async fn a_member_of_a_group_that_did_not_read_for_a_while_misses_nothing() {
    let world = World::with(Config { tail_bytes: 1 << 20, ..Config::default() }, Default::default()).await;
    let mut reader = narrow(&world).await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "news", "group": "g"})).await;
    flood(&world, "news", 1_000).await;
    for seq in 1..=1_000 {
        let event = reader.next().await;
        assert_eq!((&event["event"]["seq"], &event["ctx"]["attempt"]), (&json!(seq), &json!(1)));
        reader.send(json!({"op": "ACK", "topic": "news", "group": "g", "id": event["event"]["id"]})).await;
    }
    // An answer to something else comes behind what the acks did.
    reader.ok(json!({"op": "UNSUBSCRIBE", "topic": "news", "group": "g"})).await;
    assert_eq!(world.bus().group("news", "g").unwrap().floor, 1_000);
}
