//! What was acked lately. The owner may be gone before it has saved that; the next one hears of it.

use hub_core::Held;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// For so long. An owner saves within 200 ms; one that cannot is found dead after about five seconds.
const KEPT: Duration = Duration::from_secs(6);
/// So many, which is as many as a member may have in hand; of more the oldest are forgotten, and may come again.
const MOST: usize = 100_000;

/// See the module.
#[derive(Default)]
pub(super) struct Settled {
    acks: VecDeque<(Instant, Held)>,
    /// There is no owner to tell: nothing is forgotten until there is one.
    waits: bool,
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

    /// The owner is gone, and may not have saved what is here.
    pub fn wait(&mut self) {
        self.forget(Instant::now());
        self.waits = true;
    }

    /// An owner has been told; it saves that as any ack.
    pub fn told(&mut self) {
        let now = Instant::now();
        self.waits = false;
        self.acks.iter_mut().for_each(|(at, _)| *at = now);
    }

    /// Forgets what has been saved by now.
    pub fn forget(&mut self, now: Instant) {
        if self.waits {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use hub_proto::EventId;

    fn held(seq: u64) -> Held {
        let id = EventId::derived(&[&seq.to_be_bytes()]);
        Held { topic: "t".parse().expect("a name"), id, seq, attempt: 1, epoch: 0, left: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_ack_is_kept_until_its_owner_has_saved_it() {
        let mut settled = Settled::default();
        settled.push(held(1));
        tokio::time::sleep(KEPT / 2).await;
        settled.push(held(2));
        tokio::time::sleep(KEPT / 2 + Duration::from_millis(1)).await;
        assert_eq!(settled.list(), [held(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_forgotten_while_there_is_no_owner() {
        let mut settled = Settled::default();
        settled.push(held(1));
        settled.wait();
        settled.push(held(2));
        tokio::time::sleep(KEPT * 10).await;
        assert_eq!(settled.list(), [held(1), held(2)]);
        settled.told();
        tokio::time::sleep(KEPT / 2).await;
        assert_eq!(settled.list(), [held(1), held(2)], "the next owner has to save them, too");
        tokio::time::sleep(KEPT).await;
        assert_eq!(settled.list(), []);
    }
}
