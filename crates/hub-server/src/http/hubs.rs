//! `GET /hubs`: the hubs on this store that are alive.

use super::audit::About;
use super::auth::Caller;
use super::error::Answer;
use super::query::Params;
use crate::Hub;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use hub_core::store::HubInfo;
use hub_proto::Error;
use serde::Serialize;
use serde_json::json;

/// One of them.
#[derive(Serialize)]
struct Entry {
    id: String,
    address: String,
    version: String,
    started: u64,
    /// It is the one that answers.
    this: bool,
}

pub(super) async fn hubs(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    if !caller.administrates() {
        let error = Error::forbidden("where the hubs are is shown to those who may administrate something");
        return Err(caller.refused("admin", About::default(), error));
    }
    let me = hub.bus().hub().map(|hub| hub.id);
    let entry = |HubInfo { id, address, started, version }: HubInfo| Entry {
        id: id.to_string(),
        address,
        version,
        started,
        this: Some(id) == me,
    };
    let hubs: Vec<Entry> = hub.bus().hubs().into_iter().map(entry).collect();
    Ok(Json(json!({ "hubs": hubs })).into_response())
}
