//! An event in the making.

use crate::Millis;
use crate::bus::Bus;
use crate::committer::Receipt;
use futures_core::future::BoxFuture;
use hub_proto::{EventId, NewEvent, Payload, PublishOptions, Result, TopicName};

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
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { bus, topic, payload, options } = self;
            bus.send(NewEvent { topic: topic?, payload, options }).await
        })
    }
}
