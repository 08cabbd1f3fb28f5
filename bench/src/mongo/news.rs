//! How long it takes from one hub's answer to a delivery by another.

use super::place::{Hub, Place};
use crate::load::{payload, topic};
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{Config, EventId};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

const RATE: u64 = 500;
/// Microseconds at most, for the middle one.
const MIDDLE: f64 = 5_000.0;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(2_500);
    let (mut p50, mut p99) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        let latencies = turn(place, events).await?;
        p50.push(latencies.percentile(50.0));
        p99.push(latencies.percentile(99.0));
    }
    let figure = Figure::new("OK at one hub to delivery at another: p50", &p50, "us");
    report.figure(figure.limit(Limit::AtMost(MIDDLE)));
    report.figure(Figure::new("OK at one hub to delivery at another: p99", &p99, "us"));
    Ok(())
}

async fn turn(place: &Place, events: usize) -> Result<Latencies> {
    let database = place.fresh();
    let (here, there) =
        (Hub::open(&database, Config::default()).await?, Hub::open(&database, Config::default()).await?);
    let mut member = there.bus.subscribe(&topic()).group("g").open().await?;
    // They know of each other by then.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let receiving = tokio::spawn(async move {
        let mut came: HashMap<EventId, Instant> = HashMap::new();
        while came.len() < events {
            let delivery = member.recv().await?;
            came.insert(delivery.event().id(), Instant::now());
            delivery.ack()?;
        }
        Ok::<_, hub_core::Error>(came)
    });
    let mut answered: Vec<(EventId, Instant)> = Vec::with_capacity(events);
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..events {
        tick.tick().await;
        let (bus, topic, payload) = (here.bus.clone(), topic(), payload());
        under_way.spawn(async move {
            let receipt = bus.publish(&topic, payload).await?;
            Ok::<_, hub_core::Error>((receipt.id, Instant::now()))
        });
    }
    while let Some(done) = under_way.join_next().await {
        answered.push(done??);
    }
    let came = receiving.await??;
    let mut latencies = Latencies::default();
    // One that was delivered before its publisher had its answer took no time.
    latencies.extend(answered.iter().map(|(id, at)| {
        came.get(id).map_or(0.0, |came| came.saturating_duration_since(*at).as_secs_f64() * 1e6)
    }));
    here.bus.stop().await?;
    there.bus.stop().await?;
    Ok(latencies)
}
