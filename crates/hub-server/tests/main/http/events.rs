//! `GET /events`: server-sent events.

use super::sse::Reader;
use super::world::{STATIC, World, read};
use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use hub_core::testkit::Fault;
use hub_core::{Config, Position};
use hub_server::Settings;
use hub_server::acl::Policy;
use hub_server::auth::Revoked;
use hub_server::limits::{Limits, SubjectQuota};
use serde_json::json;
use std::time::{Duration, Instant};
use tower::ServiceExt;

#[tokio::test]
async fn a_reader_gets_what_is_published_from_then_on_as_it_is() {
    let world = World::new().await;
    world.fill("t", 2).await;
    let mut reader = Reader::open(&world, "/events?topic=t", STATIC).await;
    world.bus().publish("t", json!({"text": "one\ntwo\r"})).key("k").header("x-a", "1").await.unwrap();
    let frame = reader.next().await;
    assert_eq!((frame.id, &frame.event), (Some(3), &None));
    let event = &world.bus().scan("t", Position::AfterSeq(2), None).await.unwrap()[0];
    assert_eq!(frame.data, serde_json::from_slice::<serde_json::Value>(event.json()).unwrap());
    assert_eq!(frame.data["payload"]["text"], "one\ntwo\r");
}

#[tokio::test]
async fn a_stream_begins_where_it_is_asked_to() {
    let world = World::new().await;
    let mut times = Vec::new();
    for n in 1..=5 {
        world.fill("t", 1).await;
        times.push(world.bus().scan("t", Position::AfterSeq(n - 1), Some(1)).await.unwrap()[0].clone());
        world.clock.jump(1000);
    }
    for (query, first) in [
        ("from=earliest".to_owned(), 1),
        ("afterSeq=3".to_owned(), 4),
        ("from=afterSeq&afterSeq=0".to_owned(), 1),
        (format!("ts={}", times[2].committed()), 3),
        (format!("from=afterId&afterId={}", times[3].id()), 5),
        ("lastEventId=2".to_owned(), 3),
        // What the client has seen is newer than what is in its URL.
        ("from=earliest&lastEventId=2".to_owned(), 3),
    ] {
        let mut reader = Reader::open(&world, &format!("/events?topic=t&{query}"), STATIC).await;
        let expected: Vec<u64> = (first..=5).collect();
        assert_eq!(reader.seqs(expected.len()).await, expected, "{query}");
    }
    let request = world.request("GET", "/events?topic=t&from=earliest&lastEventId=2", STATIC);
    let mut reader = Reader::of(request.header("last-event-id", "4").send().await.unwrap()).await;
    assert_eq!(reader.seqs(1).await, [5]);
    let mut latest = Reader::open(&world, "/events?topic=t&from=latest", STATIC).await;
    world.fill("t", 1).await;
    assert_eq!(latest.seqs(1).await, [6]);
}

#[tokio::test]
async fn a_reader_whose_connections_break_again_and_again_gets_every_event_once() {
    const EVENTS: u64 = 3_000;
    let world = World::new().await;
    world.group("t", "g").await;
    let bus = world.bus().clone();
    let publishing = tokio::spawn(async move {
        for n in 1..=EVENTS {
            bus.publish("t", json!(n)).await.unwrap();
        }
    });
    let (mut seen, mut connections) = (Vec::<u64>::new(), 0);
    while seen.len() < EVENTS as usize {
        let last = seen.last().copied().unwrap_or(0);
        let request = world.request("GET", "/events?topic=t&from=earliest", STATIC);
        let request = if last > 0 { request.header("last-event-id", last) } else { request };
        let mut reader = Reader::of(request.send().await.unwrap()).await;
        connections += 1;
        let count = (EVENTS as usize - seen.len()).min(1 + connections * 7 % 300);
        seen.extend(reader.seqs(count).await);
    }
    publishing.await.unwrap();
    assert!(connections > 10, "{connections}");
    assert!(seen.iter().copied().eq(1..=EVENTS), "each once and in order");
}

#[tokio::test]
async fn a_key_or_a_tag_picks_events_and_the_others_are_passed_over() {
    let world = World::new().await;
    world.group("t", "g").await;
    let mut by_key = Reader::open(&world, "/events?topic=t&key=k", STATIC).await;
    let mut by_tag = Reader::open(&world, "/events?topic=t&tag=red", STATIC).await;
    world.bus().publish("t", json!(1)).await.unwrap();
    world.bus().publish("t", json!(2)).key("k").await.unwrap();
    world.bus().publish("t", json!(3)).key("l").tag("red").await.unwrap();
    world.bus().publish("t", json!(4)).key("k").tag("red").await.unwrap();
    assert_eq!(by_key.seqs(2).await, [2, 4]);
    assert_eq!(by_tag.seqs(2).await, [3, 4]);
}

#[tokio::test]
async fn what_is_wrong_has_a_status_before_the_stream_begins() {
    let world = World::new().await;
    world.fill("t", 1).await;
    assert_eq!(world.get("/events?topic=u").await.refusal(), (404, "not_found"));
    assert_eq!(world.get("/events?topic=dlq.t").await.refusal(), (404, "not_found"));
    for (path, says) in [
        ("/events", "parameter topic is missing"),
        ("/events?topic=t&token=x", "unknown parameter \"token\""),
        ("/events?topic=t&from=sometime", "it must be one of earliest, latest, ts, afterId, afterSeq"),
        ("/events?topic=t&lastEventId=x", "lastEventId is \"x\""),
        ("/events?topic=t&lastEventId=2", "seq 2 is beyond the end of topic t"),
        ("/events?topic=*", "topic name \"*\""),
    ] {
        let got = world.get(path).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{path}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{}", got.json);
    }
    let long = format!("/events?topic=t&key={}", "k".repeat(513));
    assert_eq!(world.get(&long).await.refusal(), (400, "bad_request"));
    let unknown = "/events?topic=t&afterId=018bcfe5-6800-7000-8000-000000000001";
    assert_eq!(world.get(unknown).await.refusal(), (400, "unknown_id"));
    let request = world.request("GET", "/events?topic=t", STATIC).header("last-event-id", "x");
    let got = read(request.send().await.unwrap()).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
}

/// What ends a stream, and the code that it ends with.
async fn ends(code: &str, end: impl AsyncFnOnce(&World)) {
    let world = World::new().await;
    world.fill("t", 1).await;
    let token = world.token(&["subscribe:t"]);
    let mut reader = Reader::open(&world, "/events?topic=t&from=earliest", &token).await;
    assert_eq!(reader.seqs(1).await, [1]);
    end(&world).await;
    assert_eq!(reader.end().await, code);
}

#[tokio::test]
async fn a_token_that_expires_ends_the_stream() {
    // The clock is set, so the hub notices with the next event.
    ends("token_expired", async |world| {
        world.clock.jump(3600 * 1000);
        world.fill("t", 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_token_that_expires_ends_a_stream_without_events_in_time() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let token = world.token(&["subscribe:t"]);
    world.clock.jump(3600 * 1000 - 1500);
    let reader = Reader::open(&world, "/events?topic=t", &token).await;
    assert_eq!(reader.end().await, "token_expired");
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_the_stream_at_once() {
    ends("token_revoked", async |world| {
        world.hub.revoke(Revoked::Subject("ada".into())).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_right_that_is_lost_ends_the_stream_at_once() {
    ends("forbidden", async |world| {
        let deny = json!({"policy": {"rules": [{"effect": "deny", "action": "subscribe", "topics": ["t"]}]}});
        let policy = Policy::from_claims(deny.as_object().unwrap()).unwrap();
        world.hub.apply(Settings { policy, ..Settings::default() });
    })
    .await;
}

#[tokio::test]
async fn a_hub_that_drains_ends_the_stream_with_the_reason() {
    ends("unavailable", async |world| world.hub.draining().cancel()).await;
}

#[tokio::test]
async fn a_store_that_fails_ends_the_stream_and_a_new_one_loses_nothing() {
    let world = World::configured(Settings::default(), Config { tail_bytes: 1, ..Config::default() }).await;
    world.fill("t", 1).await;
    let mut reader = Reader::open(&world, "/events?topic=t&from=earliest", STATIC).await;
    assert_eq!(reader.seqs(1).await, [1]);
    world.store.script(|call| (call == "read").then_some(Fault::Refuse));
    world.fill("t", 1).await;
    assert_eq!(reader.end().await, "unavailable");
    world.store.script(|_| None);
    let mut reader = Reader::open(&world, "/events?topic=t&lastEventId=1", STATIC).await;
    assert_eq!(reader.seqs(1).await, [2]);
}

#[tokio::test]
async fn settings_that_change_nothing_about_it_do_not_disturb_a_stream() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let mut reader = Reader::open(&world, "/events?topic=t", &world.token(&["subscribe:t"])).await;
    for _ in 0..3 {
        world.hub.apply(Settings::default());
        world.fill("t", 1).await;
    }
    assert_eq!(reader.seqs(3).await, [2, 3, 4]);
}

#[tokio::test]
async fn behind_the_hub_s_own_accepting_a_drain_leaves_nobody() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events?topic=t", listener.local_addr().unwrap());
    let serving = tokio::spawn(hub_server::net::serve(listener, world.hub.ops(), None, world.hub.clone()));
    let reader = Reader::of(world.http.get(url).bearer_auth(STATIC).send().await.unwrap()).await;
    let hub = world.hub.clone();
    let drained = tokio::spawn(async move { hub.drain(Duration::from_secs(20)).await });
    assert_eq!(reader.end().await, "unavailable");
    assert_eq!(drained.await.unwrap(), 0);
    serving.await.unwrap();
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_how_much_it_missed_and_goes_on() {
    const EVENTS: u64 = 4_000;
    let world =
        World::configured(Settings::default(), Config { tail_bytes: 1 << 20, ..Config::default() }).await;
    world.fill("t", 1).await;
    let mut reader = Reader::open(&world, "/events?topic=t&from=earliest", STATIC).await;
    assert_eq!(reader.seqs(1).await, [1]);
    let payload = json!("x".repeat(16 << 10));
    for _ in 0..EVENTS {
        world.bus().publish("t", payload.clone()).await.unwrap();
    }
    // Every event is either there or counted as missed.
    let (mut last, mut before_gap) = (1, None);
    while last < EVENTS + 1 {
        let frame = reader.next().await;
        match frame.event.as_deref() {
            Some("lagged") => {
                assert_eq!(frame.id, None, "who connects again now gets what is missing");
                before_gap = before_gap.or(Some(last));
                last += frame.data["missed"].as_u64().unwrap();
            }
            None => {
                last += 1;
                assert_eq!(frame.id, Some(last), "nothing is left out without a word");
            }
            other => panic!("{other:?}"),
        }
    }
    world.fill("t", 1).await;
    assert_eq!(reader.seqs(1).await, [EVENTS + 2]);
    let last = before_gap.expect("the reader fell behind");
    drop(reader);
    let mut again = Reader::open(&world, &format!("/events?topic=t&lastEventId={last}"), STATIC).await;
    assert_eq!(again.seqs(3).await, [last + 1, last + 2, last + 3]);
}

#[tokio::test]
async fn streams_count_as_connections_and_subscriptions_of_their_subject() {
    for quota in [
        SubjectQuota { connections: Some(2), ..SubjectQuota::default() },
        SubjectQuota { subscriptions: Some(2), ..SubjectQuota::default() },
    ] {
        let limits = Limits { subject_quotas: vec![quota], ..Limits::default() };
        let world = World::with(Settings { limits, ..Settings::default() }).await;
        world.fill("t", 1).await;
        let [ada, bob] = ["ada", "bob"].map(|subject| world.token_of(subject, &["subscribe:t"]));
        let first = Reader::open(&world, "/events?topic=t", &ada).await;
        let _second = Reader::open(&world, "/events?topic=t", &ada).await;
        let refused = world.ask("GET", "/events?topic=t", &ada, "").await;
        assert_eq!(refused.refusal(), (403, "quota_exceeded"));
        let _others = Reader::open(&world, "/events?topic=t", &bob).await;
        let used = world.ask("GET", "/quotas", &ada, "").await.ok();
        assert_eq!(used["subjects"][0]["connections"]["used"], 2, "{used}");
        drop(first);
        // The hub notices that the client is gone.
        let patience = Instant::now() + Duration::from_secs(20);
        while world.ask("GET", "/quotas", &ada, "").await.ok()["subjects"][0]["connections"]["used"] != 1 {
            assert!(Instant::now() < patience, "a stream that is gone is counted");
        }
        let _third = Reader::open(&world, "/events?topic=t", &ada).await;
    }
}

#[tokio::test]
async fn bytes_per_second_slow_a_stream_down_and_lose_nothing() {
    let quota = SubjectQuota { bytes_out: Some(40_000), ..SubjectQuota::default() };
    let limits = Limits { subject_quotas: vec![quota], ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    for _ in 0..8 {
        world.bus().publish("t", json!("x".repeat(10_000))).await.unwrap();
    }
    let began = Instant::now();
    let mut reader =
        Reader::open(&world, "/events?topic=t&from=earliest", &world.token(&["subscribe:t"])).await;
    // 64 KiB go out at once; they are more than a second's worth, and what follows waits for the rest.
    assert_eq!(reader.seqs(8).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_events_share_a_chunk() {
    let world = World::new().await;
    world.fill("t", 2_000).await;
    let request = world.request("GET", "/events?topic=t&from=earliest", STATIC);
    let mut answer = request.send().await.unwrap();
    let (mut chunks, mut frames) = (0, 0);
    while frames < 2_001 {
        let chunk = answer.chunk().await.unwrap().unwrap();
        chunks += 1;
        frames += chunk.windows(2).filter(|pair| pair == b"\n\n").count();
    }
    assert!(chunks < 100, "{chunks} chunks for 2,000 events");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_events_sends_a_comment_every_fifteen_seconds() {
    let world = World::new().await;
    world.fill("t", 1).await;
    // Without a socket: time does not wait for those.
    let request =
        Request::get("/events?topic=t&from=earliest").header("authorization", format!("Bearer {STATIC}"));
    let answer = world.hub.ops().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut chunks = answer.into_body().into_data_stream();
    let mut next = async || String::from_utf8(chunks.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(next().await.starts_with("retry: "));
    assert!(next().await.starts_with("id: 1\ndata: {"));
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        assert_eq!(next().await, ":\n\n");
        let after = before.elapsed().as_secs_f64();
        assert!((14.9..15.2).contains(&after), "{after}");
    }
}
