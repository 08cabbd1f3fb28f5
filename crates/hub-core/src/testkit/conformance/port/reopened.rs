//! The same data, opened again.

use super::super::Lab;
use super::append::{ODD, assert_full, full};
use super::ids::wipe;
use super::records::{group, progress, state, subscription};
use super::tools::{ALL, T0, holding, id, keyed, known, new, plain, seqs, timed, tombstone, topic};
use crate::store::{CleanPolicy, Record, StoredGroup};
use hub_proto::Key;

pub(in super::super) async fn events_are_the_same_bytes_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    let mut drafts = vec![full()];
    drafts.extend((2..).zip(ODD).map(|(n, json)| holding(n, None, json)));
    let written = port.append(T0, drafts).await;
    drop(port);
    let port = lab.port().await;
    let read = port.read(0, ALL).await;
    assert_eq!(read, written);
    assert_full(&read[0]);
}

pub(in super::super) async fn seqs_and_ids_go_on_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    let bounds = port.0.bounds(&topic("t")).await.unwrap();
    drop(port);
    let port = lab.port().await;
    assert_eq!(port.0.load().await.unwrap().topics, [(topic("t"), bounds)]);
    let mut answers = port.commit(T0, vec![plain(2), plain(3), holding(1, None, "7")]).await;
    assert_eq!((known(&answers[0]), known(&answers[2])), ((2, true), (1, false)));
    assert_eq!(new(answers.remove(1)).seq(), 3);
    assert_eq!(port.0.seq_of(&topic("t"), id(1)).await.unwrap(), Some(1));
}

pub(in super::super) async fn ids_with_a_time_are_known_after_a_reopen(lab: Lab) {
    for life in 1..=3 {
        let port = lab.port().await;
        // The newest, and one that is older than all.
        let (high, low) = (100 + life, 50 - life);
        let appended = port.append(T0, vec![timed("t", high), timed("t", low)]).await;
        assert_eq!(seqs(&appended), [2 * life - 1, 2 * life]);
        drop(port);
        let port = lab.port().await;
        let answers = port.commit(T0, vec![timed("t", high), timed("t", low), timed("t", 101)]).await;
        let places: Vec<_> = answers.iter().map(known).collect();
        assert_eq!(places, [(2 * life - 1, true), (2 * life, true), (1, true)]);
    }
}

pub(in super::super) async fn commit_times_do_not_go_back_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0 + 50, vec![plain(1)]).await;
    drop(port);
    let port = lab.port().await;
    assert_eq!(port.append(T0, vec![plain(2)]).await[0].committed(), T0 + 50);
    assert_eq!(port.0.seq_before(&topic("t"), T0 + 50).await.unwrap(), 0);
}

pub(in super::super) async fn what_was_cleaned_stays_cleaned_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "a"), plain(4)]).await;
    port.clean(CleanPolicy { compact: true, ids_since: T0, ..CleanPolicy::default() }).await;
    let bounds = port.0.bounds(&topic("t")).await.unwrap();
    drop(port);
    let port = lab.port().await;
    assert_eq!(port.seqs().await, [2, 3, 4]);
    assert_eq!(port.0.bounds(&topic("t")).await.unwrap(), bounds);
}

pub(in super::super) async fn cleaned_ids_are_remembered_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "k"), plain(2)]).await;
    port.append(T0 + 20, vec![plain(3)]).await;
    port.clean(wipe()).await;
    drop(port);
    let port = lab.port().await;
    let answers = port.commit(T0 + 30, vec![keyed(1, "k"), holding(2, None, "\"other\"")]).await;
    assert_eq!((known(&answers[0]), known(&answers[1])), ((1, true), (2, false)));
    assert_eq!(port.0.seq_of(&topic("t"), id(2)).await.unwrap(), Some(2));
}

pub(in super::super) async fn the_newest_by_key_is_known_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), keyed(2, "b"), tombstone(3, "a"), keyed(4, "c"), keyed(5, "b")])
        .await;
    drop(port);
    let port = lab.port().await;
    let keys = ["a", "b", "c", "d"].map(Key::from);
    let newest = port.0.newest(&topic("t"), &keys).await.unwrap();
    let newest: Vec<_> = newest.into_iter().map(|event| event.map(|event| event.seq())).collect();
    assert_eq!(newest, [Some(3), Some(5), Some(4), None]);
    assert_eq!(seqs(&port.0.newest_page(&topic("t"), None, ALL).await.unwrap()), [5, 4]);
}

pub(in super::super) async fn groups_and_subscriptions_survive_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Group(group()), progress(), Record::Subscription(subscription())]).await;
    drop(port);
    let image = lab.port().await.0.load().await.unwrap();
    assert_eq!(image.groups, [StoredGroup { record: group(), state: state() }]);
    assert_eq!(image.subscriptions, [subscription()]);
}

pub(in super::super) async fn an_emptied_topic_keeps_its_count_after_a_reopen(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    port.clean(CleanPolicy { committed_before: Some(T0 + 1), ..CleanPolicy::default() }).await;
    drop(port);
    let port = lab.port().await;
    assert_eq!(seqs(&port.append(T0, vec![plain(3)]).await), [3]);
}
