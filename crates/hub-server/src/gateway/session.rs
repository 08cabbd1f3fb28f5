//! One connection.
//!
//! A session is one task that goes round: what has changed, which deadlines have passed, what came in, what is answered,
//! what is to be delivered; then everything that has come together is written and flushed once. It sleeps until one of
//! them has something.

use super::alarm::Alarm;
use super::answer::Writer;
use super::deadlines::ping_interval;
use super::publishing::{Answer, Publishing};
use super::request::{self, Allowed, Brought, Corr, Ids, Name};
use super::socket::Socket;
use super::subscriptions::{Feed, Reads, Subscriptions};
use crate::Hub;
use crate::acl::Policy;
use crate::auth::{Identity, Rejected};
use crate::connections::{Numbers, OpenConnection};
use crate::edge::{Detachment, Recall, Recalled};
use crate::limits::{From, LiveConnection, Meter, Work};
use crate::net::{ClientCertificate, Seat};
use crate::settings::Settings;
use futures_util::future::BoxFuture;
use hub_core::{Burst, Millis, Sent, SentInOrder, TopicName};
use hub_proto::{Code, Error, EventId, Result};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

/// Bytes of answers and events that wait for the socket. Beyond, nothing more is read or delivered.
pub(super) const OUT_BYTES: usize = 256 << 10;
/// Events of a connection that wait for their commit. Beyond, nothing more is read.
const PUBLISHING: usize = 8192;
/// Requests that are read in one round, before others have their turn.
const ROUND_REQUESTS: usize = 128;
/// The socket's other end has so long to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// When the hub stops, nothing came for so long: then nothing is on its way.
pub(super) const QUIET: Duration = Duration::from_millis(50);
/// When the hub stops, those who go on sending, or do not take their answers, have so long.
pub(super) const LAST_ANSWERS: Duration = Duration::from_millis(1500);
/// When the hub stops and others go on with its groups, members have so long to settle what they have in hand.
pub(super) const LAST_ACKS: Duration = Duration::from_millis(100);
/// A client that is refused so many times more often than it is served has not understood; a large frame counts for several.
const STRIKES: u32 = 1000;
/// A frame that weighs as much as so many events is a large one: about 64 KiB.
const LARGE_FRAME_WEIGHT: u32 = 16;
/// The longest that nothing is read after a large frame was refused.
const MAX_READ_PAUSE: Duration = Duration::from_secs(1);
/// Frames of a client that has not said who it is.
const FRAMES_BEFORE_AUTH: u32 = 32;
/// It has had so long to hear of it.
const HEARING: Duration = Duration::from_secs(1);
/// Deques that were long once are not kept so by a connection that is idle.
const KEPT: usize = 32;

/// See the module.
pub(crate) struct Session {
    pub(super) hub: Hub,
    socket: Socket,
    pub(super) settings: Arc<Settings>,
    /// Brings the next settings.
    pub(super) changed: BoxFuture<'static, Option<watch::Receiver<Arc<Settings>>>>,
    pub(super) draining: BoxFuture<'static, ()>,
    /// Tells it which members have come back through another connection.
    pub(super) recall: Arc<Recall>,
    /// Those members, until they are released.
    pub(super) recalled: Vec<Recalled>,
    /// Another hub was told that its member has come back; it is released at this time.
    pub(super) releases_at: Option<Instant>,
    pub(super) who: Option<Who>,
    /// Where it comes from.
    pub(super) address: Option<SocketAddr>,
    /// What its connection has shown: who it is without a token.
    pub(super) certificate: Option<ClientCertificate>,
    /// Its place among the connections that have not said who they are.
    pub(super) waiting: Option<Seat>,
    /// Frames that came before that.
    frames_before_auth: u32,
    /// Its place among the connections of its address; another hub's takes none.
    pub(super) seat: Option<Seat>,
    /// A large frame was refused for its rate; the next frame is read at this time.
    pub(super) reads_at: Option<Instant>,
    /// Its subject has been sent as many bytes as it may; deliveries go on at this time.
    pub(super) held_until: Option<Instant>,
    /// The topics of a subscription have no bytes left of this second; the first such subscription goes on at this time.
    pub(super) subscription_held_until: Option<Instant>,
    /// Its place among what its subject has open; another hub's takes none.
    pub(super) live: Option<LiveConnection>,
    /// Its place among the open connections, from `AUTH` on.
    pub(super) open: Option<OpenConnection>,
    pub(super) meter: Meter,
    /// Refusals in spite of `rate_limited`, and when those began and were seen last.
    strikes: u32,
    /// What the frame that is carried out weighs, in events: a large one that is refused costs the hub as much as many.
    weight: u32,
    limited: Option<(Instant, Instant)>,
    /// The bus had no room in time; until it has, nobody waits for it again.
    pub(super) crowded: bool,
    pub(super) subscriptions: Subscriptions,
    pub(super) publishing: Publishing,
    /// What was published in this round, to be put in line together.
    pub(super) burst: Burst,
    /// What another hub said that its next member brings along.
    pub(super) brought: Brought,
    /// A request that takes its time; the next one waits for it.
    pub(super) job: Option<BoxFuture<'static, Done>>,
    pub(super) out: VecDeque<Message>,
    pub(super) out_bytes: usize,
    pub(super) writer: Writer,
    /// Something was written since the last flush.
    unflushed: bool,
    /// The socket takes no more at the moment.
    pub(super) blocked: bool,
    pub(super) phase: Phase,
    /// The hub stops, and at this time members leave their groups: other hubs wait for those.
    pub(super) leaves: Option<Instant>,
    /// Nothing is read any more.
    deaf: bool,
    /// The last frame, to be sent when everything before it is answered.
    goodbye: Option<(CloseCode, String)>,
    /// Rung by what happens now and then, so that it is not asked about in every round.
    pub(super) alarm: Alarm,
    pub(super) timer: Pin<Box<Sleep>>,
    pub(super) opened: Instant,
    pub(super) ping_at: Instant,
    /// Something came, or something went out that had been stuck.
    pub(super) heard: bool,
    /// A ping went out since the last look.
    pub(super) pinged: bool,
    /// Pings that nothing came after.
    pub(super) unheard: u32,
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
    /// Nothing more is read; the last frame follows the answers to what was, or comes at this time.
    Ending(Instant),
    /// The last frame is on its way; settling goes on until this time or until the other end closes.
    Closing(Instant),
}

/// What a request that took its time led to.
pub(super) enum Done {
    Identified(Corr, Result<Identity, Rejected>),
    Sent(Corr, Answer, Sent),
    SentInOrder(Corr, Box<InOrderBatch>, SentInOrder),
    Subscribed(Corr, Box<Subscribed>),
    Unsubscribed(Corr),
    Extended(Corr, Ids, u64, Vec<Result<Millis>>),
    Acted(Corr, Result<u64>),
    Listed(Corr, Result<Option<Vec<TopicName>>>),
}

/// A batch whose events were put in line in their order.
pub(super) struct InOrderBatch {
    /// How many events it has.
    pub events: usize,
    /// Why the first event that was not put in line could not be.
    pub refused: Option<Error>,
}

/// A subscription that was opened.
pub(super) struct Subscribed {
    pub name: Name,
    pub feed: Result<Feed>,
    pub reads: Reads,
    pub batch: Option<usize>,
    pub ack_timeout: Millis,
    /// What the client named that it holds, of a member that it resumes.
    pub held: Option<Vec<EventId>>,
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
pub(super) enum End {
    /// The other end is gone: what it had in hand may be what killed it.
    Gone,
    /// The hub ended it; nobody is to blame.
    Ended,
}

impl Session {
    pub fn new(
        hub: Hub,
        socket: Socket,
        from: From,
        address: Option<SocketAddr>,
        certificate: Option<ClientCertificate>,
        (seat, waiting): (Option<Seat>, Option<Seat>),
    ) -> Self {
        hub.connections().inc();
        let receiver = hub.follow();
        let settings = receiver.borrow().clone();
        let now = Instant::now();
        Self {
            changed: next_settings(receiver),
            draining: Box::pin(hub.draining().clone().cancelled_owned()),
            recall: Arc::default(),
            recalled: Vec::new(),
            releases_at: None,
            who: None,
            address,
            certificate,
            waiting,
            frames_before_auth: 0,
            seat,
            reads_at: None,
            held_until: None,
            subscription_held_until: None,
            live: None,
            open: None,
            brought: Brought::default(),
            meter: Meter::new(hub.buckets(), None, from),
            strikes: 0,
            weight: 1,
            limited: None,
            crowded: false,
            goodbye: None,
            subscriptions: Subscriptions::default(),
            publishing: Publishing::default(),
            burst: hub.bus().burst(),
            job: None,
            out: VecDeque::new(),
            out_bytes: 0,
            writer: Writer::default(),
            unflushed: false,
            blocked: false,
            phase: Phase::Open,
            leaves: None,
            deaf: false,
            alarm: Alarm::default(),
            timer: Box::pin(tokio::time::sleep_until(now)),
            opened: now,
            ping_at: now + ping_interval(&settings),
            heard: true,
            pinged: false,
            unheard: 0,
            settings,
            socket,
            hub,
        }
    }

    /// Until one of the two ends goes.
    pub async fn run(mut self) {
        let end = std::future::poll_fn(|context| self.round(context)).await;
        // Another hub that breaks off says nothing of its users: it has told those that vanished before.
        let (is_gone, is_hub) = (matches!(end, End::Gone), self.peer().is_some());
        let why = self.releases_at.map_or(Detachment::HubLost, |_| Detachment::Recalled);
        for slot in self.subscriptions.take_all() {
            match slot.feed {
                Feed::Group(feed) if is_gone && is_hub => feed.detach(why),
                Feed::Group(feed) if is_gone => feed.vanish(),
                Feed::Group(feed) if is_hub => feed.close(),
                Feed::Group(feed) => feed.suspend(),
                Feed::Watch(_) => {}
            }
        }
    }

    fn round(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.alarm.is_ringing(context)
            && let Poll::Ready(end) = self.rare()
        {
            return Poll::Ready(end);
        }
        let read = self.requests(context);
        self.send_burst();
        let read = match read {
            Ok(read) => read,
            Err(end) => return Poll::Ready(end),
        };
        if read != Read::More {
            self.release_recalled();
        }
        while self.out_bytes < OUT_BYTES
            && let Poll::Ready(Some(message)) = self.publishing.poll_next(&mut self.writer, context)
        {
            self.send(message);
        }
        // A socket that takes no more holds up the deliveries, too.
        let mut held_up = self.blocked || self.out_bytes >= OUT_BYTES;
        held_up |= self.delivers() && self.deliver(context);
        if matches!(self.phase, Phase::Ending(_)) && self.publishing.is_empty() && self.job.is_none() {
            self.say_goodbye();
        }
        if self.write(context).is_err() {
            return Poll::Ready(self.end());
        }
        self.show();
        // Known only now: the socket may have become full a moment ago.
        if !self.delivers() && self.tend(context) {
            context.waker().wake_by_ref();
        }
        // Whoever stopped for want of room has left nobody to wake it.
        let goes_on = match read {
            Read::More => true,
            Read::NoRoom => self.may_write() && (held_up || self.may_publish()),
            Read::Waits => held_up && self.may_write(),
        };
        if goes_on {
            context.waker().wake_by_ref();
        } else if self.out.is_empty() {
            self.writer.rest();
            self.out.shrink_to(KEPT);
            self.publishing.rest();
        }
        Poll::Pending
    }

    /// Writes the numbers that `GET /connections` shows.
    fn show(&self) {
        if let Some(open) = &self.open {
            open.set(Numbers {
                subscriptions: self.subscriptions.len(),
                in_flight: self.subscriptions.in_flight(),
                queued_bytes: self.out_bytes + self.socket.queued(),
                sent_bytes: self.socket.written(),
            });
        }
    }

    /// Whether there is room for another frame.
    fn may_write(&self) -> bool {
        self.out_bytes < OUT_BYTES && !self.blocked
    }

    /// Whether there is room for another publish.
    fn may_publish(&self) -> bool {
        self.publishing.events() < PUBLISHING
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
            if self.deaf || (self.reads_at.is_some() && self.phase == Phase::Open) {
                return Ok(Read::Waits);
            }
            // Acks are read from one who does not take its events; they need no answer.
            if self.out_bytes >= OUT_BYTES || !self.may_publish() {
                return Ok(Read::NoRoom);
            }
            match self.socket.poll_next(context) {
                Poll::Ready(Some(Ok(message))) => self.hear(message),
                Poll::Ready(Some(Err(error))) => {
                    let Some((code, reason)) = self.broken(&error) else { return Err(self.end()) };
                    // What follows cannot be told apart from the rest of that frame. It stays unread: to hang up at once
                    // would take the last frame away from the other end.
                    self.hang_up(code, reason);
                    return Ok(Read::Waits);
                }
                Poll::Ready(None) => return Err(self.end()),
                Poll::Pending => return Ok(Read::Waits),
            }
        }
        Ok(Read::More)
    }

    /// The other end has gone. While the hub stops, after an expiry and after the last frame that blames nobody.
    fn end(&self) -> End {
        let holds = self.who.as_ref().is_none_or(|who| who.expired.is_none());
        if self.phase == Phase::Open && holds { End::Gone } else { End::Ended }
    }

    /// How to close after a frame that nothing can be read behind; `None` if the connection is gone.
    fn broken(&self, error: &tungstenite::Error) -> Option<(CloseCode, String)> {
        match error {
            tungstenite::Error::Capacity(_) => {
                let limits = &self.settings.limits;
                Some(match self.who {
                    Some(_) => (CloseCode::Size, format!("a frame has at most {} bytes", limits.frame_bytes)),
                    None => {
                        let max = limits.frame_bytes_before_auth();
                        (CloseCode::Size, format!("before AUTH a frame has at most {max} bytes"))
                    }
                })
            }
            tungstenite::Error::Utf8(_) => Some((CloseCode::Invalid, "a text frame is not UTF-8".to_owned())),
            // Not an error of the frame but the way in which connections end.
            tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
            tungstenite::Error::Protocol(error) => {
                Some((CloseCode::Protocol, format!("not a WebSocket frame: {error}")))
            }
            _ => None,
        }
    }

    fn hear(&mut self, message: Message) {
        self.heard = true;
        self.count_before_auth();
        match message {
            Message::Text(text) => {
                let batch_events = self.settings.limits.batch_events;
                let allowed = Allowed { batch_events, peer: self.peer().is_some() };
                let bytes = text.len();
                self.weight = 1 + Work::bytes(bytes).events().min(u64::from(STRIKES)) as u32;
                let (corr, is_publish, request) = request::read(&text.into(), allowed);
                // Whatever it is, it costs something before it is looked at.
                let request = match request {
                    Ok(request) => self.charge_frame(&request, bytes).map(|()| request),
                    Err(error) => Err(self.meter.take_one().err().unwrap_or(error)),
                };
                match &request {
                    _ if self.peer().is_some() => {}
                    Ok(request) if request.settles() => {}
                    Ok(_) => self.meter.owe(Work::bytes(bytes)),
                    Err(_) => self.meter.owe_alone(Work::bytes(bytes)),
                }
                match request {
                    Ok(request) => self.handle(corr, request),
                    Err(error) => self.refuse_one(corr, is_publish, error),
                }
            }
            Message::Binary(_) => {
                let error = Error::bad_request("a binary frame; frames are JSON, as text");
                let error = self.meter.take_one().err().unwrap_or(error);
                self.refuse(&Corr::default(), &error);
            }
            // The socket answers both by itself; after a close it comes to its end.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
        }
    }

    /// A client that has not said who it is has a few frames to do so.
    fn count_before_auth(&mut self) {
        if self.who.is_some() {
            return;
        }
        self.frames_before_auth += 1;
        if self.frames_before_auth > FRAMES_BEFORE_AUTH {
            self.hang_up(CloseCode::Policy, "too many frames before AUTH".to_owned());
        }
    }

    /// The client has said who it is: it may send as much as anybody.
    pub(super) fn admit(&mut self) {
        self.waiting = None;
        self.socket.set_frame_bytes(self.settings.limits.frame_bytes);
    }

    /// Refuses a request. Answers to publishes keep their order.
    pub(super) fn refuse_one(&mut self, corr: Corr, is_publish: bool, error: Error) {
        match is_publish {
            true => {
                self.count(&error);
                self.publishing.push(corr, Answer::Refused(error));
            }
            false => self.refuse(&corr, &error),
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

    /// Counts who is told to slow down and does not: not what was on its way before it could hear of it.
    pub(super) fn count(&mut self, error: &Error) {
        if error.code != Code::RateLimited {
            return;
        }
        let now = Instant::now();
        if self.weight >= LARGE_FRAME_WEIGHT {
            // It was received and read for nothing. To do that again at once would cost more than to carry it out.
            let wait = Duration::from_millis(error.retry_after_ms.unwrap_or(0)).min(MAX_READ_PAUSE);
            self.reads_at = Some(now + wait);
            self.alarm.ring();
        }
        let since = match self.limited {
            Some((since, last)) if now < last + 5 * HEARING => since,
            _ => now,
        };
        self.limited = Some((since, now));
        if now >= since + HEARING {
            self.strikes += self.weight;
            if self.strikes >= STRIKES {
                self.audit_flood(error);
                self.hang_up(CloseCode::Policy, "too many requests in spite of rate_limited".to_owned());
            }
        }
    }

    /// A publish was taken.
    pub(super) fn forgive(&mut self) {
        self.strikes = self.strikes.saturating_sub(1);
    }

    /// Reads nothing more; once everything before it is answered, the last frame goes out.
    pub(super) fn hang_up(&mut self, code: CloseCode, reason: String) {
        if matches!(self.phase, Phase::Ending(_) | Phase::Closing(_)) {
            return;
        }
        (self.deaf, self.goodbye) = (true, Some((code, reason)));
        self.phase = Phase::Ending(Instant::now() + LAST_ANSWERS);
        self.alarm.ring();
    }

    /// Sends the last frame that is waiting.
    pub(super) fn say_goodbye(&mut self) {
        if let Some((code, reason)) = self.goodbye.take() {
            self.close(code, &reason);
        }
    }

    /// Sends the last frame.
    pub(super) fn close(&mut self, code: CloseCode, reason: &str) {
        if matches!(self.phase, Phase::Closing(_)) {
            return;
        }
        self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() })));
        self.phase = Phase::Closing(Instant::now() + GOODBYE);
        self.alarm.ring();
    }

    /// Hands over what has come together, and flushes it.
    fn write(&mut self, context: &Context<'_>) -> Result<(), tungstenite::Error> {
        while let Some(message) = self.out.pop_front() {
            match self.socket.poll_ready(context) {
                Poll::Ready(Ok(())) => {
                    self.out_bytes -= size(&message);
                    self.socket.start_send(message)?;
                    self.unflushed = true;
                    self.heard |= std::mem::take(&mut self.blocked);
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
            let flushed = self.socket.poll_flush(context)?;
            self.unflushed = flushed.is_pending();
        }
        // Who takes what was stuck is there.
        self.heard |= self.blocked && !self.unflushed;
        self.blocked = self.unflushed;
        Ok(())
    }

    // ---- rights ----

    pub(super) fn change(&mut self, mut receiver: watch::Receiver<Arc<Settings>>) {
        self.settings = receiver.borrow_and_update().clone();
        self.changed = next_settings(receiver);
        self.ping_at = self.ping_at.min(Instant::now() + ping_interval(&self.settings));
        if self.who.is_some() {
            self.socket.set_frame_bytes(self.settings.limits.frame_bytes);
        }
        // Deliveries that waited for a rate go by the rate of now.
        self.held_until = None;
        self.subscription_held_until = self.subscriptions.release(None);
        self.check_rights();
    }

    /// Ends the connection if its token was taken back. Its leases go to other members, and count no failure.
    pub(super) fn check_revoked(&mut self) {
        let Some(who) = self.who.as_ref().filter(|_| self.phase == Phase::Open) else { return };
        if let Err(error) = self.hub.check_revoked(&who.identity) {
            self.audit("AUTH", "auth", &error, None, None);
            self.refuse(&Corr::default(), &error);
            self.close(CloseCode::Policy, "the token was revoked");
            for slot in self.subscriptions.take_all() {
                if let Feed::Group(feed) = slot.feed {
                    feed.close();
                }
            }
        }
    }

    /// Works out anew what the identity may do. A right that was lost ends its subscriptions.
    pub(super) fn check_rights(&mut self) {
        self.check_revoked();
        let Some(who) = &mut self.who else { return };
        let policy = self.settings.rules_for(&who.identity);
        if policy == who.policy {
            return;
        }
        (who.policy, who.publishes_to) = (policy, None);
        for name in self.subscriptions.forbidden(&who.policy) {
            let error =
                Error::new(Code::Forbidden, "the right to read this was taken back; nothing was settled");
            self.audit("SUBSCRIBE", "subscribe", &error, Some(&name.topic), name.group.as_deref());
            self.end_subscription(&name, &error);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.connections().dec();
    }
}

fn next_settings(
    mut receiver: watch::Receiver<Arc<Settings>>,
) -> BoxFuture<'static, Option<watch::Receiver<Arc<Settings>>>> {
    Box::pin(async move { receiver.changed().await.is_ok().then_some(receiver) })
}

/// About what a message takes.
pub(super) fn size(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len() + 16,
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len() + 16,
        Message::Close(_) | Message::Frame(_) => 64,
    }
}
