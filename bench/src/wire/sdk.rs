//! The Rust client, beside a client that does no more than write and read the same frames.

use super::client::{Client as Bare, publish_batch};
use super::consume::consume;
use super::publish::{over_connections, settle, warm_up};
use super::server::{Server, TOKEN};
use crate::load::{payload, topic};
use crate::measure::{Cost, Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::Result;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub_client::{Client, Position, Received, SubscribeOptions, Target};
use hub_core::NewEvent;

const EVENTS: usize = 60_000;
/// Events of one frame when the backlog is made.
const FILL: usize = 500;
/// Events under way, on one connection.
const IN_FLIGHT: [usize; 2] = [16, 256];
/// At least so much of the bare client.
const SHARE: f64 = 0.85;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(EVENTS);
    let mut published: [[Samples; 2]; 2] = Default::default();
    let mut consumed: [Samples; 2] = Default::default();
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        warm_up(&server, scale).await?;
        for (in_flight, [bare, sdk]) in IN_FLIGHT.into_iter().zip(&mut published) {
            settle(&server).await?;
            let frame = super::publish("orders.created");
            bare.push(over_connections(&server, &frame, 1, in_flight, events, 1).await?.rate(events));
            settle(&server).await?;
            sdk.push(publish(&server, in_flight, events).await?.rate(events));
        }
        let mut publisher = Bare::hub(&server.hub()).await?;
        let frame = publish_batch("backlog", FILL);
        for _ in 0..events / FILL {
            publisher.ask(&frame).await?;
        }
        let stopwatch = Stopwatch::start();
        let rest = r#","group":"bare","opts":{"from":"earliest"}"#;
        let bare = Bare::subscriber(&server.hub(), "backlog", rest).await?;
        consume(bare, "backlog", "bare", events, false).await?;
        consumed[0].push(stopwatch.stop().rate(events));
        consumed[1].push(consume_sdk(&server, events).await?.rate(events));
    }
    for (in_flight, [bare, sdk]) in IN_FLIGHT.into_iter().zip(&published) {
        report.figure(Figure::new(format!("sdk: bare publish, {in_flight} in flight"), bare, "events/s"));
        let name = format!("sdk: publish, {in_flight} in flight, to the bare client");
        report.figure(Figure::ratio(name, sdk, bare).limit(Limit::AtLeast(SHARE)));
    }
    report.figure(Figure::new("sdk: bare consume, an ack per read", &consumed[0], "events/s"));
    let figure = Figure::ratio("sdk: consume with acks, to the bare client", &consumed[1], &consumed[0]);
    report.figure(figure.limit(Limit::AtLeast(SHARE)));
    Ok(())
}

async fn connect(server: &Server) -> Result<Client> {
    Ok(Client::builder(Target::new(server.hub())?).token(TOKEN).connect().await?)
}

async fn publish(server: &Server, in_flight: usize, events: usize) -> Result<Cost> {
    let client = connect(server).await?;
    let stopwatch = Stopwatch::start();
    let publishing = tokio::spawn(async move {
        let (topic, payload) = (topic(), payload());
        let mut under_way = FuturesUnordered::new();
        for _ in 0..events {
            while under_way.len() >= in_flight {
                if let Some(receipt) = under_way.next().await {
                    receipt?;
                }
            }
            under_way.push(client.submit(NewEvent::new(topic.clone(), payload.clone())).await?);
        }
        while let Some(receipt) = under_way.next().await {
            receipt?;
        }
        Ok::<_, hub_client::Error>(())
    });
    publishing.await??;
    Ok(stopwatch.stop())
}

async fn consume_sdk(server: &Server, events: usize) -> Result<Cost> {
    let client = connect(server).await?;
    let stopwatch = Stopwatch::start();
    let consuming = tokio::spawn(async move {
        let options = SubscribeOptions { from: Some(Position::Earliest), ..SubscribeOptions::default() };
        let mut backlog = client.subscribe("backlog", Some("sdk"), options).await?;
        for _ in 0..events {
            if let Received::Event(message) = backlog.recv().await? {
                message.ack()?;
            }
        }
        // The answer says that all acks before it were taken.
        backlog.unsubscribe().await
    });
    consuming.await??;
    Ok(stopwatch.stop())
}
