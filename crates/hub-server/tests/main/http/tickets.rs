//! `POST /ticket`: what stands for a token once, in a URL.

use super::sse::Reader;
use super::world::{Got, STATIC, World};
use hub_server::Settings;
use hub_server::acl::Policy;
use hub_server::auth::Revoked;
use serde_json::json;

async fn world() -> World {
    let world = World::with(Settings::default()).await;
    world.fill("t", 1).await;
    world.fill("u", 1).await;
    world
}

async fn ticket(world: &World, token: &str, body: &str) -> String {
    let got = world.ask("POST", "/ticket", token, body).await.ok();
    assert_eq!(got["expiresInMs"], 30_000);
    let ticket = got["ticket"].as_str().unwrap().to_owned();
    assert!(ticket.len() == 64 && ticket.bytes().all(|byte| byte.is_ascii_hexdigit()), "{ticket}");
    ticket
}

/// Uses a ticket where it has to be refused.
async fn refused(world: &World, path: &str, ticket: &str) -> Got {
    let got = world.ask("GET", &format!("{path}&ticket={ticket}"), "", "").await;
    assert!(!got.json.to_string().contains(ticket), "nothing repeats a ticket");
    got
}

#[tokio::test]
async fn a_ticket_opens_a_stream_or_an_export_once() {
    let world = world().await;
    let token = world.token(&["subscribe:t"]);
    let first = ticket(&world, &token, "").await;
    let mut reader = Reader::open(&world, &format!("/events?topic=t&from=earliest&ticket={first}"), "").await;
    assert_eq!(reader.seqs(1).await, [1]);
    for path in ["/events?topic=t", "/export?topic=t"] {
        assert_eq!(refused(&world, path, &first).await.refusal(), (401, "unauthorized"), "{path}");
    }
    // The stream that it opened goes on.
    world.fill("t", 1).await;
    assert_eq!(reader.seqs(1).await, [2]);
    let second = ticket(&world, &token, "{}").await;
    assert_ne!(first, second);
    let export = world.request("GET", &format!("/export?topic=t&ticket={second}"), "").send().await.unwrap();
    assert_eq!((export.status().as_u16(), export.text().await.unwrap().lines().count()), (200, 2));
}

#[tokio::test]
async fn a_ticket_is_for_streams_and_for_nothing_else() {
    let world = world().await;
    let token = world.token(&["publish:**", "subscribe:**", "admin:**"]);
    for (method, path) in [
        ("GET", "/replay?topic=t"),
        ("GET", "/latest-by-key?topic=t"),
        ("GET", "/topics?limit=1"),
        ("POST", "/publish/t?key=k"),
        ("POST", "/ticket?x=1"),
    ] {
        let ticket = ticket(&world, &token, "").await;
        let got = world.ask(method, &format!("{path}&ticket={ticket}"), "", "1").await;
        assert_eq!(got.refusal(), (401, "no_token"), "{path}");
    }
}

#[tokio::test]
async fn a_ticket_may_what_its_token_may_and_one_for_a_topic_only_that() {
    let world = world().await;
    let token = world.token(&["subscribe:t", "subscribe:u"]);
    let free = ticket(&world, &token, "").await;
    assert_eq!(refused(&world, "/events?topic=other", &free).await.refusal(), (403, "forbidden"));
    assert_eq!(
        refused(&world, "/events?topic=t", &free).await.refusal(),
        (401, "unauthorized"),
        "it is used"
    );
    let narrow = ticket(&world, &token, r#"{"topic":"t"}"#).await;
    assert_eq!(refused(&world, "/export?topic=u", &narrow).await.refusal(), (403, "forbidden"));
    let narrow = ticket(&world, &token, r#"{"topic":"t"}"#).await;
    Reader::open(&world, &format!("/events?topic=t&ticket={narrow}"), "").await;
    let got = world.ask("POST", "/ticket", &token, r#"{"topic":"v"}"#).await;
    assert_eq!(got.refusal(), (403, "forbidden"));
}

#[tokio::test]
async fn a_request_that_fails_uses_its_ticket_all_the_same() {
    let world = world().await;
    for (path, status) in
        [("/events?topic=t&x=1", 400), ("/events?topic=none", 404), ("/export?topic=*", 400)]
    {
        let ticket = ticket(&world, STATIC, "").await;
        assert_eq!(refused(&world, path, &ticket).await.status, status, "{path}");
        assert_eq!(refused(&world, "/events?topic=t", &ticket).await.refusal(), (401, "unauthorized"));
    }
    let ticket = ticket(&world, STATIC, "").await;
    let both = world.ask("GET", &format!("/events?topic=t&ticket={ticket}"), STATIC, "").await;
    assert_eq!(both.refusal(), (400, "bad_request"), "a ticket and a token");
    assert_eq!(refused(&world, "/events?topic=t", &ticket).await.refusal(), (401, "unauthorized"));
    for nonsense in ["x", "0000", &"f".repeat(64), "%00"] {
        assert_eq!(refused(&world, "/events?topic=t", nonsense).await.refusal().0, 401, "{nonsense}");
    }
}

#[tokio::test]
async fn a_ticket_ends_with_its_token() {
    let world = world().await;
    let token = world.token(&["subscribe:t"]);
    let ticket_ = ticket(&world, &token, "").await;
    world.clock.jump(3600 * 1000);
    assert_eq!(refused(&world, "/events?topic=t", &ticket_).await.refusal(), (401, "token_expired"));

    let token = world.token(&["subscribe:t"]);
    let (unused, used) = (ticket(&world, &token, "").await, ticket(&world, &token, "").await);
    let reader = Reader::open(&world, &format!("/events?topic=t&ticket={used}"), "").await;
    world.hub.revoke(Revoked::Subject("ada".into())).await.unwrap();
    assert_eq!(reader.end().await, "token_revoked");
    assert_eq!(refused(&world, "/events?topic=t", &unused).await.refusal(), (401, "token_revoked"));

    let token = world.token_of("bob", &["subscribe:t"]);
    let (unused, used) = (ticket(&world, &token, "").await, ticket(&world, &token, "").await);
    let reader = Reader::open(&world, &format!("/events?topic=t&ticket={used}"), "").await;
    let deny = json!({"policy": {"rules": [{"effect": "deny", "action": "subscribe", "topics": ["t"]}]}});
    let policy = Policy::from_claims(deny.as_object().unwrap()).unwrap();
    world.hub.apply(Settings { policy, ..Settings::default() });
    assert_eq!(reader.end().await, "forbidden");
    assert_eq!(refused(&world, "/events?topic=t", &unused).await.refusal(), (403, "forbidden"));
}

#[tokio::test]
async fn a_secret_that_is_replaced_ends_the_tickets_of_its_tokens() {
    let world = world().await;
    let token = world.token(&["subscribe:t"]);
    let (unused, used) = (ticket(&world, &token, "").await, ticket(&world, &token, "").await);
    let reader = Reader::open(&world, &format!("/events?topic=t&ticket={used}"), "").await;
    world.rotate_secret();
    assert_eq!(reader.end().await, "token_revoked");
    assert_eq!(refused(&world, "/events?topic=t", &unused).await.refusal(), (401, "token_revoked"));
}

#[tokio::test]
async fn a_subject_has_a_bounded_number_of_unused_tickets() {
    let world = world().await;
    let token = world.token(&["subscribe:t"]);
    let mut last = String::new();
    for _ in 0..64 {
        last = ticket(&world, &token, "").await;
    }
    let got = world.ask("POST", "/ticket", &token, "").await;
    assert_eq!(got.refusal(), (429, "rate_limited"));
    let wait: u64 = got.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait));
    ticket(&world, &world.token_of("bob", &[]), "").await;
    Reader::open(&world, &format!("/events?topic=t&ticket={last}"), "").await;
    ticket(&world, &token, "").await;
}

#[tokio::test]
async fn a_body_that_is_wrong_is_refused() {
    let world = world().await;
    for (body, status, code) in [
        ("[]", 400, "bad_request"),
        (r#"{"topics":["t"]}"#, 400, "bad_request"),
        (r#"{"topic":"a..b"}"#, 400, "bad_request"),
        (r#"{"topic":"*"}"#, 400, "bad_request"),
        ("{", 400, "bad_json"),
    ] {
        assert_eq!(world.post("/ticket", body).await.refusal(), (status, code), "{body}");
    }
    assert_eq!(world.get("/ticket").await.refusal(), (405, "method_not_allowed"));
    let huge = format!("{{\"topic\":\"{}\"}}", "t".repeat(4 << 20));
    assert_eq!(world.post("/ticket", &huge).await.refusal(), (413, "too_large"));
}
