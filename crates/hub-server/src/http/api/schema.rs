//! The schemas of bodies and answers, as JSON Schema. Written by small functions that are put together.

use serde_json::{Map, Value, json};

/// Makes a schema.
pub(super) type Schema = fn() -> Value;

/// An object with these fields; a name that ends with `?` may be left out.
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
    json!({"type": "object", "properties": properties, "required": required})
}

/// A list.
#[expect(clippy::needless_pass_by_value, reason = "schemas are put together from temporary parts")]
pub(super) fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A page of entries under this name, with `next` where there is more.
pub(super) fn page(name: &str, entry: Value) -> Value {
    object(&[(name, array(entry)), ("next?", text())])
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

pub(super) fn number() -> Value {
    json!({"type": "number"})
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

/// An event, as it is stored.
pub(super) fn event() -> Value {
    named("Event")
}
