//! `GET /latest-by-key`: the newest record of a key, or of all.

use super::world::{STATIC, World};
use hub_core::{NewEvent, Payload};
use reqwest::Response;
use serde_json::{Value, json};

async fn put(world: &World, key: &str, payload: Value) -> u64 {
    world.bus().publish("t", payload).key(key).await.unwrap().seq
}

async fn ask(world: &World, query: &str, known: Option<&str>) -> Response {
    let request = world.request("GET", &format!("/latest-by-key?topic=t&{query}"), STATIC);
    let request = known.into_iter().fold(request, |request, tag| request.header("if-none-match", tag));
    request.send().await.unwrap()
}

async fn json_of(answer: Response) -> Value {
    assert_eq!(answer.status(), 200);
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// The keys of all pages, and how many pages there were.
async fn pages(world: &World, query: &str) -> (Vec<String>, usize) {
    let (mut keys, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = json_of(ask(world, &format!("{query}{after}"), None).await).await;
        let events = page["events"].as_array().unwrap();
        assert_eq!((&page["topic"], &page["count"]), (&json!("t"), &json!(events.len())));
        keys.extend(events.iter().map(|event| event["key"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(next) = page.get("next") else { return (keys, pages) };
        let escaped: String = next.as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
        after = format!("&after={escaped}");
    }
}

#[tokio::test]
async fn the_newest_record_of_a_key_is_answered_and_null_where_there_is_none() {
    let world = World::new().await;
    put(&world, "k", json!(1)).await;
    let seq = put(&world, "k", json!(2)).await;
    put(&world, "gone", json!(1)).await;
    world.bus().publish("t", Payload::null()).key("gone").await.unwrap();
    let record = json_of(ask(&world, "key=k", None).await).await;
    assert_eq!((&record["seq"], &record["payload"], &record["key"]), (&json!(seq), &json!(2), &json!("k")));
    for none in ["key=gone", "key=never"] {
        assert_eq!(json_of(ask(&world, none, None).await).await, Value::Null, "{none}");
    }
}

#[tokio::test]
async fn who_has_the_newest_record_is_told_so_and_learns_of_the_next() {
    let world = World::new().await;
    let seq = put(&world, "k", json!(1)).await;
    let answer = ask(&world, "key=k", None).await;
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(tag, format!("W/\"{seq}\""));
    assert_eq!(answer.headers()["cache-control"], "private, no-cache");
    for known in [tag.clone(), format!("\"{seq}\""), format!("\"7\", {tag}"), "*".to_owned()] {
        let answer = ask(&world, "key=k", Some(&known)).await;
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["etag"].to_str().unwrap()),
            (304, &*tag),
            "{known}"
        );
        assert_eq!(answer.headers()["cache-control"], "private, no-cache");
        assert!(answer.bytes().await.unwrap().is_empty());
    }
    let next = put(&world, "k", json!(2)).await;
    let answer = ask(&world, "key=k", Some(&tag)).await;
    assert_eq!(answer.headers()["etag"], format!("W/\"{next}\""));
    assert_eq!(json_of(answer).await["payload"], 2);
    // A key that was deleted has a tag of its own.
    world.bus().publish("t", Payload::null()).key("k").await.unwrap();
    let answer = ask(&world, "key=k", Some(&format!("W/\"{next}\""))).await;
    assert_eq!(answer.headers()["etag"], "W/\"0\"");
    assert_eq!(json_of(answer).await, Value::Null);
    assert_eq!(ask(&world, "key=k", Some("W/\"0\"")).await.status(), 304);
}

#[tokio::test]
async fn a_tag_tells_nothing_to_who_may_not_read() {
    let world = World::new().await;
    put(&world, "k", json!(1)).await;
    let token = world.token(&["publish:t"]);
    let request = world.request("GET", "/latest-by-key?topic=t&key=k", &token).header("if-none-match", "*");
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers().get("etag")), (403, None));
}

#[tokio::test]
async fn all_keys_come_in_order_and_in_pages() {
    let world = World::new().await;
    let expected = ["", "\u{1}", "a", "a b", "b&c", "ä", "日本"];
    for key in expected.iter().rev() {
        put(&world, key, json!(0)).await;
        put(&world, key, json!(1)).await;
    }
    put(&world, "gone", json!(1)).await;
    world.bus().publish("t", Payload::null()).key("gone").await.unwrap();
    world.bus().publish("t", json!("without a key")).await.unwrap();
    let keys: Vec<String> = expected.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(pages(&world, "limit=1").await, (keys.clone(), 7));
    assert_eq!(pages(&world, "limit=2").await, (keys.clone(), 4));
    assert_eq!(pages(&world, "limit=7").await, (keys.clone(), 1));
    assert_eq!(pages(&world, "").await, (keys, 1));
    assert_eq!(pages(&world, "after=b%26c").await.0, ["ä", "日本"]);
    let page = json_of(ask(&world, "limit=1&after=a", None).await).await;
    assert_eq!((&page["events"][0]["payload"], &page["next"]), (&json!(1), &json!("a b")));
}

#[tokio::test]
async fn thousands_of_large_records_come_in_pages_of_bounded_size() {
    let world = World::new().await;
    let pad = "x".repeat(20_000);
    let event = |n: usize| {
        let payload = Payload::of(&json!({"n": n, "pad": pad})).unwrap();
        NewEvent::new("t".parse().unwrap(), payload).with_key(format!("k{n:05}"))
    };
    for start in [0, 500] {
        let batch = (start..start + 500).map(event).collect();
        world.bus().publish_batch(batch).await.into_iter().for_each(|receipt| assert!(receipt.is_ok()));
    }
    let first = ask(&world, "limit=10000", None).await.bytes().await.unwrap();
    assert!((8 << 20..10 << 20).contains(&first.len()), "{}", first.len());
    let (keys, pages) = pages(&world, "limit=10000").await;
    assert!(keys.iter().enumerate().all(|(n, key)| *key == format!("k{n:05}")));
    assert_eq!((keys.len(), pages), (1000, 3));
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_name() {
    let world = World::new().await;
    world.fill("t", 1).await;
    assert_eq!(world.get("/latest-by-key?topic=u&key=k").await.refusal(), (404, "not_found"));
    let long = format!("/latest-by-key?topic=t&key={}", "k".repeat(513));
    assert_eq!(world.get(&long).await.refusal(), (400, "bad_request"));
    for (query, says) in [
        ("key=k", "parameter topic is missing"),
        ("topic=t&key=k&key=l", "parameter key is there twice"),
        ("topic=t&key=k&after=a", "leave key or them out"),
        ("topic=t&key=k&limit=1", "leave key or them out"),
        ("topic=t&limit=0", "limit is 0"),
        ("topic=t&keys=k", "unknown parameter \"keys\""),
    ] {
        let got = world.get(&format!("/latest-by-key?{query}")).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{}", got.json);
    }
}
