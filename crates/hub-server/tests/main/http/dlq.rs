//! `/dlq` and `/jobs`.

use super::world::{Got, STATIC, World};
use hub_core::testkit::Fault;
use hub_core::{LetterFilter, LetterRange, Payload, Position, Replay, Subscription};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest that a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(30);

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn join(world: &World, topic: &str, group: &str) -> Subscription {
    let join = world.bus().subscribe(topic).group(group).from(Position::Earliest).max_attempts(1);
    join.open().await.unwrap()
}

async fn letters(world: &World, topic: &str) -> usize {
    let range = LetterRange::default();
    world.bus().dead_letters(topic, &LetterFilter::default(), range, 1000).await.unwrap().letters.len()
}

/// Publishes events, and has a group give each of them up.
async fn bury(world: &World, topic: &str, group: &str, reasons: &[&str]) {
    let before = letters(world, topic).await;
    let mut sub = join(world, topic, group).await;
    for (n, reason) in reasons.iter().enumerate() {
        let payload = Payload::from_json(format!("{{\"n\":{n},\"big\":9007199254740993}}")).unwrap();
        world.bus().publish(topic, payload).key(format!("k{}", n % 2)).await.unwrap();
        sub.recv().await.unwrap().nack(reason).unwrap();
    }
    until("the letters are written", async || letters(world, topic).await == before + reasons.len()).await;
    sub.close();
}

async fn list(world: &World, query: &str) -> Vec<Value> {
    world.get(&format!("/dlq?{query}")).await.ok()["letters"].as_array().unwrap().clone()
}

async fn replay(world: &World, body: Value) -> Value {
    world.post("/dlq/replay", &body.to_string()).await.ok()
}

fn seqs(letters: &[Value]) -> Vec<u64> {
    letters.iter().map(|letter| letter["seq"].as_u64().unwrap()).collect()
}

async fn last(world: &World, topic: &str) -> u64 {
    world.bus().bounds(topic).await.unwrap().last
}

#[tokio::test]
async fn a_letter_tells_what_failed_where_and_why() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no route"]).await;
    let event = world.bus().scan("t", Position::Earliest, None).await.unwrap()[0].clone();
    let found = list(&world, "topic=t").await;
    let letter = &found[0];
    assert_eq!(
        *letter,
        json!({
            "id": letter["id"], "topic": "t", "group": "g", "seq": 1, "ts": letter["ts"], "err": "no route", "attempts": 1,
            "key": "k0", "originalId": event.id(), "originalSeq": 1, "originalTs": event.ts(), "replays": 0,
        })
    );
    assert_eq!(list(&world, "topic=dlq.t").await, found, "the dead-letter topic names it as well");
    let text =
        async |path: String| world.request("GET", &path, STATIC).send().await.unwrap().text().await.unwrap();
    let raw = r#"{"n":0,"big":9007199254740993}"#;
    let page = text("/dlq?topic=t&payload=1".into()).await;
    assert!(page.contains(&format!("\"payload\":{raw}")), "{page}");
    let shown = text(format!("/dlq/show?topic=t&id={}", letter["id"].as_str().unwrap())).await;
    let record = std::str::from_utf8(event.json()).unwrap();
    assert!(shown.contains(&format!("\"original\":{record}")), "{shown}");
    let unknown = world.get("/dlq/show?topic=t&id=018bcfe5-6800-7000-8000-000000000001").await;
    assert_eq!(unknown.refusal(), (400, "unknown_id"));
    assert_eq!(world.get("/dlq?topic=nowhere").await.refusal(), (404, "not_found"));
    assert_eq!(list(&world, "").await.len(), 1);
}

#[tokio::test]
async fn letters_come_in_pages_over_all_topics() {
    let world = World::new().await;
    for topic in ["a", "b", "c"] {
        bury(&world, topic, "g", &["one", "two", "three"]).await;
    }
    world.fill("quiet", 1).await;
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/dlq?limit=2{after}")).await.ok();
        let letters = page["letters"].as_array().unwrap();
        assert!(letters.len() <= 2);
        found.extend(
            letters.iter().map(|letter| format!("{}{}", letter["topic"].as_str().unwrap(), letter["seq"])),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(found, ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]);
    let all = world.get("/dlq?limit=9").await.ok();
    assert_eq!(all["letters"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn letters_are_filtered() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no route", "no"]).await;
    bury(&world, "t", "h", &["no route", "timeout"]).await;
    // The second group begins with the two events before its own.
    assert_eq!(letters(&world, "t").await, 4);
    for (query, expected) in [
        ("group=g", &[1, 2][..]),
        ("err=no", &[2]),
        ("q=no", &[1, 2, 3]),
        ("q=no&group=h", &[3]),
        ("key=k1", &[2, 4]),
        ("replayed=1", &[]),
        ("replayed=0", &[1, 2, 3, 4]),
        ("toTs=1", &[]),
        ("fromTs=1", &[1, 2, 3, 4]),
    ] {
        assert_eq!(seqs(&list(&world, &format!("topic=t&{query}")).await), expected, "{query}");
    }
}

#[tokio::test]
async fn letters_are_counted_by_error_and_by_group() {
    let world = World::new().await;
    bury(&world, "a", "g", &["no", "no", "why"]).await;
    bury(&world, "b", "g", &["no"]).await;
    replay(&world, json!({"topic": "a", "err": "why"})).await;
    for path in ["/dlq/summary", "/dlq?summary=1"] {
        let summary = world.get(path).await.ok();
        assert_eq!(
            (&summary["letters"], &summary["replayed"], &summary["complete"]),
            (&json!(4), &json!(1), &json!(true))
        );
        let errors: Vec<_> =
            summary["errors"].as_array().unwrap().iter().map(|e| (&e["err"], &e["count"])).collect();
        assert_eq!(errors, [(&json!("no"), &json!(3)), (&json!("why"), &json!(1))]);
        let groups = summary["groups"].as_array().unwrap();
        let groups: Vec<_> = groups.iter().map(|e| (&e["topic"], &e["group"], &e["count"])).collect();
        assert_eq!(groups, [(&json!("a"), &json!("g"), &json!(3)), (&json!("b"), &json!("g"), &json!(1))]);
    }
    assert_eq!(world.get("/dlq/summary?topic=b").await.ok()["letters"], 1);
    assert_eq!(world.get("/dlq/summary?topic=a&err=no").await.ok()["letters"], 2);
}

#[tokio::test]
async fn a_replay_goes_to_the_group_that_failed_and_doubles_nothing() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no", "why"]).await;
    let mut other = join(&world, "t", "other").await;
    for _ in 0..2 {
        other.recv().await.unwrap().ack().unwrap();
    }
    let dry = replay(&world, json!({"topic": "t", "dryRun": true})).await;
    assert_eq!(
        dry,
        json!({"topic": "t", "dryRun": true, "matched": 2, "skipped": 0, "complete": true, "upto": 2})
    );
    assert_eq!(last(&world, "t").await, 2, "a dry run does nothing");
    let done = replay(&world, json!({"topic": "t", "err": "no"})).await;
    assert_eq!(done, json!({"topic": "t", "replayed": 1, "skipped": 0, "failed": 0}));
    let done = replay(&world, json!({"topic": "t"})).await;
    assert_eq!(done, json!({"topic": "t", "replayed": 1, "skipped": 1, "failed": 0}));
    let done = replay(&world, json!({"topic": "t"})).await;
    assert_eq!(done, json!({"topic": "t", "replayed": 0, "skipped": 2, "failed": 0}));
    let mut sub = join(&world, "t", "g").await;
    for n in 0..2 {
        let delivery = sub.recv().await.unwrap();
        let expected = format!("{{\"n\":{n},\"big\":9007199254740993}}");
        assert_eq!(std::str::from_utf8(delivery.event().payload()).unwrap(), expected);
        delivery.ack().unwrap();
    }
    world.bus().publish("t", json!("end")).await.unwrap();
    assert_eq!(other.recv().await.unwrap().event().seq(), 5, "the other group gets what is new alone");
    assert_eq!(seqs(&list(&world, "topic=t&replayed=1").await), [1, 2]);
    let export = world
        .request("GET", "/export?topic=t&afterSeq=2", STATIC)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(export.contains("\"x-hub-replay-for\":\"g\""), "an export has it as it is stored: {export}");
}

#[tokio::test]
async fn a_letter_is_replayed_again_in_another_round() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"]).await;
    let id = list(&world, "topic=t").await[0]["id"].clone();
    for (round, replayed) in [(1, 1), (1, 0), (2, 1), (2, 0), (1, 0)] {
        let done = replay(&world, json!({"topic": "t", "ids": [id], "round": round})).await;
        assert_eq!(done["replayed"], replayed, "{round}");
    }
    assert_eq!(last(&world, "t").await, 3);
    assert_eq!(list(&world, "topic=t").await[0]["replays"], 2);
}

#[tokio::test]
async fn an_edited_payload_is_for_one_letter_and_keeps_its_numbers() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no", "no"]).await;
    let found = list(&world, "topic=t").await;
    let (id, other) = (found[0]["id"].as_str().unwrap(), found[1]["id"].as_str().unwrap());
    let edited = format!(r#"{{"topic":"t","ids":["{id}"],"payload":{{"big":9007199254740995,"x":1e400}}}}"#);
    assert_eq!(world.post("/dlq/replay", &edited).await.ok()["replayed"], 1);
    let event = &world.bus().scan("t", Position::AfterSeq(2), None).await.unwrap()[0];
    assert_eq!(event.payload(), br#"{"big":9007199254740995,"x":1e400}"#);
    assert_eq!(json!(event.caused_by()), json!([found[0]["originalId"]]));
    let null = format!(r#"{{"topic":"t","ids":["{other}"],"payload":null}}"#);
    assert_eq!(world.post("/dlq/replay", &null).await.ok()["replayed"], 1);
    assert_eq!(world.bus().scan("t", Position::AfterSeq(3), None).await.unwrap()[0].payload(), b"null");
    for ids in [format!(r#","ids":["{id}","{other}"]"#), String::new(), r#","group":"g""#.to_owned()] {
        let asked = format!(r#"{{"topic":"t","payload":1{ids}}}"#);
        assert_eq!(world.post("/dlq/replay", &asked).await.refusal(), (400, "bad_request"), "{asked}");
    }
}

#[tokio::test]
async fn what_fails_again_while_all_is_replayed_is_not_replayed_again() {
    let world = World::new().await;
    let reasons = vec!["no"; 30];
    bury(&world, "t", "g", &reasons).await;
    let first = replay(&world, json!({"topic": "t", "ids": [list(&world, "topic=t").await[0]["id"]]})).await;
    assert_eq!(first["replayed"], 1);
    // The cut of a first request holds for those that go on behind it.
    let after = "0-30";
    let mut sub = join(&world, "t", "g").await;
    sub.recv().await.unwrap().nack("again").unwrap();
    until("it failed again", async || letters(&world, "t").await == 31).await;
    let done = replay(&world, json!({"topic": "t", "after": after})).await;
    assert_eq!((&done["replayed"], &done["skipped"]), (&json!(29), &json!(1)));
    let again = list(&world, "topic=t&err=again").await;
    assert_eq!((&again[0]["replays"], &again[0]["seq"]), (&json!(0), &json!(31)));
    assert!(again[0]["replayOf"].is_string());
    assert_eq!(
        world.post("/dlq/replay", r#"{"topic":"t","after":"x"}"#).await.refusal(),
        (400, "bad_request")
    );
}

#[tokio::test]
async fn a_letter_whose_group_is_gone_fails_with_the_reason() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"]).await;
    world.bus().delete_group("t", "g").await.unwrap();
    let done = replay(&world, json!({"topic": "t"})).await;
    assert_eq!((&done["replayed"], &done["failed"]), (&json!(0), &json!(1)));
    let why = done["failures"][0]["error"].as_str().unwrap();
    assert!(why.contains("no group g any more"), "{why}");
}

#[tokio::test]
async fn what_is_given_up_after_a_count_is_neither_replayed_nor_discarded_with_it() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no", "no"]).await;
    let discard = async |body: Value| world.post("/dlq/delete", &body.to_string()).await.ok();
    let counted = replay(&world, json!({"topic": "t", "err": "no", "dryRun": true})).await;
    let upto = &counted["upto"];
    assert_eq!(discard(json!({"topic": "t", "err": "no", "dryRun": true})).await["upto"], *upto);
    bury(&world, "t", "g", &["no"]).await;
    let done = replay(&world, json!({"topic": "t", "err": "no", "upto": upto})).await;
    assert_eq!(done, json!({"topic": "t", "replayed": 2, "skipped": 0, "failed": 0}));
    assert_eq!(discard(json!({"topic": "t", "err": "no", "upto": upto})).await["discarded"], 2);
    let job = replay(&world, json!({"topic": "t", "rate": 10, "upto": upto})).await;
    assert_eq!(job["total"], 0);
    assert_eq!(list(&world, "topic=t").await.len(), 1);
}

#[tokio::test]
async fn discarded_letters_are_gone_from_lists_and_counts() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no", "why", "no", "no"]).await;
    let discard = async |body: Value| world.post("/dlq/delete", &body.to_string()).await;
    let dry = discard(json!({"topic": "t", "err": "no", "dryRun": true})).await.ok();
    assert_eq!(dry, json!({"topic": "t", "dryRun": true, "matched": 3, "complete": true, "upto": 4}));
    let ids: Vec<Value> = list(&world, "topic=t").await.iter().map(|letter| letter["id"].clone()).collect();
    let path = format!("/dlq?topic=t&ids={},{}", ids[0].as_str().unwrap(), ids[2].as_str().unwrap());
    assert_eq!(world.ask("DELETE", &path, STATIC, "").await.ok(), json!({"topic": "t", "discarded": 2}));
    assert_eq!(discard(json!({"topic": "t", "err": "no"})).await.ok(), json!({"topic": "t", "discarded": 1}));
    assert_eq!(seqs(&list(&world, "topic=t").await), [2]);
    assert_eq!(world.get("/dlq/summary?topic=t").await.ok()["letters"], 1);
    assert_eq!(replay(&world, json!({"topic": "t"})).await["replayed"], 1);
    let discarded = world.post("/dlq/replay", &json!({"topic": "t", "ids": [ids[0]]}).to_string()).await;
    assert_eq!(discarded.refusal(), (400, "unknown_id"));
    for body in [
        json!({"topic": "t"}),
        json!({"topic": "t", "all": true, "err": "no"}),
        json!({"topic": "t", "ids": []}),
    ] {
        assert_eq!(discard(body.clone()).await.refusal(), (400, "bad_request"), "{body}");
    }
    assert_eq!(discard(json!({"topic": "t", "all": true})).await.ok()["discarded"], 1);
    assert_eq!(list(&world, "").await.len(), 0);
}

#[tokio::test]
async fn letters_are_for_those_who_may_read_both_topics() {
    let world = World::new().await;
    bury(&world, "a", "g", &["no"]).await;
    bury(&world, "b", "g", &["no"]).await;
    let ask = async |path: &str, token: &str| world.ask("GET", path, token, "").await;
    let both = world.token(&["subscribe:a", "subscribe:dlq.a"]);
    let id = list(&world, "topic=a").await[0]["id"].as_str().unwrap().to_owned();
    for path in ["/dlq", "/dlq?topic=a"] {
        assert_eq!(ask(path, &both).await.ok()["letters"].as_array().unwrap().len(), 1, "{path}");
    }
    assert_eq!(ask("/dlq/summary", &both).await.ok()["letters"], 1);
    for scopes in
        [&["subscribe:a"][..], &["subscribe:dlq.a"], &["subscribe:b", "subscribe:dlq.b"], &["publish:**"]]
    {
        let token = world.token(scopes);
        for path in
            ["/dlq?topic=a".to_owned(), "/dlq/summary?topic=a".into(), format!("/dlq/show?topic=a&id={id}")]
        {
            assert_eq!(ask(&path, &token).await.refusal(), (403, "forbidden"), "{scopes:?} {path}");
        }
        let seen = ask("/dlq", &token).await.ok();
        assert!(seen["letters"].as_array().unwrap().iter().all(|letter| letter["topic"] == "b"), "{seen}");
    }
    let nowhere = ask("/dlq?topic=nowhere", &both).await;
    assert_eq!(nowhere.refusal(), (403, "forbidden"), "whether it is there is not told");
    for (method, path, body) in [
        ("POST", "/dlq/replay", r#"{"topic":"a"}"#),
        ("POST", "/dlq/delete", r#"{"topic":"a","all":true}"#),
        ("DELETE", &*format!("/dlq?topic=a&ids={id}"), ""),
    ] {
        assert_eq!(world.ask(method, path, &both, body).await.refusal(), (403, "forbidden"), "{path}");
    }
    let admin = world.token(&["admin:a"]);
    assert_eq!(world.ask("POST", "/dlq/replay", &admin, r#"{"topic":"a"}"#).await.ok()["replayed"], 1);
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"]).await;
    for query in [
        "topic=t&limit=0",
        "topic=t&limit=1001",
        "topic=t&after=x",
        "topic=t&group=a%20b",
        "topic=t&fromTs=-1",
        "topic=t&fromTs=5&toTs=5",
        "topic=t&payload=2",
        "topic=a%20b",
        "x=1",
    ] {
        assert_eq!(world.get(&format!("/dlq?{query}")).await.refusal(), (400, "bad_request"), "{query}");
    }
    for body in [
        r#"{}"#,
        r#"[]"#,
        r#"{"topic":"t","x":1}"#,
        r#"{"topic":"t","rate":0}"#,
        r#"{"topic":"t","rate":10001}"#,
        r#"{"topic":"t","round":0}"#,
        r#"{"topic":"t","ids":["x"]}"#,
        r#"{"topic":"t","ids":[]}"#,
        r#"{"topic":"t","rate":1,"after":"0-1"}"#,
        r#"{"topic":"t","group":""}"#,
        r#"{"topic":"t","dryRun":1}"#,
    ] {
        assert_eq!(world.post("/dlq/replay", body).await.refusal(), (400, "bad_request"), "{body}");
    }
    let unknown = r#"{"topic":"t","ids":["018bcfe5-6800-7000-8000-000000000001"]}"#;
    assert_eq!(world.post("/dlq/replay", unknown).await.refusal(), (400, "unknown_id"));
    assert_eq!(world.post("/dlq/replay", r#"{"topic":"nowhere"}"#).await.refusal(), (404, "not_found"));
    assert_eq!(world.post("/dlq/replay", "{").await.refusal(), (400, "bad_json"));
}

async fn job(world: &World, id: &Value) -> Value {
    world.get(&format!("/jobs/{}", id.as_str().unwrap())).await.ok()
}

async fn until_ended(world: &World, id: &Value) -> Value {
    until("the job ends", async || job(world, id).await["state"] != "running").await;
    job(world, id).await
}

#[tokio::test]
async fn a_replay_at_a_rate_is_a_job() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 25]).await;
    let begun = tokio::time::Instant::now();
    let started = replay(&world, json!({"topic": "t", "rate": 100})).await;
    assert_eq!((&started["total"], &started["complete"]), (&json!(25), &json!(true)));
    let ended = until_ended(&world, &started["job"]).await;
    assert_eq!(
        (&ended["state"], &ended["replayed"], &ended["failed"]),
        (&json!("done"), &json!(25), &json!(0)),
        "{ended}"
    );
    assert!(begun.elapsed() >= Duration::from_millis(190), "25 at 100 per second: the last ten wait 200 ms");
    assert_eq!(last(&world, "t").await, 50);
    assert_eq!(world.get("/jobs").await.ok()["jobs"][0], ended);
    let again = replay(&world, json!({"topic": "t", "rate": 10000})).await;
    assert_eq!(until_ended(&world, &again["job"]).await["skipped"], 25);
    assert_eq!(last(&world, "t").await, 50);
}

#[tokio::test]
async fn letters_that_are_named_by_id_are_replayed_at_the_rate_too() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 25]).await;
    let ids: Vec<Value> = list(&world, "topic=t").await.iter().map(|letter| letter["id"].clone()).collect();
    let begun = tokio::time::Instant::now();
    let started = replay(&world, json!({"topic": "t", "ids": ids, "rate": 100})).await;
    let ended = until_ended(&world, &started["job"]).await;
    assert_eq!((&ended["state"], &ended["replayed"]), (&json!("done"), &json!(25)), "{ended}");
    assert!(begun.elapsed() >= Duration::from_millis(190), "25 at 100 per second: the last ten wait 200 ms");
    assert_eq!(last(&world, "t").await, 50);
}

#[tokio::test]
async fn a_job_is_cancelled_and_can_be_begun_again() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 20]).await;
    let started = replay(&world, json!({"topic": "t", "rate": 1})).await;
    let path = format!("/jobs/{}", started["job"].as_str().unwrap());
    until("it has begun", async || job(&world, &started["job"]).await["replayed"] != 0).await;
    let cancelled = world.ask("DELETE", &path, STATIC, "").await.ok();
    assert_eq!(cancelled["state"], "cancelled");
    let done = replay(&world, json!({"topic": "t"})).await;
    assert_eq!(done["replayed"].as_u64().unwrap() + done["skipped"].as_u64().unwrap(), 20);
    assert_eq!(last(&world, "t").await, 40, "each of them once");
}

#[tokio::test]
async fn jobs_are_shown_to_those_who_administrate_their_topic() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 3]).await;
    let started = replay(&world, json!({"topic": "t", "rate": 1})).await;
    let path = format!("/jobs/{}", started["job"].as_str().unwrap());
    let (none, other) = (world.token(&["subscribe:**"]), world.token(&["admin:other"]));
    for token in [&none, &other] {
        for method in ["GET", "DELETE"] {
            let got: Got = world.ask(method, &path, token, "").await;
            assert_eq!(got.refusal(), (404, "not_found"));
        }
        assert_eq!(world.ask("GET", "/jobs", token, "").await.ok(), json!({"jobs": []}));
    }
    assert_eq!(world.ask("GET", &path, &world.token(&["admin:t"]), "").await.status, 200);
    assert_eq!(world.get("/jobs/x").await.refusal(), (400, "bad_request"));
    assert_eq!(world.get("/jobs/018bcfe5-6800-7000-8000-000000000001").await.refusal(), (404, "not_found"));
}

#[tokio::test]
async fn jobs_are_bounded_and_end_with_a_drain() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 3]).await;
    for _ in 0..4 {
        replay(&world, json!({"topic": "t", "rate": 1})).await;
    }
    let fifth = world.post("/dlq/replay", r#"{"topic":"t","rate":1}"#).await;
    assert_eq!(fifth.refusal(), (429, "rate_limited"));
    assert!(fifth.header("retry-after").is_some());
    assert_eq!(world.hub.drain(PATIENCE).await, 0, "a drain waits for no job");
}

#[tokio::test]
async fn a_job_ends_when_its_token_is_revoked() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 5]).await;
    let admin = world.token_of("eve", &["admin:t"]);
    let started = world.ask("POST", "/dlq/replay", &admin, r#"{"topic":"t","rate":1}"#).await.ok();
    assert_eq!(world.post("/revoke", r#"{"sub":"eve"}"#).await.status, 200);
    let ended = until_ended(&world, &started["job"]).await;
    assert_eq!(ended["state"], "failed");
    assert!(ended["reason"].as_str().unwrap().contains("revoked"), "{ended}");
}

#[tokio::test]
async fn an_admin_right_on_the_dead_letter_topic_alone_shows_no_letters() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no route"]).await;
    let id = list(&world, "topic=t").await[0]["id"].as_str().unwrap().to_owned();
    let status = async |token: &str, path: &str| world.ask("GET", path, token, "").await.status;
    let show = format!("/dlq/show?topic=t&id={id}");
    for (scopes, expected) in [
        (&["admin:dlq.**"][..], 403),
        (&["admin:dlq.**", "publish:t"], 403),
        (&["admin:dlq.**", "subscribe:t"], 200),
        (&["admin:dlq.**", "admin:t"], 200),
        (&["subscribe:dlq.**"], 403),
        (&["subscribe:dlq.**", "subscribe:t"], 200),
    ] {
        let token = world.token(scopes);
        for path in ["/dlq?topic=t", "/dlq/summary?topic=t", &show] {
            assert_eq!(status(&token, path).await, expected, "{scopes:?} {path}");
        }
        let all = world.ask("GET", "/dlq?payload=1", &token, "").await.ok();
        assert_eq!(all["letters"].as_array().unwrap().len(), usize::from(expected == 200), "{scopes:?}");
    }
}

#[tokio::test]
async fn a_letter_that_is_discarded_while_it_is_replayed_stays_discarded() {
    for replays_first in [true, false] {
        let world = World::new().await;
        bury(&world, "t", "g", &["no", "no"]).await;
        // Both requests have read the letters before one of them writes what it did.
        let (bus, how) = (world.bus(), Replay::default());
        let range = LetterRange::default();
        let letters = bus.dead_letters("t", &LetterFilter::default(), range, 10).await.unwrap().letters;
        if replays_first {
            bus.replay_dead_letters(&letters, &how).await.unwrap();
        }
        assert_eq!(bus.discard_dead_letters(&letters).await.unwrap(), 2);
        if !replays_first {
            bus.replay_dead_letters(&letters, &how).await.unwrap();
        }
        assert_eq!(
            list(&world, "topic=t").await,
            Vec::<Value>::new(),
            "the answer was that they are discarded"
        );
        let event = world.get("/event?topic=t&seq=1").await.ok();
        let letter = &event["groups"][0]["letter"];
        assert!(
            letter["discarded"].is_u64() && letter["replays"][0]["round"] == 1,
            "both are remembered: {event}"
        );
    }
}

#[tokio::test]
async fn a_job_waits_for_a_store_that_is_away_and_leaves_no_letter_out() {
    let world = World::new().await;
    bury(&world, "t", "g", &["no"; 30]).await;
    let mut faults = 3;
    world.store.script(move |call| {
        let is_away = call == "commit" && faults > 0;
        faults -= u32::from(is_away);
        is_away.then_some(Fault::Refuse)
    });
    let begun = replay(&world, json!({"topic": "t", "rate": 10_000})).await;
    let path = format!("/jobs/{}", begun["job"].as_str().unwrap());
    until("the job ends", async || world.get(&path).await.ok()["state"] != "running").await;
    let job = world.get(&path).await.ok();
    assert_eq!(
        (&job["state"], &job["replayed"], &job["failed"], &job["skipped"]),
        (&json!("done"), &json!(30), &json!(0), &json!(0)),
        "{job}"
    );
    assert_eq!(last(&world, "t").await, 60, "each once");
}
