//! An event in the making.

use crate::Millis;
use crate::bus::Bus;
use crate::committer::Pending;
use crate::engine::Submission;
use futures_core::future::BoxFuture;
use hub_proto::{Error, EventId, NewEvent, Payload, PublishOptions, Receipt, Result, TopicName};
use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An event in the making: made by [`Bus::publish`], published by awaiting it.
#[must_use = "an event is published by awaiting it"]
pub struct Publish<'a> {
    bus: &'a Bus,
    topic: Result<TopicName>,
    payload: Payload,
    options: PublishOptions,
}

impl<'a> Publish<'a> {
    pub(crate) fn new(bus: &'a Bus, topic: &str, payload: Payload) -> Self {
        Self { bus, topic: TopicName::parse(topic), payload, options: PublishOptions::default() }
    }

    /// The event's id; publishing the same id again appends nothing.
    pub fn id(mut self, id: EventId) -> Self {
        self.options.id = Some(id);
        self
    }

    /// The event's timestamp, in milliseconds since the Unix epoch; the hub's clock unless set.
    pub fn ts(mut self, ts: Millis) -> Self {
        self.options.ts = Some(ts);
        self
    }

    /// The entity this is about: for ordering and for the latest state.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.options.tags.push(tag.into());
        self
    }

    /// Names an event that led to this one.
    pub fn caused_by(mut self, id: EventId) -> Self {
        self.options.caused_by.push(id);
        self
    }

    /// The session or boot id of the publisher.
    pub fn sid(mut self, sid: impl Into<String>) -> Self {
        self.options.sid = Some(sid.into());
        self
    }

    /// Everything said about the event at once.
    pub fn options(mut self, options: PublishOptions) -> Self {
        self.options = options;
        self
    }
}

impl<'a> IntoFuture for Publish<'a> {
    type Output = Result<Receipt>;
    type IntoFuture = Publishing<'a>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { bus, topic, payload, options } = self;
        Publishing::new(Cow::Borrowed(bus), topic.map(|topic| NewEvent { topic, payload, options }))
    }
}

/// An event on its way; its receipt, once it is there. The event is put in line when this is first polled.
#[must_use = "an event is published by awaiting it"]
pub struct Publishing<'a> {
    bus: Cow<'a, Bus>,
    state: State,
}

/// No future of an `async` block: those are moved and put into boxes, for every event.
enum State {
    New(Result<NewEvent>),
    Crowded(BoxFuture<'static, Result<Pending>>),
    Queued(Pending),
}

impl<'a> Publishing<'a> {
    pub(crate) fn new(bus: Cow<'a, Bus>, event: Result<NewEvent>) -> Self {
        Self { bus, state: State::New(event) }
    }
}

impl Future for Publishing<'_> {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match &mut self.state {
                State::New(event) => {
                    let over = || Err(Error::internal("a publish was polled after its end"));
                    let event = std::mem::replace(event, over())?;
                    match self.bus.engine().publish(event)? {
                        Submission::Queued(pending) => State::Queued(pending),
                        Submission::Crowded(room) => State::Crowded(room),
                    }
                }
                State::Crowded(room) => State::Queued(ready!(room.as_mut().poll(context))?),
                State::Queued(pending) => return Pin::new(pending).poll(context),
            };
            self.state = next;
        }
    }
}
