//! How long a durable publish takes while a relaxed topic is under full load, beside how long it takes without.

use super::place::{Hub, Place};
use super::publish::{config, publish};
use crate::load::payload;
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{Bus, TopicName};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use tokio::task::JoinSet;

/// Publishers to the durable topic.
const DURABLE: usize = 16;
/// Publishers to the relaxed topic: so many that more of them bring no more events.
const RELAXED: usize = 256;
/// Durable events of a turn.
const EVENTS: usize = 20_000;
/// The slowest hundredth with the load, against without.
const SLOWER: f64 = 3.0;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut without, mut with): ([Samples; 2], [Samples; 2]) = Default::default();
    let mut load = Samples::default();
    let events = scale.events(EVENTS);
    for _ in 0..Scale::TURNS {
        let hub = Hub::open(place, config()?).await?;
        let durable = TopicName::parse("durable.orders")?;
        let (_, alone) = publish(&hub.bus, &durable, DURABLE, events).await?;
        hub.tape.settle().await;
        let relaxed = Load::start(&hub.bus)?;
        let started = Instant::now();
        let (_, beside) = publish(&hub.bus, &durable, DURABLE, events).await?;
        let wall = started.elapsed();
        load.push(relaxed.stop().await? as f64 / wall.as_secs_f64());
        for (samples, latencies) in [(&mut without, alone), (&mut with, beside)] {
            samples[0].push(latencies.percentile(50.0));
            samples[1].push(latencies.percentile(99.0));
        }
        hub.close().await?;
    }
    report.figure(Figure::new("mixed: the relaxed load", &load, "events/s"));
    report.figure(Figure::new("mixed: durable p50 without it", &without[0], "us"));
    report.figure(Figure::new("mixed: durable p50 with it", &with[0], "us"));
    report.figure(Figure::new("mixed: durable p99 without it", &without[1], "us"));
    report.figure(Figure::new("mixed: durable p99 with it", &with[1], "us"));
    let ratio = Figure::ratio("mixed: durable p99 with to without", &with[1], &without[1]);
    report.figure(ratio.limit(Limit::AtMost(SLOWER)));
    Ok(())
}

/// Publishers to a relaxed topic that go on until they are stopped.
struct Load {
    over: Arc<AtomicBool>,
    published: Arc<AtomicUsize>,
    tasks: JoinSet<Result<(), hub_core::Error>>,
}

impl Load {
    fn start(bus: &Bus) -> Result<Self> {
        let mut load = Self { over: Arc::default(), published: Arc::default(), tasks: JoinSet::new() };
        let topic = TopicName::parse("relaxed.clicks")?;
        for _ in 0..RELAXED {
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
