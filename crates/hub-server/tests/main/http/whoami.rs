//! `/whoami`.

use super::world::{STATIC, World};
use hub_server::Settings;
use hub_server::acl::sib::Sib;
use serde_json::{Value, json};

async fn who(world: &World, token: &str) -> Value {
    world.ask("GET", "/whoami", token, "").await.ok()
}

#[tokio::test]
async fn a_token_is_told_its_subject_its_end_and_its_rules_in_their_order() {
    let world = World::new().await;
    let before = world.bus().now();
    let token = world.token_of("ada", &["publish:orders.*", "subscribe:**"]);
    let who = who(&world, &token).await;
    assert_eq!(who["sub"], "ada");
    let rule = |action: &str, topic: &str| json!({"effect": "allow", "actions": [action], "topics": [topic]});
    assert_eq!(who["rules"], json!([rule("publish", "orders.*"), rule("subscribe", "**")]));
    assert_eq!((&who["admin"], &who["administrates"]), (&json!(false), &json!(false)));
    // In milliseconds, as all times here; the token says whole seconds.
    let expires = who["expires"].as_u64().unwrap();
    let hour = 3_600_000;
    let range = before + hour - 1000..=world.bus().now() + hour;
    assert!(expires % 1000 == 0 && range.contains(&expires), "{who}");
    assert_eq!(who["limits"], json!({"payloadBytes": 1 << 20, "batchEvents": 1000}));
    assert_eq!(who["hub"]["store"], "memory");
    assert_eq!(who["hub"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(who["hub"]["started"].as_u64().is_some_and(|started| started <= before), "{who}");
}

#[tokio::test]
async fn the_rules_of_the_hub_stand_before_those_of_the_token_but_for_the_static_one() {
    let policy = Sib::from_bytes(b"(deny publish \"closed.**\")").unwrap().policy;
    let world = World::with(Settings { policy, ..Settings::default() }).await;
    let rules = json!([{"effect": "allow", "action": "subscribe", "topics": ["t"], "groups": ["g-{sub}"]}]);
    let token = world.token(&["publish:**"]);
    let told = who(&world, &token).await;
    assert_eq!(told["rules"][0], json!({"effect": "deny", "actions": ["publish"], "topics": ["closed.**"]}));
    assert_eq!(told["rules"][1]["effect"], "allow");
    let ruled = who(&world, &world.ruled(&rules)).await;
    assert!(ruled.get("sub").is_none(), "{ruled}");
    assert_eq!(ruled["rules"][1]["groups"].as_array().unwrap().len(), 1);
    let told = who(&world, STATIC).await;
    assert_eq!(told["rules"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!((&told["admin"], told.get("expires")), (&json!(true), None));
}

#[tokio::test]
async fn it_says_what_a_token_may_administrate() {
    let world = World::new().await;
    for (scopes, admin, administrates) in [
        (&["admin:**"][..], true, true),
        (&["admin:orders.**"], false, true),
        (&["publish:**", "subscribe:**"], false, false),
        (&[], false, false),
    ] {
        let told = who(&world, &world.token(scopes)).await;
        assert_eq!(
            (&told["admin"], &told["administrates"]),
            (&json!(admin), &json!(administrates)),
            "{scopes:?}"
        );
    }
    assert_eq!(world.ask("GET", "/whoami", "", "").await.refusal(), (401, "no_token"));
    assert_eq!(world.ask("GET", "/whoami?sub=eve", STATIC, "").await.refusal(), (400, "bad_request"));
}
