//! A hub that several subjects share, with the limits and quotas of one beyond loopback: what a publisher notices while another
//! subject does its worst. The hub runs in a process of its own, on the embedded store, with many topics.

mod attacks;
mod server;

pub use attacks::Attack;
pub use server::{SERVER, serve};

use crate::cli::Options;
use crate::measure::{Latencies, Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::{Result, anyhow, ensure};
use server::Server;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// Topics that there are before anybody attacks.
const TOPICS: usize = 50_000;
/// Between two publishes of the one who is measured.
const PACE: Duration = Duration::from_millis(4);
/// How many there are per turn.
const PUBLISHES: usize = 1_000;
/// What memory may grow by during an attack, in MiB.
const GROWTH: f64 = 100.0;
/// What a thousand sockets without AUTH may take, in MiB.
const UNAUTHENTICATED: f64 = 64.0;

pub(crate) type Socket = WebSocket<TcpStream>;

/// Measures the attacks that `options` name.
pub async fn run(options: &Options<Attack>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    let place = Place::on_disk(options.dir.as_deref())?;
    let topics = scale.events(TOPICS);
    let wanted: Vec<Attack> = Attack::ALL.into_iter().filter(|attack| options.wants(*attack)).collect();
    let (publishes, turns) = (scale.events(PUBLISHES).max(200), if scale.quick { 1 } else { 3 });
    let figures = tokio::task::spawn_blocking(move || {
        let server = Server::start(&place, topics)?;
        wanted
            .into_iter()
            .map(|attack| measure(&server, attack, publishes, turns))
            .collect::<Result<Vec<_>>>()
    });
    for figures in figures.await?? {
        figures.into_iter().for_each(|figure| report.figure(figure));
    }
    Ok(())
}

/// What one attack does to a publisher, taking turns with peace.
fn measure(server: &Server, attack: Attack, publishes: usize, turns: usize) -> Result<Vec<Figure>> {
    let mut alone: [Samples; 2] = Default::default();
    let mut attacked: [Samples; 2] = Default::default();
    let (mut grown, mut made) = (Samples::default(), 0);
    for _ in 0..turns {
        let add = |samples: &mut [Samples; 2], latencies: &Latencies| {
            samples
                .iter_mut()
                .zip([50.0, 99.0])
                .for_each(|(samples, percent)| samples.push(latencies.percentile(percent)));
        };
        add(&mut alone, &publish(server, publishes)?);
        let before = server.anonymous_mib()?;
        let stop = Arc::new(AtomicBool::new(false));
        let attackers = attack.start(server, &stop)?;
        std::thread::sleep(Duration::from_millis(500));
        let under_attack = publish(server, publishes);
        let created = server.create();
        let after = server.anonymous_mib()?;
        stop.store(true, Relaxed);
        for attacker in attackers {
            made += attacker.join().map_err(|_| anyhow!("an attacker panicked"))??;
        }
        add(&mut attacked, &under_attack?);
        created?;
        grown.push((after - before).max(0.0));
    }
    eprintln!("{}: the attackers had {made} answers", attack.name());
    let name = |what: &str| format!("{}: {what}", attack.name());
    let mut figures = Vec::new();
    for (at, (percent, limit)) in [("p50", 3.0), ("p99", 5.0)].into_iter().enumerate() {
        figures.push(Figure::new(name(&format!("publish {percent} alone")), &alone[at], "us"));
        figures.push(Figure::new(name(&format!("publish {percent} attacked")), &attacked[at], "us"));
        let ratio = Figure::ratio(name(&format!("{percent} to alone")), &attacked[at], &alone[at]);
        figures.push(ratio.limit(Limit::AtMost(limit)));
    }
    let most = if attack == Attack::Unauthenticated { UNAUTHENTICATED } else { GROWTH };
    figures.push(Figure::new(name("memory grows by"), &grown, "MiB").limit(Limit::AtMost(most)));
    Ok(figures)
}

pub(crate) fn connect(address: &str) -> Result<Socket> {
    let host = address.trim_start_matches("ws://").trim_end_matches('/');
    let stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (socket, _) = client(address, stream).map_err(|error| anyhow!("{error}"))?;
    Ok(socket)
}

/// Sends a frame and answers what comes back.
pub(crate) fn ask(socket: &mut Socket, frame: &str) -> Result<String> {
    socket.send(Message::text(frame))?;
    loop {
        if let Message::Text(text) = socket.read()? {
            return Ok(text.to_string());
        }
    }
}

/// A socket that has said who it is.
pub(crate) fn enter(address: &str, token: &str) -> Result<Socket> {
    let mut socket = connect(address)?;
    let answer = ask(&mut socket, &format!(r#"{{"op":"AUTH","token":"{token}"}}"#))?;
    ensure!(answer.contains("\"OK\""), "{answer}");
    Ok(socket)
}

/// Microseconds from PUBLISH to OK, at a steady pace.
fn publish(server: &Server, times: usize) -> Result<Latencies> {
    let mut socket = enter(&server.ws(), &server.token("ada"))?;
    let frame = format!(r#"{{"op":"PUBLISH","topic":"victim.events","payload":"{}"}}"#, "x".repeat(170));
    let (mut latencies, started) = (Latencies::default(), Instant::now());
    for at in 0..times {
        let due = started + PACE * at as u32;
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        let begun = Instant::now();
        let answer = ask(&mut socket, &frame)?;
        latencies.extend([begun.elapsed().as_secs_f64() * 1e6]);
        ensure!(answer.contains("\"fsync\""), "{answer}");
    }
    Ok(latencies)
}
