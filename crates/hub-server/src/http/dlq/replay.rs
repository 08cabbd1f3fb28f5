//! `POST /dlq/replay`: gives letters back to the groups that failed.

use super::super::audit::About;
use super::super::auth::Caller;
use super::super::body;
use super::super::cursors::exists;
use super::super::error::{Answer, Failure, in_time, shown};
use super::super::query::Params;
use super::{job, which};
use crate::Hub;
use crate::acl::Target;
use crate::limits::Work;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use hub_core::{Bus, DeadLetter, LetterFilter, LetterRange, Millis, Replay, Replayed};
use hub_proto::{EventId, Payload, Result, TopicName, limits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

/// The highest round, and the highest rate in events per second.
const MAX_ROUND: u32 = 1000;
const MAX_RATE: u32 = 10_000;
/// Failures that are told in words.
const SHOWN_FAILURES: usize = 10;

/// Which letters are meant.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Which {
    topic: String,
    ids: Option<Vec<String>>,
    group: Option<String>,
    err: Option<String>,
    q: Option<String>,
    key: Option<String>,
    from_ts: Option<Millis>,
    to_ts: Option<Millis>,
    /// Letters behind this seq are not meant.
    pub upto: Option<u64>,
}

impl Which {
    pub fn read(self) -> Result<(TopicName, LetterFilter), Failure> {
        let topic = which::source(&self.topic)?;
        let ids = match &self.ids {
            Some(ids) if ids.is_empty() || ids.len() > limits::BATCH_EVENTS => {
                let most = limits::BATCH_EVENTS;
                return Err(Failure::bad_request(format!(
                    "ids has {} entries; it must have 1 to {most}, or be left out",
                    ids.len()
                )));
            }
            Some(ids) => Some(which::ids(ids.iter().map(String::as_str))?),
            None => None,
        };
        let filter = LetterFilter {
            ids,
            group: which::group(self.group.as_deref())?,
            err: self.err,
            text: self.q,
            key: self.key,
            from: self.from_ts,
            until: self.to_ts,
            replayed: None,
        };
        Ok((topic, which::checked(filter)?))
    }
}

/// What is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(flatten)]
    which: Which,
    rate: Option<u32>,
    round: Option<u32>,
    #[serde(default, deserialize_with = "raw")]
    payload: Option<Box<RawValue>>,
    #[serde(default)]
    dry_run: bool,
    after: Option<String>,
}

const SHAPE: &str =
    "{topic, ids?, group?, err?, q?, key?, fromTs?, toTs?, upto?, rate?, round?, payload?, dryRun?, after?}";

/// `null` is a payload, too.
fn raw<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// An object with members of these names only; a flattened reader cannot refuse others by itself.
pub(super) fn read_known<T: DeserializeOwned>(
    body: &[u8],
    shape: &str,
    known: &[&str],
) -> Result<T, Failure> {
    let members: std::collections::BTreeMap<String, Box<RawValue>> = body::object(body, shape)?;
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::bad_request(format!(
            "the body is not {shape}: unknown field {}",
            shown(unknown)
        )));
    }
    body::object(body, shape)
}

/// Where a request goes on, and where it ends: at the end of the letters when the first one began, so that what fails again
/// meanwhile is not taken again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    after: u64,
    upto: Option<u64>,
}

impl Cut {
    /// `upto` is what a count that was asked for before has answered.
    pub fn read(after: Option<&str>, upto: Option<u64>) -> Result<Self, Failure> {
        let Some(text) = after else { return Ok(Self { after: 0, upto }) };
        let wrong =
            || Failure::bad_request(format!("after is {}; it must be next of a request before", shown(text)));
        let (after, upto) = text.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Ok(Self { after: number(after)?, upto: Some(number(upto)?) })
    }

    pub fn write(after: u64, upto: u64) -> String {
        format!("{after}-{upto}")
    }

    pub async fn range(self, bus: &Bus, topic: &TopicName) -> Result<LetterRange> {
        let letters = topic.dead_letter();
        let upto = match self.upto {
            Some(upto) => upto,
            None if bus.has_topic(&letters) => bus.bounds(&letters).await?.last,
            None => 0,
        };
        Ok(LetterRange { after: self.after, upto })
    }
}

/// What became of letters.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub replayed: u64,
    /// Replayed in this round before.
    pub skipped: u64,
    pub failed: u64,
    /// The first of those that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedLetter>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct FailedLetter {
    id: EventId,
    error: String,
    code: &'static str,
}

impl Outcome {
    pub fn add(&mut self, letters: &[DeadLetter], results: Vec<Result<Replayed>>) {
        for (letter, result) in letters.iter().zip(results) {
            match result {
                Ok(Replayed::Done(_)) => self.replayed += 1,
                Ok(Replayed::Before) => self.skipped += 1,
                Err(error) => {
                    self.failed += 1;
                    if self.failures.len() < SHOWN_FAILURES {
                        let (id, code) = (letter.id(), error.code.as_str());
                        self.failures.push(FailedLetter { id, error: error.msg.into_owned(), code });
                    }
                }
            }
        }
    }
}

pub(in super::super) async fn replay(
    State(hub): State<Hub>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Params::read(query.as_deref(), &[])?;
    caller.take_one()?;
    let body = body::read(&headers, body, &hub.settings().limits).await?;
    let known = [
        "topic", "ids", "group", "err", "q", "key", "fromTs", "toTs", "upto", "rate", "round", "payload",
        "dryRun", "after",
    ];
    let asked: Asked = read_known(&body, SHAPE, &known)?;
    let cut = Cut::read(asked.after.as_deref(), asked.which.upto)?;
    let round = bounded("round", asked.round.unwrap_or(1), MAX_ROUND)?;
    let rate = asked.rate.map(|rate| bounded("rate", rate, MAX_RATE)).transpose()?;
    let payload =
        asked.payload.map(|raw| Payload::from_json(String::from(Box::<str>::from(raw)))).transpose()?;
    let (topic, filter) = asked.which.read()?;
    if payload.is_some() && filter.ids.as_ref().is_none_or(|ids| ids.len() != 1) {
        return Err(Failure::bad_request("an edited payload is for one letter: give its id alone in ids"));
    }
    if rate.is_some() && (payload.is_some() || asked.after.is_some()) {
        return Err(Failure::bad_request("rate makes it a job, which takes neither payload nor after"));
    }
    caller.owe_body(&topic, body.len());
    let about = About { group: filter.group.as_deref(), is_dry_run: asked.dry_run, ..About::default() };
    caller.administrate(Target::Topic(&topic), about)?;
    exists(hub.bus(), &topic)?;
    let range = in_time(cut.range(hub.bus(), &topic)).await?;
    let how = Replay { round, payload };
    match rate {
        _ if asked.dry_run => count(&hub, caller, &topic, &filter, range, round).await,
        Some(rate) => job::start(&hub, caller, topic, filter, range, how, rate).await,
        None => now(&hub, caller, &topic, &filter, range, &how).await,
    }
}

fn bounded(name: &str, value: u32, most: u32) -> Result<u32, Failure> {
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => {
            Err(Failure::bad_request(format!("{name} is {value}; it must be a number from 1 to {most}")))
        }
    }
}

/// Replays what one request may.
async fn now(
    hub: &Hub,
    mut caller: Caller,
    topic: &TopicName,
    filter: &LetterFilter,
    range: LetterRange,
    how: &Replay,
) -> Answer {
    let page = in_time(hub.bus().dead_letters(topic, filter, range, limits::BATCH_EVENTS)).await?;
    if let Some(ids) = filter.ids.as_ref().filter(|_| page.letters.is_empty()) {
        let (error, first) =
            ("none of the ids is a dead letter of this topic that can be replayed", ids.first());
        let error = hub_proto::Error::unknown_id(error);
        return Err(first.map_or(error.clone(), |&id| error.with_id(id)).into());
    }
    let mut outcome = Outcome::default();
    let results = in_time(hub.bus().replay_dead_letters(&page.letters, how)).await?;
    outcome.add(&page.letters, results);
    caller.owe(Work { bytes: page.bytes, ..Work::publishes(outcome.replayed as usize) });
    tracing::info!(%topic, replayed = outcome.replayed, failed = outcome.failed, "dead letters replayed");
    let mut answer = json!(outcome);
    answer["topic"] = json!(topic);
    if let Some(after) = page.next {
        answer["next"] = json!(Cut::write(after, range.upto));
    }
    Ok(Json(answer).into_response())
}

/// What a dry run answers.
async fn count(
    hub: &Hub,
    mut caller: Caller,
    topic: &TopicName,
    filter: &LetterFilter,
    range: LetterRange,
    round: u32,
) -> Answer {
    let counted = in_time(job::count(hub.bus(), topic, filter, range, round)).await?;
    caller.owe(Work::bytes(counted.bytes));
    let mut answer = counted.answer(topic, range);
    answer["skipped"] = json!(counted.skipped);
    Ok(Json(answer).into_response())
}
