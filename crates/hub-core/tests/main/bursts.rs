//! Events that are put in line together.

use crate::world::{World, code};
use hub_core::testkit::Fault;
use hub_core::{Added, Burst, Code, Config, Error, NewEvent, Receipt, Result, Sent};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn event(n: u64) -> NewEvent {
    NewEvent::new("t".parse().unwrap(), json!([n, "x".repeat(900)]).into())
}

/// Adds an event for which there has to be room.
fn add(burst: &mut Burst, n: u64) {
    assert!(matches!(burst.add(event(n)).unwrap(), Added::Taken), "there is room for {n}");
}

fn seqs(results: Vec<Result<Receipt>>) -> Vec<u64> {
    results.into_iter().map(|result| result.unwrap().seq).collect()
}

/// Commits from now on.
fn count_commits(world: &World) -> Arc<AtomicUsize> {
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    world.store.script(move |call| {
        counted.fetch_add(usize::from(call == "commit"), SeqCst);
        None
    });
    commits
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_together_is_one_commit_in_its_order() {
    let world = World::new().await;
    let mut burst = world.bus.burst();
    (1..=20).for_each(|n| add(&mut burst, n));
    // Whatever is committed before it is sent has nothing of it.
    assert_eq!(world.fill("t", [0]).await[0].seq, 1);
    let commits = count_commits(&world);
    assert_eq!(seqs(burst.send().unwrap().await), (2..=21).collect::<Vec<_>>());
    assert_eq!(commits.load(SeqCst), 1);
    assert!(burst.send().is_none(), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn bursts_are_committed_in_the_order_in_which_they_were_sent() {
    let world = World::new().await;
    let (mut one, mut two) = (world.bus.burst(), world.bus.burst());
    add(&mut one, 1);
    add(&mut two, 2);
    add(&mut one, 3);
    let second = two.send().unwrap();
    let first = one.send().unwrap();
    assert_eq!((seqs(first.await), seqs(second.await)), (vec![2, 3], vec![1]));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_is_not_published_and_takes_no_room() {
    let world = World::with(Config { queue_bytes: 1_500, ..Config::default() }).await;
    let mut burst = world.bus.burst();
    add(&mut burst, 1);
    assert!(matches!(burst.add(event(2)).unwrap(), Added::Crowded(_)));
    drop(burst);
    let mut burst = world.bus.burst();
    add(&mut burst, 3);
    assert_eq!(seqs(burst.send().unwrap().await), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_has_to_wait_for_room_comes_after_what_was_sent_before() {
    let world = World::with(Config { queue_bytes: 1_500, ..Config::default() }).await;
    let mut burst = world.bus.burst();
    add(&mut burst, 1);
    let Added::Crowded(one) = burst.add(event(2)).unwrap() else { panic!("there is no room for two") };
    let sent = burst.send().unwrap();
    let (checked, added) = burst.add_all(vec![Ok(event(3)), Err(Error::bad_request("why")), Ok(event(4))]);
    let Added::Crowded(several) = added else { panic!("nor for more") };
    // Who asks first is not who comes first: nothing but the line decides.
    let (one, several, sent) = tokio::join!(async { one.await.await }, async { several.await.await }, sent);
    assert_eq!((seqs(sent), seqs(one)), (vec![1], vec![2]));
    let mut results = checked.merge(several);
    assert_eq!(code(results.remove(1)), Code::BadRequest);
    assert_eq!(seqs(results), [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn events_that_are_bad_in_themselves_keep_their_places_and_go_nowhere() {
    let world = World::new().await;
    let mut burst = world.bus.burst();
    add(&mut burst, 1);
    let bad = || Err(Error::bad_request("why"));
    let (none, added) = burst.add_all(vec![bad(), bad()]);
    assert!(matches!(added, Added::Taken));
    assert_eq!((none.len(), none.good()), (2, 0));
    let (some, added) = burst.add_all(vec![bad(), Ok(event(2)), bad(), Ok(event(3))]);
    assert!(matches!(added, Added::Taken));
    assert_eq!((some.len(), some.good()), (4, 2));
    let mut receipts = burst.send().unwrap().await.into_iter();
    assert_eq!(receipts.next().unwrap().unwrap().seq, 1);
    assert!(none.merge(receipts.by_ref().take(0)).iter().all(Result::is_err));
    let seqs: Vec<_> = some.merge(receipts).into_iter().map(|result| result.ok().map(|it| it.seq)).collect();
    assert_eq!(seqs, [None, Some(2), None, Some(3)]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_for_room_hears_that_nothing_is_stored() {
    let world = World::with(Config { queue_bytes: 1_500, ..Config::default() }).await;
    world.break_all("commit", Fault::Stall(60_000));
    let mut burst = world.bus.burst();
    add(&mut burst, 1);
    let sent = burst.send().unwrap();
    let Added::Crowded(room) = burst.add(event(2)).unwrap() else { panic!("there is no room for two") };
    assert_refused(room.await).await;
    // What is in line may be stored yet.
    assert!(!sent.is_refused());
    assert_eq!(code(sent.await.remove(0)), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_is_sent_to_a_hub_that_has_stopped_is_refused() {
    let world = World::new().await;
    let mut burst = world.bus.burst();
    add(&mut burst, 1);
    world.bus.stop().await.unwrap();
    assert_refused(burst.send().unwrap()).await;
    assert_eq!(code(burst.add(event(2)).map(drop)), Code::Unavailable);
}

async fn assert_refused(sent: Sent) {
    assert!(sent.is_refused());
    for result in sent.await {
        let error = result.unwrap_err();
        assert!(error.code == Code::Unavailable && error.id.is_some(), "{error:?}");
        assert!(error.msg.contains("was not stored"), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_says_when_it_has_become_large() {
    let world = World::new().await;
    let (mut burst, mut taken) = (world.bus.burst(), 0);
    while !burst.is_full() {
        add(&mut burst, taken);
        taken += 1;
    }
    assert!((200..400).contains(&taken), "{taken} of a KiB");
    assert_eq!(burst.send().unwrap().await.len() as u64, taken);
    assert!(!burst.is_full());
}
