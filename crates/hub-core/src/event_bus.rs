//! The bus as [`hub_proto::bus`] has it: what it has in common with a client of a hub.

use crate::bus::Bus;
use crate::group::delivery::Delivery;
use crate::group::options::GroupRequest;
use crate::publish::Publishing;
use crate::subscribe::{Subscribe, Subscription, Watch, Watched};
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use hub_proto::bus::{EventBus, EventSource, EventStream, Lease, Publisher, Received};
use hub_proto::{NewEvent, Receipt, Result, SubscribeOptions, SubscribeRequest};
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::WaitForCancellationFutureOwned;

impl Publisher for Bus {
    fn send(&self, event: NewEvent) -> BoxFuture<'static, Result<Receipt>> {
        Box::pin(Publishing::new(Cow::Owned(self.clone()), Ok(event)))
    }

    fn send_batch(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<Receipt>>> {
        let bus = self.clone();
        Box::pin(async move { bus.publish_batch(events).await })
    }

    fn send_in_order(&self, events: Vec<NewEvent>) -> BoxFuture<'static, Vec<Result<Receipt>>> {
        let bus = self.clone();
        Box::pin(async move { bus.in_order(events).send().await.results().await })
    }

    fn is_available(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(self.health().unavailable.is_none()))
    }
}

impl EventBus for Bus {
    fn open(&self, request: SubscribeRequest) -> BoxFuture<'_, Result<EventStream>> {
        Box::pin(async move {
            let SubscribeRequest { topic, group, options } = request;
            let subscribe = match options.topics.is_empty() {
                true => self.subscribe(&topic),
                false => self.subscribe_all(&topic, options.topics.iter().map(String::as_str)),
            };
            let subscribe = subscribe.from(options.from.unwrap_or_default());
            match group {
                Some(group) => open_member(self, subscribe, &group, options).await,
                None => open_watch(subscribe, options).await,
            }
        })
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    fn stop(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.stop())
    }
}

async fn open_member(
    bus: &Bus,
    subscribe: Subscribe,
    group: &str,
    options: SubscribeOptions,
) -> Result<EventStream> {
    let SubscribeOptions { filter, ordering, coalesce, max_attempts, max_in_flight, ack_timeout, .. } =
        options;
    let request = GroupRequest { filter, ordering, coalesce, max_attempts };
    let mut member = subscribe.group(group).options(request);
    if let Some(max_in_flight) = max_in_flight {
        member = member.max_in_flight(max_in_flight as usize);
    }
    if let Some(ack_timeout) = ack_timeout {
        member = member.ack_timeout(millis(ack_timeout));
    }
    let subscription = member.open().await?;
    Ok(EventStream::new(Member { subscription, bus: bus.clone(), stopping: None }))
}

async fn open_watch(subscribe: Subscribe, options: SubscribeOptions) -> Result<EventStream> {
    let SubscribeOptions { filter, coalesce, .. } = options;
    let subscribe = match filter {
        Some(filter) => subscribe.filter(filter),
        None => subscribe,
    };
    let watch = subscribe.coalesce(coalesce.unwrap_or_default()).watch().await?;
    Ok(EventStream::new(Watcher { events: events_of(watch), is_paused: false }))
}

/// A time that is too long for the hub is refused by the hub.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A member of a group.
struct Member {
    subscription: Subscription,
    bus: Bus,
    /// Of a member that runs handlers: it takes nothing more when the bus stops.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl EventSource for Member {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Received>> {
        if let Some(stopping) = &mut self.stopping
            && stopping.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(crate::engine::stopped()));
        }
        self.subscription.poll_recv(context).map_ok(|delivery| {
            let event = delivery.event().clone();
            Received::Event(hub_proto::bus::Delivery::leased(event, Arc::new(delivery)))
        })
    }

    fn set_paused(&mut self, paused: bool) -> BoxFuture<'_, Result<()>> {
        match paused {
            true => self.subscription.pause(),
            false => self.subscription.resume(),
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn work(&mut self) -> Option<Box<dyn Send>> {
        let engine = self.bus.engine();
        self.stopping = Some(Box::pin(engine.stopping.clone().cancelled_owned()));
        Some(Box::new(engine.handlers.token()))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.subscription.close();
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Lease for Delivery {
    fn attempt(&self) -> u32 {
        self.attempt()
    }

    fn max_attempts(&self) -> u32 {
        self.max_attempts()
    }

    fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    fn time_left(&self) -> Duration {
        Duration::from_millis(self.group.time_left(self.lease).unwrap_or_default())
    }

    fn ack(&self) -> Result<()> {
        self.ack()
    }

    fn nack(&self, delay: Option<Duration>, reason: &str) -> BoxFuture<'_, Result<()>> {
        let nacked = match delay {
            Some(delay) => self.nack_after(millis(delay), reason),
            None => self.nack(reason),
        };
        Box::pin(std::future::ready(unless_over(nacked)))
    }

    fn give_back(&self, delay: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(unless_over(self.return_after(millis(delay)))))
    }

    fn extend(&self, time: Duration) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(std::future::ready(self.extend(millis(time)).map(Duration::from_millis)))
    }
}

/// If the lease is over, the event comes again anyway.
fn unless_over(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.code == hub_proto::Code::UnknownId => Ok(()),
        result => result,
    }
}

/// A subscription without a group.
struct Watcher {
    events: BoxStream<'static, Result<Received>>,
    is_paused: bool,
}

/// Ends after the first error.
fn events_of(watch: Watch) -> BoxStream<'static, Result<Received>> {
    let events = futures_util::stream::unfold(watch, |mut watch| async move {
        let received = watch.recv().await.map(|watched| match watched {
            Watched::Event(event) => Received::Event(hub_proto::bus::Delivery::watched(event)),
            Watched::Lagged { topic, missed } => Received::Lagged { topic: Some(topic), missed },
        });
        Some((received, watch))
    });
    events.boxed()
}

impl EventSource for Watcher {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Received>> {
        // Who resumes polls again.
        if self.is_paused {
            return Poll::Pending;
        }
        let next = Pin::new(&mut self.events).poll_next(context);
        next.map(|next| next.unwrap_or_else(|| Err(crate::engine::stopped())))
    }

    fn set_paused(&mut self, paused: bool) -> BoxFuture<'_, Result<()>> {
        self.is_paused = paused;
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
