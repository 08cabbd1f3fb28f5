//! What a session tells the audit log.

use super::request::{Corr, Name, Request};
use super::session::Session;
use crate::Hub;
use crate::audit::{Entry, Event, Outcome, Via, event_of};
use crate::auth::{Identity, Rejected};
use hub_core::Checked;
use hub_proto::{Error, TopicName};
use std::net::SocketAddr;

/// A web page of another origin was refused its connection.
pub(super) fn refused_origin(hub: &Hub, address: Option<SocketAddr>) {
    let error = Error::forbidden("pages of this origin may not connect");
    hub.audit().record(&refusal(Event::Refused, "GET /", "connect", address, &error));
}

fn refusal<'a>(
    event: Event,
    op: &'a str,
    action: &'static str,
    peer: Option<SocketAddr>,
    error: &'a Error,
) -> Entry<'a> {
    Entry {
        event,
        outcome: Outcome::Refused,
        via: Via::WebSocket,
        peer,
        identity: None,
        op,
        action,
        topic: None,
        group: None,
        target: None,
        code: Some(error.code.as_str()),
        reason: Some(&error.msg),
    }
}

impl Session {
    /// Records a refusal, if it is of a kind that the audit log has. What another hub is refused is in the log of the hub that its user
    /// is connected to.
    pub(super) fn audit(
        &self,
        op: &str,
        action: &'static str,
        error: &Error,
        topic: Option<&str>,
        group: Option<&str>,
    ) {
        let Some(event) = event_of(error.code.as_str(), action) else { return };
        if self.peer().is_none() {
            let refusal = refusal(event, op, action, self.address, error);
            self.hub.audit().record(&Entry { identity: self.identity(), topic, group, ..refusal });
        }
    }

    /// Refuses an AUTH.
    pub(super) fn refuse_auth(&mut self, corr: &Corr, rejected: &Rejected) {
        let Rejected { error, identity } = rejected;
        if let Some(event) = event_of(error.code.as_str(), "auth") {
            let identity = identity.as_deref().or(self.identity());
            let refusal = refusal(event, "AUTH", "auth", self.address, error);
            self.hub.audit().record(&Entry { identity, ..refusal });
        }
        self.refuse(corr, error);
    }

    /// Refuses a SUBSCRIBE.
    pub(super) fn refuse_subscribe(&mut self, corr: &Corr, name: &Name, error: &Error) {
        self.audit("SUBSCRIBE", "subscribe", error, Some(&name.topic), name.group.as_deref());
        self.refuse(corr, error);
    }

    /// Records that a request was refused before it was looked at.
    pub(super) fn audit_request(&self, request: &Request, error: &Error) {
        let (op, action) = match request {
            Request::Auth { .. } => ("AUTH", "auth"),
            Request::Publish(_) | Request::PublishAll(_) | Request::PublishInOrder(_) => {
                ("PUBLISH", "publish")
            }
            Request::Subscribe(..) => ("SUBSCRIBE", "subscribe"),
            Request::Unsubscribe(_) => ("UNSUBSCRIBE", "subscribe"),
            Request::Ack { .. } => ("ACK", "subscribe"),
            Request::Nack { .. } => ("NACK", "subscribe"),
            Request::Modack { .. } => ("MODACK", "subscribe"),
            Request::Return { .. } => ("RETURN", "subscribe"),
            Request::Pause(_) => ("PAUSE", "subscribe"),
            Request::Resume(_) => ("RESUME", "subscribe"),
            Request::Ping => ("PING", "connect"),
            Request::Peer(_) => ("a frame between hubs", "subscribe"),
        };
        self.audit(op, action, error, None, None);
    }

    /// Records that a PUBLISH was refused. An event that its rights allow is to the topic that was last asked about.
    pub(super) fn audit_publish(&self, error: &Error, topic: Option<&str>) {
        let last = || self.who.as_ref()?.publishes_to.as_ref().map(|topic| topic.as_str());
        self.audit("PUBLISH", "publish", error, topic.or_else(last), None);
    }

    /// Records the first event of a batch that was refused: one line for a frame.
    pub(super) fn audit_batch(&self, by_rights: Option<&(TopicName, Error)>, checked: &Checked) {
        if let Some((topic, error)) = by_rights {
            return self.audit("PUBLISH", "publish", error, Some(topic), None);
        }
        let is_audited = |error: &&Error| event_of(error.code.as_str(), "publish").is_some();
        if let Some(error) = checked.errors().find(is_audited) {
            self.audit("PUBLISH", "publish", error, None, None);
        }
    }

    /// Records that a client loses its connection because it went on in spite of `rate_limited`.
    pub(super) fn audit_flood(&self, error: &Error) {
        let refusal = refusal(Event::Refused, "close", "connect", self.address, error);
        self.hub.audit().record(&Entry { identity: self.identity(), ..refusal });
    }

    fn identity(&self) -> Option<&Identity> {
        self.who.as_ref().map(|who| &who.identity)
    }
}
