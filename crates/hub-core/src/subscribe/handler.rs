//! A handler on a subscription: what it returns decides between ack and nack.

use super::{MemberOptions, SubscribeGroup, Subscription};
use crate::group::delivery::Delivery;
use hub_proto::Result;
use std::fmt::Display;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A handler at work. Dropping this, or the bus, stops it: what it has begun is finished, nothing more is taken.
#[derive(Debug)]
#[must_use = "dropping it stops the handler"]
pub struct Running {
    stop: DropGuard,
    done: CancellationToken,
}

impl Running {
    /// Takes nothing more, waits for what was begun, and leaves the group.
    pub async fn stop(self) {
        drop(self.stop);
        self.done.cancelled().await;
    }

    /// Waits until the handler has come to its end.
    pub async fn done(&self) {
        self.done.cancelled().await;
    }
}

impl SubscribeGroup {
    /// Runs `handler` on every event. `Ok` acks (unless [`manual_ack`](Self::manual_ack) says otherwise), an error or a
    /// panic nacks with its text as the reason.
    ///
    /// Events are handled one after the other unless [`concurrency`](Self::concurrency) says otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hub_core::Error> {
    /// # use hub_core::*; use serde_json::json;
    /// # let bus = Bus::in_memory().await?;
    /// let running = bus.subscribe("jobs").group("workers").max_attempts(3)
    ///     .handler(|job| async move { job.event().decode::<u32>().map(drop) })
    ///     .await?;
    /// bus.publish("jobs", json!(17)).await?;
    /// running.stop().await; // what was begun is finished, nothing more is taken
    /// # bus.stop().await }
    /// ```
    pub async fn handler<H, F, E>(self, handler: H) -> Result<Running>
    where
        H: Fn(Arc<Delivery>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let (engine, options) = (self.engine.clone(), self.member);
        let subscription = self.open().await?;
        let (stop, done) = (engine.stopping.child_token(), CancellationToken::new());
        let running = Running { stop: stop.clone().drop_guard(), done: done.clone() };
        engine.handlers.spawn(async move {
            let _done = done.drop_guard();
            run(subscription, Arc::new(handler), options, stop).await;
        });
        Ok(running)
    }
}

async fn run<H, F, E>(
    mut subscription: Subscription,
    handler: Arc<H>,
    options: MemberOptions,
    stop: CancellationToken,
) where
    H: Fn(Arc<Delivery>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let mut at_work = JoinSet::new();
    loop {
        while at_work.len() >= options.concurrency {
            at_work.join_next().await;
        }
        let delivery = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            delivery = subscription.recv() => match delivery {
                Ok(delivery) => Arc::new(delivery),
                Err(error) => {
                    tracing::warn!(%error, "a handler's subscription ended");
                    break;
                }
            },
        };
        let handler = handler.clone();
        at_work.spawn(async move {
            // In a task of its own, so that a panic is caught.
            let given = delivery.clone();
            let result = tokio::spawn(async move { handler(given).await }).await;
            let settled = match result {
                Ok(Ok(())) if options.manual_ack => return,
                Ok(Ok(())) => delivery.ack(),
                Ok(Err(error)) => delivery.nack(&error.to_string()),
                Err(error) if error.is_panic() => delivery.nack("the handler panicked"),
                Err(_) => return,
            };
            if let Err(error) = settled {
                tracing::debug!(%error, "an event was settled too late");
            }
        });
    }
    while at_work.join_next().await.is_some() {}
    subscription.close();
}
