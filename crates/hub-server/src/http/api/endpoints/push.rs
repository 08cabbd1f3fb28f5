//! Push subscriptions.

use super::super::components::new_filter;
use super::super::schema::{
    any, array_of, flag, group, integer, named, object, one_of, or_null, page, text, text_of,
    topic_or_pattern,
};
use super::super::{Content, Endpoint, Examples, Kind, Needs, Param, Verb, params};
use super::{delete, get, post};
use serde_json::{Value, json};

const PUSH_NAME: Param = Param::required("name", Kind::Text, "The name of the push subscription.", "crm");

fn subscription() -> Value {
    named("PushSubscription")
}

const SUBSCRIPTION: Examples = &[(
    "subscription",
    r#"{"name":"crm","topic":"orders.created","group":"push.crm","url":"https://crm.example.com/hooks","secrets":1,"mode":"structured","concurrency":16,"rate":100,"ordering":"none","filter":{},"maxAttempts":5,"timeoutMs":15000,"allowPrivate":false,"from":"latest","origin":"api","state":"failing","reason":"endpoint_failing","inflight":0,"delivered":12,"lastFailure":{"at":1780000000000,"status":500,"error":"status 500"}}"#,
)];

fn list() -> Value {
    page("endpoints", subscription())
}

pub static PUSH_LIST: Endpoint = get(
    "/push",
    "pushSubscriptions",
    "The push subscriptions that the token may administrate.",
    Needs::Token,
    &[params::AFTER, params::LIMIT],
    &[Content::json(
        list,
        &[(
            "page",
            r#"{"endpoints":[{"name":"crm","topic":"orders.*","group":"push.crm","url":"https://crm.example.com/hooks","secrets":1,"mode":"structured","concurrency":16,"ordering":"none","filter":{"tags":["vip"]},"maxAttempts":5,"timeoutMs":15000,"allowPrivate":false,"from":"latest","origin":"api","state":"paused","reason":"the endpoint answered 410","pausedAt":1780000000000,"inflight":0,"delivered":0}],"next":"crm"}"#,
        )],
    )],
);

pub static PUSH: Endpoint = get(
    "/push/{name}",
    "pushSubscription",
    "One push subscription. Secrets are never shown.",
    Needs::Right("admin"),
    &[PUSH_NAME],
    &[Content::json(subscription, SUBSCRIPTION)],
)
.refusing(&[404]);

fn definition() -> Value {
    let secret = || json!({"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]+=*$"});
    object(&[
        ("topic", topic_or_pattern()),
        ("url", text_of(1, 2048)),
        ("secrets?", any(&[secret(), array_of(1, 8, secret()), json!({"type": "null"})])),
        ("group?", or_null(group())),
        ("mode?", one_of(&["structured", "binary"])),
        ("concurrency?", integer(1, 256)),
        ("rate?", or_null(integer(1, 100_000))),
        ("ordering?", one_of(&["none", "key"])),
        ("filter?", new_filter()),
        ("maxAttempts?", integer(1, 1000)),
        ("timeoutMs?", integer(100, 300_000)),
        ("allowPrivate?", flag()),
        ("from?", one_of(&["earliest", "latest"])),
    ])
}

pub static PUT_PUSH: Endpoint = Endpoint {
    method: Verb::Put,
    params: &[PUSH_NAME],
    ..post(
        "/push/{name}",
        "putPushSubscription",
        "Creates or changes a push subscription: a group that the hub delivers by HTTP POST.",
        Needs::Right("admin"),
        &[Content::json(
            definition,
            &[(
                "definition",
                r#"{"topic":"orders.*","url":"https://crm.example.com/hooks","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#,
            )],
        )],
        &[Content::json(subscription, SUBSCRIPTION)],
    )
    .refusing(&[404])
};

fn deleted() -> Value {
    object(&[("name", text()), ("topic", topic_or_pattern()), ("group", group()), ("deleted", integer(1, 1))])
}

pub static DELETE_PUSH: Endpoint = delete(
    "/push/{name}",
    "deletePushSubscription",
    "Deletes a push subscription. Its group stays.",
    &[PUSH_NAME],
    &[Content::json(
        deleted,
        &[("deleted", r#"{"name":"crm","topic":"orders.created","group":"push.crm","deleted":1}"#)],
    )],
);

pub static RESUME_PUSH: Endpoint = Endpoint {
    method: Verb::Post,
    ..get(
        "/push/{name}/resume",
        "resumePushSubscription",
        "Resumes a push subscription that is paused.",
        Needs::Right("admin"),
        &[PUSH_NAME],
        &[Content::json(subscription, SUBSCRIPTION)],
    )
    .refusing(&[404])
};
