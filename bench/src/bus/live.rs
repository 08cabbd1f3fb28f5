//! Publishing and delivering at the same time, for information: how the two share the machine.

use super::hub::{Hub, Memory};
use crate::consume::{Team, drain};
use crate::load::{publish, topic};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Report};
use anyhow::Result;
use hub_core::Ordering;

/// Publishers at a time.
const PUBLISHERS: usize = 64;
const GROUP: &str = "group";

/// Measures and reports.
pub async fn run(scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(200_000);
    let mut samples = Samples::default();
    for _ in 0..Scale::TURNS {
        let (hub, topic) = (Hub::open(Memory::Tail).await?, topic());
        let team = Team::join(&hub.bus, &topic, GROUP, 1, Ordering::None).await?;
        let (consumed, _) =
            tokio::try_join!(drain(vec![team], events), publish(&hub.bus, &topic, PUBLISHERS, events))?;
        hub.check_settled(&topic, GROUP, events)?;
        samples.push(consumed.rate(events));
        hub.bus.stop().await?;
    }
    let name = format!("live: {PUBLISHERS} publishers to one group");
    report.figure(Figure::new(name, &samples, "events/s"));
    Ok(())
}
