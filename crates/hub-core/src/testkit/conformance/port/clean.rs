//! Cleaning: by age, by size, by key.

use super::super::Lab;
use super::tools::{ALL, Port, T0, holding, keyed, on, plain, replayed, seqs, tombstone, topic};
use crate::store::CleanPolicy;
use hub_proto::Key;

const COMPACT: CleanPolicy = CleanPolicy {
    committed_before: None,
    max_bytes: None,
    compact: true,
    tombstones_before: T0,
    keep_above: None,
    ids_since: T0,
};

async fn bytes(port: &Port) -> u64 {
    port.0.bounds(&topic("t")).await.unwrap().bytes
}

pub(in super::super) async fn an_empty_policy_keeps_everything(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "a"), tombstone(3, "a"), plain(4)]).await;
    assert_eq!(port.clean(CleanPolicy::default()).await.removed, 0);
    assert_eq!(port.seqs().await, [1, 2, 3, 4]);
}

pub(in super::super) async fn what_was_committed_before_a_time_goes(lab: Lab) {
    let port = lab.port().await;
    for (n, at) in [(1, 0), (2, 10), (3, 20), (4, 30)] {
        port.append(T0 + at, vec![plain(n)]).await;
    }
    let cleaned = port.clean(CleanPolicy { committed_before: Some(T0 + 20), ..CleanPolicy::default() }).await;
    assert_eq!((cleaned.removed, cleaned.bounds.first, cleaned.bounds.last), (2, 3, 4));
    assert_eq!(port.seqs().await, [3, 4], "one committed at that very time stays");
}

pub(in super::super) async fn the_oldest_go_until_the_rest_fits(lab: Lab) {
    let port = lab.port().await;
    let json = format!("\"{}\"", "x".repeat(1000));
    port.append(T0, (1..=10).map(|n| holding(n, None, &json)).collect()).await;
    let max_bytes = bytes(&port).await / 2;
    let cleaned = port.clean(CleanPolicy { max_bytes: Some(max_bytes), ..CleanPolicy::default() }).await;
    assert!(cleaned.bounds.bytes <= max_bytes, "{} of {max_bytes}", cleaned.bounds.bytes);
    let left = port.seqs().await;
    assert_eq!(left.last(), Some(&10));
    assert!((4..=5).contains(&left.len()), "no more goes than has to: {left:?}");
    assert_eq!(left[0], 11 - left.len() as u64, "the oldest go");
}

pub(in super::super) async fn compaction_keeps_the_newest_of_each_key(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "a"), keyed(4, "c"), keyed(5, "a")]).await;
    assert_eq!(port.clean(COMPACT).await.removed, 2);
    assert_eq!(port.seqs().await, [2, 4, 5]);
}

pub(in super::super) async fn compaction_leaves_keyless_records_alone(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), keyed(2, "a"), holding(3, None, "null"), replayed(4, "a"), plain(5)])
        .await;
    assert_eq!(port.clean(CleanPolicy { tombstones_before: T0 + 99, ..COMPACT }).await.removed, 0);
    assert_eq!(port.seqs().await, [1, 2, 3, 4, 5]);
}

pub(in super::super) async fn a_tombstone_stays_for_its_grace(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), tombstone(2, "a")]).await;
    port.append(T0 + 10, vec![tombstone(3, "b")]).await;
    port.clean(COMPACT).await;
    assert_eq!(port.seqs().await, [2, 3], "the value goes, its tombstone stays");
    port.clean(CleanPolicy { tombstones_before: T0 + 10, ..COMPACT }).await;
    assert_eq!(port.seqs().await, [3]);
}

pub(in super::super) async fn nothing_above_a_seq_goes_if_so_asked(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), tombstone(2, "a"), keyed(3, "b"), tombstone(4, "b")]).await;
    let policy = CleanPolicy { tombstones_before: T0 + 1, keep_above: Some(2), ..COMPACT };
    port.clean(policy).await;
    assert_eq!(port.seqs().await, [3, 4], "however overtaken or old it is");
    port.clean(CleanPolicy { committed_before: Some(T0 + 1), max_bytes: Some(0), ..policy }).await;
    assert_eq!(port.seqs().await, [3, 4]);
}

pub(in super::super) async fn an_older_value_does_not_come_back_with_a_tombstone_gone(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), tombstone(2, "a"), keyed(3, "b")]).await;
    port.clean(CleanPolicy { tombstones_before: T0 + 1, ..COMPACT }).await;
    let newest = port.0.newest(&topic("t"), &[Key::from("a")]).await.unwrap();
    assert_eq!(newest, [None]);
    assert_eq!(seqs(&port.0.newest_page(&topic("t"), None, ALL).await.unwrap()), [3]);
    assert_eq!(port.seqs().await, [3]);
}

pub(in super::super) async fn compaction_makes_room_before_size_does(lab: Lab) {
    let port = lab.port().await;
    let json = format!("\"{}\"", "x".repeat(1000));
    port.append(T0, vec![holding(1, Some("a"), &json)]).await;
    port.append(T0, (2..=10).map(|n| holding(n, Some("b"), &json)).collect()).await;
    let max_bytes = bytes(&port).await / 2;
    port.clean(CleanPolicy { max_bytes: Some(max_bytes), ..COMPACT }).await;
    assert_eq!(port.seqs().await, [1, 10], "what is left after compaction fits");
}

pub(in super::super) async fn seqs_go_on_after_everything_was_cleaned(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    port.append(T0, vec![plain(3)]).await;
    let bounds =
        port.clean(CleanPolicy { committed_before: Some(T0 + 1), ..CleanPolicy::default() }).await.bounds;
    // A store may keep the newest record: it is what the numbering goes by.
    assert!(bounds.first >= 3 && bounds.last == 3, "{bounds:?}");
    assert_eq!(seqs(&port.append(T0 + 5, vec![plain(4)]).await), [4]);
}

pub(in super::super) async fn cleaning_twice_changes_nothing_more(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "a"), keyed(3, "b"), tombstone(4, "b")]).await;
    let once = port.clean(COMPACT).await;
    let twice = port.clean(COMPACT).await;
    assert_eq!((once.removed, twice.removed), (2, 0));
    assert_eq!(once.bounds, twice.bounds);
}

pub(in super::super) async fn cleaning_concerns_one_topic(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), on("other", 2)]).await;
    port.append(T0 + 9, vec![plain(3)]).await;
    port.clean(CleanPolicy { committed_before: Some(T0 + 1), ..CleanPolicy::default() }).await;
    assert_eq!(seqs(&port.0.read(&topic("other"), 0, ALL).await.unwrap()), [1]);
}
