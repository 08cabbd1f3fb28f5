//! A wall clock that is set ahead: nothing leaves before its time.

use crate::world::scrape;
use hub_core::testkit::ManualClock;
use hub_core::{Bus, Config, EventId, MemoryStore, Millis, TopicSettings};
use prometheus_client::registry::Registry;
use serde_json::json;
use std::sync::Arc;

const HOUR: Millis = 60 * 60 * 1000;
const DAY: Millis = 24 * HOUR;
const MONTH: i64 = 30 * DAY as i64;

/// Keeps a day of events, and tombstones for an hour. What cleans is called by the tests.
fn config() -> Config {
    let kept = TopicSettings { retention_days: Some(1), ..TopicSettings::default() };
    let compacted = TopicSettings { compaction: true, tombstone_grace: HOUR, ..TopicSettings::default() };
    let config = Config { clean_interval: 10 * DAY, ..Config::default() };
    config.topic("kept", kept).unwrap().topic("compacted", compacted).unwrap()
}

struct World {
    store: Arc<MemoryStore>,
    clock: ManualClock,
    config: Config,
}

impl World {
    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new()), clock: ManualClock::new(), config: config() }
    }

    async fn open(&self, registry: &mut Registry) -> Bus {
        let builder = Bus::builder_over(self.store.clone()).clock(self.clock.clone());
        builder.config(self.config.clone()).open_with(registry).await.unwrap()
    }

    async fn bus(&self) -> Bus {
        self.open(&mut Registry::default()).await
    }
}

async fn fill(bus: &Bus) {
    for n in 1..=3 {
        bus.publish("kept", json!(n)).await.unwrap();
    }
    bus.publish("compacted", json!(1)).key("a").await.unwrap();
    bus.publish("compacted", json!(null)).key("a").await.unwrap();
    bus.publish("compacted", json!(1)).key("b").await.unwrap();
}

/// How many events are left on the two topics.
async fn cleaned(bus: &Bus) -> (u64, u64) {
    bus.clean("kept").await.unwrap();
    bus.clean("compacted").await.unwrap();
    (bus.bounds("kept").await.unwrap().events, bus.bounds("compacted").await.unwrap().events)
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_ahead_removes_nothing_until_it_is_believed() {
    let (world, mut registry) = (World::new(), Registry::default());
    let bus = world.open(&mut registry).await;
    fill(&bus).await;
    world.clock.jump(MONTH);
    assert_eq!(cleaned(&bus).await, (3, 2), "the overtaken value goes, its tombstone stays");
    let shows = |lead: i64| {
        let line = format!("\ncleaning_clock_ahead_seconds {}.0\n", lead / 1000);
        scrape(&registry).contains(&line)
    };
    assert!(shows(MONTH));
    world.clock.advance(23 * HOUR).await;
    assert_eq!(cleaned(&bus).await, (3, 1), "the hour of the tombstone has passed");
    world.clock.advance(2 * HOUR).await;
    assert_eq!(cleaned(&bus).await, (0, 1));
    assert!(shows(0));
}

#[tokio::test(start_paused = true)]
async fn ids_are_remembered_for_their_time_although_the_wall_clock_jumps() {
    let settings = TopicSettings { retention_bytes: Some(1), ..TopicSettings::default() };
    let config = config().topic("small", settings).unwrap();
    let world = World { config, ..World::new() };
    let bus = world.bus().await;
    let id = EventId::from_bytes([1; 16]);
    bus.publish("small", json!(1)).id(id).await.unwrap();
    bus.publish("small", json!(2)).await.unwrap();
    world.clock.jump(MONTH);
    bus.clean("small").await.unwrap();
    bus.clean("small").await.unwrap();
    let again = bus.publish("small", json!(1)).id(id).await.unwrap();
    assert!(again.duplicate && again.seq == 1, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_starts_with_a_clock_ahead_removes_nothing_until_it_is_believed() {
    let world = World::new();
    let bus = world.bus().await;
    fill(&bus).await;
    bus.subscribe("kept").group("g").open().await.unwrap().close();
    bus.stop().await.unwrap();
    world.clock.jump(2 * MONTH);
    let bus = world.bus().await;
    assert_eq!(cleaned(&bus).await, (3, 2));
    bus.housekeeping().await;
    assert!(bus.get_cursor("kept", "g").await.unwrap().is_some(), "no group expires");
    world.clock.advance(25 * HOUR).await;
    assert_eq!(cleaned(&bus).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn the_trusted_time_survives_a_restart_also_after_events_of_the_wrong_time() {
    let mut world = World::new();
    world.config.clean_interval = 30_000;
    let bus = world.bus().await;
    fill(&bus).await;
    world.clock.jump(MONTH);
    world.clock.advance(HOUR).await;
    bus.publish("kept", json!("of the wrong time")).await.unwrap();
    bus.stop().await.unwrap();
    let bus = world.bus().await;
    assert_eq!(cleaned(&bus).await.0, 4);
}
