//! The outbox in MongoDB.

use super::{Bed, publish, until};
use crate::hub::{Hub, Place, run_with};
use crate::outbox::{Outbox, events, large, rounds};
use hub_core::outbox::{NewRow, OutboxStore};
use hub_proto::Payload;
use hub_store_mongo::outbox::{MongoOutbox, OutboxOptions};
use hub_testbed::TestDatabase;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

pub struct World {
    pub outbox: Outbox,
    database: TestDatabase,
}

pub fn world() -> World {
    let bed = Bed::new();
    let database = bed.get(hub_testbed::database());
    let url = database.uri();
    let store = bed.get(async { Ok(MongoOutbox::connect(OutboxOptions::new(&url)).await?) });
    World { outbox: Outbox { store: Arc::new(store), url, runtime: Arc::new(bed.0) }, database }
}

fn row(topic: &str, payload: &Value) -> NewRow {
    NewRow::new(topic, Payload::of(payload).unwrap())
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
fn who_only_looks_at_an_outbox_makes_nothing() {
    let bed = Bed::new();
    let database = bed.get(hub_testbed::database());
    let ran = run_with(&["outbox", "ls"], &[("OUTBOX_URL", &database.uri())]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "outbox: 0 rows to be published; 0 parked\n"),
        "{}",
        ran.err
    );
    let names = bed.get(async { Ok(database.connect().await?.list_collection_names().await?) });
    assert_eq!(names, Vec::<String>::new());
}

#[test]
fn a_hub_on_mongodb_drains_its_own_outbox_and_shows_it() {
    let (world, place) = (world(), Place::new());
    let World { outbox, database } = &world;
    let hub = Hub::start(&place.path("data"), &[], &[("MONGO_URL", &database.uri())]);
    let rows = (0..50).map(|n| row("orders", &json!({ "n": n })).key("k")).collect();
    outbox.get(outbox.store.add(rows));
    outbox.drained();
    let numbers: Vec<u64> =
        events(&hub, "orders").iter().map(|event| event["payload"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    // One that can never be published.
    let bad = row("no topic", &json!(1)).key("k");
    let id = bad.id.to_string();
    outbox.get(outbox.store.add(vec![bad, row("orders", &json!({ "n": 50 })).key("k")]));
    let ask = |method, path: &str, body: &str| {
        let (status, body) = hub.ask(method, path, Some(hub.token()), body);
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    until("a parked row", || ask(Method::GET, "outbox", "").1["outboxes"][0]["parked"] == 1);
    let (_, shown) = ask(Method::GET, "outbox?outbox=outbox", "");
    let shown = &shown["outboxes"][0];
    assert_eq!(
        (&shown["name"], &shown["connected"], &shown["sent"]),
        (&json!("outbox"), &json!(true), &json!(50))
    );
    assert_eq!((&shown["pending"], &shown["rows"][0]["id"]), (&json!(1), &json!(id)), "{shown}");
    assert!(shown["rows"][0]["error"].as_str().unwrap().contains("topic"), "{shown}");
    let (_, metrics) = hub.ask(Method::GET, "metrics", None, "");
    for line in ["outbox_sent_total{outbox=\"outbox\"} 50", "outbox_errors_total{outbox=\"outbox\"} 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(metrics.contains("outbox_pending{outbox=\"outbox\"}"), "{metrics}");
    // Strangers do not retry, and what is not there is told.
    let (status, _) = hub.ask(Method::POST, "outbox/retry", None, "{\"outbox\":\"outbox\"}");
    assert_eq!(status, 401);
    let (status, answer) = ask(Method::POST, "outbox/retry", "{\"outbox\":\"nobody's\"}");
    assert_eq!((status, answer["error"].as_str().unwrap().contains("there are: outbox")), (404, true));
    for (bad, code) in
        [("[\"outbox\", null]", "bad_request"), ("{\"outbox\":7}", "bad_request"), ("{", "bad_json")]
    {
        let (status, answer) = ask(Method::POST, "outbox/retry", bad);
        assert_eq!((status, answer["code"].as_str()), (400, Some(code)), "{answer}");
    }
    let (status, answer) =
        ask(Method::POST, "outbox/retry", &json!({"outbox": "outbox", "ids": [id]}).to_string());
    assert_eq!((status, &answer["retried"]), (200, &json!(1)), "{answer}");
    until("the row again", || ask(Method::GET, "outbox", "").1["outboxes"][0]["rows"][0]["id"] == id);
    let log = hub.stop();
    assert!(
        log.contains("a row of the outbox is parked; later rows of its key wait until it is retried"),
        "{log}"
    );
}

#[test]
fn an_outbox_is_looked_after_from_the_command_line() {
    let world = world();
    let outbox = &world.outbox;
    let ran = outbox.command(&["ls"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "outbox: 0 rows to be published; 0 parked\n"),
        "{}",
        ran.err
    );
    let (good, bad) = (row("orders", &json!({"n": 1})), row("no topic", &json!(2)).key("k"));
    let (good_id, bad_id) = (good.id.to_string(), bad.id.to_string());
    // The last one is behind the bad one, and nobody waits for it.
    outbox.get(outbox.store.add(vec![good, bad, row("orders", &json!({"n": 3})).key("k")]));
    let ran = outbox.command(&["show", &good_id]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&shown["status"], &shown["payload"]), (&json!("pending"), &json!({"n": 1})));
    assert_eq!(outbox.command(&["show", "nothing"]).code, 1);
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let environment = [("OUTBOX_URL", outbox.url.as_str()), ("EVENT_HUB_TOKEN", hub.token())];
    let ran = crate::hub::run_with(&["outbox", "drain", "--once", "--to", hub.ws()], &environment);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "outbox: 1 row published, 1 parked, 0 to be tried again\n"),
        "{}",
        ran.err
    );
    assert_eq!(events(&hub, "orders").len(), 1);
    let ran = outbox.command(&["ls"]);
    assert!(ran.out.contains(&bad_id) && ran.out.contains("bad_request"), "{}", ran.out);
    assert!(!ran.out.contains(&good_id));
    let ran = outbox.command(&["ls", "--status", "all", "--json"]);
    let listing: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&listing["parked"], listing["rows"].as_array().unwrap().len()), (&json!(1), 3));
    let ran = outbox.command(&["retry", &bad_id]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "outbox: 1 row will be tried again\n"));
    assert_eq!(outbox.command(&["retry", &bad_id]).code, 1, "it is not parked any more");
    let ran = outbox.command(&["purge", "--hours", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "outbox: 1 row removed\n"));
    assert_eq!(outbox.command(&["init", "--apply"]).code, 0);
    // What is wrong is told, and the address is not.
    let ran = crate::hub::run_with(&["outbox", "ls", "--db", "mysql://me:hunter2@db/x"], &[]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("mongodb://, postgres:// or sqlite:") && !ran.err.contains("hunter2"),
        "{}",
        ran.err
    );
    let ran = crate::hub::run_with(&["outbox", "ls"], &[]);
    assert!(ran.code == 2 && ran.err.contains("there is no outbox to look at"), "{}", ran.err);
    // One that is larger than any frame is parked, and holds nobody up.
    let large = row("orders", &json!("x".repeat(5 << 20)));
    outbox.get(outbox.store.add(vec![
        large,
        row("orders", &json!({"n": 4})),
        row("orders", &json!({"n": 5})),
    ]));
    let ran = crate::hub::run_with(&["outbox", "drain", "--once", "--to", hub.ws()], &environment);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let parked: Value = serde_json::from_str(&outbox.command(&["ls", "--json"]).out).unwrap();
    let errors = parked["rows"].to_string();
    assert!(errors.contains("too_large") && errors.contains("topic"), "{parked}");
    assert_eq!(events(&hub, "orders").len(), 3);
    let ran = crate::hub::run_with(&["outbox", "drain", "--once", "--to", "ws://127.0.0.1:9/"], &environment);
    assert!(ran.code == 2 && ran.err.contains("start one with `event-hub serve`"), "{}", ran.err);
}

#[test]
fn a_hub_waits_for_the_database_of_an_outbox_and_serves_everybody_else() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let proxy = bed.get(hub_testbed::Proxy::start(&database.uri()));
    bed.get(proxy.cut());
    let url = proxy.database_uri(database.name());
    let config = place.write("hub.toml", &format!("[[outbox]]\nname = \"shop\"\nurl = {url:?}\n"));
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    assert_eq!(publish(&hub, "orders", "1").0, 200);
    let shown = || {
        let (_, body) = hub.ask(Method::GET, "outbox", Some(hub.token()), "");
        serde_json::from_str::<Value>(&body).unwrap()["outboxes"][0].clone()
    };
    until("a reason", || {
        shown()["connected"] == false
            && shown()["reason"].as_str().is_some_and(|why| why.contains("cannot be reached"))
    });
    bed.get(proxy.heal());
    until("its database", || shown()["connected"] == true);
    let store = bed.get(async { Ok(MongoOutbox::connect(OutboxOptions::new(database.uri())).await?) });
    bed.get(async { Ok(store.add(vec![row("orders", &json!(2))]).await?) });
    until("the row", || events(&hub, "orders").len() == 2);
    hub.stop();
}
