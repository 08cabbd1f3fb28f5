//! Processes that are stopped while they ask a database for something.

use super::outbox::{World, world};
use super::{Bed, until};
use crate::hub::{Hub, Place, Running, run_with};
use hub_core::outbox::NewRow;
use hub_proto::Payload;

/// Starts and stops of each kind.
const ROUNDS: usize = 9;
/// Rows that are written for each.
const ROWS: u64 = 2_000;

fn rows() -> Vec<NewRow> {
    (0..ROWS).map(|n| NewRow::new("orders", Payload::of(&n).unwrap())).collect()
}

#[track_caller]
fn has_not_panicked(log: &str) {
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_drainer_that_stops_while_it_works_does_not_panic() {
    let (world, place) = (world(), Place::new());
    let World { outbox, .. } = &world;
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let environment = [("OUTBOX_URL", outbox.url.as_str()), ("EVENT_HUB_TOKEN", hub.token())];
    for round in 0..ROUNDS {
        outbox.get(outbox.store.add(rows()));
        let mut drainer = Running::start(&["outbox", "drain", "--to", hub.ws()], &environment);
        drainer.logs("draining");
        // Once before anything is published, once in the middle, once when it waits for more.
        let left = [ROWS, ROWS / 2, 0][round % 3];
        until("some rows are published", || outbox.get(outbox.store.counts()).pending <= left);
        drainer.signal("TERM");
        has_not_panicked(drainer.last_log());
        assert_eq!(drainer.ended(), 0, "{}", drainer.log());
        // What it gave back is published before the next round counts.
        let ran = run_with(&["outbox", "drain", "--once", "--to", hub.ws()], &environment);
        has_not_panicked(&ran.err);
        ran.ends_with(0);
    }
    for command in [&["outbox", "ls"][..], &["outbox", "purge", "--hours", "0"], &["outbox", "retry"]] {
        let ran = run_with(command, &environment);
        has_not_panicked(&ran.err);
        ran.ends_with(0);
    }
    has_not_panicked(&hub.stop());
}

#[test]
fn a_hub_that_stops_while_it_works_does_not_panic() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    for _ in 0..ROUNDS / 3 {
        let hub = Hub::start(&place.path("data"), &[], &[("MONGO_URL", &database.uri())]);
        let (status, _) = super::publish(&hub, "orders", "1");
        assert_eq!(status, 200);
        has_not_panicked(&hub.stop());
    }
}
