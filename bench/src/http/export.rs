//! A whole topic by `/export`, without gzip, beside the store's own scan of as many events in this process.

use super::client::Answer;
use crate::load::{fill, topic};
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use crate::store::place::{Hub, Place};
use crate::wire::{Client, Server, publish_batch, read};
use anyhow::{Result, ensure};
use hub_core::Config;
use hub_core::store::{EventStore, ReadLimit};

const EVENTS: usize = 1_000_000;
/// Events that are published at once to fill the topic.
const BATCH: usize = 1_000;
const PAGE: ReadLimit = ReadLimit { events: 1024, bytes: 1 << 20 };
/// At least so much of the scan, or so many events per second, whichever is lower.
const SHARE: f64 = 0.3;
const RATE: f64 = 300_000.0;
/// Anonymous memory that an export may add.
const GROWTH_MIB: f64 = 16.0;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (topic, events) = (topic(), scale.events(EVENTS));
    let store = Hub::open(place, Config::default()).await?;
    fill(&store.bus, &topic, events).await?;
    store.tape.settle().await;
    let server = Server::start(place)?;
    let mut publisher = Client::hub(&server.hub()).await?;
    let frame = publish_batch(&topic, BATCH);
    for _ in 0..events / BATCH {
        publisher.send(frame.clone()).await?;
        read(&publisher.next().await?)?;
    }
    let path = format!("/export?topic={topic}");
    // Once for the memory that every export needs.
    Answer::get(server.ops(), &path).await?.read_lines(b"{\"id\"", events).await?;
    let before = server.anonymous_mib()?;
    let (mut scans, mut exports, mut to_limit) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        let scan = scan(&store, events).await?;
        let stopwatch = Stopwatch::start();
        Answer::get(server.ops(), &path).await?.read_lines(b"{\"id\"", events).await?;
        let export = stopwatch.stop().rate(events);
        scans.push(scan);
        exports.push(export);
        to_limit.push(export / RATE.min(SHARE * scan));
    }
    report.figure(Figure::new("export: the store's own scan", &scans, "events/s"));
    report.figure(Figure::new("export", &exports, "events/s"));
    report.figure(Figure::ratio("export, to the scan", &exports, &scans));
    let name = "export, to 300,000/s or 0.3 of the scan";
    report.figure(Figure::new(name, &to_limit, "x").limit(Limit::AtLeast(1.0)));
    let mut growth = Samples::default();
    growth.push((server.anonymous_mib()? - before).max(0.0));
    report.figure(
        Figure::new("export: memory that seven more exports add", &growth, "MiB")
            .limit(Limit::AtMost(GROWTH_MIB)),
    );
    store.close().await
}

async fn scan(hub: &Hub, events: usize) -> Result<f64> {
    let stopwatch = Stopwatch::start();
    let (topic, mut after) = (topic(), 0);
    while let Some(last) = hub.store.read(&topic, after, PAGE).await?.last() {
        after = last.seq();
    }
    ensure!(after == events as u64, "not everything was read");
    Ok(stopwatch.stop().rate(events))
}
