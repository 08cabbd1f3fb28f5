//! What viewers cost: a scrape of `/metrics` every 5 s and 100 readers of `/events`, at 2,000 events/s, beside the same load without
//! them. The readers follow a topic of their own, as people look at something other than the busiest topic.

use super::client::Answer;
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use crate::wire::{Client, Server, publish, read};
use anyhow::Result;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const READERS: usize = 100;
const PER_SECOND: u64 = 2_000;
const SCRAPE: Duration = Duration::from_secs(5);
/// How long one turn takes.
const TURN: Duration = Duration::from_secs(10);
const TOPIC: &str = "orders.created";
/// Share of a core that viewers may add.
const CORE: f64 = 0.05;
/// The p99 of publishes, to that without viewers.
const P99: f64 = 1.1;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let server = Server::start(place)?;
    let turn = if scale.quick { TURN / 10 } else { TURN };
    let mut publisher = Client::hub(&server.hub()).await?;
    for topic in [TOPIC, "viewed"] {
        publisher.send(publish(topic)).await?;
        publisher.next().await?;
    }
    load(&server, &mut publisher, turn).await?;
    let mut samples: [Samples; 4] = Default::default();
    for _ in 0..Scale::TURNS {
        let (core, p99) = load(&server, &mut publisher, turn).await?;
        let mut viewers = JoinSet::new();
        for _ in 0..READERS {
            let mut answer = Answer::get(server.ops(), "/events?topic=viewed").await?;
            viewers.spawn(async move { while answer.next().await.is_ok_and(|block| !block.is_empty()) {} });
        }
        let ops = server.ops();
        viewers.spawn(async move {
            loop {
                if let Ok(mut answer) = Answer::get(ops, "/metrics").await {
                    let _ = answer.next().await;
                }
                tokio::time::sleep(SCRAPE).await;
            }
        });
        let (with_core, with_p99) = load(&server, &mut publisher, turn).await?;
        viewers.shutdown().await;
        for (samples, value) in samples.iter_mut().zip([core, with_core, p99, with_p99]) {
            samples.push(value);
        }
    }
    let [core, with_core, p99, with_p99] = &samples;
    report.figure(Figure::new("2,000 events/s: cores", core, "cores"));
    report.figure(Figure::new("2,000 events/s with viewers: cores", with_core, "cores"));
    let mut added = Samples::default();
    added.push(with_core.median() - core.median());
    report.figure(Figure::new("viewers add", &added, "cores").limit(Limit::AtMost(CORE)));
    report.figure(Figure::new("publish p99", p99, "us"));
    report.figure(
        Figure::ratio("publish p99 with viewers, to without", with_p99, p99)
            .limited(Some(Limit::AtMost(P99))),
    );
    Ok(())
}

/// Publishes at a steady rate; the cores that the hub takes, and the p99 of the answers in microseconds.
async fn load(server: &Server, publisher: &mut Client, turn: Duration) -> Result<(f64, f64)> {
    let (frame, started, cpu) = (publish(TOPIC), Instant::now(), server.cpu()?);
    let mut latencies = Latencies::default();
    let mut sent = 0;
    while started.elapsed() < turn {
        let due = started + Duration::from_nanos(1_000_000_000 / PER_SECOND) * sent;
        tokio::time::sleep_until(due.into()).await;
        let asked = Instant::now();
        publisher.send(frame.clone()).await?;
        read(&publisher.next().await?)?;
        latencies.extend([asked.elapsed().as_secs_f64() * 1e6]);
        sent += 1;
    }
    let cores = (server.cpu()? - cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    Ok((cores, latencies.percentile(99.0)))
}
