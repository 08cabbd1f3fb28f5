//! The program beside PostgreSQL.

mod rights;
mod writers;

use crate::hub::{Hub, Place, run_with};
use crate::outbox::{Outbox, events, large, rounds};
use hub_core::outbox::NewRow;
use hub_outbox_sql::{Options, PostgresOutbox};
use hub_proto::Payload;
use hub_testbed::postgres::{self, Database};
use std::sync::Arc;

struct World {
    outbox: Outbox,
    _database: Database,
}

fn world() -> World {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let database = runtime.block_on(postgres::database()).unwrap();
    let url = database.url();
    let ran = run_with(&["outbox", "init", "--apply"], &[("OUTBOX_URL", &url)]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "outbox is ready\n"), "{}", ran.err);
    let store = runtime.block_on(PostgresOutbox::connect(&url, Options::default())).unwrap();
    World { outbox: Outbox { store: Arc::new(store), url, runtime: Arc::new(runtime) }, _database: database }
}

#[test]
fn drainers_that_are_killed_lose_nothing_double_nothing_and_keep_the_order_of_keys() {
    rounds::run(&world().outbox);
}

#[test]
fn many_rows_are_drained_in_little_memory_and_those_behind_a_bad_one_wait() {
    large::run(&world().outbox);
}

#[test]
fn a_hub_drains_a_table_that_its_configuration_names() {
    let (world, place) = (world(), Place::new());
    let outbox = &world.outbox;
    let config = outbox.config(&place, "");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let rows = (0..100).map(|n| NewRow::new("orders", Payload::of(&n).unwrap()).key("k"));
    outbox.get(outbox.store.add(rows.collect()));
    outbox.drained();
    let numbers: Vec<u64> =
        events(&hub, "orders").iter().map(|event| event["payload"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    hub.stop();
}
