//! A hub that drains an outbox.

use hub_core::outbox::{Drained, Drainer, DrainerOptions, NewRow, OutboxStore, RowStatus, Shown};
use hub_core::{Bus, MemoryStore, Position};
use hub_proto::{EventId, Payload};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Hub {
    pub bus: Bus,
    stop: CancellationToken,
    drainer: JoinHandle<Drained>,
}

impl Hub {
    /// Looks for rows every 50 ms.
    pub async fn drains(outbox: &Arc<impl OutboxStore>) -> Self {
        Self::drains_with(outbox, DrainerOptions { interval: 50, ..DrainerOptions::default() }).await
    }

    /// Likewise, with a lease that is short enough to wait for.
    pub async fn drains_briefly(outbox: &Arc<impl OutboxStore>) -> Self {
        Self::drains_with(outbox, DrainerOptions { interval: 50, lease: 3_000, ..DrainerOptions::default() })
            .await
    }

    pub async fn drains_with(outbox: &Arc<impl OutboxStore>, options: DrainerOptions) -> Self {
        let bus = Bus::builder(MemoryStore::new()).open().await.unwrap();
        let stop = CancellationToken::new();
        let drainer = Drainer::new(outbox.clone(), Arc::new(bus.clone()), options);
        Self { drainer: tokio::spawn(drainer.run(stop.clone())), bus, stop }
    }

    /// What is published on a topic, once so many events are.
    pub async fn published(&self, topic: &str, count: usize) -> Vec<String> {
        for _ in 0..6_000 {
            let events = self.bus.scan(topic, Position::Earliest, None).await.unwrap_or_default();
            if events.len() >= count {
                let text = |json: &[u8]| String::from_utf8(json.to_vec()).unwrap();
                return events.iter().map(|event| text(event.payload())).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {count} events are published on {topic}");
    }

    pub async fn stop(self) -> Drained {
        self.stop.cancel();
        self.drainer.await.unwrap()
    }
}

/// A row of topic `t` that is written now.
pub fn row(n: u32, key: Option<&str>) -> NewRow {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let [a, b, c, d] = n.to_be_bytes();
    NewRow {
        id: EventId::from_bytes([1, 0x8f, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, a, b, c, d]),
        topic: "t".into(),
        payload: Payload::of(&n).unwrap(),
        headers: Vec::new(),
        key: key.map(str::to_owned),
        ord: None,
        at: u64::try_from(now.as_micros()).unwrap(),
    }
}

/// Rows of a status, once there are so many.
pub async fn rows(outbox: &Arc<impl OutboxStore>, status: RowStatus, count: usize) -> Vec<Shown> {
    for _ in 0..3_000 {
        let rows = outbox.list(Some(status), 10_000).await.unwrap_or_default();
        if rows.len() == count {
            return rows;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not {count} rows are {status:?}: {:?}", outbox.list(None, 100).await);
}
