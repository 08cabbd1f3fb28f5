//! A hub on MongoDB: what it says, what it keeps, and where.

use super::{Bed, publish};
use crate::hub::{Hub, Place, Running};
use crate::socket::{Socket, clients};
use reqwest::Method;
use serde_json::json;

#[test]
fn a_restart_keeps_events_and_cursors_and_the_data_directory_has_a_secret_alone() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let hub = Hub::start(&data, &[], &environment);
    assert_eq!(hub.ready["mongo"]["database"], database.name());
    assert!(hub.ready["mongo"]["hosts"].as_str().unwrap().starts_with("127.0.0.1:"), "{}", hub.ready);
    assert!(hub.ready.get("data").is_none(), "{}", hub.ready);
    for n in 1..=3 {
        let (status, answer) = publish(&hub, "orders", &format!("{{\"n\":{n}}}"));
        assert_eq!(
            (status, &answer["durable"], &answer["seq"]),
            (200, &json!("majority"), &json!(n)),
            "{answer}"
        );
    }
    let token = hub.token().to_owned();
    let subscribe =
        json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": {"from": "earliest"}});
    clients(async {
        let mut socket = Socket::open(hub.ws(), &token).await;
        socket.ok(subscribe.clone()).await;
        let first = socket.next().await.unwrap();
        assert_eq!((&first["event"]["seq"], &first["ctx"]["attempt"]), (&json!(1), &json!(1)), "{first}");
        let ack = json!({"op": "ACK", "topic": "orders", "group": "billing", "id": first["event"]["id"], "corr": "a"});
        socket.send(&ack).await.unwrap();
        while socket.next().await.unwrap()["op"] != "OK" {}
    });
    hub.stop();
    let files: Vec<_> = std::fs::read_dir(&data).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["dev-secret"]);

    let hub = Hub::start(&data, &[], &environment);
    let (status, body) = hub.ask(Method::GET, "export?topic=orders&ndjson=1", Some(&token), "");
    assert_eq!((status, body.lines().count()), (200, 3), "{body}");
    clients(async {
        let mut socket = Socket::open(hub.ws(), &token).await;
        socket.ok(subscribe).await;
        let next = socket.next().await.unwrap();
        assert_eq!(next["event"]["seq"], 2, "what was acked does not come again: {next}");
    });
    hub.stop();
}

#[test]
fn for_people_the_database_is_named_and_the_password_is_not() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let args = ["serve", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    let mut process = Running::start(&args, &[("MONGO_URL", &database.uri())]);
    let mut said = String::new();
    while !said.contains("event-hub token") {
        said += &process.line();
    }
    let line = said.lines().find(|line| line.starts_with("  MongoDB    127.0.0.1:")).expect(&said);
    assert!(line.ends_with(&format!(", database {}", database.name())), "{line}");
    assert!(!said.contains("  data "), "{said}");
    process.signal("TERM");
    assert_eq!(process.ended(), 0);
}

#[test]
fn collections_are_called_as_the_file_says() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let url = place.write("url", &format!("{}\n", database.uri()));
    let config = place.write(
        "hub.toml",
        &format!("[mongo]\nurl_file = {url:?}\nevents = \"shop.events\"\nhubs = \"shop.hubs\"\n"),
    );
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    assert_eq!(publish(&hub, "orders", "1").0, 200);
    let names = bed.get(async { Ok(database.connect().await?.list_collection_names().await?) });
    for name in ["shop.events", "shop.hubs", "topics"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert!(!names.iter().any(|name| name == "events" || name == "hubs"), "{names:?}");
    let log = hub.stop();
    assert!(log.contains("(mongo.url_file) can be read by others"), "{log}");
}
