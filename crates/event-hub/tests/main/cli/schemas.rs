//! `schemas`, on a hub with the embedded store.

use super::{Cli, objects};
use crate::hub::{Hub, Place, run_with};
use reqwest::Method;
use serde_json::json;

const PRICE: &str = r#"{"type":"object","properties":{"price":{"type":"integer"}}}"#;

fn publish(hub: &Hub, topic: &str, payload: &str) -> (u16, String) {
    hub.ask(Method::POST, &format!("publish/{topic}"), Some(hub.token()), payload)
}

#[test]
fn a_schema_is_put_listed_shown_enforced_and_removed() {
    let cli = Cli::new();
    let file = cli.place.write("price.json", PRICE);
    assert_eq!(cli.run(&["schemas", "put", "orders", &file]).ends_with(0).out, "orders: version 1 stored\n");
    assert_eq!(
        cli.run(&["schemas", "put", "orders", &file]).ends_with(0).out,
        "orders: version 1 is the same; nothing changed\n"
    );
    let (status, refused) = publish(&cli.hub, "orders", r#"{"price":"1"}"#);
    assert_eq!(status, 422, "{refused}");
    assert!(refused.contains("schema_violation") && refused.contains("/price"), "{refused}");
    let lines = cli.pipe(&["publish", "orders", "--lines"], b"{\"price\":1}\n{\"price\":1.5}\n");
    lines.ends_with(1);
    assert!(lines.err.contains("schema_violation"), "{}", lines.err);

    let narrower =
        cli.place.write("narrower.json", r#"{"type":"object","properties":{"price":{"const":1}}}"#);
    let refused = cli.run(&["schemas", "put", "orders", &narrower]);
    refused.ends_with(1);
    assert!(
        refused.err.contains("what version 1 accepted") && refused.err.contains("/properties/price"),
        "{}",
        refused.err
    );
    let forced = cli.run(&["schemas", "put", "orders", &narrower, "--force", "--json"]);
    assert_eq!(forced.ends_with(0).json(), json!({"topic": "orders", "version": 2, "new": true}));
    cli.pipe(&["schemas", "put", "process.**", "-"], b"true").ends_with(0);

    let listed = cli.run(&["schemas", "ls"]);
    listed
        .ends_with(0)
        .says("TOPIC VERSION FROM STORED (UTC) BY FORCED")
        .says("orders 2 api")
        .says("process.** 1 api");
    let names: Vec<_> = objects(&cli.run(&["schemas", "ls", "--json"]).out)
        .iter()
        .map(|schema| schema["topic"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["orders", "process.**"]);
    let shown = cli.run(&["schemas", "show", "orders"]);
    shown.ends_with(0).says(r#""const": 1"#);
    cli.run(&["schemas", "show", "orders", "--version", "1"]).ends_with(0).says(r#""type": "integer""#);
    let missing = cli.run(&["schemas", "show", "orders", "--version", "7"]);
    missing.ends_with(1);
    assert!(missing.err.contains("it has 2, 1"), "{}", missing.err);
    assert_eq!(cli.run(&["schemas", "show", "orders", "--json"]).json()["versions"][1]["version"], 1);

    let asked = cli.run(&["schemas", "rm", "orders"]);
    asked.ends_with(2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    assert_eq!(
        cli.run(&["schemas", "rm", "orders", "--yes"]).ends_with(0).out,
        "schema of orders deleted: 2 versions\n"
    );
    assert_eq!(publish(&cli.hub, "orders", r#"{"price":"1"}"#).0, 200);
    let gone = cli.run(&["schemas", "show", "orders"]);
    gone.ends_with(1);
    assert!(gone.err.contains("orders has no schema"), "{}", gone.err);
    cli.stop();
}

#[test]
fn a_schema_is_checked_before_it_is_stored() {
    let cli = Cli::new();
    let file = |name: &str, text: &str| cli.place.write(name, text);
    let (old, wider, bad) =
        (file("old.json", PRICE), file("wider.json", "{}"), file("bad.json", r#"{"type":"int"}"#));
    let (good_payload, bad_payload) = (file("good", r#"{"price":1}"#), file("wrong", r#"{"price":"x"}"#));
    cli.run(&["schemas", "put", "orders", &old]).ends_with(0);
    cli.run(&["schemas", "check", &wider, "--topic", "orders"])
        .ends_with(0)
        .says("accepts all that version 1 of orders accepts");
    let narrowed = cli.run(&["schemas", "check", &old, "--old", &wider]);
    narrowed.ends_with(1).says("/type: narrowed type");
    cli.run(&["schemas", "check", &old, "--payload", &good_payload]).ends_with(0).says("matches");
    let refused = cli.run(&["schemas", "check", &old, "--payload", &good_payload, "--payload", &bad_payload]);
    refused.ends_with(1).says(r#"/price: "x" is not of type "integer""#);
    let broken = cli.run(&["schemas", "check", &bad]);
    broken.ends_with(1);
    assert!(broken.err.contains(r#"/type: "int" is no type"#), "{}", broken.err);
    cli.run(&["schemas", "check", &cli.place.text("none.json")]).ends_with(2);
    cli.run(&["schemas", "put", "no topic", &old]).ends_with(2);
    cli.stop();
}

#[test]
fn an_import_is_checked() {
    let cli = Cli::new();
    cli.publish("orders", 1..=3);
    let exported = cli.run(&["export", "orders"]);
    exported.ends_with(0);
    let file = cli.place.write("orders.ndjson", &exported.out);
    cli.pipe(&["schemas", "put", "copies", "-"], br#"{"maximum":2}"#).ends_with(0);
    let imported = cli.run(&["import", "copies", &file]);
    imported.ends_with(1);
    assert!(imported.err.contains("schema_violation"), "{}", imported.err);
    cli.stop();
}

#[test]
fn schemas_survive_a_restart_and_kill_9() {
    let place = Place::new();
    let data = place.path("data");
    let mut hub = Hub::start(&data, &[], &[]);
    let put = |hub: &Hub, topic: &str| {
        let (status, answer) = hub.ask(Method::PUT, &format!("schemas/{topic}"), Some(hub.token()), PRICE);
        assert_eq!(status, 200, "{answer}");
    };
    put(&hub, "orders");
    hub.process.signal("KILL");
    hub.process.ended();
    hub.start_again(&data);
    assert_eq!(publish(&hub, "orders", r#"{"price":"1"}"#).0, 422);
    assert_eq!(publish(&hub, "orders", r#"{"price":1}"#).0, 200);
    hub.stop();
}

#[test]
fn schemas_of_the_configuration_hold_and_are_reloaded() {
    let place = Place::new();
    let data = place.text("data");
    place.write("price.json", PRICE);
    let write = |rest: &str| {
        place.write(
            "hub.toml",
            &format!("[[schema]]\ntopic = \"orders.*\"\nfile = {:?}\n{rest}", place.text("price.json")),
        )
    };
    let config = write("");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    assert_eq!(publish(&hub, "orders.new", r#"{"price":"1"}"#).0, 422);
    let refused = hub.ask(Method::PUT, "schemas/orders.*", Some(hub.token()), "true");
    assert_eq!(refused.0, 403, "{}", refused.1);
    let listed = run_with(&["schemas", "ls", "--ops-url", hub.http(), "--data", &data], &[]);
    listed.ends_with(0).says("orders.* - configuration");
    write("[[schema]]\ntopic = \"mail\"\nschema = '{\"type\": \"string\"}'\n");
    hub.process.signal("HUP");
    while publish(&hub, "mail", "1").0 == 200 {
        std::thread::yield_now();
    }
    assert_eq!(publish(&hub, "mail", "\"text\"").0, 200);
    hub.stop();
    place.write("hub.toml", "[[schema]]\ntopic = \"orders\"\nschema = '{\"type\": \"int\"}'\n");
    let checked = run_with(&["config", "check", &config], &[]);
    assert_ne!(checked.code, 0);
    assert!(
        checked.out.contains("the schema of orders is refused") && checked.out.contains("/type"),
        "{}",
        checked.out
    );
}
