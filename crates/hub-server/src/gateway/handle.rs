//! Carrying out requests.

use super::deadlines::runs_out;
use super::publishing::{Answer, InOrderAnswer};
use super::request::{Corr, Ids, Name, Options, Request};
use super::session::{Done, InOrderBatch, Phase, Session, Subscribed, Who};
use super::subscriptions::{Feed, Reads, Watching};
use crate::acl::{Action, Target};
use crate::auth::{Identity, Rejected, Secret};
use crate::connections::ConnectionKind;
use crate::edge::{Ask, Extended, Member, Opener, check_delay, client_member_id};
use crate::limits::Work;
use futures_util::future::{BoxFuture, join_all};
use hub_core::{Added, Millis, SentInOrder};
use hub_proto::{Code, Error, EventId, GroupName, NewEvent, Pattern, Result, TopicName, limits, shown};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

/// Subscriptions of one connection to patterns and lists with the same group: an ack by an event's own topic has to look
/// at all of them.
const WIDE: usize = 32;
/// The least that a subscription may have waiting for it, in bytes.
const LEAST_BYTES: usize = 64 << 10;

impl Session {
    /// Carries out a request, or begins to. Requests that take their time hold up the next one.
    pub(super) fn handle(&mut self, corr: Corr, request: Request) {
        if let Err(error) = self.may_ask(&request) {
            self.audit_request(&request, &error);
            return self.refuse_one(corr, request.is_publish(), error);
        }
        if !request.is_publish() {
            // Requests are carried out in their order: what was published before an ack is in line before it is settled.
            self.send_burst();
        }
        match request {
            Request::Publish(event) => self.publish(corr, *event),
            Request::PublishAll(events) => self.publish_all(corr, events),
            Request::PublishInOrder(events) => self.publish_in_order(corr, events),
            Request::Ack { of, ids: Ids::One(id), attempt } => {
                let acked = self.settle(&of, id, |feed| feed.ack(id, attempt));
                self.settled(&corr, id, acked);
            }
            Request::Ack { of, ids: Ids::Several(ids), attempt } => self.ack_all(&corr, &of, &ids, attempt),
            Request::Nack { of, id, attempt, reason, delay_ms } => {
                let cut = &reason[..reason.floor_char_boundary(limits::REASON_BYTES)];
                let nacked = self.settle(&of, id, |feed| feed.nack(id, attempt, delay_ms, cut));
                self.settled(&corr, id, nacked);
            }
            Request::Modack { of, ids, attempt, extend_ms } => {
                self.extend(&corr, &of, ids, attempt, extend_ms);
            }
            Request::Return { of, ids, attempt, delay_ms } => {
                self.return_all(&corr, &of, &ids, attempt, delay_ms);
            }
            Request::Ping => {
                let message = self.writer.pong(&corr, self.hub.bus().now());
                self.send(message);
            }
            Request::Subscribe(name, options) => {
                if let Err(error) = self.subscribe(&corr, name, *options) {
                    self.refuse(&corr, &error);
                }
            }
            Request::Unsubscribe(name) => match self.subscriptions.remove(&name) {
                Some(slot) => {
                    self.meter.owe(Work::groups(slot.topics));
                    if let Some(live) = &mut self.live {
                        live.unsubscribe(slot.topics);
                    }
                    let leaving = match slot.feed {
                        Feed::Group(feed) => feed.leave(),
                        Feed::Watch(_) => None,
                    };
                    match leaving {
                        // Whoever subscribes again at once finds no member of its own there.
                        Some(leaving) => {
                            self.job = Some(Box::pin(async move {
                                leaving.await;
                                Done::Unsubscribed(corr)
                            }));
                        }
                        None => self.ok(&corr),
                    }
                }
                None => self.refuse(&corr, &not_subscribed(&name)),
            },
            Request::Pause(name) => self.set_paused(&corr, &name, true),
            Request::Resume(name) => self.set_paused(&corr, &name, false),
            Request::Auth { token } => {
                if let Some(peer) = self.identify_hub(token.as_ref()) {
                    return match peer {
                        Ok(hub) => self.identified(&corr, Identity::of_hub(hub)),
                        Err(error) => self.refuse_auth(&corr, &error.into()),
                    };
                }
                let (hub, certificate) = (self.hub.clone(), self.certificate.clone());
                // A client that renews its token has shown that it has a good one, and has the rate of its connection.
                let from = self.address.filter(|_| self.who.is_none()).map(|address| address.ip());
                self.job = Some(Box::pin(async move {
                    let token = token.as_ref().map(Secret::expose);
                    Done::Identified(corr, hub.identify(from, token, certificate.as_ref()).await)
                }));
            }
            Request::Peer(request) => self.handle_peer(corr, request),
        }
    }

    /// Takes room for a request in the rates of the connection, its subject and its topics.
    fn charge(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Publish(event) => self.charge_events(1, std::iter::once(&**event)),
            Request::PublishAll(events) | Request::PublishInOrder(events) => {
                self.charge_events(events.len(), events.iter().flatten())
            }
            _ => self.meter.take_one(),
        }
    }

    /// Takes room for a batch of `n`, of which `events` can be read.
    fn charge_events<'a>(&mut self, n: usize, events: impl Iterator<Item = &'a NewEvent>) -> Result<()> {
        // A topic's room is for those who may publish to it: others are refused later, and must not use it up.
        let limits_topics = self.meter.limits_topics();
        let mut counted = Vec::new();
        for event in events.filter(|_| limits_topics) {
            if self.check_publish(&event.topic).is_ok() {
                self.meter.check_topic_bytes_in(&event.topic)?;
                counted.push(event);
            }
        }
        self.meter.take_batch(n, counted.iter().map(|event| &event.topic))?;
        for event in counted {
            self.meter.owe_topic_bytes_in(&event.topic, event.payload.len());
        }
        Ok(())
    }

    /// Takes room for a request that came in a frame of so many bytes. What settles is free, but its bytes count.
    pub(super) fn charge_frame(&mut self, request: &Request, bytes: usize) -> Result<()> {
        if self.peer().is_some() {
            return Ok(());
        }
        if !request.is_free() {
            self.meter.check_bytes_in()?;
            self.charge(request)?;
        }
        self.meter.owe_bytes_in(bytes);
        Ok(())
    }

    /// Whether the session is in a state for this request.
    fn may_ask(&self, request: &Request) -> Result<()> {
        let settles = request.settles();
        let ends = matches!(request, Request::Unsubscribe(_) | Request::Pause(_) | Request::Ping);
        self.may_hub_ask(request)?;
        match (&self.who, request) {
            (_, Request::Auth { .. }) => {}
            (None, _) => {
                let msg = "say who you are first: {\"op\":\"AUTH\",\"token\":…}";
                return Err(Error::new(Code::Unauthorized, msg));
            }
            (Some(Who { expired: Some(_), .. }), _) if !request.is_free() => {
                let msg = "the token has expired; send AUTH with a new one";
                return Err(Error::new(Code::TokenExpired, msg));
            }
            _ => {}
        }
        if self.phase != Phase::Open && !settles && !ends {
            return Err(Error::unavailable("the hub is stopping; come back in a moment"));
        }
        Ok(())
    }

    /// A request that took its time is done.
    pub(super) fn finish(&mut self, done: Done) {
        match done {
            Done::Identified(corr, Ok(identity)) => self.identified(&corr, identity),
            Done::Identified(corr, Err(rejected)) => self.refuse_auth(&corr, &rejected),
            Done::Sent(corr, answer, sent) => {
                // Whoever is behind it does not wait as long again.
                self.crowded = sent.is_refused();
                self.publishing.push(corr, answer);
                self.publishing.sent(sent);
            }
            Done::SentInOrder(corr, batch, sent) => self.sent_in_order(corr, *batch, sent),
            Done::Subscribed(corr, subscribed) => self.subscribed(&corr, *subscribed),
            Done::Unsubscribed(corr) => self.ok(&corr),
            Done::Extended(corr, ids, extend_ms, results) => self.extended(&corr, &ids, extend_ms, results),
            Done::Acted(corr, Ok(done)) => {
                let message = self.writer.done(&corr, done);
                self.send(message);
            }
            Done::Listed(corr, Ok(topics)) => {
                let message = self.writer.listed(&corr, topics.as_deref());
                self.send(message);
            }
            Done::Acted(corr, Err(error)) | Done::Listed(corr, Err(error)) => self.refuse(&corr, &error),
        }
    }

    pub(super) fn ok(&mut self, corr: &Corr) {
        let message = self.writer.ok(corr);
        self.send(message);
    }

    // ---- AUTH ----

    fn identified(&mut self, corr: &Corr, identity: Identity) {
        if let Some(who) = &self.who
            && who.identity.subject != identity.subject
        {
            let msg = "this token is somebody else's (its sub differs); open another connection for it";
            return self.refuse_auth(corr, &Rejected::of(identity, Error::new(Code::JwtInvalid, msg)));
        }
        let subject = identity.subject.as_deref().unwrap_or_default();
        if identity.peer.is_some() {
            // Its users are counted where they are.
            self.seat = None;
        } else if self.live.is_none() {
            match self.hub.live().connect(subject, &self.settings.limits) {
                Ok(live) => self.live = Some(live),
                Err(error) => return self.refuse_auth(corr, &Rejected::of(identity, error)),
            }
            self.burst.set_subject(subject);
        }
        let open = self.open.get_or_insert_with(|| {
            let kind = match identity.peer {
                Some(_) => ConnectionKind::Hub,
                None => ConnectionKind::WebSocket,
            };
            let (subject, now) = (identity.subject.as_deref(), self.hub.bus().now());
            self.hub.open_connections().open(kind, subject, self.address, now)
        });
        open.set_expires(identity.expires);
        let was_expired = self.who.as_ref().is_some_and(|who| who.expired.is_some());
        self.admit();
        self.meter.identify(identity.subject.as_deref());
        let message = self.writer.authenticated(corr, identity.subject.as_deref(), identity.exp);
        self.send(message);
        // As it was, until it is worked out anew: rights that have not changed end nothing.
        let policy = self.who.take().map(|who| who.policy).unwrap_or_default();
        let expires = runs_out(&identity, self.hub.bus().now(), Instant::now());
        self.who = Some(Who { identity, policy, publishes_to: None, expires, expired: None });
        // Another deadline than before.
        self.alarm.ring();
        self.check_rights();
        if was_expired {
            for slot in self.subscriptions.iter_mut().filter(|slot| !slot.paused) {
                if let Feed::Group(feed) = &mut slot.feed {
                    feed.rest(false);
                }
            }
        }
    }

    /// Whom it counts for what this connection makes: its subject, the empty one without; `None` for another hub.
    fn subject(&self) -> Option<&str> {
        let identity = &self.who.as_ref()?.identity;
        identity.peer.is_none().then(|| identity.subject.as_deref().unwrap_or_default())
    }

    // ---- PUBLISH ----

    fn publish(&mut self, corr: Corr, event: NewEvent) {
        if let Err(error) = self.check_publish(&event.topic) {
            self.audit_publish(&error, Some(&event.topic));
            return self.publishing.push(corr, Answer::Refused(error));
        }
        match self.burst.add(event) {
            Ok(added) => self.added(corr, Answer::One, added),
            Err(error) => {
                self.audit_publish(&error, None);
                self.publishing.push(corr, Answer::Refused(error));
            }
        }
    }

    fn publish_all(&mut self, corr: Corr, events: Vec<Result<NewEvent>>) {
        let mut first_refused = None;
        let mut checked = |event: NewEvent| match self.check_publish(&event.topic) {
            Ok(()) => Ok(event),
            Err(error) => {
                first_refused.get_or_insert_with(|| (event.topic, error.clone()));
                Err(error)
            }
        };
        let events = events.into_iter().map(|event| event.and_then(&mut checked)).collect();
        let (checked, added) = self.burst.add_all(events);
        self.audit_batch(first_refused.as_ref(), &checked);
        self.added(corr, Answer::Several(checked), added);
    }

    /// Publishes events in their order, each only if all before it are stored. The next request waits until the last of them
    /// are in line, so that nothing overtakes them.
    fn publish_in_order(&mut self, corr: Corr, events: Vec<Result<NewEvent>>) {
        // What came before it goes before it.
        self.send_burst();
        let (count, mut allowed, mut refused) = (events.len(), Vec::new(), None);
        for event in events {
            let checked = event.and_then(|event| match self.check_publish(&event.topic) {
                Ok(()) => Ok(event),
                Err(error) => {
                    self.audit_publish(&error, Some(&event.topic));
                    Err(error)
                }
            });
            match checked {
                Ok(event) => allowed.push(event),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let mut in_order = self.hub.bus().in_order(allowed).with_in_flight(self.publishing.in_flight());
        if let Some(subject) = self.subject() {
            in_order = in_order.on_behalf_of(subject);
        }
        if self.crowded {
            in_order = in_order.without_waiting_for_room();
        }
        let batch = Box::new(InOrderBatch { events: count, refused });
        self.job = Some(Box::pin(async move { Done::SentInOrder(corr, batch, in_order.send().await) }));
    }

    fn sent_in_order(&mut self, corr: Corr, batch: InOrderBatch, sent: SentInOrder) {
        let InOrderBatch { events, refused } = batch;
        let SentInOrder { settled, sent, refused: bad } = sent;
        if let Some(error) = &bad {
            self.audit("PUBLISH", "publish", error, None, None);
        }
        if let Some(sent) = &sent {
            self.crowded = sent.is_refused();
            if !sent.is_refused() {
                self.forgive();
            }
        }
        let receipts = sent.as_ref().map_or(0, |sent| sent.ids().len());
        let answer = InOrderAnswer { events, settled, receipts, refused: bad.or(refused) };
        self.publishing.push(corr, Answer::InOrder(answer));
        if let Some(sent) = sent {
            self.publishing.sent(sent);
        }
    }

    fn added(&mut self, corr: Corr, answer: Answer, added: Added) {
        match added {
            Added::Taken => {
                self.crowded = false;
                self.forgive();
                self.publishing.push(corr, answer);
                if self.burst.is_full() {
                    self.send_burst();
                }
            }
            Added::Crowded(_) if self.crowded => self.publishing.push(corr, Answer::Refused(no_room())),
            Added::Crowded(room) => {
                // What came before it goes before it.
                self.send_burst();
                self.job = Some(Box::pin(async move { Done::Sent(corr, answer, room.await) }));
            }
        }
    }

    /// Puts in line what was published in this round.
    pub(super) fn send_burst(&mut self) {
        if let Some(sent) = self.burst.send() {
            self.publishing.sent(sent);
        }
    }

    fn check_publish(&mut self, topic: &TopicName) -> Result<()> {
        let Some(who) = &mut self.who else { return Err(forbidden(Action::Publish, topic, None)) };
        if who.publishes_to.as_ref() == Some(topic) {
            return Ok(());
        }
        if !who.policy.allows(Action::Publish, Target::Topic(topic), None) {
            return Err(forbidden(Action::Publish, topic, None));
        }
        who.publishes_to = Some(topic.clone());
        Ok(())
    }

    // ---- SUBSCRIBE ----

    fn subscribe(&mut self, corr: &Corr, name: Name, options: Options) -> Result<()> {
        let max = self.settings.limits.subscriptions;
        if self.subscriptions.has(&name) {
            let msg =
                format!("this connection has a subscription to {}{}", shown(&name.topic), of_group(&name));
            return Err(Error::new(Code::AlreadySubscribed, msg));
        }
        if self.subscriptions.len() >= max {
            let msg = format!(
                "this connection has {max} subscriptions, which is the limit; use a pattern or another connection"
            );
            return Err(Error::bad_request(msg));
        }
        let reads = reads(&name, &options)?;
        if let Some(group) = &name.group {
            GroupName::parse(group)?;
            if reads.is_wide(&name) && self.subscriptions.wide(group) >= WIDE {
                return Err(Error::bad_request(format!(
                    "this connection has {WIDE} subscriptions to patterns and lists with group {}, which is the limit",
                    shown(group)
                )));
            }
        }
        let who = self.who.as_ref();
        if !who.is_some_and(|who| reads.allowed(&who.policy, name.group.as_deref())) {
            let error = forbidden(Action::Subscribe, &name.topic, name.group.as_deref());
            self.audit("SUBSCRIBE", "subscribe", &error, Some(&name.topic), name.group.as_deref());
            return Err(error);
        }
        let bus = self.hub.bus();
        let ack_timeout = options.ack_timeout.unwrap_or(bus.config().ack_timeout);
        let batch_size = options.batch_size.unwrap_or(100);
        if batch_size == 0 || batch_size > limits::BATCH_EVENTS {
            return Err(Error::bad_request(format!(
                "batchSize is {batch_size}; it must be 1 to {}",
                limits::BATCH_EVENTS
            )));
        }
        let batch = options.batch.then_some(batch_size);
        // Many subscriptions of one connection share what a few may have, about.
        let bytes = (bus.config().member_bytes / (self.subscriptions.len() + 1)).max(LEAST_BYTES);
        let corr = corr.clone();
        self.job = match &name.group {
            Some(group) => {
                let ask = Ask {
                    group: group.clone(),
                    name: name.clone(),
                    topics: options.topics,
                    from: options.from,
                    options: options.group,
                    max_in_flight: options.max_in_flight,
                    ack_timeout,
                    bytes,
                    subject: self.subject().map(str::to_owned),
                    own_groups: !self.settings.open_groups
                        && who.is_some_and(|who| !reads.names_group(&who.policy, group)),
                    client_member: options
                        .member
                        .map(|member| client_member_id(self.subject().unwrap_or_default(), member)),
                };
                let policy = who.map(|who| who.policy.clone()).unwrap_or_default();
                if ask.client_member.is_some() {
                    // From now on the session hears of what it is to release.
                    self.alarm.ring();
                }
                let held = options.held.clone().map(|ids| Arc::new(HashSet::from_iter(ids)));
                let member: BoxFuture<'static, Result<Member>> = match self.peer() {
                    Some(hub) => self.open_for(hub, &ask, options.brought.unwrap_or_default()),
                    None => {
                        let opener = Opener { policy, held, recall: self.recall.clone() };
                        Box::pin(Member::open(self.hub.clone(), ask, opener))
                    }
                };
                Some(Box::pin(async move {
                    let feed = member.await.map(|member| Feed::Group(Box::new(member)));
                    let subscribed = Subscribed { name, feed, reads, batch, ack_timeout, held: options.held };
                    Done::Subscribed(corr, Box::new(subscribed))
                }))
            }
            None => {
                if let Some(option) = options.for_group {
                    return Err(Error::bad_request(format!(
                        "{option} is an option of groups; name a group, or leave it out"
                    )));
                }
                let subscribe = match &options.topics {
                    Some(topics) => bus.subscribe_all(&name.topic, topics.iter().map(String::as_str)),
                    None => bus.subscribe(&name.topic),
                };
                let subscribe = subscribe.from(options.from).max_bytes(bytes);
                let subscribe = subscribe.coalesce(options.group.coalesce.unwrap_or_default());
                let subscribe = match self.subject() {
                    Some(subject) => subscribe.on_behalf_of(subject),
                    None => subscribe,
                };
                let subscribe = match options.group.filter {
                    Some(filter) => subscribe.filter(filter),
                    None => subscribe,
                };
                Some(Box::pin(async move {
                    let feed =
                        subscribe.watch().await.map(|watch| Feed::Watch(Watching::Here(Box::new(watch))));
                    let subscribed = Subscribed { name, feed, reads, batch, ack_timeout, held: None };
                    Done::Subscribed(corr, Box::new(subscribed))
                }))
            }
        };
        Ok(())
    }

    fn subscribed(&mut self, corr: &Corr, subscribed: Subscribed) {
        let Subscribed { name, feed, reads, batch, ack_timeout, held } = subscribed;
        let mut feed = match feed {
            Ok(feed) => feed,
            Err(error) => return self.refuse_subscribe(corr, &name, &error),
        };
        // Rights may have changed while it was opened.
        let who = self.who.as_ref();
        if !who.is_some_and(|who| reads.allowed(&who.policy, name.group.as_deref())) {
            if let Feed::Group(feed) = feed {
                feed.close();
            }
            let error = forbidden(Action::Subscribe, &name.topic, name.group.as_deref());
            return self.refuse_subscribe(corr, &name, &error);
        }
        if let (Feed::Group(feed), true) = (&mut feed, who.is_some_and(|who| who.expired.is_some())) {
            feed.rest(true);
        }
        if let Some(live) = &mut self.live
            && let Err(error) = live.subscribe(feed.topics(), &self.settings.limits)
        {
            if let Feed::Group(feed) = feed {
                feed.close();
            }
            return self.refuse_subscribe(corr, &name, &error);
        }
        // Each topic was looked at, and joined.
        self.meter.owe(Work { topics: feed.topics(), groups: feed.topics(), bytes: 0 });
        let message = match (&feed, held) {
            (Feed::Group(member), Some(held)) => {
                let is_held = |id: &&EventId| member.topic_of(**id).is_some();
                self.writer.resumed(corr, &held.iter().filter(is_held).copied().collect::<Vec<_>>())
            }
            _ => self.writer.ok(corr),
        };
        self.subscriptions.add(name, feed, reads, batch, ack_timeout);
        self.send(message);
    }

    fn set_paused(&mut self, corr: &Corr, name: &Name, paused: bool) {
        let Some((at, slot)) = self.subscriptions.named(name) else {
            return self.refuse(corr, &not_subscribed(name));
        };
        slot.paused = paused;
        self.meter.owe(Work::groups(slot.topics));
        if let Feed::Group(feed) = &mut slot.feed {
            feed.rest(paused);
        }
        // A watch that rested has not been looked at.
        self.subscriptions.again(at);
        self.ok(corr);
    }

    // ---- ACK, NACK, MODACK ----

    fn settle<T>(&mut self, of: &Name, id: EventId, act: impl FnOnce(&mut Member) -> Result<T>) -> Result<T> {
        let candidates = self.subscriptions.candidates(of);
        match self.settle_in(&candidates, of, id, act) {
            Some(settled) => settled,
            None if candidates.is_empty() => Err(not_subscribed(of)),
            None => Err(not_held(id)),
        }
    }

    /// Does it to the event where it is held; `None` if it is nowhere.
    fn settle_in<T>(
        &mut self,
        candidates: &[u32],
        of: &Name,
        id: EventId,
        act: impl FnOnce(&mut Member) -> Result<T>,
    ) -> Option<Result<T>> {
        self.subscriptions.settle(candidates, of, id, act)
    }

    /// Answers when it failed, and when an answer was asked for.
    fn settled(&mut self, corr: &Corr, id: EventId, settled: Result<()>) {
        match settled {
            Ok(()) if corr.0.is_some() => {
                let message = self.writer.settled(corr, id);
                self.send(message);
            }
            Ok(()) => {}
            Err(error) => self.refuse(corr, &error),
        }
    }

    fn ack_all(&mut self, corr: &Corr, of: &Name, ids: &[EventId], attempt: Option<u32>) {
        let candidates = self.subscriptions.candidates(of);
        if candidates.is_empty() {
            return self.refuse(corr, &not_subscribed(of));
        }
        let mut unknown = Vec::new();
        for &id in ids {
            let acked = self.settle_in(&candidates, of, id, |feed| feed.ack(id, attempt));
            if !matches!(acked, Some(Ok(()))) {
                unknown.push(id);
            }
        }
        // What was delivered is settled for nothing; what was not is as much work.
        self.meter.owe_alone(Work::groups(unknown.len()));
        let message = match (&corr.0, unknown.is_empty()) {
            (Some(_), _) => self.writer.acked(corr, ids.len() - unknown.len(), &unknown),
            (None, true) => return,
            (None, false) => self.writer.unknown(corr, &some_unknown(unknown.len(), ids.len()), &unknown),
        };
        self.send(message);
    }

    fn return_all(
        &mut self,
        corr: &Corr,
        of: &Name,
        ids: &[EventId],
        attempt: Option<u32>,
        delay_ms: Millis,
    ) {
        if let Err(error) = check_delay("delay_ms", delay_ms) {
            return self.refuse(corr, &error);
        }
        let candidates = self.subscriptions.candidates(of);
        if candidates.is_empty() {
            return self.refuse(corr, &not_subscribed(of));
        }
        // Each goes out again at once, and in the order of the log, whatever order they are named in.
        let mut ids = ids.to_vec();
        ids.sort_by_cached_key(|&id| {
            self.subscriptions.settle(&candidates, of, id, |member| member.seq_of(id)).flatten()
        });
        let mut unknown = Vec::new();
        for &id in &ids {
            let returned = self.settle_in(&candidates, of, id, |feed| feed.give_back(id, attempt, delay_ms));
            if !matches!(returned, Some(Ok(()))) {
                unknown.push(id);
            }
        }
        self.meter.owe_alone(Work::groups(unknown.len()));
        // Another hub asks for no answer: its user has one.
        if self.peer().is_none() || corr.0.is_some() {
            let message = self.writer.returned(corr, ids.len() - unknown.len(), &unknown);
            self.send(message);
        }
    }

    /// Asks for more time. The hub that serves the group may be another one: then its answer is waited for.
    fn extend(&mut self, corr: &Corr, of: &Name, ids: Ids, attempt: Option<u32>, extend_ms: u64) {
        let candidates = self.subscriptions.candidates(of);
        if candidates.is_empty() {
            return self.refuse(corr, &not_subscribed(of));
        }
        let mut later = false;
        let mut extend = |id: EventId| {
            let act = |member: &mut Member| member.extend(id, attempt, extend_ms);
            let extended = self.subscriptions.settle(&candidates, of, id, act);
            let extended = extended.unwrap_or_else(|| Extended::Now(Err(not_held(id))));
            later |= matches!(extended, Extended::Later(_));
            extended
        };
        let asked: Vec<Extended> = match &ids {
            Ids::One(id) => vec![extend(*id)],
            Ids::Several(ids) => ids.iter().map(|&id| extend(id)).collect(),
        };
        let corr = corr.clone();
        if !later {
            let now = |extended| match extended {
                Extended::Now(left) => left,
                Extended::Later(_) => Ok(extend_ms),
            };
            return self.extended(&corr, &ids, extend_ms, asked.into_iter().map(now).collect());
        }
        self.job = Some(Box::pin(async move {
            // All of them are asked at once.
            let answers = asked.into_iter().map(|extended| match extended {
                Extended::Now(left) => Box::pin(std::future::ready(left)),
                Extended::Later(left) => left,
            });
            Done::Extended(corr, ids, extend_ms, join_all(answers).await)
        }));
    }

    fn extended(&mut self, corr: &Corr, ids: &Ids, extend_ms: u64, results: Vec<Result<Millis>>) {
        let ids = match ids {
            Ids::One(_) => {
                let message = match results.into_iter().next().unwrap_or(Ok(extend_ms)) {
                    Ok(_) if corr.0.is_none() => return,
                    Ok(left) => self.writer.extended(corr, left, &[]),
                    Err(error) => self.writer.failed(corr, &error),
                };
                return self.send(message);
            }
            Ids::Several(ids) => ids,
        };
        let (mut unknown, mut least) = (Vec::new(), None);
        for (&id, result) in ids.iter().zip(results) {
            match result {
                Ok(left) => least = Some(least.map_or(left, |least: u64| least.min(left))),
                Err(error) if error.code != Code::UnknownId => return self.refuse(corr, &error),
                Err(_) => unknown.push(id),
            }
        }
        let message = match (&corr.0, least) {
            (Some(_), Some(least)) => self.writer.extended(corr, least, &unknown),
            (Some(_), None) if ids.is_empty() => self.writer.extended(corr, extend_ms, &unknown),
            (None, _) if unknown.is_empty() => return,
            _ => self.writer.unknown(corr, &some_unknown(unknown.len(), ids.len()), &unknown),
        };
        self.send(message);
    }
}

/// What a SUBSCRIBE reads.
fn reads(name: &Name, options: &Options) -> Result<Reads> {
    match &options.topics {
        Some(topics) => {
            let topics = topics.iter().map(|topic| TopicName::readable(topic)).collect::<Result<Vec<_>>>()?;
            if topics.is_empty() {
                return Err(Error::bad_request("topics is empty; name at least one"));
            }
            Ok(Reads::Topics(topics))
        }
        None if name.topic.contains('*') => Pattern::parse(&name.topic).map(Reads::Pattern),
        None => TopicName::readable(&name.topic).map(|topic| Reads::Topics(vec![topic])),
    }
}

fn forbidden(action: Action, topic: &str, group: Option<&str>) -> Error {
    let group = group.map(|group| format!(" with group {}", shown(group))).unwrap_or_default();
    let action = action.as_str();
    let msg = format!(
        "the token does not allow to {action} {}{group}; it needs the scope {action}:{topic:.213}",
        shown(topic)
    );
    Error::new(Code::Forbidden, msg)
}

/// The bus had no room for an event that waited for it, and has none now.
fn no_room() -> Error {
    Error::unavailable("the store does not keep up: the event was not stored, try again later")
}

pub(super) fn not_subscribed(name: &Name) -> Error {
    let msg = format!("this connection has no subscription to {}{}", shown(&name.topic), of_group(name));
    Error::new(Code::NotSubscribed, msg)
}

fn of_group(name: &Name) -> String {
    match &name.group {
        Some(group) => format!(" with group {}", shown(group)),
        None => " without a group".to_owned(),
    }
}

fn not_held(id: EventId) -> Error {
    let msg = format!("event {id} is not held by this subscription: it is settled, or its time ran out");
    Error::unknown_id(msg).with_id(id)
}

fn some_unknown(unknown: usize, all: usize) -> Error {
    Error::unknown_id(format!("{unknown} of {all} events are not held by this subscription"))
}
