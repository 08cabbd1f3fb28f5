//! The bus as a program sees it, wherever it runs: in this process (`hub_core::Bus`) or behind a socket (`hub_client::Client`).
//!
//! A program that holds an `Arc<dyn EventBus>` moves from one to the other by the line that makes it.
//!
//! | to | take |
//! | --- | --- |
//! | publish values, run handlers | `EventBusExt` in `hub-handler` |
//! | publish events that were put together before | [`Publisher`] |
//! | read events one by one | [`EventBus::open`], which answers an [`EventStream`] of [`Received`] |
//! | settle an event | [`Delivery`] |
//! | provide a bus | [`EventBus`], [`EventSource`], [`Lease`] |

mod delivery;
mod stream;

use futures_core::future::BoxFuture;

use crate::{NewEvent, Receipt, Result, SubscribeRequest};

pub use delivery::{Delivery, Lease};
pub use stream::{EventSource, EventStream, Received};

/// Publishes events.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes an event, and answers when it is stored. The event is put in line when the future is first polled; dropping the future
    /// after that takes nothing back.
    ///
    /// # Errors
    /// What was refused. After `unavailable` the event may be stored or not; the error has its id, and sending it again with that id
    /// is safe.
    fn send(&self, event: NewEvent) -> BoxFuture<'static, Result<Receipt>>;

    /// Publishes several events. Not atomic: each has a result of its own, in the order given.
    fn send_batch(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<Receipt>>> {
        let sending: Vec<_> = events.into_iter().map(|event| self.send(event)).collect();
        Box::pin(async move {
            let mut results = Vec::with_capacity(sending.len());
            for sending in sending {
                results.push(sending.await);
            }
            results
        })
    }

    /// Publishes events that have ids, in this order. Answers for the first ones, and for one at least unless there is none: an error is the
    /// last answer, and nothing behind it was published. A publisher that can send only one at a time answers for the first.
    fn send_in_order(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<Receipt>>> {
        let first = events.into_iter().next().map(|event| self.send(event));
        Box::pin(async move {
            match first {
                Some(first) => vec![first.await],
                None => Vec::new(),
            }
        })
    }

    /// Whether events can be published again after some were refused as unavailable, as far as is known without publishing one.
    fn is_available(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// A bus: publishes events, and opens subscriptions. `hub_handler::EventBusExt` has what programs call.
pub trait EventBus: Publisher {
    /// Opens a subscription, and answers when it has begun.
    ///
    /// # Errors
    /// What was refused.
    fn open(&self, request: SubscribeRequest) -> BoxFuture<'_, Result<EventStream>>;

    /// Another handle to the same bus, for publishing.
    fn publisher(&self) -> std::sync::Arc<dyn Publisher>;

    /// Stops: publishes that are under way are answered, acks are sent or saved, and nothing new is taken.
    ///
    /// # Errors
    /// `unavailable` if that could not be done in time.
    fn stop(&self) -> BoxFuture<'_, Result<()>>;
}
