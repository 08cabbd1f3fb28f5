use hub_testbed::mongodb::bson::{Document, doc};
use hub_testbed::mongodb::{Client, Collection};
use hub_testbed::{Node, ReplicaSet};

async fn things(set: &ReplicaSet) -> Collection<Document> {
    Client::with_uri_str(set.uri()).await.unwrap().database("test").collection("things")
}

/// Some node that is not the primary.
async fn follower(set: &ReplicaSet) -> &Node {
    let primary = set.primary().await.unwrap().index();
    set.nodes().iter().find(|node| node.index() != primary).unwrap()
}

#[tokio::test]
async fn a_set_of_one_takes_majority_writes_and_survives_its_own_restart() {
    let set = ReplicaSet::start(1).await.unwrap();
    assert!(set.primary().await.unwrap().is_primary().await);
    let things = things(&set).await;
    things.insert_one(doc! { "_id": 1 }).await.unwrap();
    let node = &set.nodes()[0];
    node.kill().unwrap();
    assert!(!node.is_primary().await);
    assert_eq!(node.pid(), None);
    node.restart().await.unwrap();
    assert_eq!(set.primary().await.unwrap().index(), 0);
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 1);
    // Also one that runs.
    node.restart().await.unwrap();
    set.step_down().await.unwrap();
    things.insert_one(doc! { "_id": 2 }).await.unwrap();
}

#[tokio::test]
async fn a_step_down_makes_another_node_primary() {
    let set = ReplicaSet::start(3).await.unwrap();
    let things = things(&set).await;
    things.insert_one(doc! { "_id": 1 }).await.unwrap();
    let old = set.primary().await.unwrap().index();
    let new = set.step_down().await.unwrap().index();
    assert_ne!(new, old);
    assert_eq!(set.primary().await.unwrap().index(), new);
    things.insert_one(doc! { "_id": 2 }).await.unwrap();
}

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back_as_a_member() {
    let set = ReplicaSet::start(3).await.unwrap();
    let old = set.primary().await.unwrap();
    old.kill().unwrap();
    let new = set.primary().await.unwrap();
    assert_ne!(new.index(), old.index());
    things(&set).await.insert_one(doc! { "_id": 1 }).await.unwrap();
    old.restart().await.unwrap();
    // All three are needed now, so it is there and takes part.
    follower(&set).await.kill().unwrap();
    set.primary().await.unwrap();
    things(&set).await.insert_one(doc! { "_id": 2 }).await.unwrap();
}

#[tokio::test]
async fn a_frozen_primary_is_replaced_and_is_none_after_it_has_thawed() {
    let set = ReplicaSet::start(3).await.unwrap();
    let old = set.primary().await.unwrap();
    old.freeze().unwrap();
    assert!(!old.is_primary().await);
    let new = set.primary().await.unwrap();
    assert_ne!(new.index(), old.index());
    old.thaw().unwrap();
    // Whatever it still believes, the set knows better.
    assert_eq!(set.primary().await.unwrap().index(), new.index());
    things(&set).await.insert_one(doc! { "_id": 1 }).await.unwrap();
}

#[tokio::test]
async fn a_set_needs_a_sensible_number_of_nodes() {
    let error = ReplicaSet::start(0).await.unwrap_err().to_string();
    assert!(error.contains("1 to 7"), "{error}");
}
