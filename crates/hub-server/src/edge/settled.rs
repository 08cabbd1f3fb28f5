//! What was acked lately. The owner may be gone before it has saved that; the next one hears of it.

use hub_core::Held;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// For so long. An owner saves within 200 ms; one that cannot is found dead after about five seconds.
const KEPT: Duration = Duration::from_secs(6);
/// So many; of more the oldest are forgotten, and may come again.
const MOST: usize = 10_000;

/// See the module.
#[derive(Default)]
pub(super) struct Settled {
    acks: VecDeque<(Instant, Held)>,
}

impl Settled {
    pub fn push(&mut self, held: Held) {
        let now = Instant::now();
        self.forget(now);
        if self.acks.len() >= MOST {
            self.acks.pop_front();
        }
        self.acks.push_back((now, held));
    }

    /// Forgets what has been saved by now.
    pub fn forget(&mut self, now: Instant) {
        while self.acks.front().is_some_and(|(at, _)| now.duration_since(*at) > KEPT) {
            self.acks.pop_front();
        }
        if self.acks.is_empty() {
            self.acks.shrink_to(64);
        }
    }

    pub fn list(&mut self) -> Vec<Held> {
        self.forget(Instant::now());
        self.acks.iter().map(|(_, held)| held.clone()).collect()
    }
}
