//! Refusals: a status, when it comes, and which codes it has. Every operation names those that it can give.

use super::schema::named;
use serde_json::{Map, Value, json};

/// One status.
struct Refusal {
    status: u16,
    /// The name of the response among the document's components.
    name: &'static str,
    /// When it comes.
    about: &'static str,
    /// Empty if it has no body.
    codes: &'static [&'static str],
    /// The text of the example.
    error: &'static str,
    /// A header that comes with it, with what it says.
    header: Option<(&'static str, &'static str)>,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        status: 400,
        name: "BadRequest",
        about: "The request is wrong; the text names what, and what is allowed. Also for an unknown group or id.",
        codes: &["bad_request", "bad_json", "unknown_id"],
        error: "parameter topic is missing",
        header: None,
    },
    Refusal {
        status: 401,
        name: "Unauthorized",
        about: "No token, or one that is not valid.",
        codes: &["no_token", "jwt_invalid", "token_expired", "token_revoked", "unauthorized"],
        error: "no token: send one, see `event-hub token`",
        header: Some(("WWW-Authenticate", "`Bearer`.")),
    },
    Refusal {
        status: 403,
        name: "Forbidden",
        about: "The token does not allow this, or a quota is used up.",
        codes: &["forbidden", "quota_exceeded"],
        error: "the token does not allow publish on topic \"orders.created\"",
        header: None,
    },
    Refusal {
        status: 404,
        name: "NotFound",
        about: "There is no such thing.",
        codes: &["not_found"],
        error: "topic orders.cancelled does not exist",
        header: None,
    },
    Refusal {
        status: 408,
        name: "Timeout",
        about: "The body was not complete in time.",
        codes: &["timeout"],
        error: "the body was not complete after 30000 ms; send it faster",
        header: None,
    },
    Refusal {
        status: 409,
        name: "Conflict",
        about: "The topic has this id with another payload or key.",
        codes: &["id_conflict"],
        error: "id 018bcfe5-6800-7000-8000-000000000001 is in topic orders.created with another payload or key",
        header: None,
    },
    Refusal {
        status: 413,
        name: "TooLarge",
        about: "The body or the payload is too large.",
        codes: &["too_large"],
        error: "the body has more than 4194304 bytes, which is the limit",
        header: None,
    },
    Refusal {
        status: 422,
        name: "SchemaViolation",
        about: "The payload does not match a schema of its topic; the text names the path and the rule.",
        codes: &["schema_violation"],
        error: "/price: 12.5 is not of type \"integer\" (schema of orders.created)",
        header: None,
    },
    Refusal {
        status: 426,
        name: "UpgradeRequired",
        about: "The path is for WebSockets.",
        codes: &["upgrade_required"],
        error: "this path is the hub's WebSocket; ask for an upgrade to \"websocket\", version 13",
        header: Some(("Upgrade", "`websocket`.")),
    },
    Refusal {
        status: 429,
        name: "RateLimited",
        about: "Too many requests, or too many bytes.",
        codes: &["rate_limited"],
        error: "the subject has used up its 1000 events per second; try again later",
        header: Some(("Retry-After", "Seconds to wait.")),
    },
    // It comes before the hub reads the request, and has no body.
    Refusal {
        status: 431,
        name: "HeadTooLarge",
        about: "The path with its query, and the headers, are too long.",
        codes: &[],
        error: "",
        header: None,
    },
    Refusal {
        status: 503,
        name: "Unavailable",
        about: "The store does not answer, the hub starts or stops, or it has too many connections. Sending again is safe; \
                for a publish with the `id` of the answer.",
        codes: &["unavailable"],
        error: "the store did not answer within 20 s; try again",
        header: None,
    },
];

/// All of them, as the document's components.
pub(super) fn responses() -> Map<String, Value> {
    REFUSALS.iter().map(|refusal| (refusal.name.to_owned(), response(refusal))).collect()
}

/// The response with a status, by its name. A status that is not among the refusals becomes a reference to nothing, which the tests
/// find.
pub(super) fn reference(status: u16) -> Value {
    let name =
        REFUSALS.iter().find(|refusal| refusal.status == status).map_or("None", |refusal| refusal.name);
    json!({"$ref": format!("#/components/responses/{name}")})
}

fn response(refusal: &Refusal) -> Value {
    let Refusal { about, codes, error, header, .. } = refusal;
    let Some(code) = codes.first() else { return json!({"description": about}) };
    let schema = json!({"allOf": [named("Error"), {"properties": {"code": {"enum": codes}}}]});
    let example = json!({"error": error, "code": code});
    let content =
        json!({"application/json": {"schema": schema, "examples": {"refused": {"value": example}}}});
    let mut response = json!({"description": about, "content": content});
    if let Some((name, says)) = header {
        let header = json!({"description": says, "schema": {"type": "string"}, "required": true});
        response["headers"] = json!({ *name: header });
    }
    response
}
