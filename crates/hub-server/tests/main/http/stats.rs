//! Rates in lists, `/stats`, `/groups/detail`, filters of lists, dry runs of seeks, and lag after a burst.

use super::world::World;
use hub_core::{NewEvent, Payload, Position};
use serde_json::{Value, json};
use std::time::Duration;

async fn until(what: &str, mut look: impl AsyncFnMut() -> Option<Value>) -> Value {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap_or_else(|_| panic!("{what}"))
}

/// A hub that has taken its first sample: from now on everything counts.
async fn sampled() -> World {
    let world = World::new().await;
    world.bus().sample_rates();
    world
}

#[tokio::test]
async fn topics_and_groups_have_rates() {
    let world = sampled().await;
    let mut group = world.bus().subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    world.fill("t", 30).await;
    for _ in 0..30 {
        group.recv().await.unwrap().ack().unwrap();
    }
    let topic = until("the topic has a rate", async || {
        let topic = world.get("/topics").await.ok()["topics"][0].clone();
        (topic["rates"]["minute"]["published"] == 0.5).then_some(topic)
    })
    .await;
    assert!(topic["rates"]["minute"]["bytes"].as_f64().unwrap() > 30.0, "{topic}");
    let group = until("the group has a rate", async || {
        let group = world.get("/groups").await.ok()["groups"][0].clone();
        (group["rates"]["minute"]["acked"] == 0.5).then_some(group)
    })
    .await;
    let minute = &group["rates"]["minute"];
    assert_eq!((&minute["delivered"], &minute["nacked"]), (&json!(0.5), &json!(0.0)), "{group}");
    assert!(minute["latencyMs"]["p99"].is_number() && minute["handlerMs"]["p50"].is_number(), "{group}");
    assert!(group["rates"]["second"]["delivered"].is_number());
}

#[tokio::test]
async fn stats_are_samples_over_time() {
    let world = sampled().await;
    world.fill("a", 10).await;
    world.fill("b", 20).await;
    for (range, step) in [("1m", 1000), ("15m", 15_000), ("24h", 600_000)] {
        let stats = until("there is a sample", async || {
            let stats = world.get(&format!("/stats?topic=a&range={range}")).await.ok();
            // A sample may be taken after the first events; so few are a rate of 0 over a day.
            let is_counted = stats["samples"][0]["published"].as_f64().is_some_and(|rate| rate > 0.0);
            is_counted.then_some(stats)
        })
        .await;
        assert_eq!(
            (&stats["topic"], &stats["range"], &stats["stepMs"]),
            (&json!("a"), &json!(range), &json!(step))
        );
    }
    let sum = |stats: &Value| -> f64 {
        stats["samples"].as_array().unwrap().iter().map(|sample| sample["published"].as_f64().unwrap()).sum()
    };
    let seen = until("both are counted", async || {
        let all = world.get("/stats?range=1m").await.ok();
        (sum(&all) >= 29.0 / 3.0).then_some(all)
    })
    .await;
    assert!(seen["samples"][0]["delivered"].is_number());
    let narrow = world.token(&["subscribe:a"]);
    until("a token sees what it may, and less than all", async || {
        let all = world.get("/stats?range=24h").await.ok();
        let own = world.ask("GET", "/stats?range=24h", &narrow, "").await.ok();
        (sum(&own) > 0.0 && sum(&own) < sum(&all)).then_some(own)
    })
    .await;
    assert_eq!(world.ask("GET", "/stats?topic=b", &narrow, "").await.refusal(), (403, "forbidden"));
    assert_eq!(world.ask("GET", "/stats?topic=b&group=g", &narrow, "").await.refusal(), (403, "forbidden"));
    assert_eq!(world.get("/stats?topic=nowhere").await.refusal(), (404, "not_found"));
    for query in ["range=1h", "group=g", "topic=a&x=1"] {
        assert_eq!(world.get(&format!("/stats?{query}")).await.refusal(), (400, "bad_request"), "{query}");
    }
    assert_eq!(world.get("/stats?topic=a&group=g").await.ok()["samples"], json!([]));
}

#[tokio::test]
async fn a_group_tells_since_when_it_stands_still_and_what_is_its_oldest_event() {
    let world = World::new().await;
    world.fill("t", 3).await;
    let mut sub =
        world.bus().subscribe("t").group("g").from(Position::Earliest).max_in_flight(1).open().await.unwrap();
    let first = sub.recv().await.unwrap();
    let opened = world.bus().now();
    while world.bus().now() < opened + 5 {
        tokio::task::yield_now().await;
    }
    // The second event is delivered when the first is settled, and not before.
    let before = world.bus().now();
    first.ack().unwrap();
    let held = sub.recv().await.unwrap();
    let group = world.get("/groups").await.ok()["groups"][0].clone();
    assert_eq!(
        (&group["reason"], &group["oldestUnsettled"]["seq"]),
        (&json!("window_full"), &json!(2)),
        "{group}"
    );
    assert!(group["oldestUnsettled"]["ageMs"].is_number(), "{group}");
    let since = group["since"].as_u64().unwrap();
    // It is made of two clocks, each of which counts whole milliseconds.
    assert!((before - 2..=world.bus().now() + 2).contains(&since), "{before}: {group}");
    held.nack_after(60_000, "a reason to remember").unwrap();

    let detail = world.get("/groups/detail?topic=t&group=g").await.ok();
    assert_eq!(detail["failures"].as_array().unwrap().len(), 1, "{detail}");
    let failure = &detail["failures"][0];
    assert_eq!(
        (&failure["seq"], &failure["attempt"], &failure["reason"]),
        (&json!(2), &json!(1), &json!("a reason to remember"))
    );
    let member = &detail["members"][0];
    assert_eq!((&member["paused"], &member["ackTimeoutMs"]), (&json!(false), &json!(30_000)), "{detail}");
    assert!(detail["nextDeadlineMs"].as_u64().unwrap() <= 60_000);
    assert_eq!(world.get("/groups/detail?topic=t&group=h").await.refusal(), (400, "bad_request"));
    assert_eq!(world.get("/groups/detail?topic=u&group=g").await.refusal(), (404, "not_found"));
    let other = world.token(&["subscribe:u"]);
    assert_eq!(
        world.ask("GET", "/groups/detail?topic=t&group=g", &other, "").await.refusal(),
        (403, "forbidden")
    );
}

#[tokio::test]
async fn ten_failures_are_remembered_and_subjects_are_for_administrators() {
    let world = World::new().await;
    world.fill("t", 12).await;
    let join = world.bus().subscribe("t").on_behalf_of("ada").group("g").from(Position::Earliest);
    let mut sub = join.open().await.unwrap();
    for n in 1..=12 {
        sub.recv().await.unwrap().nack_after(60_000, &format!("{n} {}", "x".repeat(300))).unwrap();
    }
    let detail = world.get("/groups/detail?topic=t&group=g").await.ok();
    let failures = detail["failures"].as_array().unwrap();
    assert_eq!((failures.len(), &failures[0]["seq"], &failures[9]["seq"]), (10, &json!(12), &json!(3)));
    assert_eq!(failures[0]["reason"].as_str().unwrap().len(), 200);
    assert_eq!(detail["members"][0]["subject"], "ada");
    let member = world.token(&["subscribe:t"]);
    let detail = world.ask("GET", "/groups/detail?topic=t&group=g", &member, "").await.ok();
    assert!(detail["members"][0].get("subject").is_none(), "{detail}");
}

#[tokio::test]
async fn lists_are_filtered_by_a_part_of_the_name_and_by_reason() {
    let world = World::new().await;
    for topic in ["orders.new", "orders.paid", "users"] {
        world.fill(topic, 1).await;
        world.group(topic, "billing").await;
        world.group(topic, "mail").await;
    }
    let names = async |path: &str| -> Vec<String> {
        let page = world.get(path).await.ok();
        let list = page["topics"].as_array().or(page["groups"].as_array()).unwrap().clone();
        let name = |entry: &Value| match entry["name"].as_str() {
            Some(name) => name.to_owned(),
            None => format!("{}/{}", entry["topic"].as_str().unwrap(), entry["group"].as_str().unwrap()),
        };
        list.iter().map(name).collect()
    };
    assert_eq!(names("/topics?q=orders").await, ["orders.new", "orders.paid"]);
    assert_eq!(names("/topics?q=.p").await, ["orders.paid"]);
    assert_eq!(names("/topics?q=**").await, Vec::<String>::new(), "no pattern");
    assert_eq!(names("/groups?q=mail").await, ["orders.new/mail", "orders.paid/mail", "users/mail"]);
    assert_eq!(names("/groups?q=users").await, ["users/billing", "users/mail"]);
    let _member = world.bus().subscribe("users").group("mail").open().await.unwrap();
    assert_eq!(names("/groups?topic=users&reason=no_members").await, ["users/billing"]);
    assert_eq!(names("/groups?q=mail&reason=no_members&limit=1").await, ["orders.new/mail"]);
    assert_eq!(
        names("/groups?q=mail&reason=no_members&limit=1&after=orders.new/mail").await,
        ["orders.paid/mail"]
    );
    assert_eq!(world.get("/groups?reason=tired").await.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn a_dry_seek_tells_where_a_group_would_go() {
    let world = World::new().await;
    world.fill("t", 5).await;
    world.group("t", "g").await;
    world.bus().set_cursor("t", "g", Position::AfterSeq(2)).await.unwrap();
    for (to, at, events) in
        [(json!("latest"), 5, 3), (json!("earliest"), 0, 2), (json!({"afterSeq": 2}), 2, 0)]
    {
        let asked = json!({"topic": "t", "group": "g", "to": to, "dryRun": true}).to_string();
        let expected =
            json!({"topic": "t", "group": "g", "dryRun": true, "from": 2, "to": at, "events": events});
        assert_eq!(world.post("/groups/seek", &asked).await.ok(), expected);
        assert_eq!(world.bus().get_cursor("t", "g").await.unwrap().unwrap().seq, 2, "it stays");
    }
    let unknown = json!({"topic": "t", "group": "h", "to": "latest", "dryRun": true}).to_string();
    assert_eq!(world.post("/groups/seek", &unknown).await.refusal(), (400, "bad_request"));
    let beyond = json!({"topic": "t", "group": "g", "to": {"afterSeq": 6}, "dryRun": true}).to_string();
    assert_eq!(world.post("/groups/seek", &beyond).await.refusal(), (400, "bad_request"));
    let reader = world.token(&["subscribe:t"]);
    let asked = json!({"topic": "t", "group": "g", "to": "latest", "dryRun": true}).to_string();
    assert_eq!(world.ask("POST", "/groups/seek", &reader, &asked).await.refusal(), (403, "forbidden"));
}

#[tokio::test]
async fn lag_is_zero_soon_after_a_burst_was_consumed() {
    const EVENTS: usize = 10_000;
    let world = World::new().await;
    let mut sub = world.bus().subscribe("t").group("g").open().await.unwrap();
    let bus = world.bus().clone();
    let publishing = tokio::spawn(async move {
        for _ in 0..EVENTS / 1000 {
            let event = |n: usize| NewEvent::new("t".parse().unwrap(), Payload::of(&n).unwrap());
            for receipt in bus.publish_batch((0..1000).map(event).collect()).await {
                receipt.unwrap();
            }
        }
    });
    for _ in 0..EVENTS {
        sub.recv().await.unwrap().ack().unwrap();
    }
    publishing.await.unwrap();
    let consumed = tokio::time::Instant::now();
    let lag = until("the lag is 0", async || {
        let lag = world.get("/lag?topic=t&group=g").await.ok();
        (lag["lag"] == 0).then_some(lag)
    })
    .await;
    println!("lag 0 after {:?}", consumed.elapsed());
    assert_eq!(
        (&lag["lagMs"], &lag["inflight"], &lag["lastCursor"]["seq"]),
        (&json!(0), &json!(0), &json!(EVENTS))
    );
}
