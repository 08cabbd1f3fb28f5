//! Delivery with an ack per event, out of memory and out of the store. Publishing is no part of it.

use super::place::{Hub, Place};
use crate::consume::{Team, drain};
use crate::load::{fill, topic};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Report};
use anyhow::{Context, Result, ensure};
use hub_core::{Config, Ordering};

const GROUP: &str = "group";
const EVENTS: usize = 200_000;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut memory, mut store) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        memory.push(measure(place, 4 << 30, scale.events(EVENTS)).await?);
        store.push(measure(place, 1, scale.events(EVENTS)).await?);
    }
    report.figure(Figure::new("tail: out of memory", &memory, "events/s"));
    report.figure(Figure::new("tail: out of the store", &store, "events/s"));
    Ok(())
}

async fn measure(place: &Place, tail_bytes: usize, events: usize) -> Result<f64> {
    let hub = Hub::open(place, Config { tail_bytes, ..Config::default() }).await?;
    let topic = topic();
    let team = Team::join(&hub.bus, &topic, GROUP, 1, Ordering::None).await?.paused();
    fill(&hub.bus, &topic, events).await?;
    let cost = drain(vec![team], events).await?;
    let status = hub.bus.group(&topic, GROUP).context("the group is gone")?;
    ensure!(status.floor == events as u64, "the group has settled {} events", status.floor);
    hub.close().await?;
    Ok(cost.rate(events))
}
