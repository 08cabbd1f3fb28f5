//! The parts that schemas of bodies and answers are put together from, as JSON Schema 2020-12. Objects are closed: a field that
//! the document does not name is a mistake in the document or in the hub.

use hub_proto::limits;
use serde_json::{Map, Value, json};

/// Makes a schema.
pub(super) type Schema = fn() -> Value;

/// Segments with dots between them.
const TOPIC: &str = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$";
/// The same with wildcards among the segments.
const PATTERN: &str = "^(\\*\\*?|[A-Za-z0-9_-]+)(\\.(\\*\\*?|[A-Za-z0-9_-]+))*$";
const GROUP: &str = "^[A-Za-z0-9_.-]+$";
/// The longest name of a topic that can be read: of the dead letters of a snapshot.
const READABLE_TOPIC_BYTES: usize = limits::TOPIC_BYTES + "dlq.".len() + ".snapshot".len();

/// An object with these fields and no others; a name that ends with `?` may be left out.
pub(super) fn object(fields: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in fields {
        let plain = name.trim_end_matches('?');
        if plain.len() == name.len() {
            required.push(plain);
        }
        properties.insert(plain.to_owned(), schema.clone());
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object with any names, whose values have this schema.
#[expect(clippy::needless_pass_by_value, reason = "schemas are put together from temporary parts")]
pub(super) fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// A list.
#[expect(clippy::needless_pass_by_value, reason = "schemas are put together from temporary parts")]
pub(super) fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A list with at least and at most so many entries.
#[expect(clippy::needless_pass_by_value, reason = "schemas are put together from temporary parts")]
pub(super) fn array_of(least: usize, most: usize, items: Value) -> Value {
    json!({"type": "array", "items": items, "minItems": least, "maxItems": most})
}

/// A page of entries under this name, with `next` where there is more.
pub(super) fn page(name: &str, entry: Value) -> Value {
    object(&[(name, array(entry)), ("next?", text())])
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// A text with at least and at most so many characters.
pub(super) fn text_of(least: usize, most: usize) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

/// One of some words.
pub(super) fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

pub(super) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// A whole number within bounds.
pub(super) fn integer(least: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// Milliseconds since 1970.
pub(super) fn time() -> Value {
    json!({"type": "integer", "minimum": 0, "description": "Milliseconds since 1970."})
}

pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// A flag that is there only if it is true.
pub(super) fn yes() -> Value {
    json!({"type": "boolean", "const": true})
}

/// A rate or a duration.
pub(super) fn number() -> Value {
    json!({"type": "number", "minimum": 0})
}

/// The id of an event.
pub(super) fn id() -> Value {
    json!({"type": "string", "format": "uuid"})
}

/// The name of a topic that can be published to.
pub(super) fn new_topic() -> Value {
    json!({"type": "string", "pattern": TOPIC, "minLength": 1, "maxLength": limits::TOPIC_BYTES})
}

/// The name of a topic, also of one that the hub writes.
pub(super) fn topic() -> Value {
    json!({"type": "string", "pattern": TOPIC, "minLength": 1, "maxLength": READABLE_TOPIC_BYTES})
}

/// The name of a topic, or a pattern.
pub(super) fn topic_or_pattern() -> Value {
    json!({"type": "string", "pattern": PATTERN, "minLength": 1, "maxLength": limits::PATTERN_BYTES})
}

/// The name of a group.
pub(super) fn group() -> Value {
    json!({"type": "string", "pattern": GROUP, "minLength": 1, "maxLength": limits::GROUP_BYTES})
}

/// An entity key.
pub(super) fn key() -> Value {
    text_of(0, limits::KEY_BYTES)
}

/// The same, or null.
#[expect(clippy::needless_pass_by_value, reason = "schemas are put together from temporary parts")]
pub(super) fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// One of several.
pub(super) fn any(schemas: &[Value]) -> Value {
    json!({"anyOf": schemas})
}

/// A schema of the document's components.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
