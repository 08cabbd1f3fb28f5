//! Reading a record's JSON back.
//!
//! A record that was written by [`Draft`](crate::Draft) has its members in a known order and no whitespace, so
//! where they are is found by walking over the short ones at the front and the `seq` at the back, without
//! parsing the payload. Any other JSON of a record goes through serde and is written anew.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Event, KeyPart, Parts};
use crate::json::string_end;
use crate::payload::check_syntax;
use crate::{
    Draft, Error, EventId, Key, NewEvent, Payload, PublishOptions, Result, TopicName, header, limits,
};

const PAYLOAD_MEMBER: &[u8; 11] = b",\"payload\":";
const SEQ_MEMBER: &[u8; 7] = b",\"seq\":";

/// See [`Event::from_json`].
pub(super) fn read(json: Bytes, committed: u64) -> Result<Event> {
    let depth = crate::json::depth(&json);
    if depth > limits::STORED_NESTING + 1 {
        return Err(Error::bad_request(format!(
            "a record is nested {depth} deep; at most {} are allowed",
            limits::STORED_NESTING + 1
        )));
    }
    let event = read_bounded(json, committed)?;
    match event.seq() {
        0 => Err(Error::bad_request("a record has seq 0; they begin with 1")),
        _ => Ok(event),
    }
}

fn read_bounded(json: Bytes, committed: u64) -> Result<Event> {
    let event = match walk(json, committed, None, |event| event) {
        Ok(event) => event,
        Err(json) => return read_any(&json, committed),
    };
    // The walk took these on trust.
    let one_line = memchr::memchr2(b'\n', b'\r', &event.json).is_none();
    let extras_fit = extras(&event.json, &event.parts).is_none_or(|json| read_extras(json).is_ok());
    let payload = event.payload();
    let trimmed = payload.trim_ascii().len() == payload.len();
    if one_line && extras_fit && trimmed && check_syntax(payload).is_ok() {
        return Ok(event);
    }
    read_any(&event.json, committed)
}

/// See [`Event::from_trusted`] and [`Event::shared_from_trusted`].
#[inline]
pub(super) fn read_trusted<T>(
    json: Bytes,
    committed: u64,
    topic: &TopicName,
    make: impl FnOnce(Event) -> T,
) -> Result<T> {
    walk(json, committed, Some(topic), make)
        .map_err(|_| Error::internal(format!("a stored record of {topic} is not as the hub writes them")))
}

/// See [`Event::from_hub`].
pub(super) fn read_from_hub(json: Bytes, topic: Option<&TopicName>) -> Result<Event> {
    let likely = match topic {
        Some(_) => walk(json, 0, topic, |event| event),
        None => Err(json),
    };
    let read = match likely.or_else(|json| walk(json, 0, None, |event| event)) {
        Ok(event) => Ok(event),
        Err(json) => read_any(&json, 0),
    };
    let mut event = read?;
    if event.seq() == 0 {
        return Err(Error::bad_request("a record has seq 0; they begin with 1"));
    }
    event.committed = event.ts();
    Ok(event)
}

/// The members between key and payload with their leading comma, if there are any.
pub(super) fn extras<'a>(json: &'a [u8], parts: &Parts) -> Option<&'a [u8]> {
    between(json, parts.extras_start as usize, parts.payload.0 as usize)
}

fn between(json: &[u8], extras_start: usize, payload_start: usize) -> Option<&[u8]> {
    let text = &json[extras_start..payload_start - PAYLOAD_MEMBER.len()];
    (!text.is_empty()).then_some(text)
}

/// Reads what [`extras`] gave.
pub(super) fn read_extras(text: &[u8]) -> Result<PublishOptions, serde_json::Error> {
    let mut object = Vec::with_capacity(text.len() + 1);
    object.push(b'{');
    object.extend_from_slice(text.strip_prefix(b",").unwrap_or(text));
    object.push(b'}');
    serde_json::from_slice(&object)
}

/// Reads a record that is laid out as [`Draft`] does it; gives the JSON back if it is not. The insides of the payload
/// and the extras are not checked. What becomes of the event is up to `make`: one that is to be shared is built where
/// it is copied from, as an event is large and a scan makes millions of them.
#[inline]
fn walk<T>(
    json: Bytes,
    committed: u64,
    expected: Option<&TopicName>,
    make: impl FnOnce(Event) -> T,
) -> Result<T, Bytes> {
    match find(&json, expected) {
        Some((Found { id, ts, extras_start, payload, seq }, (topic, key, audience))) => Ok(make(Event {
            json,
            parts: Parts { id, ts, topic, key, audience, extras_start, payload },
            seq,
            committed,
            extras: OnceLock::new(),
        })),
        None => Err(json),
    }
}

/// What costs nothing to move.
#[derive(Clone, Copy)]
struct Found {
    id: EventId,
    ts: u64,
    extras_start: u32,
    payload: (u32, u32),
    seq: u64,
}

/// Topic, key and [`Parts::audience`].
type Texts = (TopicName, Option<KeyPart>, Option<Arc<str>>);

#[inline(always)]
fn find(json: &[u8], expected: Option<&TopicName>) -> Option<(Found, Texts)> {
    let (before_seq, seq) = split_seq(json)?;
    let mut walk = Walk { json: before_seq, at: 0 };
    walk.eat(b"{\"id\":\"")?;
    let text = walk.bytes(36)?;
    let id = EventId::parse_canonical(text.try_into().ok()?)?;
    walk.eat(b"\",\"ts\":")?;
    let ts = walk.number()?;
    walk.eat(b",\"topic\":\"")?;
    let topic = match expected {
        Some(expected) => {
            if walk.bytes(expected.len())? != expected.as_bytes() {
                return None;
            }
            walk.eat(b"\"")?;
            expected.clone()
        }
        None => {
            walk.at -= 1;
            let topic = walk.string()?;
            TopicName::stored(std::str::from_utf8(&before_seq[topic.start + 1..topic.end - 1]).ok()?).ok()?
        }
    };
    let mut key = None;
    if walk.eat(b",\"key\":").is_some() {
        let quoted = walk.string()?;
        key = Some(match expected {
            Some(_) => read_trusted_key(before_seq, quoted)?,
            None => KeyPart::of(read_key(&before_seq[quoted])?),
        });
    }
    let extras_start = walk.at;
    if walk.eat(b",\"sid\":").is_some() {
        walk.string()?;
    }
    if walk.eat(b",\"headers\":{").is_some() {
        walk.list_of_strings()?;
    }
    if walk.eat(b",\"caused_by\":[").is_some() {
        walk.list_of_strings()?;
    }
    if walk.eat(b",\"tags\":[").is_some() {
        walk.list_of_strings()?;
    }
    walk.eat(PAYLOAD_MEMBER)?;
    let (payload_start, payload_end) = (walk.at, before_seq.len());
    let audience = match between(json, extras_start, payload_start) {
        Some(text) => read_audience(text)?,
        None => None,
    };
    let extras_start = extras_start as u32;
    let payload = (payload_start as u32, u32::try_from(payload_end).ok()?);
    Some((Found { id, ts, extras_start, payload, seq }, (topic, key, audience)))
}

/// The one group a record is for, if there is one; `None` if that cannot be read.
fn read_audience(extras: &[u8]) -> Option<Option<Arc<str>>> {
    if memchr::memmem::find(extras, header::REPLAY_FOR.as_bytes()).is_none() {
        return Some(None);
    }
    let headers = read_extras(extras).ok()?.headers;
    let found = headers.into_iter().find(|(name, _)| name == header::REPLAY_FOR);
    Some(found.map(|(_, group)| group.into()))
}

/// Most keys have no escapes and are copied once, straight from the record.
fn read_key(quoted: &[u8]) -> Option<Key> {
    match serde_json::from_slice::<&str>(quoted) {
        Ok(plain) => Some(plain.into()),
        Err(_) => serde_json::from_slice::<String>(quoted).ok().map(Key::from),
    }
}

/// The key of a record that was checked when it was written.
fn read_trusted_key(json: &[u8], quoted: Range<usize>) -> Option<KeyPart> {
    let inside = &json[quoted.start + 1..quoted.end - 1];
    match memchr::memchr(b'\\', inside) {
        None => Some(KeyPart::plain(std::str::from_utf8(inside).ok()?, quoted.start + 1)),
        Some(_) => read_key(&json[quoted]).map(KeyPart::of),
    }
}

/// Takes `,"seq":N}` off the end.
fn split_seq(json: &[u8]) -> Option<(&[u8], u64)> {
    let rest = json.strip_suffix(b"}")?;
    let digits = rest.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, digits) = rest.split_at(rest.len() - digits);
    Some((rest.strip_suffix(SEQ_MEMBER.as_slice())?, parse_u64(digits)?))
}

/// Digits as the hub writes them, without zeros in front.
fn parse_u64(digits: &[u8]) -> Option<u64> {
    if digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let (first, eights) = digits.as_rchunks();
    let first = first.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    eights
        .iter()
        .try_fold(first, |number: u64, digits| number.checked_mul(100_000_000)?.checked_add(eight(*digits)))
}

/// The number that eight digits stand for: pairs, then fours, then all at once.
fn eight(digits: [u8; 8]) -> u64 {
    let digits = u64::from_le_bytes(digits) & 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    (fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF
}

/// A place in a record.
struct Walk<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    #[inline(always)]
    fn rest(&self) -> &'a [u8] {
        &self.json[self.at..]
    }

    /// Of a known length, so that no call is needed to compare.
    #[inline(always)]
    fn eat<const N: usize>(&mut self, text: &[u8; N]) -> Option<()> {
        (self.rest().first_chunk() == Some(text)).then(|| self.at += N)
    }

    #[inline(always)]
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let bytes = self.rest().get(..count)?;
        self.at += count;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
        parse_u64(self.bytes(digits)?)
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.eat(b"\"")?;
        self.at = string_end(self.json, self.at);
        (self.at >= start + 2 && self.json[self.at - 1] == b'"').then_some(start..self.at)
    }

    /// What follows an opening bracket, to the closing one: strings with commas or colons between them.
    fn list_of_strings(&mut self) -> Option<()> {
        loop {
            self.string()?;
            let separator = *self.rest().first()?;
            self.at += 1;
            match separator {
                b',' | b':' => {}
                b']' | b'}' => return Some(()),
                _ => return None,
            }
        }
    }
}

/// A record in JSON of any layout.
#[derive(Deserialize)]
struct Record<'a> {
    id: EventId,
    seq: u64,
    ts: u64,
    topic: TopicName,
    #[serde(borrow)]
    payload: &'a RawValue,
}

fn read_any(json: &[u8], committed: u64) -> Result<Event> {
    let wrong = |err| Error::from_json_error("record", &err);
    let record: Record<'_> = serde_json::from_slice(json).map_err(wrong)?;
    let options: PublishOptions = serde_json::from_slice(json).map_err(wrong)?;
    let payload = Payload::of_raw(record.payload, None);
    let event = NewEvent { topic: record.topic, payload, options };
    Ok(Draft::encode(event, record.id, record.ts).commit(record.seq, committed))
}
