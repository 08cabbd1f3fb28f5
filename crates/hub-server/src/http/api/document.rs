//! `GET /openapi.json`: the endpoints as an OpenAPI 3.1 document.

use super::schema::{array, count, object, text};
use super::{Endpoint, Kind, Needs, Param};
use serde_json::{Map, Value, json};

/// Refusals and when they come.
const REFUSALS: &[(u16, &str)] = &[
    (400, "The request is wrong; the text names what, and what is allowed."),
    (401, "No token, or one that is not valid."),
    (403, "The token does not allow this."),
    (404, "There is no such thing."),
    (405, "The path does not take this method."),
    (408, "The body was not complete in time."),
    (409, "Something else is there already."),
    (413, "The body or the payload is too large."),
    (415, "The content type is not supported."),
    (422, "The body is understood, and cannot be carried out."),
    (426, "The path is for WebSockets."),
    (429, "Too many requests; `Retry-After` has the seconds to wait."),
    (503, "The store does not answer, or the hub stops. Sending again is safe."),
];
/// Refusals that every request with a token may get, and every request with a body.
const OF_ALL: &[u16] = &[400, 429, 503];
const OF_TOKENS: &[u16] = &[401, 403];
const OF_BODIES: &[u16] = &[408, 413];

/// The document.
pub(super) fn openapi(endpoints: &[&Endpoint]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str()] = operation(endpoint);
    }
    let scheme = json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "event-hub",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The HTTP side of a hub: publish, read, look after groups and dead letters.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": scheme},
            "schemas": {"Error": error(), "Event": event()},
        },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let Endpoint { name, summary, needs, params, body, answer, refusals, .. } = endpoint;
    let mut operation = json!({"operationId": name, "summary": summary, "description": description(*needs)});
    if *needs == Needs::Nothing {
        operation["security"] = json!([]);
    }
    if *needs == Needs::TokenBeyondLoopback {
        operation["security"] = json!([{"token": []}, {}]);
    }
    let params: Vec<Value> = params.iter().map(|param| parameter(param, endpoint.path)).collect();
    if !params.is_empty() {
        operation["parameters"] = params.into();
    }
    if let Some(body) = body {
        operation["requestBody"] =
            json!({"required": true, "content": content(body.types, &(body.schema)(), body.example)});
    }
    let good = json!({
        "description": "Done.",
        "content": content(answer.types, &(answer.schema)(), answer.example),
    });
    let mut answers = Map::from_iter([("200".to_owned(), good)]);
    for (status, about) in answer.others {
        answers.insert(status.to_string(), json!({"description": about}));
    }
    let of_tokens: &[u16] = if *needs == Needs::Nothing { &[] } else { OF_TOKENS };
    let of_bodies: &[u16] = if body.is_some() { OF_BODIES } else { &[] };
    for status in [OF_ALL, of_tokens, of_bodies, refusals].concat() {
        let about =
            REFUSALS.iter().find(|(known, _)| *known == status).map_or("Refused.", |(_, about)| about);
        let refused = json!({"schema": {"$ref": "#/components/schemas/Error"}});
        answers
            .entry(status.to_string())
            .or_insert_with(|| json!({"description": about, "content": {"application/json": refused}}));
    }
    operation["responses"] = answers.into();
    operation
}

fn description(needs: Needs) -> String {
    match needs {
        Needs::Nothing => "Open to anybody.".into(),
        Needs::TokenBeyondLoopback => {
            "Open on a hub that listens on loopback only; otherwise any token.".into()
        }
        Needs::Token => "Any token; shows what the token may see.".into(),
        Needs::Right(right) => format!("Needs a token with the right `{right}`."),
    }
}

fn content(types: &[&str], schema: &Value, example: &str) -> Value {
    let of = |kind: &str| {
        let is_json = kind == "application/json";
        let example = match serde_json::from_str::<Value>(example) {
            Ok(example) if is_json => example,
            _ => json!(example),
        };
        let schema = if is_json { schema.clone() } else { text() };
        if example == json!("") {
            json!({"schema": schema})
        } else {
            json!({"schema": schema, "example": example})
        }
    };
    types.iter().map(|kind| ((*kind).to_owned(), of(kind))).collect::<Map<_, _>>().into()
}

fn parameter(param: &Param, path: &str) -> Value {
    let is_in_path = path.contains(&format!("{{{}}}", param.name));
    json!({
        "name": param.name,
        "in": if is_in_path { "path" } else { "query" },
        "required": param.is_required || is_in_path,
        "description": param.about,
        "schema": kind(param.kind),
    })
}

fn kind(kind: Kind) -> Value {
    const NAME: &str = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$";
    match kind {
        Kind::Topic => {
            json!({"type": "string", "pattern": NAME, "minLength": 1, "maxLength": 200, "example": "orders.created"})
        }
        Kind::TopicOrPattern => json!({
            "type": "string", "pattern": "^[A-Za-z0-9_*-]+(\\.[A-Za-z0-9_*-]+)*$", "minLength": 1, "maxLength": 200,
        }),
        Kind::Group => {
            json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "minLength": 1, "maxLength": 200, "example": "billing"})
        }
        Kind::Id => json!({"type": "string", "format": "uuid"}),
        Kind::Key => json!({"type": "string", "minLength": 1, "maxLength": 512}),
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Flag => json!({"type": "string", "enum": ["0", "1"]}),
        Kind::OneOf(words) => json!({"type": "string", "enum": words}),
    }
}

/// A refusal.
fn error() -> Value {
    let mut schema =
        object(&[("error", text()), ("code", text()), ("id?", json!({"type": "string", "format": "uuid"}))]);
    schema["example"] = json!({"error": "parameter topic is missing", "code": "bad_request"});
    schema
}

/// An event, as it is stored.
fn event() -> Value {
    object(&[
        ("id", json!({"type": "string", "format": "uuid"})),
        ("seq", count()),
        ("ts", count()),
        ("topic", text()),
        ("key?", text()),
        ("sid?", text()),
        ("headers?", json!({"type": "object", "additionalProperties": text()})),
        ("payload", json!({})),
        ("caused_by?", array(json!({"type": "string", "format": "uuid"}))),
        ("tags?", array(text())),
    ])
}
