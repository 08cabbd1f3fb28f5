//! Schemas and values made at random, small enough that values match schemas often.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A value.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..6).prop_map(Value::from),
        prop_oneof![Just(json!(0.5)), Just(json!(1.5)), Just(json!(-2.25))],
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("ab")].prop_map(str::to_owned)
}

/// One keyword, as an object that has only it.
fn keyword(inner: &BoxedStrategy<Value>) -> impl Strategy<Value = Value> + use<> {
    let kind = || {
        prop_oneof![
            Just("null"),
            Just("boolean"),
            Just("integer"),
            Just("number"),
            Just("string"),
            Just("array"),
            Just("object")
        ]
    };
    let count = 0_u64..4;
    let list = || prop::collection::vec(inner.clone(), 1..3);
    let named = || prop::collection::btree_map(name(), inner.clone(), 0..3);
    let names = || prop::collection::btree_set(name(), 0..3);
    let one = |name: &'static str| inner.clone().prop_map(move |schema| json!({ name: schema }));
    let number = |name: &'static str| (-3_i64..6).prop_map(move |number| json!({ name: number }));
    let size = |name: &'static str| count.clone().prop_map(move |size| json!({ name: size }));
    let some = prop_oneof![
        3 => kind().prop_map(|kind| json!({"type": kind})),
        2 => prop::collection::btree_set(kind(), 1..4).prop_map(|kinds| json!({"type": kinds})),
        2 => prop::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
        1 => value().prop_map(|value| json!({"const": value})),
        1 => number("minimum"),
        1 => number("maximum"),
        1 => number("exclusiveMinimum"),
        1 => number("exclusiveMaximum"),
        1 => prop_oneof![Just(json!(2)), Just(json!(0.5)), Just(json!(3)), Just(json!(1.5))].prop_map(|of| json!({"multipleOf": of})),
        1 => size("minLength"),
        1 => size("maxLength"),
        1 => prop_oneof![Just("^a"), Just("b$"), Just("^[ab]*$"), Just("ab")].prop_map(|text| json!({"pattern": text})),
    ];
    let parts = prop_oneof![
        2 => one("items"),
        1 => list().prop_map(|list| json!({"prefixItems": list})),
        1 => one("contains"),
        1 => size("minContains"),
        1 => size("maxContains"),
        1 => size("minItems"),
        1 => size("maxItems"),
        1 => any::<bool>().prop_map(|unique| json!({"uniqueItems": unique})),
        4 => named().prop_map(|named| json!({"properties": named})),
        2 => names().prop_map(|names| json!({"required": names})),
        2 => one("additionalProperties"),
        1 => (prop_oneof![Just("^a"), Just("b")], inner.clone()).prop_map(|(text, schema)| json!({"patternProperties": {text: schema}})),
        1 => one("propertyNames"),
        1 => size("minProperties"),
        1 => size("maxProperties"),
        1 => (name(), names()).prop_map(|(name, names)| json!({"dependentRequired": {name: names}})),
        1 => (name(), inner.clone()).prop_map(|(name, schema)| json!({"dependentSchemas": {name: schema}})),
        1 => one("unevaluatedProperties"),
        1 => one("unevaluatedItems"),
    ];
    let whole = prop_oneof![
        2 => list().prop_map(|list| json!({"allOf": list})),
        2 => list().prop_map(|list| json!({"anyOf": list})),
        2 => list().prop_map(|list| json!({"oneOf": list})),
        1 => one("not"),
        1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(test, then, other)| json!({"if": test, "then": then, "else": other})),
        1 => Just(json!({"$ref": "#/$defs/d"})),
        // Within a member or an item a schema may refer to the whole.
        1 => prop_oneof![Just(json!({"properties": {"a": {"$ref": "#"}}})), Just(json!({"items": {"$ref": "#"}}))],
    ];
    prop_oneof![3 => some, 3 => parts, 2 => whole]
}

fn merged(keywords: Vec<Value>) -> Value {
    let mut all = Map::new();
    for keyword in keywords {
        if let Value::Object(members) = keyword {
            all.extend(members);
        }
    }
    Value::Object(all)
}

fn subschema() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        1 => Just(json!(true)),
        1 => Just(json!(false)),
        6 => prop_oneof![Just("string"), Just("integer"), Just("number"), Just("object"), Just("null")].prop_map(|kind| json!({"type": kind})),
        3 => prop::collection::vec(value(), 1..3).prop_map(|values| json!({"enum": values})),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop::collection::vec(keyword(&inner.boxed()), 0..4).prop_map(merged)
    })
    .boxed()
}

/// A schema, as a document with a definition that it may refer to.
pub fn schema() -> impl Strategy<Value = Value> {
    let whole = prop::collection::vec(keyword(&subschema()), 1..4).prop_map(merged);
    // A definition refers to nothing: references in place must not go in circles.
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "minimum": 0})),
        Just(json!({"required": ["a"]}))
    ];
    (whole, leaf).prop_map(|(mut schema, definition)| {
        schema["$defs"] = json!({"d": definition});
        schema
    })
}

/// Changes a schema in one or two places: keywords go, come, or change their value.
pub fn changed(schema: Value) -> impl Strategy<Value = Value> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), keyword(&subschema()), 0_u8..4), 1..3);
    edits.prop_map(move |edits| {
        let mut schema = schema.clone();
        for (at, keyword, how) in edits {
            let places = places(&schema, "");
            let place = places[at.index(places.len())].clone();
            let target =
                if place.is_empty() { &mut schema } else { schema.pointer_mut(&place).expect("a place") };
            let Value::Object(rules) = target else {
                *target = json!({});
                continue;
            };
            match how {
                0 => {
                    let name = rules.keys().find(|name| *name != "$defs").cloned();
                    name.map(|name| rules.remove(&name));
                }
                1 => {
                    for value in rules.values_mut() {
                        nudge(value, 1);
                    }
                }
                2 => {
                    for value in rules.values_mut() {
                        nudge(value, -1);
                    }
                }
                _ => rules.extend(keyword.as_object().cloned().unwrap_or_default()),
            }
        }
        schema
    })
}

fn nudge(value: &mut Value, by: i64) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_i64().filter(|number| *number + by > 0) {
                *value = json!(number + by);
            }
        }
        Value::Array(items) if items.len() > 1 && by < 0 => {
            items.pop();
        }
        Value::Bool(flag) if by > 0 => *value = json!(!*flag),
        _ => {}
    }
}

/// Where schemas stand in a schema.
fn places(schema: &Value, at: &str) -> Vec<String> {
    const ONE: [&str; 10] = [
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "not",
        "if",
        "then",
        "else",
    ];
    let mut all = vec![at.to_owned()];
    for name in ONE {
        if let Some(inner) = schema.get(name) {
            all.extend(places(inner, &format!("{at}/{name}")));
        }
    }
    for name in ["allOf", "anyOf", "oneOf", "prefixItems"] {
        for (index, inner) in schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            all.extend(places(inner, &format!("{at}/{name}/{index}")));
        }
    }
    for name in ["properties", "patternProperties", "dependentSchemas"] {
        for (key, inner) in schema.get(name).and_then(Value::as_object).into_iter().flatten() {
            all.extend(places(inner, &format!("{at}/{name}/{key}")));
        }
    }
    all
}
