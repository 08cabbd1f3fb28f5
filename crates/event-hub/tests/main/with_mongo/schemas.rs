//! Schemas of two hubs on one MongoDB.

use super::{Bed, publish, until};
use crate::hub::{Hub, Place};
use reqwest::Method;
use serde_json::Value;

fn put(hub: &Hub, path: &str, schema: &str) -> (u16, Value) {
    let (status, answer) = hub.ask(Method::PUT, &format!("schemas/{path}"), Some(hub.token()), schema);
    (status, serde_json::from_str(&answer).unwrap())
}

#[test]
fn what_is_put_at_one_hub_is_enforced_at_the_other_and_after_a_restart() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let [a, mut b] = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    // The topic is known to the other hub, without a schema, before there is one.
    assert_eq!(publish(&b, "orders", "\"text\"").0, 200);
    assert_eq!(put(&a, "orders", r#"{"type":"integer"}"#).0, 200);
    assert_eq!(publish(&a, "orders", "\"text\"").0, 422, "the hub that answered the PUT enforces it at once");
    until("the other hub enforces it", || publish(&b, "orders", "\"text\"").0 == 422);
    assert_eq!(publish(&b, "orders", "1").0, 200);

    // A version that is put at the other hub follows the one of the first, and is compared with it.
    assert_eq!(put(&b, "orders", r#"{"type":"string"}"#).0, 400);
    assert_eq!(put(&b, "orders", r#"{"type":["integer","string"]}"#).1["version"], 2);
    until("the first hub follows", || publish(&a, "orders", "\"text\"").0 == 200);

    // A hub that starts enforces what is stored before it takes anything.
    b.process.signal("KILL");
    b.process.ended();
    b.start_again_with(&data, &environment);
    assert_eq!(publish(&b, "orders", "1.5").0, 422);
    let (status, _) = b.ask(Method::DELETE, "schemas/orders", Some(b.token()), "");
    assert_eq!(status, 200);
    until("the deletion comes to the first hub", || publish(&a, "orders", "1.5").0 == 200);
    a.stop();
    b.stop();
}

/// Both decide on the version after the one that they know; one of them is refused.
#[test]
fn of_two_versions_that_are_put_at_once_one_follows_the_other_or_is_refused() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let mut hubs = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    for round in 0..10 {
        let topic = format!("t{round}");
        let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
            // Each accepts what the other does not.
            let [first, second] = &mut hubs;
            let puts = [(first, r#"{"type":"integer"}"#), (second, r#"{"type":"string"}"#)];
            let topic = &topic;
            let threads = puts.map(|(hub, schema)| scope.spawn(move || put(hub, topic, schema)));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stored = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(stored, 1, "{answers:?}");
        assert!(answers.iter().all(|(status, _)| [200, 400, 409].contains(status)), "{answers:?}");
    }
    for hub in hubs {
        hub.stop();
    }
}
