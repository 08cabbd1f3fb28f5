//! How much a drainer takes at once, and how fast it gets on.

use super::*;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

impl World {
    async fn claimed(&self) -> usize {
        self.outbox.list(Some(RowStatus::Claimed), 10_000).await.unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn rows_whose_outcome_the_database_does_not_know_count_as_held() {
    let world = World::new().await;
    let drainer = world.drain("a");
    // It hears what became of rows far later than it gives out the next ones.
    drainer.store.script(|call| (call == "settle").then_some(OutboxFault::Slow(LEASE / 4)));
    world.add((0..500).map(|n| (n, None))).await;
    let mut most = 0;
    while world.outbox.counts().await.unwrap().pending > 0 {
        most = world.claimed().await.max(most);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Four batches of ten.
    assert!((20..=40).contains(&most), "{most} rows were claimed at once");
    assert_eq!(drainer.stop().await, Drained { sent: 500, ..Drained::default() });
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_large_rows_is_bounded_by_their_bytes_from_the_first_on() {
    const MIB: usize = 1 << 20;
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
    drainer.hub.script(|_| Some(Answer::Slow(100)));
    // Small rows tell nothing of those that come.
    world.add((1_000..1_400).map(|n| (n, None))).await;
    world.published(400).await;
    world.settled().await;
    let large = Payload::of(&"x".repeat(MIB - 2)).unwrap();
    let keys = ["a", "b", "c"];
    let rows = (0..60_u64).map(|n| {
        let key = keys.get(n as usize % 4).copied();
        NewRow { payload: large.clone(), at: (world.clock.wall() + n) * 1000, ..world.row(n, key) }
    });
    world.outbox.add(rows.collect()).await.unwrap();
    let mut most = 0;
    while world.outbox.counts().await.unwrap().pending > 0 {
        most = world.claimed().await.max(most);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Four claims of four MiB.
    assert!((4..=16).contains(&most), "{most} rows of 1 MiB were claimed at once");
    assert_eq!(drainer.stop().await, Drained { sent: 460, ..Drained::default() });
}

#[tokio::test(start_paused = true)]
async fn rows_of_one_key_do_not_wait_for_each_other_s_commit() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
    // The time of one commit, with any number of events in it.
    drainer.hub.script(|_| Some(Answer::Slow(100)));
    world.add((0..1_000).map(|n| (n, Some("k")))).await;
    let before = world.clock.steady();
    assert_eq!(world.published(1_000).await, (0..1_000).collect::<Vec<_>>());
    let took = world.clock.steady() - before;
    assert!(took < 1_000 * 100 / 10, "{took} ms for 1,000 rows");
    world.settled().await;
    assert_eq!(drainer.stop().await, Drained { sent: 1_000, ..Drained::default() });
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_of_a_key_s_rows_stops_those_behind_it() {
    for (code, parked) in [(Code::Forbidden, true), (Code::Internal, false), (Code::Unavailable, false)] {
        let world = World::new().await;
        let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
        let tries = Arc::new(AtomicUsize::new(0));
        let tried = tries.clone();
        drainer.hub.script(move |event| {
            (number(event.payload.as_bytes()) == 50).then(|| {
                tried.fetch_add(1, Relaxed);
                Answer::Refuse(code)
            })
        });
        world.add((0..100).map(|n| (n, Some("k")))).await;
        assert_eq!(world.published(50).await, (0..50).collect::<Vec<_>>());
        while tries.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Nothing overtakes it, whatever is tried meanwhile.
        tokio::time::sleep(Duration::from_millis(LEASE * 2)).await;
        assert_eq!(world.published(50).await.len(), 50);
        assert_eq!(world.status(50) == RowStatus::Error, parked);
        drainer.hub.heal();
        world.outbox.retry(None).await.unwrap();
        assert_eq!(world.published(100).await, (0..100).collect::<Vec<_>>());
        drainer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_event_has_stops_the_rows_behind_it() {
    let world = World::new().await;
    let other = NewEvent::new("t".parse().unwrap(), Payload::of(&7_777).unwrap()).with_id(id(50));
    world.hub.bus.send(other).await.unwrap();
    let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
    world.add((0..100).map(|n| (n, Some("k")))).await;
    let there: Vec<u64> = std::iter::once(7_777).chain(0..50).collect();
    assert_eq!(world.published(51).await, there);
    while world.status(50) != RowStatus::Error {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(2 * LEASE)).await;
    assert_eq!(world.published(51).await, there);
    assert_eq!((world.status(49), world.status(51)), (RowStatus::Sent, RowStatus::Pending));
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_one_key_can_be_of_several_topics_and_one_of_them_too_large() {
    let world = World::new().await;
    let large = Payload::of(&"x".repeat(world.hub.bus.config().max_payload)).unwrap();
    let rows = (0..90_u64).map(|n| {
        let row = NewRow { at: (world.clock.wall() + n) * 1000, ..world.row(n, Some("k")) };
        match n {
            60 => NewRow { payload: large.clone(), ..row },
            _ => NewRow { topic: ["t", "t", "u"][n as usize % 3].into(), ..row },
        }
    });
    world.outbox.add(rows.collect()).await.unwrap();
    let drainer = world.drain_with(DrainerOptions { batch_size: 100, ..options("a") });
    while world.status(60) != RowStatus::Error {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let of = |topic: u64| (0..60).filter(|n| (n % 3 == 2) == (topic == 1)).collect::<Vec<u64>>();
    assert_eq!(world.published(40).await, of(0));
    let others = world.hub.bus.scan("u", Position::Earliest, None).await.unwrap();
    assert_eq!(others.iter().map(|event| number(event.payload())).collect::<Vec<_>>(), of(1));
    assert!((61..90).all(|n| world.status(n) == RowStatus::Pending));
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_gone_and_still_in_the_way_are_not_passed_at_every_claim() {
    let world = World::new().await;
    let drainer = world.drain("a");
    // As on PostgreSQL while a transaction is open that could still see them.
    let looks = Arc::new(AtomicUsize::new(0));
    let looked = looks.clone();
    drainer.store.script(move |call| {
        looked.fetch_add(usize::from(call == "fresh"), Relaxed);
        (call == "fresh").then_some(OutboxFault::Slow(50))
    });
    let keys = ["a", "b", "c"];
    world.add((1_000..2_000).map(|n| (n, keys.get(n as usize % 4).copied()))).await;
    while world.log().await.len() < 500 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(looks.load(Relaxed) < 10, "the beginning was looked at {looks:?} times for 50 claims");
    // A row that commits late is found, and not behind all others.
    let row = NewRow { at: (world.clock.wall() - 60_000) * 1000, ..world.row(1, Some("late")) };
    world.outbox.add(vec![row]).await.unwrap();
    let log = world.published(1_001).await;
    for key in 0..3 {
        assert!(log.iter().filter(|n| **n > 1 && *n % 4 == key).is_sorted());
    }
    world.settled().await;
    // And without others at once.
    let row = NewRow { at: (world.clock.wall() - 60_000) * 1000, ..world.row(2, Some("late")) };
    let before = world.clock.steady();
    world.outbox.add(vec![row]).await.unwrap();
    world.published(1_002).await;
    assert!(world.clock.steady() - before < 200);
    drainer.stop().await;
}
