//! The protocol, frame by frame.

use crate::world::{ALL, World};
use serde_json::json;

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
