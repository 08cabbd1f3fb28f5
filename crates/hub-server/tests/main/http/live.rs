//! `GET /live`: figures, rows and events as they change.

use super::sse::{Frame, Reader};
use super::world::{STATIC, World};
use hub_core::{Config, Health, NewEvent, Payload, Position, TopicSettings};
use hub_server::Settings;
use hub_server::acl::Policy;
use hub_server::auth::Revoked;
use hub_server::limits::{Limits, SubjectQuota};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Nothing in a test takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn open(world: &World, query: &str, token: &str) -> Reader {
    Reader::open(world, &format!("/live?view={query}"), token).await
}

/// The data of the next message with this name.
async fn message(reader: &mut Reader, name: &str) -> Value {
    loop {
        let Frame { event, data, .. } = reader.next().await;
        let event = event.expect("every message has a name");
        if event == name {
            return data;
        }
        assert_ne!(event, "end", "{data}");
    }
}

/// The names of the rows of a message.
fn names(message: &Value) -> Vec<&str> {
    let rows = message["rows"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

/// What the next message with this name that tells of any tells to be gone.
async fn gone(reader: &mut Reader, name: &str) -> Value {
    loop {
        if let Some(gone) = message(reader, name).await.get_mut("gone") {
            return gone.take();
        }
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let look = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Forbids publishing to a topic and subscribing to it.
fn denied(topic: &str) -> Settings {
    let rules = json!({"policy": {"rules": [{"effect": "deny", "action": "*", "topics": [topic]}]}});
    let policy = Policy::from_claims(rules.as_object().unwrap()).unwrap();
    Settings { policy, ..Settings::default() }
}

#[tokio::test]
async fn a_stream_begins_with_a_sample_of_what_the_token_may_see() {
    let world = World::new().await;
    world.fill("mine", 3).await;
    world.fill("other", 5).await;
    world.group("mine", "g").await;
    world.group("other", "g").await;
    let of = async |token: &str| message(&mut open(&world, "overview", token).await, "sample").await;
    let all = of(STATIC).await;
    assert_eq!((&all["topics"], &all["groups"], &all["lag"]), (&json!(2), &json!(2), &json!(8)));
    let mine = of(&world.token(&["subscribe:mine"])).await;
    assert_eq!((&mine["topics"], &mine["groups"], &mine["lag"]), (&json!(1), &json!(1), &json!(3)));
    let publisher = of(&world.token(&["publish:mine"])).await;
    assert_eq!(
        (&publisher["topics"], &publisher["groups"], &publisher["lag"]),
        (&json!(1), &json!(0), &json!(0))
    );
    let nobody = of(&world.token(&[])).await;
    assert_eq!((&nobody["topics"], &nobody["groups"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn rates_of_other_topics_are_in_no_sum_of_a_token() {
    let world = World::new().await;
    world.fill("mine", 1).await;
    world.fill("other", 1).await;
    let mut all = open(&world, "overview", STATIC).await;
    let mut narrow = open(&world, "overview", &world.token(&["subscribe:mine"])).await;
    message(&mut all, "sample").await;
    message(&mut narrow, "sample").await;
    let mut member = world.bus().subscribe("other").group("g").from(Position::Earliest).open().await.unwrap();
    world.fill("other", 10).await;
    for _ in 0..11 {
        member.recv().await.unwrap().ack().unwrap();
    }
    let busy = loop {
        let sample = message(&mut all, "sample").await;
        if sample["published"].as_f64().unwrap() > 0.0 && sample["acked"].as_f64().unwrap() > 0.0 {
            break sample;
        }
    };
    assert!(busy["latencyMs"]["p99"].is_number() && busy["handlerMs"]["p50"].is_number(), "{busy}");
    loop {
        let sample = message(&mut narrow, "sample").await;
        assert_eq!((&sample["published"], &sample["acked"]), (&json!(0.0), &json!(0.0)), "{sample}");
        assert!(sample.get("latencyMs").is_none(), "{sample}");
        if sample["ts"].as_u64() >= busy["ts"].as_u64() {
            break;
        }
    }
}

/// Publishes an event to each topic, long enough ago that nothing of it is in any rate.
async fn fill_long_ago(world: &World, topics: &[&str]) {
    let has_rates = |topic: &str| world.bus().busy_topics().iter().any(|busy| &*busy.topic == topic);
    // Nothing is counted before the first sample.
    until("rates are counted", async || {
        world.fill("warm-up", 1).await;
        has_rates("warm-up")
    })
    .await;
    for topic in topics {
        world.fill(topic, 1).await;
    }
    until("the events are in the rates", async || topics.iter().all(|topic| has_rates(topic))).await;
    world.clock.jump(120_000);
    assert!(world.bus().busy_topics().is_empty());
}

#[tokio::test]
async fn a_topic_comes_when_it_has_changed_and_another_does_not() {
    let world = World::new().await;
    fill_long_ago(&world, &["a", "b"]).await;
    let mut reader = open(&world, "topics", STATIC).await;
    message(&mut reader, "sample").await;
    world.fill("a", 2).await;
    let (mut rows, mut samples) = (Vec::new(), 0);
    while samples < 4 {
        let frame = reader.next().await;
        match frame.event.as_deref() {
            Some("sample") => samples += 1,
            Some("topics") => {
                assert_eq!(names(&frame.data), ["a"], "{}", frame.data);
                rows.push(frame.data["rows"][0].clone());
            }
            other => panic!("{other:?}"),
        }
    }
    let row = &rows[0];
    assert_eq!((&row["last"], &row["events"], &row["groups"]), (&json!(3), &json!(3), &json!(0)));
    assert!(row.get("settings").is_none());
    let distinct: BTreeSet<String> = rows.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), rows.len(), "a row that has not changed comes again: {rows:?}");
    let listed = world.get("/topics").await.ok()["topics"][0].take();
    for field in ["name", "first", "last", "events", "bytes", "lastCommitted", "groups"] {
        assert_eq!(rows.last().unwrap()[field], listed[field], "{field}");
    }
}

#[tokio::test]
async fn a_new_topic_shows_up_and_a_deleted_one_is_gone() {
    let world = World::new().await;
    fill_long_ago(&world, &["a"]).await;
    let mut reader = open(&world, "topics", STATIC).await;
    message(&mut reader, "sample").await;
    world.fill("b", 1).await;
    assert_eq!(names(&message(&mut reader, "topics").await), ["b"]);
    world.bus().delete_topic("a").await.unwrap();
    assert_eq!(gone(&mut reader, "topics").await, json!(["a"]));
}

#[tokio::test]
async fn a_page_has_no_topic_that_is_gone_when_most_of_them_were_deleted() {
    let world = World::new().await;
    for n in 0..300 {
        world.fill(&format!("t{n}"), 1).await;
    }
    let mut reader = open(&world, "topics", STATIC).await;
    message(&mut reader, "sample").await;
    let listed = async || {
        let page = world.get("/topics?limit=1000").await.ok();
        names(&json!({"rows": page["topics"]})).into_iter().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let mut page = listed().await;
    for n in 0..290 {
        world.bus().delete_topic(&format!("t{n}")).await.unwrap();
    }
    world.fill("last", 1).await;
    let expected = listed().await;
    assert_eq!(expected.len(), 11);
    // Most rows of the tables are gone, so the hub fills them anew: rows that vanish meanwhile come with no message.
    let mut is_told_to_read = false;
    while page != expected || !is_told_to_read {
        let next = message(&mut reader, "topics").await;
        if next["reset"] == true {
            is_told_to_read = true;
            page = listed().await;
        }
        page.extend(names(&next).into_iter().map(str::to_owned));
        for name in next["gone"].as_array().into_iter().flatten() {
            page.remove(name.as_str().unwrap());
        }
    }
}

#[tokio::test]
async fn rows_that_do_not_fit_into_a_message_come_in_the_next_ones() {
    let world = World::new().await;
    let mut reader = open(&world, "topics", STATIC).await;
    message(&mut reader, "sample").await;
    let names: BTreeSet<String> = (0..600).map(|n| format!("{}.t{n}", "x".repeat(190))).collect();
    for name in &names {
        world.fill(name, 1).await;
    }
    let (mut missing, mut messages) = (names, 0);
    while !missing.is_empty() {
        let rows = message(&mut reader, "topics").await;
        assert!(rows.to_string().len() < 70 << 10, "{}", rows.to_string().len());
        for name in self::names(&rows) {
            missing.remove(name);
        }
        messages += 1;
    }
    assert!(messages > 1);
}

#[tokio::test]
async fn a_topic_that_the_token_may_not_see_does_not_come() {
    let world = World::new().await;
    let mut all = open(&world, "topics", STATIC).await;
    let mut narrow = open(&world, "topics", &world.token(&["subscribe:mine"])).await;
    message(&mut all, "sample").await;
    message(&mut narrow, "sample").await;
    world.fill("other", 1).await;
    assert_eq!(names(&message(&mut all, "topics").await), ["other"]);
    world.fill("mine", 1).await;
    assert_eq!(names(&message(&mut narrow, "topics").await), ["mine"]);
}

#[tokio::test]
async fn a_group_comes_when_it_has_changed_and_goes_when_it_is_deleted() {
    let world = World::new().await;
    world.fill("t", 3).await;
    world.fill("u", 1).await;
    world.group("u", "h").await;
    let mut reader = open(&world, "groups", STATIC).await;
    let mut of_topic = open(&world, "groups&topic=u", STATIC).await;
    message(&mut reader, "sample").await;
    message(&mut of_topic, "sample").await;
    world.group("t", "g").await;
    let row = message(&mut reader, "groups").await["rows"][0].take();
    assert_eq!((&row["topic"], &row["group"], &row["lag"]), (&json!("t"), &json!("g"), &json!(3)));
    assert_eq!((&row["members"], &row["reason"]), (&json!(0), &json!("no_members")));
    // One that nothing happens in is looked at, too.
    let member = world.bus().subscribe("u").group("h").open().await.unwrap();
    let row = message(&mut of_topic, "groups").await["rows"][0].take();
    assert_eq!((&row["group"], &row["members"]), (&json!("h"), &json!(1)));
    member.close();
    world.bus().delete_group("t", "g").await.unwrap();
    assert_eq!(gone(&mut reader, "groups").await, json!([["t", "g"]]));
}

#[tokio::test]
async fn a_group_is_shown_as_its_detail_and_the_stream_ends_with_it() {
    let world = World::new().await;
    world.fill("t", 2).await;
    let mut member = world.bus().subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = member.recv().await.unwrap();
    let mut reader = open(&world, "group&topic=t&group=g", STATIC).await;
    let first = message(&mut reader, "group").await;
    let detail = world.get("/groups/detail?topic=t&group=g").await.ok();
    assert_eq!(
        first.as_object().unwrap().keys().collect::<Vec<_>>(),
        detail.as_object().unwrap().keys().collect::<Vec<_>>()
    );
    assert_eq!((&first["lag"], first["members"].as_array().unwrap().len()), (&json!(2), 1));
    held.ack().unwrap();
    member.recv().await.unwrap().ack().unwrap();
    while message(&mut reader, "group").await["lag"] != 0 {}
    world.bus().delete_group("t", "g").await.unwrap();
    assert_eq!(reader.end().await, "bad_request");
    assert_eq!(world.get("/live?view=group&topic=t&group=g").await.refusal(), (400, "bad_request"));
}

#[tokio::test]
async fn a_tail_begins_with_the_newest_and_goes_on_with_what_comes() {
    let world = World::new().await;
    world.fill("t", 150).await;
    let mut reader = open(&world, "topic&topic=t", STATIC).await;
    let first = message(&mut reader, "tail").await;
    let seqs: Vec<u64> =
        first["events"].as_array().unwrap().iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert!(seqs.into_iter().eq(51..=150));
    assert_eq!((&first["initial"], &first["skipped"]), (&json!(true), &json!(0)));
    let payload = Payload::from_json(r#"{"big":9007199254740993,"text":"é"}"#).unwrap();
    world.bus().publish("t", payload).key("k").tag("red").await.unwrap();
    let next = message(&mut reader, "tail").await;
    let row = &next["events"][0];
    let event = &world.bus().scan("t", Position::AfterSeq(150), None).await.unwrap()[0];
    let text = r#"{"big":9007199254740993,"text":"é"}"#;
    assert_eq!(
        row,
        &json!({
            "seq": 151, "id": event.id(), "ts": event.ts(), "committed": event.committed(), "key": "k", "tags": ["red"],
            "bytes": text.len(), "payload": text, "cut": false,
        })
    );
    assert!(next.get("initial").is_none());
    // The page shows how the topic grows, too.
    while message(&mut reader, "topics").await["rows"][0]["last"] != 151 {}
}

#[tokio::test]
async fn a_long_payload_is_cut_between_two_characters() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let text = "é".repeat(5_000);
    world.bus().publish("t", json!(text)).await.unwrap();
    let mut reader = open(&world, "topic&topic=t", STATIC).await;
    let row = message(&mut reader, "tail").await["events"][1].take();
    // The quote makes the limit fall into a character.
    let shown = format!("\"{}", "é".repeat(1_023));
    assert_eq!((row["payload"].as_str(), &row["cut"]), (Some(&*shown), &json!(true)));
    assert_eq!(row["bytes"], json!(text.len() + 2));
}

#[tokio::test]
async fn a_tail_has_what_matches_whatever_its_case() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let id = "018bcfe5-6800-7000-8000-00000000cafe".parse().unwrap();
    let publish = async || {
        let bus = world.bus();
        bus.publish("t", json!({"state": "Running"})).key("web").await.unwrap();
        bus.publish("t", json!({"state": "stopped"})).key("web").await.unwrap();
        bus.publish("t", json!({"state": "stopped"})).key("run-1").await.unwrap();
    };
    publish().await;
    world.bus().publish("t", json!(1)).id(id).await.unwrap();
    for (query, seqs) in [
        ("q=RUN", &[2_u64, 4][..]),
        ("key=web", &[2, 3]),
        ("key=web&q=run", &[2]),
        ("q=CAFE", &[5]),
        ("q=nothing", &[]),
    ] {
        let mut reader = open(&world, &format!("topic&topic=t&{query}"), STATIC).await;
        let first = message(&mut reader, "tail").await;
        let found: Vec<u64> =
            first["events"].as_array().unwrap().iter().map(|row| row["seq"].as_u64().unwrap()).collect();
        assert_eq!(found, seqs, "{query}");
    }
    let mut reader = open(&world, "topic&topic=t&q=running", STATIC).await;
    message(&mut reader, "tail").await;
    publish().await;
    let next = message(&mut reader, "tail").await;
    assert_eq!((next["events"].as_array().unwrap().len(), &next["events"][0]["seq"]), (1, &json!(6)));
    assert_eq!(next["skipped"], 0, "what does not match is not skipped");
}

#[tokio::test]
async fn a_tail_shows_the_last_of_a_burst_and_counts_the_rest() {
    const BURST: u64 = 5_000;
    let world = World::new().await;
    world.fill("t", 1).await;
    let mut reader = open(&world, "topic&topic=t", STATIC).await;
    message(&mut reader, "tail").await;
    let event = |n: u64| NewEvent::new("t".parse().unwrap(), Payload::of(&n).unwrap());
    for result in world.bus().publish_batch((1..=BURST).map(event).collect()).await {
        result.unwrap();
    }
    let (mut shown, mut skipped, mut last) = (0, 0, 1);
    while last < BURST + 1 {
        let next = message(&mut reader, "tail").await;
        let rows = next["events"].as_array().unwrap();
        assert!(rows.len() <= 50, "{}", rows.len());
        for row in rows {
            assert!(row["seq"].as_u64().unwrap() > last, "in order: {row}");
            last = row["seq"].as_u64().unwrap();
        }
        (shown, skipped) = (shown + rows.len() as u64, skipped + next["skipped"].as_u64().unwrap());
    }
    assert_eq!(shown + skipped, BURST);
    assert!(skipped > 0 && shown >= 50, "{shown} shown, {skipped} skipped");
}

/// The values of a topic as a page has them: what it has read, and what the stream has brought since.
struct Page {
    reader: Reader,
    values: BTreeMap<String, u64>,
    resets: usize,
}

impl Page {
    async fn open(world: &World) -> Self {
        let mut reader = open(world, "state&topic=t", STATIC).await;
        message(&mut reader, "sample").await;
        let mut page = Self { reader, values: BTreeMap::new(), resets: 0 };
        page.read(world).await;
        page
    }

    async fn read(&mut self, world: &World) {
        let mut after: Option<String> = None;
        self.values.clear();
        loop {
            let behind = after.map(|key| format!("&after={key}")).unwrap_or_default();
            let page = world.get(&format!("/latest-by-key?topic=t&limit=1000{behind}")).await.ok();
            for event in page["events"].as_array().unwrap() {
                self.put(event["key"].as_str().unwrap(), event["seq"].as_u64().unwrap());
            }
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return;
            }
        }
    }

    fn put(&mut self, key: &str, seq: u64) {
        let newest = self.values.entry(key.to_owned()).or_default();
        *newest = seq.max(*newest);
    }

    /// Takes messages until the page has these values.
    async fn becomes(&mut self, world: &World, expected: &BTreeMap<String, u64>) {
        while self.values != *expected {
            let next = message(&mut self.reader, "state").await;
            if next.get("reset").is_some() {
                self.resets += 1;
                self.read(world).await;
            }
            for row in next["rows"].as_array().unwrap() {
                assert_eq!(row["deleted"], false, "{row}");
                self.put(row["key"].as_str().unwrap(), row["seq"].as_u64().unwrap());
            }
        }
    }
}

/// Publishes so many events to so many keys, and adds what is newest then.
async fn burst(world: &World, events: u64, keys: u64, newest: &mut BTreeMap<String, u64>) {
    let numbers: Vec<u64> = (0..events).collect();
    for part in numbers.chunks(1_000) {
        let event = |n: &u64| {
            NewEvent::new("t".parse().unwrap(), Payload::of(n).unwrap())
                .with_key(format!("k{}", n % keys).as_str())
        };
        let receipts = world.bus().publish_batch(part.iter().map(event).collect()).await;
        for (n, receipt) in part.iter().zip(receipts) {
            newest.insert(format!("k{}", n % keys), receipt.unwrap().seq);
        }
    }
}

#[tokio::test]
async fn a_state_ends_at_the_newest_of_every_key_after_a_burst() {
    let world = World::new().await;
    let mut newest = BTreeMap::new();
    burst(&world, 100, 100, &mut newest).await;
    let mut page = Page::open(&world).await;
    burst(&world, 100_000, 1_500, &mut newest).await;
    page.becomes(&world, &newest).await;
}

#[tokio::test]
async fn a_state_that_changes_too_much_is_read_again_by_the_page() {
    let world = World::new().await;
    let mut newest = BTreeMap::new();
    burst(&world, 10, 10, &mut newest).await;
    let mut page = Page::open(&world).await;
    burst(&world, 100_000, 30_000, &mut newest).await;
    page.becomes(&world, &newest).await;
    assert!(page.resets > 0, "30,000 keys are more than a stream keeps");
    burst(&world, 10, 10, &mut newest).await;
    page.becomes(&world, &newest).await;
}

#[tokio::test]
async fn a_key_that_is_deleted_comes_as_deleted_and_its_value_is_not_rounded() {
    let world = World::new().await;
    world.bus().publish("t", json!(1)).key("k").await.unwrap();
    let mut reader = open(&world, "state&topic=t", STATIC).await;
    message(&mut reader, "sample").await;
    world.fill("t", 1).await;
    world.bus().publish("t", Payload::from_json("9007199254740993").unwrap()).key("k").await.unwrap();
    let row = message(&mut reader, "state").await["rows"][0].take();
    assert_eq!(
        (&row["key"], &row["seq"], &row["payload"]),
        (&json!("k"), &json!(3), &json!("9007199254740993"))
    );
    world.bus().publish("t", Payload::null()).key("k").await.unwrap();
    let row = message(&mut reader, "state").await["rows"][0].take();
    assert_eq!((&row["key"], &row["deleted"]), (&json!("k"), &json!(true)));
}

#[tokio::test]
async fn problems_come_with_the_worst_first_and_only_to_those_who_may_see_them() {
    let world = World::new().await;
    world.fill("t", 3).await;
    world.fill("u", 1).await;
    world.group("t", "idle").await;
    world.group("u", "other").await;
    // Members come and go: only what has delivered nothing for a while is a problem.
    world.clock.jump(60_000);
    world.hub.outboxes().set("shop", |shop| shop.trouble = Some("connection refused".into()));
    world.store.set_health(|| Health { unavailable: Some("the disk is full".into()), ..Health::default() });
    let all = message(&mut open(&world, "overview", STATIC).await, "problems").await;
    let kinds: Vec<&str> =
        all["problems"].as_array().unwrap().iter().map(|problem| problem["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["store", "outbox", "group", "group"], "{all}");
    assert_eq!(all["problems"][2]["group"], "idle", "the larger lag first");
    let mine = message(&mut open(&world, "overview", &world.token(&["subscribe:u"])).await, "problems").await;
    let since = mine["problems"][1]["since"].clone();
    assert_eq!(
        mine["problems"],
        json!([
            {"kind": "store", "reason": "the disk is full"},
            {
                "kind": "group", "topic": "u", "group": "other", "lag": 1, "inflight": 0, "parked": mine["problems"][1]["parked"], "members": 0,
                "reason": "no_members", "since": since, "oldestUnsettled": mine["problems"][1]["oldestUnsettled"],
            },
        ])
    );
    assert_eq!(mine["more"], 0);
    // An outbox has rows of any topic: an administrator of one topic is not told how it is doing.
    let token = world.token(&["admin:u"]);
    let some = message(&mut open(&world, "overview", &token).await, "problems").await;
    let kinds: Vec<&str> =
        some["problems"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["store", "group"], "{some}");
}

#[tokio::test]
async fn many_groups_in_trouble_hide_no_problem_of_another_kind() {
    let world = World::new().await;
    world.fill("t", 1).await;
    world.fill("u", 1).await;
    for n in 0..60 {
        world.group("t", &format!("g{n}")).await;
    }
    // Nothing is counted before the first sample.
    let mut reader = open(&world, "overview", STATIC).await;
    message(&mut reader, "sample").await;
    let member = world.bus().subscribe("u").group("g").from(Position::Earliest).max_attempts(1);
    member.open().await.unwrap().recv().await.unwrap().nack("no").unwrap();
    world.clock.jump(60_000);
    world.store.set_health(|| Health { warnings: vec!["little room".into()], ..Health::default() });
    let worst_first = [&["store"][..], &["group"; 48], &["letters"]].concat();
    loop {
        let all = message(&mut reader, "problems").await;
        let problems = all["problems"].as_array().unwrap().iter();
        let kinds: Vec<&str> = problems.map(|problem| problem["kind"].as_str().unwrap()).collect();
        if kinds == worst_first {
            assert_eq!(all["more"], 12);
            break;
        }
    }
}

#[tokio::test]
async fn a_group_that_gives_up_events_is_a_problem_for_those_who_may_read_them() {
    let world = World::new().await;
    let mut reader = open(&world, "overview", STATIC).await;
    let mut narrow = open(&world, "overview", &world.token(&["subscribe:t"])).await;
    message(&mut reader, "sample").await;
    world.fill("t", 1).await;
    let member = world.bus().subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    member.open().await.unwrap().recv().await.unwrap().nack("no").unwrap();
    let letters = loop {
        let found = message(&mut reader, "problems").await;
        let found =
            found["problems"].as_array().unwrap().iter().find(|one| one["kind"] == "letters").cloned();
        if let Some(found) = found {
            break found;
        }
    };
    assert_eq!(
        (&letters["topic"], &letters["group"], &letters["count"]),
        (&json!("t"), &json!("g"), &json!(1))
    );
    while message(&mut narrow, "sample").await["ts"].as_u64() < letters["lastTs"].as_u64() {}
    let frame = narrow.next().await;
    assert!(!frame.data.to_string().contains("letters"), "{:?}", frame.data);
}

#[tokio::test]
async fn a_group_that_delivers_and_only_fails_is_a_problem_until_an_event_is_acked() {
    let world = World::new().await;
    let mut reader = open(&world, "overview", STATIC).await;
    message(&mut reader, "sample").await;
    world.fill("t", 4).await;
    let member = world.bus().subscribe("t").group("g").from(Position::Earliest).max_attempts(1000);
    let mut member = member.open().await.unwrap();
    for _ in 0..3 {
        member.recv().await.unwrap().nack("the disk is read-only").unwrap();
    }
    let failing = async |reader: &mut Reader| {
        let problems = message(reader, "problems").await;
        let found = problems["problems"].as_array().unwrap().iter().find(|one| one["failing"] == true);
        found.map(|one| (one["kind"].clone(), one["group"].clone()))
    };
    let found = loop {
        if let Some(found) = failing(&mut reader).await {
            break found;
        }
    };
    assert_eq!(found, (json!("group"), json!("g")));
    member.recv().await.unwrap().ack().unwrap();
    while failing(&mut reader).await.is_some() {}
}

#[tokio::test]
async fn the_busiest_topics_are_in_the_overview() {
    let world = World::new().await;
    let mut reader = open(&world, "overview", STATIC).await;
    message(&mut reader, "sample").await;
    for n in 0..12 {
        world.fill(&format!("t{n:02}"), 20 - n).await;
    }
    let mut shown = BTreeSet::new();
    let expected: BTreeSet<String> = (0..10).map(|n| format!("t{n:02}")).collect();
    while shown != expected {
        let rows = message(&mut reader, "topics").await;
        shown.extend(names(&rows).into_iter().map(str::to_owned));
        for gone in rows["gone"].as_array().into_iter().flatten() {
            shown.remove(gone.as_str().unwrap());
        }
        assert!(shown.len() <= 10, "{shown:?}");
    }
}

#[tokio::test]
async fn a_right_that_is_lost_hides_what_it_showed_and_one_that_comes_back_shows_it() {
    let world = World::new().await;
    world.fill("t", 1).await;
    world.fill("u", 1).await;
    world.group("t", "g").await;
    let token = world.token(&["subscribe:t", "subscribe:u"]);
    let mut topics = open(&world, "topics", &token).await;
    let mut groups = open(&world, "groups", &token).await;
    message(&mut topics, "sample").await;
    message(&mut groups, "sample").await;
    world.hub.apply(denied("t"));
    assert_eq!(gone(&mut topics, "topics").await, json!(["t"]));
    assert_eq!(gone(&mut groups, "groups").await, json!([["t", "g"]]));
    world.fill("t", 1).await;
    world.fill("u", 1).await;
    loop {
        let rows = message(&mut topics, "topics").await;
        assert_eq!(names(&rows), ["u"]);
        if rows["rows"][0]["last"] == 2 {
            break;
        }
    }
    world.hub.apply(Settings::default());
    while !names(&message(&mut topics, "topics").await).contains(&"t") {}
}

/// What ends a stream of each view that needs a right, and the code that it ends with.
async fn ends(code: &str, end: impl AsyncFnOnce(&World)) {
    let world = World::new().await;
    world.fill("t", 1).await;
    world.group("t", "g").await;
    let token = world.token(&["subscribe:t"]);
    let mut readers = Vec::new();
    for view in ["topic&topic=t", "state&topic=t", "group&topic=t&group=g", "groups&topic=t"] {
        let mut reader = open(&world, view, &token).await;
        message(&mut reader, "sample").await;
        readers.push((view, reader));
    }
    end(&world).await;
    for (view, reader) in readers {
        assert_eq!(reader.end().await, code, "{view}");
    }
}

#[tokio::test]
async fn a_right_that_is_lost_ends_a_stream_that_needs_it() {
    ends("forbidden", async |world| world.hub.apply(denied("t"))).await;
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_the_stream() {
    ends("token_revoked", async |world| world.hub.revoke(Revoked::Subject("ada".into())).await.unwrap())
        .await;
}

#[tokio::test]
async fn a_token_that_expires_ends_the_stream() {
    ends("token_expired", async |world| world.clock.jump(3600 * 1000)).await;
}

#[tokio::test]
async fn a_hub_that_drains_ends_the_stream() {
    ends("unavailable", async |world| world.hub.draining().cancel()).await;
}

#[tokio::test]
async fn streams_count_as_connections_of_their_subject() {
    let quota = SubjectQuota { connections: Some(2), subscriptions: Some(1), ..SubjectQuota::default() };
    let limits = Limits { subject_quotas: vec![quota], ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    world.fill("t", 1).await;
    let token = world.token(&["subscribe:t"]);
    let first = open(&world, "overview", &token).await;
    let _second = open(&world, "topic&topic=t", &token).await;
    let refused = world.ask("GET", "/live?view=overview", &token, "").await;
    assert_eq!(refused.refusal(), (403, "quota_exceeded"));
    drop(first);
    let ask = async || world.request("GET", "/live?view=overview", &token).send().await.unwrap();
    until("the first stream is over", async || ask().await.status() == 200).await;
    let refused = world.ask("GET", "/live?view=state&topic=t", &token, "").await;
    assert_eq!(refused.refusal(), (403, "quota_exceeded"), "a tail is a subscription, too");
}

#[tokio::test]
async fn what_a_tail_reads_at_its_beginning_is_charged_also_if_it_shows_nothing() {
    let limits = Limits { subject_rate: Some(10), ..Limits::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    let large = json!("x".repeat(10_000));
    for _ in 0..100 {
        world.bus().publish("t", large.clone()).await.unwrap();
    }
    let token = world.token(&["subscribe:t"]);
    let mut reader = open(&world, "topic&topic=t&q=nothing", &token).await;
    assert_eq!(message(&mut reader, "tail").await["events"], json!([]));
    let refused = world.ask("GET", "/live?view=topic&topic=t&q=nothing", &token, "").await;
    assert_eq!(refused.refusal(), (429, "rate_limited"));
}

#[tokio::test]
async fn samples_are_taken_only_while_somebody_watches() {
    let world = World::new().await;
    world.fill("t", 1).await;
    let has = async |line: &str| {
        let metrics = world.request("GET", "/metrics", STATIC).send().await.unwrap().text().await.unwrap();
        metrics.lines().any(|found| found == line)
    };
    assert!(has("live_sampling 0").await && has("live_streams 0").await);
    for _ in 0..2 {
        let mut reader = open(&world, "overview", STATIC).await;
        let sample = message(&mut reader, "sample").await;
        assert_eq!(sample["topics"], 1);
        assert!(has("live_sampling 1").await && has("live_streams 1").await);
        drop(reader);
        until("the sampler sleeps", async || has("live_sampling 0").await).await;
        assert!(has("live_streams 0").await);
    }
}

#[tokio::test]
async fn what_is_wrong_has_a_status_before_the_stream_begins() {
    let world = World::new().await;
    world.fill("t", 1).await;
    for (query, says) in [
        ("", "parameter view is missing"),
        ("?view=everything", "it must be one of overview, topics, topic, groups, group, state"),
        ("?view=topic", "parameter topic is missing"),
        ("?view=group&topic=t", "parameter group is missing"),
        ("?view=overview&topic=t", "view overview takes no topic; leave it out"),
        ("?view=state&topic=t&q=x", "view state takes no q; it takes topic"),
        ("?view=topics&token=x", "unknown parameter \"token\""),
        ("?view=group&topic=t&group=g", "has no group g"),
    ] {
        let got = world.get(&format!("/live{query}")).await;
        assert_eq!(got.refusal(), (400, "bad_request"), "{query}");
        assert!(got.json["error"].as_str().unwrap().contains(says), "{query}: {}", got.json);
    }
    let long = format!("/live?view=topic&topic=t&q={}", "x".repeat(513));
    assert_eq!(world.get(&long).await.refusal(), (400, "bad_request"));
    for view in ["topic&topic=u", "state&topic=u", "groups&topic=u", "group&topic=u&group=g"] {
        assert_eq!(world.get(&format!("/live?view={view}")).await.refusal(), (404, "not_found"), "{view}");
        let stranger = world.ask("GET", &format!("/live?view={view}"), &world.token(&[]), "").await;
        assert_eq!(stranger.refusal(), (403, "forbidden"), "{view}");
    }
}

#[tokio::test]
async fn a_hub_with_many_idle_topics_shows_all_of_them_in_its_sums() {
    let config = Config::default().topic("idle.**", TopicSettings::default()).unwrap();
    let world = World::configured(Settings::default(), config).await;
    let event = |n: u64| NewEvent::new(format!("idle.t{n}").parse().unwrap(), Payload::of(&n).unwrap());
    world.bus().publish_batch((0..3_000).map(event).collect()).await;
    let mut reader = open(&world, "topics", STATIC).await;
    assert_eq!(message(&mut reader, "sample").await["topics"], 3_000);
    // One that is not busy is found in its turn.
    world.bus().delete_topic("idle.t7").await.unwrap();
    while message(&mut reader, "sample").await["topics"] != 2_999 {}
}
