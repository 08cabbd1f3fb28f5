//! `POST /revoke`: takes tokens back.

use super::audit::About;
use super::auth::Caller;
use super::body;
use super::error::{Answer, Failure, in_time};
use super::query::Params;
use crate::Hub;
use crate::acl::Target;
use crate::auth::Revoked;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_proto::Pattern;
use serde::Deserialize;
use serde_json::json;

/// The longest `sub` or `jti`.
const MAX_BYTES: usize = 256;

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    sub: Option<String>,
    jti: Option<String>,
}

impl Asked {
    /// Whose tokens, for the audit log.
    fn target(&self) -> String {
        let (sub, jti) = (self.sub.iter().map(|sub| format!("sub:{sub}")), self.jti.iter());
        sub.chain(jti.map(|jti| format!("jti:{jti}"))).collect::<Vec<_>>().join(" ")
    }
}

pub(super) async fn revoke(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let asked: Asked = body::object(&body, "{sub?, jti?}")?;
    let target = asked.target();
    let about = About { target: Some(&target), ..About::default() };
    caller.administrate(Target::Pattern(&Pattern::parse("**")?), about)?;
    let named = [asked.sub.map(Revoked::Subject), asked.jti.map(Revoked::Token)];
    let named: Vec<Revoked> = named.into_iter().flatten().collect();
    let is_bad = |what: &Revoked| {
        let (Revoked::Subject(text) | Revoked::Token(text)) = what;
        text.is_empty() || text.len() > MAX_BYTES
    };
    if named.is_empty() || named.iter().any(is_bad) {
        let text = format!("name a sub, a jti or both, each of 1 to {MAX_BYTES} bytes");
        return Err(Failure::bad_request(text));
    }
    let revoked = named.len();
    for what in named {
        in_time(hub.revoke(what)).await?;
    }
    Ok(Json(json!({ "revoked": revoked, "remembered": hub.revocations() })).into_response())
}
