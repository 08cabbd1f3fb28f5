//! Reading events: pages, exports, streams, and tickets for them.

use super::super::schema::{any, array, count, named, object, or_null, text, text_of, topic};
use super::super::{Answer, Body, Content, Endpoint, Kind, Needs, Param, params};
use super::{CLOUDEVENTS, MILLIS, get, post};
use hub_proto::limits;
use serde_json::{Value, json};

fn event() -> Value {
    named("Event")
}

/// A record as it is stored, or as a CloudEvent if `Accept` asks for that.
fn record() -> Value {
    any(&[event(), named("CloudEvent")])
}

fn page_of(entry: Value, next: Value) -> Value {
    object(&[("topic", topic()), ("events", array(entry)), ("count", count()), ("next?", next)])
}

fn replayed() -> Value {
    page_of(record(), count())
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
    "Events of a topic from a position on, in pages. With `Accept: application/cloudevents+json` they are CloudEvents.",
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
            Kind::TextUpTo(limits::HEADERS_BYTES),
            "Only events with this header `correlationId` or `x-correlation-id`.",
        ),
        Param::new("traceId", Kind::TraceId, "Only events of this trace, which their header `traceparent` names."),
    ],
    &[Content::json(
        replayed,
        &[(
            "page",
            r#"{"topic":"orders.created","events":[{"id":"018bcfe5-6800-7000-8000-000000000001","ts":1780000000000,"topic":"orders.created","key":"order-18","headers":{"x-tenant":"blue"},"payload":{"order":18},"seq":2}],"count":1,"next":2}"#,
        )],
    )],
)
.refusing(&[404]);

fn latest() -> Value {
    any(&[event(), json!({"type": "null"}), page_of(event(), text())])
}

pub static LATEST_BY_KEY: Endpoint = Endpoint {
    headers: &[Param::new(
        "If-None-Match",
        Kind::AnyText,
        "The `ETag` of an answer: 304 while the record is the newest.",
    )],
    answer: Answer {
        content: &[Content::json(
            latest,
            &[
                (
                    "record",
                    r#"{"id":"018bcfe5-6800-7000-8000-000000000001","ts":1780000000000,"topic":"orders.created","key":"order-18","payload":{"order":18},"seq":2}"#,
                ),
                ("none", "null"),
                (
                    "page",
                    r#"{"topic":"orders.created","events":[{"id":"018bcfe5-6800-7000-8000-000000000001","ts":1780000000000,"topic":"orders.created","key":"order-18","payload":{"order":18},"seq":2}],"count":1,"next":"order-18"}"#,
                ),
            ],
        )],
        others: &[(304, "The record is the one that `If-None-Match` names.", &[])],
    },
    ..get(
        "/latest-by-key",
        "latestByKey",
        "The newest event of a key, or null; without a key, those of all keys in pages.",
        Needs::Right("subscribe"),
        &[
            params::TOPIC,
            Param::new("key", Kind::Key, "The key."),
            Param::new("after", Kind::Key, "`next` of the page before."),
            params::LIMIT,
        ],
        &[],
    )
    .refusing(&[404])
};

fn records() -> Value {
    array(event())
}

fn cloud_events() -> Value {
    array(named("CloudEvent"))
}

pub static EXPORT: Endpoint = get(
    "/export",
    "export",
    "A topic as it was when the export began, streamed. With `Accept: application/cloudevents+json` each line is a CloudEvent.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        params::FROM_TS,
        params::TO_TS,
        params::AFTER_SEQ,
        Param::new("ndjson", Kind::Flag, "1: a record per line, the default. 0: one JSON array."),
        TICKET,
    ],
    &[
        Content::stream(
            "application/x-ndjson",
            record,
            &[(
                "lines",
                "{\"id\":\"018bcfe5-6800-7000-8000-000000000001\",\"ts\":1780000000000,\"topic\":\"orders.created\",\"payload\":{\"order\":18},\"seq\":2}\n",
            )],
        ),
        Content::json(
            records,
            &[(
                "array",
                r#"[{"id":"018bcfe5-6800-7000-8000-000000000001","ts":1780000000000,"topic":"orders.created","payload":{"order":18},"seq":2}]"#,
            )],
        ),
        Content::json_as(
            CLOUDEVENTS,
            cloud_events,
            &[(
                "batch",
                r#"[{"specversion":"1.0","id":"018bcfe5-6800-7000-8000-000000000001","source":"/event-hub/orders.created","type":"orders.created","time":"2026-05-28T20:26:40Z","hubseq":"2","hubtopic":"orders.created","data":{"order":18}}]"#,
            )],
        ),
    ],
)
.refusing(&[404]);

/// What the `data` of a message is: a record, what was missed, or why the stream ends.
fn message() -> Value {
    any(&[record(), object(&[("missed", count())]), object(&[("code", text()), ("error", text())])])
}

pub static EVENTS: Endpoint = Endpoint {
    headers: &[Param::new("Last-Event-ID", MILLIS, "The last seq that was seen; counts more than the parameters.")],
    ..get(
        "/events",
        "events",
        "A topic as server-sent events; `id` is the seq, and `Last-Event-ID` resumes. The stream does not end by itself.",
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
            Param::new("tag", Kind::TextUpTo(limits::TAG_BYTES), "Only events with this tag."),
            TICKET,
        ],
        &[Content::stream(
            "text/event-stream",
            message,
            &[(
                "stream",
                "retry: 1500\n\nid: 2\ndata: {\"id\":\"018bcfe5-6800-7000-8000-000000000001\",\"ts\":1780000000000,\"topic\":\"orders.created\",\"payload\":{\"order\":18},\"seq\":2}\n\n",
            )],
        )],
    )
    .refusing(&[404])
};

fn ticket_asked() -> Value {
    object(&[("topic?", or_null(topic()))])
}

fn ticket() -> Value {
    object(&[("ticket", text_of(64, 64)), ("expiresInMs", count())])
}

pub static TICKET_ISSUED: Endpoint = Endpoint {
    body: Some(Body {
        is_required: false,
        content: &[Content::json(ticket_asked, &[("topic", r#"{"topic":"orders.created"}"#)])],
    }),
    ..post(
        "/ticket",
        "ticket",
        "A single-use ticket that stands for the token in a URL, for 30 seconds.",
        Needs::Token,
        &[],
        &[Content::json(
            ticket,
            &[(
                "ticket",
                r#"{"ticket":"9f2c4d0be6a1837f5c9e0d4b2a61f8739f2c4d0be6a1837f5c9e0d4b2a61f873","expiresInMs":30000}"#,
            )],
        )],
    )
};
