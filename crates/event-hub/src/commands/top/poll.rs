//! Asking the hub, once per interval, without keeping the keys waiting.

use crate::http::HttpHub;
use crate::listing;
use anyhow::Result;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Entries of a list that are asked for: more would be a burden for the hub.
const MOST_ENTRIES: usize = 5_000;
/// The largest share of its time that the hub may work for this view: one part in this number.
const PAUSE_FACTOR: u32 = 4;

/// What the hub answered at a time.
#[derive(Debug, Default)]
pub struct Look {
    pub topics: Vec<Value>,
    pub groups: Vec<Value>,
    /// There are more than these.
    pub is_cut: bool,
    pub health: Value,
}

/// Asks in the background.
pub struct Poller {
    looks: mpsc::Receiver<(Instant, Result<Look>)>,
    paused: watch::Sender<bool>,
}

impl Poller {
    /// Asks for the first time.
    ///
    /// # Errors
    /// If the hub does not answer, or refuses: later that is shown, and it is asked again.
    pub async fn start(hub: HttpHub, interval: Duration) -> Result<Self> {
        let first = look(&hub).await?;
        let (give, looks) = mpsc::channel(1);
        let (paused, mut is_paused) = watch::channel(false);
        tokio::spawn(async move {
            let mut next = Ok(first);
            let mut took = Duration::ZERO;
            loop {
                if give.send((Instant::now(), next)).await.is_err() {
                    return;
                }
                tokio::time::sleep(interval.max(took * PAUSE_FACTOR)).await;
                if is_paused.wait_for(|paused| !paused).await.is_err() {
                    return;
                }
                let began = Instant::now();
                next = look(&hub).await;
                took = began.elapsed();
            }
        });
        Ok(Self { looks, paused })
    }

    /// The next answer; never if there are no more.
    pub async fn next(&mut self) -> (Instant, Result<Look>) {
        match self.looks.recv().await {
            Some(look) => look,
            None => std::future::pending().await,
        }
    }

    /// Lets the hub alone, or not.
    pub fn pause(&self, pause: bool) {
        self.paused.send_replace(pause);
    }
}

async fn look(hub: &HttpHub) -> Result<Look> {
    let (topics, more_topics) = listing::entries(hub, "/topics", "topics", &[], MOST_ENTRIES).await?;
    let (groups, more_groups) = listing::entries(hub, "/groups", "groups", &[], MOST_ENTRIES).await?;
    let health = hub.probe("/readyz").await?;
    Ok(Look { topics, groups, is_cut: more_topics || more_groups, health })
}
