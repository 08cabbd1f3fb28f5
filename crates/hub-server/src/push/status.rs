//! How an endpoint is doing.

use super::request::Outcome;
use hub_core::Millis;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What an endpoint is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PushState {
    /// It has not joined its group yet.
    #[default]
    Starting,
    /// It delivers.
    Active,
    /// It was paused, by a 410, until somebody resumes it.
    Paused,
    /// It asked to be left alone for a while.
    Deferred,
    /// It fails again and again; a probe now and then finds out when it does not.
    Failing,
    /// Another hub, at this address, delivers.
    Elsewhere(String),
    /// It cannot join its group, for this reason.
    Trouble(String),
}

impl PushState {
    /// The word in answers.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Deferred => "deferred",
            Self::Failing => "failing",
            Self::Elsewhere(_) => "elsewhere",
            Self::Trouble(_) => "trouble",
        }
    }
}

/// The last answer that was none of 2xx.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastFailure {
    at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    error: String,
}

/// Outcomes of deliveries, by their labels.
const LABELS: [&str; 8] =
    ["delivered", "gone", "deferred", "refused", "server_error", "unreachable", "timeout", "interrupted"];

/// How an endpoint is doing on this hub.
#[derive(Debug)]
pub(crate) struct Status {
    state: Mutex<PushState>,
    last_failure: Mutex<Option<LastFailure>>,
    in_flight: AtomicUsize,
    outcomes: [Counter; LABELS.len()],
    pub(super) duration_seconds: Histogram,
}

impl Default for Status {
    fn default() -> Self {
        let bounds =
            [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0];
        Self {
            state: Mutex::default(),
            last_failure: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            outcomes: Default::default(),
            duration_seconds: Histogram::new(bounds),
        }
    }
}

impl Status {
    pub fn state(&self) -> PushState {
        self.state.lock().clone()
    }

    pub(super) fn set_state(&self, state: PushState) {
        *self.state.lock() = state;
    }

    pub fn last_failure(&self) -> Option<LastFailure> {
        self.last_failure.lock().clone()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    pub(super) fn set_in_flight(&self, in_flight: usize) {
        self.in_flight.store(in_flight, Relaxed);
    }

    /// Requests that ended so since this hub started, by label.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LABELS.into_iter().zip(self.outcomes.iter().map(Counter::get))
    }

    /// Requests that were answered with 2xx since this hub started.
    pub fn delivered(&self) -> u64 {
        self.outcomes[0].get()
    }

    /// Counts a request that has ended.
    pub(super) fn count(&self, outcome: &Outcome, took_seconds: f64, now: Millis) {
        let label = outcome.label();
        if let Some(at) = LABELS.iter().position(|known| *known == label) {
            self.outcomes[at].inc();
        }
        self.duration_seconds.observe(took_seconds);
        if !matches!(outcome, Outcome::Delivered(_)) {
            let failure = LastFailure { at: now, status: outcome.status(), error: outcome.reason() };
            *self.last_failure.lock() = Some(failure);
        }
    }
}
