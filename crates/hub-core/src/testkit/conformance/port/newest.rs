//! The newest record of a key.

use super::super::Lab;
use super::tools::{ALL, Port, T0, holding, keyed, plain, replayed, seqs, tombstone, topic};
use crate::store::ReadLimit;
use hub_proto::{Draft, Key, NewEvent};

async fn newest(port: &Port, keys: &[&str]) -> Vec<Option<u64>> {
    let keys: Vec<Key> = keys.iter().map(|key| Key::from(*key)).collect();
    let newest = port.0.newest(&topic("t"), &keys).await.unwrap();
    newest.into_iter().map(|event| event.map(|event| event.seq())).collect()
}

async fn page(port: &Port, after: Option<&str>, limit: ReadLimit) -> Vec<u64> {
    seqs(&port.0.newest_page(&topic("t"), after, limit).await.unwrap())
}

pub(in super::super) async fn the_newest_record_of_each_key_is_answered(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "a"), plain(4)]).await;
    assert_eq!(newest(&port, &["b", "none", "a", "b"]).await, [Some(2), None, Some(3), Some(2)]);
    port.append(T0, vec![keyed(5, "b")]).await;
    assert_eq!(newest(&port, &["b"]).await, [Some(5)]);
    assert_eq!(newest(&port, &[]).await, []);
}

pub(in super::super) async fn tombstones_are_answered_by_key_and_left_out_of_pages(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), tombstone(3, "a")]).await;
    assert_eq!(newest(&port, &["a", "b"]).await, [Some(3), Some(2)]);
    assert_eq!(page(&port, None, ALL).await, [2]);
    port.append(T0, vec![keyed(4, "a")]).await;
    assert_eq!(page(&port, None, ALL).await, [4, 2], "a key can come back");
}

pub(in super::super) async fn records_replayed_for_one_group_are_passed_over(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), replayed(2, "a"), replayed(3, "b")]).await;
    assert_eq!(newest(&port, &["a", "b"]).await, [Some(1), None]);
    assert_eq!(page(&port, None, ALL).await, [1]);
    assert_eq!(port.read(1, ALL).await[0].audience(), Some("g"), "readers see them");
}

pub(in super::super) async fn pages_go_in_byte_order_of_the_keys(lab: Lab) {
    let port = lab.port().await;
    let keys = ["é", "a", "B", "", "a.b", "~", "aa", "😀", "\u{ffff}"];
    port.append(T0, (1..).zip(keys).map(|(n, key)| keyed(n, key)).collect()).await;
    let mut sorted: Vec<_> = keys.into();
    sorted.sort_unstable_by_key(|key| key.as_bytes());
    let events = port.0.newest_page(&topic("t"), None, ALL).await.unwrap();
    let got: Vec<_> = events.iter().map(|event| event.key().unwrap().to_string()).collect();
    assert_eq!(got, sorted);
    let rest = port.0.newest_page(&topic("t"), Some("a"), ALL).await.unwrap();
    let got: Vec<_> = rest.iter().map(|event| event.key().unwrap().to_string()).collect();
    assert_eq!(got, sorted[3..], "a page goes on after a key");
    let between = port.0.newest_page(&topic("t"), Some("a.a"), ReadLimit { events: 1, ..ALL }).await.unwrap();
    assert_eq!(between[0].key().map(|key| &**key), Some("a.b"), "also after one that is not there");
}

pub(in super::super) async fn a_page_stops_at_its_limits_and_brings_at_least_one(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![tombstone(1, "a"), keyed(2, "b"), keyed(3, "c"), keyed(4, "d")]).await;
    assert_eq!(page(&port, None, ReadLimit { events: 2, ..ALL }).await, [2, 3]);
    assert_eq!(page(&port, Some("c"), ReadLimit { events: 2, ..ALL }).await, [4]);
    assert_eq!(page(&port, None, ReadLimit { bytes: 1, ..ALL }).await, [2]);
    assert!(page(&port, Some("d"), ALL).await.is_empty());
}

pub(in super::super) async fn the_newest_by_seq_counts_and_not_by_time(lab: Lab) {
    let port = lab.port().await;
    let late = Draft::encode(
        NewEvent::new(topic("t"), super::tools::payload("\"old\"")).with_key("a"),
        super::tools::id(2),
        5,
    );
    port.append(T0, vec![holding(1, Some("a"), "\"new\""), late]).await;
    assert_eq!(newest(&port, &["a"]).await, [Some(2)]);
}
