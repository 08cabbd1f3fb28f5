//! What programs call on a bus.

use hub_proto::bus::EventBus;
use hub_proto::{NewEvent, Payload, PublishOptions, Receipt, Result, SubscribeRequest, TopicName};
use serde::Serialize;

use crate::HandlerContext;
use crate::running::{self, HandlerOptions, Running};

/// What programs call on any [`EventBus`], also on a `dyn EventBus`.
pub trait EventBusExt: EventBus {
    /// Publishes a value, and answers when it is stored.
    ///
    /// # Errors
    /// What was refused. After `unavailable` the event may be stored or not; the error has its id, and publishing it again with that
    /// id is safe.
    fn publish<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        payload: &T,
    ) -> impl Future<Output = Result<Receipt>> + Send {
        self.publish_with(topic, payload, PublishOptions::default())
    }

    /// Publishes a value with a key, an id, headers.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    fn publish_with<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        payload: &T,
        options: PublishOptions,
    ) -> impl Future<Output = Result<Receipt>> + Send {
        let sending = new_event(topic, payload, options).map(|event| self.send(event));
        async move { sending?.await }
    }

    /// Runs a function on every event of a subscription. `Ok` acks; an error or a panic hands the event back as failed, with its text as
    /// the reason; a [`Failure`](crate::Failure) says when the event comes again, or that it has not failed.
    ///
    /// What is held is extended while it waits and while its handler runs. An event that comes again while its handler still runs
    /// does not start another one.
    ///
    /// # Errors
    /// What was refused; `bad_request` for a concurrency of 0.
    fn handle<H, F, E>(
        &self,
        request: SubscribeRequest,
        options: HandlerOptions,
        handler: H,
    ) -> impl Future<Output = Result<Running>> + Send
    where
        H: Fn(HandlerContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        async move { running::start(self, request, options, handler).await }
    }
}

impl<B: EventBus + ?Sized> EventBusExt for B {}

/// Puts an event together from a value.
pub(crate) fn new_event<T: Serialize + ?Sized>(
    topic: &str,
    payload: &T,
    options: PublishOptions,
) -> Result<NewEvent> {
    Ok(NewEvent::new(TopicName::parse(topic)?, Payload::of(payload)?).with_options(options))
}
