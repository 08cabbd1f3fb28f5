//! A backlog, consumed by one member of a group with acks.

use super::client::{Client, publish_batch, read};
use super::server::Server;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Report};
use crate::store::place::Place;
use anyhow::Result;
use std::fmt::Write;

const EVENTS: usize = 100_000;
/// Events of one frame when the backlog is made.
const FILL: usize = 500;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut each, mut together, mut batches) = (Samples::default(), Samples::default(), Samples::default());
    let events = scale.events(EVENTS);
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        let mut publisher = Client::hub(&server.hub()).await?;
        let frame = publish_batch("backlog", FILL);
        for _ in 0..events / FILL {
            publisher.ask(&frame).await?;
        }
        for (samples, group, opts, one_by_one) in [
            (&mut each, "each", r#","opts":{"from":"earliest"}"#, true),
            (&mut together, "together", r#","opts":{"from":"earliest"}"#, false),
            (&mut batches, "batches", r#","opts":{"from":"earliest","batch":true}"#, false),
        ] {
            let rest = format!(r#","group":"{group}"{opts}"#);
            let stopwatch = Stopwatch::start();
            let client = Client::subscriber(&server.hub(), "backlog", &rest).await?;
            consume(client, "backlog", group, events, one_by_one).await?;
            samples.push(stopwatch.stop().rate(events));
        }
    }
    report.figure(Figure::new("consume: an ack per event", &each, "events/s"));
    report.figure(Figure::new("consume: an ack per read", &together, "events/s"));
    report.figure(Figure::new("consume: EVENTS, an ack per read", &batches, "events/s"));
    Ok(())
}

/// Takes and acks so many events.
pub async fn consume(
    mut client: Client,
    topic: &str,
    group: &str,
    events: usize,
    one_by_one: bool,
) -> Result<()> {
    let mut seen = 0;
    let mut ids = String::new();
    while seen < events {
        let mut next = Some(client.next().await?);
        ids.clear();
        while let Some(frame) = next {
            let frame = read(&frame)?;
            for event in frame.event.iter().chain(frame.events.iter().map(|part| &part.event)) {
                seen += 1;
                if one_by_one {
                    let ack =
                        format!(r#"{{"op":"ACK","topic":"{topic}","group":"{group}","id":"{}"}}"#, event.id);
                    client.feed(ack.into()).await?;
                } else {
                    write!(ids, "{}\"{}\"", if ids.is_empty() { "" } else { "," }, event.id)?;
                }
            }
            next = client.try_next();
        }
        if !ids.is_empty() {
            let ack = format!(r#"{{"op":"ACK","topic":"{topic}","group":"{group}","ids":[{ids}]}}"#);
            client.feed(ack.into()).await?;
        }
        client.flush().await?;
    }
    // The answer says that all acks before it were taken.
    client.ask(&format!(r#"{{"op":"UNSUBSCRIBE","topic":"{topic}","group":"{group}"}}"#)).await
}
