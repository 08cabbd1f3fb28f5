//! One connection.
//!
//! A session is one task that goes round: what has changed, which deadlines have passed, what came in, what is answered,
//! what is to be delivered; then everything that has come together is written and flushed once. It sleeps until one of
//! them has something.

use super::alarm::Alarm;
use super::answer::{Lease, Writer};
use super::publishing::{Answer, Publishing};
use super::request::{self, Corr, Name};
use super::subscriptions::{Feed, Reads, Subscriptions};
use crate::Hub;
use crate::acl::Policy;
use crate::auth::Identity;
use crate::limits::Meter;
use crate::settings::Settings;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Sink, Stream};
use hub_core::{Millis, TopicName, Watched};
use hub_proto::{Code, Error, Result};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::tungstenite::{self, error::ProtocolError};

/// Bytes of answers and events that wait for the socket. Beyond, nothing more is read or delivered.
pub(super) const OUT_BYTES: usize = 256 << 10;
/// Events of a connection that wait for their commit. Beyond, nothing more is read.
const PUBLISHING: usize = 8192;
/// Requests that are read in one round, before others have their turn.
const ROUND_REQUESTS: usize = 128;
/// Events of one subscription in one round, before another has its turn.
const ROUND_EVENTS: usize = 64;
/// An `EVENTS` ends at about so many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// The socket's other end has so long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// When the hub stops, nothing came for so long: then nothing is on its way.
const QUIET: Duration = Duration::from_millis(50);
/// When the hub stops, those who go on sending, or do not take their answers, have so long.
const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// A client that is refused so many times more often than it is served has not understood.
const STRIKES: u32 = 1000;

/// See the module.
pub(crate) struct Session {
    pub(super) hub: Hub,
    socket: WebSocket,
    pub(super) settings: Arc<Settings>,
    /// Brings the next settings.
    changed: BoxFuture<'static, Option<watch::Receiver<Arc<Settings>>>>,
    draining: BoxFuture<'static, ()>,
    pub(super) who: Option<Who>,
    pub(super) meter: Meter,
    pub(super) strikes: u32,
    pub(super) subscriptions: Subscriptions,
    pub(super) publishing: Publishing,
    /// A request that takes its time; the next one waits for it.
    pub(super) job: Option<BoxFuture<'static, Done>>,
    out: VecDeque<Message>,
    out_bytes: usize,
    pub(super) writer: Writer,
    /// Something was written since the last flush.
    unflushed: bool,
    /// The socket takes no more at the moment.
    blocked: bool,
    pub(super) phase: Phase,
    /// Nothing is read any more.
    deaf: bool,
    /// Rung by what happens now and then, so that it is not asked about in every round.
    pub(super) alarm: Alarm,
    timer: Pin<Box<Sleep>>,
    opened: Instant,
    ping_at: Instant,
    heard: bool,
    /// Pings that nothing came after.
    unheard: u32,
}

/// Who is at the other end.
pub(super) struct Who {
    pub identity: Identity,
    /// What it may do, the hub's own rules included.
    pub policy: Policy,
    /// The last topic that it was allowed to publish to: most publish to one.
    pub publishes_to: Option<TopicName>,
    /// When the token runs out, as far as one can tell: the wall clock may be set meanwhile.
    pub expires: Option<Instant>,
    /// It has run out, and this is when the connection ends unless there is a new one.
    pub expired: Option<Instant>,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The hub stops: what is under way comes to its end, nothing new begins. What the other end has sent before it could
    /// know is answered, too: looked at when `next` comes, and not for longer than `until`.
    Draining {
        next: Instant,
        until: Instant,
    },
    /// The last frame is on its way; settling goes on until this time or until the other end closes.
    Closing(Instant),
}

/// What a request that took its time led to.
pub(super) enum Done {
    Identified(Corr, Result<Identity>),
    Submitted(Corr, Answer),
    Subscribed(Corr, Box<Subscribed>),
}

/// A subscription that was opened.
pub(super) struct Subscribed {
    pub name: Name,
    pub feed: Result<Feed>,
    pub reads: Reads,
    pub batch: Option<usize>,
    pub ack_timeout: Millis,
}

/// Why no more requests were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// There may be more; others have their turn first.
    More,
    /// There is no room for their answers.
    NoRoom,
    /// What is waited for wakes the session.
    Waits,
}

/// How a session came to its end.
enum End {
    /// The other end is gone: what it had in hand may be what killed it.
    Gone,
    /// The hub ended it; nobody is to blame.
    Ended,
}

impl Session {
    pub fn new(hub: Hub, socket: WebSocket) -> Self {
        hub.connections().inc();
        let receiver = hub.follow();
        let settings = receiver.borrow().clone();
        let now = Instant::now();
        Self {
            changed: next_settings(receiver),
            draining: Box::pin(hub.draining().clone().cancelled_owned()),
            who: None,
            meter: Meter::new(hub.buckets(), None),
            strikes: 0,
            subscriptions: Subscriptions::default(),
            publishing: Publishing::default(),
            job: None,
            out: VecDeque::new(),
            out_bytes: 0,
            writer: Writer::default(),
            unflushed: false,
            blocked: false,
            phase: Phase::Open,
            deaf: false,
            alarm: Alarm::default(),
            timer: Box::pin(tokio::time::sleep_until(now)),
            opened: now,
            ping_at: now + ping_interval(&settings),
            heard: true,
            unheard: 0,
            settings,
            socket,
            hub,
        }
    }

    /// Until one of the two ends goes.
    pub async fn run(mut self) {
        let end = std::future::poll_fn(|context| self.round(context)).await;
        for slot in self.subscriptions.take_all() {
            if let (Feed::Group(feed), End::Ended) = (slot.feed, &end) {
                feed.close();
            }
        }
    }

    fn round(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.alarm.is_ringing(context)
            && let Poll::Ready(end) = self.rare()
        {
            return Poll::Ready(end);
        }
        let read = match self.requests(context) {
            Ok(read) => read,
            Err(end) => return Poll::Ready(end),
        };
        while self.out_bytes < OUT_BYTES
            && let Poll::Ready(Some(message)) = self.publishing.poll_next(&mut self.writer, context)
        {
            self.send(message);
        }
        // A socket that takes no more holds up the deliveries, too.
        let was_full = self.blocked || self.out_bytes >= OUT_BYTES;
        let delivered = self.delivers() && self.deliver(context);
        if self.write(context).is_err() {
            return Poll::Ready(End::Gone);
        }
        // Whoever stopped for want of room has left nobody to wake it.
        let waits_for_room = was_full || delivered || read == Read::NoRoom;
        if read == Read::More || waits_for_room && self.has_room() && !self.blocked {
            context.waker().wake_by_ref();
        } else if self.out.is_empty() {
            self.writer.rest();
        }
        Poll::Pending
    }

    /// What happens now and then: other settings, a stop, a deadline.
    fn rare(&mut self) -> Poll<End> {
        let waker = self.alarm.waker();
        let context = &mut Context::from_waker(&waker);
        while let Poll::Ready(next) = self.changed.as_mut().poll(context) {
            match next {
                Some(receiver) => self.change(receiver),
                None => self.changed = Box::pin(std::future::pending()),
            }
        }
        if self.phase == Phase::Open && self.draining.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            self.phase = Phase::Draining { next: now + QUIET, until: now + LAST_ANSWERS };
            self.heard = false;
        }
        self.watch_time(context)
    }

    /// Whether there is room for another answer.
    fn has_room(&self) -> bool {
        self.out_bytes < OUT_BYTES && self.publishing.events() < PUBLISHING
    }

    // ---- reading ----

    /// Carries out requests, one after the other, while there is room for their answers.
    fn requests(&mut self, context: &mut Context<'_>) -> Result<Read, End> {
        for _ in 0..ROUND_REQUESTS {
            if let Some(job) = &mut self.job {
                let Poll::Ready(done) = job.as_mut().poll(context) else { return Ok(Read::Waits) };
                self.job = None;
                self.finish(done);
            }
            if self.deaf {
                return Ok(Read::Waits);
            }
            if !self.has_room() {
                return Ok(Read::NoRoom);
            }
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => self.hear(message),
                Poll::Ready(Some(Err(error))) => {
                    let Some((code, reason)) = self.broken(&error) else { return Err(self.end()) };
                    self.close(code, &reason);
                    // What follows cannot be told apart from the rest of that frame. It stays unread: to hang up at once
                    // would take the last frame away from the other end.
                    self.deaf = true;
                    return Ok(Read::Waits);
                }
                Poll::Ready(None) => return Err(self.end()),
                Poll::Pending => return Ok(Read::Waits),
            }
        }
        Ok(Read::More)
    }

    /// The other end has gone. After the last frame that is what it should do.
    fn end(&self) -> End {
        if matches!(self.phase, Phase::Closing(_)) { End::Ended } else { End::Gone }
    }

    /// How to close after a frame that nothing can be read behind; `None` if the connection is gone.
    fn broken(&self, error: &axum::Error) -> Option<(u16, String)> {
        match cause(error)? {
            tungstenite::Error::Capacity(_) => {
                let max = self.settings.limits.frame_bytes;
                Some((close_code::SIZE, format!("a frame has at most {max} bytes")))
            }
            tungstenite::Error::Utf8(_) => {
                Some((close_code::INVALID, "a text frame is not UTF-8".to_owned()))
            }
            // Not an error of the frame but the way in which connections end.
            tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
            tungstenite::Error::Protocol(error) => {
                Some((close_code::PROTOCOL, format!("not a WebSocket frame: {error}")))
            }
            _ => None,
        }
    }

    fn hear(&mut self, message: Message) {
        self.heard = true;
        match message {
            Message::Text(text) => self.take(&Bytes::from(text)),
            Message::Binary(_) => {
                let error = Error::bad_request("a binary frame; frames are JSON, as text");
                self.refuse(&Corr::default(), &error);
            }
            // The socket answers both by itself; after a close it comes to its end.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
        }
    }

    fn take(&mut self, frame: &Bytes) {
        let (corr, request) = request::read(frame, self.settings.limits.batch_events);
        match request {
            Ok(request) => self.handle(corr, request),
            // A bad frame costs as much as a good one.
            Err(error) => match self.meter.take_one() {
                Ok(()) => self.refuse(&corr, &error),
                Err(limited) => self.refuse(&corr, &limited),
            },
        }
    }

    // ---- answering ----

    pub(super) fn send(&mut self, message: Message) {
        if matches!(self.phase, Phase::Closing(_)) {
            // Nothing may follow the last frame.
            return;
        }
        self.out_bytes += size(&message);
        self.out.push_back(message);
    }

    /// Answers with an error. Whoever is told to slow down, and does not, loses the connection.
    pub(super) fn refuse(&mut self, corr: &Corr, error: &Error) {
        let message = self.writer.failed(corr, error);
        self.send(message);
        self.count(error);
    }

    /// Counts who is told to slow down.
    pub(super) fn count(&mut self, error: &Error) {
        if error.code == Code::RateLimited {
            self.strikes += 1;
            if self.strikes >= STRIKES {
                self.close(close_code::POLICY, "too many requests in spite of rate_limited");
            }
        }
    }

    /// Sends the last frame.
    pub(super) fn close(&mut self, code: u16, reason: &str) {
        if matches!(self.phase, Phase::Closing(_)) {
            return;
        }
        self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() })));
        self.phase = Phase::Closing(Instant::now() + GOODBYE);
        self.alarm.ring();
    }

    /// Hands over what has come together, and flushes it.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), axum::Error> {
        while let Some(message) = self.out.pop_front() {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Ready(Ok(())) => {
                    self.out_bytes -= size(&message);
                    Pin::new(&mut self.socket).start_send(message)?;
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    self.out.push_front(message);
                    self.blocked = true;
                    return Ok(());
                }
            }
        }
        if self.unflushed {
            let flushed = Pin::new(&mut self.socket).poll_flush(context)?;
            self.unflushed = flushed.is_pending();
        }
        self.blocked = self.unflushed;
        Ok(())
    }

    // ---- delivering ----

    fn delivers(&self) -> bool {
        !self.blocked
            && self.phase == Phase::Open
            && self.who.as_ref().is_some_and(|who| who.expired.is_none())
    }

    /// Takes events of those that have some; whether there are more.
    fn deliver(&mut self, context: &mut Context<'_>) -> bool {
        while self.out_bytes < OUT_BYTES {
            let Poll::Ready(at) = self.subscriptions.poll_ready(context) else { return false };
            self.deliver_from(at);
        }
        true
    }

    fn deliver_from(&mut self, at: u32) {
        let Some((slot, waker)) = self.subscriptions.at(at) else { return };
        let context = &mut Context::from_waker(&waker);
        let (writer, out) = (&mut self.writer, &mut self.out);
        // Of an `EVENTS` in the making.
        let (mut events, mut bytes) = (0, 0);
        let mut ended = None;
        let mut taken = 0;
        let most = slot.batch.unwrap_or(ROUND_EVENTS);
        while taken < most && bytes < BATCH_BYTES {
            let (event, lease) = match &mut slot.feed {
                Feed::Group(feed) => match feed.poll_recv(context) {
                    Poll::Ready(Ok(handed)) => {
                        let lease = Lease::of(&handed, slot.ack_timeout);
                        (handed.event, Some(lease))
                    }
                    Poll::Ready(Err(error)) => {
                        ended = Some(error);
                        break;
                    }
                    Poll::Pending => break,
                },
                Feed::Watch(_) if slot.paused => break,
                Feed::Watch(feed) => match feed.poll_next(context) {
                    Poll::Ready(Ok(Watched::Event(event))) => (event, None),
                    Poll::Ready(Ok(Watched::Lagged { topic, missed })) => {
                        if events > 0 {
                            // In its place: behind what came before.
                            self.out_bytes += push(out, writer.end_events());
                            events = 0;
                        }
                        self.out_bytes += push(out, writer.lagged(&slot.name, &topic, missed));
                        continue;
                    }
                    Poll::Ready(Err(error)) => {
                        ended = Some(error);
                        break;
                    }
                    Poll::Pending => break,
                },
            };
            taken += 1;
            bytes += event.json().len();
            if slot.batch.is_none() {
                self.out_bytes += push(out, writer.event(&slot.heading, &event, lease));
            } else {
                if events == 0 {
                    writer.begin_events(&slot.heading, event.json().len());
                }
                writer.add_event(events == 0, &event, lease);
                events += 1;
            }
        }
        if events > 0 {
            self.out_bytes += push(out, writer.end_events());
        }
        let more = taken == most || bytes >= BATCH_BYTES;
        match ended {
            Some(error) => {
                let name = slot.name.clone();
                self.end_subscription(&name, &error);
            }
            None if more => self.subscriptions.again(at),
            None => {}
        }
    }

    /// Ends a subscription that cannot go on. Nothing is settled by that, and nothing counts as failed.
    pub(super) fn end_subscription(&mut self, name: &Name, error: &Error) {
        if let Some(slot) = self.subscriptions.remove(name) {
            if let Feed::Group(feed) = slot.feed {
                feed.close();
            }
            let message = self.writer.ended(name, error);
            self.send(message);
        }
    }

    // ---- rights ----

    fn change(&mut self, mut receiver: watch::Receiver<Arc<Settings>>) {
        self.settings = receiver.borrow_and_update().clone();
        self.changed = next_settings(receiver);
        self.check_rights();
    }

    /// Works out anew what the identity may do. A right that was lost ends its subscriptions.
    pub(super) fn check_rights(&mut self) {
        let Some(who) = &mut self.who else { return };
        who.policy = self.settings.rules_for(&who.identity);
        who.publishes_to = None;
        for name in self.subscriptions.forbidden(&who.policy) {
            let error =
                Error::new(Code::Forbidden, "the right to read this was taken back; nothing was settled");
            self.end_subscription(&name, &error);
        }
    }

    // ---- time ----

    /// Does what is due, and sleeps until something is.
    fn watch_time(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let now = Instant::now();
            let due = self.next_due();
            if due <= now {
                if let Some(end) = self.act(now) {
                    return Poll::Ready(end);
                }
                continue;
            }
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn next_due(&self) -> Instant {
        if let Phase::Closing(next) | Phase::Draining { next, .. } = self.phase {
            return next;
        }
        let own = match &self.who {
            None => Some(self.opened + Duration::from_millis(self.settings.limits.auth_timeout)),
            Some(Who { expired: Some(end), .. }) => Some(*end),
            Some(Who { expires, .. }) => *expires,
        };
        own.map_or(self.ping_at, |own| own.min(self.ping_at))
    }

    /// Something is due.
    fn act(&mut self, now: Instant) -> Option<End> {
        match self.phase {
            Phase::Closing(_) => return Some(End::Ended),
            Phase::Draining { until, .. } => {
                let unanswered = !self.publishing.is_empty();
                let busy = std::mem::take(&mut self.heard) || unanswered || self.job.is_some();
                // A commit that takes its time is waited for as long as the hub waits for its sessions.
                let overdue = now >= until && (!unanswered || self.blocked);
                match busy && !overdue {
                    true => self.phase = Phase::Draining { next: now + QUIET, until },
                    false => self.close(close_code::RESTART, "the hub is stopping; come back in a moment"),
                }
                return None;
            }
            Phase::Open => {}
        }
        match &mut self.who {
            None if now >= self.opened + Duration::from_millis(self.settings.limits.auth_timeout) => {
                let error = Error::new(Code::Unauthorized, "no AUTH came in time");
                self.refuse(&Corr::default(), &error);
                self.close(close_code::POLICY, "no AUTH came in time");
                return None;
            }
            Some(Who { expired: Some(end), .. }) if now >= *end => {
                self.close(close_code::POLICY, "the token has expired");
                return None;
            }
            Some(who) if who.expired.is_none() && who.expires.is_some_and(|expires| now >= expires) => {
                who.expires = runs_out(&who.identity, self.hub.bus().now(), now);
                if who.expires.is_some_and(|expires| now >= expires) {
                    who.expired = Some(now + Duration::from_millis(self.settings.limits.expiry_grace));
                    self.expire();
                }
                return None;
            }
            _ => {}
        }
        if now >= self.ping_at {
            self.ping_at = now + ping_interval(&self.settings);
            self.unheard = if std::mem::take(&mut self.heard) { 0 } else { self.unheard + 1 };
            if self.unheard >= PINGS {
                return Some(End::Gone);
            }
            if !self.blocked {
                self.send(Message::Ping(Bytes::new()));
            }
        }
        None
    }

    /// The token has run out: nothing is delivered, but what is in hand can be settled, and a new token brings it all back.
    fn expire(&mut self) {
        let error = Error::new(Code::TokenExpired, "the token has expired; send AUTH with a new one");
        self.refuse(&Corr::default(), &error);
        for slot in self.subscriptions.iter_mut() {
            if let Feed::Group(feed) = &slot.feed {
                feed.subscription().pause();
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.connections().dec();
    }
}

/// So many pings have to go unanswered.
const PINGS: u32 = 3;

fn ping_interval(settings: &Settings) -> Duration {
    Duration::from_millis((settings.limits.idle_timeout / u64::from(PINGS)).max(1))
}

/// When a token runs out. Looked at again after an hour at most: the wall clock may have been set.
pub(super) fn runs_out(identity: &Identity, wall: Millis, now: Instant) -> Option<Instant> {
    let left = identity.expires?.saturating_sub(wall).min(60 * 60 * 1000);
    Some(now + Duration::from_millis(left))
}

fn next_settings(
    mut receiver: watch::Receiver<Arc<Settings>>,
) -> BoxFuture<'static, Option<watch::Receiver<Arc<Settings>>>> {
    Box::pin(async move { receiver.changed().await.is_ok().then_some(receiver) })
}

fn push(out: &mut VecDeque<Message>, message: Message) -> usize {
    let bytes = size(&message);
    out.push_back(message);
    bytes
}

/// About what a message takes.
fn size(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len() + 16,
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len() + 16,
        Message::Close(_) => 64,
    }
}

/// What the socket's library found, behind what axum made of it.
fn cause(error: &axum::Error) -> Option<&tungstenite::Error> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(cause) = error.downcast_ref() {
            return Some(cause);
        }
        source = error.source();
    }
    None
}
