//! Push subscriptions beside a bare HTTP client: the same body, to the same endpoint, with as many requests under way.
//!
//! The endpoint runs on a thread of its own and answers 204. The hub is in this process, on the memory store, so that what is
//! compared is delivering: taking events, writing and signing them, sending them, and settling them by the answer.

use crate::cli::Options;
use crate::measure::{Samples, Scale, Stopwatch};
use crate::report::{Figure, Limit, Report};
use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub_core::{Bus, NewEvent, Payload};
use hub_server::Hub;
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::push::{PushDefinition, PushEndpoint, PushFrom, SigningSecret};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Events of one turn.
const EVENTS: usize = 50_000;
/// Requests under way.
const IN_FLIGHT: usize = 64;
/// What deliveries are to reach of the bare client.
const LEAST: f64 = 0.5;

/// There is one thing to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {}

impl Part {
    /// There is none.
    pub fn parse(_: &str) -> Option<Self> {
        None
    }
}

/// Measures it.
pub async fn run(options: &Options<Part>, report: &mut Report) -> Result<()> {
    let scale = Scale { quick: options.quick };
    let (events, turns) = (scale.events(EVENTS), if scale.quick { 3 } else { Scale::TURNS });
    let address = endpoint()?;
    let (mut bare, mut pushed) = (Samples::default(), Samples::default());
    for _ in 0..turns {
        let (body, rate) = push(address, events).await?;
        pushed.push(rate);
        bare.push(post_all(address, &body, events).await?);
    }
    report.figure(Figure::new("bare client", &bare, "requests/s"));
    report.figure(Figure::new("push", &pushed, "events/s"));
    report.figure(Figure::ratio("push to bare client", &pushed, &bare).limit(Limit::AtLeast(LEAST)));
    Ok(())
}

/// Starts a server that takes everything.
fn endpoint() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("endpoint".into()).spawn(move || {
        runtime.block_on(async move {
            let router = Router::new().route("/hook", post(async |_: Bytes| StatusCode::NO_CONTENT));
            let listener = TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        })
    })?;
    Ok(address)
}

/// Requests per second of a client that does nothing else.
async fn post_all(address: SocketAddr, body: &Bytes, requests: usize) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let url = format!("http://{address}/hook");
    let send = || {
        let request =
            client.post(&url).header("content-type", "application/cloudevents+json").body(body.clone());
        async move {
            let response = request.send().await?.error_for_status()?;
            response.bytes().await.map(drop)
        }
    };
    let (mut sent, mut under_way) = (0, FuturesUnordered::new());
    let watch = Stopwatch::start();
    while sent < requests || !under_way.is_empty() {
        while sent < requests && under_way.len() < IN_FLIGHT {
            under_way.push(send());
            sent += 1;
        }
        under_way.next().await.context("a request is under way")??;
    }
    Ok(watch.stop().rate(requests))
}

/// Events per second of a push subscription, from its start until all are settled, and a body as it sends them.
async fn push(address: SocketAddr, events: usize) -> Result<(Bytes, f64)> {
    let bus = Bus::in_memory().await?;
    let event = |n: usize| {
        Ok(NewEvent::new("t".parse()?, Payload::of(&serde_json::json!({"order": n, "total": 12}))?))
    };
    for start in (0..events).step_by(1000) {
        let batch: Vec<NewEvent> = (start..events.min(start + 1000)).map(event).collect::<Result<_>>()?;
        bus.publish_batch(batch).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let auth =
        AuthConfig { static_token: Some(Secret::new("a token that nobody uses")), ..AuthConfig::default() };
    let hub = Hub::builder(bus.clone(), Authenticator::new(auth)?).build();
    let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
    let mut definition = PushDefinition::new("t", format!("http://{address}/hook"), vec![secret]);
    (definition.allow_private, definition.from) = (true, PushFrom::Earliest);
    definition.concurrency = u16::try_from(IN_FLIGHT)?;
    hub.push().set_configured(vec![PushEndpoint::new("bench", definition)?]);
    let watch = Stopwatch::start();
    hub.start_push();
    while bus.group("t", "push.bench").is_none_or(|group| group.floor < events as u64) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let rate = watch.stop().rate(events);
    hub.drain(Duration::from_secs(5)).await;
    bus.stop().await?;
    // Of the same length as those that were sent.
    let body = Bytes::from(vec![b' '; 300]);
    Ok((body, rate))
}
