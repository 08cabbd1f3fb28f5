//! Deleting topics that other hubs publish to and serve groups of.

use super::*;

/// Lets time pass until something holds.
async fn until(cluster: &Cluster, holds: impl Fn() -> bool) {
    let start = cluster.now();
    while !holds() {
        assert!(cluster.now() - start < 60_000, "it never came to be");
        cluster.clock.advance(20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_goes_on_all_hubs_with_the_groups_that_others_own() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    b.publish("t", 1..=3).await;
    let mut at_b = b.member("t").await.unwrap();
    consume(&mut at_b, 1).await;
    until(&cluster, || a.bus.has_topic("t")).await;
    let deleting = a.bus.clone();
    let deleted = tokio::spawn(async move { deleting.delete_topic("t").await });
    while !deleted.is_finished() {
        cluster.clock.advance(20).await;
    }
    let deleted = deleted.await.unwrap().unwrap();
    assert_eq!((deleted.topics, deleted.groups, deleted.events), (1, 1, 3));
    assert!(!a.bus.has_topic("t"));
    until(&cluster, || !b.bus.has_topic("t")).await;
    assert!(at_b.recv().await.is_err_and(|error| error.code == Code::NotSubscribed));
    // The name is free, and both hubs see what is published to it.
    b.publish("t", [4]).await;
    until(&cluster, || a.bus.has_topic("t")).await;
    let events = a.bus.scan("t", Position::Earliest, None).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq()).collect::<Vec<_>>(), [4]);
    assert!(a.bus.group("t", "g").is_none() && b.bus.group("t", "g").is_none());
    // A hub that starts later knows of it, too.
    let c = cluster.hub().await;
    assert_eq!(c.bus.scan("t", Position::Earliest, None).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn groups_that_their_owner_deletes_at_once_are_counted() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    b.publish("t", 1..=3).await;
    let _at_b = b.member("t").await.unwrap();
    until(&cluster, || a.bus.has_topic("t")).await;
    // B hears of the deletion, and has deleted its group, before A learns that the deletion is stored.
    a.store.script(|called| (called == "commit").then_some(Fault::Delay(2_000)));
    let deleting = a.bus.clone();
    let deleted = tokio::spawn(async move { deleting.delete_topic("t").await });
    until(&cluster, || b.bus.group("t", "g").is_none()).await;
    assert!(!deleted.is_finished());
    while !deleted.is_finished() {
        cluster.clock.advance(20).await;
    }
    assert_eq!(deleted.await.unwrap().unwrap().groups, 1);
}

#[tokio::test(start_paused = true)]
async fn the_group_of_a_hub_that_died_goes_with_its_topic() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    b.publish("t", 1..=3).await;
    let at_b = b.member("t").await.unwrap();
    b.bus.flush().await.unwrap();
    until(&cluster, || a.bus.has_topic("t")).await;
    b.cut_off();
    let deleting = a.bus.clone();
    let deleted = tokio::spawn(async move { deleting.delete_topic("t").await });
    while !deleted.is_finished() {
        cluster.clock.advance(20).await;
    }
    assert_eq!(deleted.await.unwrap().unwrap().groups, 1);
    assert!(!a.bus.has_topic("t"));
    drop((b, at_b));
    let c = cluster.hub().await;
    assert!(!c.bus.has_topic("t") && c.bus.elsewhere(&["t".parse().unwrap()]).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_cleans_finishes_the_deletion_of_one_that_died() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    until(&cluster, || b.bus.has_topic("t")).await;
    // A decides the deletion, and gets no further.
    let mut commits = 0;
    a.store.script(move |called| {
        commits += usize::from(called == "commit");
        (commits >= 2 || called == "delete").then_some(Fault::Refuse)
    });
    let deleting = a.bus.clone();
    let deleted = tokio::spawn(async move { deleting.delete_topic("t").await });
    while !deleted.is_finished() {
        cluster.clock.advance(20).await;
    }
    assert_eq!(code(deleted.await.unwrap()), Code::Unavailable);
    a.cut_off();
    drop(a);
    until(&cluster, || !b.bus.has_topic("t")).await;
    b.publish("t", [4]).await;
    assert_eq!(b.bus.scan("t", Position::Earliest, None).await.unwrap().len(), 1);
}
