//! What a failure does to its row, to its key and to others.

use super::*;

/// The number of an event.
fn of(event: &NewEvent) -> u64 {
    number(event.payload.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_parks_nothing_and_counts_for_nothing() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { max_attempts: 2, ..options("a") });
    let mut code = Code::Unavailable;
    drainer.hub.script(move |_| {
        code = if code == Code::Unavailable { Code::RateLimited } else { Code::Unavailable };
        Some(Answer::Refuse(code))
    });
    world.add((0..30).map(|n| (n, Some(["a", "b", "c"][n as usize % 3])))).await;
    // Far longer than a lease, and than two attempts.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(world.log().await.is_empty());
    drainer.hub.heal();
    let log = world.published(30).await;
    for key in 0..3 {
        assert!(log.iter().filter(|n| *n % 3 == key).is_sorted());
    }
    world.settled().await;
    let drained = drainer.stop().await;
    assert_eq!((drained.parked, drained.retried, drained.resets), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_taken_is_parked_at_once_and_holds_its_key() {
    for code in [Code::Forbidden, Code::TooLarge, Code::IdConflict, Code::BadRequest, Code::SchemaViolation] {
        let world = World::new().await;
        let drainer = world.drain("a");
        drainer.hub.script(move |event| (of(event) == 1).then_some(Answer::Refuse(code)));
        world.add([(0, Some("k")), (1, Some("k")), (2, Some("k")), (3, Some("other")), (4, None)]).await;
        world.published(3).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.published(3).await.len(), 3);
        let (status, error) = world.outbox.row(id(1)).unwrap();
        assert_eq!(status, RowStatus::Error);
        assert!(error.unwrap().contains("on purpose"));
        assert_eq!(world.status(2), RowStatus::Pending);
        // What comes later waits with it.
        world.add([(5, Some("k"))]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        drainer.hub.heal();
        assert_eq!(world.outbox.retry(Some(&[id(1).into()])).await.unwrap(), 1);
        let log = world.published(6).await;
        let of_key: Vec<_> = log.into_iter().filter(|n| [0, 1, 2, 5].contains(n)).collect();
        assert_eq!(of_key, [0, 1, 2, 5]);
        assert_eq!(drainer.stop().await.parked, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn skipping_lets_the_rest_of_the_key_go_on() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { on_error: OnError::Skip, ..options("a") });
    drainer.hub.script(|event| (of(event) == 1).then_some(Answer::Refuse(Code::Forbidden)));
    world.add([(0, Some("k")), (1, Some("k")), (2, Some("k")), (3, Some("k"))]).await;
    assert_eq!(world.published(3).await, [0, 2, 3]);
    assert_eq!(world.status(1), RowStatus::Error);
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn anything_else_backs_off_and_holds_its_key_until_it_is_enough() {
    let world = World::new().await;
    let drainer = world.drain_with(DrainerOptions { max_attempts: 3, ..options("a") });
    let tries = Arc::new(Mutex::new(Vec::new()));
    let (noted, clock) = (tries.clone(), world.clock.clone());
    drainer.hub.script(move |event| {
        (of(event) == 1).then(|| {
            noted.lock().push(clock.steady());
            Answer::Refuse(Code::Internal)
        })
    });
    world.add((0..20).map(|n| (n, Some("k")))).await;
    world.add([(20, Some("other"))]).await;
    world.published(2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.published(2).await, [0, 20]);
    let tries = std::mem::take(&mut *tries.lock());
    assert_eq!(tries.len(), 3);
    assert!(tries[1] - tries[0] >= 250 && tries[2] - tries[1] >= 500, "{tries:?}");
    assert_eq!(world.status(1), RowStatus::Error);
    drainer.hub.heal();
    world.outbox.retry(None).await.unwrap();
    let log = world.published(21).await;
    assert!(log.iter().filter(|n| **n != 20).is_sorted());
    let drained = drainer.stop().await;
    assert_eq!((drained.retried, drained.parked), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_row_with_a_bad_topic_is_parked_with_a_reason() {
    let world = World::new().await;
    let drainer = world.drain("a");
    world.outbox.add(vec![NewRow { topic: "no topic!".into(), ..world.row(1, None) }]).await.unwrap();
    world.settled().await;
    let (status, error) = world.outbox.row(id(1)).unwrap();
    assert_eq!(status, RowStatus::Error);
    assert!(error.unwrap().contains("topic"));
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_go_on_when_somebody_has_removed_what_they_were_behind() {
    let world = World::new().await;
    let drainer = world.drain("a");
    drainer.hub.script(|event| (of(event) == 0).then_some(Answer::Refuse(Code::Forbidden)));
    world.add((0..5).map(|n| (n, Some("k")))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.log().await.is_empty());
    assert!(world.outbox.remove(id(0)));
    assert_eq!(world.published(4).await, [1, 2, 3, 4]);
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_there_once() {
    let world = World::new().await;
    let drainer = world.drain("a");
    let mut lost = 0;
    drainer.hub.script(move |_| {
        lost += 1;
        (lost <= 5).then_some(Answer::Lose)
    });
    world.add((0..20).map(|n| (n, Some("k")))).await;
    assert_eq!(world.published(20).await, (0..20).collect::<Vec<_>>());
    world.settled().await;
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_is_waited_for() {
    let world = World::new().await;
    let drainer = world.drain("a");
    drainer.store.script(|_| Some(OutboxFault::Refuse));
    world.add((0..20).map(|n| (n, Some("k")))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    drainer.store.heal();
    assert_eq!(world.published(20).await, (0..20).collect::<Vec<_>>());
    world.settled().await;
    assert_eq!(drainer.stop().await.parked, 0);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_for_a_moment_costs_a_moment() {
    let world = World::new().await;
    let drainer = world.drain("a");
    world.add((0..20).map(|n| (n, Some("k")))).await;
    world.published(20).await;
    drainer.store.script(|_| Some(OutboxFault::Refuse));
    world.add((20..40).map(|n| (n, Some("k")))).await;
    tokio::time::sleep(Duration::from_millis(LEASE / 2)).await;
    drainer.store.heal();
    let before = world.clock.steady();
    world.published(40).await;
    let took = world.clock.steady() - before;
    assert!(took < LEASE / 2, "{took} ms: it had to wait for a name that it had itself");
    drainer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_has_had_enough_holds_up_no_other() {
    let world = World::new().await;
    let drainer = world.drain("a");
    drainer.hub.script(|event| (of(event) == 0).then_some(Answer::Refuse(Code::RateLimited)));
    world.add((0..10).map(|n| (n, None))).await;
    world.published(9).await;
    drainer.hub.heal();
    world.published(10).await;
    assert_eq!(drainer.stop().await.parked, 0);
}
