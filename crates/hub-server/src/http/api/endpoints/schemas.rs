//! Schemas of topics.

use super::super::components::json_schema;
use super::super::schema::{array, count, flag, integer, named, object, one_of, page, topic_or_pattern, yes};
use super::super::schema::{text, time};
use super::super::{Content, Endpoint, Kind, Needs, Param, Verb, params};
use super::{delete, get, post};
use serde_json::Value;

const TARGET: Param =
    Param::required("topic", Kind::TopicOrPattern, "The topic or the pattern.", "orders.created");

fn origin() -> Value {
    one_of(&["api", "file"])
}

fn list() -> Value {
    let entry = object(&[
        ("topic", topic_or_pattern()),
        ("origin", origin()),
        ("version", count()),
        ("ts?", time()),
        ("by?", text()),
        ("forced?", yes()),
        ("schema", json_schema()),
    ]);
    page("schemas", entry)
}

pub static SCHEMAS: Endpoint = get(
    "/schemas",
    "schemas",
    "The schemas of topics and patterns that the token may see, each with its newest version. A page has at most 100 of them.",
    Needs::Token,
    &[params::AFTER, params::FEWER],
    &[Content::json(
        list,
        &[(
            "page",
            r#"{"schemas":[{"topic":"orders.created","origin":"api","version":2,"ts":1780000000000,"by":"ada","forced":true,"schema":{"type":"object","properties":{"price":{"type":"integer"}}}}],"next":"orders.created"}"#,
        )],
    )],
);

fn versions() -> Value {
    object(&[
        ("topic", topic_or_pattern()),
        ("origin", origin()),
        ("versions", array(named("SchemaVersion"))),
    ])
}

pub static SCHEMA: Endpoint = get(
    "/schemas/{topic}",
    "schema",
    "The schema of a topic or of a pattern with the versions that are kept, the newest first.",
    Needs::Token,
    &[TARGET],
    &[Content::json(
        versions,
        &[(
            "versions",
            r#"{"topic":"orders.created","origin":"api","versions":[{"version":2,"ts":1780000000000,"by":"ada","schema":{"properties":{"price":{"type":"number"}}}},{"version":1,"ts":1770000000000,"by":"ada","schema":{"properties":{"price":{"type":"integer"}}}}]}"#,
        )],
    )],
)
.refusing(&[403, 404]);

fn stored() -> Value {
    object(&[("topic", topic_or_pattern()), ("version", integer(1, u64::MAX)), ("new", flag())])
}

pub static PUT_SCHEMA: Endpoint = Endpoint {
    method: Verb::Put,
    params: &[
        TARGET,
        Param::new(
            "force",
            Kind::OneOf(&["true", "false"]),
            "Stores the version also if it may refuse what the one before it accepted.",
        ),
    ],
    ..post(
        "/schemas/{topic}",
        "putSchema",
        "Stores a new version of the schema of a topic or of a pattern. One that may refuse what the version before it accepted is \
         refused, unless it is forced.",
        Needs::Right("admin"),
        &[Content::json(
            json_schema,
            &[("schema", r#"{"type":"object","properties":{"price":{"type":"integer"}},"required":["price"]}"#)],
        )],
        &[Content::json(stored, &[("stored", r#"{"topic":"orders.created","version":2,"new":true}"#)])],
    )
    .refusing(&[409])
};

fn deleted() -> Value {
    object(&[("topic", topic_or_pattern()), ("deleted", integer(1, u64::MAX))])
}

pub static DELETE_SCHEMA: Endpoint = delete(
    "/schemas/{topic}",
    "deleteSchema",
    "Deletes the schema of a topic or of a pattern with all its versions. Payloads are not checked against it any more.",
    &[TARGET],
    &[Content::json(deleted, &[("deleted", r#"{"topic":"orders.created","deleted":2}"#)])],
);
