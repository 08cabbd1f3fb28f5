//! `GET /event`: one event, and what became of it.

use super::auth::Caller;
use super::cursors::{elsewhere, exists};
use super::dlq;
use super::error::{Answer, Failure, in_time};
use super::query::Params;
use crate::Hub;
use crate::acl::{Action, Target};
use crate::limits::Work;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use hub_core::outbox::{RowId, RowStatus};
use hub_core::{Bus, DeadLetter, Event, EventInGroup, EventState};
use hub_proto::{Code, Error, EventId, GroupName, TopicName, header as names};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Groups of a page, unless somebody asks for another number, and at most.
const GROUPS: usize = 100;
const MOST_GROUPS: usize = 1000;
/// How long the database of an outbox has to answer.
const OUTBOX_TIMEOUT: Duration = Duration::from_secs(2);
/// Rounds of replaying that are shown of a letter.
const ROUNDS: u32 = 10;

/// What is asked for.
enum Which {
    Id(EventId),
    Seq(u64),
}

pub(super) async fn event(State(hub): State<Hub>, mut caller: Caller, RawQuery(query): RawQuery) -> Answer {
    let params = Params::read(query.as_deref(), &["topic", "id", "seq", "after", "limit"])?;
    if params.get("topic").is_none() {
        return Err(Failure::bad_request(
            "parameter topic is missing; GET /event/find?id= finds the topics of an id",
        ));
    }
    let topic = params.topic()?;
    let which = match (params.get("id"), params.number("seq", "a seq of the topic")?) {
        (Some(id), None) => Which::Id(EventId::parse(id)?),
        (None, Some(seq)) => Which::Seq(seq),
        _ => return Err(Failure::bad_request("give either id or seq: which event is meant")),
    };
    let (after, limit) = (params.get("after"), limit(&params)?);
    caller.take_one()?;
    caller.must(Action::Subscribe, Target::Topic(&topic), None)?;
    exists(hub.bus(), &topic)?;
    let found = in_time(find(hub.bus(), &topic, &which)).await?;
    let row = match (&found, &which) {
        // An event that is replayed has the row of the event that was published first.
        (Some((_, Some(event))), _) => row(&hub, &topic, first_of(event)).await,
        (_, Which::Id(id)) => row(&hub, &topic, *id).await,
        _ => None,
    };
    let (seq, event) = match (found, &which) {
        (Some(found), _) => found,
        (None, _) if row.is_some() => {
            return Ok(respond(&mut caller, &topic, None, &json!({"seq": null, "outbox": row})));
        }
        (None, which) => return Err(unknown(&topic, which)),
    };
    let (groups, next) = groups(&hub, &caller, &topic, after, limit).await?;
    caller.owe(Work::groups(groups.len()));
    let places = in_time(hub.bus().event_in_groups(&topic, seq, &groups)).await?;
    let sees_letters = dlq::sees(&caller, &topic);
    let mut shown = Vec::with_capacity(places.len());
    for place in places {
        shown.push(in_time(show(hub.bus(), &topic, place, sees_letters)).await?);
    }
    let mut rest = json!({"seq": seq, "groups": shown});
    match &event {
        Some(event) => {
            rest["committed"] = json!(event.committed());
            for (name, header) in [
                ("replayFor", names::REPLAY_FOR),
                ("replayOf", names::REPLAY_OF),
                ("letter", names::REPLAY_LETTER),
            ] {
                if let Some(value) = event.header(header) {
                    rest[name] = json!(value);
                }
            }
        }
        // Its id is remembered, or its place in the log is.
        None => rest["cleaned"] = json!(true),
    }
    if let Some(row) = row {
        rest["outbox"] = row;
    }
    if let Some(next) = next {
        rest["next"] = json!(next);
    }
    Ok(respond(&mut caller, &topic, event.as_deref(), &rest))
}

fn limit(params: &Params) -> Result<usize, Failure> {
    let allowed = format!("a number from 1 to {MOST_GROUPS}");
    let limit = params.number("limit", &allowed)?.unwrap_or(GROUPS);
    match (1..=MOST_GROUPS).contains(&limit) {
        true => Ok(limit),
        false => Err(Failure::bad_request(format!("limit is {limit}; it must be {allowed}"))),
    }
}

/// The place of an event, and the event unless it was cleaned away.
async fn find(
    bus: &Bus,
    topic: &TopicName,
    which: &Which,
) -> Result<Option<(u64, Option<Arc<Event>>)>, Failure> {
    let seq = match which {
        Which::Id(id) => bus.seq_of(topic, *id).await?,
        Which::Seq(seq) => Some(*seq).filter(|seq| *seq > 0),
    };
    let Some(seq) = seq else { return Ok(None) };
    let event = bus.event_at(topic, seq).await?;
    if event.is_none() && matches!(which, Which::Seq(_)) && seq > bus.bounds(topic).await?.last {
        return Ok(None);
    }
    Ok(Some((seq, event)))
}

fn unknown(topic: &TopicName, which: &Which) -> Failure {
    let error = |text: String| Error::new(Code::UnknownId, text);
    match which {
        Which::Id(id) => {
            error(format!("topic {topic} has no event {id}, or no longer remembers it")).with_id(*id).into()
        }
        Which::Seq(seq) => error(format!("topic {topic} has no event {seq} yet; seqs begin with 1")).into(),
    }
}

fn first_of(event: &Event) -> EventId {
    event.header(names::REPLAY_OF).and_then(|id| EventId::parse(id).ok()).unwrap_or_else(|| event.id())
}

/// The groups that the caller may see, by name; and where the next page begins.
async fn groups(
    hub: &Hub,
    caller: &Caller,
    topic: &TopicName,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<GroupName>, Option<GroupName>), Failure> {
    let mut names = hub.bus().group_names(topic);
    names.extend(elsewhere(hub.bus(), topic).await?.into_keys());
    names.sort_unstable();
    names.dedup();
    names.retain(|name| after.is_none_or(|after| name.as_str() > after) && caller.sees_group(topic, name));
    let next = (names.len() > limit).then(|| names[limit - 1].clone());
    names.truncate(limit);
    Ok((names, next))
}

/// The row that the event comes from, in an outbox that this hub drains.
async fn row(hub: &Hub, topic: &TopicName, id: EventId) -> Option<Value> {
    for (name, outbox) in hub.outboxes().all() {
        let Some(store) = outbox.store else { continue };
        let id = RowId::from(id);
        // A database that is away keeps nobody from the rest.
        let Ok(Ok(Some(row))) = tokio::time::timeout(OUTBOX_TIMEOUT, store.show(&id)).await else { continue };
        if row.topic == topic.as_str() {
            let mut shown = json!({
                "outbox": name, "id": row.id, "status": row.status, "ts": row.ts, "attempts": row.attempts,
            });
            if row.status != RowStatus::Sent
                && let Some(error) = row.error
            {
                shown["error"] = json!(error);
            }
            return Some(shown);
        }
    }
    None
}

/// One group, with the letter and its replays.
async fn show(
    bus: &Bus,
    topic: &TopicName,
    place: EventInGroup,
    sees_letters: bool,
) -> Result<Value, Failure> {
    let EventInGroup { group, state, attempts, failures, is_filtered, is_saved, letter, .. } = place;
    let word = match state {
        EventState::Settled if letter.is_some() => "dead_lettered",
        EventState::Settled if is_filtered => "filtered",
        EventState::Settled => "settled",
        EventState::Leased { .. } => "leased",
        EventState::Backoff { .. } | EventState::BehindKey => "parked",
        EventState::Dying => "dead_lettering",
        _ => "pending",
    };
    let mut shown = json!({"group": &group, "state": word});
    match state {
        EventState::Leased { member, left, in_hand } => {
            shown["member"] = json!(member);
            shown["leftMs"] = json!(left);
            shown["inHand"] = json!(in_hand);
        }
        EventState::Backoff { left } => shown["leftMs"] = json!(left),
        EventState::BehindKey => shown["behindKey"] = json!(true),
        _ => {}
    }
    // What holds the group up holds up the event.
    if word == "pending"
        && let Some(reason) = bus.group(topic, &group).and_then(|status| status.reason)
    {
        shown["reason"] = json!(reason.as_str());
    }
    if attempts > 0 {
        shown["attempts"] = json!(attempts);
        shown["failures"] = json!(failures);
    }
    if is_saved {
        shown["saved"] = json!(true);
    }
    if let Some(letter) = letter.filter(|_| sees_letters) {
        shown["letter"] = of_letter(bus, topic, &letter).await?;
    }
    Ok(shown)
}

async fn of_letter(bus: &Bus, topic: &TopicName, letter: &DeadLetter) -> Result<Value, Failure> {
    let mut replays = Vec::new();
    for round in letter.replays().saturating_sub(ROUNDS - 1).max(1)..=letter.replays() {
        let id = letter.replay_id(round);
        if let Some(seq) = bus.seq_of(topic, id).await? {
            replays.push(json!({"round": round, "id": id, "seq": seq}));
        }
    }
    let mut shown = json!({
        "id": letter.id(), "seq": letter.seq(), "ts": letter.buried(), "err": letter.err(),
        "attempts": letter.attempts(), "replays": replays,
    });
    if let Some(discarded) = letter.discarded() {
        shown["discarded"] = json!(discarded);
    }
    Ok(shown)
}

/// The record is copied as it is stored: no number in it is rounded.
fn respond(
    caller: &mut Caller,
    topic: &TopicName,
    event: Option<&Event>,
    rest: &Value,
) -> axum::response::Response {
    let rest = rest.to_string();
    let record = event.map_or(&b"null"[..], |event| event.json());
    let mut text = Vec::with_capacity(record.len() + rest.len() + 256);
    text.extend_from_slice(b"{\"topic\":");
    hub_proto::json::write_str(&mut text, topic);
    text.extend_from_slice(b",\"event\":");
    text.extend_from_slice(record);
    text.push(b',');
    // Behind its opening brace.
    text.extend_from_slice(&rest.as_bytes()[1..]);
    caller.send_bytes(topic, text.len());
    caller.owe(Work::bytes(text.len()));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
