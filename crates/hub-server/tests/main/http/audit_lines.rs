//! `/audit`.

use super::world::World;
use serde_json::json;

#[tokio::test]
async fn the_newest_refusals_and_admin_actions_are_shown_without_an_audit_log() {
    let world = World::new().await;
    let eve = world.token_of("eve", &["publish:open"]);
    world.ask("POST", "/publish/closed", &eve, "1").await;
    world.post("/revoke", r#"{"jti":"other"}"#).await.ok();
    let audit = world.get("/audit").await.ok();
    assert_eq!(audit["dropped"], 0);
    let entries = audit["entries"].as_array().unwrap();
    let of = |at: usize, names: [&str; 5]| names.map(|name| entries[at][name].clone());
    assert_eq!(
        of(0, ["n", "event", "outcome", "op", "target"]),
        [json!(2), json!("admin"), json!("allowed"), json!("POST /revoke"), json!("jti:other")]
    );
    assert_eq!(
        of(1, ["n", "event", "sub", "topic", "code"]),
        [json!(1), json!("refused"), json!("eve"), json!("closed"), json!("forbidden")]
    );
    assert_eq!(entries.len(), 2, "to look is no admin action: {audit}");
    let newest = world.get("/audit?limit=1").await.ok();
    assert_eq!(newest["entries"].as_array().unwrap()[..], entries[..1]);
    for limit in ["0", "1001", "x"] {
        assert_eq!(world.get(&format!("/audit?limit={limit}")).await.refusal(), (400, "bad_request"));
    }
}

#[tokio::test]
async fn only_an_administrator_of_everything_sees_what_others_did() {
    let world = World::new().await;
    for scopes in [&[][..], &["publish:**", "subscribe:**"], &["admin:orders.**"]] {
        let got = world.ask("GET", "/audit", &world.token_of("eve", scopes), "").await;
        assert_eq!(got.refusal(), (403, "forbidden"), "{scopes:?}");
    }
    assert_eq!(world.ask("GET", "/audit", "", "").await.refusal(), (401, "no_token"));
    let entries = world.ask("GET", "/audit", &world.token(&["admin:**"]), "").await.ok()["entries"].take();
    let told = entries.as_array().unwrap().iter().filter(|entry| entry["op"] == "GET /audit").count();
    assert_eq!(told, 4, "the refusals are recorded: {entries}");
}
