//! `GET /dlq` and `GET /dlq/show`.

use super::super::auth::Caller;
use super::super::cursors::exists;
use super::super::error::{Answer, Failure, in_time};
use super::super::query::Params;
use super::which::{self, FILTER, Place, Topics};
use super::write::{self, Content};
use crate::Hub;
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_core::LetterRange;
use hub_proto::{Code, Error, EventId, TopicName, json, limits};

/// Letters of a page, unless somebody asks for another number.
const LETTERS: usize = 100;
/// A page ends at about so many bytes, or behind its first letter.
const PAGE_BYTES: usize = 4 << 20;
/// Letters that one request looks at, and about how many bytes.
const MAX_LOOKED_AT: usize = 10_000;
const MAX_BYTES: usize = 16 << 20;

pub(in super::super) async fn list(
    state: State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
) -> Answer {
    let own = ["topic", "after", "limit", "payload", "summary"];
    let params = Params::read(query.as_deref(), &[&own[..], &FILTER].concat())?;
    if params.flag("summary")? == Some(true) {
        return super::summary::answer(&state, caller, &params).await;
    }
    let State(hub) = state;
    let filter = which::filter(&params)?;
    let limit = limit(&params)?;
    let after = Place::of(&params)?;
    let content = if params.flag("payload")?.unwrap_or(false) { Content::Payload } else { Content::None };
    caller.take_one()?;
    let mut topics = Topics::of(&hub, &caller, &params, after)?;
    let mut text = Vec::from(&b"{\"letters\":["[..]);
    let (mut count, mut looked_at, mut bytes, mut next) = (0, 0, 0, None);
    let is_enough = |looked_at: usize, bytes: usize| looked_at >= MAX_LOOKED_AT || bytes >= MAX_BYTES;
    'page: while let Some((topic, mut after)) = topics.next(&hub, &caller).await {
        let start = text.len();
        loop {
            if count == limit || is_enough(looked_at, bytes) || topics.is_exhausted() {
                next = Some(Place::write(&topic, after));
            } else {
                let range = LetterRange { after, ..LetterRange::default() };
                let page = in_time(hub.bus().dead_letters(&topic, &filter, range, limit - count)).await?;
                looked_at += page.looked_at;
                bytes += page.bytes;
                for letter in &page.letters {
                    if count > 0 && text.len() > PAGE_BYTES {
                        next = Some(Place::write(&topic, after));
                        break;
                    }
                    if count > 0 {
                        text.push(b',');
                    }
                    write::letter(&mut text, letter, content);
                    after = letter.seq();
                    count += 1;
                }
                match page.next {
                    // What was looked at in vain is not looked at again.
                    Some(seq) if next.is_none() => {
                        after = seq;
                        continue;
                    }
                    _ => {}
                }
            }
            caller.send_bytes(&topic.dead_letter(), text.len() - start);
            match next {
                Some(_) => break 'page,
                None => break,
            }
        }
    }
    text.push(b']');
    if let Some(next) = next {
        text.extend_from_slice(b",\"next\":");
        json::write_str(&mut text, &next);
    }
    text.push(b'}');
    caller.owe(Work { bytes, topics: topics.looked_at(), groups: 0 });
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

pub(super) fn limit(params: &Params) -> Result<usize, Failure> {
    let most = limits::BATCH_EVENTS;
    let allowed = format!("a number from 1 to {most}");
    let limit = params.number("limit", &allowed)?.unwrap_or(LETTERS);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}"))),
    }
}

pub(in super::super) async fn show(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "id"])?;
    let topic = which::source(params.required("topic")?)?;
    let id = EventId::parse(params.required("id")?)?;
    caller.take_one()?;
    which::must_see(&caller, &topic)?;
    exists(hub.bus(), &topic)?;
    let letter = in_time(hub.bus().dead_letter(&topic, id)).await?;
    let letter = letter.ok_or_else(|| unknown(&topic, id))?;
    let mut text = Vec::with_capacity(letter.bytes() + 512);
    write::letter(&mut text, &letter, Content::Record);
    caller.send_bytes(&topic.dead_letter(), text.len());
    caller.owe(Work::bytes(text.len()));
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn unknown(topic: &TopicName, id: EventId) -> Failure {
    Error::new(Code::UnknownId, format!("topic {topic} has no dead letter {id}, or it was discarded"))
        .with_id(id)
        .into()
}
