//! Messages of `GET /live`.

use super::super::schema::{
    any, array, array_of, count, flag, group, id, key, named, object, one_of, or_null, text, time, topic,
    topic_or_pattern, yes,
};
use super::{group_figures, group_status, latencies, reason, topic_figures};
use serde_json::Value;

/// Sums over what the token may see.
pub(super) fn sample() -> Value {
    let counts = ["topics", "groups", "lag", "inflight", "stalled"].map(|name| (name, count())).to_vec();
    object(&[vec![("ts", time())], topic_figures(), group_figures(), latencies(), counts].concat())
}

/// A topic without its settings.
pub(super) fn topic_row() -> Value {
    object(&[
        ("name", topic()),
        ("first", count()),
        ("last", count()),
        ("events", count()),
        ("bytes", count()),
        ("lastCommitted", or_null(time())),
        ("groups", count()),
        ("rates", named("TopicRates")),
    ])
}

/// A group without its options.
pub(super) fn group_row() -> Value {
    object(&[group_status(), vec![("members", count()), ("rates", named("GroupRates"))]].concat())
}

pub(super) fn problem() -> Value {
    let kind = |word: &str| ("kind", one_of(&[word]));
    any(&[
        object(&[
            kind("group"),
            ("topic", topic()),
            ("group", group()),
            ("lag", count()),
            ("inflight", count()),
            ("parked", count()),
            ("members", count()),
            ("reason", or_null(reason())),
            ("since?", time()),
            ("oldestUnsettled?", named("Unsettled")),
            ("failing?", yes()),
        ]),
        object(&[
            kind("letters"),
            ("topic", topic()),
            ("group", group()),
            ("count", count()),
            ("lastTs", time()),
        ]),
        object(&[
            kind("outbox"),
            ("outbox", text()),
            ("connected", flag()),
            ("reason?", text()),
            ("pending", count()),
            ("parked", count()),
            ("oldestAgeMs?", count()),
        ]),
        object(&[
            kind("push"),
            ("name", text()),
            ("topic", topic_or_pattern()),
            ("group", group()),
            ("state", one_of(&["paused", "failing", "trouble"])),
            ("reason", text()),
        ]),
        object(&[kind("store"), ("reason", text())]),
        object(&[kind("store"), ("warning", text())]),
    ])
}

/// An event as a tail shows it: the payload is JSON text, cut.
pub(super) fn tail_row() -> Value {
    object(&[shown(), vec![("key?", key()), ("tags?", array(text()))]].concat())
}

/// The newest value of a key.
pub(super) fn state_row() -> Value {
    object(&[shown(), vec![("key", key()), ("deleted", flag())]].concat())
}

fn shown() -> Vec<(&'static str, Value)> {
    vec![
        ("seq", count()),
        ("id", id()),
        ("ts", time()),
        ("committed", time()),
        ("bytes", count()),
        ("payload", text()),
        ("cut", flag()),
    ]
}

/// What the `data` of a message is, in the order of `sample`, `problems`, `topics`, `groups`, `group`, `tail`, `state` and `end`.
pub(in super::super) fn messages() -> Value {
    let gone_group = array_of(2, 2, text());
    any(&[
        named("LiveSample"),
        object(&[("problems", array(named("Problem"))), ("more", count())]),
        object(&[("rows", array(named("LiveTopic"))), ("gone?", array(topic())), ("reset?", yes())]),
        object(&[("rows", array(named("LiveGroup"))), ("gone?", array(gone_group)), ("reset?", yes())]),
        named("GroupDetail"),
        object(&[("events", array(named("TailRow"))), ("skipped", count()), ("initial?", yes())]),
        object(&[("rows", array(named("StateRow"))), ("reset?", yes())]),
        object(&[("code", text()), ("error", text())]),
    ])
}
