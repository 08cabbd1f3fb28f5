//! What is too much, and what the refusal says.

use crate::world::{World, code, next};
use hub_core::{Bus, Code, Config, EventId, MemoryStore, Payload, Position, Publish, Result};
use serde_json::json;

/// A publish that is refused: its code and its text.
async fn refused(publish: Publish<'_>) -> (Code, String) {
    let error = publish.await.unwrap_err();
    (error.code, error.msg.into_owned())
}

#[tokio::test(start_paused = true)]
async fn every_limit_on_what_is_published_has_its_error() {
    let world = World::new().await;
    let publish = |topic: &str| world.bus.publish(topic, json!(1));
    let id = EventId::from_bytes([1; 16]);
    let long_headers = publish("t").header("a", "x".repeat(8 * 1024));
    let many = |mut publish: Publish<'static>, add: fn(Publish<'static>, usize) -> Publish<'static>| {
        for n in 0..65 {
            publish = add(publish, n);
        }
        publish
    };
    let bus: &'static Bus = Box::leak(Box::new(world.bus.clone()));
    let bad = [
        (publish("a..b"), "topic name"),
        (publish(""), "topic name"),
        (publish("a.*"), "topic name"),
        (publish(&"t".repeat(201)), "200"),
        (publish("t").key("k".repeat(513)), "512"),
        (publish("t").key("a\0b"), "NUL"),
        (publish("t").header("X-Hub-Mine", "1"), "reserved"),
        (publish("t").header("a", "1").header("a", "2"), "twice"),
        (publish("t").header("", "1"), "empty"),
        (long_headers, "8192"),
        (many(bus.publish("t", json!(1)), |p, n| p.header(format!("h{n}"), "v")), "64"),
        (many(bus.publish("t", json!(1)), |p, n| p.tag(format!("t{n}"))), "64"),
        (many(bus.publish("t", json!(1)), |p, n| p.caused_by(EventId::from_bytes([n as u8; 16]))), "64"),
    ];
    for (publish, text) in bad {
        let (code, msg) = refused(publish).await;
        assert_eq!(code, Code::BadRequest, "{msg}");
        assert!(msg.contains(text), "it says {text:?}: {msg}");
    }
    assert!(world.bus.topics().is_empty(), "what is refused brings no topic into being");
    publish(&"t".repeat(200)).key("k".repeat(512)).id(id).header("a", "x".repeat(8191)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_payload_has_its_size_and_depth() {
    let world = World::with(Config { max_payload: 100, ..Config::default() }).await;
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    world.bus.publish("t", text(100)).await.unwrap();
    assert_eq!(code(world.bus.publish("t", text(101)).await), Code::TooLarge);
    let deep = |depth: usize| Payload::from_json("[".repeat(depth) + &"]".repeat(depth));
    assert_eq!(code(deep(129)), Code::BadRequest);
    let world = World::new().await;
    world.bus.publish("t", deep(128).unwrap()).await.unwrap();
    assert_eq!(code(world.bus.publish("t", text(1024 * 1024 + 1)).await), Code::TooLarge);
    world.bus.publish("t", text(1024 * 1024)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_writes_itself_is_not_bound_by_limits() {
    let world = World::with(Config { max_topics: 1, ..Config::default() }).await;
    let topic = "t".repeat(200);
    let large = json!("x".repeat(1024 * 1024 - 2));
    world.bus.publish(&topic, large).key("k".repeat(512)).await.unwrap();
    let join = world.bus.subscribe(&topic).group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join.open().await.unwrap();
    next(&mut sub).await.nack("no").unwrap();
    world.clock.advance(100).await;
    let letters = world.bus.scan(&format!("dlq.{topic}"), Position::Earliest, None).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].payload().len() > 1024 * 1024);
}

#[tokio::test(start_paused = true)]
async fn topics_of_users_are_limited() {
    let world = World::with(Config { max_topics: 2, ..Config::default() }).await;
    world.fill("a", [1]).await;
    let _sub = world.bus.subscribe("b").group("g").open().await.unwrap();
    let (code_, msg) = refused(world.bus.publish("c", json!(1))).await;
    assert_eq!(code_, Code::QuotaExceeded);
    assert!(msg.contains('2'), "{msg}");
    assert_eq!(code(world.bus.subscribe("c").group("g").open().await), Code::QuotaExceeded);
    world.fill("a", [2]).await;
}

#[tokio::test(start_paused = true)]
async fn groups_are_limited_over_all_topics() {
    let world = World::with(Config { max_groups: 4, ..Config::default() }).await;
    let bus = &world.bus;
    for topic in ["a.x", "a.y", "b"] {
        world.fill(topic, [1]).await;
    }
    let open = async |topic: &str, group: &str| {
        bus.subscribe(topic).group(group).open().await.map(hub_core::Subscription::close)
    };
    // Two groups and the subscription itself.
    open("a.*", "g").await.unwrap();
    let error = open("a.*", "h").await.unwrap_err();
    assert_eq!(error.code, Code::QuotaExceeded);
    assert!(
        error.msg.contains("there are 3 groups") && error.msg.contains("the hub's limit is 4"),
        "{error}"
    );
    assert!(bus.subscription("a.*", "h").is_none() && bus.group("a.x", "h").is_none());
    open("b", "g").await.unwrap();
    assert_eq!(code(open("b", "h").await), Code::QuotaExceeded);
    assert_eq!(code(open("nothing.*", "g").await), Code::QuotaExceeded, "also one that covers nothing yet");
    open("b", "g").await.unwrap();
    open("a.*", "g").await.unwrap();

    // A topic that would bring groups along is made without: who publishes is not refused for those who listen.
    world.fill("a.z", [1]).await;
    assert!(bus.groups("a.z").is_empty());
    open("a.*", "g").await.expect("what has a group is served");
    world.fill("c", [1]).await;
    world.fill("a.x", [2]).await;

    bus.delete_group("a.*", "g").await.unwrap();
    for group in ["h", "i", "j"] {
        open("b", group).await.unwrap();
    }
    assert_eq!(code(open("b", "k").await), Code::QuotaExceeded);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_written_whatever_groups_there_are() {
    let world = World::with(Config { max_groups: 3, ..Config::default() }).await;
    world.fill("t", [1]).await;
    let _morgue = world.bus.subscribe("dlq.**").group("a").open().await.unwrap();
    let _other = world.bus.subscribe("dlq.**").group("b").open().await.unwrap();
    let join = world.bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut sub = join.open().await.unwrap();
    next(&mut sub).await.nack("no").unwrap();
    world.clock.advance(100).await;
    assert_eq!(world.bus.groups("dlq.t").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_by_name() {
    let open = async |config: Config| -> Result<Bus> {
        Bus::builder(MemoryStore::new()).config(config).open().await
    };
    let bad = [
        (Config { max_payload: 0, ..Config::default() }, "max_payload"),
        (Config { max_topics: 0, ..Config::default() }, "max_topics"),
        (Config { max_groups: 0, ..Config::default() }, "max_groups"),
        (Config { ack_timeout: 0, ..Config::default() }, "ack_timeout"),
        (Config { max_parked: 0, ..Config::default() }, "max_parked"),
        (Config { member_bytes: 0, ..Config::default() }, "member_bytes"),
        (Config { queue_bytes: 0, ..Config::default() }, "queue_bytes"),
        (Config { queue_bytes: 1 << 33, ..Config::default() }, "queue_bytes"),
        (Config { publish_timeout: 0, ..Config::default() }, "publish_timeout"),
        (Config { save_interval: 0, ..Config::default() }, "save_interval"),
        (Config { clean_interval: 0, ..Config::default() }, "clean_interval"),
    ];
    for (config, name) in bad {
        let error = open(config).await.unwrap_err();
        assert_eq!(error.code, Code::BadRequest);
        assert!(error.msg.contains(name), "{error}");
    }
    open(Config::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_a_topic_with_a_long_name_can_be_read() {
    let world = World::new().await;
    let topic = "t".repeat(200);
    let mut sub = world.bus.subscribe(&topic).group("g").max_attempts(1).open().await.unwrap();
    world.fill(&topic, [1]).await;
    next(&mut sub).await.nack("broken").unwrap();
    let dlq = format!("dlq.{topic}");
    let mut letters = world.bus.subscribe(&dlq).group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(next(&mut letters).await.event().topic().as_str(), dlq);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_a_snapshot_topic_are_all_kept() {
    let world = World::new().await;
    let compacted = hub_core::TopicSettings { compaction: true, ..Default::default() };
    world.bus.set_topics(vec![("orders".parse().unwrap(), compacted)]).unwrap();
    world.bus.publish("orders", serde_json::json!(0)).key("k").await.unwrap();
    let mut sub = world.bus.subscribe("orders.snapshot").group("g").max_attempts(1).open().await.unwrap();
    for n in 1..=2 {
        world.bus.publish("orders", serde_json::json!(n)).key("k").await.unwrap();
        world.bus.clean("orders").await.unwrap();
        // The key's state, and how far the snapshot reaches.
        for _ in 0..2 {
            next(&mut sub).await.nack("broken").unwrap();
            world.clock.advance(10).await;
        }
    }
    world.bus.housekeeping().await;
    assert_eq!(world.bus.scan("dlq.orders.snapshot", Position::Earliest, None).await.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_everything_says_that_the_hub_has_stopped() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    world.bus.stop().await.unwrap();
    assert_eq!(code(world.bus.scan("t", Position::Earliest, None).await), Code::Unavailable);
    assert_eq!(code(world.bus.set_cursor("t", "g", Position::Latest).await), Code::Unavailable);
    assert_eq!(code(world.bus.publish("t", serde_json::json!(1)).await), Code::Unavailable);
    assert!(world.bus.topics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_filter_has_limits_and_no_order() {
    let world = World::new().await;
    let filter = |tags: &[&str]| hub_core::Filter {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Default::default()
    };
    let join = |tags: &[&str]| world.bus.subscribe("t").group("g").filter(filter(tags)).open();
    let _first = join(&["a", "b"]).await.unwrap();
    let _second = join(&["b", "a"]).await.unwrap();
    assert_eq!(code(join(&["a"]).await), Code::GroupConflict);
    assert_eq!(code(join(&["x"; 65]).await), Code::BadRequest);
}

#[tokio::test(start_paused = true)]
async fn a_name_of_a_megabyte_is_not_quoted_in_full() {
    let world = World::new().await;
    world.fill("t", [1]).await;
    let long = "x".repeat(1 << 20);
    let errors = [
        world.bus.set_cursor("t", &long, Position::Latest).await.unwrap_err(),
        world.bus.set_cursor(&long, "g", Position::Latest).await.unwrap_err(),
        world.bus.delete_group(&long, "g").await.unwrap_err(),
        world.bus.scan(&long, Position::Latest, None).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.code == Code::BadRequest && error.msg.len() < 300, "{} bytes", error.msg.len());
    }
}
