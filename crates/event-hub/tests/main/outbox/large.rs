//! Many rows at once: `EVENT_HUB_OUTBOX_ROWS=N` for more than usual.

use super::{Outbox, PATIENCE};
use crate::hub::{Hub, Place, Running};
use hub_core::outbox::NewRow;
use hub_proto::Payload;
use reqwest::Method;
use std::time::{Duration, Instant};

/// Resident memory of a drainer at most, however many rows there are.
const MEMORY_KIB: u64 = 200 << 10;

/// Drains so many rows while some of them, of one key, are behind a parked one; old rows are removed meanwhile.
pub fn run(outbox: &Outbox) {
    let rows = std::env::var("EVENT_HUB_OUTBOX_ROWS").ok().and_then(|rows| rows.parse().ok());
    let rows: u64 = rows.unwrap_or(20_000);
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let config = outbox.config(&place, "batch_size = 500\nkeep_sent_hours = 0\n");
    let row = |n: u64| {
        let topic = if n == 7 { "no topic" } else { "orders" };
        NewRow::new(topic, Payload::of(&n).unwrap()).key(format!("order-{}", n % 1_000))
    };
    for from in (0..rows).step_by(1_000) {
        outbox.get(outbox.store.add((from..rows.min(from + 1_000)).map(row).collect()));
    }
    let args = ["outbox", "drain", "--once", "--config", &config, "--to", hub.ws()];
    let began = Instant::now();
    let mut drainer = Running::start(&args, &[("EVENT_HUB_TOKEN", hub.token())]);
    let (status, mut most) = (format!("/proc/{}/status", drainer.id()), 0);
    while let Some(memory) = resident(&status) {
        most = most.max(memory);
        let patience = PATIENCE + Duration::from_millis(rows / 2);
        assert!(began.elapsed() < patience, "it does not end: {}", drainer.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(drainer.ended(), 0, "{}", drainer.log());
    let took = began.elapsed();
    // The bad one is the first of its key; the others wait behind it.
    let behind = rows.div_ceil(1_000) - 1;
    let counts = outbox.get(outbox.store.counts());
    assert_eq!((counts.pending, counts.errors), (behind, 1));
    let (_, topics) = hub.ask(Method::GET, "topics", Some(hub.token()), "");
    let topics: serde_json::Value = serde_json::from_str(&topics).unwrap();
    let orders = topics["topics"].as_array().unwrap().iter().find(|topic| topic["name"] == "orders").unwrap();
    assert_eq!(orders["last"].as_u64(), Some(rows - behind - 1), "{orders}");
    println!("{rows} rows drained in {took:?}, at most {} MiB", most >> 10);
    assert!(most < MEMORY_KIB, "{most} KiB");
}

/// Resident memory of a process in KiB, as long as it runs.
fn resident(status: &str) -> Option<u64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
