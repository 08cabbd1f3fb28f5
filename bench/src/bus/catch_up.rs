//! Delivery to a group that is far behind: events are read from the store, beside the same out of memory.

use super::hub::{Hub, Memory};
use crate::consume::{Team, drain};
use crate::load::{fill, topic};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Report};
use anyhow::{Result, ensure};
use hub_core::Ordering;

const GROUP: &str = "group";

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(200_000);
    let (mut behind, mut beside) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        behind.push(measure(Memory::Store, events).await?);
        beside.push(measure(Memory::Tail, events).await?);
    }
    report.figure(Figure::new("catch-up: out of the store", &behind, "events/s"));
    report.figure(Figure::ratio("catch-up: store to tail", &behind, &beside));
    Ok(())
}

async fn measure(memory: Memory, events: usize) -> Result<f64> {
    let (hub, topic) = (Hub::open(memory).await?, topic());
    let team = Team::join(&hub.bus, &topic, GROUP, 1, Ordering::None).await?.paused();
    fill(&hub.bus, &topic, events).await?;
    let cost = drain(vec![team], events).await?;
    hub.check_settled(&topic, GROUP, events)?;
    let from_store = hub.store_reads()? > 0;
    ensure!(from_store == matches!(memory, Memory::Store), "events came from elsewhere than {memory:?}");
    hub.bus.stop().await?;
    Ok(cost.rate(events))
}
