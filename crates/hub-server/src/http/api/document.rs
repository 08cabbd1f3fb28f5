//! `GET /openapi.json`: the endpoints as an OpenAPI 3.1 document.

use super::components::COMPONENTS;
use super::refusals;
use super::schema::{group, id, integer, key, new_topic, one_of, text, text_of, topic, topic_or_pattern};
use super::{Content, Endpoint, Kind, Needs, Param};
use serde_json::{Map, Value, json};

/// Refusals that every request may get, every request whose parameters are read, every one with a token, and every one with a body.
const OF_ALL: &[u16] = &[431, 503];
const OF_PARAMS: &[u16] = &[400];
const OF_TOKENS: &[u16] = &[401, 403, 429];
const OF_BODIES: &[u16] = &[408, 413];

/// The document.
pub(super) fn openapi(endpoints: &[&Endpoint]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str()] = operation(endpoint);
    }
    let scheme = json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"});
    let schemas: Map<String, Value> =
        COMPONENTS.iter().map(|(name, schema)| ((*name).to_owned(), schema())).collect();
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
            "schemas": schemas,
            "responses": refusals::responses(),
        },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let Endpoint { name, summary, needs, body, answer, .. } = endpoint;
    let mut operation = json!({"operationId": name, "summary": summary, "description": description(*needs)});
    match needs {
        Needs::Nothing | Needs::TokenOnSocket => operation["security"] = json!([]),
        Needs::TokenBeyondLoopback => operation["security"] = json!([{"token": []}, {}]),
        Needs::Token | Needs::Right(_) => {}
    }
    let params = endpoint.params.iter().map(|param| parameter(param, place(param, endpoint.path)));
    let headers = endpoint.headers.iter().map(|param| parameter(param, "header"));
    let params: Vec<Value> = params.chain(headers).collect();
    if !params.is_empty() {
        operation["parameters"] = params.into();
    }
    if let Some(body) = body {
        operation["requestBody"] = json!({"required": body.is_required, "content": content(body.content)});
    }
    let mut answers = Map::new();
    if !answer.content.is_empty() {
        let good = json!({"description": "Done.", "content": content(answer.content)});
        answers.insert("200".to_owned(), good);
    }
    for (status, about, kinds) in answer.others {
        let mut other = json!({"description": about});
        if !kinds.is_empty() {
            other["content"] = content(kinds);
        }
        answers.insert(status.to_string(), other);
    }
    for status in refused_with(endpoint) {
        answers.entry(status.to_string()).or_insert_with(|| refusals::reference(status));
    }
    operation["responses"] = answers.into();
    operation
}

/// The statuses of the refusals that an endpoint can give.
fn refused_with(endpoint: &Endpoint) -> Vec<u16> {
    let of_needs = match endpoint.needs {
        Needs::Nothing => OF_PARAMS.to_vec(),
        Needs::TokenOnSocket => Vec::new(),
        Needs::TokenBeyondLoopback | Needs::Token | Needs::Right(_) => [OF_PARAMS, OF_TOKENS].concat(),
    };
    let of_bodies: &[u16] = if endpoint.body.is_some() { OF_BODIES } else { &[] };
    [&of_needs, OF_ALL, of_bodies, endpoint.refusals].concat()
}

fn description(needs: Needs) -> String {
    match needs {
        Needs::Nothing => "Open to anybody.".into(),
        Needs::TokenOnSocket => "Open to anybody: the token follows in the first message.".into(),
        Needs::TokenBeyondLoopback => {
            "Open on a hub that listens on loopback only; otherwise any token.".into()
        }
        Needs::Token => "Any token; shows what the token may see.".into(),
        Needs::Right(right) => format!("Needs a token with the right `{right}`."),
    }
}

fn content(kinds: &[Content]) -> Value {
    let of = |Content { kind, schema, items, examples }: &Content| {
        let example = |(name, text): &(&str, &str)| {
            let value = serde_json::from_str(text).ok().filter(|_| is_json(kind));
            ((*name).to_owned(), json!({"value": value.unwrap_or_else(|| json!(text))}))
        };
        let mut media = json!({"schema": schema()});
        if let Some(items) = items {
            // OpenAPI 3.2 calls it `itemSchema`; 3.1 has no word for it.
            media["x-itemSchema"] = items();
        }
        if !examples.is_empty() {
            media["examples"] = examples.iter().map(example).collect::<Map<_, _>>().into();
        }
        ((*kind).to_owned(), media)
    };
    kinds.iter().map(of).collect::<Map<_, _>>().into()
}

/// Whether a content type is one of JSON.
fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.ends_with("+json")
}

fn place(param: &Param, path: &str) -> &'static str {
    if path.contains(&format!("{{{}}}", param.name)) { "path" } else { "query" }
}

fn parameter(param: &Param, place: &str) -> Value {
    let mut parameter = json!({
        "name": param.name,
        "in": place,
        "required": param.is_required || place == "path",
        "description": param.about,
        "schema": kind(param.kind),
    });
    if !param.example.is_empty() {
        parameter["example"] = json!(param.example);
    }
    parameter
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::NewTopic => new_topic(),
        Kind::Topic => topic(),
        Kind::TopicOrPattern => topic_or_pattern(),
        Kind::Group => group(),
        Kind::Id => id(),
        // A parameter that is empty is refused.
        Kind::Key => {
            let mut schema = key();
            schema["minLength"] = json!(1);
            schema
        }
        Kind::AnyText => text(),
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::TextUpTo(most) => text_of(1, most),
        Kind::TraceId => json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        Kind::Number(least, most) => integer(least, most),
        Kind::Flag => one_of(&["0", "1"]),
        Kind::OneOf(words) => one_of(words),
    }
}
