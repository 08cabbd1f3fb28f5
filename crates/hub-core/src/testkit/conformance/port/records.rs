//! What is stored beside events.

use super::super::Lab;
use super::tools::{Port, T0, topic};
use crate::group::options::GroupOptions;
use crate::group::state::{GroupState, Progress, Tries};
use crate::store::{GroupRecord, Record, StoredGroup, SubscriptionRecord};
use hub_proto::{Filter, GroupName, Ordering};

pub(super) fn name(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

/// Options with every field set.
pub(super) fn options() -> GroupOptions {
    let filter = Filter {
        tags: vec!["red".into(), "grün".into()],
        key: Some("é\"".into()),
        headers: vec![("a".into(), "1".into()), ("b".into(), "\n".into())],
    };
    GroupOptions { filter, ordering: Ordering::Key, coalesce: true, max_attempts: 7 }
}

pub(super) fn group() -> GroupRecord {
    GroupRecord {
        topic: topic("t"),
        name: name("g"),
        options: options(),
        created: T0,
        idle_since: Some(T0 + 5),
        driven: true,
        born: 17,
    }
}

pub(super) fn subscription() -> SubscriptionRecord {
    SubscriptionRecord {
        label: "orders.*".into(),
        group: name("g"),
        topics: vec![topic("orders.a"), topic("orders.b")],
        options: options(),
        created: T0,
        idle_since: Some(T0 + 5),
    }
}

/// A step to floor 10 with everything else set, too.
pub(super) fn progress() -> Record {
    let tries = vec![(11, Tries { attempts: 3, failures: 2 }), (15, Tries { attempts: 0, failures: 0 })];
    let step =
        Progress { epoch: 2, reset: false, floor: 10, high: 20, settled: vec![(12, 14), (18, 20)], tries };
    Record::Progress(topic("t"), name("g"), step)
}

pub(super) fn state() -> GroupState {
    let mut state = GroupState::default();
    let Record::Progress(_, _, step) = progress() else { unreachable!("made above") };
    state.apply(&step);
    state
}

async fn groups(port: &Port) -> Vec<StoredGroup> {
    port.0.load().await.unwrap().groups
}

pub(in super::super) async fn a_group_is_loaded_as_it_was_written(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Group(group())]).await;
    assert_eq!(groups(&port).await, [StoredGroup { record: group(), state: GroupState::default() }]);
}

pub(in super::super) async fn progress_brings_a_group_forward(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Group(group()), progress()]).await;
    assert_eq!(groups(&port).await[0].state, state());
    let tries = vec![(16, Tries { attempts: 2, failures: 1 })];
    let step = Progress { epoch: 2, reset: false, floor: 14, high: 30, settled: vec![(25, 30)], tries };
    port.write(vec![Record::Progress(topic("t"), name("g"), step.clone())]).await;
    let mut expected = state();
    expected.apply(&step);
    assert_eq!(groups(&port).await[0].state, expected);
    let step = Progress { epoch: 3, reset: true, floor: 5, high: 5, settled: vec![], tries: vec![] };
    port.write(vec![Record::Progress(topic("t"), name("g"), step)]).await;
    assert_eq!(groups(&port).await[0].state, GroupState { epoch: 3, ..GroupState::at(5) });
}

pub(in super::super) async fn a_changed_group_keeps_its_progress(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Group(group()), progress()]).await;
    let changed = GroupRecord { options: GroupOptions::default(), idle_since: None, ..group() };
    port.write(vec![Record::Group(changed.clone())]).await;
    assert_eq!(groups(&port).await, [StoredGroup { record: changed, state: state() }]);
}

pub(in super::super) async fn progress_of_an_unknown_group_is_ignored(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![progress()]).await;
    assert_eq!(groups(&port).await, []);
    port.write(vec![Record::Group(group())]).await;
    assert_eq!(groups(&port).await[0].state, GroupState::default());
}

pub(in super::super) async fn a_group_that_is_gone_is_not_loaded(lab: Lab) {
    let port = lab.port().await;
    let other = GroupRecord { name: name("other"), ..group() };
    let elsewhere = GroupRecord { topic: topic("t.2"), ..group() };
    port.write([group(), other.clone(), elsewhere.clone()].map(Record::Group).into()).await;
    port.write(vec![Record::GroupGone(topic("t"), name("g"))]).await;
    let mut left: Vec<_> = groups(&port).await.into_iter().map(|group| group.record).collect();
    left.sort_by(|a, b| a.topic.cmp(&b.topic));
    assert_eq!(left, [other, elsewhere]);
}

pub(in super::super) async fn a_group_made_again_starts_without_progress(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Group(group()), progress()]).await;
    port.write(vec![Record::GroupGone(topic("t"), name("g"))]).await;
    port.write(vec![Record::Group(group())]).await;
    assert_eq!(groups(&port).await[0].state, GroupState::default());
}

pub(in super::super) async fn a_subscription_is_loaded_as_it_was_written(lab: Lab) {
    let port = lab.port().await;
    port.write(vec![Record::Subscription(subscription())]).await;
    assert_eq!(port.0.load().await.unwrap().subscriptions, [subscription()]);
    let changed = SubscriptionRecord { topics: vec![], idle_since: None, ..subscription() };
    port.write(vec![Record::Subscription(changed.clone())]).await;
    assert_eq!(port.0.load().await.unwrap().subscriptions, [changed]);
}

pub(in super::super) async fn a_subscription_that_is_gone_is_not_loaded(lab: Lab) {
    let port = lab.port().await;
    let other = SubscriptionRecord { group: name("other"), ..subscription() };
    port.write([subscription(), other.clone()].map(Record::Subscription).into()).await;
    port.write(vec![Record::SubscriptionGone("orders.*".into(), name("g"))]).await;
    assert_eq!(port.0.load().await.unwrap().subscriptions, [other]);
}

pub(in super::super) async fn writing_a_record_twice_changes_nothing_more(lab: Lab) {
    let port = lab.port().await;
    let records = [Record::Group(group()), progress(), Record::Subscription(subscription())];
    for record in &records {
        port.write(vec![record.clone()]).await;
        let once = port.0.load().await.unwrap();
        port.write(vec![record.clone()]).await;
        let twice = port.0.load().await.unwrap();
        assert_eq!((once.groups, once.subscriptions), (twice.groups, twice.subscriptions), "{record:?}");
    }
    let gone =
        [Record::GroupGone(topic("t"), name("g")), Record::SubscriptionGone("orders.*".into(), name("g"))];
    port.write(gone.clone().into()).await;
    port.write(gone.into()).await;
    let image = port.0.load().await.unwrap();
    assert!(image.groups.is_empty() && image.subscriptions.is_empty());
}

pub(in super::super) async fn records_of_one_commit_count_in_their_order(lab: Lab) {
    let port = lab.port().await;
    let gone = Record::GroupGone(topic("t"), name("g"));
    port.write(vec![Record::Group(group()), progress(), gone, Record::Group(group())]).await;
    assert_eq!(groups(&port).await, [StoredGroup { record: group(), state: GroupState::default() }]);
}
