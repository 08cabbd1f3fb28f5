//! Publishers that wait for their answer, beside a bare loop that inserts the same documents in the same batches; over
//! sockets; and with two hubs on one topic.

use super::bare;
use super::place::{Hub, Place};
use crate::load::{PUBLISHERS, publish, topic};
use crate::measure::{Cost, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::wire::{Server, over_sockets};
use anyhow::{Result, ensure};
use hub_core::Config;

/// Events of each run.
const EVENTS: [usize; 4] = [600, 6_000, 16_000, 30_000];
/// At least so much of the bare loop.
const SHARE: [Option<f64>; 4] = [None, None, Some(0.85), None];
/// Where sockets and two hubs are measured.
const CROWD: usize = 64;
/// At least so much of the bare loop, over sockets.
const WIRE_SHARE: f64 = 0.6;
/// At least so much of one hub, two together.
const TWO_SHARE: f64 = 0.6;

/// What runs with one number of publishers gave.
#[derive(Default)]
struct Series {
    rate: Samples,
    bare: Samples,
    batch: Samples,
}

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let mut series: [Series; 4] = Default::default();
    let (mut wire, mut two) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        for (at, publishers) in PUBLISHERS.into_iter().enumerate() {
            let events = scale.events(EVENTS[at]);
            turn(place, publishers, events, &mut series[at]).await?;
            if publishers == CROWD {
                wire.push(sockets(place, events).await?.rate(events));
                two.push(together(place, events).await?.rate(events));
            }
        }
    }
    for (at, publishers) in PUBLISHERS.into_iter().enumerate() {
        let name = |what: &str| format!("{publishers} publishers: {what}");
        let Series { rate, bare, batch } = &series[at];
        report.figure(Figure::new(name("publish"), rate, "events/s"));
        report.figure(Figure::new(name("bare insertMany"), bare, "events/s"));
        let figure = Figure::ratio(name("to bare insertMany"), rate, bare);
        report.figure(figure.limited(SHARE[at].map(Limit::AtLeast)));
        report.figure(Figure::new(name("events per commit"), batch, "events"));
    }
    let one = &series[2];
    report.figure(Figure::new("64 over sockets: publish", &wire, "events/s"));
    let figure = Figure::ratio("64 over sockets: to bare insertMany", &wire, &one.bare);
    report.figure(figure.limit(Limit::AtLeast(WIRE_SHARE)));
    report.figure(Figure::new("two hubs, one topic, 32 each: publish", &two, "events/s"));
    let figure = Figure::ratio("two hubs, one topic: to one hub", &two, &one.rate);
    report.figure(figure.limit(Limit::AtLeast(TWO_SHARE)));
    Ok(())
}

async fn turn(place: &Place, publishers: usize, events: usize, series: &mut Series) -> Result<()> {
    let (database, beside) = (place.fresh(), place.fresh());
    let hub = Hub::open(&database, Config::default()).await?;
    let cost = publish(&hub.bus, &topic(), publishers, events).await?;
    let sizes = hub.tape.cut();
    hub.bus.stop().await?;
    let bare = bare::insert(&database, &beside, &sizes).await?;
    series.rate.push(cost.rate(events));
    series.bare.push(bare.rate(events));
    series.batch.push(events as f64 / sizes.len() as f64);
    Ok(())
}

async fn sockets(place: &Place, events: usize) -> Result<Cost> {
    let database = place.fresh();
    let server = Server::on_mongo(&database.uri())?;
    over_sockets(&server, CROWD, events).await
}

/// Two hubs, each with half of the publishers.
async fn together(place: &Place, events: usize) -> Result<Cost> {
    let database = place.fresh();
    let one = Hub::open(&database, Config::default()).await?;
    let other = Hub::open(&database, Config::default()).await?;
    let topic = topic();
    let stopwatch = crate::measure::Stopwatch::start();
    let (first, second) = tokio::join!(
        publish(&one.bus, &topic, CROWD / 2, events / 2),
        publish(&other.bus, &topic, CROWD / 2, events - events / 2)
    );
    let cost = stopwatch.stop();
    first.and(second)?;
    let bounds = one.bus.bounds(&topic).await?;
    ensure!(bounds.last == events as u64, "{} seqs for {events} events", bounds.last);
    one.bus.stop().await?;
    other.bus.stop().await?;
    Ok(cost)
}
