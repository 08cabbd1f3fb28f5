//! Who asks, and what that one may do.

use super::audit::{About, Trail};
use super::error::{Failure, shown};
use crate::acl::{Action, Effect, Policy, Rule, Target};
use crate::auth::tickets::Ticket;
use crate::auth::{Authenticator, Identity, Rejected};
use crate::connections::{ConnectionKind, OpenConnection};
use crate::gateway::origin_allowed;
use crate::limits::{From, Meter, Work};
use crate::net::{ClientCertificate, origin_of};
use crate::peer::address_of;
use crate::{Hub, Settings};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use hub_core::Millis;
use hub_proto::{Code, Error, Pattern, TopicName};
use std::sync::Arc;
use std::time::Duration;

/// Somebody whose token holds, with the rules that count for it.
#[derive(Debug)]
pub(super) struct Caller {
    identity: Identity,
    /// Those under which `rules` were put together.
    settings: Arc<Settings>,
    rules: Policy,
    /// The one topic that it may ask about, if it came with a ticket for one.
    only: Option<TopicName>,
    meter: Meter,
    trail: Trail,
}

/// A caller that may show a ticket in the query, for what a page opens without headers of its own: an `EventSource`, a download.
#[derive(Debug)]
pub(super) struct CallerOrTicket(pub Caller);

impl FromRequestParts<Hub> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, Failure> {
        check_draining(hub)?;
        let trail = Trail::of(parts, hub);
        let refused = |identity: Option<&Identity>, failure: Failure| {
            trail.refused(identity, "auth", About::default(), &failure);
            failure
        };
        let token = bearer(&parts.headers).map_err(|failure| refused(None, failure))?;
        let from = address_of(&parts.extensions).map(|address| address.ip());
        let certificate = ClientCertificate::of(&parts.extensions);
        let identity = match hub.identify(from, token, certificate).await {
            Ok(identity) => identity,
            Err(Rejected { error, identity }) => return Err(refused(identity.as_deref(), error.into())),
        };
        let settings = hub.settings();
        // A browser shows a certificate for any page that asks, as it would a cookie.
        if identity.certificate.is_some() && !origin_allowed(&settings, &parts.headers) {
            let msg = "pages of this origin may not use the client certificate; send a token";
            return Err(refused(Some(&identity), Error::new(Code::Forbidden, msg).into()));
        }
        Ok(Self::new(hub, parts, identity, settings, trail))
    }
}

impl FromRequestParts<Hub> for CallerOrTicket {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, Failure> {
        let Some(text) = ticket(parts) else {
            return Caller::from_request_parts(parts, hub).await.map(Self);
        };
        // First of all: whatever becomes of the request, its ticket is used.
        let ticket = hub.tickets().redeem(text, hub.auth().steady());
        check_draining(hub)?;
        let trail = Trail::of(parts, hub);
        if parts.headers.contains_key(header::AUTHORIZATION) {
            return Err(Failure::bad_request("there are a ticket and a token; send one of them"));
        }
        let Some(Ticket { identity, topic, .. }) = ticket else {
            let text =
                "the ticket is unknown, was used, or is older than 30 s; get another with POST /ticket";
            let failure = Error::new(Code::Unauthorized, text).into();
            trail.refused(None, "auth", About::default(), &failure);
            return Err(failure);
        };
        let is_expired = identity.expires.is_some_and(|expires| expires <= hub.bus().now());
        let checked = match is_expired {
            true => Err(Error::new(Code::TokenExpired, "the token that the ticket stands for has expired")),
            false => hub
                .auth()
                .check_bound(&identity, ClientCertificate::of(&parts.extensions))
                .and_then(|()| hub.check_revoked(&identity)),
        };
        if let Err(error) = checked {
            let failure = error.into();
            trail.refused(Some(&identity), "auth", About::default(), &failure);
            return Err(failure);
        }
        let caller = Caller::new(hub, parts, identity, hub.settings(), trail);
        Ok(Self(Caller { only: topic, ..caller }))
    }
}

fn check_draining(hub: &Hub) -> Result<(), Failure> {
    match hub.draining().is_cancelled() {
        true => Err(Error::unavailable("the hub is stopping; try again when it is back").into()),
        false => Ok(()),
    }
}

/// The ticket in the query. It is hexadecimal, so it comes without escapes.
fn ticket(parts: &Parts) -> Option<&str> {
    parts.uri.query()?.split('&').find_map(|pair| pair.strip_prefix("ticket="))
}

/// Whether a request shows who sends it by something that no page can have a browser add: a token or a ticket, not a certificate.
pub(super) fn shows_token(parts: &Parts) -> bool {
    parts.headers.contains_key(header::AUTHORIZATION) || ticket(parts).is_some()
}

/// Whether the request has a token that holds. For those who are answered in any case.
pub(super) async fn is_known(hub: &Hub, parts: &Parts) -> bool {
    let from = address_of(&parts.extensions).map(|address| address.ip());
    match bearer(&parts.headers) {
        Ok(token) => hub.identify(from, token, ClientCertificate::of(&parts.extensions)).await.is_ok(),
        Err(_) => false,
    }
}

/// The same without a hub.
pub(super) async fn is_known_to(auth: &Authenticator, parts: &Parts) -> bool {
    match bearer(&parts.headers) {
        Ok(token) => auth.identify_with(token, ClientCertificate::of(&parts.extensions)).await.is_ok(),
        Err(_) => false,
    }
}

/// Whether anybody may see how the hub is doing: it listens on loopback only, and it is no web page that asks.
pub(super) fn is_open(hub: &Hub, parts: &Parts) -> bool {
    is_open_by(&hub.settings(), parts)
}

/// The same without a hub.
pub(super) fn is_open_by(settings: &Settings, parts: &Parts) -> bool {
    let Parts { headers, extensions, .. } = parts;
    settings.open_metrics && crate::host::is_local(headers) && origin_of(headers, extensions) == From::Peer
}

/// The token of `Authorization: Bearer …`. Nothing of it gets into an error.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Failure::bad_request("the header Authorization is there twice; send it once"));
    }
    let malformed = || Error::new(Code::NoToken, "the header Authorization is not \"Bearer TOKEN\"");
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    let token = token.trim();
    match scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        true => Ok(Some(token)),
        false => Err(malformed().into()),
    }
}

impl Caller {
    fn new(hub: &Hub, parts: &Parts, identity: Identity, settings: Arc<Settings>, trail: Trail) -> Self {
        let rules = settings.rules_for(&identity);
        let from = origin_of(&parts.headers, &parts.extensions);
        let meter = Meter::for_request(hub.buckets(), identity.subject.as_deref(), from);
        Self { identity, settings, rules, only: None, meter, trail }
    }

    /// Makes a ticket that stands for the caller.
    pub fn issue_ticket(&self, hub: &Hub, topic: Option<TopicName>) -> Result<String, Failure> {
        Ok(hub.tickets().issue(self.identity.clone(), topic, hub.auth().steady())?)
    }

    /// Whom it counts for what the request makes; the empty one for a token without.
    pub fn subject(&self) -> &str {
        self.identity.subject.as_deref().unwrap_or_default()
    }

    /// The token's `exp`, in seconds.
    pub fn exp(&self) -> Option<u64> {
        self.identity.exp
    }

    /// Its subject; `None` for a token without one.
    pub fn named_subject(&self) -> Option<&str> {
        self.identity.subject.as_deref()
    }

    /// The rules that count for it, in their order.
    pub fn rules(&self) -> &[Rule] {
        self.rules.rules()
    }

    /// Lists an answer that takes long among the open connections.
    pub fn open_stream(&self, hub: &Hub, kind: ConnectionKind) -> OpenConnection {
        let open = hub.open_connections();
        let open = open.open(kind, self.named_subject(), self.trail.peer(), hub.bus().now());
        open.set_expires(self.identity.expires);
        open
    }

    /// When the token runs out.
    pub fn expires(&self) -> Option<Millis> {
        self.identity.expires
    }

    pub fn may(&self, action: Action, target: Target<'_>, group: Option<&str>) -> bool {
        let is_meant = match (&self.only, target) {
            (None, _) => true,
            (Some(only), Target::Topic(topic)) => only.as_str() == topic,
            (Some(_), Target::Pattern(_)) => false,
        };
        is_meant && self.rules.allows(action, target, group)
    }

    /// Whether its admin right on `target` is a right to read it: see [`Policy::administrator_reads`].
    pub fn reads_as_administrator(&self, target: Target<'_>) -> bool {
        self.may(Action::Admin, target, None) && self.rules.administrator_reads(target)
    }

    /// Refuses what the rules do not allow. For an admin action that is [`administrate`](Self::administrate).
    pub fn must(&self, action: Action, target: Target<'_>, group: Option<&str>) -> Result<(), Failure> {
        if action == Action::Admin {
            return self.administrate(target, About { group, ..About::default() });
        }
        match self.may(action, target, group) {
            true => Ok(()),
            false => {
                let about = About { topic: Some(&name_of(target)), group, ..About::default() };
                Err(self.refused(action.as_str(), about, forbidden(action, target, group)))
            }
        }
    }

    /// Refuses an admin action that the rules do not allow. The audit log has a line of it in either case, and has it before the action
    /// begins: a client that hangs up in the middle leaves a trace. `about` has what the line tells instead of the
    /// topics, or beside them.
    pub fn administrate(&self, target: Target<'_>, about: About<'_>) -> Result<(), Failure> {
        let topic = name_of(target);
        let about = About { topic: about.target.is_none().then_some(&*topic), ..about };
        let is_allowed = self.may(Action::Admin, target, None);
        self.administrate_if(is_allowed, about, || forbidden(Action::Admin, target, None))
    }

    /// The same for an action of which the caller has found out whether the rules allow it.
    pub fn administrate_if(
        &self,
        is_allowed: bool,
        about: About<'_>,
        refusal: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        let refused = (!is_allowed).then(refusal);
        self.trail.admin(&self.identity, about, refused.as_ref());
        refused.map_or(Ok(()), Err)
    }

    /// A refusal, which the audit log has if it is about rights or quotas.
    pub fn refused(&self, action: &'static str, about: About<'_>, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        self.trail.refused(Some(&self.identity), action, about, &failure);
        failure
    }

    /// Like [`must`](Self::must), by the rules as they are by now: for answers that take long.
    pub fn still_must(&mut self, hub: &Hub, action: Action, target: Target<'_>) -> Result<(), Failure> {
        self.refresh(hub, action.as_str())?;
        self.must(action, target, None)
    }

    /// Takes the rights as they are by now, for answers that take long; refuses a token that was revoked. Answers whether the rules may
    /// have changed.
    pub fn renew(&mut self, hub: &Hub) -> Result<bool, Failure> {
        self.refresh(hub, "read")
    }

    /// The same for work that goes on behind a request: the audit log has a line if it is refused, and none if it goes on.
    pub fn still_may(&mut self, hub: &Hub, action: Action, target: Target<'_>) -> Result<(), Failure> {
        self.refresh(hub, action.as_str())?;
        match self.may(action, target, None) {
            true => Ok(()),
            false => self.must(action, target, None),
        }
    }

    /// Takes the rules as they are by now, and answers whether they may be others. Refuses a token that was revoked.
    fn refresh(&mut self, hub: &Hub, action: &'static str) -> Result<bool, Failure> {
        hub.check_revoked(&self.identity).map_err(|error| self.refused(action, About::default(), error))?;
        let settings = hub.settings();
        let has_changed = !Arc::ptr_eq(&settings, &self.settings);
        if has_changed {
            self.rules = settings.rules_for(&self.identity);
            self.settings = settings;
        }
        Ok(has_changed)
    }

    /// Whether it may look at a group: who could join it may, and who could delete it.
    pub fn sees_group(&self, topic: &TopicName, group: &str) -> bool {
        let target = Target::Topic(topic);
        self.may(Action::Subscribe, target, Some(group)) || self.may(Action::Admin, target, None)
    }

    /// What the names of all topics begin with that it may see, in order, none of them a part of another.
    pub fn visible_prefixes(&self) -> Vec<String> {
        let allows = self.rules.rules().iter().filter(|rule| rule.effect == Effect::Allow);
        let mut prefixes: Vec<String> =
            allows.flat_map(|rule| &rule.topics).map(|pattern| pattern.prefix().to_owned()).collect();
        prefixes.sort_unstable();
        // One that begins with another follows it.
        prefixes.dedup_by(|next, kept| next.starts_with(kept.as_str()));
        prefixes
    }

    /// Whether there is anything that it may administrate.
    pub fn administrates(&self) -> bool {
        let allows = |rule: &Rule| rule.effect == Effect::Allow && rule.actions.contains(&Action::Admin);
        self.rules.rules().iter().any(allows)
    }

    /// Whether it may administrate all topics.
    pub fn administrates_everything(&self) -> bool {
        let all = Pattern::parse("**").expect("a pattern of every topic");
        self.may(Action::Admin, Target::Pattern(&all), None)
    }

    /// Whether it may know that there is such a topic: who may do anything with it does.
    pub fn sees_topic(&self, topic: &TopicName) -> bool {
        let target = Target::Topic(topic);
        [Action::Subscribe, Action::Publish, Action::Admin].into_iter().any(|act| self.may(act, target, None))
            // A right to subscribe can hang on the group; the name "*" stands for those that no rule names.
            || self.rules.rules().iter().filter_map(|rule| rule.groups.as_ref()).flatten()
                .any(|group| self.may(Action::Subscribe, target, Some(group)))
    }

    /// Whether it may know what payloads of a pattern look like: who may do anything with all topics of the pattern may, and who may
    /// with all topics of a pattern within it.
    pub fn sees_pattern(&self, pattern: &Pattern) -> bool {
        let may_any = |actions: &[Action], within: &Pattern| {
            actions.iter().any(|action| self.may(*action, Target::Pattern(within), None))
        };
        let is_within = |rule: &Rule| {
            let patterns = rule.topics.iter().filter(|within| pattern.contains(within));
            rule.effect == Effect::Allow && patterns.into_iter().any(|within| may_any(&rule.actions, within))
        };
        may_any(&[Action::Publish, Action::Subscribe, Action::Admin], pattern)
            || self.rules.rules().iter().any(is_within)
    }

    /// Takes room for so many events to a topic, or for none of them, by the rates of the subject and of the topic.
    pub fn take_events(&mut self, topic: &TopicName, events: usize) -> Result<(), Failure> {
        match events {
            0 => Ok(()),
            _ => Ok(self.meter.take(std::iter::repeat_n(topic, events))?),
        }
    }

    /// Refuses a body while the subject, or the topic that it is for, has used up its bytes of this second.
    pub fn check_bytes(&mut self, topic: &TopicName) -> Result<(), Failure> {
        self.meter.check_bytes_in()?;
        Ok(self.meter.check_topic_bytes_in(topic)?)
    }

    /// Charges a body that was received for a topic.
    pub fn owe_body(&mut self, topic: &TopicName, bytes: usize) {
        self.meter.owe_bytes_in(bytes);
        self.meter.owe_topic_bytes_in(topic, bytes);
        self.meter.owe(Work::bytes(bytes));
    }

    /// Charges bytes of an answer that come from a topic, and says how long the next have to wait, if they have to.
    pub fn send_bytes(&mut self, topic: &TopicName, bytes: usize) -> Option<Duration> {
        self.meter.owe_bytes_out(bytes);
        self.meter.owe_topic_bytes_out(topic, bytes);
        self.meter.wait_bytes_out().max(self.meter.wait_topic_bytes_out(|pattern| pattern.matches(topic)))
    }

    /// Charges bytes of an answer that come from no topic alone, and says how long the next have to wait, if they have to.
    pub fn send_figures(&mut self, bytes: usize) -> Option<Duration> {
        self.meter.owe_bytes_out(bytes);
        self.meter.wait_bytes_out()
    }

    /// Takes what a request was more than one event.
    pub fn owe(&mut self, work: Work) {
        self.meter.owe(work);
    }

    /// Takes room for a request that brings no event.
    pub fn take_one(&mut self) -> Result<(), Failure> {
        Ok(self.meter.take_one()?)
    }
}

fn name_of(target: Target<'_>) -> String {
    match target {
        Target::Topic(topic) => topic.to_string(),
        Target::Pattern(pattern) => pattern.to_string(),
    }
}

fn forbidden(action: Action, target: Target<'_>, group: Option<&str>) -> Failure {
    let action = action.as_str();
    let what = match target {
        Target::Topic(topic) => format!("topic {}", shown(topic)),
        Target::Pattern(pattern) => format!("topics {}", shown(&pattern.to_string())),
    };
    let with = group.map(|group| format!(" with group {}", shown(group))).unwrap_or_default();
    Error::new(Code::Forbidden, format!("the token does not allow {action} on {what}{with}")).into()
}
