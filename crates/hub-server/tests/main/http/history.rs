//! `GET /history`: a log backwards.

use super::world::{STATIC, World};
use hub_core::{Config, Payload, Position, TopicSettings};
use hub_server::Settings;
use serde_json::{Value, json};

fn seqs(page: &Value) -> Vec<u64> {
    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

/// The seqs of all pages, which have this many events.
async fn all(world: &World, query: &str, limit: usize) -> Vec<u64> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let more = before.map(|seq: u64| format!("&before={seq}")).unwrap_or_default();
        let page = world.get(&format!("/history?topic=t&limit={limit}{query}{more}")).await.ok();
        let seqs = seqs(&page);
        assert!(seqs.len() <= limit && page["count"] == seqs.len(), "{page}");
        found.extend(seqs);
        before = page["next"].as_u64();
        if before.is_none() {
            return found;
        }
    }
}

async fn compacted() -> World {
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    World::configured(Settings::default(), Config::default().topic("t", settings).unwrap()).await
}

#[tokio::test]
async fn pages_go_back_from_the_newest_to_the_oldest() {
    let world = World::new().await;
    world.fill("t", 1_000).await;
    for limit in [1_000, 999, 300, 7_000] {
        assert!(all(&world, "", limit).await.into_iter().eq((1..=1_000).rev()), "pages of {limit}");
    }
    let page = world.get("/history?topic=t&before=5&limit=2").await.ok();
    assert_eq!((seqs(&page), &page["next"]), (vec![4, 3], &json!(3)));
    assert_eq!(
        (&page["first"], &page["compacted"], &page["retained"]),
        (&json!(1), &json!(false), &json!(false))
    );
    let end = world.get("/history?topic=t&before=3&limit=2").await.ok();
    assert_eq!((seqs(&end), end.get("next")), (vec![2, 1], None));
    assert_eq!(world.get("/history?topic=t&before=0").await.ok()["events"], json!([]));
}

#[tokio::test]
async fn events_up_to_a_time_are_those_that_were_committed_by_then() {
    let world = World::new().await;
    let mut times = Vec::new();
    for n in 1..=4 {
        world.fill("t", 1).await;
        times.push(world.bus().scan("t", Position::AfterSeq(n - 1), Some(1)).await.unwrap()[0].committed());
        world.clock.jump(1000);
    }
    for (to, expected) in [
        (times[0] - 1, &[][..]),
        (times[0], &[1]),
        (times[2] - 1, &[2, 1]),
        (times[2], &[3, 2, 1]),
        (u64::MAX, &[4, 3, 2, 1]),
    ] {
        assert_eq!(all(&world, &format!("&toTs={to}"), 2).await, expected, "{to}");
    }
}

#[tokio::test]
async fn the_values_of_a_key_are_found_far_back() {
    let world = World::new().await;
    for n in 0..50 {
        world.bus().publish("t", json!(n)).key(if n % 10 == 3 { "rare" } else { "often" }).await.unwrap();
    }
    world.fill("t", 2_000).await;
    assert_eq!(all(&world, "&key=rare", 2).await, [44, 34, 24, 14, 4]);
    assert_eq!(all(&world, "&key=unknown", 10).await, [0_u64; 0]);
    // A deletion is a value, too.
    world.bus().publish("t", Payload::null()).key("rare").await.unwrap();
    assert_eq!(all(&world, "&key=rare", 10).await, [2_051, 44, 34, 24, 14, 4]);
}

#[tokio::test]
async fn records_are_as_they_are_stored_and_no_number_is_rounded() {
    let world = World::new().await;
    let payload = Payload::from_json(r#"{"big":9007199254740993,"small":1.10}"#).unwrap();
    world.bus().publish("t", payload).key("k").header("x-a", "1").await.unwrap();
    let answer = world.request("GET", "/history?topic=t", STATIC).send().await.unwrap().text().await.unwrap();
    let event = &world.bus().scan("t", Position::Earliest, None).await.unwrap()[0];
    let record = std::str::from_utf8(event.json()).unwrap();
    assert!(
        record.contains(r#"{"big":9007199254740993,"small":1.10}"#) && answer.contains(record),
        "{answer}"
    );
}

#[tokio::test]
async fn what_compaction_and_retention_have_removed_is_said() {
    let world = compacted().await;
    for n in 0..6_000 {
        world.bus().publish("t", json!(n)).key(if n % 1_000 == 0 { "a" } else { "b" }).await.unwrap();
    }
    assert!(world.bus().clean("t").await.unwrap().removed > 5_000);
    let page = world.get("/history?topic=t").await.ok();
    assert_eq!((seqs(&page), &page["compacted"]), (vec![6_000, 5_001], &json!(true)));
    assert_eq!(page["retained"], false, "compaction moves the first record, too");
    let world = World::new().await;
    world.fill("t", 3).await;
    let small = TopicSettings { retention_bytes: Some(150), ..TopicSettings::default() };
    world.bus().set_topics(vec![("t".parse().unwrap(), small)]).unwrap();
    world.fill("t", 1).await;
    world.bus().clean("t").await.unwrap();
    let page = world.get("/history?topic=t").await.ok();
    assert_eq!((seqs(&page), &page["first"]), (vec![4], &json!(4)));
    assert_eq!((&page["compacted"], &page["retained"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn large_events_come_in_parts_and_none_is_left_out() {
    let world = World::new().await;
    for n in 0..12_u64 {
        // Small ones in between: no window fits all.
        world.fill("t", n * 3).await;
        world.bus().publish("t", json!("x".repeat(700 << 10))).await.unwrap();
    }
    let last = world.bus().bounds("t").await.unwrap().last;
    assert!(all(&world, "", 1_000).await.into_iter().eq((1..=last).rev()));
}

#[tokio::test]
async fn a_letter_that_is_replayed_for_one_group_is_no_value_of_its_key() {
    let world = World::new().await;
    world.bus().publish("t", json!(1)).key("k").await.unwrap();
    let join = world.bus().subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut member = join.open().await.unwrap();
    member.recv().await.unwrap().nack("no").unwrap();
    while world.bus().group("t", "g").unwrap().floor == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(world.post("/dlq/replay", r#"{"topic":"t"}"#).await.ok()["replayed"], 1);
    assert_eq!(world.bus().bounds("t").await.unwrap().last, 2);
    assert_eq!(all(&world, "", 10).await, [1]);
}

#[tokio::test]
async fn what_is_wrong_is_refused() {
    let world = World::new().await;
    world.fill("t", 1).await;
    assert_eq!(world.get("/history?topic=u").await.refusal(), (404, "not_found"));
    let stranger = world.ask("GET", "/history?topic=t", &world.token(&["publish:t"]), "").await;
    assert_eq!(stranger.refusal(), (403, "forbidden"));
    for query in ["", "?topic=t&before=x", "?topic=t&toTs=-1", "?topic=t&limit=0", "?topic=t&newest=1"] {
        assert_eq!(world.get(&format!("/history{query}")).await.refusal(), (400, "bad_request"), "{query}");
    }
    let long = format!("/history?topic=t&key={}", "k".repeat(513));
    assert_eq!(world.get(&long).await.refusal(), (400, "bad_request"));
}
