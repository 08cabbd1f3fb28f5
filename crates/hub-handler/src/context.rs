//! An event as its handler sees it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hub_proto::bus::{Delivery, Publisher};
use hub_proto::{EventId, PublishOptions, Receipt, Result};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::extension::new_event;

/// An event that is held here: it waits for its handler, or its handler runs.
pub(crate) struct Held {
    /// The first delivery, which the handler sees.
    pub first: Delivery,
    /// The newest delivery, by which it is settled: an event may come again while its handler runs.
    newest: Mutex<Delivery>,
    lost: watch::Sender<bool>,
    /// Its handler has returned without an error.
    is_handled: AtomicBool,
    /// How many events its handler has published.
    published: AtomicU64,
}

impl Held {
    pub fn new(delivery: Delivery) -> Self {
        let (first, newest) = (delivery.clone(), Mutex::new(delivery));
        let (lost, is_handled, published) = Default::default();
        Self { first, newest, lost: watch::Sender::new(lost), is_handled, published }
    }

    pub fn newest(&self) -> Delivery {
        self.newest.lock().clone()
    }

    /// It came again. A lease that was lost is there again, unless the handler that runs was told otherwise.
    pub fn renew(&self, delivery: Delivery, is_running: bool) {
        *self.newest.lock() = delivery;
        if !is_running {
            self.lost.send_replace(false);
        }
    }

    /// The lease is over, and the handler is told.
    pub fn lose(&self) {
        self.lost.send_replace(true);
    }

    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    pub fn handled(&self) {
        self.is_handled.store(true, Relaxed);
    }

    pub fn is_handled(&self) -> bool {
        self.is_handled.load(Relaxed)
    }
}

/// An event as its handler sees it: a [`Delivery`], and what else a handler needs. The event is settled by what the handler returns, but a
/// handler may settle it before.
#[derive(Clone)]
pub struct HandlerContext {
    pub(crate) held: Arc<Held>,
    pub(crate) group: Option<Arc<str>>,
    pub(crate) publisher: Arc<dyn Publisher>,
}

impl HandlerContext {
    /// The group; `None` for a subscription that only watches.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Puts the deadline off until `time` from now, at most 12 hours; never closer than it is. Answers the time left. A handler needs this only
    /// beyond [`HandlerOptions::extend_up_to`](crate::HandlerOptions).
    ///
    /// # Errors
    /// `unknown_id` if the lease is over.
    pub async fn extend(&self, time: Duration) -> Result<Duration> {
        self.held.newest().extend(time).await
    }

    /// Comes when the lease is lost: the event is with another member, or comes again. What the handler does from then on may be done
    /// twice.
    pub async fn lost(&self) {
        // The sender is in `held`.
        let _ = self.held.lost.subscribe().wait_for(|is_lost| *is_lost).await;
    }

    /// Whether the lease is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Publishes a value that follows from this event. Its id is derived from the group, the event, and how many the handler has published
    /// before: a handler that publishes the same values in the same order when it runs again doubles nothing.
    ///
    /// # Errors
    /// As [`EventBusExt::publish`](crate::EventBusExt::publish).
    pub fn publish<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        payload: &T,
    ) -> impl Future<Output = Result<Receipt>> + Send + use<T> {
        self.publish_with(topic, payload, PublishOptions::default())
    }

    /// As [`publish`](Self::publish), with a key or headers.
    ///
    /// # Errors
    /// As [`EventBusExt::publish`](crate::EventBusExt::publish).
    pub fn publish_with<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        payload: &T,
        mut options: PublishOptions,
    ) -> impl Future<Output = Result<Receipt>> + Send + use<T> {
        let event = self.held.first.event();
        let number = self.held.published.fetch_add(1, Relaxed);
        let group = self.group.as_deref().unwrap_or_default();
        options.id.get_or_insert_with(|| EventId::of_effect(group, event.topic(), event.id(), number));
        if options.caused_by.is_empty() {
            options.caused_by.push(event.id());
        }
        let sending = new_event(topic, payload, options).map(|event| self.publisher.send(event));
        async move { sending?.await }
    }
}

impl Deref for HandlerContext {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.held.first
    }
}

impl fmt::Debug for HandlerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerContext")
            .field("delivery", &self.held.first)
            .field("group", &self.group)
            .finish()
    }
}
