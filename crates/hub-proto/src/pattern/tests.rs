#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

/// What the words `*` and `**` say, and nothing else.
fn matches_by_definition(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        ([], []) => true,
        (["**", rest @ ..], _) => (0..=topic.len()).any(|n| matches_by_definition(rest, &topic[n..])),
        (["*", rest @ ..], [_, topic @ ..]) => matches_by_definition(rest, topic),
        ([literal, rest @ ..], [segment, topic @ ..]) => {
            literal == segment && matches_by_definition(rest, topic)
        }
        _ => false,
    }
}

/// All lists of 1 to `max` of the words, joined by dots.
fn all_of(words: &[&str], max: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut longest: Vec<String> = words.iter().map(|&word| word.into()).collect();
    for _ in 0..max {
        let longer = longest.iter().flat_map(|list| words.iter().map(move |word| format!("{list}.{word}")));
        let longer = longer.collect();
        all.append(&mut longest);
        longest = longer;
    }
    all
}

/// Every pattern of up to four segments against every topic of up to six, with `c` named by no pattern.
#[test]
fn small_patterns_agree_with_brute_force_over_small_topics() {
    let topics = all_of(&["a", "b", "c"], 6);
    let patterns: Vec<(Pattern, Vec<bool>)> = all_of(&["a", "b", "*", "**"], 4)
        .into_iter()
        .map(|text| {
            let segments: Vec<&str> = text.split('.').collect();
            let expected = topics.iter().map(|topic| {
                let topic: Vec<&str> = topic.split('.').collect();
                matches_by_definition(&segments, &topic)
            });
            let expected = expected.collect::<Vec<_>>();
            let pattern = pattern(&text);
            for (topic, &expected) in topics.iter().zip(&expected) {
                assert_eq!(pattern.matches(topic), expected, "{pattern} and {topic}");
            }
            (pattern, expected)
        })
        .collect();
    for (p, p_topics) in &patterns {
        for (q, q_topics) in &patterns {
            let mut both = p_topics.iter().zip(q_topics);
            let contains = both.clone().all(|(p, q)| *p || !*q);
            let intersects = both.any(|(p, q)| *p && *q);
            assert_eq!(p.contains(q), contains, "{p} contains {q}");
            assert_eq!(p.intersects(q), intersects, "{p} intersects {q}");
        }
    }
}

/// The textbook way, exact for topics of any length and exponential at worst: both patterns as automata, run
/// side by side over sets of states. Answers (`p` contains `q`, `p` intersects `q`).
fn by_automata(p: &str, q: &str) -> (bool, bool) {
    let p: Vec<&str> = p.split('.').collect();
    let q: Vec<&str> = q.split('.').collect();
    let (mut contains, mut intersects) = (true, false);
    let mut seen = HashSet::new();
    let mut open = vec![(closure(&p, 1), closure(&q, 1))];
    while let Some((in_p, in_q)) = open.pop() {
        for symbol in ["a", "b", "c"] {
            let next = (step(&p, in_p, symbol), step(&q, in_q, symbol));
            if seen.insert(next) {
                let accepted = (next.0 >> p.len() & 1 == 1, next.1 >> q.len() & 1 == 1);
                contains &= accepted != (false, true);
                intersects |= accepted == (true, true);
                open.push(next);
            }
        }
    }
    (contains, intersects)
}

/// The states reached by passing over a `**` without a segment.
fn closure(pattern: &[&str], states: u32) -> u32 {
    (0..pattern.len())
        .filter(|&at| pattern[at] == "**")
        .fold(states, |states, at| states | (states >> at & 1) << (at + 1))
}

fn step(pattern: &[&str], states: u32, symbol: &str) -> u32 {
    let next = (0..pattern.len()).filter(|at| states >> at & 1 == 1).map(|at| match pattern[at] {
        "**" => 1 << at,
        "*" => 1 << (at + 1),
        literal => u32::from(literal == symbol) << (at + 1),
    });
    closure(pattern, next.fold(0, |all, state| all | state))
}

fn segments(max: usize) -> impl Strategy<Value = String> {
    let segment = prop_oneof![3 => Just("a"), 1 => Just("b"), 2 => Just("*"), 3 => Just("**")];
    prop::collection::vec(segment, 1..=max).prop_map(|segments| segments.join("."))
}

/// The same segments with some made wider, so that containment is likely.
fn widened(max: usize) -> impl Strategy<Value = (String, String)> {
    (segments(max), prop::collection::vec(0..6, max)).prop_map(|(narrow, how)| {
        let wide = narrow.split('.').zip(how).map(|(segment, how)| match (segment, how) {
            ("**", _) | (_, 0) => "**",
            (_, 1 | 2) => "*",
            _ => segment,
        });
        let wide = wide.collect::<Vec<_>>().join(".");
        (wide, narrow)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn relations_agree_with_automata_over_all_topics((p, q) in prop_oneof![
        (segments(9), segments(9)).boxed(),
        widened(9).boxed(),
    ]) {
        let expected = by_automata(&p, &q);
        let (p, q) = (pattern(&p), pattern(&q));
        prop_assert_eq!((p.contains(&q), p.intersects(&q)), expected, "{} and {}", p, q);
        prop_assert!(p.contains(&p) && p.intersects(&p));
        prop_assert_eq!(p.intersects(&q), q.intersects(&p));
    }

    #[test]
    fn longer_patterns_match_by_definition(p in segments(12), topic in prop::collection::vec("[abc]", 1..14)) {
        let topic: Vec<&str> = topic.iter().map(String::as_str).collect();
        let expected = matches_by_definition(&p.split('.').collect::<Vec<_>>(), &topic);
        prop_assert_eq!(pattern(&p).matches(&topic.join(".")), expected);
    }

    #[test]
    fn what_is_parsed_is_kept_as_written(text in "[a*.]{0,12}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(pattern.as_str(), &text);
            prop_assert_eq!(pattern.is_literal(), !text.contains('*'));
            let json = serde_json::to_string(&pattern).unwrap();
            prop_assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), pattern);
        }
    }
}

#[test]
fn wildcards_stand_for_whole_segments_anywhere() {
    for (text, yes, no) in [
        ("a.b", &["a.b"][..], &["a", "a.b.c", "b.a", "a-b", ""][..]),
        ("*", &["a"], &["a.b", ""]),
        ("**", &["a", "a.b.c"], &[""]),
        ("a.**", &["a", "a.b", "a.b.c"], &["b", "ab"]),
        ("**.a", &["a", "b.a", "a.a"], &["a.b"]),
        ("a.**.b", &["a.b", "a.x.b", "a.b.b"], &["a", "b", "a.b.x"]),
        ("**.a.*.**", &["a.x", "x.a.x.x", "a.a"], &["a", "x.a"]),
    ] {
        let pattern = pattern(text);
        for topic in yes {
            assert!(pattern.matches(topic), "{text} and {topic:?}");
        }
        for topic in no {
            assert!(!pattern.matches(topic), "{text} and {topic:?}");
        }
    }
}

#[test]
fn ways_to_write_the_same_set_contain_each_other() {
    for (a, b) in [("**.**", "**"), ("**.*", "*.**"), ("**.*", "**"), ("a.**.*.**.*", "a.*.*.**")] {
        assert!(pattern(a).contains(&pattern(b)) && pattern(b).contains(&pattern(a)), "{a} and {b}");
        assert_ne!(pattern(a), pattern(b), "equality is by text");
    }
}

#[test]
fn what_is_no_pattern_is_refused_with_the_segment() {
    for bad in ["", ".", "a.", ".a", "a..b", "a*", "*a", "***", "a.*b.c", "a b", "é", &"a".repeat(401)] {
        let err = Pattern::parse(bad).unwrap_err();
        assert_eq!(err.code, crate::Code::BadRequest);
        assert!(err.msg.len() < 200, "{err}");
    }
    let err = Pattern::parse("a.4*.b").unwrap_err();
    assert_eq!(err.msg, "pattern \"a.4*.b\": segment \"4*\" is neither *, ** nor [A-Za-z0-9_-]+");
}

#[test]
fn a_subscription_gets_dead_letters_and_snapshots_only_if_it_names_them() {
    for (text, topic, expected) in [
        ("**", "orders", true),
        ("**", "dlq.orders", false),
        ("*.orders", "dlq.orders", false),
        ("dlq.**", "dlq.orders", true),
        ("dlq.orders", "dlq.orders", true),
        ("**", "dlq", true),
        ("**", "orders.snapshot", false),
        ("orders.*", "orders.snapshot", false),
        ("**.snapshot", "orders.snapshot", true),
        ("**", "snapshot", true),
        ("dlq.**", "dlq.orders.snapshot", false),
        ("dlq.orders.*", "dlq.orders.snapshot", false),
        ("dlq.**.snapshot", "dlq.orders.snapshot", true),
        ("dlq.**", "dlq.snapshot", true),
        ("**.snapshot", "dlq.orders.snapshot", false),
        ("dlq.b", "dlq.a", false),
    ] {
        let topic = TopicName::readable(topic).unwrap();
        assert_eq!(pattern(text).matches_for_subscription(&topic), expected, "{text} and {topic}");
    }
    assert!(pattern("**").matches("dlq.orders"), "an ACL's pattern matches them all the same");
}

#[test]
fn a_covered_topic_s_sources_are_covered_by_the_pattern_s_sources() {
    let topics =
        ["a", "a.b", "dlq.a", "dlq.a.b", "a.snapshot", "a.b.snapshot", "dlq.a.snapshot", "dlq.snapshot"];
    let patterns = [
        "**",
        "dlq.**",
        "dlq.*",
        "dlq.a.*",
        "dlq.**.snapshot",
        "dlq.*.snapshot",
        "**.snapshot",
        "*.snapshot",
        "a.*.snapshot",
        "dlq.a.snapshot",
        "dlq",
        "snapshot",
    ];
    for (text, topic) in patterns.iter().flat_map(|text| topics.map(|topic| (text, topic))) {
        let topic = TopicName::readable(topic).unwrap();
        if !pattern(text).matches_for_subscription(&topic) {
            continue;
        }
        let sources: Vec<Pattern> = pattern(text).sources().collect();
        for source in crate::Derived::sources(&topic) {
            assert!(sources.iter().any(|pattern| pattern.matches(source)), "{text}: {topic} is of {source}");
        }
    }
}

/// Exponential work would not end within the life of the universe.
#[test]
fn the_longest_patterns_take_bounded_work() {
    let stars = format!("{}.x", vec!["**.a"; 70].join("."));
    let gaps = vec!["**.a.*"; 50].join(".");
    let topic = vec!["a"; 100].join(".");
    for text in [&stars, &gaps] {
        let hard = pattern(text);
        assert!(!pattern(&stars).matches(&topic));
        for other in [&stars, &gaps] {
            assert_eq!(hard.contains(&pattern(other)), text == other);
            hard.intersects(&pattern(other));
        }
    }
}
