#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Code;
use crate::arbitrary::{spell, value};

proptest! {
    #[test]
    fn every_spelling_of_json_is_taken_and_kept_on_one_line(value in value(), seed: u64) {
        let text = spell(&value, seed);
        let payload = Payload::from_json(text.clone()).unwrap();
        prop_assert!(!payload.as_bytes().contains(&b'\n') && !payload.as_bytes().contains(&b'\r'));
        let line = text.replace(['\n', '\r'], " ");
        prop_assert_eq!(payload.as_bytes(), line.trim_ascii().as_bytes());
        prop_assert!(json::same(payload.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn random_bytes_are_taken_exactly_if_serde_takes_them(bytes: Vec<u8>) {
        prop_assert_eq!(Payload::from_json(bytes.clone()).is_ok(), serde_json::from_slice::<Value>(&bytes).is_ok());
    }

    // Without `u` and `e`, a change makes neither lone surrogates nor numbers beyond a float: those are valid
    // JSON, but serde's `Value` cannot hold them.
    #[test]
    fn mutated_json_is_taken_exactly_if_serde_takes_it(
        value in value().prop_filter("no escapes", |value| !value.to_string().contains("\\u")),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3, prop::sample::select(
            b"{}[]\",:\\ 0123456789-.tfn\n\t\0\x7f\x80\xc3\xff".to_vec(),
        )), 1..4),
    ) {
        let mut bytes = value.to_string().into_bytes();
        for (at, how, byte) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let expected = serde_json::from_slice::<Value>(&bytes).is_ok();
        prop_assert_eq!(Payload::from_json(bytes.clone()).is_ok(), expected, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn what_is_no_json_is_refused_with_the_place() {
    for bad in ["", " ", "{", "{,}", "[1,]", "01", "nul", "\"\n\"", "1 2", "NaN", "'a'", "\u{feff}1"] {
        let err = Payload::from_json(bad).unwrap_err();
        assert_eq!(err.code, Code::BadJson, "{bad:?}");
        assert!(err.msg.contains("line 1 column") || err.msg.contains("line 2 column"), "{err}");
    }
    let err = Payload::from_json(&b"\"ab\xff\""[..]).unwrap_err();
    assert_eq!(err.to_string(), "bad_json: payload is not UTF-8 from byte 3 on");
}

#[test]
fn nesting_is_allowed_up_to_the_limit() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Payload::from_json(nested(limits::NESTING)).is_ok());
    let err = Payload::from_json(nested(limits::NESTING + 1)).unwrap_err();
    assert_eq!(err.code, Code::BadRequest);
    assert_eq!(err.msg, "payload is nested 129 deep; at most 128 is allowed");
    assert!(Payload::stored(nested(1_000_000)).is_ok(), "the hub's own payloads have no limit, and no stack");
}

#[test]
fn numbers_and_escapes_that_no_value_can_hold_are_kept_as_text() {
    for text in ["1e999999", "123456789012345678901234567890", r#""\ud800""#, r#"{"a":1,"a":2}"#] {
        assert_eq!(Payload::from_json(text).unwrap().as_bytes(), text.as_bytes());
    }
}

#[test]
fn values_become_payloads() {
    assert_eq!(Payload::of("a\"b").unwrap().as_bytes(), br#""a\"b""#);
    assert_eq!(Payload::from(json!({"a": [1, null]})).as_bytes(), br#"{"a":[1,null]}"#);
    let keys_that_are_lists = std::collections::BTreeMap::from([(vec![1], 2)]);
    assert_eq!(Payload::of(&keys_that_are_lists).unwrap_err().code, Code::BadRequest);
    let raw = RawValue::from_string("[1,\n2]".into()).unwrap();
    assert_eq!(Payload::of(&raw).unwrap().as_bytes(), b"[1, 2]");
}

#[test]
fn null_is_known_with_whitespace_around_it() {
    assert!(Payload::null().is_null());
    assert!(Payload::from_json("\n null\t").unwrap().is_null());
    assert!(!Payload::from_json("\"null\"").unwrap().is_null());
}

#[test]
fn debug_shows_no_payload() {
    assert_eq!(format!("{:?}", Payload::of("secret").unwrap()), "Payload(8 bytes)");
}
