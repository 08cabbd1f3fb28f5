//! What a line says.

use super::queue::Class;
use crate::auth::Identity;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::SystemTime;

/// The longest reason, in bytes.
const REASON_BYTES: usize = 200;
/// The longest of all other values, in bytes.
const VALUE_BYTES: usize = 256;

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client did not show that it is who it says it is, or not any more.
    AuthFailed,
    /// A client may not do what it asked for, or not more of it.
    Refused,
    /// Somebody asked for an admin action.
    Admin,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Refused,
}

/// Which port it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    WebSocket,
    Http,
}

/// One line, before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub event: Event,
    pub outcome: Outcome,
    pub via: Via,
    pub peer: Option<SocketAddr>,
    /// Of whom the hub knows it: the claims of a token that was not verified are nobody's.
    pub identity: Option<&'a Identity>,
    /// The request: a frame's `op`, or method and path without the query.
    pub op: &'a str,
    /// The right that the request needs.
    pub action: &'static str,
    pub topic: Option<&'a str>,
    pub group: Option<&'a str>,
    /// What an admin action is about, if that is no topic.
    pub target: Option<&'a str>,
    /// The code of a refusal, and its text.
    pub code: Option<&'a str>,
    pub reason: Option<&'a str>,
}

/// A line, as it is written.
#[derive(Serialize)]
struct Line<'a> {
    ts: u64,
    event: &'static str,
    outcome: &'static str,
    via: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<&'a str>,
    op: &'a str,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// The line that tells how many were dropped.
#[derive(Serialize)]
struct Suppressed {
    ts: u64,
    event: &'static str,
    count: u64,
}

impl Entry<'_> {
    /// Which limits the line counts for. A refused admin action is a refusal: anybody with a token can have those.
    pub fn class(&self) -> Class {
        match (self.event, self.outcome) {
            (Event::Admin, Outcome::Allowed) => Class::Admin,
            _ => Class::Refusal,
        }
    }

    /// Appends the line to `text`, with its end.
    pub fn write(&self, ts: u64, text: &mut Vec<u8>) {
        let line = Line {
            ts,
            event: match self.event {
                Event::AuthFailed => "auth_failed",
                Event::Refused => "refused",
                Event::Admin => "admin",
            },
            outcome: match self.outcome {
                Outcome::Allowed => "allowed",
                Outcome::Refused => "refused",
            },
            via: match self.via {
                Via::WebSocket => "ws",
                Via::Http => "http",
            },
            peer: self.peer,
            sub: value(self.identity.and_then(|identity| identity.subject.as_deref())),
            jti: value(self.identity.and_then(|identity| identity.jti.as_deref())),
            op: cut(self.op, VALUE_BYTES),
            action: self.action,
            topic: value(self.topic),
            group: value(self.group),
            target: value(self.target),
            code: self.code,
            reason: self.reason.map(|reason| cut(reason, REASON_BYTES)),
        };
        append(&line, text);
    }
}

/// Appends the line that tells how many were dropped.
pub(super) fn write_suppressed(count: u64, text: &mut Vec<u8>) {
    append(&Suppressed { ts: wall_millis(), event: "suppressed", count }, text);
}

fn append(line: &impl Serialize, text: &mut Vec<u8>) {
    let before = text.len();
    // Numbers and strings into memory: neither can fail.
    if serde_json::to_writer(&mut *text, line).is_err() {
        text.truncate(before);
    }
    text.push(b'\n');
}

fn value(value: Option<&str>) -> Option<&str> {
    value.map(|value| cut(value, VALUE_BYTES))
}

fn cut(value: &str, bytes: usize) -> &str {
    &value[..value.floor_char_boundary(bytes)]
}

/// Milliseconds since 1970.
pub(super) fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// The kind of line that a refusal with this code has; `None` if it has none: a request that is malformed, or comes at a bad time, is no
/// matter of who may do what. A request over its rate has none either, unless it was to authenticate.
pub(crate) fn event_of(code: &str, action: &str) -> Option<Event> {
    match code {
        "no_token" | "jwt_invalid" | "token_expired" | "token_revoked" | "unauthorized" => {
            Some(Event::AuthFailed)
        }
        "rate_limited" if action == "auth" => Some(Event::AuthFailed),
        "forbidden" | "quota_exceeded" => Some(Event::Refused),
        _ => None,
    }
}
