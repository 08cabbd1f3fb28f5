//! Making, showing, changing and deleting push subscriptions: who may, and what is never shown.

use super::endpoint::{
    Endpoint, PATIENCE, SECRET, dead_letters, definition, in_state, pushing_world, put, settled, until,
};
use crate::http::world::{Got, STATIC, World};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hub_server::push::{PushDefinition, PushEndpoint, SigningSecret};
use serde_json::{Value, json};
use std::time::Duration;

const PUBLIC: &str = "https://hooks.example.com/in";

async fn put_as(world: &World, token: &str, name: &str, definition: &Value) -> Got {
    world.ask("PUT", &format!("/push/{name}"), token, &definition.to_string()).await
}

#[tokio::test]
async fn what_was_put_is_shown_without_its_secrets() {
    let world = pushing_world().await;
    let more = json!({"topic": "orders.*", "mode": "binary", "concurrency": 3, "rate": 50, "ordering": "key",
        "filter": {"tags": ["vip"]}, "maxAttempts": 9, "timeoutMs": 2000, "from": "earliest", "group": "crm"});
    let url = "http://203.0.113.7:8080/hook/a?token=abc#part";
    let shown = put_as(&world, STATIC, "crm", &definition(url, &more)).await.ok();
    for (name, value) in more.as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
    assert_eq!(shown["url"], "http://203.0.113.7:8080/hook/a?…");
    assert_eq!(
        (&shown["secrets"], &shown["allowPrivate"], &shown["origin"]),
        (&json!(1), &json!(true), &json!("api"))
    );
    let same = |one: &Value| ["name", "topic", "group", "url"].map(|name| one[name].clone());
    assert_eq!(same(&world.get("/push/crm").await.ok()), same(&shown));
    assert_eq!(same(&world.get("/push").await.ok()["endpoints"][0]), same(&shown));
    let defaults =
        put_as(&world, STATIC, "plain", &definition(PUBLIC, &json!({"allowPrivate": false}))).await.ok();
    for (name, value) in [
        ("mode", json!("structured")),
        ("concurrency", json!(16)),
        ("ordering", json!("none")),
        ("maxAttempts", json!(5)),
        ("timeoutMs", json!(15_000)),
        ("from", json!("latest")),
        ("group", json!("push.plain")),
        ("allowPrivate", json!(false)),
    ] {
        assert_eq!(defaults[name], value, "{name}");
    }
}

#[tokio::test]
async fn secrets_are_in_no_answer_and_in_no_line_of_the_audit_log() {
    let (lines, world) = audited_world().await;
    let secret = &SECRET["whsec_".len()..];
    let mut answers = String::new();
    let bad = [
        json!({"topic": "t", "url": PUBLIC, "secrets": SECRET.replace("whsec_", "whsec-")}),
        json!({"topic": "t", "url": PUBLIC, "secrets": {"a": SECRET}}),
        json!({"topic": "t", "url": PUBLIC, "secret": SECRET}),
        json!({"topic": "t", "url": PUBLIC, "secrets": [[SECRET]]}),
        json!({"topic": "a b", "url": PUBLIC, "secrets": [SECRET]}),
        json!({"topic": "t", "url": 7, "secrets": [SECRET]}),
    ];
    for definition in bad {
        let got = put_as(&world, STATIC, "crm", &definition).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{definition}");
        answers += &got.json.to_string();
    }
    let refused =
        put_as(&world, &world.token(&["admin:other"]), "crm", &definition(PUBLIC, &json!({}))).await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    answers += &refused.json.to_string();
    for (method, path, body) in [
        ("PUT", "/push/crm", definition("http://127.0.0.1:9/", &json!({"secrets": SECRET})).to_string()),
        ("GET", "/push", String::new()),
        ("GET", "/push/crm", String::new()),
        ("POST", "/push/crm/resume", String::new()),
        ("GET", "/groups", String::new()),
        ("GET", "/topics", String::new()),
        ("DELETE", "/push/crm", String::new()),
    ] {
        answers += &world.ask(method, path, STATIC, &body).await.ok().to_string();
    }
    for topic in ["_hub.push", "_hub.*", "_hub.**"] {
        let got = world.get(&format!("/export?topic={topic}")).await;
        assert_ne!(got.status, 200, "{topic}");
    }
    assert!(!answers.contains(secret), "{answers}");
    // The log has a writer of its own; the deletion is its last line.
    let is_written = || lines.lock().contains("DELETE");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_written() && std::time::Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let log = lines.lock().clone();
    assert!(log.contains("push:crm") && !log.contains(secret), "{log}");
    let endpoint = PushDefinition::new("t", PUBLIC, vec![SigningSecret::parse(SECRET).unwrap()]);
    assert!(!format!("{endpoint:?} {:?}", world.hub.push()).contains(secret));
}

/// A hub with an audit log, and the log.
async fn audited_world() -> (std::sync::Arc<parking_lot::Mutex<String>>, World) {
    #[derive(Clone, Default)]
    struct Lines(std::sync::Arc<parking_lot::Mutex<String>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let audit = hub_server::audit::Audit::to_writer(lines.clone(), 1000).unwrap();
    let world = World::audited(audit).await;
    world.hub.start_push();
    (lines.0, world)
}

#[tokio::test]
async fn only_those_who_administrate_its_topics_see_or_change_an_endpoint() {
    let world = pushing_world().await;
    put_as(
        &world,
        STATIC,
        "orders",
        &definition(PUBLIC, &json!({"topic": "orders.*", "allowPrivate": false})),
    )
    .await
    .ok();
    put_as(&world, STATIC, "stock", &definition(PUBLIC, &json!({"topic": "stock", "allowPrivate": false})))
        .await
        .ok();
    let admin = world.token(&["admin:orders.**"]);
    let listed = world.ask("GET", "/push", &admin, "").await.ok();
    let names: Vec<_> =
        listed["endpoints"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["orders"]);
    assert_eq!(world.ask("GET", "/push/orders", &admin, "").await.ok()["name"], "orders");
    for (method, path) in [("GET", "/push/stock"), ("DELETE", "/push/stock"), ("POST", "/push/stock/resume")]
    {
        let hidden = world.ask(method, path, &admin, "").await;
        let absent = world.ask(method, &path.replace("stock", "nothing"), &admin, "").await;
        assert_eq!(
            (hidden.refusal(), absent.refusal()),
            ((404, "not_found"), (404, "not_found")),
            "{method} {path}"
        );
        assert_eq!(hidden.json.to_string().replace("stock", "nothing"), absent.json.to_string());
        let user = world.token(&["publish:**", "subscribe:**"]);
        assert_eq!(world.ask(method, path, &user, "").await.refusal(), (403, "forbidden"));
        assert_eq!(world.ask(method, path, "", "").await.refusal(), (401, "no_token"));
    }
    let user = world.token(&["publish:**", "subscribe:**"]);
    assert_eq!(world.ask("GET", "/push", &user, "").await.ok(), json!({"endpoints": []}));
    let own = definition(PUBLIC, &json!({"topic": "orders.created", "allowPrivate": false}));
    put_as(&world, &admin, "mine", &own).await.ok();
    let cases = [
        ("mine", definition(PUBLIC, &json!({"topic": "stock", "allowPrivate": false})), "another topic"),
        ("mine", definition(PUBLIC, &json!({"topic": "**", "allowPrivate": false})), "more topics"),
        ("stock", own.clone(), "the name of an endpoint of others"),
        ("mine", definition("http://10.0.0.1/", &json!({"topic": "orders.created"})), "a private address"),
    ];
    for (name, definition, why) in cases {
        assert_eq!(put_as(&world, &admin, name, &definition).await.refusal(), (403, "forbidden"), "{why}");
    }
    assert_eq!(world.get("/push/stock").await.ok()["topic"], "stock");
}

#[tokio::test]
async fn what_is_no_push_subscription_is_refused_with_what_is_wrong() {
    let world = pushing_world().await;
    for (name, more, says) in [
        ("a%20b", json!({}), "letters, digits, dots, hyphens"),
        (&*"x".repeat(101), json!({}), "letters, digits, dots, hyphens"),
        ("crm", json!({"topic": "a b"}), "topic"),
        ("crm", json!({"topic": "_hub.push"}), "_hub"),
        ("crm", json!({"secrets": []}), "no signing secret"),
        ("crm", json!({"secrets": null}), "no signing secret"),
        ("crm", json!({"secrets": ["whsec_c2hvcnQ="]}), "24 to 64 bytes"),
        ("crm", json!({"concurrency": 0}), "concurrency is 0; it must be 1 to 256"),
        ("crm", json!({"concurrency": 257}), "concurrency is 257"),
        ("crm", json!({"rate": 0}), "rate is 0"),
        ("crm", json!({"maxAttempts": 0}), "maxAttempts is 0"),
        ("crm", json!({"timeoutMs": 99}), "timeoutMs is 99"),
        ("crm", json!({"timeoutMs": 300_001}), "timeoutMs is 300001"),
        ("crm", json!({"mode": "xml"}), "unknown variant"),
        ("crm", json!({"ordering": "seq"}), "unknown variant"),
        ("crm", json!({"filter": {"color": 1}}), "unknown field"),
        ("crm", json!({"colour": 1}), "unknown field"),
        ("crm", json!({"group": "a b"}), "group"),
    ] {
        let got = put_as(&world, STATIC, name, &definition("http://127.0.0.1:9/", &more)).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{more}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{says}: {}", got.json);
    }
    assert_eq!(put_as(&world, STATIC, "crm", &json!([])).await.refusal(), (400, "bad_request"));
    assert_eq!(world.ask("PUT", "/push/crm", STATIC, "{").await.refusal(), (400, "bad_json"));
    assert_eq!(world.ask("PUT", "/push/crm?a=1", STATIC, "{}").await.refusal(), (400, "bad_request"));
    assert!(world.bus().topics().is_empty());
}

#[tokio::test]
async fn a_changed_endpoint_goes_on_where_it_was_and_keeps_secrets_that_are_left_out() {
    let (world, one, other) =
        (pushing_world().await, Endpoint::taking_all().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&one.url(), &json!({"from": "earliest"}))).await;
    world.fill("t", 2).await;
    settled(&world, "push.crm", 2).await;
    let mut changed =
        definition(&other.url(), &json!({"from": "earliest", "maxAttempts": 7, "ordering": "key"}));
    changed.as_object_mut().unwrap().remove("secrets");
    let shown = put(&world, "crm", &changed).await;
    assert_eq!((&shown["secrets"], &shown["maxAttempts"]), (&json!(1), &json!(7)));
    world.bus().publish("t", json!(3)).await.unwrap();
    let received = other.received(1).await;
    assert_eq!(received[0].data(), json!(3));
    assert!(received[0].header("webhook-signature").starts_with("v1,"));
    assert_eq!(one.so_far().len(), 2);
    let options = world.bus().group_options("t", "push.crm").unwrap();
    assert_eq!((options.max_attempts, options.ordering), (7, hub_core::Ordering::Key));
}

#[tokio::test]
async fn a_deleted_endpoint_gets_nothing_more_and_its_group_stays() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    let deleted = world.ask("DELETE", "/push/crm", STATIC, "").await.ok();
    assert_eq!(deleted, json!({"name": "crm", "topic": "t", "group": "push.crm", "deleted": 1}));
    assert_eq!(world.get("/push/crm").await.refusal(), (404, "not_found"));
    until(async || world.bus().group("t", "push.crm").filter(|group| group.members == 0)).await;
    world.bus().publish("t", json!(2)).await.unwrap();
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    settled(&world, "push.crm", 2).await;
    assert_eq!(endpoint.so_far().len(), 2, "made again, it goes on where it was");
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_not_made_again_by_its_endpoint() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    world.ask("DELETE", "/topics?topic=t", STATIC, "").await.ok();
    in_state(&world, "crm", "trouble").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!world.bus().has_topic("t"));
    world.bus().publish("t", json!(2)).await.unwrap();
    in_state(&world, "crm", "active").await;
    world.bus().publish("t", json!(3)).await.unwrap();
    let received = endpoint.received(2).await;
    assert_eq!(received.last().unwrap().data(), json!(3));
}

#[tokio::test]
async fn endpoints_of_the_configuration_are_changed_there() {
    let (world, endpoint) = (pushing_world().await, Endpoint::taking_all().await);
    let mut configured =
        PushDefinition::new("t", endpoint.url(), vec![SigningSecret::parse(SECRET).unwrap()]);
    configured.allow_private = true;
    world.hub.push().set_configured(vec![PushEndpoint::new("crm", configured.clone()).unwrap()]);
    let shown = in_state(&world, "crm", "active").await;
    assert_eq!(shown["origin"], "file");
    world.fill("t", 1).await;
    settled(&world, "push.crm", 1).await;
    let refused = put_as(&world, STATIC, "crm", &definition(&endpoint.url(), &json!({}))).await;
    assert_eq!(refused.refusal(), (403, "forbidden"));
    assert_eq!(world.ask("DELETE", "/push/crm", STATIC, "").await.refusal(), (403, "forbidden"));
    world.hub.push().set_configured(Vec::new());
    until(async || world.bus().group("t", "push.crm").filter(|group| group.members == 0)).await;
    assert_eq!(world.get("/push").await.ok(), json!({"endpoints": []}));
}

#[tokio::test]
async fn endpoints_come_in_pages() {
    let world = pushing_world().await;
    for name in ["a", "b", "c"] {
        put_as(&world, STATIC, name, &definition(PUBLIC, &json!({"allowPrivate": false}))).await.ok();
    }
    let page = world.get("/push?limit=2").await.ok();
    let names: Vec<_> = page["endpoints"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!((names, &page["next"]), (vec![json!("a"), json!("b")], &json!("b")));
    let page = world.get("/push?limit=2&after=b").await.ok();
    assert_eq!((&page["endpoints"][0]["name"], page.get("next")), (&json!("c"), None));
}

#[tokio::test]
async fn a_hub_that_drains_lets_requests_end_and_acks_them() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, _| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        StatusCode::OK.into_response()
    })
    .await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"concurrency": 4}))).await;
    world.fill("t", 50).await;
    endpoint.received(4).await;
    assert_eq!(world.hub.drain(PATIENCE).await, 0);
    let received = endpoint.so_far().len() as u64;
    assert!(received < 50, "{received}");
    let group = world.bus().group("t", "push.crm").unwrap();
    assert_eq!((group.members, group.floor), (0, received), "all that were sent are settled");
    assert!(dead_letters(&world).await.is_empty());
}

#[tokio::test]
async fn a_hub_that_drains_does_not_wait_for_an_endpoint_that_hangs() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, _| std::future::pending::<axum::response::Response>()).await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({"maxAttempts": 1}))).await;
    world.fill("t", 3).await;
    endpoint.received(3).await;
    let since = std::time::Instant::now();
    world.hub.drain(PATIENCE).await;
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    let group = world.bus().group("t", "push.crm").unwrap();
    assert_eq!((group.members, group.floor, group.inflight), (0, 0, 0), "their leases are back");
    assert!(dead_letters(&world).await.is_empty(), "and count no failure");
}

#[tokio::test]
async fn dead_letters_are_pushed_only_by_those_who_may_read_their_source() {
    let world = pushing_world().await;
    world.fill("t", 1).await;
    let put = async |topic: &str, scopes: &[&str]| {
        let token = world.token(scopes);
        let definition = json!({"topic": topic, "url": "https://hooks.example/", "secrets": [SECRET]});
        world.ask("PUT", "/push/spy", &token, &definition.to_string()).await.status
    };
    for topic in ["dlq.t", "dlq.*", "t.snapshot"] {
        let derived = ["admin:dlq.**", "admin:*.snapshot"];
        assert_eq!(put(topic, &derived).await, 403, "{topic}");
        assert_eq!(put(topic, &[&derived[..], &["publish:**"]].concat()).await, 403, "{topic}");
        assert_eq!(put(topic, &[&derived[..], &["admin:**"]].concat()).await, 200, "{topic}");
        world.ask("DELETE", "/push/spy", crate::http::world::STATIC, "").await.ok();
    }
}

#[tokio::test]
async fn an_endpoint_whose_group_was_deleted_has_nothing_in_flight() {
    let world = pushing_world().await;
    let endpoint = Endpoint::new(|_, _| std::future::pending()).await;
    put(&world, "crm", &definition(&endpoint.url(), &json!({}))).await;
    world.fill("t", 2).await;
    endpoint.received(2).await;
    world.ask("DELETE", "/topics?topic=t", crate::http::world::STATIC, "").await.ok();
    let shown = in_state(&world, "crm", "trouble").await;
    assert_eq!(shown["inflight"], 0, "{shown}");
}

#[tokio::test]
async fn a_filter_that_is_no_object_is_refused() {
    let world = pushing_world().await;
    for filter in [json!([null, null]), json!([["vip"], "k"]), json!("vip"), json!(null)] {
        let got = put_as(&world, STATIC, "crm", &definition(PUBLIC, &json!({"filter": filter}))).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{filter}");
    }
}
