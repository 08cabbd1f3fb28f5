//! One publisher to 100 readers of server-sent events, beside as many subscriptions over WebSockets.

use super::client::Answer;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use crate::wire::{Client, Server, fan_out_to, publish, publish_all};
use anyhow::Result;
use tokio::task::JoinSet;

const READERS: usize = 100;
const EVENTS: usize = 6_000;
/// At least so much of the WebSockets.
const SHARE: f64 = 0.5;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(EVENTS);
    let (mut sockets, mut streams) = (Samples::default(), Samples::default());
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        sockets.push(fan_out_to(&server, READERS, events, false).await?);
        streams.push(server_sent(&server, events).await?);
    }
    report.figure(Figure::new("100 WebSockets without a group", &sockets, "deliveries/s"));
    report.figure(Figure::new("100 readers of /events", &streams, "deliveries/s"));
    report.figure(
        Figure::ratio("/events, to WebSockets", &streams, &sockets).limited(Some(Limit::AtLeast(SHARE))),
    );
    Ok(())
}

async fn server_sent(server: &Server, events: usize) -> Result<f64> {
    let topic = "fan.sse";
    let mut publisher = Client::hub(&server.hub()).await?;
    // There has to be a topic.
    publisher.send(publish(topic)).await?;
    publisher.next().await?;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(Answer::get(server.ops(), &format!("/events?topic={topic}")).await?);
    }
    let stopwatch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for mut reader in readers {
        tasks.spawn(async move { reader.read_lines(b"data:", events).await });
    }
    publish_all(&mut publisher, topic, events).await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(stopwatch.stop().rate(READERS * events))
}
