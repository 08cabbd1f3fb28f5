//! `GET /export`.

use super::world::{STATIC, World};
use flate2::read::GzDecoder;
use hub_core::testkit::Fault;
use hub_core::{NewEvent, Payload, Position};
use hub_server::Settings;
use hub_server::acl::Policy;
use reqwest::Response;
use serde_json::{Value, json};
use std::io::Read;

/// Publishes `count` events of about `bytes` each, whose payloads no compression makes much smaller.
async fn fill(world: &World, topic: &str, count: usize, bytes: usize) {
    let mut random = 1_u64;
    let mut digits = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{random:016x}")
    };
    let mut event = |n: usize| {
        let pad: String = (0..bytes / 16).map(|_| digits()).collect();
        NewEvent::new(topic.parse().unwrap(), Payload::of(&json!({"n": n, "pad": pad})).unwrap())
    };
    for start in (0..count).step_by(1000) {
        let batch = (start..count.min(start + 1000)).map(&mut event).collect();
        for receipt in world.bus().publish_batch(batch).await {
            receipt.unwrap();
        }
    }
}

async fn export(world: &World, query: &str) -> Response {
    let answer = world.request("GET", &format!("/export?{query}"), STATIC).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer
}

async fn text(world: &World, query: &str) -> String {
    export(world, query).await.text().await.unwrap()
}

async fn seqs(world: &World, query: &str) -> Vec<u64> {
    let seq = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    text(world, query).await.lines().map(seq).collect()
}

#[tokio::test]
async fn lines_are_the_records_as_they_are() {
    let world = World::new().await;
    for n in 1..=3 {
        world.bus().publish("t", json!({"n": n})).key("k").header("x-a", "1").await.unwrap();
    }
    let answer = export(&world, "topic=t").await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    assert!(answer.headers().get("content-encoding").is_none());
    let events = world.bus().scan("t", Position::Earliest, None).await.unwrap();
    let expected: String =
        events.iter().map(|event| format!("{}\n", std::str::from_utf8(event.json()).unwrap())).collect();
    assert_eq!(answer.text().await.unwrap(), expected);
    assert_eq!(text(&world, "topic=t&ndjson=1").await, expected);
}

#[tokio::test]
async fn an_array_is_one_json_value_however_many_events_there_are() {
    let world = World::new().await;
    world.group("none", "g").await;
    world.fill("one", 1).await;
    fill(&world, "many", 2500, 10).await;
    for (topic, count) in [("none", 0), ("one", 1), ("many", 2500)] {
        let answer = export(&world, &format!("topic={topic}&ndjson=0")).await;
        assert_eq!(answer.headers()["content-type"], "application/json");
        let events: Vec<Value> = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(events.len(), count, "{topic}");
        assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at + 1));
    }
    assert_eq!(text(&world, "topic=none").await, "");
}

#[tokio::test]
async fn a_part_is_given_by_seq_and_by_commit_time() {
    let world = World::new().await;
    let mut times = Vec::new();
    for n in 1..=5 {
        // A publisher's time counts for nothing.
        world.bus().publish("t", json!(n)).ts(n).await.unwrap();
        let event = &world.bus().scan("t", Position::AfterSeq(n - 1), Some(1)).await.unwrap()[0];
        times.push(event.committed());
        world.clock.jump(1000);
    }
    for (query, expected) in [
        ("afterSeq=0".to_owned(), 1..=5),
        ("afterSeq=3".to_owned(), 4..=5),
        (format!("fromTs={}", times[2]), 3..=5),
        (format!("fromTs={}", times[2] + 1), 4..=5),
        (format!("toTs={}", times[2]), 1..=2),
        (format!("toTs={}", times[2] + 1), 1..=3),
        (format!("fromTs={}&toTs={}", times[1], times[3]), 2..=3),
        (format!("fromTs={}&afterSeq=3", times[1]), 4..=5),
        (format!("fromTs={}&afterSeq=1", times[3]), 4..=5),
    ] {
        assert_eq!(seqs(&world, &format!("topic=t&{query}")).await, expected.collect::<Vec<_>>(), "{query}");
    }
    for nothing in ["afterSeq=5", "fromTs=99999999999999", "toTs=0", "fromTs=5&toTs=5"] {
        assert!(seqs(&world, &format!("topic=t&{nothing}")).await.is_empty(), "{nothing}");
    }
}

#[tokio::test]
async fn twenty_thousand_events_come_whole_and_block_by_block() {
    let world = World::new().await;
    fill(&world, "t", 20_000, 300).await;
    let mut answer = export(&world, "topic=t").await;
    let (mut whole, mut largest) = (Vec::new(), 0);
    while let Some(chunk) = answer.chunk().await.unwrap() {
        largest = largest.max(chunk.len());
        whole.extend_from_slice(&chunk);
    }
    assert!(largest <= 512 << 10, "a block and one event: {largest}");
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 20_000);
    assert_eq!(serde_json::from_slice::<Value>(lines[19_999]).unwrap()["payload"]["n"], 19_999);
}

#[tokio::test]
async fn the_store_is_read_as_fast_as_the_client_takes_and_no_faster() {
    let world = World::new().await;
    fill(&world, "t", 20_000, 2000).await;
    let reads = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = reads.clone();
    world.store.script(move |call| {
        count.fetch_add(usize::from(call == "read"), std::sync::atomic::Ordering::SeqCst);
        None
    });
    let mut answer = export(&world, "topic=t").await;
    answer.chunk().await.unwrap();
    // Whatever else could run has run by the time that others were served.
    for _ in 0..50 {
        world.get("/healthz").await.ok();
    }
    let so_far = reads.load(std::sync::atomic::Ordering::SeqCst);
    while answer.chunk().await.unwrap().is_some() {}
    let all = reads.load(std::sync::atomic::Ordering::SeqCst);
    assert!(all > 100 && so_far < all / 2, "{so_far} of {all} blocks for a client that took one");
}

#[tokio::test]
async fn an_export_ends_where_the_topic_ended_when_it_began() {
    let world = World::new().await;
    fill(&world, "t", 20_000, 1000).await;
    let mut answer = export(&world, "topic=t").await;
    let mut whole = answer.chunk().await.unwrap().unwrap().to_vec();
    fill(&world, "t", 1000, 10).await;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        whole.extend_from_slice(&chunk);
    }
    assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 20_000);
}

#[tokio::test]
async fn it_is_compressed_if_the_client_asks_and_what_is_short_is_not() {
    let world = World::new().await;
    fill(&world, "t", 5000, 300).await;
    let ask = |path: &'static str, accepts: &'static str| {
        world.request("GET", path, STATIC).header("accept-encoding", accepts).send()
    };
    let answer = ask("/export?topic=t", "gzip").await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert_eq!(answer.headers()["vary"], "accept-encoding");
    let packed = answer.bytes().await.unwrap();
    let mut whole = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut whole).unwrap();
    assert_eq!(whole, text(&world, "topic=t").await);
    assert!(packed.len() * 3 < whole.len() * 2);
    for (path, accepts) in [
        ("/export?topic=t", "gzip;q=0"),
        ("/export?topic=t", "br"),
        ("/topics", "gzip"),
        ("/metrics", "gzip"),
    ] {
        let answer = ask(path, accepts).await.unwrap();
        assert!(answer.headers().get("content-encoding").is_none(), "{path} {accepts}");
    }
}

/// What ends an export before its time.
async fn cut_off(accepts: &str, end: impl FnOnce(&World)) {
    let world = World::new().await;
    fill(&world, "t", 20_000, 2000).await;
    let token = world.token(&["subscribe:t"]);
    let request = world.request("GET", "/export?topic=t", &token).header("accept-encoding", accepts);
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.chunk().await.unwrap().unwrap();
    end(&world);
    until_cut_off(&mut answer).await;
}

/// Reads on until the client notices that something is missing.
async fn until_cut_off(answer: &mut Response) {
    let error = loop {
        match answer.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it looks complete"),
            Err(error) => break error,
        }
    };
    assert!(error.is_decode() || error.is_body(), "{error:?}");
}

#[tokio::test]
async fn a_token_that_runs_out_cuts_the_transfer_off() {
    cut_off("identity", |world| world.clock.jump(3600 * 1000)).await;
}

#[tokio::test]
async fn a_hub_that_drains_cuts_the_transfer_off() {
    cut_off("identity", |world| world.hub.draining().cancel()).await;
}

#[tokio::test]
async fn behind_the_hub_s_own_accepting_a_drain_cuts_the_transfer_off_and_leaves_nobody() {
    let world = World::new().await;
    fill(&world, "t", 20_000, 2000).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/export?topic=t", listener.local_addr().unwrap());
    let serving = tokio::spawn(hub_server::net::serve(listener, world.hub.ops(), None, world.hub.clone()));
    let mut answer = world.http.get(url).bearer_auth(STATIC).send().await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    let hub = world.hub.clone();
    let drained = tokio::spawn(async move { hub.drain(std::time::Duration::from_secs(20)).await });
    until_cut_off(&mut answer).await;
    assert_eq!(drained.await.unwrap(), 0);
    serving.await.unwrap();
}

#[tokio::test]
async fn gzip_does_not_hide_that_a_transfer_was_cut_off() {
    cut_off("gzip", |world| world.hub.draining().cancel()).await;
}

#[tokio::test]
async fn a_store_that_fails_cuts_the_transfer_off() {
    cut_off("identity", |world| world.store.script(|call| (call == "read").then_some(Fault::Refuse))).await;
}

#[tokio::test]
async fn a_right_that_is_lost_cuts_the_transfer_off() {
    cut_off("identity", |world| {
        let deny = json!({"policy": {"rules": [{"effect": "deny", "action": "subscribe", "topics": ["t"]}]}});
        let policy = Policy::from_claims(deny.as_object().unwrap()).unwrap();
        world.hub.apply(Settings { policy, ..Settings::default() });
    })
    .await;
}

#[tokio::test]
async fn settings_that_change_nothing_about_it_do_not_disturb_an_export() {
    let world = World::new().await;
    fill(&world, "t", 20_000, 2000).await;
    let mut answer = export(&world, "topic=t").await;
    answer.chunk().await.unwrap().unwrap();
    world.hub.apply(Settings::default());
    while answer.chunk().await.unwrap().is_some() {}
}
