//! Leases that run out before their timer fires.

use crate::world::next;
use hub_core::{Bus, Clock, MemoryStore, Millis, Position};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A clock that only the test moves. Timers do not notice.
#[derive(Clone, Default)]
struct SetClock(Arc<AtomicU64>);

impl Clock for SetClock {
    fn wall(&self) -> Millis {
        1_780_000_000_000 + self.steady()
    }

    fn steady(&self) -> Millis {
        self.0.load(Relaxed)
    }
}

#[tokio::test]
async fn a_lease_that_ran_out_has_failed_although_its_member_leaves_before_the_timer() {
    let clock = SetClock::default();
    let bus = Bus::builder(MemoryStore::new()).clock(clock.clone()).open().await.unwrap();
    let sub = bus.subscribe("t").group("g").max_attempts(1).ack_timeout(60_000);
    let mut sub = sub.open().await.unwrap();
    bus.publish("t", json!(1)).await.unwrap();
    next(&mut sub).await;
    clock.0.store(60_001, Relaxed);
    sub.close();
    let mut letters = bus.subscribe("dlq.t").group("ops").from(Position::Earliest).open().await.unwrap();
    next(&mut letters).await.ack().unwrap();
    bus.stop().await.unwrap();
}
