//! What connections cost that do nothing, and what those cost that never read.

use super::client::{Client, read};
use super::server::Server;
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::Result;
use futures_util::future::try_join_all;

const IDLE: usize = 10_000;
const STUCK: usize = 20;
const EVENTS: usize = 60_000;
/// In MiB.
const IDLE_LIMIT: f64 = 250.0;
const STUCK_LIMIT: f64 = 100.0;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let server = Server::start(place)?;
    let address = server.hub();
    let mut idle = Vec::new();
    for _ in 0..scale.events(IDLE) / 100 {
        idle.extend(try_join_all((0..100).map(|_| Client::hub(&address))).await?);
    }
    let mut memory = Samples::default();
    memory.push(server.anonymous_mib()?);
    report.figure(
        Figure::new(format!("memory: {} idle connections", idle.len()), &memory, "MiB")
            .limit(Limit::AtMost(IDLE_LIMIT)),
    );
    drop(idle);
    drop(server);

    let server = Server::start(place)?;
    let address = server.hub();
    let mut reader = Client::subscriber(&address, "flood", "").await?;
    let before = server.anonymous_mib()?;
    let mut stuck = Vec::new();
    for at in 0..STUCK {
        let rest = if at % 2 == 0 { String::new() } else { format!(r#","group":"g{at}""#) };
        stuck.push(Client::subscriber(&address, "flood", &rest).await?);
    }
    let events = scale.events(EVENTS);
    let reading = tokio::spawn(async move {
        for _ in 0..events {
            read(&reader.next().await?)?;
        }
        Ok::<_, anyhow::Error>(())
    });
    let mut publisher = Client::hub(&address).await?;
    let event = format!(r#"{{"topic":"flood","payload":"{}"}}"#, "x".repeat(1022));
    let frame = format!(r#"{{"op":"PUBLISH","events":[{}]}}"#, vec![event; 100].join(","));
    let mut most: f64 = 0.0;
    for _ in 0..events / 100 {
        publisher.ask(&frame).await?;
        most = most.max(server.anonymous_mib()?);
    }
    reading.await??;
    most = most.max(server.anonymous_mib()?);
    let mut above = Samples::default();
    above.push(most - before);
    let figure = Figure::new("memory: 20 readers that never read, above idle", &above, "MiB");
    report.figure(figure.limit(Limit::AtMost(STUCK_LIMIT)));
    Ok(())
}
