//! `/schemas`, and payloads that do not match on every way in over HTTP.

use super::world::{Got, STATIC, World};
use hub_core::{LetterFilter, LetterRange, Position};
use hub_schema::bounds;
use serde_json::{Value, json};

const PRICE: &str = r#"{"type":"object","properties":{"price":{"type":"integer"}}}"#;

async fn put(world: &World, path: &str, schema: &str) -> Got {
    world.ask("PUT", &format!("/schemas/{path}"), STATIC, schema).await
}

async fn world_with(topic: &str, schema: &str) -> World {
    let world = World::new().await;
    put(&world, topic, schema).await.ok();
    world
}

#[tokio::test]
async fn a_schema_is_stored_shown_listed_and_deleted() {
    let world = World::new().await;
    let exact = r#"{"maximum":123456789012345678901234567890}"#;
    assert_eq!(
        put(&world, "orders", exact).await.ok(),
        json!({"topic": "orders", "version": 1, "new": true})
    );
    assert_eq!(put(&world, "orders", exact).await.ok()["new"], false);
    assert_eq!(put(&world, "orders?force=false", "{}").await.ok()["version"], 2);
    let answer = world.request("GET", "/schemas/orders", STATIC).send().await.unwrap().text().await.unwrap();
    assert!(answer.contains(&format!(r#""schema":{exact}"#)), "no number is rounded: {answer}");
    let shown: Value = serde_json::from_str(&answer).unwrap();
    let versions: Vec<_> =
        shown["versions"].as_array().unwrap().iter().map(|version| version["version"].clone()).collect();
    assert_eq!((&shown["origin"], versions), (&json!("api"), vec![json!(2), json!(1)]));

    put(&world, "process.**", PRICE).await.ok();
    let names = |got: Value| -> Vec<String> {
        let schemas = got["schemas"].as_array().unwrap().iter();
        schemas.map(|schema| schema["topic"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(world.get("/schemas").await.ok()), ["orders", "process.**"]);
    let first = world.get("/schemas?limit=1").await.ok();
    assert_eq!((first["next"].as_str(), names(first.clone())), (Some("orders"), vec!["orders".to_owned()]));
    let second = world.get("/schemas?limit=1&after=orders").await.ok();
    assert_eq!((second.get("next"), names(second.clone())), (None, vec!["process.**".to_owned()]));

    let deleted = world.ask("DELETE", "/schemas/orders", STATIC, "").await.ok();
    assert_eq!(deleted, json!({"topic": "orders", "deleted": 2}));
    assert_eq!(world.ask("DELETE", "/schemas/orders", STATIC, "").await.refusal(), (404, "not_found"));
    assert_eq!(world.get("/schemas/orders").await.refusal(), (404, "not_found"));
}

#[tokio::test]
async fn a_version_that_accepts_less_is_refused_unless_it_is_forced() {
    let world = world_with("orders", r#"{"enum":["a","b"]}"#).await;
    let refused = put(&world, "orders", r#"{"enum":["a"]}"#).await;
    assert_eq!(refused.refusal(), (400, "bad_request"));
    let told = refused.json["error"].as_str().unwrap();
    assert!(told.contains(r#"what version 1 accepted: /enum: removed from enum: "b""#), "{told}");
    let forced = put(&world, "orders?force=true", r#"{"enum":["a"]}"#).await.ok();
    assert_eq!(forced, json!({"topic": "orders", "version": 2, "new": true}));
    assert_eq!(world.get("/schemas/orders").await.ok()["versions"][0]["forced"], true);
}

#[tokio::test]
async fn what_is_no_schema_is_refused_with_its_place() {
    let world = World::new().await;
    for (path, body, expected) in [
        ("orders", "{", (400, "bad_json")),
        ("orders", r#"{"type":"int"}"#, (400, "bad_request")),
        ("orders", r#"{"$ref":"https://example.com/"}"#, (400, "bad_request")),
        ("orders?force=1", "{}", (400, "bad_request")),
        ("orders?more=1", "{}", (400, "bad_request")),
        ("no topic", "{}", (400, "bad_request")),
        ("a.b*", "{}", (400, "bad_request")),
        ("dlq.orders", "{}", (403, "forbidden")),
    ] {
        assert_eq!(put(&world, path, body).await.refusal(), expected, "{path} {body}");
    }
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(bounds::SCHEMA_BYTES));
    assert_eq!(put(&world, "orders", &large).await.refusal(), (413, "too_large"));
}

#[tokio::test]
async fn only_so_many_topics_have_a_schema() {
    let world = World::new().await;
    for n in 0..bounds::SCHEMAS {
        let target = hub_schema::SchemaTarget::parse(&format!("t{n}")).unwrap();
        world.hub.schemas().unwrap().put(world.bus(), &target, b"true", false, None).await.unwrap();
    }
    assert_eq!(put(&world, "one-more", "true").await.refusal(), (403, "quota_exceeded"));
    put(&world, "t7", "{}").await.ok();
}

#[tokio::test]
async fn a_token_sees_the_schemas_of_topics_that_it_may_use() {
    let world = World::new().await;
    for topic in ["orders.new", "orders.*", "process.**", "vault.**"] {
        put(&world, topic, "true").await.ok();
    }
    for (scopes, expected) in [
        (&["publish:orders.new"][..], &["orders.*", "orders.new"][..]),
        (&["subscribe:process.web"], &["process.**"]),
        (&["admin:**"], &["orders.*", "orders.new", "process.**", "vault.**"]),
        (&["publish:other"], &[]),
    ] {
        let token = world.token(scopes);
        let listed = world.ask("GET", "/schemas", &token, "").await.ok();
        let names: Vec<_> = listed["schemas"]
            .as_array()
            .unwrap()
            .iter()
            .map(|schema| schema["topic"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{scopes:?}");
        for topic in ["orders.new", "orders.*", "process.**", "vault.**"] {
            let status = world.ask("GET", &format!("/schemas/{topic}"), &token, "").await.status;
            assert_eq!(status, if expected.contains(&topic) { 200 } else { 403 }, "{scopes:?} {topic}");
        }
    }
    // Who stored it is for administrators.
    let token = world.token_of("eve", &["admin:orders.new"]);
    world.ask("PUT", "/schemas/orders.new", &token, "{}").await.ok();
    let by = async |token: &str| {
        world.ask("GET", "/schemas/orders.new", token, "").await.ok()["versions"][0]["by"].take()
    };
    assert_eq!(by(&token).await, "eve");
    assert_eq!(by(&world.token(&["publish:orders.new"])).await, json!(null));
}

#[tokio::test]
async fn a_pattern_needs_the_admin_right_for_all_its_topics() {
    let world = World::new().await;
    let token = world.token(&["admin:orders.new"]);
    for path in ["/schemas/orders.*", "/schemas/orders.old"] {
        assert_eq!(world.ask("PUT", path, &token, "{}").await.refusal(), (403, "forbidden"));
        assert_eq!(world.ask("DELETE", path, &token, "").await.refusal(), (403, "forbidden"));
    }
    world.ask("PUT", "/schemas/orders.new", &token, "{}").await.ok();
}

#[tokio::test]
async fn a_publish_that_does_not_match_is_refused_with_path_and_rule() {
    let world = world_with("orders", PRICE).await;
    world.post("/publish/orders", r#"{"price":12}"#).await.ok();
    let refused = world.post("/publish/orders", r#"{"price":12.5}"#).await;
    assert_eq!(refused.refusal(), (422, "schema_violation"));
    assert_eq!(refused.json["error"], r#"/price: 12.5 is not of type "integer" (schema of orders)"#);
    world.post("/publish/orders?key=k", "null").await.ok();
    assert_eq!(world.bus().last_seq("orders"), Some(2));
}

#[tokio::test]
async fn the_data_of_cloudevents_is_checked() {
    let world = world_with("orders", PRICE).await;
    let event = |id: &str, price: Value| json!({"specversion": "1.0", "type": "paid", "source": "/shop", "id": id, "data": {"price": price}});
    let send = async |kind: &str, body: Value| {
        let request = world.request("POST", "/publish/orders", STATIC).header("content-type", kind);
        super::world::read(request.body(body.to_string()).send().await.unwrap()).await
    };
    let structured = "application/cloudevents+json";
    send(structured, event("1", json!(1))).await.ok();
    assert_eq!(send(structured, event("2", json!("1"))).await.refusal(), (422, "schema_violation"));
    let batch = json!([event("3", json!(1)), event("4", json!(null)), event("5", json!(2))]);
    let results = send("application/cloudevents-batch+json", batch).await.ok()["results"].take();
    assert_eq!(
        (&results[1]["code"], &results[0]["seq"], &results[2]["seq"]),
        (&json!("schema_violation"), &json!(2), &json!(3))
    );
    let binary = world.request("POST", "/publish/orders", STATIC);
    let binary =
        binary.header("ce-specversion", "1.0").header("ce-type", "paid").header("ce-source", "/shop");
    let binary =
        binary.header("ce-id", "6").header("content-type", "application/json").body(r#"{"price":"x"}"#);
    assert_eq!(super::world::read(binary.send().await.unwrap()).await.refusal(), (422, "schema_violation"));
}

/// A letter that does not match any more is not replayed, until it is edited or the schema is.
#[tokio::test]
async fn replayed_and_edited_dead_letters_are_checked() {
    let world = World::new().await;
    let bus = world.bus();
    let mut member =
        bus.subscribe("orders").group("g").from(Position::Earliest).max_attempts(1).open().await.unwrap();
    bus.publish("orders", json!({"price": "1"})).await.unwrap();
    member.recv().await.unwrap().nack("no such account").unwrap();
    let letters = async || {
        let page = bus.dead_letters("orders", &LetterFilter::default(), LetterRange::default(), 10).await;
        page.unwrap().letters
    };
    while letters().await.is_empty() {
        tokio::task::yield_now().await;
    }
    put(&world, "orders", PRICE).await.ok();
    let id = letters().await[0].id().to_string();
    let replay = async |more: Value| {
        let mut body = json!({"topic": "orders", "ids": [id]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.post("/dlq/replay", &body.to_string()).await
    };
    for more in [json!({}), json!({"payload": {"price": true}})] {
        let got = replay(more.clone()).await;
        assert!(got.json.to_string().contains("schema_violation"), "{more}: {}", got.json);
        assert_eq!(bus.last_seq("orders"), Some(1), "{more}");
    }
    replay(json!({"payload": {"price": 1}})).await.ok();
    assert_eq!(bus.last_seq("orders"), Some(2));
}
