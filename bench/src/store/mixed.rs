//! How long a durable publish takes while a relaxed topic is under full load, beside how long it takes without.

use super::place::{Hub, Place};
use super::publish::{WARM, config, publish};
use crate::load::{fill, payload};
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{Bus, TopicName};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use tokio::task::JoinSet;

/// Publishers to the durable topic.
const DURABLE: usize = 16;
/// Publishers to the relaxed topic: some, and so many that the processors have nothing to spare.
const RELAXED: [usize; 2] = [64, 256];
/// Durable events of a turn.
const EVENTS: usize = 20_000;
/// The slowest hundredth with the load, against without.
const SLOWER: f64 = 3.0;

/// What turns gave.
#[derive(Default)]
struct Series {
    load: Samples,
    p50: Samples,
    p99: Samples,
}

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut without, mut with): (Series, [Series; 2]) = Default::default();
    let events = scale.events(EVENTS);
    for _ in 0..Scale::TURNS {
        let hub = Hub::open(place, config()?).await?;
        let durable = TopicName::parse("durable.orders")?;
        fill(&hub.bus, &TopicName::parse("relaxed.warm")?, WARM).await?;
        hub.tape.settle().await;
        let (_, alone) = publish(&hub.bus, &durable, DURABLE, events).await?;
        without.add(&alone);
        for (series, publishers) in with.iter_mut().zip(RELAXED) {
            hub.tape.settle().await;
            let relaxed = Load::start(&hub.bus, publishers)?;
            let started = Instant::now();
            let (_, beside) = publish(&hub.bus, &durable, DURABLE, events).await?;
            let wall = started.elapsed();
            series.load.push(relaxed.stop().await? as f64 / wall.as_secs_f64());
            series.add(&beside);
        }
        hub.close().await?;
    }
    report.figure(Figure::new("mixed: durable p50 alone", &without.p50, "us"));
    report.figure(Figure::new("mixed: durable p99 alone", &without.p99, "us"));
    for (series, publishers) in with.iter().zip(RELAXED) {
        let name = |what: &str| format!("mixed, {publishers} relaxed: {what}");
        report.figure(Figure::new(name("the load"), &series.load, "events/s"));
        report.figure(Figure::new(name("durable p50"), &series.p50, "us"));
        report.figure(Figure::new(name("durable p99"), &series.p99, "us"));
        let ratio = Figure::ratio(name("durable p99 to alone"), &series.p99, &without.p99);
        report.figure(ratio.limit(Limit::AtMost(SLOWER)));
    }
    Ok(())
}

impl Series {
    fn add(&mut self, latencies: &Latencies) {
        self.p50.push(latencies.percentile(50.0));
        self.p99.push(latencies.percentile(99.0));
    }
}

/// Publishers to a relaxed topic that go on until they are stopped.
struct Load {
    over: Arc<AtomicBool>,
    published: Arc<AtomicUsize>,
    tasks: JoinSet<Result<(), hub_core::Error>>,
}

impl Load {
    fn start(bus: &Bus, publishers: usize) -> Result<Self> {
        let mut load = Self { over: Arc::default(), published: Arc::default(), tasks: JoinSet::new() };
        let topic = TopicName::parse("relaxed.clicks")?;
        for _ in 0..publishers {
            let (bus, topic, payload) = (bus.clone(), topic.clone(), payload());
            let (over, published) = (load.over.clone(), load.published.clone());
            load.tasks.spawn(async move {
                while !over.load(Relaxed) {
                    bus.publish(&topic, payload.clone()).await?;
                    published.fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        Ok(load)
    }

    /// How many events there were.
    async fn stop(mut self) -> Result<usize> {
        self.over.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(self.published.load(Relaxed))
    }
}
