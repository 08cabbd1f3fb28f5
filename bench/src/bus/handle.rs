//! The bus through the trait that it shares with clients, beside the bus itself.

use super::hub::{Hub, Memory};
use crate::consume::{Team, drain};
use crate::load::{fill, payload, publish, topic};
use crate::measure::{Cost, Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{EventBus, NewEvent, Ordering, Position};
use hub_proto::{SubscribeOptions, SubscribeRequest};
use std::sync::Arc;
use tokio::task::JoinSet;

/// At least so much of the bus itself.
const SHARE: f64 = 0.9;
/// Publishers at a time.
const PUBLISHERS: [usize; 2] = [1, 64];

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(200_000);
    let mut published: [[Samples; 2]; 2] = Default::default();
    let mut consumed: [Samples; 2] = Default::default();
    for _ in 0..Scale::TURNS {
        for (publishers, [direct, shared]) in PUBLISHERS.into_iter().zip(&mut published) {
            let events = if publishers == 1 { events / 4 } else { events };
            let hub = Hub::open(Memory::Tail).await?;
            direct.push(publish(&hub.bus, &topic(), publishers, events).await?.rate(events));
            hub.bus.stop().await?;
            let hub = Hub::open(Memory::Tail).await?;
            shared.push(publish_shared(&hub, publishers, events).await?.rate(events));
            hub.bus.stop().await?;
        }
        let hub = Hub::open(Memory::Tail).await?;
        let team = Team::join(&hub.bus, &topic(), "direct", 1, Ordering::None).await?.paused();
        fill(&hub.bus, &topic(), events).await?;
        consumed[0].push(drain(vec![team], events).await?.rate(events));
        consumed[1].push(consume_shared(&hub, events).await?.rate(events));
        hub.bus.stop().await?;
    }
    for (publishers, [direct, shared]) in PUBLISHERS.into_iter().zip(&published) {
        let name = format!("handle: {publishers} publishers through EventBus, to the bus itself");
        report.figure(Figure::ratio(name, shared, direct).limit(Limit::AtLeast(SHARE)));
    }
    let figure =
        Figure::ratio("handle: a group through EventBus, to the bus itself", &consumed[1], &consumed[0]);
    report.figure(figure.limit(Limit::AtLeast(SHARE)));
    Ok(())
}

async fn publish_shared(hub: &Hub, publishers: usize, events: usize) -> Result<Cost> {
    let (bus, payload): (Arc<dyn EventBus>, _) = (Arc::new(hub.bus.clone()), payload());
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for publisher in 0..publishers {
        let (bus, payload) = (bus.clone(), payload.clone());
        let share = events / publishers + usize::from(publisher < events % publishers);
        tasks.spawn(async move {
            let topic = topic();
            for _ in 0..share {
                bus.send(NewEvent::new(topic.clone(), payload.clone())).await?;
            }
            Ok::<_, hub_core::Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop())
}

async fn consume_shared(hub: &Hub, events: usize) -> Result<Cost> {
    let bus: Arc<dyn EventBus> = Arc::new(hub.bus.clone());
    let options = SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() };
    let mut member = bus.open(SubscribeRequest::new(&topic(), Some("shared")).options(options)).await?;
    let stopwatch = Stopwatch::start();
    let consuming = tokio::spawn(async move {
        for _ in 0..events {
            member.next_event().await?.ack()?;
        }
        Ok::<_, hub_core::Error>(())
    });
    consuming.await??;
    Ok(stopwatch.stop())
}
