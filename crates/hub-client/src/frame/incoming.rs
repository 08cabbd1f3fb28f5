//! Reading what a hub sends.
//!
//! Most frames are answers and events, and they are laid out in one way: as hub-server's `answer` writes them. Those are
//! found by their ends, and an event's payload is not read. Whatever else is laid out differently goes through serde.

use std::borrow::Cow;

use hub_proto::{Code, EventId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, ErrorKind, Result};

/// A frame.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// `OK`. The rest of it is for whoever asked.
    Ok { corr: Option<u64> },
    /// `ERR`; with a topic and without `corr` it has ended that subscription.
    Err { corr: Option<u64>, error: Error, of: Option<Of<'a>> },
    /// `EVENT` or `EVENTS`.
    Events { of: Of<'a>, events: Vec<Delivery<'a>> },
    /// `LAGGED`: `topic` is the one of which events were missed.
    Lagged { of: Of<'a>, topic: Option<Cow<'a, str>>, missed: u64 },
    /// Something that a later hub says.
    Other,
}

/// Which subscription.
pub(crate) type Of<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

/// An event, as JSON, and its lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delivery<'a> {
    pub event: &'a str,
    pub ctx: Option<Ctx>,
}

/// What a consumer has to know about an event that is leased to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Ctx {
    pub attempt: u32,
    #[serde(default, rename = "maxAttempts")]
    pub max_attempts: u32,
    #[serde(default)]
    pub ack_deadline_ms: u64,
    #[serde(default)]
    pub epoch: u64,
}

/// Every field of every frame.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow, default)]
    corr: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    group: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    event: Option<&'a RawValue>,
    #[serde(borrow, default)]
    events: Option<Vec<Part<'a>>>,
    #[serde(default)]
    ctx: Option<Ctx>,
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    msg: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<EventId>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(borrow, default)]
    of: Option<Cow<'a, str>>,
    #[serde(default)]
    missed: Option<u64>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    event: &'a RawValue,
    #[serde(default)]
    ctx: Option<Ctx>,
}

/// Reads a frame, of any layout.
///
/// # Errors
/// `Protocol` if it is none that a hub sends.
pub(crate) fn read(text: &str) -> Result<Incoming<'_>> {
    if let Some(corr) = fast_ok(text) {
        return Ok(Incoming::Ok { corr: Some(corr) });
    }
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| {
        // Not the error's own words: they can quote the frame.
        let what =
            if error.is_data() { "a frame of another shape than a hub's" } else { "a frame that is no JSON" };
        Error::new(ErrorKind::Protocol, format!("the hub sent {what}, of {} bytes", text.len()))
    })?;
    let corr = fields.corr.as_deref().and_then(|corr| corr.parse().ok());
    let of = fields.topic.map(|topic| (topic, fields.group));
    let missing =
        |what: &str| Error::new(ErrorKind::Protocol, format!("the hub sent a frame without {what}"));
    Ok(match &*fields.op {
        "OK" => Incoming::Ok { corr },
        "ERR" => {
            let code = fields.code.unwrap_or(Cow::Borrowed("internal"));
            let known: Option<Code> = code.parse().ok();
            let msg = fields.msg.unwrap_or_default().into_owned();
            let mut error = hub_proto::Error::new(known.unwrap_or(Code::Internal), msg);
            error.id = fields.id;
            error.retry_after_ms = fields.retry_after_ms;
            Incoming::Err { corr, error: Error::refused(error, &code), of }
        }
        "EVENT" => {
            let event = fields.event.ok_or_else(|| missing("its event"))?.get();
            let events = vec![Delivery { event, ctx: fields.ctx }];
            Incoming::Events { of: of.ok_or_else(|| missing("its topic"))?, events }
        }
        "EVENTS" => {
            let parts = fields.events.ok_or_else(|| missing("its events"))?;
            let events = parts.into_iter().map(|part| Delivery { event: part.event.get(), ctx: part.ctx });
            Incoming::Events { of: of.ok_or_else(|| missing("its topic"))?, events: events.collect() }
        }
        "LAGGED" => Incoming::Lagged {
            of: of.ok_or_else(|| missing("its topic"))?,
            topic: fields.of,
            missed: fields.missed.unwrap_or_default(),
        },
        _ => Incoming::Other,
    })
}

/// The `corr` of an `OK` that is laid out as usual.
fn fast_ok(text: &str) -> Option<u64> {
    let (corr, rest) = text.strip_prefix("{\"op\":\"OK\",\"corr\":\"")?.split_once('"')?;
    (rest.ends_with('}') && corr.bytes().all(|byte| byte.is_ascii_digit())).then(|| corr.parse().ok())?
}

/// The parts of an `EVENT` that is laid out as usual: topic, group, and the event between what is before and behind it.
/// The event is not read; if it turns out to be none, [`read`] has the last word.
pub(crate) fn fast_event(text: &str) -> Option<(&str, Option<&str>, Delivery<'_>)> {
    let (topic, rest) = text.strip_prefix("{\"op\":\"EVENT\",\"topic\":\"")?.split_once('"')?;
    let (group, rest) = match rest.strip_prefix(",\"group\":\"") {
        Some(rest) => rest.split_once('"').map(|(group, rest)| (Some(group), rest))?,
        None => (None, rest),
    };
    // An escape in a name: its end may be elsewhere.
    if topic.contains('\\') || group.is_some_and(|group| group.contains('\\')) {
        return None;
    }
    let rest = rest.strip_prefix(",\"event\":")?.strip_suffix('}')?;
    let (event, ctx) = match group {
        Some(_) => fast_ctx(rest).map(|(event, ctx)| (event, Some(ctx)))?,
        None => (rest, None),
    };
    let is_event = event.starts_with("{\"id\":\"") && event.ends_with('}');
    is_event.then_some((topic, group, Delivery { event, ctx }))
}

/// Takes `,"ctx":{"attempt":1,"maxAttempts":5,"ack_deadline_ms":30000}` off the end, with or without an `epoch`.
fn fast_ctx(text: &str) -> Option<(&str, Ctx)> {
    let (rest, last) = number_at_end(text.strip_suffix('}')?)?;
    let ((rest, ack_deadline_ms), epoch) = match rest.strip_suffix(",\"epoch\":") {
        Some(rest) => (number_at_end(rest)?, last),
        None => ((rest, last), 0),
    };
    let (rest, max_attempts) = number_at_end(rest.strip_suffix(",\"ack_deadline_ms\":")?)?;
    let (rest, attempt) = number_at_end(rest.strip_suffix(",\"maxAttempts\":")?)?;
    let rest = rest.strip_suffix(",\"ctx\":{\"attempt\":")?;
    let (attempt, max_attempts) = (attempt.try_into().ok()?, max_attempts.try_into().ok()?);
    Some((rest, Ctx { attempt, max_attempts, ack_deadline_ms, epoch }))
}

fn number_at_end(text: &str) -> Option<(&str, u64)> {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (rest, digits) = text.split_at(text.len() - digits);
    Some((rest, digits.parse().ok()?))
}

#[cfg(test)]
mod tests;
