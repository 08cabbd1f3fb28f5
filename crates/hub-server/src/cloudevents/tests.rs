#![allow(clippy::unwrap_used)]

use super::{Accepted, CloudEvent, read};
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use hub_proto::{Draft, Event, EventId, NewEvent, PublishOptions, TopicName};
use serde_json::{Value, json};

fn accepted(lists: &[&str]) -> Option<Accepted> {
    let mut headers = HeaderMap::new();
    for list in lists {
        headers.append(header::ACCEPT, HeaderValue::from_str(list).unwrap());
    }
    Accepted::of(&headers)
}

#[test]
fn the_format_with_the_highest_preference_is_accepted() {
    assert_eq!(accepted(&[]), None);
    assert_eq!(accepted(&["*/*"]), None);
    assert_eq!(accepted(&["application/json"]), None);
    assert_eq!(accepted(&["application/cloudevents+json"]), Some(Accepted::Structured));
    assert_eq!(
        accepted(&["text/html", "Application/CloudEvents+JSON; charset=utf-8"]),
        Some(Accepted::Structured)
    );
    assert_eq!(accepted(&["application/cloudevents-batch+json"]), Some(Accepted::Batch));
    assert_eq!(accepted(&["application/cloudevents+json;q=0.5, application/json"]), None);
    assert_eq!(
        accepted(&["application/json;q=0.5, application/cloudevents+json"]),
        Some(Accepted::Structured)
    );
    assert_eq!(accepted(&["application/cloudevents+json;q=0"]), None);
}

/// The event as it is in the log.
fn committed(event: NewEvent) -> Event {
    let id = event.options.id.unwrap_or_else(|| EventId::derived(&[b"test"]));
    let ts = event.options.ts.unwrap_or(1_775_037_600_500);
    Draft::encode(event, id, ts).commit(17, 5)
}

fn written(event: &Event) -> Value {
    let mut text = Vec::new();
    CloudEvent::write(event, &mut text);
    serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)))
}

fn plain(options: Value, payload: Value) -> Event {
    let options: PublishOptions = serde_json::from_value(options).unwrap();
    committed(NewEvent::new("orders.created".parse().unwrap(), payload.into()).with_options(options))
}

fn through(event: &Value) -> Value {
    let topic: TopicName = "t".parse().unwrap();
    let body = Bytes::from(event.to_string());
    written(&committed(read(topic, &body, PublishOptions::default()).unwrap()))
}

#[test]
fn an_event_that_was_no_cloudevent_has_its_topic_as_source_and_type() {
    let event = plain(json!({"key": "order-17"}), json!({"total": 12}));
    let id = event.id().to_string();
    assert_eq!(
        written(&event),
        json!({
            "specversion": "1.0", "id": id, "source": "/event-hub/orders.created", "type": "orders.created",
            "subject": "order-17", "time": "2026-04-01T10:00:00.500Z", "hubseq": "17", "hubtopic": "orders.created",
            "data": {"total": 12},
        })
    );
}

#[test]
fn headers_become_attributes_where_their_names_allow_it_and_none_is_lost() {
    let event = plain(
        json!({
            "headers": {"x-tenant": "blue", "traceparent": "00-ab", "type": "no attribute", "Upper": "1", "hubseq": "9",
                "note": "two\nlines", "color": "plain", "ce-color": "of the CloudEvent", "ce-data": "x"},
            "tags": ["a", "b"], "sid": "boot-1", "caused_by": ["018bcfe5-6800-7000-8000-000000000001"],
        }),
        json!(null),
    );
    let event = written(&event);
    assert_eq!(event["traceparent"], "00-ab");
    assert_eq!(event["color"], "of the CloudEvent");
    let others: Value = serde_json::from_str(event["hubheaders"].as_str().unwrap()).unwrap();
    assert_eq!(
        others,
        json!({"x-tenant": "blue", "type": "no attribute", "Upper": "1", "hubseq": "9", "note": "two\nlines",
            "color": "plain", "ce-data": "x"})
    );
    assert_eq!((&event["hubseq"], &event["type"]), (&json!("17"), &json!("orders.created")));
    assert_eq!((&event["hubtags"], &event["hubsid"]), (&json!(r#"["a","b"]"#), &json!("boot-1")));
    assert_eq!(event["hubcausedby"], json!(r#"["018bcfe5-6800-7000-8000-000000000001"]"#));
    assert!(event.as_object().unwrap().contains_key("data") && event["data"].is_null());
}

#[test]
fn what_this_hub_wrote_is_read_as_the_same_event() {
    let event = plain(
        json!({"key": "k", "sid": "boot-1", "tags": ["a"], "headers": {"x-b": "1", "x-a": "2"},
            "caused_by": ["018bcfe5-6800-7000-8000-000000000001"]}),
        json!([1]),
    );
    let body = Bytes::from(written(&event).to_string());
    let again = read("other".parse().unwrap(), &body, PublishOptions::default()).unwrap();
    assert_eq!(again.options.id, Some(event.id()));
    assert_eq!((again.options.key.as_deref(), again.options.ts), (Some("k"), Some(event.ts())));
    assert_eq!((again.options.sid.as_deref(), &*again.options.tags), (Some("boot-1"), event.tags()));
    assert_eq!(again.options.caused_by, event.caused_by());
    let own: Vec<_> =
        again.options.headers.iter().filter(|(name, _)| !name.starts_with("ce-")).cloned().collect();
    assert_eq!(own, event.headers(), "in their order");
}

#[test]
fn a_cloudevent_goes_out_as_it_came_in() {
    let event = json!({
        "specversion": "1.0", "id": "A-1", "source": "/shop", "type": "com.example.order", "subject": "order-17",
        "time": "2026-04-01T12:00:00.123456+02:00", "datacontenttype": "application/vnd.shop+json",
        "dataschema": "https://example.com/s", "traceparent": "00-ab", "sampled": true, "hops": 3, "data": {"total": 12},
    });
    let mut expected = event.clone();
    // Extension attributes are strings from then on, as in the binary mode.
    expected["sampled"] = json!("true");
    expected["hops"] = json!("3");
    expected["hubseq"] = json!("17");
    expected["hubtopic"] = json!("t");
    expected["hubid"] = json!("cf265ddd-b7ab-5617-9572-69c1f3a889d2");
    assert_eq!(through(&event), expected);
    assert_eq!(through(&expected), expected, "and again");
}

#[test]
fn binary_data_goes_out_as_it_came_in() {
    let event = json!({"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data_base64": "AP/+",
        "datacontenttype": "application/octet-stream"});
    let out = through(&event);
    assert_eq!((&out["data_base64"], out.get("data")), (&json!("AP/+"), None));
    assert_eq!(out.as_object().unwrap().keys().filter(|name| name.contains("data")).count(), 2);
}

#[test]
fn a_payload_is_copied_and_not_written_anew() {
    let body = Bytes::from(
        r#"{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"n": 1.0e400, "b":  2}}"#,
    );
    let event = committed(read("t".parse().unwrap(), &body, PublishOptions::default()).unwrap());
    let mut text = Vec::new();
    CloudEvent::write(&event, &mut text);
    assert!(String::from_utf8(text).unwrap().ends_with(r#","data":{"n": 1.0e400, "b":  2}}"#));
}
