//! A store says how it is doing; the bus and the metrics show it.

use crate::world::{World, scrape};
use hub_core::store::EventStore;
use hub_core::testkit::{Fault, FaultyStore};
use hub_core::{Bus, Health, MemoryStore};
use prometheus_client::registry::Registry;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The metrics of a store's health as a scraper sees them, in order.
fn shown(registry: &Registry) -> Vec<String> {
    let names = ["store_available ", "store_damaged_records ", "store_failed_commits_total "];
    let about_health = |line: &&str| names.iter().any(|name| line.starts_with(name));
    scrape(registry).lines().filter(about_health).map(str::to_owned).collect()
}

const WELL: [&str; 3] = ["store_available 1", "store_damaged_records 0", "store_failed_commits_total 0"];
const ILL: [&str; 3] = ["store_available 0", "store_damaged_records 3", "store_failed_commits_total 7"];

fn ill() -> Health {
    let warnings = vec!["topic t: 3 records are damaged".into()];
    Health { unavailable: Some("the disk is full".into()), warnings, damaged: 3, failed_commits: 7 }
}

/// A store that only this bus and the registry can keep alive.
async fn open(
    registry: &mut Registry,
    health: impl FnMut() -> Health + Send + 'static,
) -> (Bus, Weak<dyn EventStore>) {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    store.set_health(health);
    let store: Arc<dyn EventStore> = Arc::new(store);
    let alive = Arc::downgrade(&store);
    (Bus::builder_over(store).open_with(registry).await.unwrap(), alive)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_nothing_about_itself_is_well() {
    let world = World::new().await;
    assert_eq!(world.bus.health(), Health::default());
    assert_eq!(shown(&world.registry), WELL);
}

#[tokio::test(start_paused = true)]
async fn the_bus_and_the_metrics_show_what_the_store_says_now() {
    let world = World::new().await;
    world.store.set_health(ill);
    assert_eq!(world.bus.health(), ill());
    assert_eq!(shown(&world.registry), ILL);
    world.store.heal();
    assert_eq!(world.bus.health(), Health::default());
    assert_eq!(shown(&world.registry), WELL);
}

#[tokio::test(start_paused = true)]
async fn warnings_alone_do_not_make_a_store_unavailable() {
    let world = World::new().await;
    world.store.set_health(|| Health { unavailable: None, ..ill() });
    assert_eq!(shown(&world.registry)[0], "store_available 1");
}

#[tokio::test(start_paused = true)]
async fn a_decorator_passes_on_how_the_store_inside_is_doing() {
    let inside = FaultyStore::new(Arc::new(MemoryStore::new()));
    inside.set_health(ill);
    assert_eq!(FaultyStore::new(Arc::new(inside)).health(), ill());
}

#[tokio::test(start_paused = true)]
async fn health_is_answered_while_the_store_hangs() {
    let world = World::new().await;
    world.break_all("commit", Fault::Stall(60_000));
    let bus = world.bus.clone();
    let publishing = tokio::spawn(async move { bus.publish("t", serde_json::json!(1)).await });
    world.clock.advance(1_000).await;
    assert!(!publishing.is_finished());
    world.store.set_health(ill);
    assert_eq!((world.bus.health(), shown(&world.registry)), (ill(), ILL.map(String::from).to_vec()));
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn health_metrics_have_the_type_and_the_help_of_the_contract() {
    let world = World::new().await;
    let text = world.metrics();
    for line in [
        "# TYPE store_available gauge",
        "# HELP store_available Whether the store takes commits: 1 or 0.",
        "# TYPE store_damaged_records gauge",
        "# TYPE store_failed_commits counter",
    ] {
        assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line} in:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_does_not_keep_the_store_of_a_stopped_bus_alive() {
    let mut registry = Registry::default();
    let (bus, store) = open(&mut registry, Health::default).await;
    assert_eq!(shown(&registry), WELL);
    bus.stop().await.unwrap();
    drop(bus);
    assert!(store.upgrade().is_none(), "the store is still held");
    assert!(shown(&registry).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_bus_shows_nothing_even_if_somebody_holds_its_store() {
    let World { store, bus, registry, .. } = World::new().await;
    store.set_health(ill);
    drop(bus);
    assert!(shown(&registry).is_empty());
    assert_eq!(store.health(), ill());
}

#[tokio::test(start_paused = true)]
async fn of_two_buses_one_after_the_other_on_one_registry_the_newer_is_shown() {
    let mut registry = Registry::default();
    let (first, _) = open(&mut registry, ill).await;
    assert_eq!(shown(&registry), ILL);
    first.stop().await.unwrap();
    let (second, _) = open(&mut registry, Health::default).await;
    assert_eq!(shown(&registry), WELL, "`first` was stopped; its handle is still there");
    assert_eq!(first.health(), ill());
    drop(second);
    assert!(shown(&registry).is_empty());
}

#[test]
fn a_scrape_under_way_does_not_keep_the_store_past_the_end_of_its_bus() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut registry = Registry::default();
    let (asked, scraping) = std::sync::mpsc::channel();
    let slowly = move || {
        asked.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        ill()
    };
    let (bus, store) = runtime.block_on(open(&mut registry, slowly));
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| shown(&registry));
        scraping.recv().unwrap();
        runtime.block_on(bus.stop()).unwrap();
        drop(bus);
        assert!(store.upgrade().is_none(), "the scrape holds the store");
        assert_eq!(scraper.join().unwrap(), ILL);
    });
}
