use crate::bounds::VIOLATION_BYTES;
use crate::{Budget, Schema};

fn schema(text: &str) -> Schema {
    Schema::compile(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn violation(of: &str, payload: &str) -> String {
    schema(of).check(payload.as_bytes()).expect_err("it is refused").to_string()
}

#[test]
fn a_violation_names_path_value_and_rule() {
    for (of, payload, expected) in [
        (
            r#"{"properties": {"price": {"type": "integer"}}}"#,
            r#"{"price": 12.5}"#,
            r#"/price: 12.5 is not of type "integer""#,
        ),
        (
            r#"{"type": ["string", "null"]}"#,
            "[1]",
            r#"/: an array of 1 item is not of type "null" or "string""#,
        ),
        (r#"{"required": ["a", "b"]}"#, r#"{"a": 1}"#, r#"/: "b" is required and missing"#),
        (r#"{"required": ["a", "b"]}"#, "{}", r#"/: "a", "b" are required and missing"#),
        (
            r#"{"additionalProperties": false}"#,
            r#"{"x": 1}"#,
            r#"/: the member "x" is not allowed: the schema does not name it"#,
        ),
        (r#"{"items": {"enum": ["a", "b"]}}"#, r#"["a", "c"]"#, r#"/1: "c" is not one of "a", "b""#),
        (r#"{"const": 1}"#, "2", "/: 2 is not 1"),
        (r#"{"minimum": 1, "exclusiveMaximum": 5}"#, "5", "/: 5 is not below the maximum 5"),
        (r#"{"minimum": 1}"#, "0", "/: 0 is below the minimum 1"),
        (r#"{"multipleOf": 0.1}"#, "0.35", "/: 0.35 is not a multiple of 0.1"),
        (r#"{"maxLength": 2}"#, r#""abc""#, r#"/: "abc" has 3 characters, more than maxLength 2"#),
        (r#"{"pattern": "^a"}"#, r#""b""#, r#"/: "b" does not match the pattern "^a""#),
        (r#"{"uniqueItems": true}"#, "[1, 2, 1.0]", "/: items 0 and 2 are equal (uniqueItems)"),
        (r#"{"not": {"type": "null"}}"#, "null", "/: null matches a schema that it must not match (not)"),
        (
            r#"{"oneOf": [{"type": "number"}, {"type": "integer"}]}"#,
            "1",
            "/: 1 matches both oneOf/0 and oneOf/1",
        ),
        (
            r#"{"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}"#,
            "{}",
            r#"/: "a" is required and missing"#,
        ),
        (
            r#"{"anyOf": [{"minimum": 5}, {"multipleOf": 3}]}"#,
            "4",
            "/: 4 matches none of the 2 schemas of anyOf",
        ),
        (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"a": 1}"#, r#"/: "b" is required beside "a""#),
        (
            r#"{"propertyNames": {"maxLength": 1}}"#,
            r#"{"ab": 1}"#,
            r#"/: the name "ab" does not match propertyNames"#,
        ),
        (r#"{"contains": {"type": "null"}}"#, "[1]", "/: 0 items of the array match contains, fewer than 1"),
        (
            r#"{"properties": {"a/b": {"properties": {"~": false}}}}"#,
            r#"{"a/b": {"~": 1}}"#,
            "/a~1b/~0: 1 is not allowed here",
        ),
        ("{}", r#"{"a": 1, "a": 2}"#, r#"/: an object has the name "a" twice"#),
    ] {
        assert_eq!(violation(of, payload), expected);
    }
}

#[test]
fn numbers_are_exact_beyond_doubles() {
    let exact = schema(r#"{"const": 9007199254740993}"#);
    assert!(exact.check(b"9007199254740993").is_ok());
    assert!(exact.check(b"9007199254740992").is_err());
    let large = schema(r#"{"maximum": 18446744073709551616, "multipleOf": 2}"#);
    assert!(large.check(b"18446744073709551616").is_ok());
    assert!(large.check(b"18446744073709551617").is_err());
    assert!(large.check(b"1e400").is_err());
    let fine = schema(r#"{"enum": [0.1000000000000000000001]}"#);
    assert!(fine.check(b"0.1").is_err());
    assert!(fine.check(b"1000000000000000000001e-22").is_ok());
}

#[test]
fn a_violation_is_short_and_shows_little_of_the_payload() {
    let long = "geheim ".repeat(10_000);
    let payload = format!(r#"{{"{long}": "{long}"}}"#);
    for of in [
        r#"{"additionalProperties": {"type": "integer"}}"#,
        r#"{"additionalProperties": false}"#,
        r#"{"additionalProperties": {"maxLength": 1}}"#,
        r#"{"propertyNames": {"maxLength": 1}}"#,
        r#"{"additionalProperties": {"enum": ["a"]}}"#,
        r#"{"type": "array"}"#,
    ] {
        let text = violation(of, &payload);
        assert!(text.len() <= VIOLATION_BYTES, "{} bytes: {text}", text.len());
        assert!(text.matches("geheim").count() <= 40, "{text}");
    }
    // Every part at its longest, in characters of several bytes.
    let wide = "ä".repeat(500);
    let patterns = format!(r#"{{"additionalProperties": {{"pattern": "{}"}}}}"#, "ö".repeat(400));
    let text = violation(&patterns, &format!(r#"{{"{wide}": "{wide}"}}"#));
    assert!(text.len() <= VIOLATION_BYTES, "{} bytes: {text}", text.len());
    // Nothing in it moves the cursor of whoever reads a log.
    let text = violation(r#"{"additionalProperties": false}"#, "{\"a\\u001b[2J\\n\\u202e\": 1}");
    assert!(!text.contains(['\u{1b}', '\n', '\u{202e}']), "{text:?}");
}

/// Work that doubles with every level ends after a bounded number of steps, with a refusal.
#[test]
fn checks_that_would_take_for_ever_are_refused() {
    let levels: Vec<String> = (0..30)
        .map(|n| {
            format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, n + 1)
        })
        .collect();
    let doubling = levels[..14].join(",");
    let text = format!(r##"{{"$defs":{{{doubling},"d14":{{}}}},"items":{{"$ref":"#/$defs/d0"}}}}"##);
    let told = violation(&text, &format!("[{}]", vec!["1"; 50].join(",")));
    assert!(told.contains("too many steps"), "{told}");
    // The same through the members of a value: each level of it doubles the work.
    let recursive = r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}"##;
    let deep = r#"{"a":"#.repeat(100) + "1" + &"}".repeat(100);
    let told = violation(recursive, &deep);
    assert!(told.contains("too many steps") || told.contains("too deep"), "{told}");
}

#[test]
fn deep_recursion_is_followed_as_far_as_payloads_go() {
    let tree = schema(r##"{"properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}}"##);
    let deep = |end: &str| r#"{"next":"#.repeat(100) + end + &"}".repeat(100);
    assert!(tree.check(deep(r#"{"value": 1}"#).as_bytes()).is_ok());
    let told = tree.check(deep(r#"{"value": "x"}"#).as_bytes()).expect_err("not an integer").to_string();
    assert!(told.ends_with(r#""x" is not of type "integer""#), "{told}");
}

#[test]
fn huge_enums_and_long_arrays_are_checked() {
    let names: Vec<String> = (0..7000).map(|n| format!(r#""w{n:04}""#)).collect();
    let words = schema(&format!(r#"{{"items": {{"enum": [{}]}}, "uniqueItems": true}}"#, names.join(",")));
    assert!(words.check(format!("[{}]", names.join(",")).as_bytes()).is_ok());
    assert!(words.check(br#"["w9999"]"#).is_err());
    let numbers: Vec<String> = (0..100_000).map(|n: u32| n.to_string()).collect();
    let unique = schema(r#"{"uniqueItems": true}"#);
    assert!(unique.check(format!("[{}]", numbers.join(",")).as_bytes()).is_ok());
}

/// Expressions that take a backtracking engine exponential time.
#[test]
fn evil_patterns_take_linear_time() {
    let text = format!(r#""{}!""#, "a".repeat(60_000));
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$"] {
        assert!(
            schema(&format!(r#"{{"pattern": "{pattern}"}}"#)).check(text.as_bytes()).is_err(),
            "{pattern}"
        );
    }
    let longer = format!(r#""{}""#, "a".repeat(70_000));
    assert!(violation(r#"{"pattern": "a"}"#, &longer).contains("patterns are tried on at most 65536"));
}

#[test]
fn a_format_is_an_annotation() {
    assert!(schema(r#"{"format": "email"}"#).check(br#""nobody""#).is_ok());
}

/// What a check of an attack answers and how many steps it took.
fn attacked(of: &Schema, payload: &str) -> (Option<String>, u64) {
    let mut budget = Budget::default();
    let checked = of.check_within(payload.as_bytes(), &mut budget);
    assert!(budget.spent() <= budget.granted());
    (checked.err().map(|violation| violation.to_string()), budget.spent())
}

/// A payload of about 1 MiB: one object of short names.
fn wide_object() -> (String, usize) {
    const MEMBERS: usize = 95_000;
    let members: Vec<String> = (0..MEMBERS).map(|n| format!(r#""{n:x}":1"#)).collect();
    (format!("{{{}}}", members.join(",")), MEMBERS)
}

/// `depth` levels of `anyOf`, each of `width` references to the next, around a leaf.
fn fanned_out(depth: usize, width: usize, leaf: &str) -> String {
    let levels: Vec<String> = (0..depth)
        .map(|n| {
            let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
            format!(r#""d{n}":{{"anyOf":[{}]}}"#, vec![next; width].join(","))
        })
        .collect();
    format!(r##"{{"$defs":{{{},"d{depth}":{leaf}}},"$ref":"#/$defs/d0"}}"##, levels.join(","))
}

const OUT_OF_BUDGET: &str = "the check takes too many steps, more than the budget of ";

/// Applications that look at every member of a large object are charged for every member.
#[test]
fn members_are_charged_at_each_application() {
    let (payload, members) = wide_object();
    for leaf in [
        r#"{"required":["x"]}"#,
        r#"{"required":["x","y","z"]}"#,
        r#"{"properties":{"x":false},"required":["x"]}"#,
        r#"{"patternProperties":{"^x":false},"required":["x"]}"#,
        r#"{"dependentRequired":{"0":["x"]}}"#,
        r#"{"dependentSchemas":{"0":false}}"#,
        r#"{"unevaluatedProperties":false}"#,
    ] {
        let (_, once) = attacked(&schema(leaf), &payload);
        assert!(once >= (members / 32) as u64, "{leaf}: {once} steps");
        let (refused, _) = attacked(&schema(&fanned_out(3, 20, leaf)), &payload);
        assert!(refused.is_some_and(|refused| refused.contains(OUT_OF_BUDGET)), "{leaf}");
    }
}

/// The explanation of a refusal takes its steps from the budget of the check.
#[test]
fn an_explanation_takes_no_budget_of_its_own() {
    let (payload, _) = wide_object();
    let required: Vec<String> = (0..4000).map(|n| format!(r#""{n:x}""#)).collect();
    let of = schema(&format!(r#"{{"required":[{},"missing"]}}"#, required.join(",")));
    let (refused, spent) = attacked(&of, &payload);
    assert_eq!(refused.as_deref(), Some(r#"/: "missing" is required and missing"#));
    assert!(spent < 50_000, "{spent} steps");
}

/// A search for a few required names is charged for that and not for a visit of all members.
#[test]
fn small_objects_are_charged_little() {
    let of = schema(r#"{"type":"object","required":["a"]}"#);
    let (refused, spent) = attacked(&of, r#"{"a":1,"b":2}"#);
    assert_eq!((refused, spent), (None, 2));
}

/// A long number is classified when it is read, and charged by its length when a rule parses it.
#[test]
fn long_numbers_are_charged_by_their_bytes() {
    let payload = format!("1.{}1", "0".repeat(1 << 20));
    let any_of = |branch: &str, count: usize| {
        schema(&format!(r#"{{"anyOf":[{}]}}"#, vec![branch.to_owned(); count].join(",")))
    };
    let (refused, spent) = attacked(&any_of(r#"{"type":"integer"}"#, 3000), &payload);
    assert!(refused.is_some_and(|refused| refused.contains("none of the 3000 schemas")));
    assert!(spent <= 3001, "{spent} steps");
    for branch in [
        r#"{"maximum":1}"#,
        r#"{"multipleOf":1}"#,
        r#"{"enum":[1,2]}"#,
        r#"{"exclusiveMaximum":1,"minimum":0.5}"#,
    ] {
        let (_, once) = attacked(&schema(branch), &payload);
        assert!(once >= (1 << 20) / 16, "{branch}: {once} steps");
        let (refused, _) = attacked(&any_of(branch, 1000), &payload);
        assert!(refused.is_some_and(|refused| refused.contains(OUT_OF_BUDGET)), "{branch}");
    }
    // Short numbers that are no plain integers.
    let decimals = format!("[{}]", vec!["0.5"; 1000].join(","));
    let (refused, spent) = attacked(&schema(r#"{"items":{"minimum":0,"maximum":1}}"#), &decimals);
    assert_eq!((refused, spent), (None, 1 + 1000 * 5));
    // Short numbers whose exponents are large.
    let numbers = format!("[{}]", vec!["1e999999999999999999"; 40_000].join(","));
    let (_, spent) = attacked(&schema(r#"{"items":{"multipleOf":5}}"#), &numbers);
    assert!(spent >= 40_000 * 20, "{spent} steps");
}

/// Strings that are compared are charged by their bytes.
#[test]
fn long_strings_are_charged_by_their_bytes() {
    let text = "a".repeat(1 << 15);
    let strings: Vec<String> = (0..30).map(|n| format!(r#""{text}{n}""#)).collect();
    let payload = format!("[{}]", strings.join(","));
    let values: Vec<String> = (0..16).map(|n| format!(r#""{}{n}""#, &text[..1000])).collect();
    for leaf in [
        r#"{"allOf":[{"uniqueItems":true},false]}"#.to_owned(),
        r#"{"enum":[["a"],["b"]]}"#.to_owned(),
        format!(r#"{{"items":{{"enum":[{}]}}}}"#, values.join(",")),
    ] {
        let (_, once) = attacked(&schema(&leaf), &payload);
        assert!(once >= 500, "{once} steps");
        let (refused, _) = attacked(&schema(&fanned_out(3, 20, &leaf)), &payload);
        assert!(refused.is_some_and(|refused| refused.contains(OUT_OF_BUDGET)));
    }
}

/// A pattern without a table is charged for its states at each byte.
#[test]
fn patterns_are_charged_by_bytes_and_states() {
    let text: String =
        (0_u32..60_000).map(|n| if n.wrapping_mul(2_654_435_761) >> 31 == 0 { '0' } else { '1' }).collect();
    let payload = format!(r#""{text}""#);
    let (refused, spent) = attacked(&schema(r#"{"pattern":"[01]*1[01]{1000}2"}"#), &payload);
    assert!(refused.is_some_and(|refused| refused.contains(OUT_OF_BUDGET)));
    assert!(spent <= 2, "{spent} steps");
    let (refused, spent) = attacked(&schema(r#"{"pattern":"^[01]+2$"}"#), &payload);
    assert!(refused.is_some_and(|refused| refused.contains("does not match the pattern")));
    assert!(spent <= 4000, "{spent} steps");
}

#[test]
fn payloads_of_a_batch_share_a_budget() {
    let of = schema(&fanned_out(3, 20, r#"{"type":"string"}"#));
    let mut budget = Budget::default();
    let refusals: Vec<String> = (0..100)
        .filter_map(|_| of.check_within(b"1", &mut budget).err())
        .map(|violation| violation.to_string())
        .collect();
    assert_eq!(refusals.len(), 100);
    assert!(refusals[0].contains("none of the 20 schemas"), "{}", refusals[0]);
    assert!(refusals[99].contains(OUT_OF_BUDGET), "{}", refusals[99]);
    assert!(budget.spent() <= budget.granted());
}

/// What large payloads of ordinary schemas take is far below their budget.
#[test]
fn ordinary_large_payloads_stay_within_their_budget() {
    let order = r#"{"type":"object","required":["id","kind","total"],"additionalProperties":false,"properties":{
        "id":{"type":"string","pattern":"^[0-9a-f-]{36}$"},"kind":{"enum":["a","b","c"]},"total":{"type":"number","minimum":0,"multipleOf":0.01}}}"#;
    let of = schema(&format!(r#"{{"type":"array","uniqueItems":true,"items":{order}}}"#));
    let orders: Vec<String> = (0..10_000)
        .map(|n| format!(r#"{{"id":"00000000-0000-0000-0000-{n:012}","kind":"b","total":{n}.25}}"#))
        .collect();
    let payload = format!("[{}]", orders.join(","));
    let mut budget = Budget::default();
    of.check_within(payload.as_bytes(), &mut budget).expect("it matches");
    assert!(budget.spent() * 4 < budget.granted() * 3, "{} of {} steps", budget.spent(), budget.granted());
}
