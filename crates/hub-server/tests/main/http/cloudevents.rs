//! CloudEvents as JSON.

use super::world::{Got, STATIC, World, read};
use hub_core::{EventId, Position};
use serde_json::{Value, json};

async fn send(world: &World, path: &str, kind: &str, body: &str) -> Got {
    let request = world.request("POST", path, STATIC).header("content-type", kind).body(body.to_owned());
    read(request.send().await.unwrap()).await
}

const KIND: &str = "application/cloudevents+json";

/// A CloudEvent with what it must have, and more, or other.
fn with(more: &Value) -> String {
    let mut event =
        json!({"specversion": "1.0", "type": "com.example.order", "source": "/shop", "id": "A-1"});
    for (name, value) in more.as_object().unwrap() {
        event[name] = value.clone();
    }
    event.to_string()
}

/// The event that becomes of it, as JSON.
async fn stored(body: &str) -> Value {
    let world = World::new().await;
    let answer = send(&world, "/publish/t", KIND, body).await.ok();
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    let event: Value = serde_json::from_slice(events[0].json()).unwrap();
    assert_eq!((&answer["id"], &answer["ts"]), (&event["id"], &event["ts"]));
    event
}

#[tokio::test]
async fn every_attribute_finds_its_place() {
    let event = stored(&with(&json!({
        "subject": "order-17", "time": "2026-04-01T12:00:00.5+02:00", "datacontenttype": "application/json",
        "dataschema": "https://example.com/s", "traceparent": "00-ab", "sampled": true, "hops": 3, "absent": null,
        "data": {"total": 12},
    })))
    .await;
    let id = EventId::derived(&[b"/shop", b"A-1"]);
    assert_eq!(
        id.to_string(),
        "cf265ddd-b7ab-5617-9572-69c1f3a889d2",
        "pinned: who sends it again after an update must hit the same id"
    );
    assert_eq!(
        event,
        json!({
            "id": id, "seq": 1, "topic": "t", "ts": 1_775_037_600_500_u64, "key": "order-17", "payload": {"total": 12},
            "headers": {
                "ce-id": "A-1", "ce-source": "/shop", "ce-specversion": "1.0", "ce-type": "com.example.order",
                "ce-datacontenttype": "application/json", "ce-dataschema": "https://example.com/s",
                "ce-traceparent": "00-ab", "ce-sampled": "true", "ce-hops": "3",
            },
        })
    );
}

#[tokio::test]
async fn an_id_that_is_a_uuid_stays_and_keeps_its_spelling_as_a_header_if_that_differs() {
    let plain = "018bcfe5-6800-7000-8000-000000000001";
    let event = stored(&with(&json!({"id": plain}))).await;
    assert_eq!((&event["id"], event["headers"].get("ce-id")), (&json!(plain), None));
    let event = stored(&with(&json!({"id": plain.to_uppercase()}))).await;
    assert_eq!((&event["id"], &event["headers"]["ce-id"]), (&json!(plain), &json!(plain.to_uppercase())));
}

#[tokio::test]
async fn the_same_id_of_another_source_is_another_event_and_of_the_same_one_a_duplicate() {
    let world = World::new().await;
    let first = send(&world, "/publish/t", KIND, &with(&json!({"data": 1}))).await.ok();
    let again = send(&world, "/publish/t", KIND, &with(&json!({"data": 1, "type": "other"}))).await.ok();
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    let other = send(&world, "/publish/t", KIND, &with(&json!({"data": 1, "source": "/till"}))).await.ok();
    assert_ne!(other["id"], first["id"]);
    let got = send(&world, "/publish/t", KIND, &with(&json!({"data": 2}))).await;
    assert_eq!(got.refusal(), (409, "id_conflict"));
}

#[tokio::test]
async fn data_is_kept_as_it_is_written_and_without_it_the_payload_is_null() {
    let body = r#"{"data" : {"n": 1.0e400, "b":  2} ,"specversion":"1.0","id":"1","source":"s","type":"t"}"#;
    let world = World::new().await;
    send(&world, "/publish/t", "Application/CloudEvents+JSON; charset=utf-8", body).await.ok();
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!(events[0].payload(), br#"{"n": 1.0e400, "b":  2}"#);
    let event = stored(&with(&json!({}))).await;
    assert_eq!(event["payload"], Value::Null);
}

#[tokio::test]
async fn headers_of_the_request_come_along() {
    let world = World::new().await;
    let request = world.request("POST", "/publish/t", STATIC).header("content-type", KIND);
    let request = request.header("x-tenant", "blue").body(with(&json!({})));
    read(request.send().await.unwrap()).await.ok();
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!((events[0].header("x-tenant"), events[0].header("ce-id")), (Some("blue"), Some("A-1")));
}

#[tokio::test]
async fn what_is_no_cloudevent_is_refused_with_what_is_wrong() {
    let world = World::new().await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for (body, says) in [
        (with(&json!({"id": null})), "has no id"),
        (with(&json!({"id": ""})), "has no id"),
        (with(&json!({"id": 7})), "id is not a string"),
        (with(&json!({"source": null})), "has no source"),
        (with(&json!({"type": null})), "has no type"),
        (with(&json!({"specversion": null})), "has no specversion"),
        (with(&json!({"specversion": "0.3"})), "specversion \"0.3\"; 1.0 is taken"),
        (with(&json!({"time": "yesterday"})), "time \"yesterday\" is not a time"),
        (with(&json!({"time": 17})), "time is not a string"),
        (with(&json!({"subject": "x".repeat(513)})), "key"),
        (with(&json!({"data_base64": "AAAA"})), "data in place of data_base64"),
        (with(&json!({"Extension": 1})), "attribute \"Extension\" is not a name"),
        (with(&json!({"ratio": 1.5})), "ratio is not a string, a whole number"),
        (with(&json!({"nested": {"a": 1}})), "nested is not a string"),
        (with(&json!({"nested": "N"})).replace("\"N\"", &deep), "nested is not a string"),
        (with(&json!({"data": "N"})).replace("\"N\"", &deep), "nested 50000 deep"),
        (r#"{"id":"1","id":"2"}"#.to_owned(), "\"id\" is there twice"),
        ("[]".to_owned(), "a CloudEvent, which is an object"),
    ] {
        let got = send(&world, "/publish/t", KIND, &body).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{says}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{says}: {}", got.json);
    }
    assert_eq!(send(&world, "/publish/t", KIND, "{\"id\"").await.refusal(), (400, "bad_json"));
    let many: serde_json::Map<_, _> = (0..200).map(|n| (format!("a{n}"), json!(n))).collect();
    let got = send(&world, "/publish/t", KIND, &Value::from(many).to_string()).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
    assert!(world.bus().topics().is_empty());
}

#[tokio::test]
async fn other_ways_to_send_cloudevents_are_refused_and_not_taken_for_payloads() {
    let world = World::new().await;
    for kind in
        ["application/cloudevents-batch+json", "application/cloudevents+xml", "application/cloudevents"]
    {
        assert_eq!(send(&world, "/publish/t", kind, "[]").await.refusal(), (400, "bad_request"), "{kind}");
    }
    let request = world.request("POST", "/publish/t", STATIC).header("ce-specversion", "1.0").body("1");
    assert_eq!(read(request.send().await.unwrap()).await.refusal(), (400, "bad_request"));
    for path in ["/publish/t?key=k", "/publish/t?id=018bcfe5-6800-7000-8000-000000000001"] {
        assert_eq!(
            send(&world, path, KIND, &with(&json!({}))).await.refusal(),
            (400, "bad_request"),
            "{path}"
        );
    }
    assert!(world.bus().topics().is_empty());
}
