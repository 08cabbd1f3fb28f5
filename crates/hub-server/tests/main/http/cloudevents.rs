//! CloudEvents: in as JSON, as batches and in binary mode; out by an export.

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
        (with(&json!({"data_base64": "not base64"})), "data_base64 is not base64"),
        (with(&json!({"data_base64": 7})), "data_base64 is not a string"),
        (with(&json!({"data_base64": "AAAA", "data": 1})), "data and data_base64"),
        (with(&json!({"hubtags": "none"})), "hubtags is not an array of strings"),
        (with(&json!({"hubheaders": "[]"})), "hubheaders is not an object of strings"),
        (with(&json!({"hubcausedby": "[\"x\"]"})), "hubcausedby is not an array of ids"),
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
async fn other_formats_of_cloudevents_are_refused_and_not_taken_for_payloads() {
    let world = World::new().await;
    for kind in
        ["application/cloudevents-batch+avro", "application/cloudevents+xml", "application/cloudevents"]
    {
        assert_eq!(send(&world, "/publish/t", kind, "[]").await.refusal(), (400, "bad_request"), "{kind}");
    }
    let request = world.request("POST", "/publish/t", STATIC).header("ce-id", "1").body("1");
    let got = read(request.send().await.unwrap()).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
    assert!(got.json["error"].as_str().unwrap().contains("without ce-specversion"), "{}", got.json);
    for path in ["/publish/t?key=k", "/publish/t?id=018bcfe5-6800-7000-8000-000000000001"] {
        for kind in [KIND, BATCH] {
            let got = send(&world, path, kind, &with(&json!({}))).await;
            assert_eq!(got.refusal(), (400, "bad_request"), "{path}");
        }
    }
    assert!(world.bus().topics().is_empty());
}

const BATCH: &str = "application/cloudevents-batch+json";

#[tokio::test]
async fn each_event_of_a_batch_has_its_own_result() {
    let world = World::new().await;
    let entries = [
        with(&json!({"id": "1", "data": 1})),
        with(&json!({"id": "2", "type": null})),
        "7".to_owned(),
        with(&json!({"id": "1", "data": 1})),
        with(&json!({"id": "1", "data": "another"})),
        with(&json!({"id": "3", "data": 3, "subject": "k"})),
    ];
    let request = world.request("POST", "/publish/t", STATIC).header("content-type", BATCH);
    let request = request.header("x-tenant", "blue").body(format!("[{}]", entries.join(" ,\n")));
    let answer = read(request.send().await.unwrap()).await.ok();
    let results = answer["results"].as_array().unwrap();
    let seq_or_code = |result: &Value| match result.get("code") {
        Some(code) => (code.clone(), result["error"].as_str().is_some_and(|error| !error.is_empty())),
        None => (result["seq"].clone(), result["durable"] == "memory"),
    };
    assert_eq!(
        results.iter().map(seq_or_code).collect::<Vec<_>>(),
        [
            (json!(1), true),
            (json!("bad_request"), true),
            (json!("bad_request"), true),
            (json!(1), true),
            (json!("id_conflict"), true),
            (json!(2), true)
        ]
    );
    assert_eq!(results[3]["duplicate"], true);
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.header("x-tenant") == Some("blue")));
}

#[tokio::test]
async fn a_batch_is_an_array_of_at_most_as_many_events_as_a_publish_may_have() {
    let mut settings = hub_server::Settings::default();
    settings.limits.batch_events = 3;
    let world = World::with(settings).await;
    let batch = |n: usize| {
        let events: Vec<String> = (0..n).map(|n| with(&json!({"id": n.to_string()}))).collect();
        format!("[{}]", events.join(","))
    };
    let got = send(&world, "/publish/t", BATCH, &batch(4)).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
    assert!(got.json["error"].as_str().unwrap().contains("more than 3 events"), "{}", got.json);
    assert_eq!(send(&world, "/publish/t", BATCH, &with(&json!({}))).await.refusal(), (400, "bad_request"));
    assert_eq!(send(&world, "/publish/t", BATCH, "[{}").await.refusal(), (400, "bad_json"));
    assert_eq!(send(&world, "/publish/t", BATCH, "[] []").await.refusal(), (400, "bad_json"));
    assert!(world.bus().topics().is_empty());
    assert_eq!(send(&world, "/publish/t", BATCH, "[]").await.ok(), json!({"results": []}));
    assert_eq!(
        send(&world, "/publish/t", BATCH, &batch(3)).await.ok()["results"].as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn a_batch_that_does_not_fit_the_rate_is_refused_whole() {
    let mut settings = hub_server::Settings::default();
    settings.limits.topic_rates = vec![("t".parse().unwrap(), 2)];
    let world = World::with(settings).await;
    let batch =
        format!("[{}]", (0..5).map(|n| with(&json!({"id": n.to_string()}))).collect::<Vec<_>>().join(","));
    assert_eq!(send(&world, "/publish/t", BATCH, &batch).await.refusal(), (429, "rate_limited"));
    assert!(world.bus().topics().is_empty());
}

#[tokio::test]
async fn a_batch_to_a_topic_of_the_hub_is_refused_for_each_of_its_events() {
    let world = World::new().await;
    let answer = send(&world, "/publish/dlq.t", BATCH, &format!("[{}]", with(&json!({})))).await.ok();
    assert_eq!(answer["results"][0]["code"], "forbidden");
}

/// A request in binary mode, with attributes beside those that it must have.
async fn send_binary(
    world: &World,
    kind: Option<&str>,
    more: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Got {
    let mut request = world.request("POST", "/publish/t", STATIC);
    let attributes = [
        ("ce-specversion", "1.0"),
        ("ce-id", "A-1"),
        ("CE-Source", "/shop"),
        ("ce-type", "com.example.order"),
    ];
    for (name, value) in attributes.iter().chain(more) {
        request = request.header(*name, *value);
    }
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    read(request.body(body.into()).send().await.unwrap()).await
}

/// The event of a request in binary mode, as JSON.
async fn stored_binary(kind: Option<&str>, more: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Value {
    let world = World::new().await;
    send_binary(&world, kind, more, body).await.ok();
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    serde_json::from_slice(events[0].json()).unwrap()
}

#[tokio::test]
async fn in_binary_mode_attributes_are_headers_and_the_body_is_the_data() {
    let more = [
        ("ce-subject", "Euro%20%E2%82%AC"),
        ("ce-time", "2026-04-01T12:00:00.5+02:00"),
        ("ce-traceparent", "00-ab"),
        ("ce-note", "\"a \\\"quoted\\\" text\""),
        ("x-tenant", "blue"),
    ];
    let event = stored_binary(Some("application/json"), &more, r#"{"n": 1}"#).await;
    assert_eq!(
        (&event["key"], &event["ts"], &event["id"]),
        (&json!("Euro €"), &json!(1_775_037_600_500_u64), &json!("cf265ddd-b7ab-5617-9572-69c1f3a889d2"))
    );
    assert_eq!(
        event["headers"],
        json!({
            "x-tenant": "blue", "ce-id": "A-1", "ce-source": "/shop", "ce-specversion": "1.0",
            "ce-type": "com.example.order", "ce-traceparent": "00-ab", "ce-note": "a \"quoted\" text",
        })
    );
}

#[tokio::test]
async fn data_of_the_binary_mode_that_is_no_json_is_kept_as_text_or_as_base64() {
    for (kind, body, payload, is_base64) in [
        (Some("text/plain"), &b"a \"text\""[..], json!("a \"text\""), false),
        (Some("application/xml"), b"<a/>", json!("<a/>"), false),
        (Some("image/svg+xml; charset=utf-8"), b"<svg/>", json!("<svg/>"), false),
        (Some("text/plain; charset=latin1"), b"abc", json!("YWJj"), true),
        (Some("text/plain"), b"\xff", json!("/w=="), true),
        (Some("application/octet-stream"), b"abc", json!("YWJj"), true),
        (Some("application/vnd.shop+json"), b"{}", json!({}), false),
        (Some("text/plain"), b"", json!(null), false),
    ] {
        let event = stored_binary(kind, &[], body).await;
        assert_eq!(event["payload"], payload, "{kind:?}");
        assert_eq!(event["headers"]["ce-datacontenttype"], json!(kind), "{kind:?}");
        assert_eq!(event["headers"].get("ce-data_base64").is_some(), is_base64, "{kind:?}");
    }
    for kind in [None, Some("application/json"), Some("application/json; charset=utf-8")] {
        let event = stored_binary(kind, &[], "[1]").await;
        assert_eq!((&event["payload"], event["headers"].get("ce-datacontenttype")), (&json!([1]), None));
    }
}

#[tokio::test]
async fn what_is_no_cloudevent_in_binary_mode_is_refused_with_what_is_wrong() {
    let world = World::new().await;
    for (more, says) in [
        (("ce-id", "again"), "ce-id is there twice"),
        (("ce-datacontenttype", "text/plain"), "is no attribute of the binary mode"),
        (("ce-data_base64", "true"), "is no attribute of the binary mode"),
        (("ce-note", "100%"), "percent-encoding"),
        (("ce-note", "%ff"), "percent-encoding"),
        (("ce-my_note", "1"), "is not a name of lower-case letters and digits"),
        (("ce-time", "yesterday"), "is not a time"),
    ] {
        let got = send_binary(&world, None, &[more], "1").await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{says}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{says}: {}", got.json);
    }
    assert_eq!(send_binary(&world, None, &[], "no json").await.refusal(), (400, "bad_json"));
    let request = world.request("POST", "/publish/t", STATIC).header("ce-specversion", "1.0").body("1");
    assert_eq!(read(request.send().await.unwrap()).await.refusal(), (400, "bad_request"));
    assert!(world.bus().topics().is_empty());
}

#[tokio::test]
async fn an_export_has_cloudevents_for_those_who_ask_for_them() {
    let world = World::new().await;
    send(&world, "/publish/t", KIND, &with(&json!({"data": {"n": 1}}))).await.ok();
    world.bus().publish("t", json!(2)).key("k").await.unwrap();
    let export = async |query: &str, accept: &str| {
        let request =
            world.request("GET", &format!("/export?topic=t{query}"), STATIC).header("accept", accept);
        let answer = request.send().await.unwrap();
        let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
        (kind, answer.text().await.unwrap())
    };
    let (kind, lines) = export("", KIND).await;
    assert_eq!(kind, "application/x-ndjson");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["id"], &lines[0]["source"], &lines[0]["data"], &lines[0]["hubseq"]),
        (&json!("A-1"), &json!("/shop"), &json!({"n": 1}), &json!("1"))
    );
    assert_eq!(
        (&lines[1]["source"], &lines[1]["type"], &lines[1]["subject"], &lines[1]["data"]),
        (&json!("/event-hub/t"), &json!("t"), &json!("k"), &json!(2))
    );
    for (query, accept) in [("&ndjson=0", KIND), ("", BATCH), ("&ndjson=0", BATCH)] {
        let (kind, batch) = export(query, accept).await;
        assert_eq!(kind, BATCH);
        assert_eq!(serde_json::from_str::<Vec<Value>>(&batch).unwrap(), lines);
        let again = send(&world, "/publish/copy", BATCH, &batch).await.ok();
        assert_eq!(again["results"][1]["seq"], 2, "what was exported can be published: {again}");
    }
    assert_eq!(export("", "application/json").await.1, export("", "*/*").await.1);
}
