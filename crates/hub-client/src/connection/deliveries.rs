//! A subscription of one connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use hub_proto::EventId;

use super::later::Goodbye;
use super::queue::{Arrival, Queue};
use super::{Connection, Outgoing};
use crate::{Name, Result};

/// What a subscription delivers. It keeps its connection open. Dropping it ends the subscription: events in hand go back
/// to the group.
#[must_use = "a subscription that is dropped ends"]
pub struct Deliveries {
    pub(super) queue: Arc<Queue>,
    pub(super) connection: Connection,
    pub(super) resumed: Vec<EventId>,
    /// Whether the hub has to be told when this is dropped.
    pub(super) aloud: bool,
    /// Whether a stream has said how it ended.
    pub(super) told: bool,
}

impl Deliveries {
    /// What it is called.
    pub fn name(&self) -> &Arc<Name> {
        &self.queue.name
    }

    /// The connection that it is on.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What a [member](crate::SubscribeOptions::member) that has come back goes on holding, of what it
    /// [named](crate::SubscribeOptions::held). The leases of the others were lost.
    pub fn resumed(&self) -> &[EventId] {
        &self.resumed
    }

    /// The next event.
    ///
    /// # Errors
    /// Why the subscription has ended: the hub's ERR, or the end of the connection. From then on always the same.
    pub async fn recv(&mut self) -> Result<Arrival> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`Deliveries::recv`], for those who write their own futures.
    ///
    /// # Errors
    /// As [`Deliveries::recv`].
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Arrival>> {
        self.queue.poll_recv(context)
    }

    /// Ends the subscription, and waits until the hub has done so. Acks that were said before are taken before.
    ///
    /// # Errors
    /// What the hub refused, or the end of the connection.
    pub async fn unsubscribe(mut self) -> Result<()> {
        self.aloud = false;
        let corr = self.connection.corr();
        let text = Outgoing::new("UNSUBSCRIBE", Some(corr)).name(&self.queue.name).done();
        let answer = self.connection.ask(text, corr, Some(self.queue.clone())).await?;
        answer.await.map(drop)
    }

    /// Ends it on this side alone: the hub has been told otherwise.
    pub fn detach(mut self) {
        self.aloud = false;
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.queue.leave();
        self.connection.later().leave(Goodbye { queue: self.queue.clone(), aloud: self.aloud });
    }
}

/// Ends after the first error.
impl Stream for Deliveries {
    type Item = Result<Arrival>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.told {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.poll_recv(context));
        self.told = next.is_err();
        Poll::Ready(Some(next))
    }
}
