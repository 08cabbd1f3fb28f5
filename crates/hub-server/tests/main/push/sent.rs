//! What an endpoint gets.

use super::endpoint::{Endpoint, SECRET, dead_letters, definition, pushing_world, put, settled};
use crate::http::world::STATIC;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// The signature as the standard describes it, computed here.
fn expected_signature(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &signed);
    format!("v1,{}", STANDARD.encode(tag))
}

#[tokio::test]
async fn an_event_is_posted_as_a_signed_cloudevent() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&format!("{}?token=abc", endpoint.url()), &json!({}))).await;
    let receipt =
        world.bus().publish("t", json!({"n": 1})).key("k").header("x-tenant", "blue").await.unwrap();
    let received = endpoint.received(1).await.remove(0);
    assert_eq!(received.path, "/hook?token=abc");
    assert_eq!(received.header("content-type"), "application/cloudevents+json");
    assert!(received.header("user-agent").starts_with("event-hub/"));
    let event = received.json();
    assert_eq!(event["id"], json!(receipt.id));
    assert_eq!(
        (&event["type"], &event["subject"], &event["data"]),
        (&json!("t"), &json!("k"), &json!({"n": 1}))
    );
    assert_eq!((&event["hubseq"], &event["hubheaders"]), (&json!("1"), &json!(r#"{"x-tenant":"blue"}"#)));
    let (id, timestamp) = (received.header("webhook-id"), received.header("webhook-timestamp"));
    assert_eq!(id, receipt.id.to_string());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(timestamp.parse::<u64>().unwrap().abs_diff(now) < 60, "{timestamp}");
    let signature = expected_signature(SECRET, id, timestamp, &received.body);
    assert_eq!(received.header("webhook-signature"), signature);
    settled(&world, "push.crm", 1).await;
}

#[tokio::test]
async fn each_secret_gives_a_signature() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    let other = format!("whsec_{}", STANDARD.encode([7; 32]));
    put(&world, "crm", &definition(&endpoint.url(), &json!({"secrets": [SECRET, other]}))).await;
    world.fill("t", 1).await;
    let received = endpoint.received(1).await.remove(0);
    let (id, timestamp) = (received.header("webhook-id"), received.header("webhook-timestamp"));
    let expected = [SECRET, &other].map(|secret| expected_signature(secret, id, timestamp, &received.body));
    assert_eq!(received.header("webhook-signature"), expected.join(" "));
}

#[tokio::test]
async fn in_binary_mode_attributes_are_headers_and_the_body_is_the_data() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({"mode": "binary"}))).await;
    let request = world.request("POST", "/publish/t", STATIC).header("content-type", "text/plain");
    let request = request.header("ce-specversion", "1.0").header("ce-id", "A-1").header("ce-source", "/shop");
    let request =
        request.header("ce-type", "order").header("ce-note", "%E2%82%AC%20100%25").body("plain text");
    assert_eq!(request.send().await.unwrap().status(), 200);
    world.bus().publish("t", json!({"n": 1})).await.unwrap();
    let received = endpoint.received(2).await;
    let of_type = |name: &str| received.iter().find(|one| one.header("ce-type") == name).unwrap();
    let order = of_type("order");
    assert_eq!((order.header("content-type"), &order.body[..]), ("text/plain", &b"plain text"[..]));
    assert_eq!((order.header("ce-id"), order.header("ce-source")), ("A-1", "/shop"));
    assert_eq!((order.header("ce-note"), order.header("ce-hubseq")), ("%E2%82%AC%20100%25", "1"));
    let (id, timestamp) = (order.header("webhook-id"), order.header("webhook-timestamp"));
    assert_ne!(id, "A-1", "the event's own");
    assert_eq!(order.header("webhook-signature"), expected_signature(SECRET, id, timestamp, b"plain text"));
    let plain = of_type("t");
    assert_eq!((plain.header("content-type"), &plain.body[..]), ("application/json", &br#"{"n":1}"#[..]));
}

#[tokio::test]
async fn only_events_that_the_filter_lets_pass_are_sent() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({"filter": {"key": "b"}}))).await;
    for key in ["a", "b", "c"] {
        world.bus().publish("t", json!(key)).key(key).await.unwrap();
    }
    settled(&world, "push.crm", 3).await;
    let sent: Vec<_> = endpoint.so_far().iter().map(|received| received.data()).collect();
    assert_eq!(sent, [json!("b")]);
}

#[tokio::test]
async fn a_pattern_is_pushed_with_topics_that_are_born_later() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    world.fill("orders.old", 1).await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"topic": "orders.*", "from": "earliest"}))).await;
    world.fill("orders.new", 1).await;
    let mut topics: Vec<_> =
        endpoint.received(2).await.iter().map(|received| received.json()["hubtopic"].clone()).collect();
    topics.sort_by_key(ToString::to_string);
    assert_eq!(topics, ["orders.new", "orders.old"]);
    assert!(dead_letters(&world).await.is_empty());
}
