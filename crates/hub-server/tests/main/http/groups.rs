//! `/cursors`, `/lag`, `/groups/seek`, `DELETE /groups`.

use super::world::{STATIC, World};
use hub_core::testkit::Fault;
use hub_core::{Code, Position};
use serde_json::{Value, json};

/// A topic of five events, a minute apart, with a group that has settled two.
async fn world() -> World {
    let world = World::new().await;
    for n in 1..=5 {
        world.bus().publish("t", json!(n)).ts(n).await.unwrap();
        world.clock.jump(60_000);
    }
    let mut group = world.bus().subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    for _ in 0..2 {
        group.recv().await.unwrap().ack().unwrap();
    }
    group.close();
    world
}

async fn id_of(world: &World, seq: u64) -> Value {
    json!(world.bus().scan("t", Position::AfterSeq(seq - 1), Some(1)).await.unwrap()[0].id())
}

#[tokio::test]
async fn a_cursor_is_the_floor_with_the_event_there() {
    let world = world().await;
    world.group("t", "new").await;
    let second = id_of(&world, 2).await;
    let cursors = json!([
        {"group": "g", "lastId": second, "lastTs": 2, "seq": 2},
        {"group": "new", "lastId": null, "lastTs": null, "seq": 0},
    ]);
    assert_eq!(world.get("/cursors?topic=t").await.ok(), json!({"topic": "t", "cursors": cursors}));
    let one = world.get("/cursors?topic=t&group=g").await.ok();
    assert_eq!(one["cursors"], json!([cursors[0]]));
}

#[tokio::test]
async fn lag_is_between_commit_times_and_not_between_those_of_publishers() {
    let world = world().await;
    let lag = world.get("/lag?topic=t&group=g").await.ok();
    let lag_ms = lag["lagMs"].as_u64().unwrap();
    assert!((180_000..200_000).contains(&lag_ms), "three events, a minute apart: {lag_ms}");
    assert_eq!(
        lag,
        json!({
            "topic": "t", "group": "g", "lastCursor": {"lastId": id_of(&world, 2).await, "lastTs": 2, "seq": 2},
            "tail": id_of(&world, 5).await, "lagMs": lag_ms, "lag": 3, "inflight": 0, "parked": 3, "reason": "no_members",
        })
    );
}

#[tokio::test]
async fn a_group_that_has_everything_does_not_lag_and_a_new_one_lags_from_the_oldest() {
    let world = world().await;
    world.bus().set_cursor("t", "g", Position::Latest).await.unwrap();
    let lag = world.get("/lag?topic=t&group=g").await.ok();
    assert_eq!((&lag["lagMs"], &lag["lag"]), (&json!(0), &json!(0)));
    world.bus().set_cursor("t", "g", Position::Earliest).await.unwrap();
    let lag = world.get("/lag?topic=t&group=g").await.ok();
    assert!((240_000..260_000).contains(&lag["lagMs"].as_u64().unwrap()), "{lag}");
    world.group("empty", "g").await;
    let lag = world.get("/lag?topic=empty&group=g").await.ok();
    assert_eq!((&lag["lagMs"], &lag["lag"], &lag["tail"]), (&json!(0), &json!(0), &Value::Null));
}

#[tokio::test]
async fn a_group_goes_where_it_is_told() {
    let world = world().await;
    let committed = world.bus().scan("t", Position::AfterSeq(2), Some(1)).await.unwrap()[0].committed();
    for (to, seq) in [
        (json!("earliest"), 0),
        (json!("latest"), 5),
        (json!({"afterSeq": 4}), 4),
        (json!({"afterId": id_of(&world, 1).await}), 1),
        (json!({"ts": committed}), 2),
        (json!({"ts": 0}), 0),
    ] {
        let asked = json!({"topic": "t", "group": "g", "to": to}).to_string();
        let answer = world.post("/groups/seek", &asked).await.ok();
        assert_eq!(answer, json!({"topic": "t", "group": "g", "seq": seq}), "{to}");
        assert_eq!(world.bus().get_cursor("t", "g").await.unwrap().unwrap().seq, seq);
    }
}

#[tokio::test]
async fn a_place_that_is_none_is_refused_and_the_group_stays() {
    let world = world().await;
    for (body, code) in [
        ("", "bad_json"),
        ("{", "bad_json"),
        (r#"["t","g","latest"]"#, "bad_request"),
        (r#"{"topic":"t","group":"g"}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":"latest","x":1}"#, "bad_request"),
        (r#"{"topic":"t","group":"h","to":"latest"}"#, "bad_request"),
        (r#"{"topic":"t","group":"a b","to":"latest"}"#, "bad_request"),
        (r#"{"topic":"*","group":"g","to":"latest"}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":"newest"}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":{}}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":{"ts":1,"afterSeq":1}}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":{"ts":-1}}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":{"afterSeq":6}}"#, "bad_request"),
        (r#"{"topic":"t","group":"g","to":{"afterId":"7"}}"#, "bad_request"),
        (
            r#"{"topic":"t","group":"g","to":{"afterId":"018bcfe5-6800-7000-8000-000000000001"}}"#,
            "unknown_id",
        ),
    ] {
        assert_eq!(world.post("/groups/seek", body).await.refusal(), (400, code), "{body}");
    }
    let pattern = world.post("/groups/seek", r#"{"topic":"t.*","group":"g","to":"latest"}"#).await;
    assert!(pattern.json["error"].as_str().unwrap().contains("one topic at a time"), "{}", pattern.json);
    assert_eq!(world.bus().get_cursor("t", "g").await.unwrap().unwrap().seq, 2);
}

async fn delete(world: &World, topic: &str, token: &str) -> super::world::Got {
    world.ask("DELETE", &format!("/groups?topic={topic}&group=g"), token, "").await
}

async fn delete_list(world: &World, label: &str, token: &str) -> super::world::Got {
    world.ask("DELETE", &format!("/groups?label={label}&group=g"), token, "").await
}

#[tokio::test]
async fn a_deleted_group_is_gone_and_its_members_are_told() {
    let world = world().await;
    let mut member = world.bus().subscribe("t").group("g").open().await.unwrap();
    assert_eq!(delete(&world, "t", STATIC).await.ok(), json!({"topic": "t", "group": "g", "deleted": 1}));
    while let Ok(delivery) = member.recv().await {
        drop(delivery);
    }
    assert_eq!(member.recv().await.unwrap_err().code, Code::NotSubscribed);
    assert_eq!(delete(&world, "t", STATIC).await.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn a_subscription_to_a_pattern_goes_with_its_groups_if_all_of_it_is_allowed() {
    let world = World::new().await;
    world.fill("a.x", 1).await;
    world.fill("a.y", 1).await;
    world.group("a.*", "g").await;
    for scopes in [&["admin:a.x", "admin:a.y"][..], &["admin:a.x"], &["admin:b.*"], &["subscribe:**"]] {
        assert_eq!(delete(&world, "a.*", &world.token(scopes)).await.refusal(), (403, "forbidden"));
    }
    let driven = delete(&world, "a.x", STATIC).await;
    assert_eq!(driven.refusal(), (400, "bad_request"));
    assert!(driven.json["error"].as_str().unwrap().contains("subscription to a.*"));
    let answer = delete(&world, "a.*", &world.token(&["admin:a.*"])).await.ok();
    assert_eq!(answer, json!({"topic": "a.*", "group": "g", "deleted": 2}));
    let again = delete(&world, "a.*", STATIC).await;
    assert!(again.json["error"].as_str().unwrap().contains("no subscription to \"a.*\""), "{}", again.json);
}

#[tokio::test]
async fn a_list_of_topics_goes_by_its_topics_and_not_by_its_label() {
    let world = World::new().await;
    world.fill("secret.a", 1).await;
    world.fill("secret.b", 1).await;
    let list = world.bus().subscribe_all("public", ["secret.a", "secret.b"]).group("g");
    list.open().await.unwrap().close();
    let some = world.token(&["admin:public", "admin:secret.a"]);
    assert_eq!(delete_list(&world, "public", &some).await.refusal(), (403, "forbidden"));
    assert_eq!(delete(&world, "public", STATIC).await.status, 404, "a topic is meant, and there is none");
    let answer = delete_list(&world, "public", &world.token(&["admin:secret.*"])).await.ok();
    assert_eq!(answer, json!({"label": "public", "group": "g", "deleted": 2}));
    let again = delete_list(&world, "public", STATIC).await;
    assert_eq!(again.refusal(), (400, "bad_request"));
    assert!(
        again.json["error"].as_str().unwrap().contains("no subscription to \"public\""),
        "{}",
        again.json
    );
}

#[tokio::test]
async fn who_may_not_delete_a_list_does_not_learn_of_it() {
    let world = World::new().await;
    world.bus().subscribe_all("there", ["secret.a"]).group("g").open().await.unwrap().close();
    let token = world.token(&["admin:there", "admin:nowhere", "subscribe:**"]);
    let (there, nowhere) =
        (delete_list(&world, "there", &token).await, delete_list(&world, "nowhere", &token).await);
    assert_eq!((there.refusal(), nowhere.refusal()), ((403, "forbidden"), (403, "forbidden")));
    let texts = [&there, &nowhere].map(|got| got.json["error"].as_str().unwrap());
    assert_eq!(texts[0].replace("there", "nowhere"), texts[1]);
    assert!(!texts[0].contains("secret"), "{}", texts[0]);
}

#[tokio::test]
async fn a_topic_or_a_list_is_deleted_and_never_both() {
    let world = World::new().await;
    for query in ["group=g", "topic=t&label=t&group=g", "label=t", "topic=a.*b&group=g"] {
        let got = world.ask("DELETE", &format!("/groups?{query}"), STATIC, "").await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
    }
    assert_eq!(delete_list(&world, "t.*", STATIC).await.refusal(), (400, "bad_request"));
    world.fill("t", 1).await;
    world.group("t", "g").await;
    world.bus().subscribe_all("t", ["other"]).group("g").open().await.unwrap().close();
    assert_eq!(delete(&world, "t", &world.token(&["admin:t"])).await.ok()["deleted"], 1);
    assert!(world.bus().subscription("t", "g").is_some(), "the list of the same name stays");
}

#[tokio::test]
async fn a_store_that_is_away_is_503() {
    let world = world().await;
    world.store.script(|call| (call != "load").then_some(Fault::Refuse));
    for path in ["/lag?topic=t&group=g", "/export?topic=t", "/topics"] {
        assert_eq!(world.get(path).await.refusal(), (503, "unavailable"), "{path}");
    }
    assert_eq!(delete(&world, "t", STATIC).await.refusal(), (503, "unavailable"));
    world.store.script(|_| None);
    assert_eq!(delete(&world, "t", STATIC).await.status, 200);
}

#[tokio::test]
async fn groups_are_filtered_by_any_reason_that_a_group_can_have() {
    let world = World::new().await;
    world.fill("t", 1).await;
    world.group("t", "g").await;
    for reason in hub_core::Reason::ALL.map(hub_core::Reason::as_str).into_iter().chain(["endpoint_failing"])
    {
        let groups = world.get(&format!("/groups?reason={reason}")).await.ok();
        let found = groups["groups"].as_array().unwrap().len();
        assert_eq!(found, usize::from(reason == "no_members"), "{reason}: {groups}");
    }
}
