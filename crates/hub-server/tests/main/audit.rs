//! The audit log: what it has, what it never has, and that nobody waits for it.

use crate::world::{ALL, Client, SECRET, STATIC, Wall, signed, token};
use hub_core::prometheus_client::registry::Registry;
use hub_core::{Bus, Clock, Config, MemoryStore, Quota, QuotaOf};
use hub_server::audit::Audit;
use hub_server::auth::mint::{Claims, mint_at};
use hub_server::auth::{AuthConfig, Authenticator, Secret};
use hub_server::limits::{Limits, SubjectQuota};
use hub_server::{Hub, Origins, Settings};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Nothing takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sink whose lines the test reads.
struct Lines(UnboundedSender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n'), "only whole lines are written");
        text.lines().for_each(|line| drop(self.0.send(line.to_owned())));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A hub with both ports and an audit log.
struct World {
    hub: Hub,
    ws: SocketAddr,
    ops: SocketAddr,
    lines: UnboundedReceiver<String>,
    wall: Wall,
}

impl World {
    async fn new() -> Self {
        Self::with(100, Config::default(), Settings::default()).await
    }

    async fn with(rate: u32, config: Config, settings: Settings) -> Self {
        let (give, lines) = unbounded_channel();
        let audit = Audit::to_writer(Lines(give), rate).unwrap();
        Self { lines, ..Self::over(audit, config, settings).await }
    }

    async fn over(audit: Audit, config: Config, settings: Settings) -> Self {
        let wall = Wall::new();
        let mut registry = Registry::default();
        let bus = Bus::builder(MemoryStore::new()).clock(wall.clone()).config(config);
        let bus = bus.payload_checks(Arc::new(hub_schema::Schemas::default()));
        let bus = bus.open_with(&mut registry).await.unwrap();
        let auth = AuthConfig {
            secret: Some(Secret::new(SECRET)),
            static_token: Some(Secret::new(STATIC)),
            leeway_secs: 0,
            ..AuthConfig::default()
        };
        let auth = Authenticator::with_clock(auth, Arc::new(wall.clone())).unwrap();
        let hub = Hub::builder(bus, auth).settings(settings).registry(registry).audit(audit).build();
        let (ws, ops) = (listen(&hub, hub.gateway()).await, listen(&hub, hub.ops()).await);
        Self { hub, ws, ops, lines: unbounded_channel().1, wall }
    }

    async fn stranger(&self) -> Client {
        Client::open(self.ws).await
    }

    async fn client(&self, token: &str) -> Client {
        let mut client = self.stranger().await;
        client.ok(json!({"op": "AUTH", "token": token})).await;
        client
    }

    /// Asks over HTTP: the status.
    async fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> u16 {
        self.send(method, path, token, body).await.status().as_u16()
    }

    /// Asks over HTTP for what is there: the answer.
    async fn answer(&self, method: &str, path: &str, token: &str, body: &Value) -> Value {
        let answer = self.send(method, path, token, body).await;
        assert_eq!(answer.status(), 200);
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    async fn send(&self, method: &str, path: &str, token: &str, body: &Value) -> reqwest::Response {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = reqwest::Client::new().request(method, format!("http://{}{path}", self.ops));
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        request.body(body.to_string()).send().await.unwrap()
    }

    /// The next line.
    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("a line in time").unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert!(line["ts"].as_u64().is_some_and(|ts| ts > 1_700_000_000_000), "{line}");
        line
    }

    /// The next line has these values, and of those that are null here none.
    async fn told(&mut self, expected: Value) -> Value {
        let line = self.line().await;
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&line[name], value, "{name} of {line}");
        }
        line
    }

    /// Everything that is still to come, after the log was closed.
    async fn rest(&mut self) -> Vec<Value> {
        let audit = self.hub.audit().clone();
        assert!(tokio::task::spawn_blocking(move || audit.close(PATIENCE)).await.unwrap());
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.try_recv() {
            lines.push(serde_json::from_str(&line).unwrap());
        }
        lines
    }

    fn token(&self, sub: &str, jti: &str, scopes: &[&str]) -> String {
        let claims = Claims {
            sub: Some(sub.into()),
            jti: Some(jti.into()),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            ttl: Some(Duration::from_secs(3600)),
            ..Claims::default()
        };
        mint_at(&Secret::new(SECRET), &claims, self.wall.wall())
    }
}

async fn listen(hub: &Hub, router: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(hub_server::net::serve(listener, router, None, hub.clone()));
    address
}

fn is_loopback(peer: &Value) -> bool {
    peer.as_str().is_some_and(|peer| peer.parse::<SocketAddr>().is_ok_and(|peer| peer.ip().is_loopback()))
}

#[tokio::test]
async fn failed_authentication_is_told_with_its_code_and_the_address() {
    let mut world = World::new().await;
    let mut stranger = world.stranger().await;
    stranger.err(json!({"op": "AUTH", "token": "nonsense"})).await;
    let line = world
        .told(json!({
            "event": "auth_failed", "outcome": "refused", "via": "ws", "op": "AUTH", "action": "auth",
            "code": "jwt_invalid", "sub": null, "jti": null, "topic": null,
        }))
        .await;
    assert!(is_loopback(&line["peer"]), "{line}");
    assert!(line["reason"].as_str().unwrap().contains("not a JWT"), "{line}");
    stranger.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    world.told(json!({"event": "auth_failed", "op": "PUBLISH", "code": "unauthorized"})).await;

    assert_eq!(world.ask("GET", "/topics?limit=7", "nonsense", &json!(0)).await, 401);
    let line = world
        .told(json!({
            "event": "auth_failed", "outcome": "refused", "via": "http", "op": "GET /topics", "action": "auth",
            "code": "jwt_invalid",
        }))
        .await;
    assert!(is_loopback(&line["peer"]), "{line}");
    assert_eq!(world.ask("GET", "/metrics", "", &json!(0)).await, 401);
    world.told(json!({"event": "auth_failed", "op": "GET /metrics", "code": "no_token"})).await;
    assert_eq!(world.rest().await, [json!(null); 0]);
}

#[tokio::test]
async fn an_address_that_has_failed_too_often_is_told_too() {
    let limits = Limits { failed_auth_per_address: 1, ..Limits::default() };
    let mut world = World::with(100, Config::default(), Settings { limits, ..Settings::default() }).await;
    let mut stranger = world.stranger().await;
    for _ in 0..10 {
        stranger.err(json!({"op": "AUTH", "token": "nonsense"})).await;
        world.told(json!({"event": "auth_failed", "code": "jwt_invalid"})).await;
    }
    assert_eq!(stranger.err(json!({"op": "AUTH", "token": "nonsense"})).await, "rate_limited");
    world.told(json!({"event": "auth_failed", "code": "rate_limited", "op": "AUTH", "action": "auth"})).await;
    assert_eq!(world.ask("GET", "/topics", "nonsense", &json!(0)).await, 429);
    world.told(json!({"event": "auth_failed", "code": "rate_limited", "op": "GET /topics"})).await;
}

#[tokio::test]
async fn what_the_rules_refuse_is_told_with_subject_topic_and_group() {
    let mut world = World::new().await;
    let eve = world.token("eve", "token-7", &["publish:open.*"]);
    let mut client = world.client(&eve).await;
    let who = json!({"event": "refused", "outcome": "refused", "code": "forbidden", "sub": "eve", "jti": "token-7"});
    let told = |more: Value| {
        let mut expected = who.clone();
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        expected
    };
    client.ok(json!({"op": "PUBLISH", "topic": "open.a", "payload": 1})).await;
    client.err(json!({"op": "PUBLISH", "topic": "closed.a", "payload": 1})).await;
    let line = world.told(told(json!({"op": "PUBLISH", "action": "publish", "topic": "closed.a"}))).await;
    assert!(is_loopback(&line["peer"]), "{line}");
    client.err(json!({"op": "SUBSCRIBE", "topic": "open.a", "group": "g"})).await;
    world
        .told(told(json!({"op": "SUBSCRIBE", "action": "subscribe", "topic": "open.a", "group": "g"})))
        .await;
    let events: Vec<Value> = (0..50).map(|_| json!({"topic": "closed.b", "payload": 1})).collect();
    client.ok(json!({"op": "PUBLISH", "events": events})).await;
    world.told(told(json!({"op": "PUBLISH", "topic": "closed.b"}))).await;
    client.err(json!({"op": "PUBLISH", "topic": "dlq.open.a", "payload": 1})).await;
    world.told(told(json!({"op": "PUBLISH", "topic": "dlq.open.a"}))).await;

    assert_eq!(world.ask("POST", "/publish/closed.c", &eve, &json!(1)).await, 403);
    let publish =
        json!({"via": "http", "op": "POST /publish/{topic}", "topic": "closed.c", "action": "publish"});
    world.told(told(publish)).await;
    assert_eq!(world.ask("GET", "/lag?topic=open.a&group=g", &eve, &json!(1)).await, 403);
    world.told(told(json!({"op": "GET /lag", "action": "subscribe", "topic": "open.a", "group": "g"}))).await;
    assert_eq!(world.ask("GET", "/hubs", &eve, &json!(1)).await, 403);
    world.told(told(json!({"op": "GET /hubs", "action": "admin"}))).await;
    assert_eq!(world.rest().await, [json!(null); 0], "one line for a frame, and none for what was allowed");
}

#[tokio::test]
async fn a_right_that_is_taken_back_and_a_page_of_another_origin_are_told() {
    let settings = Settings { origins: Origins::Listed(vec![]), ..Settings::default() };
    let mut world = World::with(100, Config::default(), settings.clone()).await;
    let mut client = world.client(&signed(Some("ada"), ALL)).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let policy = hub_server::acl::sib::Sib::from_bytes(b"(deny subscribe \"t\")").unwrap().policy;
    world.hub.apply(Settings { policy, ..settings });
    assert_eq!(client.next().await["code"], "forbidden");
    let lost = json!({"event": "refused", "sub": "ada", "topic": "t", "group": "g", "code": "forbidden"});
    world.told(lost).await;
    let mut request = format!("ws://{}/", world.ws).into_client_request().unwrap();
    request.headers_mut().insert("origin", "http://evil.example".parse().unwrap());
    assert!(connect_async(request).await.is_err());
    world.told(json!({"event": "refused", "via": "ws", "action": "connect", "code": "forbidden"})).await;
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_told() {
    let of = QuotaOf::Subject("eve".into());
    let quota = Quota { of, topics: Some(1), groups: Some(1), stored_bytes: None };
    let config = Config { quotas: vec![quota], ..Config::default() };
    let subject_quotas =
        vec![SubjectQuota { subject: Some("eve".into()), connections: Some(1), ..SubjectQuota::default() }];
    let settings = Settings { limits: Limits { subject_quotas, ..Limits::default() }, ..Settings::default() };
    let mut world = World::with(100, config, settings).await;
    let eve = world.token("eve", "token-7", ALL);
    let mut client = world.client(&eve).await;
    let told = |op: &str| json!({"event": "refused", "code": "quota_exceeded", "sub": "eve", "jti": "token-7", "op": op});
    assert_eq!(world.stranger().await.err(json!({"op": "AUTH", "token": eve})).await, "quota_exceeded");
    world.told(told("AUTH")).await;
    client.ok(json!({"op": "PUBLISH", "topic": "one", "payload": 1})).await;
    client.err(json!({"op": "PUBLISH", "topic": "two", "payload": 1})).await;
    assert_eq!(world.told(told("PUBLISH")).await["topic"], "two");
    let events = json!([{"topic": "one", "payload": 1}, {"topic": "three", "payload": 1}]);
    client.ok(json!({"op": "PUBLISH", "events": events})).await;
    world.told(told("PUBLISH")).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "one", "group": "a"})).await;
    client.err(json!({"op": "SUBSCRIBE", "topic": "one", "group": "b"})).await;
    assert_eq!(world.told(told("SUBSCRIBE")).await["group"], "b");
    assert_eq!(world.ask("POST", "/publish/four", &eve, &json!(1)).await, 403);
    assert_eq!(world.told(told("POST /publish/{topic}")).await["topic"], "four");
}

#[tokio::test]
async fn revoked_and_expired_tokens_are_told_with_the_subject_if_it_is_known() {
    let mut world = World::new().await;
    let eve = world.token("eve", "token-7", ALL);
    let mut open = world.client(&eve).await;
    assert_eq!(world.ask("POST", "/revoke", STATIC, &json!({"sub": "eve", "jti": "x"})).await, 200);
    let revoke = json!({
        "event": "admin", "outcome": "allowed", "via": "http", "op": "POST /revoke", "action": "admin",
        "target": "sub:eve jti:x", "code": null, "reason": null,
    });
    world.told(revoke).await;
    assert_eq!(open.next().await["code"], "token_revoked");
    let told = json!({"event": "auth_failed", "code": "token_revoked", "sub": "eve", "jti": "token-7"});
    world.told(told.clone()).await;
    assert_eq!(world.stranger().await.err(json!({"op": "AUTH", "token": eve})).await, "token_revoked");
    world.told(told.clone()).await;
    assert_eq!(world.ask("GET", "/topics", &eve, &json!(0)).await, 401);
    assert_eq!(world.told(told).await["via"], "http");

    let short = world.wall.short(Some("ada"), ALL, 100);
    let mut ada = world.client(&short).await;
    assert_eq!(ada.next().await["code"], "token_expired");
    world.told(json!({"event": "auth_failed", "code": "token_expired", "sub": "ada", "op": "AUTH"})).await;
    ada.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    world.told(json!({"event": "auth_failed", "code": "token_expired", "sub": "ada", "op": "PUBLISH"})).await;
    world.wall.advance(1_000);
    assert_eq!(world.ask("GET", "/topics", &short, &json!(0)).await, 401);
    world.told(json!({"event": "auth_failed", "code": "token_expired", "via": "http"})).await;
}

#[tokio::test]
async fn every_admin_action_is_told_whether_it_is_allowed_or_not() {
    let mut world = World::new().await;
    let (root, eve) =
        (world.token("root", "r-1", ALL), world.token("eve", "e-1", &["publish:**", "subscribe:**"]));
    let mut client = world.client(&root).await;
    client.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    let list = json!({"op": "SUBSCRIBE", "topic": "label", "group": "g", "opts": {"topics": ["t"]}});
    client.ok(list).await;
    let seek = json!({"topic": "t", "group": "g", "to": "earliest"});
    let none = json!(null);
    let push =
        json!({"topic": "t", "url": "https://crm.example.com/", "secrets": [crate::push::endpoint::SECRET]});
    let schema = json!({"type": "object"});
    let actions = [
        ("POST", "/groups/seek", "POST /groups/seek", &seek, json!({"topic": "t", "group": "g"})),
        ("DELETE", "/groups?topic=t&group=g", "DELETE /groups", &none, json!({"topic": "t", "group": "g"})),
        (
            "DELETE",
            "/groups?topic=a.*&group=g",
            "DELETE /groups",
            &none,
            json!({"topic": "a.*", "group": "g"}),
        ),
        (
            "DELETE",
            "/groups?label=label&group=g",
            "DELETE /groups",
            &none,
            json!({"target": "list:label", "group": "g"}),
        ),
        ("POST", "/revoke", "POST /revoke", &json!({"jti": "other"}), json!({"target": "jti:other"})),
        (
            "POST",
            "/outbox/retry",
            "POST /outbox/retry",
            &json!({"outbox": "shop"}),
            json!({"target": "outbox:shop"}),
        ),
        ("POST", "/backup", "POST /backup", &none, json!({"target": "backup"})),
        ("POST", "/dlq/replay", "POST /dlq/replay", &json!({"topic": "t"}), json!({"topic": "t"})),
        (
            "POST",
            "/dlq/replay",
            "POST /dlq/replay (dry run)",
            &json!({"topic": "t", "group": "g", "dryRun": true}),
            json!({"topic": "t", "group": "g"}),
        ),
        (
            "POST",
            "/dlq/delete",
            "POST /dlq/delete",
            &json!({"topic": "t", "all": true}),
            json!({"topic": "t"}),
        ),
        (
            "DELETE",
            "/dlq?topic=t&ids=018bcfe5-6800-7000-8000-000000000001",
            "DELETE /dlq",
            &none,
            json!({"topic": "t"}),
        ),
        ("PUT", "/push/crm", "PUT /push/{name}", &push, json!({"target": "push:crm"})),
        ("POST", "/push/crm/resume", "POST /push/{name}/resume", &none, json!({"target": "push:crm"})),
        ("DELETE", "/push/crm", "DELETE /push/{name}", &none, json!({"target": "push:crm"})),
        ("PUT", "/schemas/t", "PUT /schemas/{topic}", &schema, json!({"topic": "t"})),
        ("PUT", "/schemas/a.*", "PUT /schemas/{topic}", &schema, json!({"topic": "a.*"})),
        ("DELETE", "/schemas/t", "DELETE /schemas/{topic}", &none, json!({"topic": "t"})),
        ("DELETE", "/topics?topic=t", "DELETE /topics", &none, json!({"topic": "t"})),
    ];
    for (method, path, op, body, more) in actions {
        let mut refused = json!({
            "event": "admin", "outcome": "refused", "op": op, "sub": "eve", "jti": "e-1", "code": "forbidden",
            "via": "http", "action": "admin",
        });
        refused.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(world.ask(method, path, &eve, body).await, 403, "{op}");
        world.told(refused.clone()).await;
        let allowed =
            json!({"outcome": "allowed", "sub": "root", "jti": "r-1", "code": null, "reason": null});
        refused.as_object_mut().unwrap().extend(allowed.as_object().unwrap().clone());
        let status = world.ask(method, path, &root, body).await;
        assert!(![401, 403].contains(&status), "{op}: {status}");
        let line = world.told(refused).await;
        assert!(is_loopback(&line["peer"]), "{line}");
    }
    assert_eq!(world.rest().await, [json!(null); 0]);
}

#[tokio::test]
async fn who_cancels_a_job_is_told_and_who_names_what_it_may_not_see_has_tried() {
    let mut world = World::new().await;
    let (root, eve) = (world.token("root", "r-1", ALL), world.token("eve", "e-1", &["admin:other"]));
    world.hub.bus().publish("t", json!(1)).await.unwrap();
    let job =
        world.answer("POST", "/dlq/replay", &root, &json!({"topic": "t", "rate": 1})).await["job"].take();
    world.told(json!({"op": "POST /dlq/replay", "sub": "root"})).await;
    let (path, target) =
        (format!("/jobs/{}", job.as_str().unwrap()), format!("job:{}", job.as_str().unwrap()));
    let told =
        |op: &str, target: &str| json!({"event": "admin", "op": op, "target": target, "action": "admin"});
    let with = |mut line: Value, more: Value| {
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let refused = json!({"outcome": "refused", "sub": "eve", "code": "not_found"});
    assert_eq!(world.ask("DELETE", &path, &eve, &json!(null)).await, 404);
    world.told(with(told("DELETE /jobs/{id}", &target), refused.clone())).await;
    assert_eq!(world.ask("DELETE", &path, &root, &json!(null)).await, 200);
    world.told(with(told("DELETE /jobs/{id}", &target), json!({"outcome": "allowed", "sub": "root"}))).await;
    let push =
        json!({"topic": "t", "url": "https://crm.example.com/", "secrets": [crate::push::endpoint::SECRET]});
    assert_eq!(world.ask("PUT", "/push/crm", &root, &push).await, 200);
    world.told(told("PUT /push/{name}", "push:crm")).await;
    for (method, path, op) in [
        ("DELETE", "/push/crm", "DELETE /push/{name}"),
        ("POST", "/push/crm/resume", "POST /push/{name}/resume"),
        ("DELETE", "/push/none", "DELETE /push/{name}"),
    ] {
        let target = if path.contains("none") { "push:none" } else { "push:crm" };
        assert_eq!(world.ask(method, path, &eve, &json!(null)).await, 404, "{op}");
        world.told(with(told(op, target), refused.clone())).await;
    }
    assert_eq!(world.rest().await, [json!(null); 0]);
}

#[tokio::test]
async fn a_flood_of_refusals_is_bounded_and_counted_and_drops_no_admin_action() {
    const ASKED: usize = 300;
    const ADMIN: usize = 5;
    let mut world = World::with(5, Config::default(), Settings::default()).await;
    let mut client = world.client(&signed(Some("eve"), &[])).await;
    for n in 0..ASKED {
        client.err(json!({"op": "PUBLISH", "topic": "t", "payload": n})).await;
    }
    for n in 0..ADMIN {
        let status = world.ask("POST", "/revoke", STATIC, &json!({"jti": format!("j-{n}")})).await;
        assert_eq!(status, 200);
    }
    let lines = world.rest().await;
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    let suppressed: u64 = lines.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert_eq!(of("admin"), ADMIN, "{lines:?}");
    assert_eq!(of("refused") + suppressed as usize, ASKED, "each is told or counted");
    assert!(of("refused") >= 5 && suppressed > 0, "{} lines", of("refused"));
    // The bucket refills while the test runs; without a bound there would be as many lines as refusals.
    assert!(of("refused") < ASKED / 2, "{} lines", of("refused"));
    let metrics = reqwest::Client::new().get(format!("http://{}/metrics", world.ops)).bearer_auth(STATIC);
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains(&format!("audit_lines_total {}\n", lines.len())), "{metrics}");
    assert!(metrics.contains(&format!("audit_dropped_total {suppressed}\n")), "{metrics}");
}

#[tokio::test]
async fn the_count_of_what_was_dropped_follows_without_another_refusal() {
    let mut world = World::with(1, Config::default(), Settings::default()).await;
    let mut client = world.client(&signed(Some("eve"), &[])).await;
    for _ in 0..20 {
        client.err(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    }
    let mut line = world.line().await;
    while line["event"] != "suppressed" {
        line = world.line().await;
    }
    assert!(line["count"].as_u64().is_some_and(|count| count > 0), "{line}");
}

#[tokio::test]
async fn no_token_and_no_payload_is_ever_in_a_line() {
    let mut world = World::new().await;
    let payload = "the-payload-of-the-test";
    let (eve, forged) = (world.token("eve", "e-1", &[]), world.token("root", "r-1", ALL) + "x");
    let other = world.token("mallory", "m-1", ALL);
    let mut client = world.client(&eve).await;
    client.err(json!({"op": "PUBLISH", "topic": "t", "payload": payload})).await;
    client.ok(json!({"op": "PUBLISH", "events": [{"topic": "t", "payload": payload}]})).await;
    for token in [&forged, &format!("{STATIC}x"), &other] {
        client.err(json!({"op": "AUTH", "token": token})).await;
        world.stranger().await.ask(json!({"op": "AUTH", "token": token})).await;
        for path in [format!("/publish/{token}?key={token}"), format!("/lag?topic=t&group=g&token={token}")] {
            world.ask("POST", &path, token, &json!(payload)).await;
            world.ask("GET", &path, "", &json!(payload)).await;
        }
    }
    world.ask("POST", "/publish/t", &eve, &json!(payload)).await;
    world.ask("POST", "/groups/seek", &eve, &json!({"topic": "t", "group": "g", "to": "earliest"})).await;
    let lines = world.rest().await;
    assert!(lines.len() > 10, "{}", lines.len());
    let all = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let secrets = [&*eve, &*forged, &*other, STATIC, SECRET, payload];
    let parts = secrets.iter().flat_map(|secret| secret.split('.')).filter(|part| part.len() > 20);
    for secret in secrets.iter().copied().chain(parts) {
        assert!(!all.contains(secret), "{secret} is in:\n{all}");
    }
}

#[tokio::test]
async fn a_sink_that_fails_stops_nobody() {
    let (reader, closed) = io::pipe().unwrap();
    drop(reader);
    let (_reader, hanging) = io::pipe().unwrap();
    let full = std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let sinks: [Box<dyn Write + Send>; 3] = [Box::new(closed), Box::new(hanging), Box::new(full)];
    for (at, sink) in sinks.into_iter().enumerate() {
        let audit = Audit::to_writer(sink, u32::MAX).unwrap();
        let world = World::over(audit.clone(), Config::default(), Settings::default()).await;
        let mut client = world.client(&signed(Some("eve"), &["publish:open"])).await;
        // More than a pipe and the queue hold.
        for n in 0..2_000 {
            client.err(json!({"op": "PUBLISH", "topic": format!("closed.{n}"), "payload": 1})).await;
        }
        client.ok(json!({"op": "PUBLISH", "topic": "open", "payload": 1})).await;
        assert_eq!(world.ask("POST", "/revoke", STATIC, &json!({"sub": "x"})).await, 200);
        assert_eq!(world.ask("GET", "/topics", &token(ALL), &json!(0)).await, 200);
        let ended = tokio::task::spawn_blocking(move || audit.close(Duration::ZERO));
        assert!(!ended.await.unwrap() || at != 1, "a pipe that nobody reads hangs, and nobody waits for it");
    }
}
