//! What a subscription brings.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::future::BoxFuture;

use super::Delivery;
use crate::{Result, TopicName};

/// What a subscription brings.
#[derive(Clone, Debug)]
pub enum Received {
    /// An event.
    Event(Delivery),
    /// Events that a subscription without a group has missed: it was too slow, or the connection was away.
    Lagged {
        /// The topic they were of, if that is known.
        topic: Option<TopicName>,
        /// How many; 0 if that is not known.
        missed: u64,
    },
}

impl Received {
    /// The event, if it is one.
    pub fn delivery(self) -> Option<Delivery> {
        match self {
            Self::Event(delivery) => Some(delivery),
            Self::Lagged { .. } => None,
        }
    }
}

/// Where a bus gets the events of an [`EventStream`] from.
pub trait EventSource: Send {
    /// The next event. After an error the subscription is over.
    ///
    /// # Errors
    /// Why it is over.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Received>>;

    /// Holds further events back, or lets them come again.
    ///
    /// # Errors
    /// What was refused.
    fn set_paused(&mut self, paused: bool) -> BoxFuture<'_, Result<()>>;

    /// For a consumer that runs handlers: while it holds this, a bus that stops waits for it. From now on the source ends as soon as the
    /// bus begins to stop.
    fn work(&mut self) -> Option<Box<dyn Send>> {
        None
    }

    /// Ends the subscription. What its member holds is given back, and blames nobody.
    ///
    /// # Errors
    /// What was refused.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// The events of a subscription. Dropping it ends the subscription like a lost connection: what its member holds comes again.
#[must_use = "a subscription that is dropped ends"]
pub struct EventStream {
    source: Box<dyn EventSource>,
    is_over: bool,
}

impl EventStream {
    /// The events of a source.
    pub fn new(source: impl EventSource + 'static) -> Self {
        Self { source: Box::new(source), is_over: false }
    }

    /// The next event; waits for one. Cancel safe.
    ///
    /// # Errors
    /// Why the subscription is over: the group was deleted, a right was lost, the bus has stopped.
    pub async fn recv(&mut self) -> Result<Received> {
        std::future::poll_fn(|context| self.source.poll_next(context)).await
    }

    /// The next event; passes over what says that some were missed. For members of groups, which miss none.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn next_event(&mut self) -> Result<Delivery> {
        loop {
            if let Received::Event(delivery) = self.recv().await? {
                return Ok(delivery);
            }
        }
    }

    /// Holds further events back; what is held stays held.
    ///
    /// # Errors
    /// What was refused.
    pub async fn pause(&mut self) -> Result<()> {
        self.source.set_paused(true).await
    }

    /// Lets them come again.
    ///
    /// # Errors
    /// What was refused.
    pub async fn resume(&mut self) -> Result<()> {
        self.source.set_paused(false).await
    }

    /// See [`EventSource::work`].
    pub fn work(&mut self) -> Option<Box<dyn Send>> {
        self.source.work()
    }

    /// Ends the subscription. Acks that were said before count; what is still held is given back, and blames nobody.
    ///
    /// # Errors
    /// What was refused.
    pub async fn close(self) -> Result<()> {
        self.source.close().await
    }
}

/// Ends after the first error.
impl Stream for EventStream {
    type Item = Result<Received>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.source.poll_next(context).map(|next| {
            self.is_over = next.is_err();
            Some(next)
        })
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
