//! An endpoint of a test, and a hub that pushes to it.

use crate::http::world::{STATIC, World};
use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hub_server::push::ProbeTimes;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Nothing takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A secret that deliveries are signed with.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request that has come.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    /// The data of a CloudEvent in structured mode.
    pub fn data(&self) -> Value {
        self.json()["data"].clone()
    }
}

/// A server that remembers what it was sent.
pub struct Endpoint {
    pub address: SocketAddr,
    received: Arc<watch::Sender<Vec<Received>>>,
    server: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Endpoint {
    /// One that answers every request with `answer`, which is told how many came before.
    pub async fn new<A, F>(answer: A) -> Self
    where
        A: Fn(usize, Received) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send,
    {
        Self::at(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// The same on a socket that listens already.
    pub fn at<A, F>(listener: TcpListener, answer: A) -> Self
    where
        A: Fn(usize, Received) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send,
    {
        let address = listener.local_addr().unwrap();
        let received: Arc<watch::Sender<Vec<Received>>> = Arc::default();
        let noted = received.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (noted, answer) = (noted.clone(), answer.clone());
            async move {
                assert_eq!(request.method(), "POST");
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let received = Received { path: parts.uri.to_string(), headers: parts.headers, body };
                let mut before = 0;
                noted.send_modify(|all| {
                    before = all.len();
                    all.push(received.clone());
                });
                answer(before, received).await
            }
        });
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, received, server }
    }

    /// One that takes everything.
    pub async fn taking_all() -> Self {
        Self::new(|_, _| async { StatusCode::OK.into_response() }).await
    }

    /// One that answers with these in turn, and with the last one from then on.
    pub async fn answering(statuses: &'static [u16]) -> Self {
        Self::new(move |before, _| async move {
            StatusCode::from_u16(statuses[before.min(statuses.len() - 1)]).unwrap().into_response()
        })
        .await
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has come so far.
    pub fn so_far(&self) -> Vec<Received> {
        self.received.borrow().clone()
    }

    /// Waits until so many requests have come.
    pub async fn received(&self, count: usize) -> Vec<Received> {
        let mut watch = self.received.subscribe();
        let waited = tokio::time::timeout(PATIENCE, watch.wait_for(|all| all.len() >= count)).await;
        match waited {
            Ok(all) => all.unwrap().clone(),
            Err(_) => panic!("{} of {count} requests came", self.so_far().len()),
        }
    }
}

/// Waits until something holds.
pub async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("it holds in time")
}

/// A hub that delivers.
pub async fn pushing_world() -> World {
    let world = World::new().await;
    world.hub.push().set_probe_times(ProbeTimes { first: 50, longest: 200 });
    world.hub.start_push();
    world
}

/// What a PUT says, with more or other than it must.
pub fn definition(url: &str, more: &Value) -> Value {
    let mut definition = json!({"topic": "t", "url": url, "secrets": [SECRET], "allowPrivate": true});
    for (name, value) in more.as_object().unwrap() {
        definition[name] = value.clone();
    }
    definition
}

/// Makes an endpoint, and waits until it is there.
pub async fn put(world: &World, name: &str, definition: &Value) -> Value {
    world.ask("PUT", &format!("/push/{name}"), STATIC, &definition.to_string()).await.ok();
    in_state(world, name, "active").await
}

/// Waits until an endpoint is in a state.
pub async fn in_state(world: &World, name: &str, state: &str) -> Value {
    until(async || {
        Some(world.get(&format!("/push/{name}")).await.ok()).filter(|shown| shown["state"] == state)
    })
    .await
}

/// Waits until a group of topic `t` has settled everything up to a seq.
pub async fn settled(world: &World, group: &str, seq: u64) {
    until(async || world.bus().group("t", group).filter(|status| status.floor >= seq)).await;
}

/// How many dead letters topic `t` has.
pub async fn dead_letters(world: &World) -> Vec<Value> {
    match world.bus().has_topic("dlq.t") {
        false => Vec::new(),
        true => {
            let letters = world.bus().scan("dlq.t", hub_core::Position::Earliest, None).await.unwrap();
            letters.iter().map(|letter| letter.decode().unwrap()).collect()
        }
    }
}
