//! A subject that publishes to many topics, on a store whose commits take longer with each.

use super::*;
use hub_core::{Added, NewEvent, Payload};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn events(prefix: &str, count: usize) -> Vec<Result<NewEvent>> {
    let event = |n: usize| {
        let topic = format!("{prefix}.{n}").parse().unwrap();
        Ok(NewEvent::new(topic, Payload::from(json!(n))))
    };
    (0..count).map(event).collect()
}

/// Counts commits that have events of this hub.
fn count_commits(hub: &Hub) -> Arc<AtomicUsize> {
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    hub.store.script(move |called| {
        counted.fetch_add(usize::from(called == "commit"), SeqCst);
        None
    });
    commits
}

#[tokio::test(start_paused = true)]
async fn a_batch_over_many_topics_is_committed_in_parts_and_answered_whole() {
    let cluster = Cluster::new();
    let hub = cluster.hub().await;
    let commits = count_commits(&hub);
    let mut burst = hub.bus.burst();
    burst.set_subject("eve");
    let (checked, added) = burst.add_all(events("junk", 200));
    let Added::Crowded(room) = added else { panic!("64 topics at once") };
    assert_eq!(checked.good(), 200);
    assert!(burst.send().is_none());
    let receipts = checked.merge(room.await.await);
    assert!(receipts.iter().all(|receipt| receipt.as_ref().is_ok_and(|receipt| receipt.seq == 1)));
    assert!(commits.load(SeqCst) >= 4, "{commits:?}");
    // Within its topics nothing waits.
    let (_, added) = burst.add_all(events("junk", 64));
    assert!(matches!(added, Added::Taken));
    assert_eq!(burst.send().unwrap().await.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn another_subject_does_not_wait_for_it() {
    let cluster = Cluster::new();
    let hub = cluster.hub().await;
    // The first commit hangs, with as many topics of eve as she may have in line.
    let mut first = Some(Fault::Delay(1_000));
    hub.store.script(move |called| if called == "commit" { first.take() } else { None });
    let burst = |subject: &str| {
        let mut burst = hub.bus.burst();
        burst.set_subject(subject);
        burst
    };
    let (mut eve, mut again, mut bob) = (burst("eve"), burst("eve"), burst("bob"));
    assert!(matches!(eve.add_all(events("junk", 64)).1, Added::Taken));
    let hanging = eve.send().unwrap();
    assert!(matches!(again.add_all(events("more", 1)).1, Added::Crowded(_)), "over all her connections");
    assert!(matches!(again.add_all(events("junk", 1)).1, Added::Taken), "a topic counts once");
    assert!(matches!(bob.add_all(events("orders", 1)).1, Added::Taken));
    let (again, bob) = (again.send().unwrap(), bob.send().unwrap());
    cluster.clock.advance(1_500).await;
    assert_eq!((hanging.await.len(), again.await.len(), bob.await.len()), (64, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn events_of_one_connection_keep_their_order_over_the_parts() {
    let cluster = Cluster::new();
    let hub = cluster.hub().await;
    let mut burst = hub.bus.burst();
    burst.set_subject("eve");
    let mut all = events("junk", 100);
    // The last event of the batch is the first topic's second.
    all.extend(events("junk", 1));
    let (checked, Added::Crowded(room)) = burst.add_all(all) else { panic!("64 topics at once") };
    let receipts = checked.merge(room.await.await);
    assert_eq!(receipts[0].as_ref().unwrap().seq, 1);
    assert_eq!(receipts[100].as_ref().unwrap().seq, 2);
}

#[tokio::test(start_paused = true)]
async fn a_subject_that_waits_too_long_is_told_that_nothing_was_stored() {
    let cluster = Cluster::new();
    let hub = cluster.hub().await;
    hub.store.script(|called| (called == "commit").then_some(Fault::Stall(600_000)));
    let mut burst = hub.bus.burst();
    burst.set_subject("eve");
    assert!(matches!(burst.add_all(events("junk", 64)).1, Added::Taken));
    let hanging = burst.send().unwrap();
    let (_, Added::Crowded(room)) = burst.add_all(events("more", 1)) else { panic!("64 topics at once") };
    let room = tokio::spawn(room);
    cluster.clock.advance(60_000).await;
    let results = room.await.unwrap().await;
    assert_eq!(results[0].as_ref().unwrap_err().code, Code::Unavailable);
    assert!(
        hanging
            .await
            .iter()
            .all(|result| result.as_ref().is_err_and(|error| error.code == Code::Unavailable))
    );
}
