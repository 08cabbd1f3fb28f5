//! What is refused, and how: always with a status, a code and a sentence.

use super::world::{STATIC, World};
use hub_server::Settings;
use hub_server::limits::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_path_that_is_not_there_is_404_and_a_method_405_as_json() {
    let world = World::new().await;
    for path in ["/nothing", "/publish", "/publish/", "/publish/a/b", "/Topics"] {
        assert_eq!(world.get(path).await.refusal(), (404, "not_found"), "{path}");
    }
    for (method, path, allow) in [
        ("GET", "/publish/t", "POST"),
        ("POST", "/topics", "DELETE,GET,HEAD"),
        ("PUT", "/groups", "DELETE,GET,HEAD"),
        ("OPTIONS", "/export?topic=t", "GET,HEAD"),
    ] {
        let got = world.ask(method, path, STATIC, "").await;
        assert_eq!(got.refusal(), (405, "method_not_allowed"), "{method} {path}");
        let mut allowed: Vec<_> = got.header("allow").unwrap().split(',').collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow);
    }
}

#[tokio::test]
async fn bad_parameters_are_refused_by_name_with_what_is_allowed() {
    let world = World::new().await;
    world.fill("t", 1).await;
    world.group("t", "g").await;
    for (path, says) in [
        ("/topics?topic=t", "unknown parameter \"topic\"; allowed: q, after, limit"),
        ("/healthz?x", "unknown parameter \"x\"; none are"),
        ("/readyz?x=1", "unknown parameter"),
        ("/metrics?x=1", "unknown parameter"),
        ("/export?topic=t&topic=t", "parameter topic is there twice"),
        ("/export?topic=t&to%70ic=u", "parameter topic is there twice"),
        ("/export?topic=", "parameter topic is empty"),
        ("/export?topic", "parameter topic is empty"),
        ("/export", "parameter topic is missing"),
        ("/export?topic=a..b", "topic name \"a..b\""),
        ("/export?topic=**", "topic name \"**\""),
        ("/export?topic=t&fromTs=yesterday", "fromTs is \"yesterday\"; it must be milliseconds since 1970"),
        ("/export?topic=t&toTs=-1", "toTs is \"-1\""),
        ("/export?topic=t&toTs=%2B1", "toTs is \"+1\""),
        ("/export?topic=t&toTs=99999999999999999999", "toTs is"),
        ("/export?topic=t&afterSeq=2", "afterSeq is 2, beyond the end of topic t; allowed is 0 to 1"),
        ("/export?topic=t&ndjson=yes", "ndjson is \"yes\"; it must be 1 or 0"),
        ("/export?topic=%FF", "not UTF-8"),
        ("/export?topic=%4", "no two hex digits"),
        ("/export?topic=%+4", "no two hex digits"),
        ("/lag?topic=t", "parameter group is missing"),
        ("/lag?group=g", "parameter topic is missing"),
        ("/lag?topic=t&group=a%20b", "group name \"a b\""),
        ("/lag?topic=t&group=h", "topic t has no group h"),
        ("/cursors?topic=t&group=h", "topic t has no group h"),
        ("/topics?limit=0", "limit is 0; it must be a number from 1 to 10000"),
        ("/topics?limit=10001", "limit is 10001"),
        ("/groups?limit=x", "limit is \"x\""),
        ("/groups?after=t", "after is \"t\"; it must be next of a page before"),
    ] {
        let got = world.get(path).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{path}");
        let error = got.json["error"].as_str().unwrap();
        assert!(error.contains(says), "{path}: {error}");
    }
}

#[tokio::test]
async fn long_and_strange_values_come_back_short_and_escaped() {
    let world = World::new().await;
    let got = world.get(&format!("/export?topic={}", "%0A".repeat(2000))).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
    let got = world.get(&format!("/export?{}=1", "x".repeat(5000))).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn an_unknown_topic_is_404() {
    let world = World::new().await;
    for path in [
        "/cursors?topic=u",
        "/cursors?topic=u&group=g",
        "/lag?topic=u&group=g",
        "/export?topic=u",
        "/groups?topic=u",
    ] {
        assert_eq!(world.get(path).await.refusal(), (404, "not_found"), "{path}");
    }
    let seek = r#"{"topic":"u","group":"g","to":"latest"}"#;
    assert_eq!(world.post("/groups/seek", seek).await.refusal(), (404, "not_found"));
    assert_eq!(
        world.ask("DELETE", "/groups?topic=u&group=g", STATIC, "").await.refusal(),
        (404, "not_found")
    );
}

fn small() -> Settings {
    Settings { limits: Limits { frame_bytes: 1000, ..Limits::default() }, ..Settings::default() }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_or_not_it_says_so_beforehand() {
    let world = World::with(small()).await;
    let fits = format!("\"{}\"", "x".repeat(998));
    world.post("/publish/t", &fits).await.ok();
    for path in ["/publish/t", "/groups/seek"] {
        let got = world.post(path, &format!("{fits} ")).await;
        assert_eq!(got.refusal(), (413, "too_large"), "{path}");
    }
    let head = format!(
        "POST /publish/t HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {STATIC}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 600, "1".repeat(600));
    let answer = raw(&world, &format!("{head}{chunk}{chunk}0\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // It is refused before it is sent.
    let head = format!(
        "POST /publish/t HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {STATIC}\r\nContent-Length: 99999999999\r\n\r\n"
    );
    let answer = raw(&world, &head).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with('}'), "{answer}");
}

#[tokio::test]
async fn a_payload_over_the_bus_s_limit_is_413() {
    let world = World::new().await;
    let got = world.post("/publish/t", &format!("\"{}\"", "x".repeat(1 << 20))).await;
    assert_eq!(got.refusal(), (413, "too_large"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408_and_the_connection_ends() {
    let limits = Limits { body_timeout: 50, ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    let head = format!(
        "POST /publish/t HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {STATIC}\r\nContent-Length: 10\r\n\r\n123"
    );
    let answer = raw(&world, &head).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"code\":\"timeout\""), "{answer}");
    assert!(!world.bus().has_topic("t"));
}

/// Sends bytes and reads until the other side ends the connection, or the answer is complete.
async fn raw(world: &World, request: &str) -> String {
    let mut socket = TcpStream::connect(&world.at).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let whole = async {
        let mut buffer = [0; 4096];
        // An answer to half a request may come with a reset behind it.
        while let Ok(count @ 1..) = socket.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..count]);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), whole).await.expect("the connection ends");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn who_is_too_fast_is_told_when_to_come_back() {
    let limits = Limits { subject_rate: Some(1), ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    let token = world.token(&["publish:**", "subscribe:**"]);
    assert_eq!(world.ask("POST", "/publish/t", &token, "1").await.status, 200);
    for (method, path, body) in
        [("POST", "/publish/t", "1"), ("GET", "/topics", ""), ("GET", "/export?topic=t", "")]
    {
        let got = world.ask(method, path, &token, body).await;
        assert_eq!(got.refusal(), (429, "rate_limited"), "{path}");
        assert_eq!(got.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn a_topic_s_rate_counts_for_everybody() {
    let limits = Limits { topic_rates: vec![("slow.*".parse().unwrap(), 1)], ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    world.post("/publish/slow.a", "1").await.ok();
    assert_eq!(world.post("/publish/slow.a", "1").await.refusal(), (429, "rate_limited"));
    world.post("/publish/slow.b", "1").await.ok();
    world.post("/publish/fast", "1").await.ok();
}

#[tokio::test]
async fn a_hub_that_drains_takes_no_new_work() {
    let world = World::new().await;
    world.hub.draining().cancel();
    assert_eq!(world.post("/publish/t", "1").await.refusal(), (503, "unavailable"));
    assert_eq!(world.get("/topics").await.refusal(), (503, "unavailable"));
    assert!(!world.bus().has_topic("t"));
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let answer = world.request("HEAD", "/export?topic=t", STATIC).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.unwrap().is_empty());
}
