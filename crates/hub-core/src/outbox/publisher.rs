//! Where events go.

use crate::Bus;
use futures_core::future::BoxFuture;
use hub_proto::{NewEvent, Result};

/// Somebody who publishes: a hub in this process, or one behind a socket.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes an event that has an id. Answers once it is durable, also if it was there before.
    fn publish(&self, event: NewEvent) -> BoxFuture<'static, Result<()>>;

    /// Publishes events that have ids, in this order. Answers for the first ones, and for one at least: an error is the last
    /// answer, and nothing behind it was published. A publisher that can only do one at a time answers for the first.
    fn publish_in_order(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<()>>> {
        let first = events.into_iter().next().map(|event| self.publish(event));
        Box::pin(async move {
            match first {
                Some(first) => vec![first.await],
                None => Vec::new(),
            }
        })
    }

    /// Whether events can be published again after some were refused as unavailable, as far as is known without
    /// publishing one.
    fn is_available(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }
}

impl Publisher for Bus {
    fn publish(&self, event: NewEvent) -> BoxFuture<'static, Result<()>> {
        let bus = self.clone();
        Box::pin(async move { bus.send(event).await.map(drop) })
    }

    fn publish_in_order(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<()>>> {
        let bus = self.clone();
        Box::pin(async move {
            let receipts = bus.in_order(events).send().await.results().await;
            receipts.into_iter().map(|receipt| receipt.map(drop)).collect()
        })
    }

    fn is_available(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(self.health().unavailable.is_none()))
    }
}
