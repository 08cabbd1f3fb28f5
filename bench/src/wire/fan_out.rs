//! One publisher to many connections, beside bare axum that sends the same to as many, with the same client.

use super::client::{Client, EventReader, publish, read};
use super::consume::consume;
use super::server::Server;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::{Result, ensure};
use tokio::task::JoinSet;

/// Connections, and events that each of them gets.
const CROWDS: [(usize, usize); 2] = [(100, 6_000), (1_000, 600)];
/// At least so much of bare axum, to 100 connections without a group.
const SHARE: f64 = 0.4;
/// The same with groups and acks, or so many per second, whichever is lower.
const GROUP_SHARE: f64 = 0.25;
const GROUP_RATE: f64 = 350_000.0;
/// Server-sent events to 100 readers: at least so much of what sockets without a group get.
const STREAM_SHARE: f64 = 0.5;
/// Events of the publisher under way.
const IN_FLIGHT: usize = 256;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let mut figures: [[Samples; 4]; 2] = Default::default();
    let mut to_limit = Samples::default();
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        for (samples, (connections, events)) in figures.iter_mut().zip(CROWDS) {
            let events = scale.events(events);
            let deliveries = connections * events;
            let bare = bare(&server, connections, events).await?;
            samples[0].push(bare);
            samples[1].push(hub(&server, connections, events, false).await?);
            let groups = hub(&server, connections, events, true).await?;
            samples[2].push(groups);
            samples[3].push(streams(&server, connections, events).await?);
            if connections == 100 {
                to_limit.push(groups / GROUP_RATE.min(GROUP_SHARE * bare));
            }
            ensure!(deliveries > 0);
        }
    }
    for (samples, (connections, _)) in figures.iter().zip(CROWDS) {
        let name = |what: &str| format!("fan-out to {connections}: {what}");
        report.figure(Figure::new(name("bare axum"), &samples[0], "deliveries/s"));
        report.figure(Figure::new(name("without a group"), &samples[1], "deliveries/s"));
        let held = (connections == 100).then_some(Limit::AtLeast(SHARE));
        report.figure(
            Figure::ratio(name("without a group, to bare axum"), &samples[1], &samples[0]).limited(held),
        );
        report.figure(Figure::new(name("a group each, with acks"), &samples[2], "deliveries/s"));
        report.figure(Figure::ratio(name("a group each, to bare axum"), &samples[2], &samples[0]));
        report.figure(Figure::new(name("server-sent events"), &samples[3], "deliveries/s"));
        let held = (connections == 100).then_some(Limit::AtLeast(STREAM_SHARE));
        report.figure(
            Figure::ratio(name("server-sent events, to sockets without a group"), &samples[3], &samples[1])
                .limited(held),
        );
    }
    let name = "fan-out to 100: a group each, to 350,000/s or a quarter of bare axum";
    report.figure(Figure::new(name, &to_limit, "x").limit(Limit::AtLeast(1.0)));
    Ok(())
}

async fn bare(server: &Server, connections: usize, events: usize) -> Result<f64> {
    let address = server.bare("fan");
    let mut readers = Vec::new();
    for _ in 0..connections {
        readers.push(Client::open(&address).await?);
    }
    let mut publisher = Client::open(&address).await?;
    // What the hub would send: as long, and as much to read.
    let payload = crate::load::payload();
    let payload = String::from_utf8_lossy(payload.as_bytes()).into_owned();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let event = format!(r#"{{"id":"{id}","ts":1700000000000,"topic":"fan","payload":{payload},"seq":1}}"#);
    let frame = format!(r#"{{"op":"EVENT","topic":"fan","event":{event}}}"#);
    // Whoever is there gets it, so everybody has to be there.
    publisher.send(frame.clone().into()).await?;
    for reader in &mut readers {
        read(&reader.next().await?)?;
    }
    publisher.next().await?;
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for reader in readers {
        tasks.spawn(receive(reader, events));
    }
    let mut seen = 0;
    for sent in 0..events {
        publisher.feed(frame.clone().into()).await?;
        if sent % 64 == 63 {
            publisher.flush().await?;
        }
        // It gets its own events, too, and is no faster than they are.
        while sent - seen >= IN_FLIGHT {
            publisher.flush().await?;
            publisher.next().await?;
            seen += 1;
        }
    }
    publisher.flush().await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop().rate(connections * events))
}

async fn receive(mut reader: Client, events: usize) -> Result<()> {
    for _ in 0..events {
        let text = reader.next().await?;
        ensure!(read(&text)?.event.is_some(), "{text}");
    }
    Ok(())
}

async fn hub(server: &Server, connections: usize, events: usize, groups: bool) -> Result<f64> {
    let address = server.hub();
    let topic = if groups { format!("fan.g{connections}") } else { format!("fan.e{connections}") };
    let mut readers = Vec::new();
    for at in 0..connections {
        let rest = if groups { format!(r#","group":"g{at}""#) } else { String::new() };
        readers.push(Client::subscriber(&address, &topic, &rest).await?);
    }
    let publisher = Client::hub(&address).await?;
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for (at, reader) in readers.into_iter().enumerate() {
        let topic = topic.clone();
        tasks.spawn(async move {
            match groups {
                true => consume(reader, &topic, &format!("g{at}"), events, false).await,
                false => receive(reader, events).await,
            }
        });
    }
    publish_all(publisher, &topic, events).await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop().rate(connections * events))
}

/// The same as server-sent events.
async fn streams(server: &Server, connections: usize, events: usize) -> Result<f64> {
    let topic = format!("fan.s{connections}");
    let mut publisher = Client::hub(&server.hub()).await?;
    // A stream is of a topic that exists.
    publisher.ask(&publish(&topic)).await?;
    let mut readers = Vec::new();
    for _ in 0..connections {
        readers.push(EventReader::open(&server.ops(), &topic).await?);
    }
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for mut reader in readers {
        tasks.spawn(async move {
            for _ in 0..events {
                reader.next().await?;
            }
            anyhow::Ok(())
        });
    }
    publish_all(publisher, &topic, events).await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop().rate(connections * events))
}

/// Publishes events one by one, many under way.
async fn publish_all(mut publisher: Client, topic: &str, events: usize) -> Result<()> {
    let frame = publish(topic);
    let (mut sent, mut answered) = (0, 0);
    while answered < events {
        while sent < events && sent - answered < IN_FLIGHT {
            publisher.feed(frame.clone()).await?;
            sent += 1;
        }
        publisher.flush().await?;
        let mut next = Some(publisher.next().await?);
        while let Some(answer) = next {
            read(&answer)?;
            answered += 1;
            next = publisher.try_next();
        }
    }
    Ok(())
}
