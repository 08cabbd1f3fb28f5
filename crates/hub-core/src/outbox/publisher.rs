//! Where events go.

use crate::Bus;
use futures_core::future::BoxFuture;
use hub_proto::{NewEvent, Result};

/// Somebody who publishes: a hub in this process, or one behind a socket.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes an event that has an id. Answers once it is durable, also if it was there before.
    fn publish(&self, event: NewEvent) -> BoxFuture<'static, Result<()>>;
}

impl Publisher for Bus {
    fn publish(&self, event: NewEvent) -> BoxFuture<'static, Result<()>> {
        let bus = self.clone();
        Box::pin(async move { bus.send(event).await.map(drop) })
    }
}
