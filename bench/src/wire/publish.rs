//! Publishing over sockets, beside publishers in the hub's own process.

use super::client::{Client, publish, publish_batch, read};
use super::server::Server;
use crate::load::{PUBLISHERS, fill, topic};
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use crate::store::place::{Hub, Place};
use crate::store::publish::WARM;
use anyhow::{Result, ensure};
use hub_core::{Config, TopicName};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Events of each run.
const EVENTS: [usize; 4] = [6_000, 40_000, 100_000, 160_000];
/// At least so much of what publishers in the same process reach.
const SHARE: [Option<f64>; 4] = [None, None, Some(0.65), Some(0.55)];
/// Connections, if there is something in flight for each.
const CONNECTIONS: usize = 4;
/// Events of one frame.
const BATCH: usize = 100;
/// At least so much of 256 publishers in the same process.
const BATCH_SHARE: f64 = 0.8;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let mut here: [Samples; 4] = Default::default();
    let mut wire: [Samples; 4] = Default::default();
    let mut batches = Samples::default();
    for _ in 0..Scale::TURNS {
        // What is compared follows on each other: the machine does not stay the same for long.
        for (at, publishers) in PUBLISHERS.into_iter().enumerate() {
            let events = scale.events(EVENTS[at]);
            let hub = Hub::open(place, Config::default()).await?;
            fill(&hub.bus, &TopicName::parse("warm.up")?, scale.events(WARM)).await?;
            hub.tape.settle().await;
            let cost = crate::load::publish(&hub.bus, &topic(), publishers, events).await?;
            hub.close().await?;
            here[at].push(cost.rate(events));
            let server = Server::start(place)?;
            warm_up(&server, scale).await?;
            settle(&server).await?;
            let cost = over_wire(&server, &publish("orders.created"), 1, publishers, events).await?;
            wire[at].push(cost.rate(events));
            if publishers == 256 {
                let frame = publish_batch("orders.batches", BATCH);
                let cost = over_wire(&server, &frame, BATCH, CONNECTIONS * BATCH, events).await?;
                batches.push(cost.rate(events));
            }
        }
    }
    for (at, publishers) in PUBLISHERS.into_iter().enumerate() {
        let name = |what: &str| format!("publish, {publishers} in flight: {what}");
        report.figure(Figure::new(name("in process"), &here[at], "events/s"));
        report.figure(Figure::new(name("over sockets"), &wire[at], "events/s"));
        let figure = Figure::ratio(name("to in process"), &wire[at], &here[at]);
        report.figure(figure.limited(SHARE[at].map(Limit::AtLeast)));
    }
    report.figure(Figure::new("publish, frames of 100", &batches, "events/s"));
    let figure = Figure::ratio("publish, frames of 100: to 256 in process", &batches, &here[3]);
    report.figure(figure.limit(Limit::AtLeast(BATCH_SHARE)));
    Ok(())
}

/// Events one by one over sockets, with `in_flight` under way.
pub async fn over_sockets(server: &Server, in_flight: usize, events: usize) -> Result<crate::measure::Cost> {
    settle(server).await?;
    over_wire(server, &publish("orders.created"), 1, in_flight, events).await
}

/// Publishes as much as makes a hub's figures those of one that has run for a while.
pub(super) async fn warm_up(server: &Server, scale: Scale) -> Result<()> {
    let (frame, in_flight) = (publish_batch("warm.up", BATCH), CONNECTIONS * BATCH);
    over_wire(server, &frame, BATCH, in_flight, scale.events(WARM)).await.map(drop)
}

/// Lets a new store prepare its segments.
pub(super) async fn settle(server: &Server) -> Result<()> {
    let mut client = Client::hub(&server.hub()).await?;
    client.ask(&publish("warm.up")).await?;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    Ok(())
}

/// Sends `frame`, of so many events, until `events` are answered, with `in_flight` events under way.
pub(super) async fn over_wire(
    server: &Server,
    frame: &Utf8Bytes,
    of: usize,
    in_flight: usize,
    events: usize,
) -> Result<crate::measure::Cost> {
    over_connections(server, frame, of, in_flight, events, CONNECTIONS).await
}

/// The same over so many connections at most.
pub(super) async fn over_connections(
    server: &Server,
    frame: &Utf8Bytes,
    of: usize,
    in_flight: usize,
    events: usize,
    connections: usize,
) -> Result<crate::measure::Cost> {
    let frames_in_flight = (in_flight / of).max(1);
    let connections = frames_in_flight.min(connections);
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::hub(&server.hub()).await?);
    }
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let frame = frame.clone();
        let (window, frames) = (frames_in_flight / connections, events / of / connections);
        tasks.spawn(async move {
            let (mut sent, mut answered) = (0, 0);
            while answered < frames {
                while sent < frames && sent - answered < window {
                    client.feed(frame.clone()).await?;
                    sent += 1;
                }
                client.flush().await?;
                let mut next = Some(client.next().await?);
                while let Some(answer) = next {
                    let answer = read(&answer)?;
                    ensure!(answer.seq > 0 || answer.results.iter().filter(|one| one.seq > 0).count() == of);
                    answered += 1;
                    next = client.try_next();
                }
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop())
}
