//! Publishers that wait for their answer before they send the next event. Each run is followed by a bare loop that writes
//! and syncs the bytes of its commits in the same sizes: that is the limit.

use super::bare::{Bare, replay};
use super::place::{Hub, Place};
use super::tape::Step;
use crate::load::{PUBLISHERS, fill, payload};
use crate::measure::{Cost, Latencies, Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::{Result, anyhow, ensure};
use hub_core::{Bus, Config, TopicDurability, TopicName, TopicSettings};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Events before the first run: two segments and a bit. From then on a hub does with the memory that it has, for its newest
/// events as for its indexes, and need not ask the system for more.
pub const WARM: usize = 900_000;
/// Events of each run: together they stay within one segment.
const EVENTS: [usize; 4] = [8_000, 40_000, 80_000, 120_000];
/// At least so much of the limit.
const SHARE: [Option<f64>; 4] = [Some(0.75), None, Some(0.7), Some(0.6)];
/// At least so many times the rate of one publisher.
const TIMES: [Option<f64>; 4] = [None, None, Some(12.0), Some(25.0)];
/// The slowest hundredth against the middle, with 64 publishers.
const SLOWEST: f64 = 3.0;

/// What runs with one number of publishers gave.
#[derive(Default)]
struct Series {
    rate: Samples,
    limit: Samples,
    /// Events per sync.
    batch: Samples,
    /// Microseconds of processor time per event, publishers included.
    cpu: Samples,
    /// The share of the time in which the log is being written or synced.
    busy: Samples,
    /// What the disk took, to what it took the bare loop.
    slower: Samples,
    p50: Samples,
    p99: Samples,
    /// The same of the bare loop.
    limit_p50: Samples,
    limit_p99: Samples,
}

/// How safe a topic is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Durable,
    Relaxed,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Durable, Self::Relaxed];

    fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Relaxed => "relaxed",
        }
    }
}

/// A configuration in which topics below `relaxed` are.
pub fn config() -> Result<Config> {
    let relaxed = TopicSettings { durability: TopicDurability::Interval, ..TopicSettings::default() };
    Ok(Config::default().topic("relaxed.**", relaxed)?)
}

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let mut series: [[Series; 4]; 2] = Default::default();
    for _ in 0..Scale::TURNS {
        for (series, kind) in series.iter_mut().zip(Kind::ALL) {
            turn(place, scale, kind, series).await?;
        }
    }
    for (series, kind) in series.iter().zip(Kind::ALL) {
        tell(kind, series, report);
    }
    Ok(())
}

async fn turn(place: &Place, scale: Scale, kind: Kind, series: &mut [Series; 4]) -> Result<()> {
    let hub = Hub::open(place, config()?).await?;
    fill(&hub.bus, &TopicName::parse("relaxed.warm")?, WARM).await?;
    for ((series, publishers), events) in series.iter_mut().zip(PUBLISHERS).zip(EVENTS) {
        let (topic, events) =
            (TopicName::parse(&format!("{}.p{publishers}", kind.name()))?, scale.events(events));
        hub.tape.settle().await;
        hub.tape.cut();
        let (cost, latencies) = publish(&hub.bus, &topic, publishers, events).await?;
        hub.tape.settle().await;
        let (steps, busy) = hub.tape.cut();
        let syncs = steps.iter().filter(|step| **step == Step::Sync).count();
        ensure!(syncs > 0, "nothing was recorded: the limit would be of nothing");
        let directory = hub.directory.path().to_owned();
        // A thread of its own, so that a profile shows it apart.
        let bare =
            std::thread::Builder::new().name("bare".into()).spawn(move || replay(&directory, &steps))?;
        let bare = bare.join().map_err(|_| anyhow!("the bare loop panicked"))??;
        series.add(events, syncs, cost, busy, &latencies, &bare);
    }
    hub.close().await
}

/// `publishers` at a time publish `events` together, each waiting for its answer. What each answer took, too.
pub async fn publish(
    bus: &Bus,
    topic: &TopicName,
    publishers: usize,
    events: usize,
) -> Result<(Cost, Latencies)> {
    let payload = payload();
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for publisher in 0..publishers {
        let (bus, topic, payload) = (bus.clone(), topic.clone(), payload.clone());
        let share = events / publishers + usize::from(publisher < events % publishers);
        tasks.spawn(async move {
            let mut took = Vec::with_capacity(share);
            for _ in 0..share {
                let asked = Instant::now();
                bus.publish(&topic, payload.clone()).await?;
                took.push(asked.elapsed().as_secs_f64() * 1e6);
            }
            Ok::<_, hub_core::Error>(took)
        });
    }
    let mut latencies = Latencies::default();
    while let Some(ended) = tasks.join_next().await {
        latencies.extend(ended??);
    }
    Ok((stopwatch.stop(), latencies))
}

impl Series {
    fn add(
        &mut self,
        events: usize,
        syncs: usize,
        cost: Cost,
        busy: Duration,
        latencies: &Latencies,
        bare: &Bare,
    ) {
        self.cpu.push(cost.cpu_each(events));
        self.busy.push(busy.as_secs_f64() / cost.wall.as_secs_f64());
        self.slower.push(busy.as_secs_f64() / bare.wall.as_secs_f64());
        self.rate.push(cost.rate(events));
        self.limit.push(events as f64 / bare.wall.as_secs_f64());
        self.batch.push(events as f64 / syncs as f64);
        self.p50.push(latencies.percentile(50.0));
        self.p99.push(latencies.percentile(99.0));
        self.limit_p50.push(bare.latencies.percentile(50.0));
        self.limit_p99.push(bare.latencies.percentile(99.0));
    }
}

fn tell(kind: Kind, series: &[Series; 4], report: &mut Report) {
    let alone = &series[0].rate;
    for (at, (series, publishers)) in series.iter().zip(PUBLISHERS).enumerate() {
        let name = |what: &str| format!("{}, {publishers}: {what}", kind.name());
        let (share, times) = match kind {
            Kind::Durable => (SHARE[at], TIMES[at]),
            Kind::Relaxed => (None, None),
        };
        report.figure(Figure::new(name("publish"), &series.rate, "events/s"));
        report.figure(Figure::new(name("bare loop"), &series.limit, "events/s"));
        let figure = Figure::ratio(name("to the bare loop"), &series.rate, &series.limit);
        report.figure(figure.limited(share.map(Limit::AtLeast)));
        if publishers > 1 {
            let figure = Figure::ratio(name("to 1 publisher"), &series.rate, alone);
            report.figure(figure.limited(times.map(Limit::AtLeast)));
        }
        report.figure(Figure::new(name("events per sync"), &series.batch, "events"));
        report.figure(Figure::new(name("CPU per event"), &series.cpu, "us"));
        report.figure(Figure::new(name("time in the disk"), &series.busy, "x"));
        report.figure(Figure::new(name("time in the disk to the bare loop's"), &series.slower, "x"));
        report.figure(Figure::new(name("p50"), &series.p50, "us"));
        report.figure(Figure::new(name("p99"), &series.p99, "us"));
        let held = (kind == Kind::Durable && publishers == 64).then_some(Limit::AtMost(SLOWEST));
        report.figure(Figure::ratio(name("p99 to p50"), &series.p99, &series.p50).limited(held));
        let bare = Figure::ratio(name("p99 to p50 of the bare loop"), &series.limit_p99, &series.limit_p50);
        report.figure(bare);
    }
}
