//! Outboxes with the real program: what is the same for every database.

mod fake_hub;
mod hot_key;
pub mod large;
pub mod rounds;
pub mod sqlite;
pub mod writers;

use crate::hub::{Hub, Place, run_with};
use crate::world::Ran;
use hub_core::outbox::{NewRow, OutboxStore};
use hub_proto::Payload;
use reqwest::Method;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An outbox in some database.
pub struct Outbox {
    /// As a service would write to it.
    pub store: Arc<dyn OutboxStore>,
    /// Its address.
    pub url: String,
    /// What its calls run on.
    pub runtime: Arc<Runtime>,
}

impl Outbox {
    pub fn get<T>(&self, asked: impl Future<Output = hub_core::store::StoreResult<T>>) -> T {
        self.runtime.block_on(asked).unwrap()
    }

    /// Waits until nothing is to be published any more.
    #[track_caller]
    pub fn drained(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.get(self.store.counts()).pending > 0 {
            assert!(Instant::now() < deadline, "{:?}", self.get(self.store.list(None, 10)));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The configuration of a program that drains it.
    pub fn config(&self, place: &Place, more: &str) -> String {
        let text = format!("[[outbox]]\nname = \"shop\"\nurl = {:?}\nlease = \"1s\"\n{more}", self.url);
        place.write("hub.toml", &text)
    }

    /// A hub whose configuration names it publishes what is written to it, in its order.
    #[track_caller]
    pub fn is_drained_by_a_hub(&self) {
        let place = Place::new();
        let config = self.config(&place, "");
        let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
        let rows = (0..100).map(|n| NewRow::new("orders", Payload::of(&n).unwrap()).key("k"));
        self.get(self.store.add(rows.collect()));
        self.drained();
        let numbers: Vec<u64> =
            events(&hub, "orders").iter().map(|event| event["payload"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        hub.stop();
    }

    /// `event-hub outbox …` on it.
    pub fn command(&self, args: &[&str]) -> Ran {
        run_with(&[&["outbox"], args].concat(), &[("OUTBOX_URL", &self.url)])
    }
}

/// The events of a topic, in their order.
pub fn events(hub: &Hub, topic: &str) -> Vec<Value> {
    let path = format!("export?topic={topic}&ndjson=1");
    let (status, body) = hub.ask(Method::GET, &path, Some(hub.token()), "");
    assert_eq!(status, 200, "{body}");
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
