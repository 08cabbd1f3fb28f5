//! Running a function on every event of a subscription.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use hub_proto::bus::EventBus;
use hub_proto::{Error, Ordering, Result, SubscribeRequest};
use tokio::sync::watch;

use crate::HandlerContext;
use crate::runner::Runner;

/// Events that are here for each handler at work, so that the next ones need not be waited for, and other members of the group still get
/// theirs.
const HELD_PER_HANDLER: usize = 4;
/// For how long what is held is extended, unless set.
const EXTEND_UP_TO: Duration = Duration::from_secs(600);

/// How a handler is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerOptions {
    /// How many events are handled at once; 1 unless set. With [`Ordering::Key`] events of one key are handled one after the other
    /// whatever this is.
    pub concurrency: usize,
    /// For how long in all the lease of an event is extended, while it waits and while its handler runs; 10 minutes unless set, zero for
    /// never.
    pub extend_up_to: Duration,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { concurrency: 1, extend_up_to: EXTEND_UP_TO }
    }
}

/// A handler at work. Dropping this stops it: what was begun is finished, nothing more is taken.
#[derive(Debug)]
#[must_use = "dropping it stops the handler"]
pub struct Running {
    stop: watch::Sender<bool>,
    /// How it ended.
    ended: watch::Receiver<Option<Result<()>>>,
}

impl Running {
    /// Takes nothing more, waits for the handlers that were begun, and leaves the group.
    ///
    /// # Errors
    /// As [`done`](Self::done).
    pub async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        self.done().await
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Why the subscription is over, if nobody asked for it.
    pub async fn done(&self) -> Result<()> {
        let cut_off = || Error::unavailable("the runtime has ended");
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await;
        ended.map_or_else(|_| Err(cut_off()), |ended| ended.clone().unwrap_or_else(|| Err(cut_off())))
    }
}

/// Opens the subscription, and starts a task that runs the handler on its events.
pub(crate) async fn start<B, H, F, E>(
    bus: &B,
    mut request: SubscribeRequest,
    options: HandlerOptions,
    handler: H,
) -> Result<Running>
where
    B: EventBus + ?Sized,
    H: Fn(HandlerContext) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let HandlerOptions { concurrency, extend_up_to } = options;
    if concurrency == 0 {
        return Err(Error::bad_request("concurrency is 0; it must be at least 1"));
    }
    let held = concurrency.saturating_mul(HELD_PER_HANDLER);
    if request.group.is_some() {
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        request.options.max_in_flight.get_or_insert(held.min(100_000));
    }
    let is_keyed = request.options.ordering == Some(Ordering::Key) || request.options.coalesce == Some(true);
    let group = request.group.as_deref().map(Arc::from);
    let publisher = bus.publisher();
    let stream = bus.open(request).await?;
    let (stop, stopping) = watch::channel(false);
    let (end, ended) = watch::channel(None);
    let mut runner =
        Runner::new(stream, handler, publisher, group, concurrency, held, extend_up_to, is_keyed);
    tokio::spawn(async move {
        let result = runner.run(stopping).await;
        end.send_replace(Some(result));
    });
    Ok(Running { stop, ended })
}
