//! `GET /replay`: pages of a log.

use super::world::{STATIC, World};
use flate2::read::GzDecoder;
use hub_core::testkit::Fault;
use hub_core::{Event, NewEvent, Payload, Position};
use hub_server::Settings;
use hub_server::limits::{Limits, SubjectQuota};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Publishes events with these payloads and headers.
async fn publish(world: &World, topic: &str, events: Vec<(Value, Option<(&str, String)>)>) {
    let event = |(payload, header): (Value, Option<(&str, String)>)| {
        let mut event = NewEvent::new(topic.parse().unwrap(), Payload::of(&payload).unwrap());
        event.options.headers.extend(header.map(|(name, value)| (name.to_owned(), value)));
        event
    };
    let mut events = events.into_iter().map(event);
    loop {
        let batch: Vec<_> = events.by_ref().take(1000).collect();
        if batch.is_empty() {
            return;
        }
        world.bus().publish_batch(batch).await.into_iter().for_each(|receipt| assert!(receipt.is_ok()));
    }
}

async fn scan(world: &World, topic: &str) -> Vec<Arc<Event>> {
    world.bus().scan(topic, Position::Earliest, Some(10_000)).await.unwrap()
}

fn seqs(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().unwrap();
    assert_eq!(page["count"], events.len());
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

/// The seqs of all pages from a query on, and how many pages there were.
async fn pages(world: &World, query: &str) -> (Vec<u64>, usize) {
    let (mut all, mut pages, mut from) = (Vec::new(), 0, String::new());
    loop {
        let page = world.get(&format!("/replay?{query}{from}")).await.ok();
        all.extend(seqs(&page));
        pages += 1;
        match page.get("next") {
            Some(next) => from = format!("&afterSeq={}", next.as_u64().unwrap()),
            None => return (all, pages),
        }
    }
}

#[tokio::test]
async fn a_page_has_the_records_as_they_are() {
    let world = World::new().await;
    for n in 1..=3 {
        // Numbers and spaces that no reader would write again in this way.
        let payload = Payload::from_json(format!("{{\"n\" : {n}.00, \"k\":1e2}}")).unwrap();
        let event = NewEvent::new("t".parse().unwrap(), payload).with_key("k");
        world.bus().send(event).await.unwrap();
    }
    let answer = world.request("GET", "/replay?topic=t&limit=2", STATIC).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let events = scan(&world, "t").await;
    let text = |event: &Event| String::from_utf8(event.json().to_vec()).unwrap();
    let expected = format!(
        "{{\"topic\":\"t\",\"events\":[{},\n{}],\"count\":2,\"next\":2}}\n",
        text(&events[0]),
        text(&events[1])
    );
    assert_eq!(answer.text().await.unwrap(), expected);
    assert!(expected.contains("1.00"));
}

#[tokio::test]
async fn pages_end_where_the_topic_does_and_a_page_that_ends_with_it_says_so() {
    let world = World::new().await;
    world.group("none", "g").await;
    assert_eq!(
        world.get("/replay?topic=none").await.ok(),
        json!({"topic": "none", "events": [], "count": 0})
    );
    world.fill("t", 5).await;
    assert_eq!(pages(&world, "topic=t&limit=2").await, (vec![1, 2, 3, 4, 5], 3));
    assert_eq!(pages(&world, "topic=t&limit=5").await, (vec![1, 2, 3, 4, 5], 1));
    assert_eq!(pages(&world, "topic=t").await, (vec![1, 2, 3, 4, 5], 1));
    assert_eq!(pages(&world, "topic=t&limit=1").await, (vec![1, 2, 3, 4, 5], 5));
    assert_eq!(pages(&world, "topic=t&afterSeq=5").await, (vec![], 1));
}

#[tokio::test]
async fn a_replay_begins_and_ends_where_it_is_asked_to() {
    let world = World::new().await;
    for n in 1..=5 {
        // A publisher's time counts for nothing.
        world.bus().publish("t", json!(n)).ts(n).await.unwrap();
        world.clock.jump(1000);
    }
    let events = scan(&world, "t").await;
    let (time, id) = (|n: usize| events[n - 1].committed(), events[2].id());
    for (query, expected) in [
        (String::new(), 1..=5),
        ("from=earliest".into(), 1..=5),
        ("afterSeq=3".into(), 4..=5),
        ("from=afterSeq&afterSeq=3".into(), 4..=5),
        (format!("afterId={id}"), 4..=5),
        (format!("from=afterId&afterId={id}"), 4..=5),
        (format!("from=ts&ts={}", time(2)), 2..=5),
        (format!("ts={}&toTs={}", time(2), time(4)), 2..=3),
        (format!("toTs={}", time(3)), 1..=2),
        (format!("afterSeq=1&toTs={}", time(3) + 1), 2..=3),
    ] {
        let (found, _) = pages(&world, &format!("topic=t&{query}")).await;
        assert_eq!(found, expected.collect::<Vec<_>>(), "{query}");
    }
}

#[tokio::test]
async fn what_was_cleaned_away_is_passed_over_and_pages_go_on() {
    let compacted = hub_core::TopicSettings { compaction: true, ..Default::default() };
    let config = hub_core::Config::default().topic("t", compacted).unwrap();
    let world = World::configured(Settings::default(), config).await;
    for n in 1..=20 {
        world.bus().publish("t", json!(n)).key(if n % 5 == 0 { "kept" } else { "k" }).await.unwrap();
    }
    world.bus().clean("t").await.unwrap();
    let kept: Vec<u64> = scan(&world, "t").await.iter().map(|event| event.seq()).collect();
    assert!(kept.len() < 20);
    assert_eq!(pages(&world, "topic=t&limit=1").await.0, kept);
    assert_eq!(pages(&world, "topic=t&afterSeq=3").await.0, kept);
}

#[tokio::test]
async fn a_page_ends_by_its_bytes_and_says_where_to_go_on() {
    let world = World::new().await;
    let large = json!("x".repeat(1_000_000));
    publish(&world, "t", (0..30).map(|_| (large.clone(), None)).collect()).await;
    let first = world.get("/replay?topic=t&limit=10000").await.ok();
    let count = first["count"].as_u64().unwrap();
    assert!((8..=10).contains(&count), "about 8 MiB: {count}");
    assert_eq!(first["next"], count);
    let (all, pages) = pages(&world, "topic=t&limit=10000").await;
    assert_eq!((all, pages > 2), ((1..=30).collect(), true));
}

#[tokio::test]
async fn the_store_is_read_as_fast_as_the_client_takes_and_no_faster() {
    let world = World::new().await;
    let large = json!("x".repeat(100_000));
    publish(&world, "t", (0..80).map(|_| (large.clone(), None)).collect()).await;
    let reads = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = reads.clone();
    world.store.script(move |call| {
        count.fetch_add(usize::from(call == "read"), std::sync::atomic::Ordering::SeqCst);
        None
    });
    let so_far = || reads.load(std::sync::atomic::Ordering::SeqCst);
    let mut answer = world.request("GET", "/replay?topic=t", STATIC).send().await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    for _ in 0..50 {
        world.get("/healthz").await.ok();
    }
    let early = so_far();
    while answer.chunk().await.unwrap().is_some() {}
    assert!(so_far() > 20 && early < so_far(), "{early} of {} blocks for a client that took one", so_far());
}

#[tokio::test]
async fn a_correlation_id_is_found_in_either_header() {
    let world = World::new().await;
    let header = |n: u64| match n % 10 {
        3 => Some(("correlationId", "c-1".to_owned())),
        7 => Some(("x-correlation-id", "c-1".to_owned())),
        5 => Some(("x-correlation-id", "c-2".to_owned())),
        6 => Some(("x-other", "c-1".to_owned())),
        _ => None,
    };
    publish(&world, "t", (1..=3000).map(|n| (json!("c-1"), header(n))).collect()).await;
    let expected: Vec<u64> = (1..=3000).filter(|n| [3, 7].contains(&(n % 10))).collect();
    assert_eq!(pages(&world, "topic=t&correlationId=c-1").await.0, expected);
    let (found, count) = pages(&world, "topic=t&correlationId=c-1&limit=100").await;
    assert_eq!(
        (found, count > 6),
        (expected.clone(), true),
        "the last page cannot know that nothing follows"
    );
    let page = world.get("/replay?topic=t&correlationId=c-1&limit=2").await.ok();
    assert_eq!((seqs(&page), &page["next"]), (vec![3, 7], &json!(7)));
    assert_eq!(pages(&world, "topic=t&correlationId=c-1&afterSeq=2990").await.0, [2993, 2997]);
    assert_eq!(pages(&world, "topic=t&correlationId=c-3").await.0, Vec::<u64>::new());
    // By HTTP, as a publisher sends it.
    let request = world.request("POST", "/publish/t", STATIC).header("X-Correlation-ID", "é 1").body("1");
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(pages(&world, "topic=t&correlationId=%C3%A9+1").await.0, [3001]);
}

#[tokio::test]
async fn a_trace_is_found_whatever_its_spans_are() {
    let world = World::new().await;
    let of = |trace: &str, span: u64, flags: &str| format!("00-{trace}-{span:016x}-{flags}");
    let (ours, other) = ("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737");
    let headers = [
        Some(("traceparent", of(ours, 1, "01"))),
        Some(("traceparent", of(other, 1, "01"))),
        Some(("Traceparent", of(ours, 2, "00"))),
        Some(("ce-traceparent", of(ours, 3, "01"))),
        Some(("x-correlation-id", of(ours, 4, "01"))),
        Some(("traceparent", format!("{ours} is no traceparent"))),
        None,
    ];
    publish(&world, "t", headers.into_iter().map(|header| (json!(1), header)).collect()).await;
    assert_eq!(pages(&world, &format!("topic=t&traceId={ours}")).await.0, [1, 3, 4]);
    assert_eq!(pages(&world, &format!("topic=t&traceId={other}&limit=1")).await.0, [2]);
    let nobody = format!("topic=t&traceId={ours}&correlationId=c");
    assert_eq!(pages(&world, &nobody).await.0, Vec::<u64>::new(), "an event has to have both");
}

#[tokio::test]
async fn a_search_looks_at_a_bounded_number_of_events_and_says_where_to_go_on() {
    let world = World::new().await;
    let last = ("correlationId", "c".to_owned());
    publish(&world, "t", (1..=60_000).map(|n| (json!(n), (n == 60_000).then(|| last.clone()))).collect())
        .await;
    let page = world.get("/replay?topic=t&correlationId=c").await.ok();
    assert_eq!(seqs(&page), Vec::<u64>::new());
    let next = page["next"].as_u64().unwrap();
    assert!(next <= 50_000, "{next}");
    let (found, pages) = pages(&world, "topic=t&correlationId=c").await;
    assert_eq!((found, pages >= 2), (vec![60_000], true));
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name() {
    let world = World::new().await;
    world.fill("t", 1).await;
    assert_eq!(world.get("/replay?topic=u").await.refusal(), (404, "not_found"));
    for (query, says) in [
        ("", "parameter topic is missing"),
        ("topic=t&from=latest", "from is \"latest\"; it must be one of earliest, ts, afterId, afterSeq"),
        ("topic=t&afterSeq=2", "seq 2 is beyond the end of topic t; allowed is 0 to 1"),
        ("topic=t&limit=0", "limit is 0; it must be a number from 1 to 10000"),
        ("topic=t&limit=10001", "limit is 10001"),
        ("topic=t&correlationId=", "parameter correlationId is empty"),
        ("topic=t&traceId=4BF92F3577B34DA6A3CE929D0E0E4736", "32 hexadecimal digits in lower case"),
        ("topic=t&traceId=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "traceId is \"00-4bf92f"),
        ("topic=t&ticket=x", "unknown parameter \"ticket\""),
        ("topic=t&token=x", "unknown parameter \"token\""),
    ] {
        let got = world.get(&format!("/replay?{query}")).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{}", got.json);
    }
    let unknown = "/replay?topic=t&afterId=018bcfe5-6800-7000-8000-000000000001";
    assert_eq!(world.get(unknown).await.refusal(), (400, "unknown_id"));
    let long = format!("/replay?topic=t&correlationId={}", "c".repeat(16 << 10));
    assert_eq!(world.get(&long).await.refusal(), (400, "bad_request"));
    world.store.script(|call| (call == "read").then_some(Fault::Refuse));
    assert_eq!(world.get("/replay?topic=t").await.refusal(), (503, "unavailable"));
}

#[tokio::test]
async fn a_drain_in_the_middle_cuts_the_page_off() {
    let world = World::new().await;
    let large = json!("x".repeat(100_000));
    publish(&world, "t", (0..80).map(|_| (large.clone(), None)).collect()).await;
    let mut answer = world.request("GET", "/replay?topic=t", STATIC).send().await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    world.hub.draining().cancel();
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
async fn bytes_that_are_sent_are_charged_and_the_next_block_waits() {
    let quota = SubjectQuota { bytes_out: Some(500_000), ..SubjectQuota::default() };
    let limits = Limits { subject_quotas: vec![quota], ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    let large = json!("x".repeat(100_000));
    publish(&world, "t", (0..10).map(|_| (large.clone(), None)).collect()).await;
    let began = Instant::now();
    let page = world.ask("GET", "/replay?topic=t", &world.token(&["subscribe:t"]), "").await.ok();
    assert_eq!(page["count"], 10);
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_a_search_reads_is_charged_also_if_it_finds_nothing() {
    let limits = Limits { subject_rate: Some(10), ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    let large = json!("x".repeat(10_000));
    publish(&world, "t", (0..100).map(|_| (large.clone(), None)).collect()).await;
    let token = world.token(&["subscribe:t"]);
    assert_eq!(world.ask("GET", "/replay?topic=t&correlationId=c", &token, "").await.status, 200);
    let got = world.ask("GET", "/replay?topic=t&correlationId=c", &token, "").await;
    assert_eq!(got.refusal(), (429, "rate_limited"));
}

/// An answer without what changes from one moment to the next.
fn lasting(text: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| name != "ageMs" && name != "rates");
                fields.values_mut().for_each(strip);
            }
            Value::Array(entries) => entries.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(text).unwrap();
    strip(&mut value);
    value
}

#[tokio::test]
async fn pages_and_lists_are_compressed_if_the_client_asks_with_a_token() {
    let world = World::new().await;
    for n in 0..60 {
        world.bus().publish(&format!("some.topic.{n}"), json!(n)).key("k").await.unwrap();
        world.bus().publish("t", json!({"text": "as before", "n": n})).key(format!("k{n}")).await.unwrap();
        world.group("t", &format!("group-{n}")).await;
    }
    for path in ["/replay?topic=t", "/latest-by-key?topic=t", "/topics", "/groups?topic=t"] {
        let ask =
            |accepts: &'static str| world.request("GET", path, STATIC).header("accept-encoding", accepts);
        let answer = ask("gzip").send().await.unwrap();
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{path}");
        assert_eq!(answer.headers()["vary"], "accept-encoding", "{path}");
        let packed = answer.bytes().await.unwrap();
        let mut whole = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut whole).unwrap();
        let plain = ask("identity").send().await.unwrap();
        assert!(plain.headers().get("content-encoding").is_none(), "{path}");
        assert_eq!(lasting(&whole), lasting(&plain.text().await.unwrap()), "{path}");
        assert!(packed.len() * 2 < whole.len(), "{path}");
        // A refusal repeats what was asked for, and is not compressed.
        let refused = world.request("GET", &format!("{path}&x=1&limit=0"), STATIC);
        let refused = refused.header("accept-encoding", "gzip").send().await.unwrap();
        assert!(refused.headers().get("content-encoding").is_none() && refused.status().is_client_error());
    }
}
