//! Who may ask for what.

use super::world::{STATIC, World};
use hub_server::Settings;
use hub_server::acl::Policy;
use serde_json::json;

/// Every request that needs a token, and the scopes with one of which it is answered; none: any token will do.
const REQUESTS: &[(&str, &str, &str, &[&str])] = &[
    ("POST", "/publish/t", "1", &["publish:t"]),
    ("GET", "/cursors?topic=t", "", &["subscribe:t"]),
    ("GET", "/cursors?topic=t&group=g", "", &["subscribe:t"]),
    ("GET", "/lag?topic=t&group=g", "", &["subscribe:t"]),
    ("GET", "/export?topic=t", "", &["subscribe:t"]),
    ("GET", "/topics", "", &[]),
    ("GET", "/groups", "", &[]),
    ("GET", "/groups?topic=t", "", &["publish:t", "subscribe:t", "admin:t"]),
    ("POST", "/groups/seek", r#"{"topic":"t","group":"g","to":"latest"}"#, &["admin:t"]),
    ("DELETE", "/groups?topic=t&group=g", "", &["admin:t"]),
    ("GET", "/groups/detail?topic=t&group=g", "", &["subscribe:t", "admin:t"]),
    ("GET", "/event?topic=t&seq=1", "", &["subscribe:t"]),
    ("GET", "/stats", "", &[]),
    ("GET", "/stats?topic=t", "", &["publish:t", "subscribe:t", "admin:t"]),
    ("GET", "/dlq", "", &[]),
    ("GET", "/dlq/summary", "", &[]),
    ("POST", "/dlq/replay", r#"{"topic":"t"}"#, &["admin:t"]),
    ("POST", "/dlq/delete", r#"{"topic":"t","all":true}"#, &["admin:t"]),
    ("GET", "/jobs", "", &[]),
    ("GET", "/metrics", "", &[]),
];

async fn world() -> World {
    let world = World::with(Settings::default()).await;
    world.fill("t", 1).await;
    world.group("t", "g").await;
    world
}

#[tokio::test]
async fn each_request_needs_the_right_it_names_and_no_other_will_do() {
    let scopes = ["publish:t", "subscribe:t", "admin:t", "publish:other", "subscribe:other", "admin:other"];
    for (method, path, body, needs) in REQUESTS {
        for scope in scopes {
            let world = world().await;
            let got = world.ask(method, path, &world.token(&[scope]), body).await;
            match needs.is_empty() || needs.contains(&scope) {
                true => assert_eq!(got.status, 200, "{method} {path} with {scope}: {}", got.json),
                false => assert_eq!(got.refusal(), (403, "forbidden"), "{method} {path} with {scope}"),
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_that_holds_nothing_is_answered() {
    let world = world().await;
    let old = world.token(&["publish:**", "subscribe:**", "admin:**"]);
    world.clock.jump(2 * 3600 * 1000);
    for (method, path, body, _) in REQUESTS {
        for (token, code) in [("", "no_token"), ("nonsense", "jwt_invalid"), (&old, "token_expired")] {
            let got = world.ask(method, path, token, body).await;
            assert_eq!(got.refusal(), (401, code), "{method} {path}");
            assert_eq!(got.header("www-authenticate"), Some("Bearer"));
            assert!(!got.json.to_string().contains(&old));
        }
        assert_eq!(
            world.ask(method, path, &world.token(&[]), "").await.status / 100,
            4 - u16::from(is_list(path)) * 2
        );
    }
}

fn is_list(path: &str) -> bool {
    ["/topics", "/groups", "/stats", "/dlq", "/dlq/summary", "/jobs", "/metrics"].contains(&path)
}

#[tokio::test]
async fn an_authorization_that_is_no_bearer_token_is_none() {
    let world = world().await;
    for value in ["Basic YTpi", "Bearer", "Bearer ", STATIC, &format!("Token {STATIC}")] {
        let request = world.request("GET", "/topics", "").header("authorization", value);
        let got = super::world::read(request.send().await.unwrap()).await;
        assert_eq!(got.refusal(), (401, "no_token"), "{value}");
        assert!(!got.json.to_string().contains("YTpi"));
    }
    let request = world.request("GET", "/topics", "").header("authorization", format!("bearer {STATIC}"));
    assert_eq!(request.send().await.unwrap().status(), 200, "schemes have no case");
    let twice = world.request("GET", "/topics", STATIC).header("authorization", "Bearer other");
    let got = super::world::read(twice.send().await.unwrap()).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn the_hub_s_own_rules_come_before_a_token_s_but_for_the_static_one() {
    let claims = json!({"policy": {"rules": [{"effect": "deny", "action": "subscribe", "topics": ["t"]}]}});
    let policy = Policy::from_claims(claims.as_object().unwrap()).unwrap();
    let world = World::with(Settings { policy, ..Settings::default() }).await;
    world.fill("t", 1).await;
    let wide = world.token(&["publish:**", "subscribe:**", "admin:**"]);
    assert_eq!(world.ask("GET", "/export?topic=t", &wide, "").await.refusal(), (403, "forbidden"));
    assert_eq!(world.ask("GET", "/export?topic=t", STATIC, "").await.status, 200);
    world.hub.apply(Settings::default());
    assert_eq!(world.ask("GET", "/export?topic=t", &wide, "").await.status, 200);
}

#[tokio::test]
async fn a_right_that_hangs_on_a_group_shows_that_group_alone() {
    let world = world().await;
    world.group("t", "ops").await;
    world.fill("hidden", 1).await;
    let ops = json!([{"effect": "allow", "action": "subscribe", "topics": ["t"], "groups": ["ops"]}]);
    let ops = world.ruled(&ops);
    let cursors = world.ask("GET", "/cursors?topic=t", &ops, "").await.ok();
    assert_eq!(cursors["cursors"], json!([{"group": "ops", "lastId": null, "lastTs": null, "seq": 0}]));
    assert_eq!(world.ask("GET", "/lag?topic=t&group=ops", &ops, "").await.status, 200);
    for path in
        ["/lag?topic=t&group=g", "/cursors?topic=t&group=g", "/export?topic=t", "/cursors?topic=hidden"]
    {
        assert_eq!(world.ask("GET", path, &ops, "").await.refusal(), (403, "forbidden"), "{path}");
    }
    let groups = world.ask("GET", "/groups", &ops, "").await.ok();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1);
    let topics = world.ask("GET", "/topics", &ops, "").await.ok();
    assert_eq!(topics["topics"].as_array().unwrap().len(), 1);
    assert_eq!(topics["topics"][0]["groups"], 1);
}

#[tokio::test]
async fn who_may_not_see_a_topic_does_not_learn_whether_it_is_there() {
    let world = world().await;
    let other = world.token(&["publish:other", "subscribe:other", "admin:other"]);
    for (method, path, body, _) in REQUESTS.iter().filter(|(_, path, ..)| !is_list(path)) {
        let there = world.ask(method, path, &other, body).await;
        let (path, body) = (path.replace("=t", "=u").replace("/t", "/u"), body.replace("\"t\"", "\"u\""));
        let away = world.ask(method, &path, &other, &body).await;
        assert_eq!(there.refusal(), away.refusal(), "{path}");
        let alike = |got: &super::world::Got| {
            let error = got.json["error"].as_str().unwrap().to_owned();
            error.replace("topic \"t\"", "topic \"u\"").replace("topic t", "topic u")
        };
        assert_eq!(alike(&there), alike(&away));
    }
}
