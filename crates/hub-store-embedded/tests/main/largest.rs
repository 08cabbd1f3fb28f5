//! The largest events that the store takes, and what becomes of larger ones.

use crate::ledger::small;
use crate::threads::{LIMIT, options};
use hub_core::{Bus, Code, Config, EventId, Position};
use hub_store_embedded::disk::sim::SimDisk;
use hub_store_embedded::{EmbeddedStore, MAX_PAYLOAD};
use std::sync::Arc;

#[test]
fn an_event_of_the_largest_size_gets_into_the_dead_letters() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = SimDisk::new(1);
        let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), options()).unwrap();
        let config = Config { max_payload: MAX_PAYLOAD, ..Config::default() };
        let bus = Bus::builder(store).config(config).open().await.unwrap();
        // What takes most room as JSON: six bytes for one.
        let wide = |bytes: usize| "\u{1}".repeat(bytes);
        let topic = "t".repeat(200);
        let payload = serde_json::Value::from("x".repeat(MAX_PAYLOAD - 2));
        let mut publish = bus.publish(&topic, payload).key(wide(512)).header("h", wide(8 * 1024 - 1));
        for number in 0..64_u8 {
            publish = publish.tag(wide(512)).caused_by(EventId::from_bytes([number; 16]));
        }
        publish.await.unwrap();
        let group = bus.subscribe(&topic).group(&"g".repeat(200)).from(Position::Earliest).max_attempts(1);
        let mut group = group.open().await.unwrap();
        let delivery = tokio::time::timeout(LIMIT, group.recv()).await.unwrap().unwrap();
        delivery.nack(&wide(4096)).unwrap();
        let letters = bus.subscribe(&format!("dlq.{topic}")).group("ops").from(Position::Earliest);
        let mut letters = letters.open().await.unwrap();
        let letter = tokio::time::timeout(LIMIT, letters.recv()).await.expect("it is buried").unwrap();
        assert!(letter.event().json().len() > MAX_PAYLOAD);
        bus.stop().await.unwrap();
    });
}

#[tokio::test]
async fn a_bus_that_allows_larger_payloads_than_its_store_is_not_opened() {
    let disk = SimDisk::new(1);
    let store = EmbeddedStore::open_on(Arc::new(disk.for_this_life()), small()).unwrap();
    let config = Config { max_payload: MAX_PAYLOAD + 1, ..Config::default() };
    let error = Bus::builder(store).config(config).open().await.err().unwrap();
    assert_eq!(error.code, Code::BadRequest);
    assert!(error.msg.contains("at most 15728640"), "{error}");
}
