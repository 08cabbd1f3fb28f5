#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// Stores a payload and reads it back: how it was stored, and what the BSON alone says.
fn through(json: &str) -> (Stored, Option<String>) {
    let mut writer = Writer::default();
    let open = writer.begin();
    let stored = write(&mut writer, json.as_bytes());
    writer.end(open);
    let document = RawDocument::from_bytes(&writer.bytes).unwrap();
    let text = document.get(TEXT).unwrap().map(|text| text.as_str().unwrap().to_owned());
    match stored {
        Stored::Exactly => assert_eq!(text, None),
        Stored::Twice | Stored::AsText => assert_eq!(text.as_deref(), Some(json)),
    }
    let bson = document.get(PAYLOAD).unwrap().map(|value| {
        let mut back = Vec::new();
        write_json(&mut back, value).unwrap();
        String::from_utf8(back).unwrap()
    });
    (stored, bson)
}

#[test]
fn what_our_writer_writes_is_stored_once() {
    let plain = [
        "null",
        "true",
        "false",
        "0",
        "-7",
        "2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "1.0",
        "-0.0",
        "0.1",
        "1e+300",
        "5e-324",
        r#""""#,
        r#""é😀\n\"""#,
        "[]",
        "{}",
        r#"{"a":1,"b":[1,"x",null,{"c":true}]}"#,
        r#"{"$set":1,"a.b":2,"":3,"$ref":4,"$id":5,"_id":6}"#,
        r#"{"z":1,"a":2}"#,
        "\"a\u{0}b\"",
    ];
    for json in plain {
        // A NUL inside of a text has to be escaped.
        let json = json.replace('\0', "\\u0000");
        assert_eq!(through(&json), (Stored::Exactly, Some(json.clone())), "{json}");
    }
}

#[test]
fn other_spellings_are_stored_twice() {
    for (json, bson) in [
        (r#"{ "a": 1 }"#, r#"{"a":1}"#),
        (r#""\u00e9\/""#, r#""é/""#),
        ("1e2", "100.0"),
        ("1.50", "1.5"),
        ("-0", "0"),
        ("1E3", "1000.0"),
        ("[ -0.0 , {} , [ ] , null ]", "[-0.0,{},[],null]"),
        ("10000000000000000000000", "1e+22"),
        ("1e300", "1e+300"),
    ] {
        assert_eq!(through(json), (Stored::Twice, Some(bson.to_owned())), "{json}");
    }
}

#[test]
fn what_bson_cannot_carry_is_text() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let digits = format!("[{}]", vec!["1"; 700_000].join(","));
    for json in [
        "9223372036854775808",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "9007199254740993.0",
        "1e400",
        r#"{"a":1,"a":2}"#,
        r#"{"b":{"a":1,"\u0061":1}}"#,
        r#"{"a\u0000":1}"#,
        r#""\ud800""#,
        &deep(100),
        &digits,
        &format!(" \"{}\"", "x".repeat(6_500_000)),
    ] {
        assert_eq!(through(json), (Stored::AsText, None), "{}", &json[..json.len().min(60)]);
    }
    assert_eq!(through(&deep(99)).0, Stored::Exactly);
}

#[test]
fn types_that_json_does_not_have_are_named() {
    let mut out = Vec::new();
    let error = write_json(&mut out, RawBsonRef::ObjectId(mongodb::bson::oid::ObjectId::new())).unwrap_err();
    assert!(error.contains("ObjectId"), "{error}");
    assert!(write_json(&mut out, RawBsonRef::Double(f64::NAN)).is_err());
}

/// JSON values with everything that is hard to carry.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-c$._]{0,3}", any::<String>()];
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        let object = prop::collection::btree_map(text.clone(), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            object.prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Valid JSON that no serializer would write: spaces, exponents, names twice, halves of pairs.
fn odd() -> impl Strategy<Value = String> {
    let number = ("-?", "(0|[1-9][0-9]{0,30})", "(\\.[0-9]{1,20})?", "([eE][+-]?[0-9]{1,3})?");
    let leaf = prop_oneof![
        number.prop_map(|(sign, whole, part, power)| format!("{sign}{whole}{part}{power}")),
        "\"([a-d]|\\\\u[0-9a-f]{4}|\\\\[nrt/\"\\\\])*\"",
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let member = ("\"[ab]\"|\"\\\\u006[12]\"", inner.clone())
            .prop_map(|(name, value)| format!("{name} : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(" ,"))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn what_is_stored_as_bson_is_the_same_json(value in value()) {
        let json = value.to_string();
        let (stored, bson) = through(&json);
        if let Some(bson) = bson {
            prop_assert!(json::same(bson.as_bytes(), json.as_bytes()), "{} became {}", json, bson);
            prop_assert_eq!(stored == Stored::Exactly, bson == json);
        }
    }

    #[test]
    fn however_odd_the_text_is(json in odd()) {
        let is_json = serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok();
        prop_assert!(is_json, "the strategy makes JSON: {}", json);
        let (_, bson) = through(&json);
        if let Some(bson) = bson {
            prop_assert!(json::same(bson.as_bytes(), json.as_bytes()), "{} became {}", json, bson);
        }
    }

    /// Whatever is in the database, reading it does not panic.
    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(document) = RawDocument::from_bytes(&bytes) {
            let _ = write_json(&mut Vec::new(), RawBsonRef::Document(document));
        }
    }
}
