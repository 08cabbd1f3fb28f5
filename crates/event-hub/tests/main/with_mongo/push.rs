//! A push subscription that two hubs on one MongoDB could deliver.

use super::{Bed, publish, until};
use crate::endpoint::Endpoint;
use crate::hub::{Hub, Place};
use crate::push::SECRET;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests at a time.
const CONCURRENCY: usize = 4;
/// How long the endpoint takes for one.
const TAKES: Duration = Duration::from_millis(20);
/// Deliveries whose acks a killed hub may not have saved: what it was at, and 200 ms of answers.
const MOST_DOUBLED: usize = CONCURRENCY * (1 + 200 / 20);

fn ask(hub: &Hub, method: Method, path: &str, body: &str) -> Value {
    let (status, answer) = hub.ask(method, path, Some(hub.token()), body);
    assert_eq!(status, 200, "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

fn endpoint_at(hub: &Hub) -> Value {
    ask(hub, Method::GET, "push/crm", "")
}

/// Publishes numbers, through the hubs in turn.
fn publish_all(hubs: &[&Hub], numbers: std::ops::RangeInclusive<u64>) {
    for (n, hub) in numbers.zip(hubs.iter().cycle()) {
        let (status, answer) = publish(hub, "t", &n.to_string());
        assert_eq!(status, 200, "{answer}");
    }
}

/// Waits until the group has settled everything up to a seq, as this hub, which serves it, says.
fn settled(hub: &Hub, seq: u64) {
    until(&format!("everything is settled up to {seq}"), || {
        let groups = ask(hub, Method::GET, "groups?topic=t", "");
        groups["groups"][0]["floor"] == seq
    });
}

/// How often each number came.
fn counts(numbers: &[u64]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    numbers.iter().for_each(|n| *counts.entry(*n).or_default() += 1);
    counts
}

#[test]
fn one_hub_delivers_another_takes_over_and_an_endpoint_that_is_down_loses_nothing() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let hubs = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    let mut endpoint = Endpoint::new(TAKES);
    let definition = json!({"topic": "t", "url": endpoint.url(), "secrets": [SECRET], "allowPrivate": true,
        "from": "earliest", "concurrency": CONCURRENCY});
    ask(&hubs[0], Method::PUT, "push/crm", &definition.to_string());

    // One of them delivers, and the other one knows which.
    let states = || hubs.each_ref().map(|hub| endpoint_at_if_known(hub)["state"].clone());
    until("one delivers and the other does not", || {
        let states = states();
        states.contains(&json!("active")) && states.contains(&json!("elsewhere"))
    });
    let is_first = states()[0] == "active";
    let [first, second] = hubs;
    let (deliverer, other) = if is_first { (first, second) } else { (second, first) };
    assert_eq!(endpoint_at(&other)["owner"], deliverer.ws());
    publish_all(&[&deliverer, &other], 1..=20);
    settled(&deliverer, 20);
    assert_eq!(counts(&endpoint.numbers()), (1..=20).map(|n| (n, 1)).collect(), "each once");
    assert_eq!(endpoint_at(&other)["delivered"], 0);

    // It is killed in mid-delivery.
    publish_all(&[&deliverer, &other], 21..=60);
    endpoint.wait_for(|numbers| numbers.len() >= 28);
    let mut deliverer = deliverer;
    deliverer.process.signal("KILL");
    deliverer.process.ended();
    until("the other hub delivers", || endpoint_at(&other)["state"] == "active");
    settled(&other, 60);
    let seen = counts(&endpoint.numbers());
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>(), "nothing is lost");
    assert!(seen.values().all(|count| *count <= 2), "a take-over delivers an event once more: {seen:?}");
    let doubled = endpoint.numbers().len() - 60;
    assert!(doubled <= MOST_DOUBLED, "{doubled} came twice: {seen:?}");
    assert!(endpoint.most_under_way() <= CONCURRENCY, "{} at once", endpoint.most_under_way());

    // The endpoint is down, while its hub is another one, too.
    endpoint.go_down();
    publish_all(&[&other], 61..=80);
    until("the endpoint counts as failing", || endpoint_at(&other)["reason"] == "endpoint_failing");
    let third = Hub::start(&data, &[], &environment);
    until("the new hub knows", || endpoint_at_if_known(&third)["state"] == "elsewhere");
    other.stop();
    until("the new hub takes over", || {
        ["active", "failing"].iter().any(|state| endpoint_at(&third)["state"] == *state)
    });
    endpoint.come_back();
    settled(&third, 80);
    let seen = counts(&endpoint.numbers());
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>(), "nothing is lost");
    assert!((61..=80).all(|n| seen[&n] == 1), "nothing of it was delivered before: {seen:?}");
    let topics = ask(&third, Method::GET, "topics", "");
    assert!(!topics.to_string().contains("dlq."), "nothing is a dead letter: {topics}");
    third.stop();
}

/// The endpoint as a hub shows it; null while that has not heard of it.
fn endpoint_at_if_known(hub: &Hub) -> Value {
    let (status, answer) = hub.ask(Method::GET, "push/crm", Some(hub.token()), "");
    if status == 200 { serde_json::from_str(&answer).unwrap() } else { Value::Null }
}
