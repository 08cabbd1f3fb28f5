//! What viewers cost: a scrape of `/metrics` every 5 s and 100 readers of `/events`, at 2,000 events/s, beside the same load without
//! them. The readers follow a topic of their own, and then the busy one. They run on a thread of their own: what is measured is how
//! long the hub takes to answer the publisher, not how long the publisher waits behind readers of its own process.

use super::client::Answer;
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use crate::wire::{Client, Server, publish, read};
use anyhow::Result;
use std::time::{Duration, Instant};
use tokio::runtime::{self, Runtime};

const READERS: usize = 100;
const PER_SECOND: u64 = 2_000;
const SCRAPE: Duration = Duration::from_secs(5);
/// How long one turn takes.
const TURN: Duration = Duration::from_secs(10);
const TOPIC: &str = "orders.created";
/// What viewers follow.
const VIEWED: [&str; 2] = ["viewed", TOPIC];
/// Share of a core that viewers may add.
const CORE: f64 = 0.05;
/// The p99 of publishes, to that without viewers.
const P99: f64 = 1.1;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let server = Server::start(place)?;
    let turn = if scale.quick { TURN / 10 } else { TURN };
    let mut publisher = Client::hub(&server.hub()).await?;
    for topic in VIEWED {
        publisher.send(publish(topic)).await?;
        publisher.next().await?;
    }
    load(&server, &mut publisher, turn).await?;
    let mut without: [Samples; 2] = Default::default();
    let mut with: [[Samples; 2]; 2] = Default::default();
    for _ in 0..Scale::TURNS {
        add(&mut without, load(&server, &mut publisher, turn).await?);
        for (samples, topic) in with.iter_mut().zip(VIEWED) {
            let viewers = view(&server, topic).await?;
            let figures = load(&server, &mut publisher, turn).await?;
            drop(viewers);
            add(samples, figures);
        }
    }
    let [core, p99] = &without;
    report.figure(Figure::new("2,000 events/s: cores", core, "cores"));
    report.figure(Figure::new("publish p99", p99, "us"));
    for ([with_core, with_p99], which) in with.iter().zip(["a quiet topic", "the busy topic"]) {
        let mut added = Samples::default();
        added.push(with_core.median() - core.median());
        let name = format!("viewers of {which} add");
        report.figure(Figure::new(name, &added, "cores").limit(Limit::AtMost(CORE)));
        let name = format!("publish p99 with viewers of {which}, to without");
        report.figure(Figure::ratio(name, with_p99, p99).limited(Some(Limit::AtMost(P99))));
    }
    Ok(())
}

fn add(samples: &mut [Samples; 2], (cores, p99): (f64, f64)) {
    samples[0].push(cores);
    samples[1].push(p99);
}

/// Readers of a topic and a scraper, on a thread of their own. They end when this is dropped.
struct Viewers(Option<Runtime>);

impl Drop for Viewers {
    fn drop(&mut self) {
        // A runtime must not wait for its tasks on a thread that runs tasks.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn view(server: &Server, topic: &str) -> Result<Viewers> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (viewers, ops) = (runtime.handle().clone(), server.ops());
    let running = Viewers(Some(runtime));
    for _ in 0..READERS {
        let path = format!("/events?topic={topic}");
        let mut answer = viewers.spawn(async move { Answer::get(ops, &path).await }).await??;
        viewers.spawn(async move { while answer.next().await.is_ok_and(|block| !block.is_empty()) {} });
    }
    viewers.spawn(async move {
        loop {
            if let Ok(mut answer) = Answer::get(ops, "/metrics").await {
                let _ = answer.next().await;
            }
            tokio::time::sleep(SCRAPE).await;
        }
    });
    Ok(running)
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
