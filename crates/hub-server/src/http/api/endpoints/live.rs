//! What the dashboard shows as it changes, and what was before.

use super::super::components::messages;
use super::super::schema::{array, count, flag, named, object, topic};
use super::super::{Content, Endpoint, Kind, Needs, Param, params};
use super::{MILLIS, get};
use crate::http::live::VIEWS;
use hub_proto::limits;
use serde_json::Value;

pub static LIVE: Endpoint = get(
    "/live",
    "live",
    "Figures, rows and events as they change, as server-sent events, once a second. The stream does not end by itself.",
    Needs::Token,
    &[
        Param::required("view", Kind::OneOf(&VIEWS), "What to look at.", "overview"),
        Param::new("topic", Kind::Topic, "The topic of the views topic, group and state; of groups, if only those of one are wanted."),
        Param::new("group", Kind::Group, "The group of the view group."),
        Param::new(
            "q",
            Kind::TextUpTo(limits::KEY_BYTES),
            "In the view topic: only events with this text in key, id or payload, whatever its case.",
        ),
        Param::new("key", Kind::Key, "In the view topic: only events with this key."),
    ],
    &[Content::stream(
        "text/event-stream",
        messages,
        &[(
            "tail",
            "retry: 1500\n\nevent: sample\ndata: {\"ts\":1780000000000,\"published\":2.0,\"bytes\":83.0,\"delivered\":2.0,\"acked\":1.0,\"nacked\":0.0,\"redelivered\":0.0,\"deadlettered\":0.0,\"latencyMs\":{\"p50\":1.0,\"p99\":2.0},\"topics\":1,\"groups\":1,\"lag\":1,\"inflight\":1,\"stalled\":0}\n\nevent: tail\ndata: {\"events\":[{\"seq\":2,\"id\":\"018bcfe5-6800-7000-8000-000000000001\",\"ts\":1780000000000,\"committed\":1780000000000,\"bytes\":12,\"cut\":false,\"key\":\"order-18\",\"payload\":\"{\\\"order\\\":18}\"}],\"skipped\":0}\n\n",
        )],
    )],
)
.refusing(&[404]);

fn history() -> Value {
    object(&[
        ("topic", topic()),
        ("events", array(named("Event"))),
        ("count", count()),
        ("next?", count()),
        ("first", count()),
        ("compacted", flag()),
        ("retained", flag()),
    ])
}

pub static HISTORY: Endpoint = get(
    "/history",
    "history",
    "Events of a topic, the newest first: the values that a key had, or the state as of a time.",
    Needs::Right("subscribe"),
    &[
        params::TOPIC,
        Param::new("key", Kind::Key, "Only events with this key."),
        Param::new("before", MILLIS, "Only events before this seq: `next` of the page before."),
        Param::new(
            "toTs",
            MILLIS,
            "Only events committed at this time or before, in milliseconds since 1970.",
        ),
        params::LIMIT,
    ],
    &[Content::json(
        history,
        &[(
            "page",
            r#"{"topic":"orders.created","events":[{"id":"018bcfe5-6800-7000-8000-000000000001","ts":1780000000000,"topic":"orders.created","key":"order-18","payload":{"order":18},"seq":2}],"count":1,"next":2,"first":1,"compacted":false,"retained":false}"#,
        )],
    )],
)
.refusing(&[404]);
