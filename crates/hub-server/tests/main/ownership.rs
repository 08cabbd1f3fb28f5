//! Whose groups are whose.

use crate::world::{World, ruled, signed};
use hub_core::{Config, Position};
use hub_server::Settings;
use hub_server::acl::sib::Sib;
use serde_json::{Value, json};

const READ: &[&str] = &["subscribe:**", "publish:**"];

fn subscribe(topic: &str, group: &str) -> Value {
    json!({"op": "SUBSCRIBE", "topic": topic, "group": group, "opts": {"from": "earliest"}})
}

#[tokio::test]
async fn a_group_is_joined_by_the_subject_that_made_it_and_by_no_other() {
    let world = World::new().await;
    let mut bob = world.client_with(&signed(Some("bob"), READ)).await;
    bob.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    bob.ok(subscribe("t", "billing")).await;
    let mut eve = world.client_with(&signed(Some("eve"), READ)).await;
    let refused = eve.ask(subscribe("t", "billing")).await;
    assert_eq!(refused["code"], "forbidden");
    assert!(refused["msg"].as_str().unwrap().contains("another subject"), "{refused}");
    eve.ok(subscribe("t", "own")).await;
    // Another instance of the same service.
    world.client_with(&signed(Some("bob"), READ)).await.ok(subscribe("t", "billing")).await;
    // It stays so while nobody is subscribed.
    drop(bob);
    assert_eq!(eve.err(subscribe("t", "billing")).await, "forbidden");
}

#[tokio::test]
async fn a_pattern_or_a_list_is_no_way_into_a_group_of_another_subject() {
    let world = World::new().await;
    let mut bob = world.client_with(&signed(Some("bob"), READ)).await;
    bob.ok(json!({"op": "PUBLISH", "topic": "a.t", "payload": 1})).await;
    bob.ok(subscribe("a.t", "one")).await;
    bob.ok(subscribe("b.*", "wide")).await;
    let mut eve = world.client_with(&signed(Some("eve"), READ)).await;
    assert_eq!(eve.err(subscribe("a.*", "one")).await, "forbidden");
    let mut list = subscribe("mine", "one");
    list["opts"]["topics"] = json!(["a.t", "a.u"]);
    assert_eq!(eve.err(list).await, "forbidden");
    // No topic of it exists yet; the groups of those to come would be shared.
    assert_eq!(eve.err(subscribe("b.**", "wide")).await, "forbidden");
    assert_eq!(eve.err(subscribe("b.*", "wide")).await, "forbidden");
    bob.ok(json!({"op": "PUBLISH", "topic": "b.t", "payload": 1})).await;
    assert_eq!(eve.err(subscribe("b.t", "wide")).await, "forbidden");
    eve.ok(subscribe("b.*", "hers")).await;
}

#[tokio::test]
async fn a_rule_that_names_the_group_or_the_admin_right_opens_it() {
    let world = World::new().await;
    let mut bob = world.client_with(&signed(Some("bob"), READ)).await;
    bob.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    bob.ok(subscribe("t", "billing")).await;
    let named = |groups: Value| {
        ruled(&json!([{"effect": "allow", "action": "subscribe", "topics": ["t"], "groups": groups}]))
    };
    for groups in [json!(["billing"]), json!(["*"])] {
        world.client_with(&named(groups)).await.ok(subscribe("t", "billing")).await;
    }
    let admin = signed(Some("eve"), &["subscribe:t", "admin:t"]);
    world.client_with(&admin).await.ok(subscribe("t", "billing")).await;
}

#[tokio::test]
async fn what_no_subject_made_is_for_everybody_and_so_is_everything_if_set() {
    let world = World::new().await;
    world.bus().publish("t", json!(1)).await.unwrap();
    drop(world.bus().subscribe("t").group("program").from(Position::Earliest).open().await.unwrap());
    world.client_with(&signed(None, READ)).await.ok(subscribe("t", "nobody")).await;
    let mut eve = world.client_with(&signed(Some("eve"), READ)).await;
    eve.ok(subscribe("t", "program")).await;
    eve.ok(subscribe("t", "nobody")).await;
    let open = World::with(Config::default(), Settings { open_groups: true, ..Settings::default() }).await;
    open.client_with(&signed(Some("bob"), READ)).await.ok(subscribe("t", "g")).await;
    open.client_with(&signed(Some("eve"), READ)).await.ok(subscribe("t", "g")).await;
}

#[tokio::test]
async fn a_rule_binds_every_subject_to_groups_of_its_own_name() {
    let file = r#"(allow subscribe "**" :groups ["{sub}" "{sub}.retry"]) (deny subscribe "**")"#;
    let policy = Sib::parse(file).unwrap().policy;
    let world = World::with(Config::default(), Settings { policy, ..Settings::default() }).await;
    let mut bob = world.client_with(&signed(Some("bob"), READ)).await;
    bob.ok(subscribe("t", "bob")).await;
    bob.ok(subscribe("t", "bob.retry")).await;
    let mut eve = world.client_with(&signed(Some("eve"), READ)).await;
    for group in ["bob", "bob.retry", "other", "sub"] {
        assert_eq!(eve.err(subscribe("t", group)).await, "forbidden", "{group}");
    }
    // A subject that looks like a wildcard, or none, matches no group.
    for subject in [Some("*"), None] {
        let mut other = world.client_with(&signed(subject, READ)).await;
        assert_eq!(other.err(subscribe("t", "bob")).await, "forbidden", "{subject:?}");
    }
}
