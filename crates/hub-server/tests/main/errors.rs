//! Every code has a conversation that provokes it, and its message helps.

use crate::fixtures::format::{self, Step};
use crate::world::{ALL, World};
use hub_core::testkit::{Fault, FaultyStore};
use hub_core::{Bus, MemoryStore};
use hub_proto::Code;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Codes that no conversation with a healthy hub has, and where they are looked at.
const ELSEWHERE: &[(Code, &str)] = &[
    (Code::NotOwner, "hubs say it to each other, and no user hears it"),
    (Code::Internal, "a bug of the hub; there is no request for it"),
];

/// What fixtures say about the messages of every code, from whole answers and from the results of batches.
fn said() -> BTreeMap<String, Vec<Value>> {
    fn collect(frame: &Value, said: &mut BTreeMap<String, Vec<Value>>) {
        if let (Some(code), Some(msg)) = (frame["code"].as_str(), frame.get("msg")) {
            said.entry(code.to_owned()).or_default().push(msg.clone());
        }
        frame["results"].as_array().into_iter().flatten().for_each(|result| collect(result, said));
    }
    let mut said = BTreeMap::new();
    for file in format::files() {
        for fixture in format::file(&file).fixtures {
            fixture.steps.iter().flat_map(Step::expected).for_each(|frame| collect(frame, &mut said));
        }
    }
    said
}

#[test]
fn every_code_is_provoked_by_a_fixture_that_looks_at_its_message() {
    let said = said();
    for code in Code::ALL {
        let messages = said.get(code.as_str()).map_or(&[][..], Vec::as_slice);
        let checked =
            messages.iter().filter(|msg| msg["$text"].as_array().is_some_and(|parts| !parts.is_empty()));
        let elsewhere = ELSEWHERE.iter().any(|(other, _)| other == code);
        assert_eq!(
            checked.count() == 0,
            elsewhere,
            "{code}: fixtures with a message that is looked at: {messages:?}"
        );
    }
    let unknown: Vec<_> = said.keys().filter(|code| code.parse::<Code>().is_err()).collect();
    assert!(unknown.is_empty(), "codes that there are not: {unknown:?}");
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable_and_the_id_makes_it_safe_to_send_again() {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    let bus = Bus::builder(store.clone()).open().await.unwrap();
    let world = World::over(bus, Default::default()).await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "g"})).await;

    // It was stored, and nobody knows: an id of the hub's own is in the answer.
    store.script(|call| (call == "commit").then_some(Fault::LoseAnswer));
    let lost = client.ask(json!({"op": "PUBLISH", "topic": "orders", "payload": 1})).await;
    assert_eq!((&lost["op"], &lost["code"]), (&json!("ERR"), &json!("unavailable")), "{lost}");
    let msg = lost["msg"].as_str().unwrap();
    assert!(msg.contains("store"), "{msg}");
    store.heal();
    let again = json!({"op": "PUBLISH", "topic": "orders", "payload": 1, "opts": {"id": lost["id"]}});
    let answer = client.ok(again).await;
    assert_eq!((&answer["id"], &answer["seq"], &answer["duplicate"]), (&lost["id"], &json!(1), &json!(true)));
    assert_eq!(client.next().await["event"]["id"], lost["id"]);

    // In a batch it stands in its place, with an id.
    store.script(|call| (call == "commit").then_some(Fault::Refuse));
    let events = json!([{"topic": "orders", "payload": 2}, {"topic": "or ders", "payload": 3}]);
    let batch = client.ok(json!({"op": "PUBLISH", "events": events})).await;
    assert_eq!(
        (&batch["results"][0]["code"], &batch["results"][1]["code"]),
        (&json!("unavailable"), &json!("bad_request"))
    );
    assert!(batch["results"][0]["id"].is_string(), "{batch}");
    store.heal();
    let again =
        json!({"op": "PUBLISH", "topic": "orders", "payload": 2, "opts": {"id": batch["results"][0]["id"]}});
    let answer = client.ok(again).await;
    assert_eq!((&answer["seq"], answer.get("duplicate")), (&json!(2), None), "it was not stored before");

    // A subscribe that cannot be stored is refused, and can be asked for again.
    store.script(|call| (call == "commit").then_some(Fault::Refuse));
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "stock", "group": "g"});
    assert_eq!(client.err(subscribe.clone()).await, "unavailable");
    store.heal();
    client.ok(subscribe).await;
}

#[tokio::test]
async fn a_group_that_is_deleted_ends_its_subscriptions_by_name_and_the_others_go_on() {
    let world = World::new().await;
    let mut client = world.client(ALL).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "g"})).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "h"})).await;
    world.bus().delete_group("orders", "g").await.unwrap();
    let mut ended = client.next().await;
    assert!(ended["msg"].as_str().unwrap().contains("deleted"), "{ended}");
    ended["msg"].take();
    let expected =
        json!({"op": "ERR", "code": "not_subscribed", "msg": null, "topic": "orders", "group": "g"});
    assert_eq!(ended, expected);
    world.bus().publish("orders", json!(1)).await.unwrap();
    assert_eq!(client.next().await["group"], "h");
    // It is gone for this connection, too: it can be asked for anew.
    client.ok(json!({"op": "SUBSCRIBE", "topic": "orders", "group": "g"})).await;
}
