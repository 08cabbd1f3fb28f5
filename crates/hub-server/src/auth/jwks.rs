//! The key set of an issuer, kept and renewed.
//!
//! - The first token fetches it; whoever comes meanwhile waits for the same request.
//! - A token that no key could have signed asks for a newer set. That is a stranger's to cause, so there is at most one
//!   request per [`PAUSE`], whatever came of the last.
//! - A set older than [`STALE`] is renewed behind the token that finds it so; one older than [`OLD`], on a hub where nobody
//!   came for long, before it. Keys that the issuer has withdrawn are gone then.
//! - While the issuer cannot be reached, the last set is used.

use super::KeyPrint;
use super::fetch::{Source, TIMEOUT};
use super::keys::KeySet;
use hub_core::{Clock, Millis};
use hub_proto::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The least time between two requests.
const PAUSE: Millis = 10_000;

/// A set of this age is renewed while it is used.
const STALE: Millis = 10 * 60_000;

/// A set of this age is renewed before it is used.
const OLD: Millis = 60 * 60_000;

/// A key set that renews itself. Dropping it ends the request that may be under way.
pub(super) struct Jwks {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    set: Option<Arc<KeySet>>,
    /// When the set came, on the steady clock; `None` is too long ago to count.
    fetched: Option<Millis>,
    /// When it was last asked for.
    tried: Option<Millis>,
    /// The last request failed.
    failed: bool,
    /// How often the set was expired: an answer to a request from before that says what was, and does not count.
    generation: u64,
    flight: Option<Flight>,
}

/// A request.
struct Flight {
    /// Closed once it is over.
    done: watch::Receiver<()>,
    task: AbortHandle,
}

/// What there is after a newer set was asked for.
pub(super) struct Newer {
    pub(super) set: Arc<KeySet>,
    /// It is the newest that there is, as far as anybody knows.
    pub(super) is_fresh: bool,
}

impl Jwks {
    pub(super) fn new(url: &str, clock: Arc<dyn Clock>) -> Result<Self> {
        let shared = Shared { source: Source::new(url, TIMEOUT)?, clock, state: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The set to try first.
    pub(super) async fn current(&self) -> Result<Arc<KeySet>> {
        let (age, has_set, failed) = {
            let state = self.shared.state.lock();
            let now = self.shared.clock.steady();
            let age = state.fetched.map_or(Millis::MAX, |fetched| now.saturating_sub(fetched));
            (age, state.set.is_some(), state.failed)
        };
        if age >= STALE {
            self.fetch();
            // An issuer that does not answer must not hold up those whose keys are known.
            if !has_set || (age >= OLD && !failed) {
                self.renewed().await;
            }
        }
        self.newest().map(|newer| newer.set)
    }

    /// The set after asking for a newer one, if that may be asked for now.
    pub(super) async fn newer(&self) -> Result<Newer> {
        self.renewed().await;
        self.newest()
    }

    /// Waits for the request that is under way or due. One that was ended because the set expired is made again.
    async fn renewed(&self) {
        loop {
            let generation = self.shared.state.lock().generation;
            landed(self.fetch()).await;
            if self.shared.state.lock().generation == generation {
                return;
            }
        }
    }

    /// Whether a key is in the newest set. Without any set that cannot be told, and it counts as there.
    pub(super) fn has_key(&self, print: &KeyPrint) -> bool {
        self.shared.state.lock().set.as_ref().is_none_or(|set| set.has(print))
    }

    /// Has the set renewed before it is next used, however young it is.
    pub(super) fn expire(&self) {
        let mut state = self.shared.state.lock();
        (state.fetched, state.tried, state.failed) = (None, None, false);
        state.generation += 1;
        if let Some(flight) = state.flight.take() {
            flight.task.abort();
        }
    }

    fn newest(&self) -> Result<Newer> {
        let state = self.shared.state.lock();
        match &state.set {
            Some(set) => Ok(Newer { set: set.clone(), is_fresh: !state.failed }),
            None => Err(out_of_reach()),
        }
    }

    /// The request that is under way, or a new one if it is time for one.
    fn fetch(&self) -> Option<watch::Receiver<()>> {
        let mut state = self.shared.state.lock();
        if let Some(flight) = state.flight.as_ref().filter(|flight| flight.is_under_way()) {
            return Some(flight.done.clone());
        }
        let now = self.shared.clock.steady();
        if state.tried.is_some_and(|tried| now < tried + PAUSE) {
            return None;
        }
        state.tried = Some(now);
        let (over, done) = watch::channel(());
        let (shared, generation) = (self.shared.clone(), state.generation);
        // A task of its own: whoever caused it may go away, and others wait for it too.
        let task = tokio::spawn(async move {
            shared.renew(generation).await;
            drop(over);
        });
        state.flight = Some(Flight { done: done.clone(), task: task.abort_handle() });
        Some(done)
    }
}

impl Drop for Jwks {
    fn drop(&mut self) {
        if let Some(flight) = self.shared.state.lock().flight.take() {
            flight.task.abort();
        }
    }
}

impl Shared {
    async fn renew(&self, generation: u64) {
        let answer = self.source.fetch().await;
        let host = self.source.host();
        let mut state = self.state.lock();
        if state.generation != generation {
            return;
        }
        state.failed = answer.is_err();
        match answer {
            Ok(set) => {
                if set.len() == 0 {
                    tracing::warn!(host, "the key set has no key that the hub can use");
                } else {
                    tracing::debug!(host, keys = set.len(), "fetched the key set");
                }
                state.set = Some(Arc::new(set));
                state.fetched = Some(self.clock.steady());
            }
            Err(why) => {
                let has_old = state.set.is_some();
                tracing::warn!(
                    host,
                    why,
                    has_old,
                    "could not fetch the key set; trying again in 10 s or later"
                );
            }
        }
    }
}

impl Flight {
    fn is_under_way(&self) -> bool {
        self.done.has_changed().is_ok()
    }
}

async fn landed(flight: Option<watch::Receiver<()>>) {
    if let Some(mut done) = flight {
        // Nothing is ever sent: it ends when the request does.
        while done.changed().await.is_ok() {}
    }
}

/// The answer to those whose key may be there, if only the issuer could be asked.
pub(super) fn out_of_reach() -> Error {
    Error::unavailable("the issuer's keys cannot be fetched at present (JWT_JWKS_URL): try again in 10 s")
}
