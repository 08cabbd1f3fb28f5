//! The hub itself: hubs on the store, quotas, tokens, outboxes.

use super::super::schema::{any, array, array_of, count, named, object, or_null, text, text_of};
use super::super::{Content, Endpoint, Kind, Needs, Param, Verb, params};
use super::{get, post};
use serde_json::Value;

fn hubs() -> Value {
    object(&[("hubs", array(named("Hub")))])
}

pub static HUBS: Endpoint = get(
    "/hubs",
    "hubs",
    "The hubs over this store that are alive.",
    Needs::Right("admin"),
    &[],
    &[Content::json(
        hubs,
        &[(
            "two",
            r#"{"hubs":[{"id":"7f3a","address":"ws://10.0.0.1:8090","version":"0.1.0","started":1780000000000,"this":true},{"id":"81c0","address":"ws://10.0.0.2:8090","version":"0.1.0","started":1780000001000,"this":false}]}"#,
        )],
    )],
);

fn quotas() -> Value {
    object(&[
        ("subjects", array(named("SubjectQuota"))),
        ("patterns?", array(named("PatternQuota"))),
        ("next?", text()),
    ])
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
    &[Content::json(
        quotas,
        &[
            (
                "own",
                r#"{"subjects":[{"subject":"ada","connections":{"used":1,"max":10},"subscriptions":{"used":2},"topics":{"used":3,"max":100},"groups":{"used":1},"storedBytes":{"used":4096,"max":1048576},"bytesIn":{"maxPerSecond":65536}}]}"#,
            ),
            (
                "all",
                r#"{"subjects":[{"subject":"","connections":{"used":0},"subscriptions":{"used":0},"topics":{"used":0},"groups":{"used":0},"storedBytes":{"used":0}}],"patterns":[{"pattern":"orders.**","topics":{"used":3,"max":100},"groups":{"used":1},"storedBytes":{"used":4096},"bytesOut":{"maxPerSecond":65536}}],"next":"ada"}"#,
            ),
        ],
    )],
);

/// A subject, the id of a token, or both. Null counts as absent.
fn revoke() -> Value {
    let name = || text_of(1, 256);
    any(&[
        object(&[("sub", name()), ("jti?", or_null(name()))]),
        object(&[("sub?", or_null(name())), ("jti", name())]),
    ])
}

fn revoked() -> Value {
    object(&[("revoked", count()), ("remembered", count())])
}

pub static REVOKE: Endpoint = post(
    "/revoke",
    "revoke",
    "Takes tokens back, by subject or by id.",
    Needs::Right("admin"),
    &[Content::json(revoke, &[("subject", r#"{"sub":"left-us"}"#), ("token", r#"{"jti":"01a0f3c2"}"#)])],
    &[Content::json(revoked, &[("revoked", r#"{"remembered":1,"revoked":1}"#)])],
);

/// A line of the answer: the first one names the files, the others say that they are still held.
fn pinned_files() -> Value {
    any(&[
        object(&[
            ("directory", text()),
            ("manifest", text()),
            ("segment", count()),
            ("nonce", text()),
            ("bytes", count()),
            ("commit", count()),
        ]),
        object(&[]),
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
        &[Content::stream(
            "application/x-ndjson",
            pinned_files,
            &[(
                "held",
                r#"{"directory":"/var/lib/event-hub","manifest":"","segment":1,"nonce":"00000000000000ff","bytes":4096,"commit":17}"#,
            )],
        )],
    )
};

fn outboxes() -> Value {
    object(&[("outboxes", array(named("Outbox")))])
}

pub static OUTBOX: Endpoint = get(
    "/outbox",
    "outboxes",
    "The outboxes that this hub drains, with their parked rows. Without the admin right for all topics: those that have parked rows of topics that the token may read or administrate, with these rows.",
    Needs::Token,
    &[
        Param::new("outbox", Kind::Text, "Only this outbox."),
        Param::new("limit", Kind::Number(1, 1000), "How many parked rows of each; 100 unless given."),
    ],
    &[Content::json(
        outboxes,
        &[(
            "outboxes",
            r#"{"outboxes":[{"name":"shop","connected":true,"pending":1,"parked":1,"oldestAgeMs":1136,"sent":0,"retries":0,"rows":[{"id":"018bcfe5-6800-7000-8000-000000000002","topic":"shop orders","key":"order-18","status":"error","ts":1780000000000,"attempts":1,"error":"bad_request: topic name"}]},{"name":"crm","connected":false,"reason":"connection refused","sent":0,"retries":0,"rows":[]}]}"#,
        )],
    )],
)
.refusing(&[404]);

fn retry() -> Value {
    object(&[("outbox", text()), ("ids?", or_null(array_of(0, 10_000, text())))])
}

fn retried() -> Value {
    object(&[("outbox", text()), ("retried", count())])
}

pub static OUTBOX_RETRY: Endpoint = post(
    "/outbox/retry",
    "retryOutbox",
    "Lets parked rows of an outbox be tried again.",
    Needs::Right("admin"),
    &[Content::json(
        retry,
        &[
            ("all", r#"{"outbox":"shop"}"#),
            ("some", r#"{"outbox":"shop","ids":["018bcfe5-6800-7000-8000-000000000002"]}"#),
        ],
    )],
    &[Content::json(retried, &[("retried", r#"{"outbox":"shop","retried":1}"#)])],
)
.refusing(&[404]);
