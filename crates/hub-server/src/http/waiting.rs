//! A hub whose store is not there yet: it listens, says so, and takes nothing.
//!
//! Whoever restarts processes sees that this one runs (`/healthz`), whoever sends it work that it is not ready
//! (`/readyz`). The files of the dashboard are there, too: a page that is open finds the hub when the wait is over. Anything else, on
//! either port, is `unavailable`.

use super::auth::{is_known_to, is_open_by};
use super::dashboard;
use super::error::{Answer, Failure};
use super::every_answer;
use super::health::{Details, healthz, not_ready};
use super::query::Params;
use crate::Settings;
use crate::auth::Authenticator;
use crate::net::{self, Tls};
use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::middleware::map_response;
use axum::routing::get;
use hub_proto::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Answers under way when the wait is over have so long; then their connections are left to themselves.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The ports of a hub that waits for its store.
///
/// [`serve`](Self::serve) only borrows the listeners: once the store is there, [`end`](Self::end) the wait and serve the
/// hub on them.
#[derive(Clone)]
pub struct Waiting {
    auth: Authenticator,
    settings: watch::Receiver<Arc<Settings>>,
    reason: Arc<watch::Sender<String>>,
    over: CancellationToken,
    sessions: TaskTracker,
}

impl Waiting {
    /// For a hub with these settings; `reason` is what it waits for.
    pub fn new(auth: Authenticator, settings: Settings, reason: impl Into<String>) -> Self {
        let (_, settings) = watch::channel(Arc::new(settings));
        let reason = Arc::new(watch::Sender::new(reason.into()));
        Self { auth, settings, reason, over: CancellationToken::new(), sessions: TaskTracker::new() }
    }

    /// Why it still waits.
    pub fn say(&self, reason: impl Into<String>) {
        self.reason.send_replace(reason.into());
    }

    /// Answers on both ports, until the wait is over.
    pub async fn serve(&self, gateway: &TcpListener, ops: &TcpListener, tls: Option<&Tls>) {
        let place = || net::Place {
            tls: tls.cloned(),
            settings: self.settings.clone(),
            draining: self.over.clone(),
            sessions: self.sessions.clone(),
        };
        let health = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .merge(dashboard::routes(self.settings.clone()))
            .fallback(not_yet)
            .layer(map_response(every_answer))
            .with_state(self.clone());
        let nothing = Router::new().fallback(not_yet).layer(map_response(every_answer));
        tokio::join!(net::answer(gateway, nothing, place()), net::answer(ops, health, place()));
    }

    /// The wait is over. Connections are told to come back.
    pub async fn end(self) {
        self.over.cancel();
        self.sessions.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.sessions.wait()).await;
    }
}

async fn readyz(State(waiting): State<Waiting>, RawQuery(query): RawQuery, request: Request) -> Answer {
    let (parts, _) = request.into_parts();
    Params::read(query.as_deref(), &[])?;
    let is_open = is_open_by(&waiting.settings.borrow(), &parts);
    let details = is_open || is_known_to(&waiting.auth, &parts).await;
    Ok(not_ready(details.then(|| Details::because(waiting.reason.borrow().clone()))))
}

async fn not_yet() -> Failure {
    Failure::later(Error::unavailable("the hub waits for its store; try again later"))
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("reason", &*self.reason.borrow()).finish_non_exhaustive()
    }
}
