//! Delivery to a group that is far behind, beside a bare find by the same index.

use super::bare;
use super::place::{Hub, Place};
use crate::consume::{Team, drain};
use crate::load::{fill, topic};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Limit, Report};
use anyhow::Result;
use hub_core::{Config, Ordering};

/// At least so much of the bare find.
const SHARE: f64 = 0.5;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(100_000);
    let database = place.fresh();
    // A tail of nothing: everything is read from the store.
    let hub = Hub::open(&database, Config { tail_bytes: 1, ..Config::default() }).await?;
    fill(&hub.bus, &topic(), events).await?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for turn in 0..Scale::TURNS {
        let team =
            Team::join(&hub.bus, &topic(), &format!("group-{turn}"), 1, Ordering::None).await?.paused();
        ours.push(drain(vec![team], events).await?.rate(events));
        bare.push(bare::find(&database, &topic(), events).await?.rate(events));
    }
    hub.bus.stop().await?;
    report.figure(Figure::new("a group that lags: with an ack per event", &ours, "events/s"));
    report.figure(Figure::new("bare find", &bare, "events/s"));
    report.figure(
        Figure::ratio("a group that lags: to a bare find", &ours, &bare).limit(Limit::AtLeast(SHARE)),
    );
    Ok(())
}
