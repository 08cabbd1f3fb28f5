//! `DELETE /topics`.

use super::world::{STATIC, World};
use hub_core::testkit::Fault;
use serde_json::json;

#[tokio::test]
async fn a_topic_is_deleted_by_those_who_administrate_it() {
    let world = World::new().await;
    world.fill("t", 3).await;
    world.fill("other", 1).await;
    world.group("t", "g").await;
    for scopes in [&["publish:**", "subscribe:**"][..], &["admin:other"]] {
        let refused = world.ask("DELETE", "/topics?topic=t", &world.token(scopes), "").await;
        assert_eq!(refused.refusal(), (403, "forbidden"), "{scopes:?}");
    }
    let admin = world.token(&["admin:t"]);
    let deleted = world.ask("DELETE", "/topics?topic=t", &admin, "").await.ok();
    assert_eq!(deleted, json!({"topic": "t", "deleted": {"topics": 1, "groups": 1, "events": 3}}));
    let names: Vec<_> = world.bus().topics().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["other"]);
    assert_eq!(world.ask("DELETE", "/topics?topic=t", &admin, "").await.refusal(), (404, "not_found"));
    world.fill("t", 1).await;
    let events = world.get("/export?topic=t&ndjson=0").await.ok();
    assert_eq!(events[0]["seq"], 4);
}

#[tokio::test]
async fn what_cannot_be_deleted_is_told_why() {
    let world = World::new().await;
    world.fill("t", 1).await;
    for (query, status, words) in [
        ("", 400, "topic is missing"),
        ("?topic=**", 400, "topic"),
        ("?topic=none", 404, "none"),
        ("?topic=_hub.deleted", 400, "_hub"),
        ("?topic=t&force=1", 400, "force"),
    ] {
        let refused = world.ask("DELETE", &format!("/topics{query}"), STATIC, "").await;
        assert_eq!(
            (refused.status, refused.json["error"].as_str().unwrap().contains(words)),
            (status, true),
            "{refused:?}"
        );
    }
    world.store.script(|called| (called == "delete").then_some(Fault::Refuse));
    assert_eq!(world.ask("DELETE", "/topics?topic=t", STATIC, "").await.refusal(), (503, "unavailable"));
}
