//! From a PUBLISH to its EVENT at a steady pace, beside what cannot be had for less: one sync, and one way there and back.
//! The clients are threads that block, as the simplest program would be.

use super::server::{Server, TOKEN};
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::{Result, anyhow, ensure};
use std::fs::OpenOptions;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// Between two events.
const PACE: Duration = Duration::from_micros(500);
const EVENTS: usize = 6_000;
/// What a commit of one such event takes on disk, about.
const COMMIT: usize = 400;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let events = scale.events(EVENTS);
    let mut figures: [[Samples; 3]; 2] = Default::default();
    let mut sums: [Samples; 2] = Default::default();
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        let directory = place.fresh()?;
        let (hub, echo) = (server.hub(), server.bare("echo"));
        let measured = tokio::task::spawn_blocking(move || {
            // A new store prepares its segments first.
            std::thread::sleep(Duration::from_millis(500));
            Ok::<_, anyhow::Error>([
                end_to_end(&hub, events)?,
                syncs(directory.path(), events)?,
                echoes(&echo, events)?,
            ])
        });
        let measured = measured.await??;
        for (at, percent) in [50.0, 99.0].into_iter().enumerate() {
            let values = measured.each_ref().map(|latencies| latencies.percentile(percent));
            figures[at].iter_mut().zip(values).for_each(|(samples, value)| samples.push(value));
            sums[at].push(values[1] + values[2]);
        }
    }
    for (at, (percent, limit)) in [("p50", 2.5), ("p99", 3.0)].into_iter().enumerate() {
        let name = |what: &str| format!("latency at 2,000/s, {percent}: {what}");
        for (samples, what) in figures[at].iter().zip(["PUBLISH to EVENT", "a sync", "an echo of bare axum"])
        {
            report.figure(Figure::new(name(what), samples, "us"));
        }
        let figure = Figure::ratio(name("to sync and echo"), &figures[at][0], &sums[at]);
        report.figure(figure.limit(Limit::AtMost(limit)));
    }
    Ok(())
}

type Socket = WebSocket<TcpStream>;

fn connect(address: &str) -> Result<Socket> {
    let host = address.trim_start_matches("ws://").split('/').next().unwrap_or_default();
    let stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    let (socket, _) = client(address, stream).map_err(|error| anyhow!("{error}"))?;
    Ok(socket)
}

fn ask(socket: &mut Socket, request: &str) -> Result<()> {
    socket.send(Message::text(request))?;
    let answer = socket.read()?.into_text()?;
    ensure!(answer.contains("\"OK\""), "{answer}");
    Ok(())
}

/// Microseconds from sending an event to having read it.
fn end_to_end(address: &str, events: usize) -> Result<Latencies> {
    let auth = format!(r#"{{"op":"AUTH","token":"{TOKEN}"}}"#);
    let (mut publisher, mut consumer) = (connect(address)?, connect(address)?);
    ask(&mut publisher, &auth)?;
    ask(&mut consumer, &auth)?;
    ask(&mut consumer, r#"{"op":"SUBSCRIBE","topic":"pace","group":"g"}"#)?;
    let started = Instant::now();
    let reader = std::thread::spawn(move || {
        let mut took = Vec::with_capacity(events);
        for _ in 0..events {
            let text = consumer.read()?.into_text()?;
            let frame: serde_json::Value = serde_json::from_str(&text)?;
            let sent = frame["event"]["payload"]["at"].as_f64().unwrap_or_default();
            took.push(started.elapsed().as_secs_f64() * 1e6 - sent);
            let id = frame["event"]["id"].as_str().unwrap_or_default();
            consumer
                .send(Message::text(format!(r#"{{"op":"ACK","topic":"pace","group":"g","id":"{id}"}}"#)))?;
        }
        Ok::<_, anyhow::Error>(took)
    });
    // The answers have to be read, too, without waiting for each.
    let answers = publisher.get_ref().try_clone()?;
    let mut answers = WebSocket::from_raw_socket(answers, Role::Client, None);
    let answers = std::thread::spawn(move || (0..events).try_for_each(|_| answers.read().map(drop)));
    let padding = "x".repeat(170);
    pace(events, |_| {
        let at = started.elapsed().as_secs_f64() * 1e6;
        let frame =
            format!(r#"{{"op":"PUBLISH","topic":"pace","payload":{{"at":{at},"data":"{padding}"}}}}"#);
        Ok(publisher.send(Message::text(frame))?)
    })?;
    answers.join().map_err(|_| anyhow!("the reader of answers panicked"))??;
    let took = reader.join().map_err(|_| anyhow!("the reader panicked"))??;
    let mut latencies = Latencies::default();
    latencies.extend(took);
    Ok(latencies)
}

/// Microseconds of a write and a sync in a file of zeros.
fn syncs(directory: &Path, events: usize) -> Result<Latencies> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(directory.join("syncs"))?;
    file.write_all_at(&vec![0; COMMIT * events], 0)?;
    file.sync_all()?;
    let bytes = [b'!'; COMMIT];
    let mut latencies = Latencies::default();
    pace(events, |at| {
        let started = Instant::now();
        file.write_all_at(&bytes, (at * COMMIT) as u64)?;
        file.sync_data()?;
        latencies.extend([started.elapsed().as_secs_f64() * 1e6]);
        Ok(())
    })?;
    Ok(latencies)
}

/// Microseconds there and back.
fn echoes(address: &str, events: usize) -> Result<Latencies> {
    let mut socket = connect(address)?;
    let frame = "x".repeat(300);
    let mut latencies = Latencies::default();
    pace(events, |_| {
        let started = Instant::now();
        socket.send(Message::text(frame.clone()))?;
        socket.read()?;
        latencies.extend([started.elapsed().as_secs_f64() * 1e6]);
        Ok(())
    })?;
    Ok(latencies)
}

/// Does something so many times, at a steady pace.
fn pace(times: usize, mut act: impl FnMut(usize) -> Result<()>) -> Result<()> {
    let started = Instant::now();
    for at in 0..times {
        let due = started + PACE * at as u32;
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        act(at)?;
    }
    Ok(())
}
