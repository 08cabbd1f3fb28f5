//! Members that are connected to another hub than the one that owns their group.

use super::nodes::*;
use crate::world::{Client, signed, token};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A hub that owns the group `g`, and another one.
async fn pair() -> (Cluster, Node, Node) {
    let cluster = Cluster::new();
    let (owner, edge) = (cluster.node().await, cluster.node().await);
    owner.owns("g").await;
    (cluster, owner, edge)
}

/// Takes and acks so many events.
async fn consume(client: &mut Client, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..count {
        let event = event(client).await;
        client.send(ack(&event)).await;
        events.push(event);
    }
    events
}

#[tokio::test]
async fn the_members_of_a_group_on_three_hubs_share_its_events() {
    let (cluster, owner, second) = pair().await;
    let third = cluster.node().await;
    let mut tasks = Vec::new();
    for node in [&owner, &second, &third] {
        let mut client = node.client().await;
        client.ok(subscribe("t", json!({"maxInFlight": 5}))).await;
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            // Each gets some: nobody may have more than five in hand.
            while seen.len() < 60 {
                seen.push(seq(&consume(&mut client, 1).await[0]));
            }
            client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
            while !client.is_quiet() {
                seen.push(seq(&consume(&mut client, 1).await[0]));
            }
            (client, seen)
        }));
    }
    assert_eq!(owner.members("t", "g"), 3);
    assert!(second.bus().group("t", "g").is_none() && third.bus().group("t", "g").is_none());
    let publishers = [&owner, &second, &third];
    for n in 0..300u64 {
        publishers[n as usize % 3].publish("t", [n]).await;
    }
    let mut seen = BTreeSet::new();
    let mut clients = Vec::new();
    for task in tasks {
        let (client, seqs) = tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
        for seq in seqs {
            assert!(seen.insert(seq), "{seq} was delivered twice");
        }
        clients.push(client);
    }
    let rest = 300 - seen.len();
    clients[1].ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    seen.extend(consume(&mut clients[1], rest).await.iter().map(seq));
    assert_eq!(seen, (1..=300).collect());
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
}

#[tokio::test]
async fn patterns_and_lists_work_through_an_edge() {
    let (_cluster, owner, edge) = pair().await;
    owner.publish("orders.a", 1..=2).await;
    let mut client = edge.client().await;
    client.ok(subscribe("orders.*", json!({"from": "earliest"}))).await;
    edge.publish("orders.b", 1..=2).await;
    let events = consume(&mut client, 4).await;
    assert!(events.iter().all(|event| event["topic"] == "orders.*" && event["group"] == "g"));
    let topics: BTreeSet<_> = events.iter().map(|event| event["event"]["topic"].to_string()).collect();
    assert_eq!(topics.len(), 2);
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "orders.*", "group": "g"})).await;

    client.ok(subscribe("both", json!({"topics": ["x", "y"]}))).await;
    owner.publish("x", [1]).await;
    edge.publish("y", [1]).await;
    let mut topics = BTreeSet::new();
    for _ in 0..2 {
        let event = event(&mut client).await;
        // By the event's own topic, too.
        let of = event["event"]["topic"].clone();
        client.ok(json!({"op": "ACK", "topic": of, "group": "g", "id": event["event"]["id"]})).await;
        topics.insert(of.to_string());
    }
    assert_eq!(topics.len(), 2);
    assert_eq!(owner.bus().subscription("both", "g").unwrap().topics.len(), 2);
}

#[tokio::test]
async fn a_list_of_others_is_not_changed_through_an_edge() {
    let (_cluster, owner, edge) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("mine", json!({"topics": ["x", "secret"]}))).await;
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "mine", "group": "g"})).await;
    let mut other = edge.client_with(&token(&["subscribe:x"])).await;
    assert_eq!(other.err(subscribe("mine", json!({"topics": ["x"]}))).await, "forbidden");
    let mut allowed = edge.client_with(&token(&["subscribe:*"])).await;
    allowed.ok(subscribe("mine", json!({"topics": ["x"]}))).await;
}

#[tokio::test]
async fn a_key_keeps_its_order_over_hubs() {
    let (_cluster, owner, edge) = pair().await;
    for n in 0..60u64 {
        owner.bus().publish("t", json!(n)).key(format!("k{}", n % 3)).await.unwrap();
    }
    let opts = json!({"from": "earliest", "ordering": "key", "maxInFlight": 4});
    let mut clients = [owner.client().await, edge.client().await];
    for client in &mut clients {
        client.ok(subscribe("t", opts.clone())).await;
    }
    let [mut here, mut there] = clients;
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut in_hand: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..60 {
        let (client, event) = tokio::select! {
            event = event(&mut here) => (&mut here, event),
            event = event(&mut there) => (&mut there, event),
        };
        let key = event["event"]["key"].as_str().unwrap().to_owned();
        assert_eq!(in_hand.insert(key.clone(), seq(&event)), None, "two of {key} at once");
        assert!(last.insert(key.clone(), seq(&event)).is_none_or(|last| last < seq(&event)));
        in_hand.remove(&key);
        client.ok(ack(&event)).await;
    }
}

#[tokio::test]
async fn what_a_member_at_an_edge_says_has_the_effect_and_the_answer_that_it_has_at_the_owner() {
    let (_cluster, owner, edge) = pair().await;
    owner.publish("t", 1..=2).await;
    let mut client = edge.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "maxInFlight": 2, "maxAttempts": 9}))).await;
    let (one, two) = (event(&mut client).await, event(&mut client).await);
    assert_eq!((&one["ctx"]["attempt"], &one["ctx"]["maxAttempts"]), (&json!(1), &json!(9)));

    let strange =
        json!({"op": "ACK", "topic": "t", "group": "g", "id": "00000000-0000-4000-8000-000000000000"});
    assert_eq!(client.err(strange).await, "unknown_id");
    let mut late = ack(&one);
    late["attempt"] = json!(7);
    assert_eq!(client.err(late).await, "unknown_id");

    let nack = json!({"op": "NACK", "topic": "t", "group": "g", "id": one["event"]["id"], "reason": "not now", "delay_ms": 1});
    assert_eq!(client.ok(nack.clone()).await["id"], one["event"]["id"]);
    assert_eq!(client.err(nack).await, "unknown_id", "it is not in hand any more");
    let again = event(&mut client).await;
    assert_eq!((seq(&again), &again["ctx"]["attempt"]), (1, &json!(2)));

    let modack =
        |id: &Value| json!({"op": "MODACK", "topic": "t", "group": "g", "id": id, "extend_ms": 90_000});
    let left = client.ok(modack(&two["event"]["id"])).await["ack_deadline_ms"].as_u64().unwrap();
    assert!((80_000..=90_000).contains(&left), "{left}");
    assert_eq!(client.err(modack(&json!("00000000-0000-4000-8000-000000000000"))).await, "unknown_id");
    let both = json!({"op": "MODACK", "topic": "t", "group": "g", "ids": [again["event"]["id"], "00000000-0000-4000-8000-000000000000"], "extend_ms": 60_000});
    let answer = client.ok(both).await;
    assert_eq!(answer["unknown"].as_array().unwrap().len(), 1, "{answer}");

    let acked = client
        .ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": [again["event"]["id"], two["event"]["id"], two["event"]["id"]]}))
        .await;
    assert_eq!((&acked["acked"], acked["unknown"].as_array().unwrap().len()), (&json!(2), 1));
    owner.publish("t", [3]).await;
    assert_eq!(seq(&event(&mut client).await), 3);
    until("two are settled", || owner.bus().group("t", "g").unwrap().floor == 2).await;
}

#[tokio::test]
async fn a_lease_that_runs_out_counts_at_the_owner_and_the_late_ack_is_refused() {
    let (_cluster, owner, edge) = pair().await;
    owner.publish("t", [1]).await;
    let mut client = edge.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "ackTimeoutMs": 100, "maxAttempts": 2}))).await;
    let first = event(&mut client).await;
    let second = event(&mut client).await;
    assert_eq!((seq(&second), &second["ctx"]["attempt"]), (1, &json!(2)));
    let mut late = ack(&first);
    late["attempt"] = json!(1);
    assert_eq!(client.err(late).await, "unknown_id");
    until("it is a dead letter", || owner.bus().has_topic("dlq.t")).await;
    assert_eq!(client.err(ack(&second)).await, "unknown_id");
}

#[tokio::test]
async fn a_member_at_an_edge_that_pauses_gets_nothing_and_others_get_it_as_if_it_never_had_come() {
    let (_cluster, owner, edge) = pair().await;
    let mut resting = edge.client().await;
    resting.ok(subscribe("t", json!({}))).await;
    resting.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    let mut awake = owner.client().await;
    awake.ok(subscribe("t", json!({}))).await;
    edge.publish("t", 1..=20).await;
    for event in consume(&mut awake, 20).await {
        assert_eq!(event["ctx"]["attempt"], 1, "{event}");
    }
    awake.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    assert!(resting.is_quiet());
    resting.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    edge.publish("t", [21]).await;
    assert_eq!(seq(&consume(&mut resting, 1).await[0]), 21);
}

#[tokio::test]
async fn options_that_differ_conflict_across_hubs() {
    let (_cluster, owner, edge) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({"maxAttempts": 3}))).await;
    let mut other = edge.client().await;
    let answer = other.ask(subscribe("t", json!({"maxAttempts": 4}))).await;
    assert_eq!(answer["code"], "group_conflict", "{answer}");
    assert!(answer["msg"].as_str().unwrap().contains("maxAttempts is 3, not 4"), "{answer}");
    other.ok(subscribe("t", json!({"maxAttempts": 3}))).await;
    other.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    other.ok(subscribe("t", json!({"maxAttempts": 4}))).await;
    assert_eq!(owner.bus().group_options("t", "g").unwrap().max_attempts, 4);
}

#[tokio::test]
async fn readers_without_a_group_see_what_is_published_at_other_hubs() {
    let (_cluster, owner, edge) = pair().await;
    let mut reader = edge.client().await;
    reader.ok(json!({"op": "SUBSCRIBE", "topic": "news.*"})).await;
    owner.publish("news.a", 1..=3).await;
    edge.publish("news.a", 4..=4).await;
    for n in 1..=4 {
        assert_eq!(seq(&event(&mut reader).await), n);
    }
}

#[tokio::test]
async fn a_slow_reader_at_an_edge_is_paused_at_the_owner_and_loses_nothing() {
    let (_cluster, owner, edge) = pair().await;
    let mut slow = Client::open_narrow(edge.address).await;
    slow.ok(json!({"op": "AUTH", "token": token(crate::world::ALL)})).await;
    slow.ok(subscribe("t", json!({"maxInFlight": 2000}))).await;
    let text = "x".repeat(32 << 10);
    for _ in 0..600 {
        owner.bus().publish("t", json!(text)).await.unwrap();
    }
    // 19 MiB are more than sockets and the edge take.
    until("it is paused", || owner.bus().group("t", "g").unwrap().reason == Some(hub_core::Reason::Paused))
        .await;
    let mut seen = BTreeSet::new();
    while seen.len() < 600 {
        let event = event(&mut slow).await;
        assert_eq!(event["ctx"]["attempt"], 1);
        assert!(seen.insert(seq(&event)));
        slow.send(ack(&event)).await;
    }
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
}

#[tokio::test]
async fn a_group_of_another_subject_is_refused_at_every_hub() {
    let cluster = Cluster::new();
    let (owner, edge) = (cluster.node().await, cluster.node().await);
    let read = &["subscribe:**", "publish:**"];
    owner.owns("g").await;
    owner.publish("t", 1..=1).await;
    until("the edge has heard of the topic", || edge.bus().has_topic("t")).await;
    let mut bob = owner.client_with(&signed(Some("bob"), read)).await;
    bob.ok(subscribe("t", json!({"from": "earliest"}))).await;
    let mut eve = edge.client_with(&signed(Some("eve"), read)).await;
    assert_eq!(eve.err(subscribe("t", json!({}))).await, "forbidden");
    let mut another = edge.client_with(&signed(Some("bob"), read)).await;
    another.ok(subscribe("t", json!({}))).await;
}

#[tokio::test]
async fn a_subject_that_is_revoked_at_one_hub_loses_its_sockets_at_another() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node().await, cluster.node().await);
    let token = signed(Some("eve"), &["subscribe:**", "publish:**"]);
    let mut eve = other.client_with(&token).await;
    let (status, answer) = one.ask("POST", "/revoke", json!({"sub": "eve"})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(eve.next().await["code"], "token_revoked");
    let mut again = Client::open(other.address).await;
    assert_eq!(again.err(json!({"op": "AUTH", "token": token})).await, "token_revoked");
}
