//! What one subject may use of what is everybody's.

use crate::world::{World, code, next};
use hub_core::{
    Bus, Code, Config, EventId, MemoryStore, NewEvent, Payload, Position, Quota, QuotaOf, QuotaUse, Result,
};
use serde_json::json;

fn quota(of: QuotaOf, topics: usize, groups: usize) -> Quota {
    Quota { of, topics: Some(topics), groups: Some(groups), stored_bytes: None }
}

async fn world(quotas: Vec<Quota>) -> World {
    World::with(Config { quotas, ..Config::default() }).await
}

async fn publish(bus: &Bus, subject: &str, topic: &str) -> Result<u64> {
    let event = NewEvent::new(topic.parse()?, Payload::from(json!(1)));
    bus.send_for(subject, event).await.map(|receipt| receipt.seq)
}

fn used(bus: &Bus, subject: &str) -> (usize, usize) {
    let (_, QuotaUse { topics, groups, .. }) = bus.quota_of(subject);
    (topics, groups)
}

#[tokio::test(start_paused = true)]
async fn a_subject_makes_as_many_topics_as_its_quota_and_others_notice_nothing() {
    let world = world(vec![quota(QuotaOf::EverySubject, 3, 3)]).await;
    for n in 0..3 {
        publish(&world.bus, "eve", &format!("eve.{n}")).await.unwrap();
    }
    assert_eq!(code(publish(&world.bus, "eve", "eve.3").await), Code::QuotaExceeded);
    assert!(!world.bus.has_topic("eve.3"));
    publish(&world.bus, "eve", "eve.0").await.expect("a topic that is there");
    publish(&world.bus, "ada", "ada.0").await.expect("a quota of her own");
    world.bus.publish("of.the.program", json!(1)).await.expect("the program itself has none");
    assert_eq!((used(&world.bus, "eve"), used(&world.bus, "ada")), ((3, 0), (1, 0)));
}

#[tokio::test(start_paused = true)]
async fn the_first_quota_that_names_a_subject_counts() {
    let rules = vec![quota(QuotaOf::Subject("big".into()), 5, 5), quota(QuotaOf::EverySubject, 1, 1)];
    let world = world(rules).await;
    for n in 0..5 {
        publish(&world.bus, "big", &format!("big.{n}")).await.unwrap();
    }
    publish(&world.bus, "small", "small.0").await.unwrap();
    assert_eq!(code(publish(&world.bus, "big", "big.5").await), Code::QuotaExceeded);
    assert_eq!(code(publish(&world.bus, "small", "small.1").await), Code::QuotaExceeded);
}

#[tokio::test(start_paused = true)]
async fn topics_of_a_pattern_have_a_quota_together() {
    let world = world(vec![quota(QuotaOf::Topics("metrics.**".parse().unwrap()), 2, 1)]).await;
    publish(&world.bus, "a", "metrics.x").await.unwrap();
    publish(&world.bus, "b", "metrics.y").await.unwrap();
    assert_eq!(code(publish(&world.bus, "c", "metrics.z").await), Code::QuotaExceeded);
    publish(&world.bus, "c", "logs.z").await.unwrap();
    world.bus.subscribe("metrics.x").group("g").open().await.unwrap().close();
    assert_eq!(code(world.bus.subscribe("metrics.y").group("g").open().await), Code::QuotaExceeded);
    assert_eq!(world.bus.topic_quotas()[0].1, QuotaUse { topics: 2, groups: 1, stored_bytes: 0 });
}

#[tokio::test(start_paused = true)]
async fn groups_count_for_whoever_made_them_until_they_are_deleted() {
    let world = world(vec![quota(QuotaOf::EverySubject, 10, 3)]).await;
    for topic in ["a.x", "a.y", "b"] {
        world.fill(topic, [1]).await;
    }
    let join = |topic: &'static str, group: &'static str| {
        world.bus.subscribe(topic).on_behalf_of("eve").group(group).open()
    };
    // A pattern over two topics: three.
    join("a.*", "g").await.unwrap().close();
    assert_eq!(used(&world.bus, "eve"), (0, 3));
    assert_eq!(code(join("b", "g").await), Code::QuotaExceeded);
    world.bus.subscribe("b").on_behalf_of("ada").group("h").open().await.unwrap().close();
    join("b", "h").await.expect("a group that is there").close();
    assert_eq!(world.bus.delete_group("a.*", "g").await.unwrap(), 2);
    assert_eq!(used(&world.bus, "eve"), (0, 0));
    join("b", "g").await.unwrap().close();
}

#[tokio::test(start_paused = true)]
async fn a_publish_is_not_refused_for_the_quota_of_somebody_who_listens() {
    let world = world(vec![quota(QuotaOf::Subject("eve".into()), 10, 2)]).await;
    let join = || world.bus.subscribe("**").on_behalf_of("eve").group("g").open();
    let mut eve = join().await.unwrap();
    publish(&world.bus, "ada", "first").await.unwrap();
    // There is no room for a second group of hers.
    publish(&world.bus, "ada", "second").await.unwrap();
    let first = next(&mut eve).await;
    assert_eq!(first.event().topic().as_str(), "first");
    first.ack().unwrap();
    assert!(world.bus.group("second", "g").is_none());
    eve.close();
    let mut eve = join().await.expect("what has a group is served");
    // Once there is room, it begins at the beginning: nothing is missed, and nobody has to join again.
    world.bus.set_quotas(vec![quota(QuotaOf::Subject("eve".into()), 10, 5)]);
    world.bus.housekeeping().await;
    assert_eq!(next(&mut eve).await.event().topic().as_str(), "second");
}

#[tokio::test(start_paused = true)]
async fn what_a_subject_has_made_is_known_after_a_restart() {
    let store = MemoryStore::new();
    let open = || {
        let quotas = vec![quota(QuotaOf::EverySubject, 2, 3)];
        Bus::builder(store.clone()).config(Config { quotas, ..Config::default() }).open()
    };
    let bus = open().await.unwrap();
    publish(&bus, "eve", "eve.0").await.unwrap();
    publish(&bus, "eve", "eve.1").await.unwrap();
    bus.subscribe("eve.*").on_behalf_of("eve").group("g").open().await.unwrap().close();
    bus.stop().await.unwrap();
    let bus = open().await.unwrap();
    assert_eq!(used(&bus, "eve"), (2, 3));
    assert_eq!(code(publish(&bus, "eve", "eve.2").await), Code::QuotaExceeded);
    assert_eq!(bus.maker_of(&"eve.0".parse().unwrap()).as_deref(), Some("eve"));
    assert_eq!(bus.subjects(None, 10).len(), 1);
    bus.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_keeps_too_many_bytes_takes_no_more() {
    let stored_bytes = Some(2_000);
    let rule = Quota { of: QuotaOf::EverySubject, topics: None, groups: None, stored_bytes };
    let world = world(vec![rule]).await;
    publish(&world.bus, "eve", "eve").await.unwrap();
    publish(&world.bus, "ada", "ada").await.unwrap();
    while publish(&world.bus, "eve", "eve").await.is_ok() {
        world.clock.advance(1_000).await;
    }
    assert_eq!(code(publish(&world.bus, "eve", "eve").await), Code::QuotaExceeded);
    assert!(world.bus.quota_of("eve").1.stored_bytes > 2_000);
    publish(&world.bus, "ada", "ada").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_hub_s_own_topics_are_nobody_s() {
    let world = world(vec![quota(QuotaOf::EverySubject, 9, 9)]).await;
    publish(&world.bus, "eve", "eve").await.unwrap();
    let mut all = world.bus.subscribe("**").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(next(&mut all).await.event().topic().as_str(), "eve");
    assert_eq!(world.bus.topics().iter().map(|topic| topic.as_str()).collect::<Vec<_>>(), ["eve"]);
    let id = EventId::from_bytes([7; 16]);
    assert_eq!(code(world.bus.publish("_hub.makers", json!(1)).id(id).await), Code::BadRequest);
    assert_eq!(code(world.bus.scan("_hub.makers", Position::Earliest, None).await), Code::BadRequest);
    assert_eq!(code(world.bus.subscribe("_hub.makers").group("g").open().await), Code::BadRequest);
}
