//! `GET /latest-by-key`: the newest record of a key, or of all keys in pages.

use super::auth::Caller;
use super::cursors::exists;
use super::error::{Answer, Failure, in_time};
use super::etag::is_listed;
use super::events_page::{self, Block, Next, Source, Then};
use super::page::Page;
use super::query::Params;
use super::record::{RecordFormat, put_record};
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use hub_core::store::ReadLimit;
use hub_proto::{TopicName, limits};

/// How much is read at a time. Finding the place in the index costs more than reading on, so blocks are large.
const BLOCK: ReadLimit = ReadLimit { events: 1000, bytes: 1 << 20 };
/// The answer may be kept by the client alone, and has to be asked about each time: the hub checks the rights each time.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

pub(super) async fn latest_by_key(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "key", "after", "limit"])?;
    let (topic, page) = (params.topic()?, Page::of(&params)?);
    let key = params.get("key").map(checked).transpose()?;
    let after = params.get("after").map(checked).transpose()?;
    if key.is_some() && (after.is_some() || params.get("limit").is_some()) {
        return Err(Failure::bad_request("after and limit are for pages of all keys; leave key or them out"));
    }
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    match key {
        Some(key) => one(&hub, &mut caller, &topic, key, &headers).await,
        None => {
            let source = Latest { topic: topic.clone(), after: after.map(str::to_owned) };
            events_page::answer(hub, caller, topic, source, (page.limit(), RecordFormat::Native)).await
        }
    }
}

fn checked(key: &str) -> Result<&str, Failure> {
    let (bytes, most) = (key.len(), limits::KEY_BYTES);
    match bytes <= most {
        true => Ok(key),
        false => Err(Failure::bad_request(format!("the key has {bytes} bytes; at most {most} are allowed"))),
    }
}

/// The newest record of a key; `null` if there is none, or it is a tombstone.
async fn one(hub: &Hub, caller: &mut Caller, topic: &TopicName, key: &str, headers: &HeaderMap) -> Answer {
    let newest = in_time(hub.bus().latest_by_key(topic, &[key])).await?.into_iter().next().flatten();
    // Weak: the bytes may be compressed. Without a record it is 0, which is no seq.
    let tag = format!("W/\"{}\"", newest.as_ref().map_or(0, |event| event.seq()));
    let tag = HeaderValue::try_from(tag).map_err(|_| Failure::bad_request("the seq is no header's value"))?;
    let is_known = is_listed(headers, &tag);
    let kept: [(HeaderName, HeaderValue); 3] = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::VARY, HeaderValue::from_static("authorization")),
    ];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let mut text = Vec::new();
    match &newest {
        Some(event) => put_record(event, RecordFormat::Native, &mut text),
        None => text.extend_from_slice(b"null"),
    }
    caller.owe(Work::bytes(text.len()));
    caller.send_bytes(topic, text.len());
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((kept, kind, text).into_response())
}

/// The newest records of a topic, in the order of their keys.
struct Latest {
    topic: TopicName,
    after: Option<String>,
}

impl Source for Latest {
    async fn next_block(&mut self, hub: &Hub, caller: &mut Caller, room: usize) -> Result<Block, Failure> {
        let limit = ReadLimit { events: BLOCK.events.min(room), ..BLOCK };
        let events = hub.bus().latest_block(&self.topic, self.after.as_deref(), limit).await?;
        caller.owe(Work::bytes(events.iter().map(|event| event.json().len()).sum()));
        let Some(key) = events.last().and_then(|event| event.key()) else {
            return Ok(Block { events, then: Then::End });
        };
        self.after = Some(key.to_string());
        Ok(Block { events, then: Then::More })
    }

    async fn next_page(&mut self, hub: &Hub) -> Result<Option<Next>, Failure> {
        let one = ReadLimit { events: 1, bytes: 1 };
        let rest = hub.bus().latest_block(&self.topic, self.after.as_deref(), one).await?;
        // A parameter cannot be empty. No key has a NUL alone, and none is between the empty one and that.
        let key = self.after.take().map(|key| if key.is_empty() { "\0".to_owned() } else { key });
        Ok(key.filter(|_| !rest.is_empty()).map(Next::AfterKey))
    }
}
