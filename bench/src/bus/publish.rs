//! Publishing: publishers that wait for their answer before they send the next event, and batches.

use super::hub::{Hub, Memory};
use crate::load::{Events, PUBLISHERS, publish, topic};
use crate::measure::{Cost, Samples, Scale, Stopwatch};
use crate::report::{Figure, Report};
use anyhow::Result;
use hub_core::Bus;

/// Events of a batch.
const BATCH: usize = 100;

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(200_000);
    let mut waiting: [Samples; PUBLISHERS.len()] = Default::default();
    let mut batches = Samples::default();
    for _ in 0..Scale::TURNS {
        for (samples, publishers) in waiting.iter_mut().zip(PUBLISHERS) {
            let hub = Hub::open(Memory::Tail).await?;
            // One publisher alone waits for two thread hops per event.
            let events = if publishers == 1 { events / 4 } else { events };
            samples.push(publish(&hub.bus, &topic(), publishers, events).await?.rate(events));
            hub.bus.stop().await?;
        }
        let hub = Hub::open(Memory::Tail).await?;
        batches.push(publish_batches(&hub.bus, events).await?.rate(events));
        hub.bus.stop().await?;
    }
    for (samples, publishers) in waiting.iter().zip(PUBLISHERS) {
        report.figure(Figure::new(format!("publish: waiting publishers, {publishers}"), samples, "events/s"));
    }
    report.figure(Figure::new(format!("publish: batches of {BATCH}"), &batches, "events/s"));
    Ok(())
}

async fn publish_batches(bus: &Bus, events: usize) -> Result<Cost> {
    let bus = bus.clone();
    // On a worker, as publishers are.
    let publishing = tokio::spawn(async move {
        let mut source = Events::new(topic());
        let batches: Vec<Vec<_>> =
            (0..events / BATCH).map(|_| source.by_ref().take(BATCH).collect()).collect();
        let stopwatch = Stopwatch::start();
        for batch in batches {
            for receipt in bus.publish_batch(batch).await {
                receipt?;
            }
        }
        Ok(stopwatch.stop())
    });
    publishing.await?
}
