//! What is generated is compared with files that are compiled: `generated.rs` with this test, `generated.ts` by the tests that have
//! Node. Set `EVENT_HUB_UPDATE_GENERATED` to write them anew.

// A file that is compared byte by byte.
#[rustfmt::skip]
mod generated;

use super::{Source, rust, typescript};
use hub_proto::Pattern;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn sources() -> Vec<Source> {
    let schemas: Value = serde_json::from_str(include_str!("tests/schemas.json")).expect("JSON");
    let schemas = schemas.as_object().expect("an object").iter();
    schemas.map(|(target, schema)| source(target, schema.clone())).collect()
}

fn source(target: &str, schema: Value) -> Source {
    Source { target: Pattern::parse(target).expect("a pattern"), schema }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/codegen/tests").join(name)
}

#[track_caller]
fn is_as_before(name: &str, text: &str) {
    if std::env::var_os("EVENT_HUB_UPDATE_GENERATED").is_some() {
        std::fs::write(file(name), text).expect("written");
    }
    let before = std::fs::read_to_string(file(name)).expect("the file");
    assert!(
        before == text,
        "{name} is not what is generated; EVENT_HUB_UPDATE_GENERATED=1 writes it:\n{text}"
    );
}

#[test]
fn the_schemas_of_the_tests_are_taken_by_the_hub() {
    for Source { target, schema } in sources() {
        hub_schema::Schema::compile(schema.to_string().as_bytes())
            .unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}

#[test]
fn typescript_is_as_it_was_compiled() {
    is_as_before("generated.ts", &typescript::generate(&sources()));
}

#[test]
fn rust_is_as_it_was_compiled() {
    is_as_before("generated.rs", &rust::generate(&sources()));
}

#[test]
fn the_same_schemas_give_the_same_text() {
    for generate in [typescript::generate, rust::generate] {
        assert_eq!(generate(&sources()), generate(&sources()));
    }
}

#[test]
fn generated_types_read_and_write_what_the_schema_accepts() {
    use generated::orders_created::{Payload, PayloadState};
    let order = json!({
        "id": "1", "price": 2.5, "note": null, "customer": {"name": "Ada", "city": "London"}, "state": "in transit",
        "count": 3, "delta": -1, "lines": [{"sku": "a", "parts": [{"sku": "b"}], "instead": {"sku": "c"}}],
        "type": "order", "self": true, "tags": {"a": "b"}, "pair": ["x", 1], "payment": {"iban": "DE"}, "amount": "12",
    });
    let read: Payload = serde_json::from_value(order.clone()).expect("an order");
    assert_eq!((read.price, read.state), (2.5, Some(PayloadState::InTransit)));
    assert_eq!(read.customer.other["city"], "London");
    assert_eq!(serde_json::to_value(&read).expect("a value"), order);
    let missing =
        serde_json::from_value::<Payload>(json!({"id": "1", "note": null, "customer": {"name": "Ada"}}));
    assert!(missing.expect_err("no price").to_string().contains("price"));
    let tree = json!({"children": [{"children": [], "value": "x"}], "map": {"a": {"b": {}}}});
    let read: generated::tree::Payload = serde_json::from_value(tree.clone()).expect("a tree");
    assert_eq!(serde_json::to_value(&read).expect("a value"), tree);
    assert_eq!(generated::process_any_state::PATTERN, "process.*.state");
}

#[test]
fn no_description_gets_out_of_its_comment() {
    let hostile = "*/ export const x = 1 /*\u{2028}*/\r*/ @ts-ignore\n*//// \\u002a/";
    let schema = json!({"type": "object", "description": hostile, "title": "*/", "properties": {"a": {"description": hostile}}});
    let text = typescript::generate(&[source("t", schema.clone())]);
    let (mut outside, mut rest) = (String::new(), &text[..]);
    while let Some((before, comment)) = rest.split_once("/*") {
        outside.push_str(before);
        rest = comment.split_once("*/").expect("a comment that ends").1;
    }
    outside.push_str(rest);
    assert!(!outside.contains("const x"), "{text}");
    assert!(!text.contains("@ts-"), "{text}");
    let text = rust::generate(&[source("t", schema)]);
    let outside: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    assert!(outside.iter().all(|line| !line.contains("const x")), "{text}");
    assert!(!text.contains(['\r', '\u{2028}']), "{text}");
}

#[test]
fn names_never_collide() {
    let schema = || {
        json!({"type": "object", "$defs": {"A b": {}, "a-b": {}, "aB": {}}, "properties": {
        "x": {"$ref": "#/$defs/A b"}, "y": {"$ref": "#/$defs/a-b"}, "z": {"$ref": "#/$defs/aB"}}})
    };
    let sources: Vec<Source> = ["a.b", "a-b", "a_b", "A.B", "ab.*", "ab.any", "1", "-", "_"]
        .map(|target| source(target, schema()))
        .into();
    let names = |text: &str, before: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(before));
        lines.map(|rest| rest.split([' ', '<', ';', '(']).next().unwrap_or_default().to_owned()).collect()
    };
    let text = typescript::generate(&sources);
    let mut all = [names(&text, "export type "), names(&text, "export interface ")].concat();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), count), (count, 1 + 9 * 4), "{all:?}");
    let mut modules = names(&rust::generate(&sources), "pub mod ");
    modules.sort();
    modules.dedup();
    assert_eq!(modules.len(), 9, "{modules:?}");
}
