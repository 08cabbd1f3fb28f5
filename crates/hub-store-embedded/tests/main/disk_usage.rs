//! What the store says that it takes of its disk.

use hub_core::store::{DiskUsage, EventStore};
use hub_core::{Bus, Config, TopicSettings};
use hub_store_embedded::{EmbeddedStore, Options};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn disk_usage_counts_segments_and_the_bytes_that_topics_keep() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let store = Arc::new(EmbeddedStore::open(directory.path(), options).unwrap());
    let few = TopicSettings { retention_bytes: Some(10_000), ..TopicSettings::default() };
    let config = Config::default().topic("t", few).unwrap();
    let bus = Bus::builder_over(store.clone()).config(config).open().await.unwrap();
    let usage = || store.disk_usage().unwrap();
    let DiskUsage { segments, live_bytes, .. } = usage();
    assert_eq!((segments, live_bytes), (1, 0));
    for n in 0..300 {
        bus.publish("t", json!({"n": n, "text": "x".repeat(400)})).await.unwrap();
    }
    let full = usage();
    assert!(full.segments > 2 && full.live_bytes > 100_000, "{full:?}");
    assert!(full.bytes >= full.live_bytes && full.free_bytes.is_some_and(|free| free > 0), "{full:?}");
    assert_eq!(full.live_bytes, bus.bounds("t").await.unwrap().bytes);
    bus.clean("t").await.unwrap();
    assert!(usage().live_bytes <= 10_000, "{:?}", usage());
    bus.stop().await.unwrap();
}
