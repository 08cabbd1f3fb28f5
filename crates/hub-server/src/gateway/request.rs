//! Reading frames: what a client may ask for.
//!
//! A frame is read once. Every field stays text until its operation is known, so a field that does not fit is named, and
//! fields that an operation does not have are passed over, whatever is in them.

mod peer;

pub(crate) use peer::{BROUGHT, Brought, PeerRequest};

use crate::auth::Secret;
use bytes::Bytes;
use hub_core::{Filter, GroupRequest, Ordering, Position};
use hub_proto::{Code, Error, EventId, NewEvent, Result, limits, shown};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use uuid::Uuid;

/// The longest `corr`, as JSON.
const CORR_BYTES: usize = 1024;
/// The most ids in one frame.
const IDS: usize = 10_000;

/// What comes back on the answer: the text of a JSON string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Corr(pub Option<Bytes>);

/// A subscription, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub topic: String,
    pub group: Option<String>,
}

/// One id or several.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    One(EventId),
    Several(Vec<EventId>),
}

/// What a client asks for.
#[derive(Debug)]
pub(crate) enum Request {
    Auth {
        token: Option<Secret>,
    },
    Publish(Box<NewEvent>),
    PublishAll(Vec<Result<NewEvent>>),
    /// Each only if all before it are stored.
    PublishInOrder(Vec<Result<NewEvent>>),
    Subscribe(Name, Box<Options>),
    Unsubscribe(Name),
    Ack {
        of: Name,
        ids: Ids,
        attempt: Option<u32>,
    },
    Nack {
        of: Name,
        id: EventId,
        attempt: Option<u32>,
        reason: String,
        delay_ms: Option<u64>,
    },
    Modack {
        of: Name,
        ids: Ids,
        attempt: Option<u32>,
        extend_ms: u64,
    },
    /// Gives leases back without a failure.
    Return {
        of: Name,
        ids: Vec<EventId>,
        attempt: Option<u32>,
        delay_ms: u64,
    },
    Pause(Name),
    Resume(Name),
    Ping,
    /// Only from another hub.
    Peer(PeerRequest),
}

impl Request {
    pub fn is_publish(&self) -> bool {
        matches!(self, Self::Publish(_) | Self::PublishAll(_) | Self::PublishInOrder(_))
    }

    /// Whether it settles or extends what was delivered.
    pub fn settles(&self) -> bool {
        matches!(self, Self::Ack { .. } | Self::Nack { .. } | Self::Modack { .. } | Self::Return { .. })
    }

    /// Whether no rate applies to it; the bytes of its frame count all the same.
    pub fn is_free(&self) -> bool {
        self.settles() || matches!(self, Self::Ping)
    }
}

/// The options of a SUBSCRIBE.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub topics: Option<Vec<String>>,
    pub from: Position,
    pub group: GroupRequest,
    /// Options that only a group has were named.
    pub for_group: Option<&'static str>,
    pub batch: bool,
    pub batch_size: Option<usize>,
    pub max_in_flight: Option<usize>,
    pub ack_timeout: Option<u64>,
    /// The member, as its client calls it: it can resume after a lost connection.
    pub member: Option<Uuid>,
    /// What the client still works on, of a member that resumes.
    pub held: Option<Vec<EventId>>,
    /// Only from another hub: its member's luggage.
    pub brought: Option<Brought>,
}

/// Every field of every frame.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    op: Option<&'a RawValue>,
    #[serde(borrow, default)]
    corr: Option<&'a RawValue>,
    #[serde(borrow, default)]
    topic: Option<&'a RawValue>,
    #[serde(borrow, default)]
    group: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    opts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    events: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ordered: Option<&'a RawValue>,
    #[serde(borrow, default)]
    token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attempt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delay_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extend_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    held: Option<&'a RawValue>,
    #[serde(borrow, default)]
    settled: Option<&'a RawValue>,
    #[serde(borrow, default)]
    members: Option<&'a RawValue>,
    #[serde(borrow, default)]
    member: Option<&'a RawValue>,
    #[serde(borrow, default)]
    paused: Option<&'a RawValue>,
    #[serde(borrow, default)]
    for_subject: Option<&'a RawValue>,
    #[serde(borrow, default)]
    own_groups: Option<&'a RawValue>,
    #[serde(borrow, default)]
    client_member: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resumed: Option<&'a RawValue>,
    #[serde(borrow, default)]
    blame: Option<&'a RawValue>,
    #[serde(borrow, default)]
    label: Option<&'a RawValue>,
    #[serde(borrow, default)]
    upto: Option<&'a RawValue>,
}

/// A field that is there, be it null: a payload may be.
fn present<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// What a frame may have in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Events in one PUBLISH.
    pub batch_events: usize,
    /// It comes from another hub.
    pub peer: bool,
}

/// Reads a frame: its `corr` and whether it is a publish, even if the rest cannot be understood.
pub(crate) fn read(frame: &Bytes, allowed: Allowed) -> (Corr, bool, Result<Request>) {
    let fields = match fields(frame) {
        Ok(fields) => fields,
        Err(error) => return (Corr::default(), false, Err(error)),
    };
    let is_publish = fields.op.is_some_and(|op| op.get() == "\"PUBLISH\"");
    let corr = match fields.corr {
        None => Corr::default(),
        Some(raw) if raw.get().starts_with('"') && raw.get().len() <= CORR_BYTES => {
            Corr(Some(part(frame, raw)))
        }
        Some(raw) => {
            let wrong = wrong("corr", raw, "a string of at most 1 KiB");
            return (Corr::default(), is_publish, Err(wrong));
        }
    };
    (corr, is_publish, request(frame, &fields, allowed))
}

fn fields(frame: &Bytes) -> Result<Fields<'_>> {
    // serde would take an array for an object.
    let is_object = frame.trim_ascii_start().first() == Some(&b'{');
    match serde_json::from_slice::<Fields<'_>>(frame) {
        Ok(fields) if is_object => Ok(fields),
        Err(error) if !error.is_data() => Err(Error::bad_json(format!("the frame is not JSON: {error}"))),
        Err(error) if is_object => Err(Error::bad_request(format!("the frame: {error}"))),
        Ok(_) | Err(_) => Err(Error::bad_request("a frame is one JSON object with an op")),
    }
}

const OPS: &str = "AUTH, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK, MODACK, RETURN, PAUSE, RESUME, PING";

fn request(frame: &Bytes, fields: &Fields<'_>, allowed: Allowed) -> Result<Request> {
    let op = text("op", required("op", fields.op)?)?;
    Ok(match &*op {
        "PUBLISH" => match fields.events {
            None => Request::Publish(Box::new(event(frame, fields)?)),
            Some(events) => {
                let in_order = option("ordered", fields.ordered, "true or false")?.unwrap_or(false);
                let events = batch(frame, events, allowed.batch_events)?;
                if in_order { Request::PublishInOrder(events) } else { Request::PublishAll(events) }
            }
        },
        "ACK" => Request::Ack { of: of_group(fields)?, ids: ids(fields)?, attempt: attempt(fields)? },
        "NACK" => Request::Nack {
            of: of_group(fields)?,
            id: id("id", required("id", fields.id)?)?,
            attempt: attempt(fields)?,
            reason: fields
                .reason
                .map(|raw| text("reason", raw))
                .transpose()?
                .map(Cow::into_owned)
                .unwrap_or_default(),
            delay_ms: fields.delay_ms.map(|raw| number("delay_ms", raw)).transpose()?,
        },
        "MODACK" => Request::Modack {
            of: of_group(fields)?,
            ids: ids(fields)?,
            attempt: attempt(fields)?,
            extend_ms: number("extend_ms", required("extend_ms", fields.extend_ms)?)?,
        },
        // Without a delay, hubs say something else by it: see `peer`.
        "RETURN" if !allowed.peer || fields.delay_ms.is_some() => Request::Return {
            of: of_group(fields)?,
            ids: match ids(fields)? {
                Ids::One(id) => vec![id],
                Ids::Several(ids) => ids,
            },
            attempt: attempt(fields)?,
            delay_ms: fields.delay_ms.map_or(Ok(0), |raw| number("delay_ms", raw))?,
        },
        "PING" => Request::Ping,
        "SUBSCRIBE" => {
            let mut options = fields.opts.map(options).transpose()?.unwrap_or_default();
            match allowed.peer {
                true => options.brought = peer::brought(fields)?,
                false => peer::refuse_brought(fields)?,
            }
            Request::Subscribe(name(fields)?, Box::new(options))
        }
        "UNSUBSCRIBE" => Request::Unsubscribe(name(fields)?),
        "PAUSE" => Request::Pause(name(fields)?),
        "RESUME" => Request::Resume(name(fields)?),
        "AUTH" => {
            Request::Auth { token: fields.token.map(|raw| text("token", raw)).transpose()?.map(Secret::new) }
        }
        op => {
            if allowed.peer
                && let Some(request) = peer::operation(op, fields)?
            {
                return Ok(Request::Peer(request));
            }
            let msg = format!("op {} is unknown; there are {OPS}", shown(op));
            return Err(Error::new(Code::UnknownOp, msg));
        }
    })
}

fn event(frame: &Bytes, fields: &Fields<'_>) -> Result<NewEvent> {
    let topic = text("topic", required("topic", fields.topic)?)?;
    let payload = required("payload", fields.payload)?;
    let own = part(frame, payload);
    if own.as_ptr() == payload.get().as_ptr() {
        return NewEvent::from_fields(frame, &topic, payload, fields.opts);
    }
    let payload =
        serde_json::from_slice(&own).map_err(|err| Error::bad_request(format!("payload: {err}")))?;
    NewEvent::from_fields(&own, &topic, payload, fields.opts)
}

/// Frames up to here are kept for as long as any part of them is.
const KEPT_BYTES: usize = 16 << 10;

/// A part of a frame.
fn part(frame: &Bytes, raw: &RawValue) -> Bytes {
    let text = raw.get().as_bytes();
    if is_shared(frame, text.len()) { frame.slice_ref(text) } else { Bytes::copy_from_slice(text) }
}

/// Whether so many bytes of a frame share its memory. Not if that is large and mostly something else: what waits for its
/// commit is bounded by what it is, not by what came around it.
fn is_shared(frame: &Bytes, bytes: usize) -> bool {
    frame.len() <= KEPT_BYTES || frame.len() <= 2 * bytes
}

/// The events of a batch. One that is bad has its error in its place.
fn batch(frame: &Bytes, raw: &RawValue, max: usize) -> Result<Vec<Result<NewEvent>>> {
    let events = several(raw, max).map_err(|found| list("events", raw, found, "events", max))?;
    let shared = is_shared(frame, events.iter().map(|event| event.get().len()).sum());
    let read = |event: &RawValue| match shared {
        true => NewEvent::from_wire_shared(&frame.slice_ref(event.get().as_bytes())),
        false => NewEvent::from_wire_shared(&Bytes::copy_from_slice(event.get().as_bytes())),
    };
    Ok(events.into_iter().map(read).collect())
}

fn name(fields: &Fields<'_>) -> Result<Name> {
    let topic = text("topic", required("topic", fields.topic)?)?.into_owned();
    let group = fields.group.map(|raw| text("group", raw)).transpose()?.map(Cow::into_owned);
    Ok(Name { topic, group })
}

/// The subscription that an ACK is about: there is nothing to ack without a group.
fn of_group(fields: &Fields<'_>) -> Result<Name> {
    required("group", fields.group)?;
    name(fields)
}

fn ids(fields: &Fields<'_>) -> Result<Ids> {
    match (fields.id, fields.ids) {
        (Some(raw), None) => id("id", raw).map(Ids::One),
        (None, Some(raw)) => event_ids("ids", raw).map(Ids::Several),
        (None, None) => Err(Error::bad_request("id is missing; name one id, or several as ids")),
        (Some(_), Some(_)) => Err(Error::bad_request("id and ids are both there; use one of them")),
    }
}

fn event_ids(name: &str, raw: &RawValue) -> Result<Vec<EventId>> {
    let ids = several(raw, IDS).map_err(|found| list(name, raw, found, "ids", IDS))?;
    ids.into_iter().map(|raw| id(name, raw)).collect()
}

fn attempt(fields: &Fields<'_>) -> Result<Option<u32>> {
    let parse =
        |raw: &RawValue| serde_json::from_str(raw.get()).map_err(|_| wrong("attempt", raw, "a whole number"));
    fields.attempt.map(parse).transpose()
}

fn required<'a>(name: &str, field: Option<&'a RawValue>) -> Result<&'a RawValue> {
    field.ok_or_else(|| Error::bad_request(format!("{name} is missing")))
}

fn text<'a>(name: &str, raw: &'a RawValue) -> Result<Cow<'a, str>> {
    let text = raw.get();
    // Most have no escapes, and are taken as they are.
    if let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        && !inner.contains('\\')
    {
        return Ok(Cow::Borrowed(inner));
    }
    let owned = serde_json::from_str::<String>(text);
    owned.map(Cow::Owned).map_err(|_| wrong(name, raw, "a string"))
}

fn number(name: &str, raw: &RawValue) -> Result<u64> {
    serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, "milliseconds, a whole number"))
}

fn id(name: &str, raw: &RawValue) -> Result<EventId> {
    serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, "a UUID"))
}

fn wrong(name: &str, raw: &RawValue, expected: &str) -> Error {
    // What stands where a token should be may be one.
    match name {
        "token" => Error::bad_request(format!("token is not {expected}")),
        _ => Error::bad_request(format!("{name} is {}; it must be {expected}", shown(raw.get()))),
    }
}

fn list(name: &str, raw: &RawValue, found: TooMany, what: &str, max: usize) -> Error {
    match found {
        TooMany::Yes => Error::too_large(format!("{name} has more than {max} {what}; send several frames")),
        TooMany::No => wrong(name, raw, &format!("an array of {what}")),
    }
}

/// Whether a list was too long, or none.
#[derive(Clone, Copy)]
enum TooMany {
    Yes,
    No,
}

/// The parts of an array, at most `max` of them: a frame has room for millions.
fn several(raw: &RawValue, max: usize) -> std::result::Result<Vec<&RawValue>, TooMany> {
    struct Bounded(usize);

    impl<'de> Visitor<'de> for Bounded {
        type Value = Option<Vec<&'de RawValue>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(part) = list.next_element()? {
                if found.len() == self.0 {
                    while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                    return Ok(None);
                }
                found.push(part);
            }
            Ok(Some(found))
        }
    }

    match serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Bounded(max)) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(TooMany::Yes),
        Err(_) => Err(TooMany::No),
    }
}

/// The options of a SUBSCRIBE, as they are written. Every one may be null.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(borrow, default)]
    from: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    after_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    after_seq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    topics: Option<&'a RawValue>,
    #[serde(borrow, default)]
    filter: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ordering: Option<&'a RawValue>,
    #[serde(borrow, default)]
    coalesce: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_attempts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    batch: Option<&'a RawValue>,
    #[serde(borrow, default)]
    batch_size: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_in_flight: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ack_timeout_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    member: Option<&'a RawValue>,
    #[serde(borrow, default)]
    held: Option<&'a RawValue>,
}

fn options(raw: &RawValue) -> Result<Options> {
    let is_object = raw.get().starts_with('{');
    let written = serde_json::from_str::<Written<'_>>(raw.get()).ok().filter(|_| is_object);
    let written = written.ok_or_else(|| wrong("opts", raw, "an object in which no name is there twice"))?;
    let named = [
        ("ordering", written.ordering),
        ("maxAttempts", written.max_attempts),
        ("member", written.member),
        ("held", written.held),
    ];
    let for_group = named.iter().find(|(_, field)| field.is_some()).map(|(name, _)| *name);
    let held = written.held.map(|raw| event_ids("held", raw)).transpose()?;
    if held.is_some() && written.member.is_none() {
        return Err(Error::bad_request(
            "held is there without member; name the member that holds these events",
        ));
    }
    let topics = match written.topics {
        None => None,
        Some(raw) => {
            // The bus has the same limit; this one keeps a frame from becoming a list of a million.
            let topics = several(raw, 1000).map_err(|found| list("topics", raw, found, "topics", 1000))?;
            Some(
                topics
                    .into_iter()
                    .map(|raw| text("topics", raw).map(Cow::into_owned))
                    .collect::<Result<_>>()?,
            )
        }
    };
    Ok(Options {
        topics,
        from: position(&written)?,
        group: GroupRequest {
            filter: written.filter.map(filter).transpose()?,
            ordering: option::<Ordering>("ordering", written.ordering, "\"none\" or \"key\"")?,
            coalesce: option("coalesce", written.coalesce, "true or false")?,
            max_attempts: option("maxAttempts", written.max_attempts, "a whole number from 1 on")?,
        },
        for_group,
        batch: option("batch", written.batch, "true or false")?.unwrap_or_default(),
        batch_size: option("batchSize", written.batch_size, "a whole number from 1 on")?,
        max_in_flight: option("maxInFlight", written.max_in_flight, "a whole number from 1 on")?,
        ack_timeout: option("ackTimeoutMs", written.ack_timeout_ms, "milliseconds, a whole number")?,
        member: option("member", written.member, "a UUID")?,
        held,
        brought: None,
    })
}

fn option<'a, T: Deserialize<'a>>(
    name: &str,
    raw: Option<&'a RawValue>,
    expected: &str,
) -> Result<Option<T>> {
    raw.map(|raw| serde_json::from_str(raw.get()).map_err(|_| wrong(name, raw, expected))).transpose()
}

const FROM: &str =
    "\"latest\", \"earliest\", \"ts\" (with ts), \"afterId\" (with afterId) or \"afterSeq\" (with afterSeq)";

fn position(written: &Written<'_>) -> Result<Position> {
    let Some(raw) = written.from else { return Ok(Position::Latest) };
    let with = |name: &'static str, field: Option<&'_ RawValue>| match field {
        Some(_) => Ok(()),
        None => Err(Error::bad_request(format!("from is \"{name}\", but {name} is missing"))),
    };
    match &*text("from", raw).map_err(|_| wrong("from", raw, FROM))? {
        "latest" => Ok(Position::Latest),
        "earliest" => Ok(Position::Earliest),
        "ts" => {
            with("ts", written.ts)?;
            let expected = "milliseconds since 1970, a whole number";
            Ok(Position::Time(option("ts", written.ts, expected)?.unwrap_or_default()))
        }
        "afterId" => {
            with("afterId", written.after_id)?;
            Ok(option("afterId", written.after_id, "a UUID")?.map_or(Position::Latest, Position::AfterId))
        }
        "afterSeq" => {
            with("afterSeq", written.after_seq)?;
            Ok(Position::AfterSeq(
                option("afterSeq", written.after_seq, "a whole number")?.unwrap_or_default(),
            ))
        }
        _ => Err(wrong("from", raw, FROM)),
    }
}

/// Reads a filter: what is misspelt would let everything pass, so unknown names are refused.
pub(crate) fn filter(raw: &RawValue) -> Result<Filter> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow, flatten)]
        rest: std::collections::BTreeMap<Cow<'a, str>, serde_json::Value>,
    }
    let is_object = raw.get().starts_with('{');
    if raw.get().len() > 4 * limits::HEADERS_BYTES {
        return Err(Error::bad_request("filter is too long; it has the limits of what it filters"));
    }
    match serde_json::from_str::<Filter>(raw.get()) {
        Ok(filter) if is_object => Ok(filter),
        Ok(_) => Err(wrong("filter", raw, "an object {tags?, key?, headers?}")),
        Err(_) => {
            let parts =
                serde_json::from_str::<Parts<'_>>(raw.get()).map(|parts| parts.rest).unwrap_or_default();
            let known = ["tags", "key", "headers"];
            Err(match parts.keys().find(|name| !known.contains(&&***name)) {
                Some(name) => {
                    Error::bad_request(format!("filter has no {}; it has tags, key, headers", shown(name)))
                }
                None => wrong(
                    "filter",
                    raw,
                    "{tags?: [string], key?: string, headers?: {string: string}}, each name there once",
                ),
            })
        }
    }
}

#[cfg(test)]
mod tests;
