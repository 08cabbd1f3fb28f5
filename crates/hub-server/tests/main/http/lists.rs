//! `GET /topics` and `GET /groups`: what is there, page by page, and only what a token may see.

use super::world::{STATIC, World};
use hub_core::Payload;
use hub_core::outbox::{Claim, MemoryOutbox, NewRow, OutboxStore, Outcome, RowId, Settled};
use hub_core::{Config, Position, TopicDurability, TopicSettings};
use hub_server::Settings;
use hub_server::limits::{Limits, TopicQuota};
use serde_json::{Value, json};
use std::sync::Arc;

/// All entries of a list, in pages of two; how many pages there were.
async fn pages(world: &World, path: &str, list: &str) -> (Vec<Value>, usize) {
    let (mut entries, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = world.get(&format!("{path}limit=2{after}")).await.ok();
        pages += 1;
        let found = page[list].as_array().unwrap();
        assert!(found.len() <= 2);
        entries.extend(found.clone());
        match page.get("next") {
            Some(next) => after = format!("&after={}", next.as_str().unwrap().replace('/', "%2F")),
            None => return (entries, pages),
        }
    }
}

#[tokio::test]
async fn a_topic_is_listed_with_its_extent() {
    let config = Config::default().topic("t", TopicSettings { compaction: true, ..TopicSettings::default() });
    let world = World::configured(Settings::default(), config.unwrap()).await;
    for n in 1..=3 {
        world.bus().publish("t", json!(n)).key("k").await.unwrap();
    }
    world.bus().clean("t").await.unwrap();
    world.group("t", "g").await;
    world.group("empty", "g").await;
    let listed = world.get("/topics").await.ok();
    let bounds = world.bus().bounds("t").await.unwrap();
    assert_eq!(bounds.events, 1, "the others were overtaken");
    let entry = listed["topics"].as_array().unwrap().iter().find(|entry| entry["name"] == "t").unwrap();
    assert_eq!(
        entry,
        &json!({"name": "t", "first": bounds.first, "last": 3, "events": 1, "bytes": bounds.bytes,
            "lastCommitted": bounds.last_committed, "groups": 1, "rates": entry["rates"], "settings": entry["settings"]})
    );
    let entry = listed["topics"].as_array().unwrap().iter().find(|entry| entry["name"] == "empty").unwrap();
    assert_eq!(
        (&entry["last"], &entry["events"], &entry["lastCommitted"]),
        (&json!(0), &json!(0), &Value::Null)
    );
}

#[tokio::test]
async fn a_topic_is_listed_with_what_it_keeps() {
    let settings = TopicSettings {
        retention_days: Some(3),
        retention_bytes: Some(1 << 30),
        compaction: true,
        tombstone_grace: 5_000,
        durability: TopicDurability::Interval,
    };
    let config = Config { dedupe_window: 60_000, ..Config::default() }.topic("kept", settings).unwrap();
    let world = World::configured(Settings::default(), config).await;
    world.bus().publish("kept", json!(1)).key("k").await.unwrap();
    world.fill("plain", 1).await;
    let listed = async || {
        let topics = world.get("/topics").await.ok()["topics"].take();
        let settings = topics.as_array().unwrap().iter().map(|topic| topic["settings"].clone());
        settings.collect::<Vec<Value>>()
    };
    let kept = json!({"retentionDays": 3, "retentionBytes": 1 << 30, "compaction": true, "tombstoneGraceMs": 5_000,
        "durability": "interval", "dedupeWindowMs": 60_000});
    let plain = json!({"retentionDays": null, "retentionBytes": null, "compaction": false, "tombstoneGraceMs": 86_400_000,
        "durability": "commit", "dedupeWindowMs": 60_000});
    assert_eq!(listed().await, [kept, plain.clone()]);
    // A reload of the configuration shows at once.
    world.bus().set_topics(Vec::new()).unwrap();
    assert_eq!(listed().await, [plain.clone(), plain]);
}

#[tokio::test]
async fn topics_come_sorted_and_in_pages() {
    let world = World::new().await;
    assert_eq!(world.get("/topics").await.ok(), json!({"topics": []}));
    for topic in ["b", "a.c", "a", "d", "a-b"] {
        world.fill(topic, 1).await;
    }
    let (topics, count) = pages(&world, "/topics?", "topics").await;
    let names: Vec<_> = topics.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!((names.as_slice(), count), (&["a", "a-b", "a.c", "b", "d"][..], 3));
    // A page that ends with the last one says so.
    assert!(world.get("/topics?limit=5").await.ok().get("next").is_none());
    assert_eq!(world.get("/topics?after=d").await.ok(), json!({"topics": []}));
}

#[tokio::test]
async fn a_list_has_what_the_token_may_see_and_pages_hide_no_more_than_that() {
    let world = World::new().await;
    for n in 0..600 {
        world.fill(&format!("hidden.{n:03}"), 1).await;
    }
    world.fill("seen.a", 1).await;
    world.fill("seen.b", 1).await;
    world.fill("sent", 1).await;
    world.group("seen.a", "g").await;
    world.group("sent", "g").await;
    world.group("hidden.000", "g").await;
    let token = world.token(&["subscribe:seen.*", "publish:sent"]);
    let page = world.ask("GET", "/topics?limit=1", &token, "").await.ok();
    assert_eq!((&page["topics"][0]["name"], &page["next"]), (&json!("seen.a"), &json!("seen.a")));
    let rest = world.ask("GET", "/topics?after=seen.a", &token, "").await.ok();
    let names: Vec<_> = rest["topics"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["seen.b", "sent"]);
    assert_eq!(rest["topics"][1]["groups"], 0, "a publisher does not see groups");
    let groups = world.ask("GET", "/groups", &token, "").await.ok();
    let groups = groups["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["topic"]), (1, &json!("seen.a")));
}

#[tokio::test]
async fn a_group_is_listed_with_how_it_is_doing() {
    let world = World::new().await;
    world.fill("t", 3).await;
    let group = world.bus().subscribe("t").group("g").from(Position::Earliest).max_attempts(7);
    let mut group = group.open().await.unwrap();
    let first = group.recv().await.unwrap();
    let listed = world.get("/groups?topic=t").await.ok();
    let entry = &listed["groups"][0];
    assert_eq!(entry["inflight"].as_u64().unwrap() + entry["parked"].as_u64().unwrap(), 3);
    assert_eq!((&entry["members"], &entry["options"]["maxAttempts"]), (&json!(1), &json!(7)));
    first.ack().unwrap();
    group.close();
    let listed = world.get("/groups").await.ok();
    let entry = &listed["groups"][0];
    assert_eq!(
        *entry,
        json!({"topic": "t", "group": "g", "floor": 1, "last": 3, "lag": 2, "inflight": 0, "parked": 2, "members": 0,
            "reason": "no_members", "since": entry["since"],
            "oldestUnsettled": {"seq": 2, "ageMs": entry["oldestUnsettled"]["ageMs"]},
            "options": {"filter": {}, "ordering": "none", "coalesce": false, "maxAttempts": 7}, "rates": entry["rates"]})
    );
    assert!(entry["since"].is_u64() && entry["rates"]["minute"]["acked"].is_number(), "{entry}");
}

#[tokio::test]
async fn groups_come_by_topic_and_name_and_in_pages() {
    let world = World::new().await;
    for (topic, group) in [("b", "x"), ("a", "y"), ("a", "x"), ("b", "a"), ("c", "x")] {
        world.group(topic, group).await;
    }
    let name =
        |entry: &Value| format!("{}/{}", entry["topic"].as_str().unwrap(), entry["group"].as_str().unwrap());
    let (groups, count) = pages(&world, "/groups?", "groups").await;
    let names: Vec<_> = groups.iter().map(name).collect();
    assert_eq!((names.as_slice(), count), (&["a/x", "a/y", "b/a", "b/x", "c/x"].map(str::to_owned)[..], 3));
    let (groups, _) = pages(&world, "/groups?topic=b&", "groups").await;
    assert_eq!(groups.iter().map(name).collect::<Vec<_>>(), ["b/a", "b/x"]);
    let (cursors, _) = pages(&world, "/cursors?topic=b&", "cursors").await;
    assert_eq!(cursors.iter().map(|entry| &entry["group"]).collect::<Vec<_>>(), ["a", "x"]);
}

#[tokio::test]
async fn a_token_without_rights_sees_nothing_and_a_walk_is_paid_for() {
    let limits = hub_server::limits::Limits { subject_rate: Some(20), ..Default::default() };
    let world = World::with(Settings { limits, ..Settings::default() }).await;
    for n in 0..4_000 {
        world.bus().publish(&format!("many.t{n}"), json!(1)).await.unwrap();
    }
    let nothing = world.token(&[]);
    for path in ["/topics", "/groups"] {
        let listed = world.ask("GET", path, &nothing, "").await.ok();
        assert!(
            listed.as_object().unwrap().values().all(|list| list.as_array().unwrap().is_empty()),
            "{listed}"
        );
    }
    assert_eq!(world.ask("GET", "/outbox", &nothing, "").await.ok(), json!({"outboxes": []}));
    assert_eq!(world.ask("GET", "/hubs", &nothing, "").await.refusal(), (403, "forbidden"));
    // One page of a walk over everything costs as much as some 300 events.
    let all = world.ruled(&json!([{"effect": "allow", "action": "*", "topics": ["**"]}]));
    world.ask("GET", "/topics?limit=1000", &all, "").await.ok();
    let next = world.ask("GET", "/topics", &all, "").await;
    assert_eq!(next.refusal(), (429, "rate_limited"));
    world.ask("GET", "/topics", &nothing, "").await.ok();
}

/// An outbox whose rows, one for each topic, are parked.
async fn parked(world: &World, name: &str, topics: &[&str]) {
    let outbox = MemoryOutbox::default();
    let rows: Vec<NewRow> =
        topics.iter().map(|topic| NewRow::new(*topic, Payload::of(&1).unwrap())).collect();
    let ids: Vec<RowId> = rows.iter().map(|row| RowId::from(row.id)).collect();
    outbox.add(rows).await.unwrap();
    let claim = Claim { worker: "w".into(), number: 1 };
    outbox.claim(&claim, &ids, 60_000, usize::MAX).await.unwrap();
    let outcome = Outcome::Parked { error: format!("refused by {name}") };
    let settled: Vec<Settled> = ids.into_iter().map(|id| Settled { id, outcome: outcome.clone() }).collect();
    assert_eq!(outbox.settle(&claim, &settled).await.unwrap(), topics.len() as u64);
    world.hub.outboxes().set(name, |entry| entry.store = Some(Arc::new(outbox)));
}

#[tokio::test]
async fn an_outbox_is_shown_to_administrators_of_all_topics_and_parked_rows_to_those_of_their_topic() {
    let world = World::new().await;
    parked(&world, "shop", &["orders.created", "payments.settled", "no topic"]).await;
    parked(&world, "ledger", &["payments.settled"]).await;
    world.hub.outboxes().set("crm", |crm| crm.trouble = Some("no route to crm-db.internal".into()));

    let all = world.get("/outbox").await.ok();
    let names: Vec<&str> =
        all["outboxes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop", "ledger", "crm"]);
    assert_eq!(all["outboxes"][0]["rows"].as_array().unwrap().len(), 3);
    assert_eq!((&all["outboxes"][0]["parked"], &all["outboxes"][0]["sent"]), (&json!(3), &json!(0)));
    assert_eq!(all["outboxes"][2]["reason"], "no route to crm-db.internal");

    for scope in ["admin:orders.created", "subscribe:orders.created", "admin:orders.**"] {
        let token = world.token(&[scope]);
        let seen = world.ask("GET", "/outbox", &token, "").await.ok();
        let row = &seen["outboxes"][0]["rows"][0];
        assert_eq!(row["topic"], "orders.created", "{scope}: {seen}");
        assert_eq!(
            seen,
            json!({"outboxes": [{"name": "shop", "connected": true, "rows": [row]}]}),
            "{scope}: other outboxes, other topics and sums over all topics are not for this token"
        );
        // Whether there is such an outbox is not told, either.
        for name in ["ledger", "crm", "none"] {
            let path = format!("/outbox?outbox={name}");
            assert_eq!(world.ask("GET", &path, &token, "").await.ok(), json!({"outboxes": []}), "{scope}");
        }
    }
    // A rule of all topics with one topic denied is no right on all of them.
    let most = world.ruled(&json!([
        {"effect": "deny", "action": "*", "topics": ["payments.**"]},
        {"effect": "allow", "action": "*", "topics": ["**"]},
    ]));
    let seen = world.ask("GET", "/outbox", &most, "").await.ok();
    assert_eq!(seen["outboxes"].as_array().unwrap().len(), 1, "{seen}");
    assert_eq!(seen["outboxes"][0]["rows"].as_array().unwrap().len(), 1, "{seen}");
    let unknown = world.ask("GET", "/outbox?outbox=none", STATIC, "").await;
    assert_eq!(unknown.refusal(), (404, "not_found"));
}

#[tokio::test]
async fn who_comes_through_a_proxy_is_not_local() {
    let world = World::new().await;
    let ask = |header: Option<&'static str>| {
        let request = world.request("GET", "/metrics", "");
        header.into_iter().fold(request, |request, name| request.header(name, "203.0.113.7")).send()
    };
    assert_eq!(ask(None).await.unwrap().status(), 200);
    for header in ["x-forwarded-for", "forwarded", "x-real-ip", "via"] {
        assert_eq!(ask(Some(header)).await.unwrap().status(), 401, "{header}");
    }
}

#[tokio::test]
async fn a_subject_sees_its_own_quota_and_an_administrator_all() {
    let quota = |of, topics| hub_core::Quota { of, topics: Some(topics), groups: None, stored_bytes: None };
    let quotas = vec![
        quota(hub_core::QuotaOf::Topics("metrics.**".parse().unwrap()), 9),
        quota(hub_core::QuotaOf::EverySubject, 2),
    ];
    let world = World::configured(Settings::default(), Config { quotas, ..Config::default() }).await;
    let ada = world.token(&["publish:**"]);
    for topic in ["metrics.a", "b"] {
        world.ask("POST", &format!("/publish/{topic}"), &ada, "1").await.ok();
    }
    assert_eq!(world.ask("POST", "/publish/c", &ada, "1").await.refusal(), (403, "quota_exceeded"));
    let own = world.ask("GET", "/quotas", &ada, "").await.ok();
    assert_eq!(own["subjects"][0]["subject"], "ada");
    assert_eq!(own["subjects"][0]["topics"], json!({"used": 2, "max": 2}));
    assert_eq!(own["subjects"][0]["groups"], json!({"used": 0}));
    for path in ["/quotas?all=1", "/quotas?subject=eve"] {
        assert_eq!(world.ask("GET", path, &ada, "").await.refusal(), (403, "forbidden"), "{path}");
    }
    let all = world.get("/quotas?all=1&limit=1").await.ok();
    assert_eq!(all["subjects"].as_array().unwrap().len(), 1);
    assert_eq!(all["patterns"][0]["topics"], json!({"used": 1, "max": 9}));
    let topics = world.get("/topics").await.ok();
    assert_eq!(topics["topics"][0]["maker"], "ada");
    let seen = world.ask("GET", "/topics", &ada, "").await.ok();
    assert!(seen["topics"][0].get("maker").is_none(), "{seen}");
}

#[tokio::test]
async fn quotas_are_metrics_for_those_who_may_see_other_subjects() {
    let quota = |of, topics| hub_core::Quota { of, topics: Some(topics), groups: None, stored_bytes: None };
    let quotas = vec![
        quota(hub_core::QuotaOf::Topics("metrics.**".parse().unwrap()), 9),
        quota(hub_core::QuotaOf::Topics("metrics.**".parse().unwrap()), 12),
        quota(hub_core::QuotaOf::EverySubject, 2),
    ];
    let limits = Limits {
        topic_quotas: vec![TopicQuota {
            pattern: "metrics.**".parse().unwrap(),
            bytes_in: Some(1_000),
            bytes_out: None,
        }],
        ..Limits::default()
    };
    let settings = Settings { limits, open_metrics: true, ..Settings::default() };
    let world = World::configured(settings, Config { quotas, ..Config::default() }).await;
    let ada = world.token(&["publish:**"]);
    world.ask("POST", "/publish/metrics.a", &ada, &format!("\"{}\"", "x".repeat(90_000))).await.ok();
    let refused = world.ask("POST", "/publish/metrics.b", &ada, "1").await;
    assert_eq!(refused.refusal(), (429, "rate_limited"), "the bytes of the pattern are used up");
    let all = world.get("/quotas?all=1").await.ok();
    assert_eq!(all["patterns"][0]["bytesIn"], json!({"maxPerSecond": 1_000}));

    let scrape = async |token: &str, host: &str| {
        let answer = world.request("GET", "/metrics", token).header("host", host).send().await.unwrap();
        answer.text().await.unwrap()
    };
    let open = scrape("", "localhost").await;
    for line in [
        "quota_used{kind=\"subject\",name=\"ada\",resource=\"topics\"} 1",
        "quota_limit{kind=\"subject\",name=\"ada\",resource=\"topics\"} 2",
        "quota_used{kind=\"pattern\",name=\"metrics.**\",resource=\"topics\"} 1",
        "quota_limit{kind=\"pattern\",name=\"metrics.**\",resource=\"topics\"} 9",
    ] {
        assert!(open.lines().any(|known| known == line), "{line}: {open}");
    }
    let of_pattern = open.lines().filter(|line| line.starts_with("quota_limit{kind=\"pattern\""));
    assert_eq!(of_pattern.count(), 1, "two quotas of one pattern are one series");
    let admin = world.token(&["admin:**"]);
    assert!(scrape(&admin, "hub.example").await.contains("quota_used{"));
    let seen = scrape(&ada, "hub.example").await;
    assert!(!seen.contains("quota_") && seen.contains("events_published_total"), "{seen}");
}
