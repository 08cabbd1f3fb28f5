//! `POST /publish/{topic}`.

use super::world::{Got, STATIC, World, read};
use hub_core::testkit::Fault;
use hub_core::{Event, Position};
use serde_json::json;
use std::sync::Arc;

async fn send(world: &World, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let request = world.request("POST", path, STATIC).body(body.to_owned());
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    read(request.send().await.unwrap()).await
}

async fn only(world: &World, topic: &str) -> Arc<Event> {
    let mut events = world.bus().scan(topic, Position::Earliest, None).await.unwrap();
    assert_eq!(events.len(), 1);
    events.remove(0)
}

#[tokio::test]
async fn the_body_becomes_the_payload_and_the_answer_says_where_it_is() {
    let world = World::new().await;
    let answer = world.post("/publish/orders.created", "{\"order\": 17,\n \"n\": 1e400}").await.ok();
    let event = only(&world, "orders.created").await;
    assert_eq!(event.payload(), b"{\"order\": 17,  \"n\": 1e400}", "as it was sent, on one line");
    assert_eq!(answer, json!({"id": event.id(), "seq": 1, "ts": event.ts(), "durable": "memory"}));
    assert!(event.key().is_none() && event.headers().is_empty());
}

#[tokio::test]
async fn key_and_id_come_from_the_query() {
    let world = World::new().await;
    let path = "/publish/t?key=a%20b%26c%C3%A9+d&id=018BCFE5680070008000000000000001";
    let answer = world.post(path, "1").await.ok();
    assert_eq!(answer["id"], "018bcfe5-6800-7000-8000-000000000001");
    assert_eq!(only(&world, "t").await.key().map(|key| &**key), Some("a b&cé d"));
    let again = world.post(path, " 1 ").await.ok();
    assert_eq!((&again["duplicate"], &again["seq"]), (&json!(true), &json!(1)));
    assert_eq!(world.post(path, "2").await.refusal(), (409, "id_conflict"));
    assert_eq!(only(&world, "t").await.payload(), b"1");
}

#[tokio::test]
async fn headers_of_the_publisher_become_the_event_s_and_those_of_proxies_do_not() {
    let world = World::new().await;
    let theirs = [
        ("X-Forwarded-For", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("X-Real-IP", "203.0.113.7"),
        ("X-Request-Id", "1"),
        ("x-amzn-trace-id", "1"),
        ("X-Auth-Request-Access-Token", "secret"),
        ("x-api-key", "secret"),
        ("x-csrf-token", "secret"),
        ("X-Gitlab-Token", "secret"),
        ("x-client-secret", "secret"),
        ("x-user-password-hash", "secret"),
        ("x-proxy-authorization", "secret"),
        ("x-set-cookie", "secret"),
        ("x-goo-jwt-assertion", "secret"),
        ("accept", "application/json"),
        ("xylophone", "1"),
    ];
    let ours = [("X-Trace", "7"), ("x-Tenant-ID", "blau-grün"), ("x-correlation-id", "c")];
    let headers: Vec<_> = theirs.into_iter().chain(ours).collect();
    send(&world, "/publish/t", &headers, "1").await.ok();
    let event = only(&world, "t").await;
    let mut found: Vec<_> =
        event.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    found.sort_unstable();
    assert_eq!(found, [("x-correlation-id", "c"), ("x-tenant-id", "blau-grün"), ("x-trace", "7")]);
}

#[tokio::test]
async fn what_is_no_event_is_refused_and_nothing_is_stored() {
    let world = World::new().await;
    for (path, headers, body, code) in [
        ("/publish/t", &[][..], "", "bad_json"),
        ("/publish/t", &[], "{", "bad_json"),
        ("/publish/t", &[], "1 2", "bad_json"),
        ("/publish/t", &[], &"[".repeat(100_000), "bad_json"),
        ("/publish/t", &[], &format!("{}{}", "[".repeat(129), "]".repeat(129)), "bad_request"),
        ("/publish/t?id=7", &[], "1", "bad_request"),
        ("/publish/t?key=%00", &[], "1", "bad_request"),
        ("/publish/t?ts=1", &[], "1", "bad_request"),
        ("/publish/a..b", &[], "1", "bad_request"),
        ("/publish/a%2Fb", &[], "1", "bad_request"),
        ("/publish/%FF", &[], "1", "bad_request"),
        ("/publish/**", &[], "1", "bad_request"),
        ("/publish/t", &[("x-hub-replay-for", "g")], "1", "bad_request"),
        ("/publish/t", &[("X-Hub-Anything", "g")], "1", "bad_request"),
        ("/publish/t", &[("x-a", "1"), ("X-A", "2")], "1", "bad_request"),
    ] {
        assert_eq!(send(&world, path, headers, body).await.refusal(), (400, code), "{path} {headers:?}");
    }
    let long = format!("/publish/{}", "t".repeat(201));
    assert_eq!(send(&world, &long, &[], "1").await.refusal(), (400, "bad_request"));
    let body = world.request("POST", "/publish/t", STATIC).body(b"\"\xFF\"".to_vec());
    assert_eq!(read(body.send().await.unwrap()).await.refusal(), (400, "bad_json"));
    assert!(world.bus().topics().is_empty());
}

#[tokio::test]
async fn when_the_outcome_is_unknown_the_answer_has_the_id_and_sending_it_again_is_safe() {
    let world = World::new().await;
    world.store.script(|call| (call == "commit").then_some(Fault::LoseAnswer));
    let got = world.post("/publish/t", "1").await;
    assert_eq!(got.refusal(), (503, "unavailable"));
    let id = got.json["id"].as_str().unwrap().to_owned();
    world.store.script(|_| None);
    let again = world.post(&format!("/publish/t?id={id}"), "1").await.ok();
    assert_eq!((&again["id"], &again["seq"], &again["duplicate"]), (&json!(id), &json!(1), &json!(true)));
}
