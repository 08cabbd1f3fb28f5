use super::*;
use crate::bounds::{APPLIED_IN_PLACE, SUBSCHEMAS};
use hub_proto::Code;

fn refused(text: &str) -> Error {
    Schema::compile(text.as_bytes()).expect_err("it is refused")
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (schema, named) in [
        (r#"{"properties": {"a/b": {"type": "int"}}}"#, r#"/properties/a~1b/type: "int" is no type"#),
        (r#"{"type": []}"#, "/type: the list is empty"),
        (r#"{"required": "a"}"#, "/required: it must be an array of names"),
        (r#"{"minLength": -1}"#, "/minLength: it must be an integer of at least 0"),
        (r#"{"minimum": "1"}"#, "/minimum: it must be a number"),
        (r#"{"multipleOf": 0}"#, "/multipleOf: it must be above 0"),
        (r#"{"anyOf": []}"#, "/anyOf: it must be an array of at least one schema"),
        (r#"{"items": [{}]}"#, "/items: it is an array; a schema is an object, true or false"),
        (r#"{"pattern": "(?=x)"}"#, "linear time"),
        (r#"{"enum": 1}"#, "/enum: it must be an array of values"),
        (r#"{"uniqueItems": 1}"#, "/uniqueItems: it must be true or false"),
        ("[]", "a schema is an object, true or false"),
        (r#"{"a": 1, "a": 2}"#, r#"the name "a" twice"#),
        (r##"{"$ref": "#/$defs/none"}"##, "/$ref: there is nothing at"),
        (r##"{"$ref": "#none"}"##, "/$ref: there is nothing at"),
        (r#"{"$ref": "https://example.com/schema"}"#, "leads out of the document"),
        (r#"{"$ref": "file:///etc/passwd"}"#, "leads out of the document"),
        (r#"{"$ref": "other.json"}"#, "leads out of the document"),
        (r##"{"$dynamicRef": "#a"}"##, "/$dynamicRef: this keyword is not supported; write $ref"),
        (r#"{"dependencies": {}}"#, "dependentRequired"),
        (
            r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#,
            "only https://json-schema.org/draft/2020-12/schema",
        ),
        (r#"{"$defs": {"a": {"$id": "b"}}}"#, "only the whole document may have an $id"),
        (r#"{"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}"#, "is there twice"),
    ] {
        let error = refused(schema);
        assert_eq!(error.code, Code::BadRequest, "{schema}: {error}");
        assert!(error.msg.contains(named), "{schema}: {error}");
    }
    assert_eq!(refused("{").code, Code::BadJson);
}

#[test]
fn a_schema_is_bounded_in_every_direction() {
    let long = format!(r#"{{"description": "{}"}}"#, "x".repeat(SCHEMA_BYTES));
    assert_eq!(refused(&long).code, Code::TooLarge);
    let deep = r#"{"items":"#.repeat(SCHEMA_DEPTH) + "{}" + &"}".repeat(SCHEMA_DEPTH);
    assert!(refused(&deep).msg.contains("nested deeper"), "{}", refused(&deep));
    let wide: Vec<String> = (0..SUBSCHEMAS).map(|n| format!(r#""{n}":{{}}"#)).collect();
    let wide = format!(r#"{{"$defs":{{{}}}}}"#, wide.join(","));
    assert!(refused(&wide).msg.contains("more than 4096 schemas"), "{}", refused(&wide));
    let patterns: Vec<String> = (0..200).map(|n| format!(r#""p{n}":{{"pattern":"x{n}"}}"#)).collect();
    let patterns = format!(r#"{{"properties":{{{}}}}}"#, patterns.join(","));
    assert!(refused(&patterns).msg.contains("regular expressions"), "{}", refused(&patterns));
}

#[test]
fn schemas_that_apply_themselves_to_one_value_are_refused() {
    for schema in [
        r##"{"$ref": "#"}"##,
        r##"{"anyOf": [{"type": "string"}, {"$ref": "#"}]}"##,
        r##"{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}"##,
        r##"{"if": {"$ref": "#"}}"##,
        r##"{"dependentSchemas": {"a": {"$ref": "#"}}}"##,
    ] {
        assert!(refused(schema).msg.contains("refers to itself"), "{}", refused(schema));
    }
    let chain: Vec<String> = (0..=APPLIED_IN_PLACE)
        .map(|n| format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{}"}}]}}"##, n + 1))
        .collect();
    let end = format!(r#""d{}":{{}}"#, APPLIED_IN_PLACE + 1);
    let chain = format!(r#"{{"$defs":{{{},{end}}}}}"#, chain.join(","));
    assert!(refused(&chain).msg.contains("one by the other"), "{}", refused(&chain));
}

#[test]
fn references_lead_to_pointers_anchors_and_the_document_itself() {
    for schema in [
        r##"{"$defs": {"a b": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a%20b"}}}"##,
        r##"{"$defs": {"a": {"$anchor": "text", "type": "string"}}, "properties": {"x": {"$ref": "#text"}}}"##,
        r##"{"$id": "https://example.com/s", "properties": {"x": {"$ref": "https://example.com/s#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}"##,
        r##"{"definitions": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a"}}}"##,
        r##"{"properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "string"}}}"##,
    ] {
        let schema = Schema::compile(schema.as_bytes()).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(schema.check(br#"{"x": "text"}"#).is_ok());
        assert!(schema.check(br#"{"x": 1}"#).is_err());
    }
}

#[test]
fn the_same_json_is_the_same_schema() {
    let compiled = |text: &str| Schema::compile(text.as_bytes()).expect("a schema");
    let schema = compiled(r#"{"type": "object", "minProperties": 1}"#);
    assert!(schema.is_same_text(&compiled("{\"minProperties\":1.0,\n\"type\":\"object\"}")));
    assert!(!schema.is_same_text(&compiled(r#"{"type": "object"}"#)));
    assert_eq!(compiled("{\n}").text(), "{ }");
}
