//! Reading a topic from its beginning, straight from the store: most of it is in sealed segments, all of it in the page
//! cache.

use super::place::{Hub, Place};
use crate::load::{fill, topic};
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::{Result, ensure};
use hub_core::Config;
use hub_core::store::{EventStore, ReadLimit};

/// Events in the topic: several segments.
const EVENTS: usize = 1_000_000;
/// What one read asks for.
const PAGE: ReadLimit = ReadLimit { events: 1024, bytes: 1 << 20 };
/// Events per second.
const RATE: f64 = 5_000_000.0;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (hub, topic, events) = (Hub::open(place, Config::default()).await?, topic(), scale.events(EVENTS));
    fill(&hub.bus, &topic, events).await?;
    hub.tape.settle().await;
    let (mut rate, mut cpu) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        let stopwatch = Stopwatch::start();
        let (mut after, mut bytes) = (0, 0);
        loop {
            let page = hub.store.read(&topic, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            ensure!(page[0].seq() == after + 1, "an event is missing after {after}");
            after = last.seq();
            bytes += page.iter().map(|event| event.payload().len()).sum::<usize>();
        }
        let cost = stopwatch.stop();
        ensure!(after == events as u64 && bytes == events * 200, "not everything was read");
        rate.push(cost.rate(events));
        cpu.push(cost.cpu_each(events));
    }
    report.figure(Figure::new("scan", &rate, "events/s").limit(Limit::AtLeast(RATE)));
    report.figure(Figure::new("scan: CPU per event", &cpu, "us"));
    hub.close().await
}
