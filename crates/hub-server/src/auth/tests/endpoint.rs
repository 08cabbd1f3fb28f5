//! An issuer's key set on a real socket.

use super::lab::Held;
use crate::auth::{AuthConfig, Authenticator};
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// An issuer. It goes away when dropped.
pub(super) struct Endpoint {
    pub(super) url: String,
    inner: Arc<Inner>,
    server: JoinHandle<()>,
}

struct Inner {
    answer: Mutex<(StatusCode, Vec<u8>)>,
    requests: AtomicUsize,
    arrived: Semaphore,
    /// Each answer takes one.
    may_answer: Semaphore,
}

impl Endpoint {
    /// One that has these keys.
    pub(super) async fn with(keys: &[Value]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let inner = Arc::new(Inner {
            answer: Mutex::new((StatusCode::OK, Vec::new())),
            requests: AtomicUsize::new(0),
            arrived: Semaphore::new(0),
            may_answer: Semaphore::new(1_000_000),
        });
        let router = axum::Router::new().fallback(answer).with_state(inner.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let endpoint = Self { url, inner, server };
        endpoint.set(keys);
        endpoint
    }

    /// Has these keys from now on.
    pub(super) fn set(&self, keys: &[Value]) {
        self.say(StatusCode::OK, json!({ "keys": keys }).to_string());
    }

    /// Answers something else.
    pub(super) fn say(&self, status: StatusCode, body: impl Into<Vec<u8>>) {
        *self.inner.answer.lock() = (status, body.into());
    }

    /// Lets requests come, and answers none of them before [`release`](Self::release).
    pub(super) fn hold(&self) {
        self.inner.may_answer.forget_permits(usize::MAX);
    }

    pub(super) fn release(&self) {
        self.inner.may_answer.add_permits(1_000_000);
    }

    /// Waits for the next request that nobody has waited for.
    pub(super) async fn request(&self) {
        self.inner.arrived.acquire().await.unwrap().forget();
    }

    /// How many there were.
    pub(super) fn requests(&self) -> usize {
        self.inner.requests.load(SeqCst)
    }

    /// A hub that believes it, with other settings as a test wants, and its clock.
    pub(super) fn hub(&self, set: impl FnOnce(&mut AuthConfig)) -> (Authenticator, Arc<Held>) {
        let mut config = self.config();
        set(&mut config);
        let clock = Arc::<Held>::default();
        (Authenticator::with_clock(config, clock.clone()).unwrap(), clock)
    }

    pub(super) fn config(&self) -> AuthConfig {
        AuthConfig { jwks_url: Some(self.url.clone()), ..AuthConfig::default() }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(inner): State<Arc<Inner>>) -> Response<Body> {
    inner.requests.fetch_add(1, SeqCst);
    inner.arrived.add_permits(1);
    inner.may_answer.acquire().await.unwrap().forget();
    let (status, body) = inner.answer.lock().clone();
    // For redirects, the body is where to.
    let location =
        if status.is_redirection() { String::from_utf8(body.clone()).unwrap() } else { String::new() };
    Response::builder().status(status).header("location", location).body(body.into()).unwrap()
}
