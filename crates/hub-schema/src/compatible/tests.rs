use super::*;

fn schema(text: &str) -> Schema {
    Schema::compile(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn compare(old: &str, new: &str) -> Result<(), Incompatible> {
    check_compatible(&schema(old), &schema(new))
}

#[test]
fn versions_that_accept_more_are_accepted() {
    for (old, new) in [
        (r#"{"type": "integer"}"#, r#"{"type": "number"}"#),
        (r#"{"type": "integer"}"#, r#"{"type": ["integer", "null"]}"#),
        (r#"{"enum": [1, 2]}"#, r#"{"type": "integer", "maximum": 2}"#),
        (r#"{"const": "a"}"#, r#"{"enum": ["b", "a"]}"#),
        (r#"{"minimum": 2}"#, r#"{"exclusiveMinimum": 1}"#),
        (r#"{"multipleOf": 6}"#, r#"{"multipleOf": 3}"#),
        (r#"{"type": "integer"}"#, r#"{"multipleOf": 0.5, "type": "number"}"#),
        (r#"{"maxLength": 5, "pattern": "^a"}"#, r#"{"maxLength": 6, "pattern": "^a"}"#),
        // Members that were free may be named as long as nothing is asked of them; required ones may become optional.
        (r#"{"required": ["a", "b"]}"#, r#"{"required": ["a"], "properties": {"c": {}}}"#),
        (
            r#"{"properties": {"a": {"type": "string"}}, "additionalProperties": false}"#,
            r#"{"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "additionalProperties": false}"#,
        ),
        (
            r#"{"additionalProperties": {"type": "integer"}}"#,
            r#"{"additionalProperties": {"type": "number"}}"#,
        ),
        (r#"{"additionalProperties": {"type": "integer"}}"#, r#"{"properties": {"a": {"type": "number"}}}"#),
        (
            r#"{"items": {"type": "integer"}, "maxItems": 3}"#,
            r#"{"items": {"type": "number"}, "maxItems": 4}"#,
        ),
        (r#"{"prefixItems": [{"type": "string"}], "items": false}"#, r#"{"items": {"type": "string"}}"#),
        // A variant is added to a union that a member tells apart.
        (
            r#"{"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}]}"#,
            r#"{"oneOf": [{"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                          {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}]}"#,
        ),
        (r#"{"anyOf": [{"type": "string"}]}"#, r#"{"anyOf": [{"type": "integer"}, {"type": "string"}]}"#),
        (r#"{"type": ["string", "integer"]}"#, r#"{"anyOf": [{"type": "integer"}, {"type": "string"}]}"#),
        (r#"{"allOf": [{"minimum": 1}, {"maximum": 5}]}"#, r#"{"minimum": 0, "maximum": 5}"#),
        (r#"{"not": {"type": ["string", "null"]}}"#, r#"{"not": {"type": "string"}}"#),
        // Recursive ones.
        (
            r##"{"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}"##,
            r##"{"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "number"}}}}}"##,
        ),
        (
            r#"{"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}}"#,
            r#"{"if": {"required": ["a"]}, "then": {"required": ["b"]}}"#,
        ),
        (r#"{"properties": {"a": false}, "required": ["a"], "type": "object"}"#, r#"{"type": "string"}"#),
        ("false", r#"{"type": "string"}"#),
        (r#"{"type": "string"}"#, "true"),
        (r#"{"type": "boolean"}"#, r#"{"enum": [true, false, null]}"#),
        (
            r#"{"unevaluatedProperties": false, "allOf": [{"properties": {"a": {}}}]}"#,
            r#"{"description": "the same", "unevaluatedProperties": false, "allOf": [{"properties": {"a": {}}}]}"#,
        ),
    ] {
        assert_eq!(compare(old, new), Ok(()), "{old} to {new}");
    }
}

#[test]
fn what_is_narrowed_is_named_with_its_place() {
    for (old, new, expected) in [
        (r#"{"type": "number"}"#, r#"{"type": "integer"}"#, "/type: narrowed type: "),
        ("{}", r#"{"required": ["a"]}"#, r#"/required: new required: "a""#),
        (r#"{"enum": ["a", "b"]}"#, r#"{"enum": ["a"]}"#, r#"/enum: removed from enum: "b""#),
        ("{}", r#"{"enum": ["a"]}"#, "/enum: the values were not limited to a list"),
        (r#"{"minimum": 1}"#, r#"{"minimum": 2}"#, "/minimum: raised to 2"),
        (r#"{"minimum": 1}"#, r#"{"exclusiveMinimum": 1}"#, "/exclusiveMinimum: raised to 1"),
        (r#"{"maxLength": 5}"#, r#"{"maxLength": 4}"#, "/maxLength: lowered from 5 to 4"),
        ("{}", r#"{"pattern": "^a"}"#, r#"/pattern: new pattern "^a""#),
        ("{}", r#"{"properties": {"a": {"type": "string"}}}"#, "/properties/a/type: narrowed type: "),
        (r#"{"properties": {"a": {}}}"#, r#"{"additionalProperties": false}"#, "/additionalProperties: "),
        (
            "{}",
            r#"{"additionalProperties": false}"#,
            "/additionalProperties: members with other names were allowed",
        ),
        (
            "{}",
            r#"{"patternProperties": {"^x": {"type": "null"}}}"#,
            "/patternProperties/^x/type: narrowed type: ",
        ),
        ("{}", r#"{"items": {"type": "string"}}"#, "/items/type: narrowed type: "),
        (r#"{"maxItems": 3}"#, r#"{"maxItems": 2}"#, "/maxItems: lowered from 3 to 2"),
        ("{}", r#"{"uniqueItems": true}"#, "/uniqueItems: items could be equal"),
        ("{}", r#"{"not": {"type": "null"}}"#, "/not: what it excludes may have been accepted"),
        (
            r#"{"anyOf": [{"type": "string"}, {"type": "null"}]}"#,
            r#"{"anyOf": [{"type": "string"}]}"#,
            "/anyOf: ",
        ),
        // A second schema of oneOf that accepts the same makes the value one that matches two.
        (r#"{"type": "string"}"#, r#"{"oneOf": [{"type": "string"}, {"maxLength": 3}]}"#, "/oneOf/1: "),
        ("{}", "false", "/: nothing is accepted here any more"),
        ("{}", r#"{"unevaluatedProperties": false}"#, "/unevaluatedProperties: it can only be compared if"),
    ] {
        let told = compare(old, new).expect_err("it is refused").to_string();
        assert!(told.starts_with(expected), "{old} to {new}: {told}");
    }
}

/// A claim about names is one about strings: that it holds says nothing of other values.
#[test]
fn claims_about_names_are_not_taken_for_claims_about_values() {
    let old = r#"{"propertyNames": true, "additionalProperties": true}"#;
    let new = r##"{"$defs": {"s": {"type": "string"}}, "propertyNames": {"$ref": "#/$defs/s"}, "additionalProperties": {"$ref": "#/$defs/s"}}"##;
    assert!(compare(old, new).is_err());
}

#[test]
fn what_is_too_complex_is_refused_in_bounded_time() {
    let branches = |n: usize| -> String {
        (0..n)
            .map(|n| format!(r#"{{"required":["a{n}"],"properties":{{"a{n}":{{"minimum":{n}}}}}}}"#))
            .collect::<Vec<_>>()
            .join(",")
    };
    let list = |n: usize| format!(r#"{{"anyOf":[{}]}}"#, branches(n));
    let many: Vec<String> = (0..12).map(|_| list(12)).collect();
    let old = format!(r#"{{"allOf":[{}]}}"#, many.join(","));
    let new = format!(r#"{{"allOf":[{},{{"anyOf":[{{"required":["z"]}}]}}]}}"#, many.join(","));
    assert!(compare(&old, &new).is_err());
}
