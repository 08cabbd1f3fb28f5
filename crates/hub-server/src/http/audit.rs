//! What a request tells the audit log.

use super::error::Failure;
use crate::Hub;
use crate::audit::{Audit, Entry, Event, Outcome, Via, event_of};
use crate::auth::Identity;
use crate::peer::address_of;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use std::net::SocketAddr;

/// Where a request comes from and what it asks for.
#[derive(Debug)]
pub(super) struct Trail {
    audit: Audit,
    peer: Option<SocketAddr>,
    method: Method,
    uri: Uri,
}

/// What a request is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    pub topic: Option<&'a str>,
    pub group: Option<&'a str>,
    /// What an admin action is about, if that is no topic: `sub:NAME`, `jti:ID`, `outbox:NAME`, `list:LABEL`,
    /// `push:NAME`, `backup`.
    pub target: Option<&'a str>,
    /// It is only counted what would be done.
    pub is_dry_run: bool,
}

impl Trail {
    pub fn of(parts: &Parts, hub: &Hub) -> Self {
        Self {
            audit: hub.audit().clone(),
            peer: address_of(&parts.extensions),
            method: parts.method.clone(),
            uri: parts.uri.clone(),
        }
    }

    /// The address of the client, if it is known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Records a refusal, if it is of a kind that the audit log has.
    pub fn refused(
        &self,
        identity: Option<&Identity>,
        action: &'static str,
        about: About<'_>,
        failure: &Failure,
    ) {
        if let Some(event) = event_of(failure.code(), action) {
            self.record(event, identity, action, about, Some(failure));
        }
    }

    /// Records an admin action, with the reason if it is refused.
    pub fn admin(&self, identity: &Identity, about: About<'_>, refused: Option<&Failure>) {
        self.record(Event::Admin, Some(identity), "admin", about, refused);
    }

    fn record(
        &self,
        event: Event,
        identity: Option<&Identity>,
        action: &'static str,
        about: About<'_>,
        refused: Option<&Failure>,
    ) {
        let Self { audit, peer, method, uri } = self;
        let reason = refused.map(ToString::to_string);
        audit.record(&Entry {
            event,
            outcome: if refused.is_some() { Outcome::Refused } else { Outcome::Allowed },
            via: Via::Http,
            peer: *peer,
            identity,
            op: &format!("{method} {}{}", route(uri), if about.is_dry_run { " (dry run)" } else { "" }),
            action,
            topic: about.topic,
            group: about.group,
            target: about.target,
            code: refused.map(Failure::code),
            reason: reason.as_deref(),
        });
    }
}

/// The path without what a client may put into it: a token that got there by mistake must not get into the log.
fn route(uri: &Uri) -> &str {
    match uri.path() {
        path if path.starts_with("/publish/") => "/publish/{topic}",
        path if path.starts_with("/push/") && path.ends_with("/resume") => "/push/{name}/resume",
        path if path.starts_with("/push/") => "/push/{name}",
        path if path.starts_with("/schemas/") => "/schemas/{topic}",
        path if path.starts_with("/jobs/") => "/jobs/{id}",
        path => path,
    }
}
