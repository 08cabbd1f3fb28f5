//! Health, metrics, this document, and the gateway.

use super::super::schema::{any, array, map, named, object, text, yes};
use super::super::{Answer, Content, Endpoint, Needs};
use super::get;
use serde_json::{Value, json};

fn healthy() -> Value {
    object(&[("ok", yes())])
}

pub static HEALTHZ: Endpoint = get(
    "/healthz",
    "healthz",
    "The process runs.",
    Needs::Nothing,
    &[],
    &[Content::json(healthy, &[("healthy", r#"{"ok":true}"#)])],
);

fn readiness() -> Value {
    named("Readiness")
}

/// The hub itself says why, or it has too many connections to be asked.
fn not_ready() -> Value {
    any(&[readiness(), named("Error")])
}

pub static READYZ: Endpoint = Endpoint {
    answer: Answer {
        content: &[Content::json(
            readiness,
            &[
                (
                    "with details",
                    r#"{"ready":true,"store":{"available":true,"warnings":[],"damaged":0},"draining":false}"#,
                ),
                ("for strangers", r#"{"ready":true,"store":{"available":true},"draining":false}"#),
            ],
        )],
        others: &[(
            503,
            "The hub takes no work.",
            &[Content::json(
                not_ready,
                &[
                    (
                        "store away",
                        r#"{"ready":false,"store":{"available":false,"reason":"the disk is full","warnings":[],"damaged":0},"draining":false}"#,
                    ),
                    (
                        "too many connections",
                        r#"{"error":"too many connections; close some or try again later","code":"unavailable"}"#,
                    ),
                ],
            )],
        )],
    },
    ..get("/readyz", "readyz", "Whether the hub takes work; 503 while it does not.", Needs::Nothing, &[], &[])
};

pub static METRICS: Endpoint = get(
    "/metrics",
    "metrics",
    "Metrics in Prometheus' classic text format, or in OpenMetrics if `Accept` ranks that first.",
    Needs::TokenBeyondLoopback,
    &[],
    &[
        Content::text(
            "text/plain",
            &[(
                "classic",
                "# HELP ws_connections Open connections.\n# TYPE ws_connections gauge\nws_connections 0\n",
            )],
        ),
        Content::text(
            "application/openmetrics-text",
            &[(
                "OpenMetrics",
                "# HELP ws_connections Open connections.\n# TYPE ws_connections gauge\nws_connections 0\n# EOF\n",
            )],
        ),
    ],
);

/// The parts of an OpenAPI document that this one has. What is in them, the specification of OpenAPI says.
fn document() -> Value {
    let any_object = || json!({"type": "object"});
    let license = object(&[("name", text()), ("identifier", text())]);
    let info = [("title", text()), ("version", text()), ("description", text()), ("license", license)];
    let parts = ["securitySchemes", "schemas", "responses"].map(|name| (name, map(any_object())));
    object(&[
        ("openapi", json!({"type": "string", "const": "3.1.0"})),
        ("info", object(&info)),
        ("servers", array(object(&[("url", text())]))),
        ("security", array(map(array(text())))),
        ("paths", map(map(any_object()))),
        ("components", object(&parts)),
    ])
}

pub static OPENAPI: Endpoint = get(
    "/openapi.json",
    "openapi",
    "This document.",
    Needs::TokenBeyondLoopback,
    &[],
    &[Content::json(
        document,
        &[(
            "without paths",
            r#"{"openapi":"3.1.0","info":{"title":"event-hub","version":"0.1.0","description":"The HTTP side of a hub.","license":{"name":"MIT OR Apache-2.0","identifier":"MIT OR Apache-2.0"}},"servers":[{"url":"/"}],"security":[{"token":[]}],"paths":{},"components":{"securitySchemes":{},"schemas":{},"responses":{}}}"#,
        )],
    )],
);

fn refused() -> Value {
    named("Error")
}

pub static WS: Endpoint = Endpoint {
    answer: Answer {
        content: &[],
        others: &[
            (101, "The connection is a WebSocket.", &[]),
            (
                403,
                "Pages of this origin may not connect.",
                &[Content::text("text/plain", &[("origin", "pages of this origin may not connect\n")])],
            ),
            (
                503,
                "The hub starts or stops, or has too many connections.",
                &[
                    Content::text("text/plain", &[("stopping", "the hub is stopping\n")]),
                    Content::json(
                        refused,
                        &[(
                            "too many connections",
                            r#"{"error":"too many connections; close some or try again later","code":"unavailable"}"#,
                        )],
                    ),
                ],
            ),
        ],
    },
    refusals: &[426],
    ..get("/ws", "gateway", "The WebSocket gateway; see docs/protocol.md.", Needs::TokenOnSocket, &[], &[])
};
