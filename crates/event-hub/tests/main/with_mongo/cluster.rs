//! Two hubs on one MongoDB, and who looks at them.

use super::{Bed, publish, until};
use crate::hub::{Hub, Place, run_with};
use crate::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What `cluster ls` says.
fn listed(url: &str) -> Value {
    run_with(&["cluster", "ls", "--json"], &[("MONGO_URL", url)]).ends_with(0).json()
}

/// The hub of a listing that has an address.
fn at<'a>(listing: &'a Value, hub: &Hub) -> &'a Value {
    let hubs = listing["hubs"].as_array().unwrap();
    hubs.iter()
        .find(|found| found["address"] == hub.ws())
        .unwrap_or_else(|| panic!("{} in {listing}", hub.ws()))
}

#[test]
fn one_group_across_two_hubs_with_nothing_but_mongo_url_and_other_ports() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let hubs = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    let subscribe =
        json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": {"from": "earliest"}});
    let taken = bed.0.block_on(async {
        let mut members = Vec::new();
        for hub in &hubs {
            let mut member = Socket::open(hub.ws(), hub.token()).await;
            member.ok(subscribe.clone()).await;
            members.push(member);
        }
        for (n, hub) in hubs.iter().cycle().take(40).enumerate() {
            let topic = "publish/orders";
            let client =
                reqwest::Client::new().post(format!("{}{topic}", hub.http())).bearer_auth(hub.token());
            assert_eq!(client.body(n.to_string()).send().await.unwrap().status().as_u16(), 200);
        }
        let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
        let [a, b] = &mut members[..] else { panic!("two members") };
        while taken.len() < 40 {
            let (at, frame) = tokio::select! {
                frame = a.next() => (0, frame.unwrap()),
                frame = b.next() => (1, frame.unwrap()),
            };
            assert_eq!((&frame["op"], &frame["ctx"]["attempt"]), (&json!("EVENT"), &json!(1)), "{frame}");
            let (id, seq) = (&frame["event"]["id"], frame["event"]["seq"].as_u64().unwrap());
            assert_eq!(taken.insert(seq, at), None, "{seq} came twice");
            let ack = json!({"op": "ACK", "topic": "orders", "group": "billing", "id": id});
            let member = if at == 0 { &mut *a } else { &mut *b };
            member.send(&ack).await.unwrap();
        }
        taken
    });
    for member in 0..2 {
        assert!(taken.values().any(|by| *by == member), "member {member} got nothing: {taken:?}");
    }
    let [a, b] = hubs;
    b.stop();
    assert_eq!(publish(&a, "orders", "40").0, 200);
    a.stop();
}

#[test]
fn cluster_ls_shows_who_lives_and_what_each_of_them_serves() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let hubs = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    let members: Vec<Socket> = bed.0.block_on(async {
        let mut members = Vec::new();
        for (hub, group) in hubs.iter().zip(["mail", "billing"]) {
            let mut member = Socket::open(hub.ws(), hub.token()).await;
            member.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": group})).await;
            members.push(member);
        }
        members
    });
    let listing = listed(&url);
    for (hub, group) in hubs.iter().zip(["mail", "billing"]) {
        let found = at(&listing, hub);
        assert_eq!((&found["alive"], &found["groups"]), (&json!(true), &json!([group])), "{listing}");
        assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    }
    assert_eq!((&listing["unowned"], &listing["orphaned"]), (&json!([]), &json!([])), "{listing}");
    let text = run_with(&["cluster", "ls", "--mongo-url", &url], &[]);
    text.ends_with(0)
        .says(&format!("database {}", database.name()))
        .says("2 hubs alive, 0 dead")
        .says("billing");

    let [mail, billing] = hubs;
    billing.process.signal("KILL");
    let listing = listed(&url);
    assert_eq!(at(&listing, &billing)["alive"], false, "{listing}");
    assert_eq!(listing["orphaned"][0]["group"], "billing", "{listing}");
    drop(members);
    until("a group without an owner", || listed(&url)["unowned"] == json!(["mail"]));
    mail.stop();
    run_with(&["cluster", "ls"], &environment)
        .ends_with(0)
        .says("0 hubs alive, 1 dead")
        .says("of a dead hub, until one with a member takes them over: billing");
}

#[test]
fn cluster_ls_says_why_it_cannot_look() {
    let bed = Bed::new();
    let unused = bed.get(hub_testbed::database());
    let server = unused.server().replace("mongodb://", "mongodb://hub:hunter2@");
    for (environment, expected) in [
        (&[][..], "there is no MongoDB to look at: set MONGO_URL"),
        (&[("MONGO_URL", "http://db/")], "mongo.url is one that begins with http://"),
        (&[("MONGO_URL", unused.uri().as_str())], "no hub has used database test-"),
        (&[("MONGO_URL", server.as_str())], "refuses the credentials"),
    ] {
        let ran = run_with(&["cluster", "ls"], environment);
        ran.ends_with(2);
        assert!(ran.err.contains(expected) && !ran.err.contains("hunter2"), "{}", ran.err);
    }
}

/// The names of the topics that a hub lists.
fn topics(hub: &Hub) -> Vec<String> {
    let (status, answer) = hub.ask(Method::GET, "topics", Some(hub.token()), "");
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let topics = answer["topics"].as_array().unwrap().iter();
    topics.map(|topic| topic["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_topic_is_deleted_on_both_hubs_with_a_group_that_the_other_one_serves() {
    let (bed, place) = (Bed::new(), Place::new());
    let database = bed.get(hub_testbed::database());
    let (data, url) = (place.path("data"), database.uri());
    let environment = [("MONGO_URL", url.as_str())];
    let [one, mut other] = [Hub::start(&data, &[], &environment), Hub::start(&data, &[], &environment)];
    for n in 1..=3 {
        assert_eq!(publish(&other, "orders", &n.to_string()).0, 200);
    }
    let subscribe =
        json!({"op": "SUBSCRIBE", "topic": "orders", "group": "billing", "opts": {"from": "earliest"}});
    let mut member = bed.0.block_on(async {
        let mut member = Socket::open(other.ws(), other.token()).await;
        member.ok(subscribe).await;
        assert_eq!(member.next().await.unwrap()["event"]["seq"], 1);
        member
    });
    until("the first hub has heard of the topic", || topics(&one) == ["orders"]);
    let (status, answer) = one.ask(Method::DELETE, "topics?topic=orders", Some(one.token()), "");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["deleted"], json!({"topics": 1, "groups": 1, "events": 3}));
    bed.0.block_on(async { while member.next().await.unwrap()["code"] != "not_subscribed" {} });
    assert!(topics(&one).is_empty());
    until("the other hub has heard of the deletion", || topics(&other).is_empty());
    // It stays so after a crash, while its documents are still there.
    other.process.signal("KILL");
    other.process.ended();
    other.start_again_with(&data, &environment);
    assert!(topics(&other).is_empty());
    let (status, answer) = publish(&other, "orders", "4");
    assert_eq!((status, &answer["seq"]), (200, &json!(4)), "the numbering continues: {answer}");
    until("the first hub has heard of the new topic", || topics(&one) == ["orders"]);
    let (status, body) = one.ask(Method::GET, "export?topic=orders&ndjson=1", Some(one.token()), "");
    assert_eq!((status, body.lines().count()), (200, 1), "{body}");
    one.stop();
    other.stop();
}
