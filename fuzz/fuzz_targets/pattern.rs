//! Two patterns and a topic, one per line: what the patterns say of each other must fit what they say of the
//! topic, and no input may take long.
#![no_main]

use hub_proto::{Pattern, TopicName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    let mut lines = data.lines();
    let (Some(p), Some(q)) = (lines.next(), lines.next()) else { return };
    let (Ok(p), Ok(q)) = (Pattern::parse(p), Pattern::parse(q)) else { return };
    assert!(p.contains(&p) && p.intersects(&p));
    assert_eq!(p.intersects(&q), q.intersects(&p));
    let everything = Pattern::parse("**").expect("a pattern");
    assert!(everything.contains(&p));
    if p.contains(&q) {
        assert!(p.intersects(&q), "no pattern is empty");
    }
    if q.is_literal() {
        assert_eq!(p.contains(&q), p.matches(q.as_str()));
        assert_eq!(p.intersects(&q), p.matches(q.as_str()));
    }

    // Any line will do for `matches`; only topics say something about the patterns.
    let topic = lines.next().unwrap_or_default();
    let (in_p, in_q) = (p.matches(topic), q.matches(topic));
    let Ok(topic) = TopicName::parse(topic) else { return };
    assert!(everything.matches(&topic));
    assert!(!(in_p && in_q) || p.intersects(&q));
    assert!(!in_q || in_p || !p.contains(&q));
    assert!(in_p || !p.matches_for_subscription(&topic));
});
