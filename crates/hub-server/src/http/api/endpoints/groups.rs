//! Topics, groups, cursors and rates.

use super::super::components::{group_figures, latencies, reason, topic_figures};
use super::super::schema::{
    any, array, count, flag, group, id, integer, named, object, one_of, or_null, page, text, time, topic,
    topic_or_pattern, yes,
};
use super::super::{Content, Endpoint, Kind, Needs, Param, params};
use super::{delete, get, post};
use serde_json::Value;

fn topics() -> Value {
    page("topics", named("Topic"))
}

const QUERY: Param = Param::new("q", Kind::Text, "Only entries whose name has this text.");

pub static TOPICS: Endpoint = get(
    "/topics",
    "topics",
    "The topics that the token may see.",
    Needs::Token,
    &[QUERY, params::AFTER, params::LIMIT],
    &[Content::json(
        topics,
        &[(
            "page",
            r#"{"topics":[{"name":"orders.created","first":1,"last":3,"events":3,"bytes":612,"lastCommitted":1780000000000,"groups":1,"rates":{"second":{"published":0.0,"bytes":0.0},"minute":{"published":0.05,"bytes":8.71}},"settings":{"retentionDays":3,"retentionBytes":null,"compaction":false,"tombstoneGraceMs":86400000,"durability":"commit","dedupeWindowMs":86400000}}],"next":"orders.created"}"#,
        )],
    )],
);

fn deleted_topic() -> Value {
    object(&[
        ("topic", topic()),
        ("deleted", object(&[("topics", count()), ("groups", count()), ("events", count())])),
    ])
}

pub static DELETE_TOPIC: Endpoint = delete(
    "/topics",
    "deleteTopic",
    "Deletes a topic with its groups and derived topics.",
    &[params::TOPIC],
    &[Content::json(
        deleted_topic,
        &[("deleted", r#"{"topic":"orders.created","deleted":{"topics":1,"groups":1,"events":3}}"#)],
    )],
);

fn groups() -> Value {
    page("groups", named("Group"))
}

/// The words of [`hub_core::Reason`], which a test compares with them.
const REASONS: &[&str] = &[
    "no_members",
    "paused",
    "window_full",
    "backoff",
    "caught_up",
    "parked_full",
    "store_unavailable",
    "key_blocked",
    "rate_limited",
    "taking_over",
    "elsewhere",
    "endpoint_failing",
];

pub static GROUPS: Endpoint = get(
    "/groups",
    "groups",
    "The groups that the token may see.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only groups of this topic."),
        QUERY,
        Param::new("reason", Kind::OneOf(REASONS), "Only groups that deliver nothing for this reason."),
        params::AFTER,
        params::LIMIT,
    ],
    &[Content::json(
        groups,
        &[(
            "page",
            r#"{"groups":[{"topic":"orders.created","group":"billing","floor":0,"last":3,"lag":3,"inflight":0,"parked":0,"members":0,"reason":"no_members","since":1780000000000,"oldestUnsettled":{"seq":1,"ageMs":12},"options":{"filter":{},"ordering":"none","coalesce":false,"maxAttempts":5},"rates":{"second":{"delivered":0.0,"acked":0.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0},"minute":{"delivered":0.0,"acked":0.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0}}}]}"#,
        )],
    )],
)
.refusing(&[404]);

fn group_detail() -> Value {
    named("GroupDetail")
}

pub static GROUP_DETAIL: Endpoint = get(
    "/groups/detail",
    "groupDetail",
    "One group: its members, what they hold, and the last failures.",
    Needs::Right("subscribe"),
    &[params::TOPIC, params::GROUP],
    &[Content::json(
        group_detail,
        &[
            (
                "served here",
                r#"{"topic":"orders.created","group":"billing","floor":0,"last":3,"lag":3,"inflight":1,"parked":0,"reason":"window_full","since":1780000000000,"oldestUnsettled":{"seq":1,"ageMs":12},"epoch":0,"rates":{"second":{"delivered":1.0,"acked":0.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0,"latencyMs":{"p50":1.0,"p99":2.0}},"minute":{"delivered":0.02,"acked":0.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0}},"members":[{"member":1,"inflight":1,"paused":false,"hasRoom":false,"ackTimeoutMs":30000,"oldestHeldMs":12,"subject":"ada"}],"failures":[{"seq":1,"attempt":1,"ts":1780000000000,"reason":"no route"}],"nextDeadlineMs":29988,"blocking":{"seq":1,"id":"018bcfe5-6800-7000-8000-000000000001","key":"order-18","state":"leased","leftMs":29988,"member":1}}"#,
            ),
            (
                "served by another hub",
                r#"{"topic":"orders.created","group":"billing","floor":0,"last":3,"lag":3,"inflight":0,"parked":0,"reason":"elsewhere","owner":"ws://10.0.0.2:8090"}"#,
            ),
        ],
    )],
)
.refusing(&[404]);

fn deleted_groups() -> Value {
    any(&[
        object(&[("topic", topic_or_pattern()), ("group", group()), ("deleted", count())]),
        object(&[("label", text()), ("group", group()), ("deleted", count())]),
    ])
}

pub static DELETE_GROUPS: Endpoint = delete(
    "/groups",
    "deleteGroups",
    "Deletes a group on a topic, or a subscription to a pattern or a list with all its groups.",
    &[
        Param::new("topic", Kind::TopicOrPattern, "The topic or the pattern."),
        Param::new("label", Kind::Text, "The label of a list of topics, instead of a topic."),
        params::GROUP,
    ],
    &[Content::json(
        deleted_groups,
        &[
            ("group", r#"{"topic":"orders.created","group":"billing","deleted":1}"#),
            ("list", r#"{"label":"shop","group":"billing","deleted":2}"#),
        ],
    )],
);

fn seek() -> Value {
    let to = any(&[
        one_of(&["earliest", "latest"]),
        object(&[("ts", integer(0, u64::MAX))]),
        object(&[("afterId", id())]),
        object(&[("afterSeq", integer(0, u64::MAX))]),
    ]);
    object(&[("topic", topic()), ("group", group()), ("to", to), ("dryRun?", flag())])
}

fn sought() -> Value {
    any(&[
        object(&[("topic", topic()), ("group", group()), ("seq", count())]),
        object(&[
            ("topic", topic()),
            ("group", group()),
            ("dryRun", yes()),
            ("from", count()),
            ("to", count()),
            ("events", count()),
        ]),
    ])
}

pub static SEEK: Endpoint = post(
    "/groups/seek",
    "seek",
    "Places a group anew.",
    Needs::Right("admin"),
    &[Content::json(
        seek,
        &[
            ("behind a seq", r#"{"topic":"orders.created","group":"billing","to":{"afterSeq":2}}"#),
            ("dry run", r#"{"topic":"orders.created","group":"billing","to":"earliest","dryRun":true}"#),
        ],
    )],
    &[Content::json(
        sought,
        &[
            ("placed", r#"{"topic":"orders.created","group":"billing","seq":2}"#),
            (
                "dry run",
                r#"{"topic":"orders.created","group":"billing","dryRun":true,"from":2,"to":0,"events":2}"#,
            ),
        ],
    )],
)
.refusing(&[404]);

fn place() -> Vec<(&'static str, Value)> {
    vec![("lastId", or_null(id())), ("lastTs", or_null(time())), ("seq", count())]
}

fn cursors() -> Value {
    let cursor = object(&[vec![("group", group())], place()].concat());
    object(&[("topic", topic()), ("cursors", array(cursor)), ("next?", group())])
}

pub static CURSORS: Endpoint = get(
    "/cursors",
    "cursors",
    "How far the groups of a topic are.",
    Needs::Right("subscribe"),
    &[params::TOPIC, Param::new("group", Kind::Group, "Only this group."), params::AFTER, params::LIMIT],
    &[Content::json(
        cursors,
        &[(
            "page",
            r#"{"topic":"orders.created","cursors":[{"group":"billing","lastId":"018bcfe5-6800-7000-8000-000000000001","lastTs":1780000000000,"seq":2}],"next":"billing"}"#,
        )],
    )],
)
.refusing(&[404]);

fn lag() -> Value {
    object(&[
        ("topic", topic()),
        ("group", group()),
        ("lastCursor", object(&place())),
        ("tail", or_null(id())),
        ("lagMs", count()),
        ("lag", count()),
        ("inflight", count()),
        ("parked", count()),
        ("reason", or_null(reason())),
    ])
}

pub static LAG: Endpoint = get(
    "/lag",
    "lag",
    "How far a group is behind.",
    Needs::Right("subscribe"),
    &[params::TOPIC, params::GROUP],
    &[Content::json(
        lag,
        &[(
            "behind",
            r#"{"topic":"orders.created","group":"billing","lastCursor":{"lastId":"018bcfe5-6800-7000-8000-000000000001","lastTs":1780000000000,"seq":2},"tail":"cf265ddd-b7ab-5617-9572-69c1f3a889d2","lagMs":4,"lag":1,"inflight":0,"parked":0,"reason":"no_members"}"#,
        )],
    )],
)
.refusing(&[404]);

const RANGES: &[&str] = &["1m", "15m", "24h"];

/// Samples of a topic, of a group, and of all topics and groups.
fn stats() -> Value {
    let of = |which: &[(&'static str, Value)], figures: &[Vec<(&'static str, Value)>]| {
        let sample = object(&[vec![("ts", time())], figures.concat()].concat());
        let own = [("range", one_of(RANGES)), ("stepMs", count()), ("samples", array(sample))];
        object(&[which, &own].concat())
    };
    any(&[
        of(&[("topic", topic())], &[topic_figures()]),
        of(&[("topic", topic()), ("group", group())], &[group_figures(), latencies()]),
        of(&[], &[topic_figures(), group_figures()]),
    ])
}

pub static STATS: Endpoint = get(
    "/stats",
    "stats",
    "Rates and latencies of the last minutes, sampled once a second in the hub.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only this topic."),
        Param::new("group", Kind::Group, "Only this group of the topic."),
        Param::new("range", Kind::OneOf(RANGES), "How far back."),
    ],
    &[Content::json(
        stats,
        &[
            (
                "topic",
                r#"{"topic":"orders.created","range":"15m","stepMs":15000,"samples":[{"ts":1780000000000,"published":0.2,"bytes":41.5}]}"#,
            ),
            (
                "group",
                r#"{"topic":"orders.created","group":"billing","range":"1m","stepMs":1000,"samples":[{"ts":1780000000000,"delivered":2.0,"acked":1.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0,"latencyMs":{"p50":1.0,"p99":2.0},"handlerMs":{"p50":4.0,"p99":4.0}}]}"#,
            ),
            (
                "all",
                r#"{"range":"24h","stepMs":600000,"samples":[{"ts":1780000000000,"published":0.2,"bytes":41.5,"delivered":2.0,"acked":1.0,"nacked":0.0,"redelivered":0.0,"deadlettered":0.0}]}"#,
            ),
        ],
    )],
)
.refusing(&[404]);

#[cfg(test)]
mod tests {
    use super::REASONS;
    use hub_core::Reason;

    #[test]
    fn the_parameter_takes_every_reason() {
        assert_eq!(REASONS, Reason::ALL.map(Reason::as_str));
    }
}
