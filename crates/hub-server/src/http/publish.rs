//! `POST /publish/{topic}`: the body is the payload.

use super::audit::About;
use super::auth::Caller;
use super::error::{Answer, Failure};
use super::query::Params;
use super::{body, cloudevent, headers};
use crate::Hub;
use crate::acl::{Action, Target};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State, rejection::PathRejection};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::Receipt;
use hub_proto::{EventId, NewEvent, Payload, PublishOptions, TopicName};
use serde::Serialize;

/// The answer to a publish.
#[derive(Serialize)]
struct Published {
    id: EventId,
    seq: u64,
    ts: u64,
    durable: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

impl From<Receipt> for Published {
    fn from(receipt: Receipt) -> Self {
        let Receipt { id, seq, ts, durable, duplicate } = receipt;
        Self { id, seq, ts, durable: durable.as_str(), duplicate }
    }
}

pub(super) async fn publish(
    State(hub): State<Hub>,
    mut caller: Caller,
    topic: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let Path(topic) = topic.map_err(|_| Failure::bad_request("the topic in the path is not UTF-8"))?;
    let topic = TopicName::parse(&topic)?;
    let params = Params::read(query.as_deref(), &["key", "id"])?;
    let id = params.get("id").map(EventId::parse).transpose()?;
    let key = params.get("key").map(str::to_owned);
    let is_cloudevent = cloudevent::is_one(&headers)?;
    if is_cloudevent && (id.is_some() || key.is_some()) {
        return Err(Failure::bad_request(
            "a CloudEvent brings its id, and its subject is the key; leave the parameters out",
        ));
    }
    caller.must(Action::Publish, Target::Topic(&topic), None)?;
    // Before the body is read: what is refused should cost little.
    caller.check_bytes(&topic)?;
    caller.take_event(&topic)?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    caller.owe_body(&topic, body.len());
    let options = PublishOptions { id, key, headers: headers::of_request(&headers)?, ..Default::default() };
    let event = match is_cloudevent {
        true => cloudevent::read(topic, &body, options)?,
        false => NewEvent { topic, payload: Payload::from_json(body)?, options },
    };
    let topic = event.topic.clone();
    let receipt = hub.bus().send_for(caller.subject(), event).await.map_err(|error| {
        caller.refused("publish", About { topic: Some(&topic), ..About::default() }, error)
    })?;
    Ok(Json(Published::from(receipt)).into_response())
}
