//! The outbox in a file of SQLite.

use super::{Outbox, events, large, rounds};
use crate::hub::{Hub, Place, run_with};
use hub_core::outbox::NewRow;
use hub_outbox_sql::{Options, SqliteOutbox};
use hub_proto::Payload;
use std::sync::Arc;

pub fn outbox(place: &Place) -> Outbox {
    let url = format!("sqlite:{}", place.text("shop.db"));
    let ran = run_with(&["outbox", "init", "--apply"], &[("OUTBOX_URL", &url)]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "outbox is ready\n"), "{}", ran.err);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = runtime.block_on(SqliteOutbox::open(&url, Options::default())).unwrap();
    Outbox { store: Arc::new(store), url, runtime: Arc::new(runtime) }
}

#[test]
fn drainers_that_are_killed_lose_nothing_double_nothing_and_keep_the_order_of_keys() {
    let place = Place::new();
    rounds::run(&outbox(&place));
}

#[test]
fn many_rows_are_drained_in_little_memory_and_those_behind_a_bad_one_wait() {
    let place = Place::new();
    large::run(&outbox(&place));
}

#[test]
fn a_restored_database_publishes_again_what_it_had_and_no_event_is_there_twice() {
    let place = Place::new();
    let url = {
        let outbox = outbox(&place);
        let rows = (0..50).map(|n| NewRow::new("orders", Payload::of(&n).unwrap()).key("k"));
        outbox.get(outbox.store.add(rows.collect()));
        outbox.url
    };
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let drain = || {
        let environment = [("OUTBOX_URL", url.as_str()), ("EVENT_HUB_TOKEN", hub.token())];
        run_with(&["outbox", "drain", "--once", "--to", hub.ws()], &environment)
    };
    let files = ["shop.db", "shop.db-wal", "shop.db-shm"].map(|file| place.path(file));
    let backup: Vec<_> = files.iter().map(|file| std::fs::read(file).ok()).collect();
    for _ in 0..2 {
        let ran = drain();
        assert_eq!(ran.out, "outbox: 50 rows published, 0 parked, 0 to be tried again\n", "{}", ran.err);
        for (file, before) in files.iter().zip(&backup) {
            match before {
                Some(before) => std::fs::write(file, before).unwrap(),
                None => drop(std::fs::remove_file(file)),
            }
        }
    }
    let numbers: Vec<u64> =
        events(&hub, "orders").iter().map(|event| event["payload"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_hub_drains_a_file_that_its_configuration_names() {
    let place = Place::new();
    let outbox = outbox(&place);
    outbox.is_drained_by_a_hub();
}

#[test]
fn parked_rows_are_tried_again_through_a_hub_without_its_database() {
    let place = Place::new();
    let outbox = outbox(&place);
    let hub = Hub::start(&place.path("data"), &["--config", &outbox.config(&place, "")], &[]);
    let row = NewRow::new("no topic", Payload::of(&1).unwrap());
    let id = row.id.to_string();
    outbox.get(outbox.store.add(vec![row]));
    outbox.drained();
    assert_eq!(outbox.get(outbox.store.counts()).errors, 1);
    let retry = |args: &[&str], token: &str| {
        let hub = ["--ops-url", hub.http(), "--token", token];
        run_with(&[&["outbox", "retry", "--through-hub"], args, &hub].concat(), &[])
    };
    let ran = retry(&["--outbox", "shop", &id], hub.token());
    assert_eq!((ran.code, ran.out.as_str()), (0, "shop: 1 row will be tried again\n"), "{}", ran.err);
    outbox.drained();
    assert_eq!(outbox.get(outbox.store.counts()).errors, 1, "its topic is still no topic");
    let ran = retry(&["--outbox", "shop"], hub.token());
    assert_eq!((ran.code, ran.out.as_str()), (0, "shop: 1 row will be tried again\n"), "{}", ran.err);
    let ran = retry(&["--outbox", "shop", "0190a1b2-0000-7000-8000-000000000001"], hub.token());
    assert_eq!((ran.code, ran.out.as_str()), (1, "shop: 0 rows will be tried again\n"), "{}", ran.err);
    let ran = retry(&["--outbox", "crm"], hub.token());
    assert!(ran.code == 1 && ran.err.contains("there are: shop"), "{}", ran.err);
    let made = run_with(&["token", "--data", &place.text("data"), "--scope", "admin:orders"], &[]);
    let ran = retry(&["--outbox", "shop"], made.out.trim());
    assert!(ran.code == 1 && ran.err.contains("admin:**"), "{}", ran.err);
    assert_eq!(retry(&[], hub.token()).code, 2, "which outbox has to be said");
    hub.stop();
}

#[test]
fn a_table_that_is_not_there_is_told_with_what_to_do() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.write("empty.db", ""));
    let ran = run_with(&["outbox", "ls"], &[("OUTBOX_URL", &url)]);
    assert!(ran.code == 2 && ran.err.contains("event-hub outbox init"), "{}", ran.err);
    let ran = run_with(&["outbox", "init"], &[("OUTBOX_URL", &url)]);
    assert!(ran.code == 0 && ran.out.contains("CREATE TABLE"), "{}", ran.out);
    let ran = run_with(&["outbox", "ls", "--table", "no-name"], &[("OUTBOX_URL", &url)]);
    assert!(ran.code == 2 && ran.err.contains("no-name"), "{}", ran.err);
}
