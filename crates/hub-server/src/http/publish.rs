//! `POST /publish/{topic}`: the body is the payload, a CloudEvent, or a batch of them.

use super::audit::About;
use super::auth::Caller;
use super::error::{Answer, Failure};
use super::query::Params;
use super::{body, headers};
use crate::Hub;
use crate::acl::{Action, Target};
use crate::cloudevents::{self, BinaryAttributes, Mode};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State, rejection::PathRejection};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use bytes::Bytes;
use hub_core::{Added, Receipt};
use hub_proto::{Code, Error, EventId, NewEvent, Payload, PublishOptions, Result, TopicName};
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
    let mode = Mode::of(&headers)?;
    if mode.is_some() && (id.is_some() || key.is_some()) {
        return Err(Failure::bad_request(
            "a CloudEvent brings its id, and its subject is the key; leave the parameters out",
        ));
    }
    let binary = match mode {
        Some(Mode::Binary) => Some(BinaryAttributes::read(&headers)?),
        _ => None,
    };
    caller.must(Action::Publish, Target::Topic(&topic), None)?;
    // Before the body is read: what is refused should cost little.
    caller.check_bytes(&topic)?;
    caller.take_events(&topic, 1)?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    caller.owe_body(&topic, body.len());
    let options = PublishOptions { id, key, headers: headers::of_request(&headers)?, ..Default::default() };
    let event = match (mode, binary) {
        (Some(Mode::Batch), _) => return publish_batch(&hub, &mut caller, &topic, &body, &options).await,
        (Some(Mode::Structured), _) => cloudevents::read(topic, &body, options)?,
        (_, Some(attributes)) => attributes.with_body(topic, body, options)?,
        (_, None) => NewEvent { topic, payload: Payload::from_json(body)?, options },
    };
    let topic = event.topic.clone();
    let receipt = hub.bus().send_for(caller.subject(), event).await.map_err(|error| {
        caller.refused("publish", About { topic: Some(&topic), ..About::default() }, error)
    })?;
    Ok(Json(Published::from(receipt)).into_response())
}

/// What became of one event of a batch.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Published(Published),
    Refused {
        code: &'static str,
        error: String,
        /// After `unavailable`, sending this id again is safe.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<EventId>,
    },
}

impl From<Result<Receipt>> for Outcome {
    fn from(result: Result<Receipt>) -> Self {
        match result {
            Ok(receipt) => Self::Published(receipt.into()),
            Err(Error { code, msg, id, .. }) => {
                Self::Refused { code: code.as_str(), error: msg.into_owned(), id }
            }
        }
    }
}

/// The answer to a batch: a result for each of its events, in their order.
#[derive(Serialize)]
struct Results {
    results: Vec<Outcome>,
}

async fn publish_batch(
    hub: &Hub,
    caller: &mut Caller,
    topic: &TopicName,
    body: &Bytes,
    options: &PublishOptions,
) -> Answer {
    let events = cloudevents::read_batch(topic, body, options, hub.settings().limits.batch_events)?;
    // The first is paid for. A batch that does not fit is refused whole.
    caller.take_events(topic, events.len().saturating_sub(1))?;
    let mut burst = hub.bus().burst();
    burst.set_subject(caller.subject());
    let (checked, added) = burst.add_all(events);
    let sent = match added {
        Added::Taken => burst.send(),
        Added::Crowded(room) => Some(room.await),
    };
    let receipts = match sent {
        Some(sent) => sent.await,
        None => Vec::new(),
    };
    let results = checked.merge(receipts);
    // All are about the same topic: one line in the audit log says it for all.
    let is_audited = |error: &&Error| matches!(error.code, Code::Forbidden | Code::QuotaExceeded);
    if let Some(error) = results.iter().filter_map(|result| result.as_ref().err()).find(is_audited) {
        let about = About { topic: Some(topic), ..About::default() };
        caller.refused("publish", about, error.clone());
    }
    let results = results.into_iter().map(Outcome::from).collect();
    Ok(Json(Results { results }).into_response())
}
