//! Access: the token of a request, open connections, refusals and admin actions.

use super::super::schema::{array, count, flag, named, object, one_of, page, text, time};
use super::super::{Content, Endpoint, Kind, Needs, Param, params};
use super::get;
use serde_json::Value;

fn who() -> Value {
    let rule = object(&[
        ("effect", one_of(&["allow", "deny"])),
        ("actions", array(one_of(&["publish", "subscribe", "admin"]))),
        ("topics", array(text())),
        ("groups?", array(text())),
    ]);
    let hub = object(&[("version", text()), ("started", time()), ("store", text())]);
    let limits = object(&[("payloadBytes", count()), ("batchEvents", count())]);
    object(&[
        ("sub?", text()),
        ("expires?", time()),
        ("rules", array(rule)),
        ("admin", flag()),
        ("administrates", flag()),
        ("hub", hub),
        ("limits", limits),
    ])
}

pub static WHOAMI: Endpoint = get(
    "/whoami",
    "whoami",
    "The token as the hub sees it: its subject, when it expires, and the rules that count for it; and the hub.",
    Needs::Token,
    &[],
    &[Content::json(
        who,
        &[(
            "a reader",
            r#"{"sub":"ada","expires":1780003600000,"rules":[{"effect":"allow","actions":["subscribe"],"topics":["orders.**"],"groups":["billing"]}],"admin":false,"administrates":false,"hub":{"version":"0.1.0","started":1780000000000,"store":"embedded"},"limits":{"payloadBytes":1048576,"batchEvents":1000}}"#,
        )],
    )],
);

fn connections() -> Value {
    page("connections", named("Connection"))
}

pub static CONNECTIONS: Endpoint = get(
    "/connections",
    "connections",
    "The connections to this hub that are open: those of the token's subject, or all of them with the admin right for all topics.",
    Needs::Token,
    &[
        Param::new("q", Kind::Text, "Only those of subjects with this text in them."),
        params::AFTER,
        params::LIMIT,
    ],
    &[Content::json(
        connections,
        &[(
            "a consumer",
            r#"{"connections":[{"id":"17","subject":"ada","address":"10.0.0.7:51912","kind":"websocket","since":1780000000000,"expires":1780003600000,"subscriptions":1,"inflight":100,"queuedBytes":262144,"sentBytes":7340032}]}"#,
        )],
    )],
);

fn audit() -> Value {
    object(&[("entries", array(named("AuditEntry"))), ("dropped", count())])
}

pub static AUDIT: Endpoint = get(
    "/audit",
    "audit",
    "The newest refusals and admin actions of this hub since it started, the newest first.",
    Needs::Right("admin"),
    &[Param::new("limit", Kind::Number(1, 1000), "How many entries; 100 unless given.")],
    &[Content::json(
        audit,
        &[(
            "both",
            r#"{"entries":[{"n":2,"ts":1780000001000,"event":"admin","outcome":"allowed","via":"http","peer":"127.0.0.1:49104","sub":"developer","jti":"01a1ece3-f3a0-74c2-bf5b-d6c4e9532579","op":"POST /revoke","action":"admin","target":"sub:eve"},{"n":1,"ts":1780000000000,"event":"refused","outcome":"refused","via":"http","peer":"127.0.0.1:49080","sub":"eve","op":"POST /publish/{topic}","action":"publish","topic":"salaries","code":"forbidden","reason":"the token does not allow publish on topic \"salaries\""}],"dropped":0}"#,
        )],
    )],
);
