//! HTTP of a hub about groups that another one owns.

use super::nodes::*;
use crate::world::token;
use serde_json::json;

async fn pair() -> (Cluster, Node, Node) {
    let cluster = Cluster::new();
    let (owner, other) = (cluster.node().await, cluster.node().await);
    owner.owns("g").await;
    owner.publish("t", 1..=10).await;
    until("the other one has heard of it", || other.bus().has_topic("t")).await;
    (cluster, owner, other)
}

#[tokio::test]
async fn groups_of_other_hubs_are_shown_with_their_owner() {
    let (_cluster, owner, other) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "maxInFlight": 3}))).await;
    for _ in 0..3 {
        let event = event(&mut client).await;
        client.ok(ack(&event)).await;
    }
    client.ok(json!({"op": "PAUSE", "topic": "t", "group": "g"})).await;
    owner.bus().flush().await.unwrap();
    let (status, groups) = other.get("/groups").await;
    assert_eq!(status, 200, "{groups}");
    let group = &groups["groups"][0];
    assert_eq!((&group["topic"], &group["group"]), (&json!("t"), &json!("g")));
    assert_eq!(
        (&group["reason"], &group["floor"], &group["lag"]),
        (&json!("elsewhere"), &json!(3), &json!(7))
    );
    assert_eq!(group["owner"], format!("ws://{}/", owner.address));
    assert_eq!(other.get("/groups?topic=t").await.1, groups);
    let (_, own) = owner.get("/groups").await;
    assert!(own["groups"][0].get("owner").is_none(), "{own}");

    let (status, cursors) = other.get("/cursors?topic=t").await;
    assert_eq!(status, 200);
    assert_eq!(cursors, owner.get("/cursors?topic=t").await.1);
    assert_eq!(cursors["cursors"][0]["seq"], 3);
    assert_eq!(other.get("/cursors?topic=t&group=g").await.1["cursors"][0]["seq"], 3);
    let (status, lag) = other.get("/lag?topic=t&group=g").await;
    assert_eq!((status, &lag["lag"], &lag["reason"]), (200, &json!(7), &json!("elsewhere")), "{lag}");
    assert_eq!(other.get("/lag?topic=t&group=h").await.0, 400);
    assert_eq!(other.get("/cursors?topic=t&group=h").await.0, 400);
}

#[tokio::test]
async fn a_group_is_placed_and_deleted_through_any_hub() {
    let (_cluster, owner, other) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({}))).await;
    let seek = json!({"topic": "t", "group": "g", "to": {"afterSeq": 8}});
    let (status, answer) = other.ask("POST", "/groups/seek", seek).await;
    assert_eq!((status, &answer["seq"]), (200, &json!(8)), "{answer}");
    assert_eq!(seq(&event(&mut client).await), 9);
    let (status, answer) =
        other.ask("POST", "/groups/seek", json!({"topic": "t", "group": "h", "to": "latest"})).await;
    assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");

    let (status, answer) = other.ask("DELETE", "/groups?topic=t&group=g", json!(null)).await;
    assert_eq!((status, &answer["deleted"]), (200, &json!(1)), "{answer}");
    let ended = loop {
        let frame = client.next().await;
        if frame["op"] == "ERR" {
            break frame;
        }
    };
    assert_eq!(ended["code"], "not_subscribed");
    assert!(owner.bus().group("t", "g").is_none());
    assert_eq!(other.ask("DELETE", "/groups?topic=t&group=g", json!(null)).await.0, 400);
}

#[tokio::test]
async fn patterns_and_lists_are_deleted_through_any_hub_by_whom_their_topics_allow_it() {
    let (_cluster, owner, other) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("t.*", json!({}))).await;
    client.ok(subscribe("both", json!({"topics": ["x", "y"]}))).await;
    let ask = async |path: &str, scopes: &[&str]| {
        let url = format!("http://{}{path}", other.ops);
        let answer = reqwest::Client::new().delete(url).bearer_auth(token(scopes)).send().await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(ask("/groups?label=both&group=g", &["admin:x"]).await, 403);
    assert_eq!(ask("/groups?label=both&group=g", &["admin:*"]).await, 200);
    assert!(owner.bus().subscription("both", "g").is_none());
    assert_eq!(ask("/groups?topic=t.*&group=g", &["admin:**"]).await, 200);
    assert!(owner.bus().subscription("t.*", "g").is_none());
}

#[tokio::test]
async fn a_group_that_nobody_owns_is_placed_by_whoever_is_asked() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node().await, cluster.node().await);
    first.publish("t", 1..=3).await;
    first.bus().subscribe("t").group("g").open().await.unwrap().close();
    until("it has heard of the topic", || second.bus().has_topic("t")).await;
    first.stop().await;
    let (status, groups) = second.get("/groups").await;
    assert_eq!((status, &groups["groups"][0]["reason"]), (200, &json!("no_members")), "{groups}");
    assert!(groups["groups"][0].get("owner").is_none());
    let seek = json!({"topic": "t", "group": "g", "to": "earliest"});
    assert_eq!(
        second.ask("POST", "/groups/seek", seek).await,
        (200, json!({"topic": "t", "group": "g", "seq": 0}))
    );
}

#[tokio::test]
async fn the_hubs_are_listed_with_the_one_that_answers() {
    let (_cluster, owner, other) = pair().await;
    until("they know each other", || owner.bus().hubs().len() == 2 && other.bus().hubs().len() == 2).await;
    let (status, answer) = other.get("/hubs").await;
    assert_eq!(status, 200);
    let hubs = answer["hubs"].as_array().unwrap();
    assert_eq!(hubs.len(), 2);
    for hub in hubs {
        let node = if hub["this"] == true { &other } else { &owner };
        assert_eq!(hub["id"], node.bus().hub().unwrap().id.to_string());
        assert_eq!(hub["address"], format!("ws://{}/", node.address));
        assert_eq!(hub["version"], "test");
        assert!(hub["started"].as_u64().unwrap() > 1_700_000_000_000);
    }
    assert_eq!(hubs.iter().filter(|hub| hub["this"] == true).count(), 1);
}

#[tokio::test]
async fn dead_letters_are_replayed_and_events_followed_through_any_hub() {
    let (_cluster, owner, other) = pair().await;
    let mut client = owner.client().await;
    client.ok(subscribe("t", json!({"from": "earliest", "maxAttempts": 1, "maxInFlight": 1}))).await;
    let first = event(&mut client).await;
    let id = first["event"]["id"].clone();
    client.ok(json!({"op": "NACK", "topic": "t", "group": "g", "id": id, "reason": "no"})).await;
    until("the other hub has heard of the letters", || other.bus().has_topic("dlq.t")).await;
    let (status, letters) = other.get("/dlq?topic=t").await;
    assert_eq!((status, &letters["letters"][0]["err"]), (200, &json!("no")), "{letters}");

    for replayed in [1, 0] {
        let (status, answer) = other.ask("POST", "/dlq/replay", json!({"topic": "t"})).await;
        assert_eq!((status, &answer["replayed"]), (200, &json!(replayed)), "{answer}");
    }
    for expected in 2..=11 {
        let event = event(&mut client).await;
        assert_eq!(seq(&event), expected);
        assert_eq!(event["event"]["headers"]["x-hub-replay-of"] == id, expected == 11, "{event}");
        client.ok(ack(&event)).await;
    }
    let (_, letters) = owner.get("/dlq?topic=t").await;
    assert_eq!(letters["letters"][0]["replays"], 1, "the owner knows of it: {letters}");

    owner.bus().flush().await.unwrap();
    let (status, answer) = other.get("/event?topic=t&seq=1").await;
    assert_eq!(status, 200, "{answer}");
    let group = &answer["groups"][0];
    assert_eq!((&group["state"], &group["saved"]), (&json!("dead_lettered"), &json!(true)), "{answer}");
    assert_eq!(group["letter"]["replays"][0]["seq"], 11, "{answer}");
    let (status, detail) = other.get("/groups/detail?topic=t&group=g").await;
    assert_eq!((status, &detail["reason"]), (200, &json!("elsewhere")), "{detail}");
    assert_eq!(detail["owner"], format!("ws://{}/", owner.address));
    let dry = json!({"topic": "t", "group": "g", "to": "earliest", "dryRun": true});
    let (status, dry) = other.ask("POST", "/groups/seek", dry).await;
    assert_eq!(
        (status, &dry["from"], &dry["to"], &dry["events"]),
        (200, &json!(11), &json!(0), &json!(11)),
        "{dry}"
    );
}
