#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Code, EventId};

fn event() -> NewEvent {
    NewEvent::new(TopicName::parse("orders").unwrap(), Payload::null())
}

/// The error of an event that was fine before the change.
fn refused(change: impl FnOnce(&mut NewEvent)) -> Error {
    let mut event = event();
    event.check(limits::PAYLOAD_BYTES).unwrap();
    change(&mut event);
    event.check(limits::PAYLOAD_BYTES).unwrap_err()
}

#[test]
fn a_publish_is_read_with_all_its_options() {
    let json = r#"{"op":"PUBLISH","corr":"1","topic":"a.b","payload": [1,
        2],"opts":{"id":"018bcfe5-6800-7000-8000-000000000001","ts":5,"key":"k\u0041","sid":"s","more":{"x":[]},
        "headers":{"b":"2","a":"1","gone":null},"tags":["t"],"caused_by":["018bcfe5-6800-7000-8000-000000000002"]}}"#;
    let event = NewEvent::from_wire(json.as_bytes()).unwrap();
    assert_eq!(event.topic.as_str(), "a.b");
    assert_eq!(event.payload.as_bytes(), b"[1,         2]");
    let id = |n| EventId::parse(&format!("018bcfe5-6800-7000-8000-00000000000{n}")).unwrap();
    let expected = PublishOptions {
        id: Some(id(1)),
        ts: Some(5),
        key: Some("kA".into()),
        sid: Some("s".into()),
        headers: vec![("b".into(), "2".into()), ("a".into(), "1".into())],
        caused_by: vec![id(2)],
        tags: vec!["t".into()],
    };
    assert_eq!(event.options, expected);
    let options = serde_json::to_string(&expected).unwrap();
    assert_eq!(serde_json::from_str::<PublishOptions>(&options).unwrap(), expected);
    assert_eq!(NewEvent::from_wire_shared(&Bytes::from(json)).unwrap(), event);
}

#[test]
fn null_counts_as_absent() {
    let nulls = r#"{"topic":"a","payload":null,"opts":{"id":null,"ts":null,"key":null,"sid":null,"headers":null,
        "caused_by":null,"tags":null}}"#;
    let plain = NewEvent::from_wire(br#"{"topic":"a","payload":null}"#).unwrap();
    assert_eq!(NewEvent::from_wire(nulls.as_bytes()).unwrap(), plain);
    assert_eq!(NewEvent::from_wire(br#"{"topic":"a","payload":null,"opts":null}"#).unwrap(), plain);
    assert_eq!(serde_json::to_string(&plain.options).unwrap(), "{}");
}

#[test]
fn a_broken_publish_says_what_is_broken() {
    for (json, code, says) in [
        ("{", Code::BadJson, "EOF"),
        (r#"{"topic":"a","payload":}"#, Code::BadJson, "column 24"),
        (r#"{"topic":"a","payload":1} x"#, Code::BadJson, "trailing"),
        (r#"{"payload":1}"#, Code::BadRequest, "topic is missing"),
        (r#"{"topic":"a"}"#, Code::BadRequest, "payload is missing"),
        (r#"{"topic":null,"payload":1}"#, Code::BadRequest, "it must be a string"),
        (r#"{"topic":"a b","payload":1}"#, Code::BadRequest, "\"a b\""),
        (r#"{"topic":"a","payload":1,"opts":{"id":"7"}}"#, Code::BadRequest, "it must be a UUID"),
        (r#"{"topic":"a","payload":1,"opts":{"ts":-1}}"#, Code::BadRequest, "a whole number"),
        (r#"{"topic":"a","payload":1,"opts":{"headers":[]}}"#, Code::BadRequest, "an object of strings"),
        (r#"{"topic":"a","payload":1,"opts":{"headers":{"a":1}}}"#, Code::BadRequest, "it must be a string"),
        (r#"{"topic":"a","topic":"b","payload":1}"#, Code::BadRequest, "duplicate field `topic`"),
        ("[]", Code::BadRequest, "publish:"),
    ] {
        let err = NewEvent::from_wire(json.as_bytes()).unwrap_err();
        assert_eq!(err.code, code, "{json}: {err}");
        assert!(err.msg.contains(says), "{json}: {err}");
    }
    let long = format!(r#"{{"topic":"a","payload":1,"opts":"{}"}}"#, "x".repeat(10_000));
    assert!(NewEvent::from_wire(long.as_bytes()).unwrap_err().msg.len() < 300);
    let deep = format!(r#"{{"topic":"a","payload":{}{}}}"#, "[".repeat(129), "]".repeat(129));
    assert_eq!(NewEvent::from_wire(deep.as_bytes()).unwrap_err().code, Code::BadRequest);
    assert!(NewEvent::from_wire(b"{\"topic\":\"a\",\"payload\":\"\xff\"}").is_err());
}

#[test]
fn a_payload_over_the_limit_is_too_large() {
    let mut event = event();
    event.payload = Payload::of("12345678").unwrap();
    assert_eq!(event.check(10), Ok(()));
    let err = event.check(9).unwrap_err();
    assert_eq!(err.to_string(), "too_large: payload has 10 bytes; at most 9 are allowed");
}

#[test]
fn each_limit_is_enforced_just_past_it() {
    let err = refused(|event| event.options.key = Some("k".repeat(limits::KEY_BYTES + 1)));
    assert!(err.msg.contains("has 513 bytes; at most 512"), "{err}");
    refused(|event| event.options.key = Some("a\0b".into()));
    refused(|event| event.options.sid = Some("s".repeat(limits::SID_BYTES + 1)));
    refused(|event| event.options.tags = vec!["t".into(); limits::TAGS + 1]);
    refused(|event| event.options.tags = vec!["t".repeat(limits::TAG_BYTES + 1)]);
    refused(|event| event.options.caused_by = vec![EventId::from_bytes([0; 16]); limits::CAUSED_BY + 1]);
    refused(|event| event.topic = TopicName::stored(&"t".repeat(limits::TOPIC_BYTES + 1)).unwrap());
    let mut deep = serde_json::Value::Null;
    (0..=limits::NESTING).for_each(|_| deep = serde_json::Value::Array(vec![deep.take()]));
    refused(|event| event.payload = Payload::from(deep));
}

#[test]
fn everything_at_its_limit_is_taken() {
    let mut event = event().with_key("k".repeat(limits::KEY_BYTES));
    event.options.sid = Some("s".repeat(limits::SID_BYTES));
    event.options.tags = vec!["t".repeat(limits::TAG_BYTES); limits::TAGS];
    event.options.caused_by = vec![EventId::from_bytes([0; 16]); limits::CAUSED_BY];
    let per_header = limits::HEADERS_BYTES / limits::HEADERS;
    event.options.headers =
        (0..limits::HEADERS).map(|n| (format!("{n:08}"), "v".repeat(per_header - 8))).collect();
    event.topic = TopicName::parse(&"t".repeat(limits::TOPIC_BYTES)).unwrap();
    assert_eq!(event.check(limits::PAYLOAD_BYTES), Ok(()));
    event.options.headers[0].1.push('v');
    assert!(event.check(limits::PAYLOAD_BYTES).unwrap_err().msg.contains("8193 bytes"));
}

#[test]
fn header_names_are_given_once_and_are_not_the_hubs() {
    let with =
        |names: &[&str]| names.iter().map(|&name| (name.to_owned(), String::new())).collect::<Vec<_>>();
    for (names, says) in [
        (&[""][..], "is empty"),
        (&["x-hub-replay-for"], "is reserved"),
        (&["X-HUB-anything"], "is reserved"),
        (&["a", "b", "a"], "\"a\" is there twice"),
    ] {
        let err = refused(|event| event.options.headers = with(names));
        assert!(err.code == Code::BadRequest && err.msg.contains(says), "{err}");
    }
    let mut event = event();
    event.options.headers = with(&["x-hu", "x-hubs", "A", "a", "é-hub-"]);
    assert_eq!(event.check(0x10), Ok(()));
    let many: Vec<String> = (0..=limits::HEADERS).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refused(|event| event.options.headers = with(&many)).msg.contains("65 entries; at most 64"));
}

#[test]
fn a_field_of_the_wrong_type_is_named_with_its_value() {
    let cases = [
        (r#"{"topic":1,"payload":1}"#, "\"topic\" is \"1\"; it must be a string"),
        (r#"{"payload":1}"#, "topic is missing"),
        (r#"{"topic":"a"}"#, "payload is missing"),
        (r#"{"topic":"a","payload":1,"opts":"x"}"#, "it must be an object"),
        (r#"{"topic":"a","payload":1,"opts":["k"]}"#, "it must be an object"),
        (r#"{"topic":"a","payload":1,"opts":{"key":7}}"#, "\"key\" is \"7\"; it must be a string"),
        (r#"{"topic":"a","payload":1,"opts":{"id":"x"}}"#, "it must be a UUID"),
        (r#"{"topic":"a","payload":1,"opts":{"ts":-1}}"#, "\"ts\" is \"-1\""),
        (r#"{"topic":"a","payload":1,"opts":{"headers":{"trace":1}}}"#, "\"trace\" is \"1\""),
        (r#"{"topic":"a","payload":1,"opts":{"tags":"x"}}"#, "an array of strings"),
        (r#"["a",{"b":1},null]"#, "it must be an object {topic, payload, opts?}"),
    ];
    for (json, expected) in cases {
        let error = NewEvent::from_wire(json.as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::BadRequest, "{json}");
        assert!(error.msg.contains(expected), "{json}: {}", error.msg);
    }
}

#[test]
fn a_time_beyond_the_year_9999_is_refused() {
    let mut event = NewEvent::new("t".parse().unwrap(), Payload::null());
    event.options.ts = Some(limits::TS);
    assert!(event.check(10).is_ok());
    event.options.ts = Some(limits::TS + 1);
    assert!(event.check(10).unwrap_err().msg.contains("year 9999"));
}
