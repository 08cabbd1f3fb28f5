//! `/event`: one event, and what became of it.

use super::world::{STATIC, World};
use hub_core::outbox::{MemoryOutbox, NewRow, OutboxStore};
use hub_core::testkit::Fault;
use hub_core::{Filter, GroupRequest, Ordering, Payload, Position, TopicSettings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn event(world: &World, query: &str) -> Value {
    world.get(&format!("/event?topic=t&{query}")).await.ok()
}

async fn state(world: &World, group: &str) -> Value {
    let answer = event(world, "seq=1").await;
    answer["groups"].as_array().unwrap().iter().find(|entry| entry["group"] == group).unwrap().clone()
}

/// Waits until a group shows the first event in this state.
async fn until(world: &World, group: &str, wanted: &str) -> Value {
    let look = async {
        loop {
            let found = state(world, group).await;
            if found["state"] == wanted {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), look)
        .await
        .unwrap_or_else(|_| panic!("{group} is never {wanted}"))
}

#[tokio::test]
async fn the_record_is_as_it_is_stored() {
    let world = World::new().await;
    let payload = Payload::from_json(r#"{"big": 9007199254740993, "x":1.10}"#).unwrap();
    let receipt = world.bus().publish("t", payload).key("k").header("h", "v").await.unwrap();
    let record = world.bus().scan("t", Position::Earliest, None).await.unwrap()[0].clone();
    let record = std::str::from_utf8(record.json()).unwrap();
    for query in [format!("id={}", receipt.id), "seq=1".into()] {
        let path = format!("/event?topic=t&{query}");
        let text = world.request("GET", &path, STATIC).send().await.unwrap().text().await.unwrap();
        assert!(text.contains(&format!("\"event\":{record}")), "{text}");
        let answer = event(&world, &query).await;
        assert_eq!(
            (&answer["seq"], &answer["topic"], &answer["groups"]),
            (&json!(1), &json!("t"), &json!([]))
        );
    }
}

#[tokio::test]
async fn an_event_is_followed_through_the_states_of_its_groups() {
    let world = World::new().await;
    let join = |group: &'static str| world.bus().subscribe("t").group(group).from(Position::Earliest);
    world.group("t", "later").await;
    let mut leased = join("leased").open().await.unwrap();
    let mut nacked = join("nacked").open().await.unwrap();
    let mut dead = join("dead").max_attempts(1).open().await.unwrap();
    let filter = Filter { key: Some("other".into()), ..Filter::default() };
    let _filtered = join("filtered").filter(filter).open().await.unwrap();
    let mut acked = join("acked").open().await.unwrap();
    world.fill("t", 1).await;
    let held = leased.recv().await.unwrap();
    nacked.recv().await.unwrap().nack_after(60_000, "later").unwrap();
    dead.recv().await.unwrap().nack("never").unwrap();
    acked.recv().await.unwrap().ack().unwrap();

    assert_eq!(
        state(&world, "later").await,
        json!({"group": "later", "state": "pending", "reason": "no_members"})
    );
    let found = state(&world, "leased").await;
    assert_eq!(
        (&found["state"], &found["inHand"], &found["attempts"]),
        (&json!("leased"), &json!(true), &json!(1))
    );
    assert!((1..=30_000).contains(&found["leftMs"].as_u64().unwrap()), "{found}");
    let found = state(&world, "nacked").await;
    assert_eq!((&found["state"], &found["failures"]), (&json!("parked"), &json!(1)));
    assert!((50_000..=60_000).contains(&found["leftMs"].as_u64().unwrap()), "{found}");
    assert_eq!(state(&world, "acked").await, json!({"group": "acked", "state": "settled"}));
    assert_eq!(
        until(&world, "filtered", "filtered").await,
        json!({"group": "filtered", "state": "filtered"})
    );
    let letter = until(&world, "dead", "dead_lettered").await["letter"].clone();
    assert_eq!(
        (&letter["err"], &letter["attempts"], &letter["replays"]),
        (&json!("never"), &json!(1), &json!([]))
    );

    let replay = json!({"topic": "t", "ids": [letter["id"]]}).to_string();
    assert_eq!(world.post("/dlq/replay", &replay).await.ok()["replayed"], 1);
    let letter = state(&world, "dead").await["letter"].clone();
    assert_eq!((&letter["replays"][0]["round"], &letter["replays"][0]["seq"]), (&json!(1), &json!(2)));
    let replayed = event(&world, "seq=2").await;
    assert_eq!(replayed["replayOf"], event(&world, "seq=1").await["event"]["id"]);
    assert_eq!((&replayed["replayFor"], &replayed["letter"]), (&json!("dead"), &letter["id"]));
    let of = |group: &str| {
        replayed["groups"].as_array().unwrap().iter().find(|entry| entry["group"] == group).unwrap()["state"]
            .clone()
    };
    assert_eq!((of("acked"), of("dead")), (json!("filtered"), json!("leased")));
    held.ack().unwrap();
    assert_eq!(state(&world, "leased").await["state"], "settled");
}

#[tokio::test]
async fn an_event_behind_its_key_says_so() {
    let world = World::new().await;
    let options = GroupRequest { ordering: Some(Ordering::Key), ..GroupRequest::default() };
    let mut group =
        world.bus().subscribe("t").group("g").options(options).from(Position::Earliest).open().await.unwrap();
    for n in 1..=2 {
        world.bus().publish("t", json!(n)).key("k").await.unwrap();
    }
    let held = group.recv().await.unwrap();
    let second = event(&world, "seq=2").await;
    assert_eq!(second["groups"], json!([{"group": "g", "state": "parked", "behindKey": true}]));
    let detail = world.get("/groups/detail?topic=t&group=g").await.ok();
    assert_eq!(
        (&detail["reason"], &detail["blocking"]["seq"]),
        (&json!("key_blocked"), &json!(1)),
        "{detail}"
    );
    assert_eq!((&detail["blocking"]["key"], &detail["blocking"]["state"]), (&json!("k"), &json!("leased")));
    assert_eq!(detail["blocking"]["id"], json!(held.event().id()));
    assert_eq!(detail["blocking"]["member"], detail["members"][0]["member"]);
}

#[tokio::test]
async fn an_event_that_was_cleaned_away_is_remembered_as_such() {
    let world = World::new().await;
    for n in 1..=2 {
        world.bus().publish("t", json!(n)).key("k").await.unwrap();
    }
    let first = event(&world, "seq=1").await["event"]["id"].as_str().unwrap().to_owned();
    let compacted = TopicSettings { compaction: true, ..TopicSettings::default() };
    world.bus().set_topics(vec![("t".parse().unwrap(), compacted)]).unwrap();
    assert_eq!(world.bus().clean("t").await.unwrap().removed, 1);
    world.group("t", "g").await;
    for query in [format!("id={first}"), "seq=1".into()] {
        let answer = event(&world, &query).await;
        let expected = json!({"topic": "t", "event": null, "seq": 1, "cleaned": true, "groups": [{"group": "g", "state": "settled"}]});
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn an_unknown_event_is_400() {
    let world = World::new().await;
    world.fill("t", 1).await;
    for (query, code) in [
        ("id=018bcfe5-6800-7000-8000-000000000001", "unknown_id"),
        ("seq=2", "unknown_id"),
        ("seq=0", "unknown_id"),
        ("id=x", "bad_request"),
        ("seq=x", "bad_request"),
        ("seq=1&id=018bcfe5-6800-7000-8000-000000000001", "bad_request"),
        ("", "bad_request"),
        ("seq=1&limit=0", "bad_request"),
    ] {
        assert_eq!(world.get(&format!("/event?topic=t&{query}")).await.refusal(), (400, code), "{query}");
    }
    assert_eq!(world.get("/event?topic=nowhere&seq=1").await.refusal(), (404, "not_found"));
}

#[tokio::test]
async fn the_row_of_an_outbox_is_shown() {
    let world = World::new().await;
    let outbox = MemoryOutbox::default();
    let row = NewRow::new("t", Payload::of(&1).unwrap());
    let id = row.id;
    outbox.add(vec![row]).await.unwrap();
    world.hub.outboxes().set("shop", |shop| shop.store = Some(Arc::new(outbox.clone())));
    world.bus().publish("t", json!(0)).await.unwrap();
    let pending = event(&world, &format!("id={id}")).await;
    assert_eq!((&pending["event"], &pending["seq"]), (&json!(null), &json!(null)));
    assert_eq!(
        (&pending["outbox"]["outbox"], &pending["outbox"]["status"]),
        (&json!("shop"), &json!("pending"))
    );
    world.bus().publish("t", json!(1)).id(id).await.unwrap();
    let published = event(&world, &format!("id={id}")).await;
    assert_eq!((&published["seq"], &published["outbox"]["id"]), (&json!(2), &json!(id)));
    world.bus().publish("u", json!(1)).id(id).await.unwrap();
    let other = world.get(&format!("/event?topic=u&id={id}")).await.ok();
    assert!(other.get("outbox").is_none(), "the row is of another topic: {other}");
}

#[tokio::test]
async fn an_event_is_for_those_who_may_read_its_topic_and_groups_for_those_who_may_see_them() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let dead = world.bus().subscribe("t").group("a").from(Position::Earliest).max_attempts(1);
    dead.open().await.unwrap().recv().await.unwrap().nack("secret").unwrap();
    until(&world, "a", "dead_lettered").await;
    world.group("t", "b").await;
    let ask = async |token: &str| world.ask("GET", "/event?topic=t&seq=1", token, "").await;
    for scopes in [&["publish:t"][..], &["subscribe:u"], &["admin:t"]] {
        assert_eq!(ask(&world.token(scopes)).await.refusal(), (403, "forbidden"), "{scopes:?}");
    }
    let reader = world.token(&["subscribe:t"]);
    let answer = ask(&reader).await.ok();
    assert_eq!(answer["groups"].as_array().unwrap().len(), 2);
    assert_eq!(answer["groups"][0], json!({"group": "a", "state": "dead_lettered"}), "the error is on dlq.t");
    let rules = json!([
        {"effect": "deny", "action": "subscribe", "topics": ["t"], "groups": ["a"]},
        {"effect": "allow", "action": "subscribe", "topics": ["t"]},
    ]);
    let answer = ask(&world.ruled(&rules)).await.ok();
    assert_eq!(answer["groups"].as_array().unwrap().len(), 1, "{answer}");
    let page = world.ask("GET", "/event?topic=t&seq=1&limit=1", &reader, "").await.ok();
    assert_eq!((&page["groups"][0]["group"], &page["next"]), (&json!("a"), &json!("a")));
    let page = world.ask("GET", "/event?topic=t&seq=1&limit=1&after=a", &reader, "").await.ok();
    assert_eq!((&page["groups"][0]["group"], page.get("next")), (&json!("b"), None));
}

#[tokio::test]
async fn an_id_is_found_in_every_topic_that_has_it_and_may_be_read() {
    let world = World::new().await;
    let id = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
    for topic in ["a", "b.c", "secret"] {
        world.fill(topic, 2).await;
        world.bus().publish(topic, json!(1)).id(id).await.unwrap();
    }
    world.fill("without", 1).await;
    let find = async |token: &str| {
        let found = world.ask("GET", &format!("/event/find?id={id}"), token, "").await.ok();
        (found["topics"].clone(), found["searched"].clone(), found.get("next").cloned())
    };
    let all = json!([{"topic": "a", "seq": 3}, {"topic": "b.c", "seq": 3}, {"topic": "secret", "seq": 3}]);
    assert_eq!(find(STATIC).await, (all, json!(4), None));
    // A topic that may be published to, but not read, is not asked.
    let token = world.token(&["subscribe:b.*", "subscribe:without", "publish:secret"]);
    assert_eq!(find(&token).await, (json!([{"topic": "b.c", "seq": 3}]), json!(2), None));
    assert_eq!(find(&world.token(&[])).await, (json!([]), json!(0), None));
    for (query, says) in
        [("", "parameter id is missing"), ("?id=1", "id"), ("?id=x&topic=a", "unknown parameter")]
    {
        let got = world.get(&format!("/event/find{query}")).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{}", got.json);
    }
    let got = world.get(&format!("/event?id={id}")).await;
    assert_eq!(got.refusal(), (400, "bad_request"));
    assert!(got.json["error"].as_str().unwrap().contains("/event/find"), "{}", got.json);
}

#[tokio::test]
async fn a_search_over_many_topics_is_done_in_bounded_steps() {
    let world = World::new().await;
    for n in 0..2050 {
        world.bus().publish(&format!("t.{n:04}"), json!(1)).await.unwrap();
    }
    let id = world.bus().publish("t.2040", json!(2)).await.unwrap().id;
    let (mut after, mut steps) = (String::new(), Vec::new());
    let found = loop {
        let page = world.get(&format!("/event/find?id={id}{after}")).await.ok();
        let searched = page["searched"].as_u64().unwrap();
        // A slow machine may end a step for its time.
        assert!((1..=1000).contains(&searched), "{page}");
        steps.push(searched);
        if page["topics"] != json!([]) {
            break page;
        }
        after = format!("&after={}", page["next"].as_str().expect("further topics"));
    };
    assert_eq!(found["topics"], json!([{"topic": "t.2040", "seq": 2}]));
    assert_eq!((steps.iter().sum::<u64>(), found.get("next")), (2050, None));
    assert!(steps.len() >= 3, "{steps:?}");
}

#[tokio::test]
async fn a_search_that_the_store_does_not_answer_fails_and_finds_nothing_wrong() {
    let world = World::new().await;
    world.fill("a", 1).await;
    world.store.script(|call| (call == "seq_of").then_some(Fault::Refuse));
    let got = world.get("/event/find?id=018bcfe5-6800-7000-8000-000000000001").await;
    assert_eq!(got.refusal(), (503, "unavailable"));
}

/// Publishes an event with a header, and answers where it is.
async fn with_header(world: &World, topic: &str, name: &str, value: &str) -> (Value, Value) {
    let receipt = world.bus().publish(topic, json!(1)).key("k").header(name, value).await.unwrap();
    (json!(topic), json!(receipt.seq))
}

/// What a search finds, in however many requests, and how many those were.
async fn search(world: &World, token: &str, query: &str) -> (Vec<(Value, Value)>, usize) {
    let (mut found, mut requests, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = world.ask("GET", &format!("/event/search?{query}{after}"), token, "").await.ok();
        requests += 1;
        assert!(page["lookedAt"].as_u64().unwrap() <= 50_000, "{page}");
        let events = page["events"].as_array().unwrap();
        found.extend(events.iter().map(|event| (event["topic"].clone(), event["seq"].clone())));
        match page.get("next") {
            Some(next) => after = format!("&after={}", next.as_str().unwrap().replace('/', "%2F")),
            None => return (found, requests),
        }
    }
}

#[tokio::test]
async fn events_are_found_by_trace_and_by_correlation_id_in_every_topic_that_may_be_read() {
    let world = World::new().await;
    let (trace, other) = ("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737");
    let parent = |trace: &str, span: u64| format!("00-{trace}-{span:016x}-01");
    for topic in ["a", "b.c", "secret"] {
        world.fill(topic, 2).await;
    }
    let first = with_header(&world, "a", "traceparent", &parent(trace, 1)).await;
    with_header(&world, "a", "traceparent", &parent(other, 1)).await;
    let second = with_header(&world, "b.c", "traceparent", &parent(trace, 2)).await;
    let hidden = with_header(&world, "secret", "traceparent", &parent(trace, 3)).await;
    let correlated = with_header(&world, "b.c", "x-correlation-id", "basket 7").await;

    let by_id = format!("traceId={trace}");
    let all = vec![first.clone(), second.clone(), hidden];
    assert_eq!(search(&world, STATIC, &by_id).await.0, all);
    // Any span of the trace names it.
    assert_eq!(search(&world, STATIC, &format!("traceparent={}", parent(trace, 99))).await.0, all);
    assert_eq!(search(&world, STATIC, "correlationId=basket+7").await.0, [correlated]);
    assert_eq!(search(&world, STATIC, &format!("{by_id}&correlationId=basket+7")).await.0, []);

    // A topic that may be published to, but not read, is not searched.
    let token = world.token(&["subscribe:b.*", "publish:secret", "admin:a"]);
    assert_eq!(search(&world, &token, &by_id).await.0, std::slice::from_ref(&second));
    let page = world.ask("GET", &format!("/event/search?{by_id}"), &token, "").await.ok();
    assert_eq!((&page["searched"], &page["lookedAt"]), (&json!(1), &json!(4)));
    assert_eq!(search(&world, &world.token(&[]), &by_id).await.0, []);
    // A page of another token leads past nothing that this one may not see.
    let token = world.token(&["subscribe:a"]);
    assert_eq!(search(&world, &token, &format!("{by_id}&after=secret%2F0")).await.0, []);

    for (query, says) in [
        ("", "give traceId, traceparent or correlationId"),
        ("?traceId=4BF9", "32 hexadecimal digits"),
        ("?traceparent=4bf92f3577b34da6a3ce929d0e0e4736", "it must be one as 00-"),
        (&format!("?{by_id}&traceparent={}", parent(trace, 1)), "leave out one of them"),
        ("?correlationId=", "correlationId is empty"),
        ("?correlationId=c&after=x", "it must be next of a page before"),
        ("?correlationId=c&fromTs=now", "milliseconds since 1970"),
        ("?correlationId=c&topic=a", "unknown parameter"),
    ] {
        let got = world.get(&format!("/event/search{query}")).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{}", got.json);
    }
}

#[tokio::test]
async fn a_search_by_headers_keeps_to_its_times() {
    let world = World::new().await;
    let mut ends = Vec::new();
    for _ in 0..3 {
        with_header(&world, "t", "correlationId", "c").await;
        world.clock.jump(1_000);
        ends.push(world.hub.bus().now());
        world.clock.jump(1_000);
    }
    let of = async |query: String| {
        let found = search(&world, STATIC, &format!("correlationId=c{query}")).await.0;
        found.into_iter().map(|(_, seq)| seq.as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(format!("&fromTs={}", ends[0])).await, [2, 3]);
    assert_eq!(of(format!("&toTs={}", ends[1])).await, [1, 2]);
    assert_eq!(of(format!("&fromTs={}&toTs={}", ends[0], ends[1])).await, [2]);
    assert_eq!(of(format!("&fromTs={}", ends[2])).await, [0_u64; 0]);
}

#[tokio::test]
async fn a_search_by_headers_looks_at_a_bounded_number_of_events_in_one_request() {
    let world = World::new().await;
    let mut wanted = Vec::new();
    for topic in ["a", "b", "c"] {
        for _ in 0..30 {
            let events = (0..1000).map(|n| world.bus().publish(topic, json!(n)).into_future());
            futures_util::future::try_join_all(events).await.unwrap();
        }
        wanted.push(with_header(&world, topic, "correlationId", "c").await);
    }
    let (found, requests) = search(&world, STATIC, "correlationId=c").await;
    assert_eq!(found, wanted);
    assert!(requests >= 2, "{requests}");
    // Each answer has at most 1,000 events.
    for _ in 0..3 {
        let events =
            (0..500).map(|n| world.bus().publish("d", json!(n)).header("correlationId", "d").into_future());
        futures_util::future::try_join_all(events).await.unwrap();
    }
    let page = world.get("/event/search?correlationId=d&after=d%2F0").await.ok();
    assert!(page["events"].as_array().unwrap().len() <= 1_000);
    let (found, requests) = search(&world, STATIC, "correlationId=d").await;
    let seqs: std::collections::BTreeSet<u64> = found.iter().map(|(_, seq)| seq.as_u64().unwrap()).collect();
    assert_eq!((found.len(), seqs.len()), (1_500, 1_500), "none is missing, and none comes twice");
    assert!(requests >= 3, "{requests}");
}

#[tokio::test]
async fn a_search_by_headers_that_the_store_does_not_answer_fails() {
    let world = World::new().await;
    world.fill("a", 1).await;
    world.store.script(|call| (call == "read").then_some(Fault::Refuse));
    let got = world.get("/event/search?correlationId=c").await;
    assert_eq!(got.refusal(), (503, "unavailable"));
}
