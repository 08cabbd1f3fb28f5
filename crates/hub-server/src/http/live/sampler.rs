//! One sample a second for all viewers, while there are any.

use super::collector::Collector;
use super::snapshot::Snapshot;
use hub_core::Bus;
use hub_proto::TopicName;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// See the module. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
}

struct Shared {
    /// The newest sample; `None` while nobody watches. Its receivers are the viewers.
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    wake: Notify,
    /// Topics that viewers have asked for by name, with how many of them.
    watched: Mutex<HashMap<TopicName, usize>>,
    /// 1 while samples are taken.
    sampling: Gauge,
    viewers: Gauge,
}

/// The samples, for one viewer.
pub(super) struct Samples {
    newest: watch::Receiver<Option<Arc<Snapshot>>>,
    topic: Option<TopicName>,
    shared: Arc<Shared>,
}

impl Sampler {
    pub fn register(registry: &mut Registry) -> Self {
        let (sampling, viewers) = (Gauge::default(), Gauge::default());
        let help = "1 while the figures of GET /live are sampled, which is while somebody watches";
        registry.register("live_sampling", help, sampling.clone());
        registry.register("live_streams", "Open streams of GET /live", viewers.clone());
        let newest = watch::Sender::new(None);
        let (wake, watched) = (Notify::new(), Mutex::default());
        Self { shared: Arc::new(Shared { newest, wake, watched, sampling, viewers }) }
    }

    /// Has samples taken for as long as the answer is kept, of `topic` in each of them.
    pub(super) fn watch(&self, topic: Option<TopicName>) -> Samples {
        if let Some(topic) = &topic {
            *self.shared.watched.lock().entry(topic.clone()).or_default() += 1;
        }
        self.shared.viewers.inc();
        let newest = self.shared.newest.subscribe();
        self.shared.wake.notify_one();
        Samples { newest, topic, shared: self.shared.clone() }
    }

    /// Takes a sample at each tick while somebody watches, and the first one at once.
    pub async fn run(self, bus: Bus, mut ticks: watch::Receiver<()>) {
        let Shared { newest, wake, watched, sampling, .. } = &*self.shared;
        // One for all times: the places of one sample must not be taken for those of another.
        let mut collector = Collector::new(bus);
        loop {
            while newest.receiver_count() == 0 {
                wake.notified().await;
            }
            sampling.set(1);
            ticks.mark_unchanged();
            newest.send_replace(Some(collector.begin().await));
            while ticks.changed().await.is_ok() {
                if newest.receiver_count() == 0 {
                    break;
                }
                let topics = watched.lock().keys().cloned().collect();
                newest.send_replace(Some(collector.sample(topics).await));
            }
            newest.send_replace(None);
            collector.forget();
            sampling.set(0);
            if ticks.has_changed().is_err() {
                return;
            }
        }
    }
}

impl Samples {
    /// The next sample, which is the newest: those that came meanwhile are passed over. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<Snapshot>> {
        loop {
            self.newest.changed().await.ok()?;
            if let Some(snapshot) = self.newest.borrow_and_update().clone() {
                return Some(snapshot);
            }
        }
    }

    /// The newest sample there is, which [`next`](Self::next) answers as well if it has not yet.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.newest.borrow().clone()
    }

    /// The newest sample there is; waits for the first.
    pub async fn first(&mut self) -> Option<Arc<Snapshot>> {
        let newest = self.newest.wait_for(Option::is_some).await.ok()?;
        newest.clone()
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        self.shared.viewers.dec();
        let Some(topic) = &self.topic else { return };
        let mut watched = self.shared.watched.lock();
        if let Some(count) = watched.get_mut(topic) {
            *count -= 1;
            if *count == 0 {
                watched.remove(topic);
            }
        }
    }
}
