//! A drainer with nothing to do: what it costs, and how fast it is there when a row commits.

use super::databases::Database;
use super::drain::Hub;
use crate::measure::{Latencies, Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::outbox::{Drainer, DrainerOptions, NewRow};
use hub_proto::Payload;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Microseconds at most, for the middle one, where the database wakes the drainer.
const MIDDLE: f64 = 20_000.0;
/// Per cent of a processor, at most.
const IDLE: f64 = 1.0;

/// Measures and reports.
pub async fn run<D: Database>(
    database: &D,
    dir: Option<&Path>,
    scale: Scale,
    report: &mut Report,
) -> Result<()> {
    let (outbox, hub) = (database.fresh().await?, Hub::open(dir).await?);
    let stop = CancellationToken::new();
    let drainer = Drainer::new(outbox.store.clone(), Arc::new(hub.bus.clone()), DrainerOptions::default());
    let running = tokio::spawn(drainer.run(stop.clone()));
    let mut member = hub.bus.subscribe("orders").group("g").open().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut p50, mut p99) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        let mut latencies = Latencies::default();
        for n in 0..scale.events(100) {
            outbox.store.add(vec![NewRow::new("orders", Payload::of(&n)?)]).await?;
            let committed = Instant::now();
            member.recv().await?.ack()?;
            latencies.extend([committed.elapsed().as_secs_f64() * 1e6]);
            // Idle again.
            tokio::time::sleep(Duration::from_millis(5 + (n as u64 * 7) % 50)).await;
        }
        p50.push(latencies.percentile(50.0));
        p99.push(latencies.percentile(99.0));
    }
    let name = D::NAME;
    let limit = D::WAKES.then_some(Limit::AtMost(MIDDLE));
    report.figure(
        Figure::new(format!("{name}: commit to delivered when idle, p50"), &p50, "us").limited(limit),
    );
    report.figure(Figure::new(format!("{name}: commit to delivered when idle, p99"), &p99, "us"));
    let mut idle = Samples::default();
    for _ in 0..3 {
        let watch = Stopwatch::start();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let cost = watch.stop();
        idle.push(cost.cpu.as_secs_f64() / cost.wall.as_secs_f64() * 100.0);
    }
    report.figure(Figure::new(format!("{name}: an idle drainer"), &idle, "%").limit(Limit::AtMost(IDLE)));
    stop.cancel();
    running.await?;
    hub.bus.stop().await?;
    Ok(())
}
