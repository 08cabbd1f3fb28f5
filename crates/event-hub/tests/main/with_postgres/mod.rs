//! The program beside PostgreSQL.

mod rights;
mod writers;

use crate::hub::run_with;
use crate::outbox::{Outbox, large, rounds};
use hub_outbox_sql::{Options, PostgresOutbox};
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
    world().outbox.is_drained_by_a_hub();
}
