//! Every endpoint.

use super::schema::{any, array, count, event, flag, number, object, or_null, page, text};
use super::{Answer, Body, Endpoint, Kind, Needs, Param, Verb, params};

use serde_json::Value;

const MILLIS: Kind = Kind::Number(0, u64::MAX);
const NDJSON: &str = "application/x-ndjson";
const CLOUDEVENT: &str = "application/cloudevents+json";
const CLOUDEVENTS: &str = "application/cloudevents-batch+json";

/// One that answers JSON, takes no body, and refuses nothing of its own.
const fn get(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    needs: Needs,
    params: &'static [Param],
    answer: Answer,
) -> Endpoint {
    Endpoint { method: Verb::Get, path, name, summary, needs, params, body: None, answer, refusals: &[404] }
}

const fn delete(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    params: &'static [Param],
    answer: Answer,
) -> Endpoint {
    let needs = Needs::Right("admin");
    Endpoint {
        method: Verb::Delete,
        path,
        name,
        summary,
        needs,
        params,
        body: None,
        answer,
        refusals: &[404],
    }
}

const fn post(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    needs: Needs,
    body: Body,
    answer: Answer,
) -> Endpoint {
    let params = &[];
    Endpoint {
        method: Verb::Post,
        path,
        name,
        summary,
        needs,
        params,
        body: Some(body),
        answer,
        refusals: &[404],
    }
}

// ---- publishing ----

fn receipt() -> Value {
    object(&[("id", text()), ("seq", count()), ("ts", count()), ("durable", text()), ("duplicate?", flag())])
}

fn published() -> Value {
    let refusal = object(&[("code", text()), ("error", text())]);
    let several = object(&[("results", array(any(&[receipt(), refusal])))]);
    any(&[receipt(), several])
}

pub static PUBLISH: Endpoint = Endpoint {
    method: Verb::Post,
    path: "/publish/{topic}",
    name: "publish",
    summary: "Publishes the body as an event, or CloudEvents in structured, batched or binary mode.",
    needs: Needs::Right("publish"),
    params: &[
        Param::required("topic", Kind::Topic, "The topic."),
        Param::new("key", Kind::Key, "The entity key. Not for CloudEvents."),
        Param::new("id", Kind::Id, "An id of the publisher's own. Not for CloudEvents."),
    ],
    body: Some(Body {
        types: &["application/json", CLOUDEVENT, CLOUDEVENTS],
        schema: anything,
        example: r#"{"order":17}"#,
    }),
    answer: Answer::json(
        published,
        r#"{"id":"01a0f3c2-7a80-7cc0-8f5e-0242ac120002","seq":1,"ts":1780000000000,"durable":"fsync"}"#,
    ),
    refusals: &[409, 415],
};

fn anything() -> Value {
    serde_json::json!({})
}

// ---- reading ----

fn events_page() -> Value {
    object(&[
        ("topic", text()),
        ("count", count()),
        ("events", array(event())),
        ("next?", any(&[count(), text()])),
    ])
}

const FROM: Param = Param::new(
    "from",
    Kind::OneOf(&["earliest", "ts", "afterId", "afterSeq"]),
    "Where to begin; the value of `ts`, `afterId` or `afterSeq` is a parameter of that name.",
);
const TS: Param =
    Param::new("ts", MILLIS, "Only events committed from this time on, in milliseconds since 1970.");
const AFTER_ID: Param = Param::new("afterId", Kind::Id, "Only events behind the one with this id.");
const TICKET: Param = Param::new("ticket", Kind::Text, "A ticket of `POST /ticket` instead of the token.");

pub static REPLAY: Endpoint = get(
    "/replay",
    "replay",
    "Events of a topic from a position on, in pages.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        FROM,
        TS,
        AFTER_ID,
        params::AFTER_SEQ,
        params::TO_TS,
        params::LIMIT,
        Param::new(
            "correlationId",
            Kind::Text,
            "Only events with this header `correlationId` or `x-correlation-id`.",
        ),
    ],
    Answer {
        types: &["application/json", CLOUDEVENTS],
        ..Answer::json(events_page, r#"{"topic":"orders.created","count":0,"events":[],"next":null}"#)
    },
);

fn latest() -> Value {
    any(&[event(), serde_json::json!({"type": "null"}), events_page()])
}

pub static LATEST_BY_KEY: Endpoint = get(
    "/latest-by-key",
    "latestByKey",
    "The newest event of a key, or null; without a key, those of all keys in pages.",
    Needs::Right("subscribe"),
    &[params::TOPIC, Param::new("key", Kind::Key, "The key."), params::AFTER, params::LIMIT],
    Answer {
        others: &[(304, "The record is the one that `If-None-Match` names.")],
        ..Answer::json(latest, "null")
    },
);

pub static EXPORT: Endpoint = get(
    "/export",
    "export",
    "A topic as it was when the export began, streamed.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        params::FROM_TS,
        params::TO_TS,
        params::AFTER_SEQ,
        Param::new("ndjson", Kind::Flag, "1: a record per line, the default. 0: one JSON array."),
        TICKET,
    ],
    Answer {
        types: &[NDJSON, "application/json", CLOUDEVENT, CLOUDEVENTS],
        schema: records,
        example: "",
        others: &[],
    },
);

fn records() -> Value {
    array(event())
}

pub static EVENTS: Endpoint = get(
    "/events",
    "events",
    "A topic as server-sent events; `id` is the seq, and `Last-Event-ID` resumes.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        Param::new(
            "from",
            Kind::OneOf(&["earliest", "latest", "ts", "afterId", "afterSeq"]),
            "Where to begin; latest unless given.",
        ),
        TS,
        AFTER_ID,
        params::AFTER_SEQ,
        Param::new(
            "lastEventId",
            MILLIS,
            "The last seq that was seen, for clients that cannot send the header.",
        ),
        Param::new("key", Kind::Key, "Only events with this key."),
        Param::new("tag", Kind::Text, "Only events with this tag."),
        TICKET,
    ],
    Answer { types: &["text/event-stream"], schema: anything, example: "", others: &[] },
);

fn ticket_asked() -> Value {
    object(&[("topic?", text())])
}

fn ticket() -> Value {
    object(&[("ticket", text()), ("expiresInMs", count())])
}

pub static TICKET_ISSUED: Endpoint = post(
    "/ticket",
    "ticket",
    "A single-use ticket that stands for the token in a URL, for 30 seconds.",
    Needs::Token,
    Body::json(ticket_asked, r#"{"topic":"orders.created"}"#),
    Answer::json(ticket, r#"{"ticket":"…","expiresInMs":30000}"#),
);

// ---- topics and groups ----

fn topics() -> Value {
    page(
        "topics",
        object(&[
            ("name", text()),
            ("first", count()),
            ("last", count()),
            ("events", count()),
            ("bytes", count()),
            ("lastCommitted", or_null(count())),
            ("groups", count()),
            ("maker?", text()),
            ("rates?", anything()),
            ("settings", topic_settings()),
        ]),
    )
}

fn topic_settings() -> Value {
    object(&[
        ("retentionDays", or_null(count())),
        ("retentionBytes", or_null(count())),
        ("compaction", flag()),
        ("tombstoneGraceMs", count()),
        ("durability", text()),
        ("dedupeWindowMs", count()),
    ])
}

const QUERY: Param = Param::new("q", Kind::Text, "Only entries whose name has this text.");

pub static TOPICS: Endpoint = get(
    "/topics",
    "topics",
    "The topics that the token may see.",
    Needs::Token,
    &[QUERY, params::AFTER, params::LIMIT],
    Answer::json(topics, r#"{"topics":[]}"#),
);

fn deleted_topic() -> Value {
    object(&[
        ("topic", text()),
        ("deleted", object(&[("topics", count()), ("groups", count()), ("events", count())])),
    ])
}

pub static DELETE_TOPIC: Endpoint = delete(
    "/topics",
    "deleteTopic",
    "Deletes a topic with its groups and derived topics.",
    &[params::TOPIC],
    Answer::json(deleted_topic, r#"{"topic":"orders.created","deleted":{"topics":1,"groups":1,"events":3}}"#),
);

fn group() -> Value {
    object(&[
        ("topic", text()),
        ("group", text()),
        ("floor", count()),
        ("last", count()),
        ("lag", count()),
        ("inflight", count()),
        ("parked", count()),
        ("members", count()),
        ("reason", or_null(text())),
        ("options", anything()),
        ("owner?", text()),
        ("rates?", anything()),
    ])
}

fn groups() -> Value {
    page("groups", group())
}

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
    Answer::json(groups, r#"{"groups":[]}"#),
);

pub static GROUP_DETAIL: Endpoint = get(
    "/groups/detail",
    "groupDetail",
    "One group: its members, what they hold, and the last failures.",
    Needs::Right("subscribe"),
    &[params::TOPIC, params::GROUP],
    Answer::json(anything, ""),
);

fn deleted_groups() -> Value {
    object(&[("topic?", text()), ("label?", text()), ("group", text()), ("deleted", count())])
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
    Answer::json(deleted_groups, r#"{"topic":"orders.created","group":"billing","deleted":1}"#),
);

fn seek() -> Value {
    object(&[("topic", text()), ("group", text()), ("to", anything()), ("dryRun?", flag())])
}

pub static SEEK: Endpoint = post(
    "/groups/seek",
    "seek",
    "Places a group anew.",
    Needs::Right("admin"),
    Body::json(seek, r#"{"topic":"orders.created","group":"billing","to":{"afterSeq":2}}"#),
    Answer::json(anything, r#"{"topic":"orders.created","group":"billing","seq":2}"#),
);

fn cursors() -> Value {
    let cursor = object(&[
        ("group", text()),
        ("lastId", or_null(text())),
        ("lastTs", or_null(count())),
        ("seq", count()),
    ]);
    object(&[("topic", text()), ("cursors", array(cursor)), ("next?", text())])
}

pub static CURSORS: Endpoint = get(
    "/cursors",
    "cursors",
    "How far the groups of a topic are.",
    Needs::Right("subscribe"),
    &[params::TOPIC, Param::new("group", Kind::Group, "Only this group."), params::AFTER, params::LIMIT],
    Answer::json(cursors, r#"{"topic":"orders.created","cursors":[]}"#),
);

fn lag() -> Value {
    object(&[
        ("topic", text()),
        ("group", text()),
        ("lastCursor", anything()),
        ("tail", or_null(text())),
        ("lagMs", count()),
        ("lag", count()),
        ("inflight", count()),
        ("parked", count()),
        ("reason", or_null(text())),
    ])
}

pub static LAG: Endpoint = get(
    "/lag",
    "lag",
    "How far a group is behind.",
    Needs::Right("subscribe"),
    &[params::TOPIC, params::GROUP],
    Answer::json(lag, ""),
);

pub static STATS: Endpoint = get(
    "/stats",
    "stats",
    "Rates and latencies of the last minutes, sampled once a second in the hub.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only this topic."),
        Param::new("group", Kind::Group, "Only this group of the topic."),
        Param::new("range", Kind::OneOf(&["1m", "15m", "24h"]), "How far back."),
    ],
    Answer::json(anything, ""),
);

// ---- events and dead letters ----

pub static EVENT: Endpoint = get(
    "/event",
    "event",
    "One event and where it went: its outbox row, each group, its dead letters and replays.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        Param::new("id", Kind::Id, "The id of the event."),
        Param::new("seq", MILLIS, "Its seq, instead of the id."),
        params::AFTER,
        params::LIMIT,
    ],
    Answer::json(anything, ""),
);

fn found_event() -> Value {
    let place = object(&[("topic", text()), ("seq", count())]);
    object(&[("id", text()), ("topics", array(place)), ("searched", count()), ("next?", text())])
}

pub static FIND_EVENT: Endpoint = Endpoint {
    refusals: &[],
    ..get(
        "/event/find",
        "findEvent",
        "The topics, of those that the token may read, that have an event with this id. One request asks up to 1,000 topics; \
         `next` says that there are more.",
        Needs::Token,
        &[
            Param::required("id", Kind::Id, "The id of the event."),
            Param::new("after", Kind::Text, "Go on behind this topic: `next` of the request before."),
        ],
        Answer::json(
            found_event,
            r#"{"id":"018bcfe5-6800-7000-8000-000000000010","topics":[{"topic":"payments","seq":1}],"searched":3}"#,
        ),
    )
};

const OF_GROUP: Param = Param::new("group", Kind::Group, "Only those of this group.");
const OF_ERROR: Param = Param::new("err", Kind::Text, "Only those with exactly this error.");
const OF_TEXT: Param = Param::new("q", Kind::Text, "Only those whose error has this text.");
const OF_KEY: Param = Param::new("key", Kind::Key, "Only those with this key.");
const REPLAYED: Param =
    Param::new("replayed", Kind::Flag, "1: only those that were replayed. 0: only those that were not.");

pub static DLQ: Endpoint = get(
    "/dlq",
    "deadLetters",
    "Dead letters that the token may see.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only those of this topic."),
        OF_GROUP,
        OF_ERROR,
        OF_TEXT,
        OF_KEY,
        params::FROM_TS,
        params::TO_TS,
        REPLAYED,
        Param::new("payload", Kind::Flag, "1: with the original's payload."),
        Param::new("summary", Kind::Flag, "1: counts by error and group instead of letters."),
        params::AFTER,
        params::LIMIT,
    ],
    Answer::json(anything, r#"{"letters":[]}"#),
);

pub static DLQ_SHOW: Endpoint = get(
    "/dlq/show",
    "deadLetter",
    "One dead letter, with the original event.",
    Needs::Right("subscribe"),
    &[params::TOPIC, Param::required("id", Kind::Id, "The id of the letter.")],
    Answer::json(anything, ""),
);

pub static DLQ_SUMMARY: Endpoint = get(
    "/dlq/summary",
    "deadLetterSummary",
    "Counts of dead letters by error and by group.",
    Needs::Token,
    &[
        Param::new("topic", Kind::Topic, "Only those of this topic."),
        params::AFTER,
        OF_GROUP,
        OF_ERROR,
        OF_TEXT,
        OF_KEY,
        params::FROM_TS,
        params::TO_TS,
        REPLAYED,
    ],
    Answer::json(anything, ""),
);

fn which() -> Vec<(&'static str, Value)> {
    vec![
        ("topic", text()),
        ("group?", text()),
        ("ids?", array(text())),
        ("err?", text()),
        ("q?", text()),
        ("key?", text()),
        ("fromTs?", count()),
        ("toTs?", count()),
        ("dryRun?", flag()),
        ("after?", text()),
    ]
}

fn replay_letters() -> Value {
    object(&[which(), vec![("rate?", number()), ("round?", count()), ("payload?", anything())]].concat())
}

pub static DLQ_REPLAY: Endpoint = post(
    "/dlq/replay",
    "replayDeadLetters",
    "Replays dead letters to the group that failed.",
    Needs::Right("admin"),
    Body::json(replay_letters, r#"{"topic":"orders.created","dryRun":true}"#),
    Answer::json(anything, ""),
);

fn discard_letters() -> Value {
    object(&[which(), vec![("all?", flag())]].concat())
}

pub static DLQ_DELETE: Endpoint = post(
    "/dlq/delete",
    "discardDeadLetters",
    "Discards dead letters: they leave lists and counts.",
    Needs::Right("admin"),
    Body::json(discard_letters, r#"{"topic":"orders.created","all":true,"dryRun":true}"#),
    Answer::json(anything, ""),
);

pub static DELETE_DLQ: Endpoint = delete(
    "/dlq",
    "discardDeadLettersById",
    "Discards dead letters by their ids.",
    &[params::TOPIC, Param::required("ids", Kind::Text, "Ids with commas between.")],
    Answer::json(anything, ""),
);

pub static JOBS: Endpoint = get(
    "/jobs",
    "jobs",
    "Replays that run at a rate.",
    Needs::Token,
    &[],
    Answer::json(anything, r#"{"jobs":[]}"#),
);
const JOB_ID: Param = Param::required("id", Kind::Text, "The id of the job.");
pub static JOB: Endpoint = get(
    "/jobs/{id}",
    "job",
    "One job and its progress.",
    Needs::Token,
    &[JOB_ID],
    Answer::json(anything, ""),
);
pub static CANCEL_JOB: Endpoint =
    delete("/jobs/{id}", "cancelJob", "Cancels a job.", &[JOB_ID], Answer::json(anything, ""));

// ---- the hub ----

pub static HUBS: Endpoint = get(
    "/hubs",
    "hubs",
    "The hubs over this store that are alive.",
    Needs::Right("admin"),
    &[],
    Answer::json(hubs, r#"{"hubs":[]}"#),
);

fn hubs() -> Value {
    object(&[("hubs", array(anything()))])
}

fn quotas() -> Value {
    object(&[("subjects", array(anything())), ("patterns?", array(anything())), ("next?", text())])
}

pub static QUOTAS: Endpoint = get(
    "/quotas",
    "quotas",
    "What subjects use, and what they may use.",
    Needs::Token,
    &[
        Param::new("subject", Kind::Text, "Another subject; needs an admin right."),
        Param::new("all", Kind::Flag, "1: all subjects; needs an admin right."),
        params::AFTER,
        params::LIMIT,
    ],
    Answer::json(quotas, ""),
);

fn revoke() -> Value {
    object(&[("sub?", text()), ("jti?", text())])
}

fn revoked() -> Value {
    object(&[("revoked", count()), ("remembered", count())])
}

pub static REVOKE: Endpoint = post(
    "/revoke",
    "revoke",
    "Takes tokens back, by subject or by id.",
    Needs::Right("admin"),
    Body::json(revoke, r#"{"sub":"left-us"}"#),
    Answer::json(revoked, r#"{"remembered":1,"revoked":1}"#),
);

fn pinned_files() -> Value {
    object(&[
        ("directory?", text()),
        ("manifest?", text()),
        ("segment?", count()),
        ("nonce?", text()),
        ("bytes?", count()),
        ("commit?", count()),
    ])
}

pub static BACKUP: Endpoint = Endpoint {
    method: Verb::Post,
    ..get(
        "/backup",
        "backup",
        "Holds the files of the embedded store in place until the answer is ended, for `event-hub backup`.",
        Needs::Right("admin"),
        &[],
        Answer { types: &[NDJSON], schema: pinned_files, example: "", others: &[] },
    )
};

fn outboxes() -> Value {
    object(&[("outboxes", array(anything()))])
}

pub static OUTBOX: Endpoint = get(
    "/outbox",
    "outboxes",
    "The outboxes that this hub drains, with their parked rows.",
    Needs::Token,
    &[
        Param::new("outbox", Kind::Text, "Only this outbox."),
        Param::new("limit", Kind::Number(1, 1000), "How many parked rows of each; 100 unless given."),
    ],
    Answer::json(outboxes, r#"{"outboxes":[]}"#),
);

fn retry() -> Value {
    object(&[("outbox", text()), ("ids?", array(text()))])
}

fn retried() -> Value {
    object(&[("outbox", text()), ("retried", count())])
}

pub static OUTBOX_RETRY: Endpoint = post(
    "/outbox/retry",
    "retryOutbox",
    "Lets parked rows of an outbox be tried again.",
    Needs::Right("admin"),
    Body::json(retry, r#"{"outbox":"shop"}"#),
    Answer::json(retried, r#"{"outbox":"shop","retried":1}"#),
);

// ---- push ----

const PUSH_NAME: Param = Param::required("name", Kind::Text, "The name of the push subscription.");

fn push_list() -> Value {
    page("endpoints", anything())
}

pub static PUSH_LIST: Endpoint = get(
    "/push",
    "pushSubscriptions",
    "The push subscriptions that the token may administrate.",
    Needs::Token,
    &[params::AFTER, params::LIMIT],
    Answer::json(push_list, r#"{"endpoints":[]}"#),
);
pub static PUSH: Endpoint = get(
    "/push/{name}",
    "pushSubscription",
    "One push subscription. Secrets are never shown.",
    Needs::Right("admin"),
    &[PUSH_NAME],
    Answer::json(anything, ""),
);
pub static PUT_PUSH: Endpoint = Endpoint {
    method: Verb::Put,
    params: &[PUSH_NAME],
    refusals: &[404, 409],
    ..post(
        "/push/{name}",
        "putPushSubscription",
        "Creates or changes a push subscription: a group that the hub delivers by HTTP POST.",
        Needs::Right("admin"),
        Body::json(
            push_definition,
            r#"{"topic":"orders.*","group":"webhook","url":"https://example.com/hook","secret":"whsec_…"}"#,
        ),
        Answer::json(anything, ""),
    )
};
pub static DELETE_PUSH: Endpoint = delete(
    "/push/{name}",
    "deletePushSubscription",
    "Deletes a push subscription and its group.",
    &[PUSH_NAME],
    Answer::json(anything, ""),
);
pub static RESUME_PUSH: Endpoint = Endpoint {
    method: Verb::Post,
    params: &[PUSH_NAME],
    body: None,
    ..get(
        "/push/{name}/resume",
        "resumePushSubscription",
        "Resumes a push subscription that is paused.",
        Needs::Right("admin"),
        &[],
        Answer::json(anything, ""),
    )
};

fn push_definition() -> Value {
    object(&[("topic", text()), ("url", text())])
}

// ---- health ----

fn healthy() -> Value {
    object(&[("ok", flag())])
}

pub static HEALTHZ: Endpoint = get(
    "/healthz",
    "healthz",
    "The process runs.",
    Needs::Nothing,
    &[],
    Answer::json(healthy, r#"{"ok":true}"#),
);

fn ready() -> Value {
    object(&[("ready", flag()), ("store", anything()), ("draining", flag())])
}

pub static READYZ: Endpoint = get(
    "/readyz",
    "readyz",
    "Whether the hub takes work; 503 while it does not.",
    Needs::Nothing,
    &[],
    Answer {
        others: &[(503, "The hub takes no work.")],
        ..Answer::json(ready, r#"{"ready":true,"store":{"available":true},"draining":false}"#)
    },
);
pub static METRICS: Endpoint = get(
    "/metrics",
    "metrics",
    "Metrics in Prometheus' classic text format, or in OpenMetrics.",
    Needs::TokenBeyondLoopback,
    &[],
    Answer {
        types: &["text/plain", "application/openmetrics-text"],
        schema: anything,
        example: "",
        others: &[],
    },
);
pub static OPENAPI: Endpoint = get(
    "/openapi.json",
    "openapi",
    "This document.",
    Needs::TokenBeyondLoopback,
    &[],
    Answer::json(anything, ""),
);
pub static WS: Endpoint = Endpoint {
    refusals: &[426],
    ..get(
        "/ws",
        "gateway",
        "The WebSocket gateway; see docs/protocol.md.",
        Needs::Nothing,
        &[],
        Answer {
            types: &[],
            schema: anything,
            example: "",
            others: &[(101, "The connection is a WebSocket.")],
        },
    )
};
