//! The client as [`hub_proto::bus`] has it: what it has in common with a bus in this process.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hub_proto::bus::{Delivery, EventBus, EventSource, EventStream, Lease, Publisher, Received};
use hub_proto::{NewEvent, SubscribeRequest, TopicName};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{Client, Error, ErrorKind, Message, Receipt, Subscription};

impl Publisher for Client {
    fn send(&self, event: NewEvent) -> BoxFuture<'static, hub_proto::Result<Receipt>> {
        let client = self.clone();
        Box::pin(async move {
            let id = event.options.id;
            let publishing = client.submit(event).await.map_err(|error| {
                let error = hub_proto::Error::from(error);
                hub_proto::Error { id: error.id.or(id), ..error }
            })?;
            let id = publishing.id();
            publishing.await.map_err(|error| hub_proto::Error::from(error).with_id(id))
        })
    }

    fn send_batch(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<hub_proto::Result<Receipt>>> {
        let client = self.clone();
        Box::pin(async move {
            let mut publishing = Vec::with_capacity(events.len());
            for event in events {
                publishing.push(client.submit(event).await);
            }
            let mut results = Vec::with_capacity(publishing.len());
            for submitted in publishing {
                results.push(match submitted {
                    Ok(publishing) => {
                        let id = publishing.id();
                        publishing.await.map_err(|error| hub_proto::Error::from(error).with_id(id))
                    }
                    Err(error) => Err(error.into()),
                });
            }
            results
        })
    }

    fn is_available(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(matches!(&*self.state().borrow(), crate::State::Connected)))
    }
}

impl EventBus for Client {
    /// A member of a group has an id, made here if the request has none: it goes on with what it holds when it loses its connection.
    fn open(&self, request: SubscribeRequest) -> BoxFuture<'_, hub_proto::Result<EventStream>> {
        Box::pin(async move {
            let SubscribeRequest { topic, group, mut options } = request;
            if group.is_some() {
                options.member.get_or_insert_with(Uuid::new_v4);
            }
            let subscription = self.subscribe(&topic, group.as_deref(), options).await?;
            let is_member = group.is_some();
            Ok(EventStream::new(Source { subscription, client: self.clone(), is_member, closing: None }))
        })
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    fn stop(&self) -> BoxFuture<'_, hub_proto::Result<()>> {
        Box::pin(async move {
            self.close().await;
            Ok(())
        })
    }
}

struct Source {
    subscription: Subscription,
    client: Client,
    is_member: bool,
    /// Of a member that runs handlers: it takes nothing more when the client closes.
    closing: Option<BoxFuture<'static, ()>>,
}

impl EventSource for Source {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<hub_proto::Result<Received>> {
        if let Some(closing) = &mut self.closing
            && closing.as_mut().poll(context).is_ready()
        {
            let error = Error::new(ErrorKind::Closed, "the client was closed");
            return Poll::Ready(Err(error.into()));
        }
        let received = std::task::ready!(self.subscription.poll_recv(context))?;
        Poll::Ready(Ok(match received {
            crate::Received::Event(message) => {
                let event = Arc::new(message.event().clone());
                Received::Event(match self.is_member {
                    true => Delivery::leased(event, Arc::new(message)),
                    false => Delivery::watched(event),
                })
            }
            crate::Received::Lagged { topic, missed } => {
                Received::Lagged { topic: topic.and_then(|topic| TopicName::readable(&topic).ok()), missed }
            }
        }))
    }

    fn set_paused(&mut self, paused: bool) -> BoxFuture<'_, hub_proto::Result<()>> {
        Box::pin(async move {
            match paused {
                true => self.subscription.pause().await?,
                false => self.subscription.resume().await?,
            }
            Ok(())
        })
    }

    fn work(&mut self) -> Option<Box<dyn Send>> {
        let client = self.client.clone();
        self.closing = Some(Box::pin(async move { client.closing().await }));
        Some(Box::new(self.client.work()))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, hub_proto::Result<()>> {
        Box::pin(async move { Ok(self.subscription.unsubscribe().await?) })
    }
}

impl Lease for Message {
    fn attempt(&self) -> u32 {
        self.attempt()
    }

    fn max_attempts(&self) -> u32 {
        self.max_attempts()
    }

    fn epoch(&self) -> u64 {
        self.epoch()
    }

    fn time_left(&self) -> Duration {
        let until = self.held_until();
        until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default()
    }

    fn ack(&self) -> hub_proto::Result<()> {
        Ok(self.ack()?)
    }

    fn nack(&self, delay: Option<Duration>, reason: &str) -> BoxFuture<'_, hub_proto::Result<()>> {
        let reason = reason.to_owned();
        Box::pin(async move { Ok(self.nack(delay, &reason).await?) })
    }

    fn give_back(&self, delay: Duration) -> BoxFuture<'_, hub_proto::Result<()>> {
        Box::pin(async move { Ok(self.give_back(delay).await?) })
    }

    fn extend(&self, time: Duration) -> BoxFuture<'_, hub_proto::Result<Duration>> {
        Box::pin(async move { Ok(self.extend(time).await?) })
    }
}

/// What no answer came to is `unavailable`: whether it was carried out is not known.
impl From<Error> for hub_proto::Error {
    fn from(error: Error) -> Self {
        if let Some(refusal) = error.refusal() {
            return refusal.clone();
        }
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Usage | ErrorKind::Unsupported => Self::bad_request(text),
            ErrorKind::Token => Self::new(hub_proto::Code::NoToken, text),
            _ => Self::unavailable(text),
        }
    }
}
