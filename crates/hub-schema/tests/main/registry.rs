//! Schemas on a bus of a program's own.

use hub_core::{Bus, Code, Config, MemoryStore, NewEvent, Payload, PayloadChecks, SystemTopic};
use hub_schema::{Put, Schema, SchemaOrigin, SchemaTarget, Schemas, bounds};
use serde_json::json;
use std::sync::Arc;

const PRICE: &[u8] = br#"{"type": "object", "properties": {"price": {"type": "integer"}}}"#;

async fn opened(store: &Arc<MemoryStore>) -> (Bus, Schemas) {
    let schemas = Schemas::default();
    let bus = Bus::builder_over(store.clone()).payload_checks(Arc::new(schemas.clone()));
    (bus.config(Config::default()).open().await.expect("a bus"), schemas)
}

async fn new() -> (Bus, Schemas) {
    opened(&Arc::new(MemoryStore::new())).await
}

fn target(text: &str) -> SchemaTarget {
    SchemaTarget::parse(text).expect("a topic or a pattern")
}

#[tokio::test]
async fn payloads_of_a_topic_are_checked_and_tombstones_pass() {
    let (bus, schemas) = new().await;
    schemas.put(&bus, &target("orders"), PRICE, false, None).await.expect("it is stored");
    bus.publish("orders", json!({"price": 1})).await.expect("it matches");
    let refused = bus.publish("orders", json!({"price": "1"})).key("k").await.expect_err("it does not");
    assert_eq!(refused.code, Code::SchemaViolation);
    assert_eq!(refused.msg, r#"/price: "1" is not of type "integer" (schema of orders)"#);
    bus.publish("orders", Payload::null()).key("k").await.expect("a tombstone");
    bus.publish("other", json!("anything")).await.expect("another topic");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn no_subject_takes_the_places_of_all_others() {
    let (bus, schemas) = new().await;
    let put = async |topic: &str, by: &str| schemas.put(&bus, &target(topic), PRICE, false, Some(by)).await;
    for n in 0..bounds::SCHEMAS_OF_SUBJECT {
        put(&format!("t{n}"), "ada").await.expect("one of its own");
    }
    assert_eq!(put("one-more", "ada").await.expect_err("too many").code, Code::QuotaExceeded);
    put("t0", "ada").await.expect("a version of its own schema");
    put("one-more", "eve").await.expect("a schema of somebody else");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn what_is_refused_brings_no_topic_into_being() {
    let (bus, schemas) = new().await;
    schemas.put(&bus, &target("orders.*"), PRICE, false, None).await.expect("it is stored");
    bus.publish("orders.new", json!([])).await.expect_err("it does not match");
    assert!(!bus.has_topic("orders.new"));
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn every_schema_that_matches_a_topic_counts() {
    let (bus, schemas) = new().await;
    for (to, schema) in [
        ("process.**", r#"{"required": ["ts"]}"#),
        ("process.*.state", r#"{"required": ["state"]}"#),
        ("process.web.state", r#"{"required": ["pid"]}"#),
    ] {
        schemas.put(&bus, &target(to), schema.as_bytes(), false, None).await.expect("it is stored");
    }
    let all = json!({"ts": 1, "state": "up", "pid": 7});
    bus.publish("process.web.state", all.clone()).await.expect("it matches all");
    for missing in ["ts", "state", "pid"] {
        let mut payload = all.clone();
        payload.as_object_mut().expect("an object").remove(missing);
        let refused = bus.publish("process.web.state", payload).await.expect_err("one does not match");
        assert!(refused.msg.contains(missing), "{refused}");
    }
    bus.publish("process.db.state", json!({"ts": 1, "state": "up"})).await.expect("two are about it");
    bus.publish("process", json!({"ts": 1})).await.expect("one is about it");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_batch_has_an_error_for_each_event_that_does_not_match() {
    let (bus, schemas) = new().await;
    schemas.put(&bus, &target("orders"), PRICE, false, None).await.expect("it is stored");
    let event = |payload| NewEvent::new("orders".parse().expect("a name"), Payload::from(payload));
    let events = vec![event(json!({"price": 1})), event(json!({"price": 1.5})), event(json!({}))];
    let codes: Vec<Option<Code>> = bus
        .publish_batch(events.clone())
        .await
        .into_iter()
        .map(|result| result.err().map(|error| error.code))
        .collect();
    assert_eq!(codes, [None, Some(Code::SchemaViolation), None]);
    let results = bus.in_order(events).send().await.results().await;
    assert_eq!(results.len(), 2, "nothing is published behind the one that does not match");
    assert_eq!(results[1].as_ref().expect_err("it does not match").code, Code::SchemaViolation);
    bus.stop().await.expect("it stops");
}

/// The work for one payload is bounded however many patterns match its topic.
#[tokio::test]
async fn schemas_of_a_topic_share_the_budget_of_a_payload() {
    let (bus, schemas) = new().await;
    let twice = |n: u32| {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
        format!(r#""d{n}":{{"allOf":[{next},{next}]}}"#)
    };
    let levels: Vec<String> = (0..12).map(twice).collect();
    let costly = format!(r##"{{"$defs":{{{},"d12":{{}}}},"$ref":"#/$defs/d0"}}"##, levels.join(","));
    for to in ["a.b.c", "a.b.*", "a.*.c"] {
        schemas.put(&bus, &target(to), costly.as_bytes(), false, None).await.expect("it is stored");
    }
    bus.publish("a.b.c", json!(1)).await.expect("three schemas are within the budget");
    for to in ["*.b.c", "a.*.*", "a.**"] {
        schemas.put(&bus, &target(to), costly.as_bytes(), false, None).await.expect("it is stored");
    }
    let refused = bus.publish("a.b.c", json!(1)).await.expect_err("six are not");
    assert_eq!(refused.code, Code::SchemaViolation);
    assert!(refused.msg.contains("too many steps, more than the budget of 50016"), "{refused}");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn versions_are_compatible_unless_they_are_forced() {
    let (bus, schemas) = new().await;
    let to = target("orders");
    let put =
        async |schema: &str, forced| schemas.put(&bus, &to, schema.as_bytes(), forced, Some("ada")).await;
    assert_eq!(put(r#"{"enum": ["a", "b"]}"#, false).await, Ok(Put { version: 1, is_new: true }));
    assert_eq!(put(r#"{ "enum" : ["a","b"] }"#, false).await, Ok(Put { version: 1, is_new: false }));
    assert_eq!(put(r#"{"enum": ["a", "b", "c"]}"#, false).await, Ok(Put { version: 2, is_new: true }));
    let refused = put(r#"{"enum": ["a"]}"#, false).await.expect_err("it accepts less");
    assert_eq!(refused.code, Code::BadRequest);
    assert!(refused.msg.contains(r#"what version 2 accepted: /enum: removed from enum: "b""#), "{refused}");
    assert_eq!(put(r#"{"enum": ["a"]}"#, true).await, Ok(Put { version: 3, is_new: true }));
    bus.publish("orders", json!("b")).await.expect_err("it is not accepted any more");
    let versions = schemas.versions("orders");
    let told: Vec<_> =
        versions.iter().map(|version| (version.version, version.forced, version.by.as_deref())).collect();
    assert_eq!(told, [(3, true, Some("ada")), (2, false, Some("ada")), (1, false, Some("ada"))]);
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_schema_is_deleted_and_its_versions_go_on_counting() {
    let (bus, schemas) = new().await;
    let to = target("orders");
    for schema in [&br#"{"enum": [1]}"#[..], br#"{"enum": [1, 2]}"#] {
        schemas.put(&bus, &to, schema, false, None).await.expect("it is stored");
    }
    assert_eq!(schemas.delete(&bus, &to).await, Ok(2));
    assert_eq!(schemas.delete(&bus, &to).await, Ok(0));
    assert!(schemas.get("orders").is_none());
    bus.publish("orders", json!("anything")).await.expect("nothing is checked");
    let put = schemas.put(&bus, &to, br#"{"enum": [3]}"#, false, None).await;
    assert_eq!(put, Ok(Put { version: 3, is_new: true }), "nothing is left that it has to accept");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn schemas_are_there_after_a_restart_before_anything_is_published() {
    let store = Arc::new(MemoryStore::new());
    let (bus, schemas) = opened(&store).await;
    let text = br#"{"properties":{"n":{"maximum":123456789012345678901234567890}}}"#;
    schemas.put(&bus, &target("orders"), text, false, None).await.expect("it is stored");
    bus.stop().await.expect("it stops");
    let (bus, schemas) = opened(&store).await;
    let kept = schemas.get("orders").expect("it is there");
    assert_eq!(kept.current.text.as_bytes(), text, "no number is rounded");
    let huge = Payload::from_json(&br#"{"n": 123456789012345678901234567891}"#[..]).expect("JSON");
    assert_eq!(bus.publish("orders", huge).await.expect_err("above").code, Code::SchemaViolation);
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn only_so_many_versions_are_kept() {
    let (bus, schemas) = new().await;
    let to = target("orders");
    for n in 1..=bounds::VERSIONS + 3 {
        let schema = format!(r#"{{"maximum": {n}}}"#);
        schemas.put(&bus, &to, schema.as_bytes(), false, None).await.expect("it is stored");
    }
    let versions = schemas.versions("orders");
    assert_eq!((versions.len(), versions[0].version), (bounds::VERSIONS, bounds::VERSIONS as u64 + 3));
    let stored = bus.system_entries(SystemTopic::Schemas).await.expect("they are read");
    assert_eq!(stored.len(), bounds::VERSIONS);
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_schema_of_the_configuration_comes_before_a_stored_one() {
    let (bus, schemas) = new().await;
    let to = target("orders");
    schemas.put(&bus, &to, br#"{"type": "string"}"#, false, None).await.expect("it is stored");
    let own = Arc::new(Schema::compile(br#"{"type": "integer"}"#).expect("a schema"));
    schemas.set_configured(vec![(to.clone(), own)]);
    assert_eq!(schemas.get("orders").map(|schema| schema.origin), Some(SchemaOrigin::File));
    bus.publish("orders", json!(1)).await.expect("it matches");
    bus.publish("orders", json!("a")).await.expect_err("it does not");
    for refused in
        [schemas.put(&bus, &to, b"{}", true, None).await.map(drop), schemas.delete(&bus, &to).await.map(drop)]
    {
        assert_eq!(refused.expect_err("it is the configuration's").code, Code::Forbidden);
    }
    schemas.set_configured(Vec::new());
    bus.publish("orders", json!("a")).await.expect("the stored one counts again");
    bus.stop().await.expect("it stops");
}

#[tokio::test]
async fn topics_of_the_hub_have_no_schema() {
    for name in ["dlq.orders", "orders.snapshot", "_hub.revoked"] {
        assert!(SchemaTarget::parse(name).is_err(), "{name}");
    }
    let (bus, schemas) = new().await;
    schemas.put(&bus, &target("**"), br#"{"type": "string"}"#, false, None).await.expect("it is stored");
    let own = |name: &str| schemas.of_topic(&hub_core::TopicName::stored(name).expect("a name")).is_some();
    assert_eq!(
        ["dlq.orders", "orders.snapshot", "_hub.schemas", "orders"].map(own),
        [false, false, false, true]
    );
    bus.stop().await.expect("it stops");
}
