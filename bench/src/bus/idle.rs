//! What is there and does nothing: 10,000 topics, and 1,000 groups whose members wait. Publishing and delivery are measured
//! with and without them, in pairs that change their order; and what they cost when nothing happens at all.

use super::Scale;
use super::consume::{Team, drain};
use super::hub::{Hub, Memory, payload, topic};
use super::publish::publish;
use crate::measure::{Samples, Stopwatch};
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
const GROUP: &str = "group";
/// Long enough for what the crowd did at first to be saved.
const SETTLE: Duration = Duration::from_millis(500);

/// What one side of the pairs gave.
#[derive(Default)]
struct Series {
    published: Samples,
    delivered: Samples,
}

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let mut idle = Samples::default();
    let (mut alone, mut crowded) = (Series::default(), Series::default());
    for turn in 0..2 * Scale::TURNS {
        // With, without; without, with; and so on: a machine that slows down hits both.
        let hub = Hub::open(Memory::Tail).await?;
        if matches!(turn % 4, 0 | 3) {
            let crowd = gather(&hub.bus).await?;
            tokio::time::sleep(SETTLE).await;
            idle.push(rest(scale).await);
            crowded.add(&hub, scale).await?;
            drop(crowd);
        } else {
            tokio::time::sleep(SETTLE).await;
            alone.add(&hub, scale).await?;
        }
        hub.bus.stop().await?;
    }
    report.figure(Figure::new("idle: publish beside a crowd", &crowded.published, "events/s"));
    let figure = Figure::ratio("idle: publish, with to without", &crowded.published, &alone.published);
    report.figure(figure.limit(Limit::AtLeast(0.85)));
    report.figure(Figure::new("idle: delivery beside a crowd", &crowded.delivered, "events/s"));
    let figure = Figure::ratio("idle: delivery, with to without", &crowded.delivered, &alone.delivered);
    report.figure(figure.limit(Limit::AtLeast(0.85)));
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
    async fn add(&mut self, hub: &Hub, scale: Scale) -> Result<()> {
        let events = scale.events(200_000);
        let load = TopicName::parse("load")?;
        self.published.push(publish(&hub.bus, &load, PUBLISHERS, events).await?.rate(events));

        let topic = topic();
        let team = Team::join(hub, &topic, GROUP, 1, Ordering::None).await?.paused();
        hub.fill(&topic, events).await?;
        self.delivered.push(drain(vec![team], events).await?.rate(events));
        hub.check_settled(&topic, GROUP, events)
    }
}
