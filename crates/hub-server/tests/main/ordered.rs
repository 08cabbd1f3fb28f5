//! Batches that are published in order: what is around them on their connection. The frames are in the fixtures.

use crate::world::{ALL, Client, World};
use futures_util::SinkExt;
use hub_core::prometheus_client::encoding::text::encode;
use hub_core::prometheus_client::registry::Registry;
use hub_core::{Bus, Config, MemoryStore, Position, Watched};
use hub_server::Settings;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

fn id(n: u64) -> String {
    format!("0190a1b2-0000-7000-8000-{n:012x}")
}

fn event(n: u64) -> Value {
    json!({"topic": "t", "payload": n, "opts": {"id": id(n)}})
}

/// The same id with another payload.
fn twin(n: u64) -> Value {
    json!({"topic": "t", "payload": "another", "opts": {"id": id(n)}})
}

fn publish(n: u64) -> Value {
    let mut frame = event(n);
    frame["op"] = json!("PUBLISH");
    frame
}

fn ordered(events: &[Value]) -> Value {
    json!({"op": "PUBLISH", "ordered": true, "events": events})
}

/// Sends frames together, so that the hub finds all of them at once; their answers in their order.
async fn talk(client: &mut Client, frames: &[Value]) -> Vec<Value> {
    for (n, frame) in frames.iter().enumerate() {
        let mut frame = frame.clone();
        frame["corr"] = json!(n.to_string());
        client.socket.feed(Message::text(frame.to_string())).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    let mut answers = Vec::new();
    for n in 0..frames.len() {
        let answer = client.next().await;
        assert_eq!(answer["corr"], n.to_string(), "{answer}");
        answers.push(answer);
    }
    answers
}

/// The payloads of a topic, in their order; up to `last`, which has to be there.
async fn stored(world: &World, last: u64) -> Vec<Value> {
    let mut watch = world.bus().subscribe("t").from(Position::Earliest).watch().await.unwrap();
    let mut found = Vec::new();
    loop {
        let Watched::Event(event) = watch.recv().await.unwrap() else { panic!("nothing is missed") };
        found.push(serde_json::from_slice(event.payload()).unwrap());
        if found.last() == Some(&json!(last)) {
            return found;
        }
    }
}

fn codes(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    results.iter().map(|result| result["code"].as_str().unwrap_or("stored")).collect()
}

async fn nothing_overtakes(world: World) {
    let mut client = world.client(ALL).await;
    client.ok(publish(5)).await;
    // A known id in its middle makes it go in three parts, which takes the longest.
    let batch: Vec<Value> = (2..10).map(event).collect();
    let frames = [
        publish(1),
        ordered(&batch),
        publish(10),
        json!({"op": "PUBLISH", "events": [event(11), event(12)]}),
        ordered(&[event(13), event(14)]),
        publish(15),
    ];
    let answers = talk(&mut client, &frames).await;
    assert_eq!(answers[1]["ordered"], true, "{}", answers[1]);
    assert_eq!(codes(&answers[1]), ["stored"; 8]);
    let expected: Vec<u64> = [5].into_iter().chain((1..16).filter(|n| *n != 5)).collect();
    assert_eq!(json!(stored(&world, 15).await), json!(expected));
}

#[tokio::test]
async fn publishes_around_an_ordered_batch_keep_their_order() {
    nothing_overtakes(World::new().await).await;
}

#[tokio::test]
async fn publishes_around_an_ordered_batch_keep_their_order_when_there_is_little_room() {
    let config = Config { queue_bytes: 300, ..Config::default() };
    nothing_overtakes(World::with(config, Settings::default()).await).await;
}

#[tokio::test]
async fn an_ordered_batch_stops_at_a_conflict_with_an_event_that_is_still_in_line() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    for round in 0..50 {
        let n = 10 * round;
        let batch = [event(n + 2), twin(n + 1), event(n + 3)];
        let answers = talk(&mut client, &[publish(n + 1), ordered(&batch), publish(n + 4)]).await;
        assert_eq!(codes(&answers[1]), ["stored", "id_conflict", "unavailable"], "{}", answers[1]);
    }
    let expected: Vec<u64> = (0..50).flat_map(|round| [1, 2, 4].map(|n| 10 * round + n)).collect();
    assert_eq!(json!(stored(&world, 494).await), json!(expected));
}

#[tokio::test]
async fn what_is_acked_behind_an_ordered_batch_is_answered_behind_it() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "work", "group": "g"})).await;
    client.ok(json!({"op": "PUBLISH", "topic": "work", "payload": 1})).await;
    let work = client.next().await;
    let ack = json!({"op": "ACK", "topic": "work", "group": "g", "id": work["event"]["id"], "corr": "ack"});
    client.socket.feed(Message::text(ordered(&[event(1), event(2)]).to_string())).await.unwrap();
    client.socket.feed(Message::text(ack.to_string())).await.unwrap();
    client.socket.flush().await.unwrap();
    let mut answers = [client.next().await, client.next().await];
    // An answer to another request may overtake that to a publish.
    answers.sort_by_key(|answer| answer["corr"] == "ack");
    assert_eq!(codes(&answers[0]), ["stored", "stored"]);
    assert_eq!(answers[1]["id"], work["event"]["id"]);
    assert_eq!(world.bus().group("work", "g").unwrap().floor, 1);
}

#[tokio::test]
async fn an_ordered_batch_of_many_events_takes_one_commit_and_has_a_result_for_each() {
    let mut registry = Registry::default();
    let bus = Bus::builder(MemoryStore::new()).open_with(&mut registry).await.unwrap();
    let world = World::over(bus, Settings::default()).await;
    let mut client = world.client(ALL).await;
    let batch: Vec<Value> = (1..=1_000).map(event).collect();
    let answer = client.ok(ordered(&batch)).await;
    let mut metrics = String::new();
    encode(&mut metrics, &registry).unwrap();
    assert!(metrics.contains("store_commit_batch_events_count 1\n"), "{metrics}");
    let seqs: Vec<u64> =
        answer["results"].as_array().unwrap().iter().map(|result| result["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=1_000).collect::<Vec<_>>());
    let again = client.ok(ordered(&batch)).await;
    assert!(again["results"].as_array().unwrap().iter().all(|result| result["duplicate"] == true));
    assert_eq!(stored(&world, 1_000).await.len(), 1_000);
}

#[tokio::test]
async fn a_connection_that_is_lost_behind_an_ordered_batch_leaves_the_first_of_its_events() {
    let world = World::new().await;
    for round in 0..20 {
        let mut client = world.client(ALL).await;
        let first = 1_000 * round;
        client.ok(publish(first + 50)).await;
        let batch: Vec<Value> = (first + 1..first + 100).map(event).collect();
        client.send(ordered(&batch)).await;
        drop(client);
    }
    let mut client = world.client(ALL).await;
    client.ok(publish(999_999)).await;
    let stored = stored(&world, 999_999).await;
    for round in 0..20 {
        let of = |n: &Value| n.as_u64().filter(|n| n / 1_000 == round).map(|n| n % 1_000);
        let found: Vec<u64> = stored.iter().filter_map(of).collect();
        let expected = [50].into_iter().chain((1..100).filter(|n| *n != 50));
        assert!(expected.take(found.len()).eq(found.iter().copied()), "{round}: {found:?}");
    }
}
