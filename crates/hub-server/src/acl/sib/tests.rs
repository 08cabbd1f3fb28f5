//! Files that are read, files that are not, and where they say why.
#![allow(clippy::unwrap_used)]

mod page;

use super::*;
use hub_core::TopicDurability;
use proptest::prelude::*;
use proptest::sample::select;

#[track_caller]
fn read(text: &str) -> Sib {
    Sib::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn gives(text: &str, expected: &[&str]) {
    let rules: Vec<String> = read(text).policy.rules().iter().map(ToString::to_string).collect();
    assert_eq!(rules, expected, "{text}");
}

/// A text with `§` before the place that the error names.
#[track_caller]
fn refused(marked: &str, expected: &str) {
    let (before, after) = marked.split_once('§').unwrap();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    let error = Sib::parse(&format!("{before}{after}")).expect_err(marked);
    assert_eq!((error.line, error.column), (line, column), "{marked}: {error}");
    assert!(error.msg.contains(expected), "{marked}: {expected:?} is not in {:?}", error.msg);
}

#[test]
fn rules_are_added_in_their_order() {
    gives("", &[]);
    gives("\u{feff}; nothing but a comment", &[]);
    gives(
        r#"
        ; who may do what
        (allow publish "heartbeat.*" "metrics.**") (deny subscribe "secret.**") ; on one line
        (allow subscribe "process.**" :groups ["ops"])
        (allow subscribe :groups "ops", "a" ["b" "c"])
        (allow * "x.**")
        (allow [admin publish] "y")
        (scopes->policy ["publish:heartbeat.*" "admin"])
        [(deny admin "a") [(deny admin "b")]]
        "#,
        &[
            r#"(allow publish "heartbeat.*" "metrics.**")"#,
            r#"(deny subscribe "secret.**")"#,
            r#"(allow subscribe "process.**" :groups ["ops"])"#,
            r#"(allow subscribe "a" "b" "c" :groups ["ops"])"#,
            r#"(allow * "x.**")"#,
            r#"(allow [publish admin] "y")"#,
            r#"(allow publish "heartbeat.*")"#,
            r#"(allow admin "**")"#,
            r#"(deny admin "a")"#,
            r#"(deny admin "b")"#,
        ],
    );
}

#[test]
fn a_rule_has_the_place_where_it_is_written() {
    let text = r#"(def R (deny * "b"))

  (allow * "a") R
(scopes->policy
 ["admin:a"
  "admin:b"])"#;
    let sib = read(text);
    assert_eq!(read(&text.replace('\n', "\r\n")).places, sib.places);
    let places: Vec<_> = sib.places.iter().map(|place| (place.line, place.column)).collect();
    assert_eq!(places, [(3, 3), (1, 8), (5, 3), (6, 3)]);
    assert_eq!(sib.policy.rules().len(), 4);
    // Columns are counted in characters.
    refused("; é\n(allow * \"a\" \"é😀\" §x)", "x is not defined");
}

#[test]
fn def_only_names_and_a_name_adds_what_it_stands_for() {
    gives(
        r#"
        (def OPS ["ops" "oncall"])
        (def SECRETS "secret.**")
        (def LOCKED (deny subscribe SECRETS "*.private"))
        (def SCOPES ["publish:a" "publish:b"])
        (def POLICY [LOCKED (scopes->policy SCOPES)])
        (def ALIAS POLICY)
        (allow subscribe ["first" SECRETS] :groups OPS)
        ALIAS
        "#,
        &[
            r#"(allow subscribe "first" "secret.**" :groups ["ops" "oncall"])"#,
            r#"(deny subscribe "secret.**" "*.private")"#,
            r#"(allow publish "a")"#,
            r#"(allow publish "b")"#,
        ],
    );
    // A name may be added twice: the second time it decides nothing, and harms nothing.
    gives(r#"(def R (deny * "a")) R R"#, &[r#"(deny * "a")"#, r#"(deny * "a")"#]);
    // Strings that nobody uses forbid nothing.
    gives(r#"(def UNUSED "a")"#, &[]);
}

#[test]
fn rules_with_a_name_that_is_used_nowhere_are_an_error() {
    refused(r#"(def §P (deny * "a"))"#, "the rules of P are used nowhere, and def only names them; write P");
    refused("(def §A (deny * \"a\"))\n(def B (deny * \"b\"))", "the rules of A");
    refused("(def A (deny * \"a\"))\n(def §B A)", "the rules of B");
}

#[test]
fn topics_have_settings_in_both_spellings() {
    let sib = read(
        r#"
        (define-topic "heartbeat.received" {:retentionDays 3})
        (define-topic "process.state" :retention-days 3 :compaction true)
        (def STATE (define-topic "kv.*" {:compaction true, :tombstoneGraceHours 48, :retentionBytes 1000}))
        (define-topic ["a" "b"] :durability "interval" :tombstone-grace-hours 0 :retention-bytes 1)
        (define-topic "c" {:durability "commit" :compaction false})
        (define-topic "d")
        (allow publish STATE)
        "#,
    );
    let hour = 3_600_000;
    let none = TopicSettings::default;
    let relaxed = TopicSettings {
        durability: TopicDurability::Interval,
        tombstone_grace: 0,
        retention_bytes: Some(1),
        ..none()
    };
    let expected = [
        ("heartbeat.received", TopicSettings { retention_days: Some(3), ..none() }),
        ("process.state", TopicSettings { retention_days: Some(3), compaction: true, ..none() }),
        (
            "kv.*",
            TopicSettings {
                compaction: true,
                tombstone_grace: 48 * hour,
                retention_bytes: Some(1000),
                ..none()
            },
        ),
        ("a", relaxed.clone()),
        ("b", relaxed),
        ("c", none()),
        ("d", none()),
    ];
    let topics: Vec<_> =
        sib.topics.iter().map(|(pattern, settings)| (pattern.as_str(), settings.clone())).collect();
    assert_eq!(topics, expected);
    assert_eq!(sib.policy.rules()[0].to_string(), r#"(allow publish "kv.*")"#);
}

#[test]
fn what_is_wrong_with_the_text_is_told_where_it_is() {
    for (marked, expected) in [
        ("\n  §(allow publish \"a\"\n\n", "this ( is never closed"),
        ("(allow publish §[\"a\" \n(deny)", "this [ is never closed"),
        ("(allow publish §\"a)\n(allow publish \"b\")", "this string is not closed on its line"),
        ("(allow publish §\"a", "this string is not closed on its line"),
        ("(allow publish \"a\"§]", "] does not close the ( of line 1, column 1"),
        ("(allow publish\n {§)", ") does not close the { of line 2, column 2"),
        ("(allow publish \"a\")§)", ") closes nothing"),
        ("(allow publish \"a§\\n\")", "a string has no other escapes"),
        ("(allow publish §: \"a\")", "a name is expected behind the colon"),
        ("(allow publish §'a)", "'\\'' is not expected here"),
        ("(allow publish §é)", "'é' is not expected here"),
        ("(define-topic \"a\" :retention-days §-3)", "-3 is no name and no number"),
        ("(define-topic \"a\" :retention-days §3d)", "3d is no name and no number"),
        ("(define-topic \"a\" :retention-days §18446744073709551616)", "too large"),
        ("§\0", "is not expected here"),
    ] {
        refused(marked, expected);
    }
}

#[test]
fn what_is_wrong_with_a_form_is_told_with_what_was_expected() {
    for (marked, expected) in [
        ("§(defmacro allow)", "(define-topic …), (def …) or a name is expected, not (defmacro …)"),
        ("§\"a\"", "is expected, not the string \"a\""),
        ("§3", "is expected, not 3"),
        ("§:groups", "is expected, not :groups"),
        ("§{}", "is expected, not a map in { }"),
        ("§()", "is expected, not a list in ( )"),
        ("§[]", "this vector is empty"),
        ("§[\"a\" \"b\"]", "is expected, not strings"),
        ("(def A \"a\") §A", "is expected, not strings (A)"),
        ("§POLICY", "POLICY is not defined; (def POLICY …) has to stand above"),
        ("§R (def R (deny * \"a\"))", "R is not defined"),
        ("(def A §A)", "A is not defined"),
        ("§(allow)", "an action is expected"),
        ("(allow §\"a\")", "an action (publish, subscribe, admin or *) is expected, not the string \"a\""),
        ("(allow §read \"a\")", "an action (publish, subscribe, admin or *) is expected, not read"),
        ("(allow [publish §read] \"a\")", "is expected, not read"),
        ("§(allow [] \"a\")", "no action is named"),
        ("§(allow publish)", "a pattern is expected, such as \"orders.*\""),
        ("§(allow subscribe :groups \"a\")", "a pattern is expected"),
        ("(allow publish §[])", "this vector is empty"),
        ("(allow publish \"a\" §\"a..b\")", "pattern \"a..b\": segment \"\""),
        ("(def P [\"a\" §\"b*\"])\n(allow publish P)", "pattern \"b*\""),
        ("(allow publish §3)", "a pattern, such as \"orders.*\", is expected, not 3"),
        ("(def R (deny * \"a\")) R (allow publish §R)", "is expected, not rules (R)"),
        ("(allow publish \"a\" §:group \"b\")", "a pattern or :groups is expected, not :group"),
        ("(allow subscribe \"a\" §:groups)", "is expected behind :groups"),
        ("(allow subscribe \"a\" :groups \"b\" §:groups \"c\")", ":groups is given twice"),
        ("(allow subscribe \"a\" :groups §[])", "this vector is empty"),
        ("(allow subscribe \"a\" :groups [§\"ops-*\" \"b\"])", "\"*\" alone stands for any group"),
        ("§(allow publish \"a\" :groups \"b\")", "groups go with subscribe only"),
        ("[\"a\" §(deny * \"a\")]", "a vector has rules or strings, not both"),
        ("§(scopes->policy)", "a vector of scopes"),
        ("§(scopes->policy \"admin\" \"admin\")", "one thing, a vector of scopes"),
        (
            "(scopes->policy [\"publish:a\" §\"publsh:a\"])",
            "a scope's action is publish, subscribe, admin or *, not \"publsh\"",
        ),
        ("(scopes->policy [§\"publish:\"])", "has an empty pattern"),
        ("(scopes->policy §{})", "is expected, not a map"),
        ("§(def A)", "(def NAME FORM) is expected"),
        ("§(def \"A\" \"a\")", "(def NAME FORM) is expected"),
        ("§(def A \"a\" \"b\")", "(def NAME FORM) is expected"),
        ("(def §allow \"a\")", "allow has a meaning already"),
        ("(def A \"a\")\n(def §A \"b\")", "A is defined already, on line 1, column 6"),
        ("(def A §{:a 1})", "a rule, a string, a vector of them or a name is expected"),
        ("(def A §(def B \"a\"))", "is expected, not (def …)"),
        ("§(define-topic)", "a topic or a pattern of topics is expected"),
        ("(define-topic §{})", "is expected, not a map"),
        ("(define-topic §\"a b\")", "pattern \"a b\""),
        (
            "(define-topic \"a\")\n(define-topic §\"a\")",
            "the topic \"a\" is defined already, on line 1, column 1",
        ),
        ("(define-topic \"a\" {§:retention 3})", ":retention-days, :retention-bytes, :compaction"),
        ("(define-topic \"a\" {:retention-days 3 §:retentionDays 3})", ":retention-days is given twice"),
        ("(define-topic \"a\" §:compaction)", "a value is expected behind :compaction"),
        ("(define-topic \"a\" :compaction §1)", "true or false is expected, not 1"),
        ("(define-topic \"a\" :retention-days §0)", "a number from 1 on"),
        ("(define-topic \"a\" :retention-days §4294967296)", "a number of days up to 4294967295"),
        (
            "(define-topic \"a\" :retention-bytes §\"1 GiB\")",
            "a number is expected, not the string \"1 GiB\"",
        ),
        ("(define-topic \"a\" :tombstone-grace-hours §18446744073709551615)", "a number of hours up to"),
        (
            "(define-topic \"a\" :durability §interval)",
            "\"commit\" or \"interval\" is expected, not interval",
        ),
        ("(define-topic \"a\" §{:compaction true} {})", "is expected, not a map in { }"),
    ] {
        refused(marked, expected);
    }
}

#[test]
fn a_file_is_bounded() {
    // Size.
    let full = ";".repeat(MAX_BYTES);
    gives(&full, &[]);
    for error in [Sib::parse(&format!("{full};")), Sib::from_bytes(format!("{full};").as_bytes())] {
        assert!(error.unwrap_err().msg.contains("at most 1048576"));
    }
    // Nesting.
    let nested = |depth: usize| format!("{}(deny * \"a\"){}", "[".repeat(depth), "]".repeat(depth));
    gives(&nested(MAX_NESTING - 1), &["(deny * \"a\")"]);
    let error = Sib::parse(&nested(MAX_NESTING)).unwrap_err();
    assert_eq!((error.line, error.column), (1, MAX_NESTING + 1));
    assert!(error.msg.contains("nest more than 64 deep"));
    assert!(Sib::parse(&"(".repeat(MAX_BYTES)).is_err());
    // Rules, patterns, groups, names, topics.
    let many = |count: usize, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<String>();
    let rule = |_| "(deny * \"a\")\n".to_string();
    assert_eq!(read(&many(1000, &rule)).policy.rules().len(), 1000);
    let error = Sib::parse(&many(1001, &rule)).unwrap_err();
    assert_eq!(
        (error.line, error.msg.as_str()),
        (1001, "1001 rules or more; a policy may have at most 1000")
    );
    let strings = |count| many(count, &|_| " \"a\"".to_string());
    read(&format!("(deny *{})", strings(1000)));
    assert!(Sib::parse(&format!("(deny *{})", strings(1001))).is_err());
    assert!(Sib::parse(&format!("(deny *{}) (deny * \"a\")", strings(1000))).is_err());
    assert!(Sib::parse(&format!("(deny * \"a\" :groups [{}])", strings(1001))).is_err());
    let def = |at| format!("(def N{at} \"a\")");
    read(&many(MAX_NAMES, &def));
    assert!(Sib::parse(&many(MAX_NAMES + 1, &def)).unwrap_err().msg.contains("at most 1000 names"));
    let topic = |at| format!("(define-topic \"t{at}\")");
    read(&many(MAX_NAMES, &topic));
    assert!(Sib::parse(&many(MAX_NAMES + 1, &topic)).unwrap_err().msg.contains("at most 1000 topics"));
}

#[test]
fn names_of_names_do_not_grow_without_bound() {
    for first in ["\"a\"", "(deny * \"a\")"] {
        let mut text = format!("(def N0 {first})\n");
        for at in 1..40 {
            let name = format!("N{} ", at - 1);
            text += &format!("(def N{at} [{}])\n", name.repeat(10));
        }
        let error = Sib::parse(&text).unwrap_err();
        assert_eq!(error.line, 5, "ten to the fourth is too many: {error}");
    }
}

#[test]
fn bytes_that_are_no_text_are_told_where_they_are() {
    let error = Sib::from_bytes(b"; \xc3\xa9\n(allow \xff").unwrap_err();
    assert_eq!(error, SibError { line: 2, column: 8, msg: "this is not UTF-8 text".into() });
    assert_eq!(error.to_string(), "2:8: this is not UTF-8 text");
    assert_eq!(Sib::from_bytes(b"(allow * \"a\")").unwrap().places.len(), 1);
}

#[test]
fn an_error_does_not_repeat_a_long_word() {
    let long = "x".repeat(100_000);
    for text in [
        format!("({long})"),
        format!("(allow {long})"),
        long.clone(),
        format!(":{long}"),
        format!("\"{long}\""),
        format!("(allow * \"{long}\")"),
        format!("(scopes->policy \"{long}:a\")"),
        format!("(def {long} (deny * \"a\"))"),
        format!("(def {long} \"a\") (def {long} \"a\")"),
        format!("(define-topic \"a\" :{long} 1)"),
        format!("(define-topic \"a\" :retention-days 1{long})"),
    ] {
        let error = Sib::parse(&text).unwrap_err();
        assert!(error.msg.len() < 400, "{}", error.msg);
    }
}

/// Pieces of which files are made, so that random ones get further than the first character.
fn pieces() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        " ",
        "\n",
        "; c\n",
        ",",
        "\"a.*\"",
        "\"**\"",
        "\"publish:a\"",
        "\"x y\"",
        "\"",
        "\\",
        "allow ",
        "deny ",
        "def ",
        "N ",
        "M ",
        "scopes->policy ",
        "define-topic ",
        "publish ",
        "* ",
        "subscribe ",
        ":groups ",
        ":retentionDays ",
        ":compaction ",
        "true ",
        "3 ",
        "0 ",
        "é",
        "-",
        ":",
        "(allow * \"a\")",
        "(def N \"a\")",
        "(def M (deny admin \"a\"))",
        "M",
        "(define-topic \"t\" ",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// The place is one of the text: on one of its lines, at most one behind its last character.
fn is_place_of(error: &SibError, text: &str) -> bool {
    let line = text.split('\n').nth(error.line - 1);
    line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&error.column))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_can_harm_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let (Err(error), Ok(text)) = (Sib::from_bytes(&bytes), std::str::from_utf8(&bytes)) {
            prop_assert!(is_place_of(&error, text), "{error}");
        }
    }

    #[test]
    fn no_pieces_can_harm_it_either_and_errors_name_a_place_in_the_text(text in pieces()) {
        match Sib::parse(&text) {
            Ok(sib) => prop_assert_eq!(sib.places.len(), sib.policy.rules().len()),
            Err(error) => prop_assert!(is_place_of(&error, &text), "{error}"),
        }
    }

    #[test]
    fn the_place_of_an_error_moves_with_its_text(text in pieces(), lines in 0_usize..20, spaces in 0_usize..20) {
        let before = "(allow publish \"e\") ; [é\n".repeat(lines) + &" ".repeat(spaces);
        let moved = Sib::parse(&format!("{before}{text}")).err();
        let expected = Sib::parse(&text).err().map(|error| SibError {
            column: if error.line == 1 { error.column + spaces } else { error.column },
            line: error.line + lines,
            ..error
        });
        // A message may name another place.
        let place = |error: &SibError| (error.line, error.column);
        prop_assert_eq!(moved.as_ref().map(place), expected.as_ref().map(place));
    }
}
