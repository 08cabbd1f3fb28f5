//! Groups that change hands while their members hold events.

use super::nodes::*;
use crate::world::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// An owner, and two edges of it that are to survive it.
async fn three(cluster: &Cluster, config: &hub_core::ClusterConfig) -> (Node, Node, Node) {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(cluster.node_with(Default::default(), config.clone()).await);
    }
    nodes[0].owns("g").await;
    let [owner, one, two] = nodes.try_into().ok().unwrap();
    (owner, one, two)
}

async fn member(node: &Node, opts: Value) -> Client {
    let mut client = node.client().await;
    client.ok(subscribe("t", opts)).await;
    client
}

/// Takes so many events and holds them.
async fn hold(client: &mut Client, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(event(client).await);
    }
    events
}

fn owner_among<'a>(nodes: &[&'a Node]) -> Option<&'a Node> {
    nodes.iter().find(|node| node.bus().group("t", "g").is_some()).copied()
}

/// What members hold survives an owner that is gone, in one of two ways.
async fn survive(config: hub_core::ClusterConfig, dies: bool) {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &config).await;
    let opts = json!({"from": "earliest", "maxInFlight": 4});
    let (mut a, mut b) = (member(&one, opts.clone()).await, member(&two, opts).await);
    one.publish("t", 1..=20).await;
    let (of_a, of_b) = (hold(&mut a, 4).await, hold(&mut b, 4).await);
    let mut seen: BTreeSet<u64> = of_a.iter().chain(&of_b).map(seq).collect();
    assert_eq!(seen.len(), 8);
    // One is settled just before the end: nobody may have saved that.
    a.ok(ack(&of_a[3])).await;
    match dies {
        true => owner.kill(),
        false => owner.stop().await,
    }
    // What is in hand is good, whoever owns the group and whether anybody does.
    for event in &of_a[..3] {
        assert_eq!(a.ok(ack(event)).await["id"], event["event"]["id"]);
    }
    b.send(ack(&of_b[0])).await;
    b.ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": of_b[1]["event"]["id"], "delay_ms": 0}))
        .await;
    let modack = json!({"op": "MODACK", "topic": "t", "group": "g", "id": of_b[2]["event"]["id"], "extend_ms": 60_000});
    let left = b.ok(modack).await["ack_deadline_ms"].as_u64().unwrap();
    assert!(left > 50_000, "{left}");
    let mut late = ack(&of_b[1]);
    late["attempt"] = json!(1);
    assert_eq!(b.err(late).await, "unknown_id", "it was handed back");

    let mut nacked = false;
    let mut rest = 20 - seen.len();
    while rest > 0 || !nacked {
        let (client, event) = tokio::select! {
            event = event(&mut a) => (&mut a, event),
            event = event(&mut b) => (&mut b, event),
        };
        client.ok(ack(&event)).await;
        if seq(&event) == seq(&of_b[1]) {
            assert_eq!(event["ctx"]["attempt"], 2, "{event}");
            nacked = true;
        } else {
            // One may have been on its way from the old owner, and lost: that was an attempt, too.
            assert!(seen.insert(seq(&event)), "{event} was delivered before");
            rest -= 1;
        }
    }
    b.ok(ack(&of_b[2])).await;
    b.ok(ack(&of_b[3])).await;
    let owner = owner_among(&[&one, &two]).expect("one of them owns it");
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
    assert!(!owner.bus().has_topic("dlq.t"));
}

#[tokio::test]
async fn members_keep_what_they_hold_when_the_owner_stops() {
    Box::pin(survive(patient(), false)).await;
}

#[tokio::test]
async fn members_keep_what_they_hold_when_the_owner_dies() {
    Box::pin(survive(watchful(), true)).await;
}

#[tokio::test]
async fn a_user_of_a_hub_that_stops_holds_up_nobody_elsewhere() {
    let cluster = Cluster::new();
    let (owner, one, _two) = three(&cluster, &patient()).await;
    // It does not even answer the goodbye.
    let mut idle = member(&owner, json!({"from": "earliest", "maxInFlight": 1})).await;
    one.publish("t", 1..=1).await;
    event(&mut idle).await;
    let mut client = member(&one, json!({})).await;
    let hub = owner.hub.clone();
    let draining = tokio::spawn(async move { hub.drain(PATIENCE).await });
    let event = event(&mut client).await;
    assert!(!draining.is_finished(), "its session is still there");
    assert_eq!((seq(&event), &event["ctx"]["attempt"]), (1, &json!(2)));
    draining.await.unwrap();
}

#[tokio::test]
async fn an_owner_that_hangs_is_left_and_harms_nothing_when_it_wakes_up() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &watchful()).await;
    let mut of_owner = member(&owner, json!({"from": "earliest", "maxInFlight": 1})).await;
    one.publish("t", 1..=1).await;
    assert_eq!(seq(&event(&mut of_owner).await), 1);
    let opts = json!({"maxInFlight": 2});
    let (mut a, mut b) = (member(&one, opts.clone()).await, member(&two, opts).await);
    one.publish("t", 2..=9).await;
    let (of_a, of_b) = (hold(&mut a, 2).await, hold(&mut b, 2).await);
    tokio::time::timeout(PATIENCE, owner.bus().flush()).await.unwrap().unwrap();
    let frozen = owner.freeze().await;
    until("another one owns it", || {
        owner_among(&[&one, &two]).is_some_and(|owner| owner.members("t", "g") == 2)
    })
    .await;
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    for (client, events) in [(&mut a, &of_a), (&mut b, &of_b)] {
        for event in events {
            client.ok(ack(event)).await;
            assert!(seen.insert(seq(event)));
        }
    }
    // What was with the member of the hub that hangs, too.
    while seen.len() < 9 {
        let (client, event) = tokio::select! {
            event = event(&mut a) => (&mut a, event),
            event = event(&mut b) => (&mut b, event),
        };
        client.ok(ack(&event)).await;
        assert!(seen.insert(seq(&event)), "{event} came twice");
    }
    drop(frozen);
    until("its member has come", || {
        owner_among(&[&one, &two]).is_some_and(|owner| owner.members("t", "g") == 3)
    })
    .await;
    assert!(owner.bus().group("t", "g").is_none());
    for client in [&mut a, &mut b] {
        client.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    }
    one.publish("t", [10]).await;
    // It had one in hand all the time, which is settled by now.
    of_owner.send(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    let last = owner_among(&[&one, &two]).unwrap();
    until("nobody is left", || last.members("t", "g") == 0).await;
    let mut next = member(&two, json!({})).await;
    assert_eq!(seq(&event(&mut next).await), 10, "nothing else is left");
}

#[tokio::test]
async fn a_subscribe_waits_for_an_owner_while_the_old_one_is_not_known_to_be_dead() {
    let cluster = Cluster::new();
    let (owner, one, _two) = three(&cluster, &watchful()).await;
    owner.kill();
    let mut client = member(&one, json!({})).await;
    one.publish("t", [1]).await;
    assert_eq!(seq(&event(&mut client).await), 1);
}

#[tokio::test]
async fn a_member_that_rests_goes_on_resting_with_the_next_owner() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &patient()).await;
    let (mut resting, mut awake) = (member(&one, json!({})).await, member(&two, json!({})).await);
    resting.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    owner.stop().await;
    until("both have arrived", || {
        owner_among(&[&one, &two]).is_some_and(|owner| owner.members("t", "g") == 2)
    })
    .await;
    one.publish("t", 1..=10).await;
    for _ in 0..10 {
        let event = event(&mut awake).await;
        awake.ok(ack(&event)).await;
    }
    assert!(resting.is_quiet());
    awake.ok(json!({"op": "UNSUBSCRIBE", "topic": "t", "group": "g"})).await;
    resting.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    one.publish("t", [11]).await;
    assert_eq!(seq(&event(&mut resting).await), 11);
}

#[tokio::test]
async fn a_user_that_does_not_read_follows_its_group_all_the_same() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &patient()).await;
    let mut stuck = Client::open_narrow(one.address).await;
    stuck.ok(json!({"op": "AUTH", "token": crate::world::token(crate::world::ALL)})).await;
    stuck.ok(subscribe("t", json!({}))).await;
    let text = "x".repeat(32 << 10);
    for _ in 0..600 {
        two.bus().publish("t", json!(text)).await.unwrap();
    }
    // Another group of the same connection has to follow, too.
    stuck.send(json!({"op": "SUBSCRIBE", "topic": "u", "group": "g", "opts": {"from": "earliest"}})).await;
    until("it is stuck", || owner.bus().group("t", "g").unwrap().reason == Some(hub_core::Reason::Paused))
        .await;
    two.publish("u", 1..=3).await;
    until("it is there", || owner.bus().group("u", "g").is_some_and(|group| group.inflight == 3)).await;
    let mut other = member(&two, json!({"maxInFlight": 1})).await;
    owner.stop().await;
    until("all have arrived", || {
        let has = |owner: &Node| (owner.members("t", "g"), owner.members("u", "g")) == (2, 1);
        owner_among(&[&one, &two]).is_some_and(has)
    })
    .await;
    let mut seen = BTreeSet::new();
    while seen.len() < 603 {
        let (client, frame) = tokio::select! {
            frame = stuck.next() => (&mut stuck, frame),
            frame = other.next() => (&mut other, frame),
        };
        if frame["op"] == "EVENT" {
            let of = (frame["topic"].to_string(), seq(&frame));
            assert!(seen.insert(of.clone()), "{of:?} came twice");
            client.send(ack(&frame)).await;
        }
    }
}

#[tokio::test]
async fn more_than_a_frame_holds_is_brought_along_too() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &patient()).await;
    let mut other = member(&two, json!({"maxInFlight": 1})).await;
    let first = async |client: &mut Client| {
        one.publish("t", [0]).await;
        seq(&event(client).await)
    };
    assert_eq!(first(&mut other).await, 1);
    let mut client = member(&one, json!({"maxInFlight": 10_000})).await;
    for _ in 0..5 {
        let events: Vec<_> = (0..1000).map(|n| json!({"topic": "t", "payload": n})).collect();
        client.ok(json!({"op": "PUBLISH", "events": events})).await;
    }
    let held = hold(&mut client, 5000).await;
    // These are settled; nobody may have saved the last of them.
    let ids: Vec<_> = held[..2500].iter().map(|event| event["event"]["id"].clone()).collect();
    client.ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": ids})).await;
    owner.stop().await;
    let ids: Vec<_> = held[2500..].iter().map(|event| event["event"]["id"].clone()).collect();
    let acked = client.ok(json!({"op": "ACK", "topic": "t", "group": "g", "ids": ids})).await;
    assert_eq!((&acked["acked"], &acked["unknown"]), (&json!(2500), &json!([])));
    until("they are settled", || {
        owner_among(&[&one, &two]).is_some_and(|owner| {
            let group = owner.bus().group("t", "g").unwrap();
            group.members == 2 && group.inflight == 1 && group.parked == 0 && group.reason.is_some()
        })
    })
    .await;
    one.publish("t", [0]).await;
    assert_eq!(seq(&event(&mut client).await), 5002, "nothing comes again");
}

#[tokio::test]
async fn a_group_that_goes_from_hub_to_hub_delivers_each_event_once() {
    let cluster = Cluster::new();
    let mut owner = cluster.node().await;
    let mut of_owner = member(&owner, json!({"from": "earliest", "maxInFlight": 3})).await;
    let mut seen = BTreeSet::new();
    for round in 0..6u64 {
        let next = cluster.node().await;
        let mut of_next = member(&next, json!({"maxInFlight": 3})).await;
        assert_eq!(owner.members("t", "g"), 2, "round {round}");
        owner.publish("t", 0..10).await;
        let mut held: Option<Value> = None;
        while seen.len() < 10 * (round as usize + 1) {
            let (event, is_next) = tokio::select! {
                event = event(&mut of_owner) => (event, false),
                event = event(&mut of_next) => (event, true),
            };
            assert!(seen.insert(seq(&event)), "{event} came twice");
            // The member that stays has one in hand while its hub becomes the owner.
            match is_next {
                true => {
                    if let Some(before) = held.replace(event) {
                        of_next.ok(ack(&before)).await;
                    }
                }
                false => drop(of_owner.ok(ack(&event)).await),
            }
        }
        assert!(held.is_some(), "both get some");
        owner.stop().await;
        until("the next one owns it", || next.members("t", "g") == 1).await;
        until("it has what its member holds", || next.bus().group("t", "g").unwrap().inflight == 1).await;
        (owner, of_owner) = (next, of_next);
        of_owner.ok(ack(&held.unwrap())).await;
    }
    until("everything is settled", || owner.bus().group("t", "g").unwrap().lag == 0).await;
    assert_eq!(seen.len(), 60);
}

#[tokio::test]
async fn members_of_a_hub_that_was_taken_for_dead_go_on_with_what_they_hold() {
    let cluster = Cluster::new();
    let quick = watchful();
    let (owner, store) = cluster.faulty_node(quick.clone()).await;
    let other = cluster.node_with(Default::default(), quick).await;
    owner.owns("g").await;
    let mut here = member(&owner, json!({"from": "earliest", "maxInFlight": 3})).await;
    owner.publish("t", 1..=6).await;
    let held = hold(&mut here, 3).await;
    tokio::time::timeout(PATIENCE, owner.bus().flush()).await.unwrap().unwrap();
    store.script(|_| Some(hub_core::testkit::Fault::Refuse));
    // The other one takes over as soon as it may.
    let mut there = member(&other, json!({"maxInFlight": 1})).await;
    until("it is the owner", || other.bus().group("t", "g").is_some()).await;
    store.heal();
    until("the member has come", || other.members("t", "g") == 2).await;
    let mut seen = BTreeSet::new();
    for event in &held {
        here.ok(ack(event)).await;
        seen.insert(seq(event));
    }
    // Its hub was dead to others for a while: what it held may have gone to the new owner's member before it came.
    while seen.len() < 6 || other.bus().group("t", "g").is_none_or(|group| group.lag != 0) {
        let next = async {
            tokio::select! {
                event = event(&mut here) => (&mut here, event),
                event = event(&mut there) => (&mut there, event),
            }
        };
        let Ok((client, event)) = tokio::time::timeout(Duration::from_millis(200), next).await else {
            continue;
        };
        seen.insert(seq(&event));
        client.ok(ack(&event)).await;
    }
    assert_eq!(seen, (1..=6).collect());
}

#[tokio::test]
async fn time_that_a_user_asked_for_is_good_with_the_next_owner() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &patient()).await;
    let mut client = member(&one, json!({"from": "earliest", "ackTimeoutMs": 1_000})).await;
    one.publish("t", [1]).await;
    let first = event(&mut client).await;
    let modack =
        json!({"op": "MODACK", "topic": "t", "group": "g", "id": first["event"]["id"], "extend_ms": 600_000});
    client.ok(modack).await;
    one.publish("t", [2]).await;
    let second = event(&mut client).await;
    owner.stop().await;
    // The one that has only the usual time comes again, and so would the other.
    let again = event(&mut client).await;
    assert_eq!((seq(&again), &again["ctx"]["attempt"]), (seq(&second), &json!(2)), "{again}");
    client.ok(ack(&again)).await;
    let mut late = ack(&first);
    late["attempt"] = json!(1);
    client.ok(late).await;
    until("everything is settled", || {
        owner_among(&[&one, &two]).is_some_and(|owner| {
            let group = owner.bus().group("t", "g").unwrap();
            (group.lag, group.inflight) == (0, 0)
        })
    })
    .await;
}

#[tokio::test]
async fn a_seek_is_not_undone_by_what_a_user_acked_and_holds_when_the_owner_changes() {
    let cluster = Cluster::new();
    let (owner, one, two) = three(&cluster, &patient()).await;
    let mut client = member(&one, json!({"from": "earliest"})).await;
    one.publish("t", 1..=3).await;
    let before = hold(&mut client, 3).await;
    for event in &before[..2] {
        client.ok(ack(event)).await;
    }
    client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    until("the owner has heard of it", || owner.bus().group("t", "g").unwrap().inflight == 1).await;
    owner.bus().set_cursor("t", "g", hub_core::Position::Earliest).await.unwrap();
    owner.stop().await;
    client.ok(json!({"op": "RESUME", "topic": "t", "group": "g"})).await;
    let again = hold(&mut client, 3).await;
    assert_eq!(again.iter().map(seq).collect::<Vec<_>>(), [1, 2, 3], "everything is to be read again");
    assert!(again.iter().all(|event| event["ctx"]["epoch"] == 1), "{again:?}");
    for event in &again {
        client.ok(ack(event)).await;
    }
    until("everything is settled", || {
        owner_among(&[&one, &two]).is_some_and(|owner| owner.bus().group("t", "g").unwrap().lag == 0)
    })
    .await;
}
