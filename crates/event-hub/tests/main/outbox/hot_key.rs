//! Many rows of one key, which a hub behind a socket takes in few frames.

use super::fake_hub::FakeHub;
use super::sqlite::outbox;
use super::{Outbox, events};
use crate::hub::{Hub, Place, run_with};
use hub_core::outbox::{NewRow, RowStatus};
use hub_proto::Payload;
use reqwest::Method;
use serde_json::{Value, json};

const ROWS: u64 = 1_000;

fn row(n: u64) -> NewRow {
    NewRow::new("orders", Payload::of(&n).unwrap()).key("hot")
}

/// Drains to a hub until nothing is left; what the program says.
fn drain(outbox: &Outbox, hub: &Hub) -> String {
    drain_to(outbox, hub.ws(), hub.token())
}

fn drain_to(outbox: &Outbox, url: &str, token: &str) -> String {
    let environment = [("OUTBOX_URL", outbox.url.as_str()), ("EVENT_HUB_TOKEN", token)];
    let ran = run_with(&["outbox", "drain", "--once", "--to", url], &environment);
    ran.out + &ran.err
}

fn numbers(hub: &Hub) -> Vec<u64> {
    events(hub, "orders").iter().map(|event| event["payload"].as_u64().unwrap()).collect()
}

/// Commits of the hub that had events in them. A key's next frame goes out when the one before it is answered, so there are
/// as many as there were frames.
fn commits(hub: &Hub) -> u64 {
    let (_, metrics) = hub.ask(Method::GET, "metrics", None, "");
    let count = metrics.lines().find_map(|line| line.strip_prefix("store_commit_batch_events_count "));
    count.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

#[test]
fn a_hot_key_is_published_in_order_with_far_fewer_commits_than_rows() {
    let place = Place::new();
    let outbox = outbox(&place);
    let hub = Hub::start(&place.path("data"), &[], &[]);
    outbox.get(outbox.store.add((0..ROWS).map(row).collect()));
    let said = drain(&outbox, &hub);
    assert!(said.contains("1,000 rows published, 0 parked, 0 to be tried again"), "{said}");
    let commits = commits(&hub);
    println!("{ROWS} rows of one key, {commits} commits");
    assert!(commits <= ROWS / 20, "{commits} commits");
    assert_eq!(numbers(&hub), (0..ROWS).collect::<Vec<_>>());
    hub.stop();
}

/// Drains rows of one key to a hub that says this to AUTH. The payloads of each frame that it got.
fn frames(welcome: Value) -> Vec<Vec<u64>> {
    let place = Place::new();
    let outbox = outbox(&place);
    outbox.get(outbox.store.add((0..200).map(row).collect()));
    let hub = outbox.runtime.block_on(FakeHub::start(welcome));
    let said = drain_to(&outbox, &hub.url, "any");
    assert!(said.contains("200 rows published, 0 parked"), "{said}");
    let payload = |event: &Value| event["payload"].as_u64().unwrap();
    let payloads = |frame: &Value| match frame["events"].as_array() {
        Some(events) => {
            assert_eq!(frame["ordered"], true);
            events.iter().map(payload).collect()
        }
        None => vec![payload(frame)],
    };
    hub.publishes().iter().map(payloads).collect()
}

#[test]
fn a_hub_that_has_no_ordered_batches_gets_the_rows_of_a_key_one_by_one() {
    for welcome in [json!({}), json!({"features": ["something_else"]})] {
        let frames = frames(welcome);
        assert_eq!(frames, (0..200).map(|n| vec![n]).collect::<Vec<_>>());
    }
}

#[test]
fn a_hub_that_has_ordered_batches_gets_the_rows_of_a_key_in_few_frames() {
    let frames = frames(json!({"features": ["ordered"]}));
    assert!(frames.len() <= 10, "{} frames", frames.len());
    assert_eq!(frames.concat(), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_refused_row_of_a_hot_key_holds_back_the_rows_behind_it_and_no_others() {
    let place = Place::new();
    let outbox = outbox(&place);
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let bad = |n: u64| {
        if n == 500 { NewRow::new("dlq.orders", Payload::of(&n).unwrap()).key("hot") } else { row(n) }
    };
    outbox.get(outbox.store.add((0..ROWS).map(bad).collect()));
    let said = drain(&outbox, &hub);
    assert!(said.contains("500 rows published, 1 parked"), "{said}");
    assert_eq!(numbers(&hub), (0..500).collect::<Vec<_>>());
    let commits = commits(&hub);
    assert!(commits <= ROWS / 20, "{commits} commits");
    let parked = outbox.get(outbox.store.list(Some(RowStatus::Error), 10));
    assert_eq!(parked.len(), 1);
    assert!(format!("{:?}", parked[0]).contains("forbidden"), "{parked:?}");
    assert_eq!(outbox.get(outbox.store.counts()).pending, ROWS - 501);
    hub.stop();
}

#[test]
fn a_hot_key_goes_on_in_smaller_batches_where_the_rate_does_not_allow_large_ones() {
    let place = Place::new();
    let outbox = outbox(&place);
    let config = place.write("limits.toml", "[limits]\nconnection_rate = 100\n");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    outbox.get(outbox.store.add((0..300).map(row).collect()));
    let said = drain(&outbox, &hub);
    assert!(said.contains("300 rows published, 0 parked"), "{said}");
    assert_eq!(numbers(&hub), (0..300).collect::<Vec<_>>());
    hub.stop();
}

#[test]
fn a_row_that_is_larger_than_a_frame_is_found_and_parked_among_the_rows_of_a_hot_key() {
    let place = Place::new();
    let outbox = outbox(&place);
    let config = place.write("limits.toml", "[limits]\nmax_payload = \"16KiB\"\nframe_bytes = \"16KiB\"\n");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let text = |n: usize| "x".repeat(if n == 100 { 40_000 } else { 500 + n });
    let row = |n: usize| NewRow::new("orders", Payload::of(&text(n)).unwrap()).key("hot");
    outbox.get(outbox.store.add((0..200).map(row).collect()));
    let said = drain(&outbox, &hub);
    assert!(said.contains("100 rows published, 1 parked"), "{said}");
    let lengths: Vec<usize> =
        events(&hub, "orders").iter().map(|event| event["payload"].as_str().unwrap().len() - 500).collect();
    assert_eq!(lengths, (0..100).collect::<Vec<_>>());
    let parked = outbox.get(outbox.store.list(Some(RowStatus::Error), 10));
    assert!(parked.len() == 1 && format!("{:?}", parked[0]).contains("too_large"), "{parked:?}");
    hub.stop();
}
