#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::arbitrary::{spell, text, value};

fn canon(json: &str) -> String {
    String::from_utf8(canonical(json.as_bytes())).unwrap()
}

fn recursive_depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(recursive_depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(recursive_depth).max().unwrap_or(0),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn depth_agrees_with_a_recursive_count(value in value(), seed: u64) {
        prop_assert_eq!(depth(spell(&value, seed).as_bytes()), recursive_depth(&value));
    }

    #[test]
    fn all_spellings_of_a_value_are_the_same(value in value(), a: u64, b: u64) {
        let (a, b) = (spell(&value, a), spell(&value, b));
        prop_assert!(same(a.as_bytes(), b.as_bytes()), "{} and {}: {} and {}", a, b, canon(&a), canon(&b));
    }

    #[test]
    fn values_are_the_same_only_if_they_are_equal(value in value(), other in value(), seed: u64, change: u64) {
        let text = spell(&value, seed);
        prop_assert_eq!(same(text.as_bytes(), spell(&other, seed).as_bytes()), value == other);
        let mut near = value.clone();
        disturb(&mut near, change);
        prop_assert!(!same(text.as_bytes(), spell(&near, seed).as_bytes()), "{} and {}", value, near);
    }

    #[test]
    fn canonical_text_is_json_and_its_own_canonical_text(value in value(), seed: u64) {
        let once = canonical(spell(&value, seed).as_bytes());
        prop_assert!(serde_json::from_slice::<Value>(&once).is_ok());
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn anything_at_all_is_survived(bytes: Vec<u8>, near in "[\\[\\]{}\",:\\\\u0d8e.+\\-1 ]{0,40}") {
        for input in [&bytes[..], near.as_bytes()] {
            depth(input);
            canonical(input);
        }
    }

    #[test]
    fn a_written_string_reads_back_and_is_as_serde_writes_it(text in text()) {
        let mut out = Vec::new();
        write_str(&mut out, &text);
        prop_assert_eq!(&out, &serde_json::to_vec(&text).unwrap());
    }

    #[test]
    fn integers_of_any_length_are_exact(digits in "[1-9][0-9]{0,60}", zeros in 0_usize..40) {
        let zeroes = "0".repeat(zeros);
        let plain = format!("{digits}{zeroes}");
        for equal in [format!("{digits}e{zeros}"), format!("{plain}{zeroes}e-{zeros}")] {
            prop_assert!(same(plain.as_bytes(), equal.as_bytes()));
        }
        for other in [format!("{digits}e{}", zeros + 1), format!("{plain}.{zeroes}1")] {
            prop_assert!(!same(plain.as_bytes(), other.as_bytes()));
        }
    }
}

/// Changes one place of a value a little; `path` says which.
fn disturb(value: &mut Value, path: u64) {
    match value {
        Value::Array(items) if !items.is_empty() && !path.is_multiple_of(4) => {
            let at = path as usize % items.len();
            disturb(&mut items[at], path / 7);
        }
        Value::Object(members) if !members.is_empty() && !path.is_multiple_of(4) => {
            let at = path as usize % members.len();
            disturb(members.values_mut().nth(at).unwrap(), path / 7);
        }
        Value::Array(items) => items.push(Value::Null),
        Value::Object(members) => {
            members.insert("one more".into(), Value::Null);
        }
        Value::Null => *value = Value::from(false),
        Value::Bool(b) => *b = !*b,
        Value::Number(n) => *value = Value::from(n.as_i64().unwrap() ^ 1),
        Value::String(s) => s.push('!'),
    }
}

#[test]
fn depth_counts_brackets_outside_strings() {
    for (json, expected) in [
        ("1", 0),
        ("\"[[{\"", 0),
        (r#""\"[""#, 0),
        (r#"["\\",[]]"#, 2),
        ("[]", 1),
        (r#"{"[":{"a":[[1],2]}}"#, 4),
        ("[[],[[]],[]]", 3),
    ] {
        assert_eq!(depth(json.as_bytes()), expected, "{json}");
    }
}

#[test]
fn numbers_are_written_in_one_way() {
    for (number, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.00e+7", "0"),
        ("0e99999999999999999999999999", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("10e-1", "1"),
        ("0.01E2", "1"),
        ("-1.50", "-15e-1"),
        ("100", "1e2"),
        ("1E+2", "1e2"),
        ("0.001", "1e-3"),
        ("1e007", "1e7"),
        ("9007199254740993", "9007199254740993"),
        ("1e400", "1e400"),
    ] {
        assert_eq!(canon(number), expected, "{number}");
    }
}

#[test]
fn exponents_of_any_length_are_exact_and_stay_exponents() {
    let nines = "9".repeat(40);
    let power = format!("1{}", "0".repeat(40));
    for (a, b) in [
        ("1e1000000000", "10e999999999"),
        ("1e1000000000000000000", "10e999999999999999999"),
        ("1e-1000000000000000000", "0.1e-999999999999999999"),
        ("0.001e1000000000000000001", "1e999999999999999998"),
        (&format!("1e{power}"), &format!("10e{nines}")),
        (&format!("1e-{power}"), &format!("0.1e-{nines}")),
        (&format!("10e-{power}"), &format!("1e-{nines}")),
        (&format!("1e+000{power}"), &format!("1000e{}7", &nines[1..])),
    ] {
        assert!(same(a.as_bytes(), b.as_bytes()), "{a} {b}: {} {}", canon(a), canon(b));
        assert!(canon(a).len() <= a.len().max(b.len()) + 2);
    }
    assert!(!same(format!("1e{power}").as_bytes(), format!("1e{nines}").as_bytes()));
    assert!(!same(b"1e1000000000000000000", b"1e-1000000000000000000"));
}

#[test]
fn members_are_sorted_and_duplicates_keep_their_order() {
    assert_eq!(canon(r#" { "b" : 1 , "a" : { "d":2, "c" : [ ] } } "#), r#"{"a":{"c":[],"d":2},"b":1}"#);
    assert_eq!(canon(r#"{"b":0,"a":1,"\u0061":2}"#), r#"{"a":1,"a":2,"b":0}"#);
    assert!(!same(br#"{"a":1,"a":2}"#, br#"{"a":2,"a":1}"#));
    assert!(!same(br#"{"a":1,"a":1}"#, br#"{"a":1}"#));
    assert_eq!(canon(r#"[{"b":1,"a":2},{"b":3,"a":4}]"#), r#"[{"a":2,"b":1},{"a":4,"b":3}]"#);
}

#[test]
fn strings_are_unescaped_as_far_as_they_can_be() {
    for (text, expected) in [
        (r#""\u0041\/\u00e9""#, "\"A/é\""),
        (r#""\ud83d\uDE00""#, "\"😀\""),
        (r#""\u0022\u005C\u000a\u0001""#, r#""\"\\\n\u0001""#),
        (r#""\ud83d""#, r#""\ud83d""#),
        (r#""\uDE00\uD83D""#, r#""\ude00\ud83d""#),
        (r#""\ud83d\u0041""#, r#""\ud83dA""#),
        (r#""\ud83dx""#, r#""\ud83dx""#),
        (r#""\ud83d\ud83d\ude00""#, "\"\\ud83d😀\""),
        (r#""\\ud83d""#, r#""\\ud83d""#),
    ] {
        assert_eq!(canon(text), expected, "{text}");
    }
    assert!(!same(br#""\ud83d""#, br#""\\ud83d""#));
    assert!(!same(b"\"1\"", b"1"));
}

#[test]
fn nesting_as_deep_as_memory_needs_no_recursion() {
    let deep = format!("{}{}", "[{\"a\":".repeat(100_000), "}]".repeat(100_000));
    assert_eq!(depth(deep.as_bytes()), 200_000);
    assert_eq!(canonical(deep.as_bytes()), deep.as_bytes());
}

#[test]
fn numbers_are_written_in_decimal() {
    for n in [0, 1, 9, 10, 12_345, u64::MAX] {
        let mut out = Vec::new();
        write_u64(&mut out, n);
        assert_eq!(out, n.to_string().as_bytes());
    }
}

/// At 128 levels, each of which is out of order, a copy per level would be 128 copies.
#[test]
fn unordered_objects_within_each_other_are_put_into_order_in_one_pass() {
    let (depth, filler) = (128, "x".repeat(64 << 10));
    let (mut json, mut expected) = (format!("\"{filler}\""), format!("\"{filler}\""));
    for level in 0..depth {
        json = format!("{{\"b\":{json},\"c\":[{{\"z\":1,\"y\":{level}}}],\"a\":{level}}}");
        let number = |n: i32| String::from_utf8(canonical(n.to_string().as_bytes())).unwrap();
        let level = number(level);
        expected = format!("{{\"a\":{level},\"b\":{expected},\"c\":[{{\"y\":{level},\"z\":1}}]}}");
    }
    assert_eq!(String::from_utf8(canonical(json.as_bytes())).unwrap(), expected);
}
