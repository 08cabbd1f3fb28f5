//! What is there and does nothing: 10,000 topics, and 1,000 groups whose members wait. Publishing and delivery are measured
//! with and without them; and what they cost when nothing happens at all.
//!
//! Two buses are open at once, one alone and one with the crowd, and take turns for moments: on a busy machine that is what
//! makes their ratio steady. That the crowd itself takes no time from the other bus is what the last figure shows.

use super::hub::{Hub, Memory};
use crate::consume::{Team, drain};
use crate::load::{fill, payload, publish};
use crate::measure::{Cost, Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{Bus, NewEvent, Ordering, TopicName};
use std::time::Duration;
use tokio::task::JoinSet;

const TOPICS: usize = 10_000;
/// Each on a topic of its own, with a member that waits.
const GROUPS: usize = 1_000;
/// Publishers at a time.
const PUBLISHERS: usize = 64;
/// Pairs of measurements before the buses are opened anew, so that they do not grow without end.
const PAIRS: usize = 4;
const GROUP: &str = "group";
/// Long enough for what the crowd did at first to be saved.
const SETTLE: Duration = Duration::from_millis(500);

/// What one side of the pairs gave.
#[derive(Default)]
struct Series {
    published: Rates,
    delivered: Rates,
}

#[derive(Default)]
struct Rates {
    /// Events per second.
    rate: Samples,
    /// Microseconds of processor time per event: steadier than the rate where others use the machine.
    cpu: Samples,
}

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let mut idle = Samples::default();
    let (mut alone, mut crowded) = (Series::default(), Series::default());
    for turn in 0..Scale::TURNS {
        let (bare, full) = (Hub::open(Memory::Tail).await?, Hub::open(Memory::Tail).await?);
        let crowd = gather(&full.bus).await?;
        tokio::time::sleep(SETTLE).await;
        idle.push(rest(scale).await);
        for pair in 0..PAIRS {
            // Who goes first changes: a machine that slows down hits both.
            if (turn + pair) % 2 == 0 {
                alone.add(&bare, pair, scale).await?;
                crowded.add(&full, pair, scale).await?;
            } else {
                crowded.add(&full, pair, scale).await?;
                alone.add(&bare, pair, scale).await?;
            }
        }
        drop(crowd);
        bare.bus.stop().await?;
        full.bus.stop().await?;
    }
    crowded.published.compare("publish", &alone.published, report);
    crowded.delivered.compare("delivery", &alone.delivered, report);
    report.figure(Figure::new("idle: CPU of the crowd", &idle, "ms/s").limit(Limit::AtMost(1.0)));
    Ok(())
}

/// Brings the crowd into being; its members wait as long as the answer lives.
async fn gather(bus: &Bus) -> Result<JoinSet<()>> {
    let name = |at: usize| format!("crowd.topic-{at}");
    let events = (0..TOPICS).map(|at| Ok(NewEvent::new(TopicName::parse(&name(at))?, payload())));
    for receipt in bus.publish_batch(events.collect::<Result<_>>()?).await {
        receipt?;
    }
    let mut members = JoinSet::new();
    for at in 0..GROUPS {
        let mut member = bus.subscribe(&name(at)).group(GROUP).open().await?;
        members.spawn(async move {
            // Nothing comes: the end is an error, or being dropped.
            let _ = member.recv().await;
        });
    }
    Ok(members)
}

/// Does nothing for a while. Answers the milliseconds of processor time that each second took.
async fn rest(scale: Scale) -> f64 {
    let stopwatch = Stopwatch::start();
    tokio::time::sleep(Duration::from_millis(if scale.quick { 500 } else { 3000 })).await;
    let cost = stopwatch.stop();
    cost.cpu.as_secs_f64() * 1000.0 / cost.wall.as_secs_f64()
}

impl Series {
    async fn add(&mut self, hub: &Hub, pair: usize, scale: Scale) -> Result<()> {
        let events = scale.events(50_000);
        let published = TopicName::parse(&format!("published-{pair}"))?;
        self.published.add(publish(&hub.bus, &published, PUBLISHERS, events).await?, events);

        let delivered = TopicName::parse(&format!("delivered-{pair}"))?;
        let team = Team::join(&hub.bus, &delivered, GROUP, 1, Ordering::None).await?.paused();
        fill(&hub.bus, &delivered, events).await?;
        self.delivered.add(drain(vec![team], events).await?, events);
        hub.check_settled(&delivered, GROUP, events)
    }
}

impl Rates {
    fn add(&mut self, cost: Cost, events: usize) {
        self.rate.push(cost.rate(events));
        self.cpu.push(cost.cpu_each(events));
    }

    /// Reports these, beside a crowd, and how they compare with those that were alone.
    fn compare(&self, what: &str, alone: &Self, report: &mut Report) {
        report.figure(Figure::new(format!("idle: {what} beside a crowd"), &self.rate, "events/s"));
        let figure = Figure::ratio(format!("idle: {what}, with to without"), &self.rate, &alone.rate);
        report.figure(figure.limit(Limit::AtLeast(0.85)));
        let name = format!("idle: {what} CPU, with to without");
        report.figure(Figure::ratio(name, &self.cpu, &alone.cpu));
    }
}
