//! `GET /whoami`: what the hub knows of the token, and of itself.

use super::auth::Caller;
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use crate::acl::{Effect, Rule};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::Millis;
use hub_proto::Pattern;
use serde::Serialize;

#[derive(Serialize)]
struct WhoAmI<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    /// The claim is in seconds; times of this API are in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Millis>,
    /// Those of the hub, then those of the token: the first that matches decides.
    rules: Vec<ShownRule<'a>>,
    /// Whether it may administrate all topics.
    admin: bool,
    /// Whether it may administrate anything.
    administrates: bool,
    hub: About,
    limits: Limits,
}

#[derive(Serialize)]
struct ShownRule<'a> {
    effect: &'static str,
    actions: Vec<&'static str>,
    topics: &'a [Pattern],
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<&'a [String]>,
}

impl<'a> From<&'a Rule> for ShownRule<'a> {
    fn from(rule: &'a Rule) -> Self {
        Self {
            effect: match rule.effect {
                Effect::Allow => "allow",
                Effect::Deny => "deny",
            },
            actions: rule.actions.iter().map(|action| action.as_str()).collect(),
            topics: &rule.topics,
            groups: rule.groups.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct About {
    version: &'static str,
    started: Millis,
    store: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    payload_bytes: usize,
    batch_events: usize,
}

pub(super) async fn whoami(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let who = WhoAmI {
        sub: caller.named_subject(),
        expires: caller.exp().map(|seconds| seconds.saturating_mul(1000)),
        rules: caller.rules().iter().map(ShownRule::from).collect(),
        admin: caller.administrates_everything(),
        administrates: caller.administrates(),
        hub: About {
            version: env!("CARGO_PKG_VERSION"),
            started: hub.started(),
            store: hub.bus().store_name(),
        },
        limits: Limits {
            payload_bytes: hub.bus().config().max_payload,
            batch_events: hub.settings().limits.batch_events,
        },
    };
    Ok(Json(who).into_response())
}
