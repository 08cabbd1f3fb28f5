//! Several drainers of one outbox, and what becomes of those that die, freeze or leave.

use super::*;
use hub_core::outbox::{Claim, Outcome, Settled};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Rows of many keys: every slot has some.
fn many(from: u64, to: u64) -> impl Iterator<Item = (u64, Option<&'static str>)> {
    const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    (from..to).map(|n| (n, Some(KEYS[n as usize % KEYS.len()])))
}

fn assert_in_order(log: &[u64]) {
    for key in 0..12 {
        let of_key: Vec<_> = log.iter().filter(|n| *n % 12 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drainers_share_the_keys_and_keep_their_order() {
    let world = World::new().await;
    let drainers = ["a", "b", "c"].map(|worker| world.drain(worker));
    // Until they have come to terms.
    tokio::time::sleep(Duration::from_millis(4 * LEASE)).await;
    world.add(many(0, 600)).await;
    assert_in_order(&world.published(600).await);
    world.settled().await;
    for drainer in drainers {
        let drained = drainer.stop().await;
        assert!(drained.sent > 50, "{drained:?}");
        assert_eq!(drained.resets, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drainer_that_has_been_busy_everywhere_gives_another_one_its_part() {
    let world = World::new().await;
    let first = world.drain("a");
    world.add(many(0, 600)).await;
    world.published(600).await;
    world.settled().await;
    let second = world.drain("b");
    tokio::time::sleep(Duration::from_millis(2 * LEASE)).await;
    world.add(many(600, 1_200)).await;
    assert_in_order(&world.published(1_200).await);
    world.settled().await;
    let (first, second) = (first.stop().await, second.stop().await);
    assert!(first.sent > 700 && second.sent > 50, "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_drainer_claimed_and_did_not_hear_of_does_not_wait_for_its_time() {
    let world = World::new().await;
    let drainer = world.drain("a");
    let mut is_first = true;
    drainer.store.script(move |name| {
        let lost = name == "claim" && std::mem::take(&mut is_first);
        lost.then_some(OutboxFault::LoseAnswer)
    });
    let before = world.clock.steady();
    world.add(many(0, 8)).await;
    world.published(8).await;
    assert!(world.clock.steady() - before < LEASE / 3);
    assert_eq!(drainer.stop().await.resets, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_still_out_when_a_drainer_stops_does_not_wait_for_its_time() {
    let world = World::new().await;
    let stopping = world.drain("a");
    stopping.hub.script(|_| Some(Answer::Slow(100 * LEASE)));
    world.add(many(0, 8)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.status(0), RowStatus::Claimed);
    stopping.stop().await;
    assert!((0..8).all(|n| world.status(n) == RowStatus::Pending));
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_drainer_held_is_published_by_another() {
    let world = World::new().await;
    let dead = world.drain("a");
    // Its events get there, and it dies before it hears of that.
    dead.hub.script(|_| Some(Answer::Lose));
    world.add(many(0, 24)).await;
    while world.log().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    dead.task.abort();
    let other = world.drain("b");
    let log = world.published(24).await;
    assert_in_order(&log);
    world.settled().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drainer_that_wakes_up_late_settles_nothing_and_publishes_nothing_new() {
    let world = World::new().await;
    let frozen = world.drain("a");
    frozen.hub.script(|_| Some(Answer::Slow(10 * LEASE)));
    world.add(many(0, 24)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // It hears nothing of its database for that time, and its database nothing of it.
    frozen.store.script(|_| Some(OutboxFault::Slow(10 * LEASE)));
    let other = world.drain("b");
    let log = world.published(24).await;
    assert_in_order(&log);
    world.settled().await;
    tokio::time::sleep(Duration::from_millis(20 * LEASE)).await;
    assert_eq!(world.log().await, log);
    frozen.store.heal();
    frozen.hub.heal();
    world.add(many(24, 48)).await;
    assert_in_order(&world.published(48).await);
    world.settled().await;
    let woken = frozen.stop().await;
    assert!(woken.resets > 0, "{woken:?}");
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drainer_that_stops_gives_its_rows_back_at_once() {
    let world = World::new().await;
    let leaving = world.drain("a");
    leaving.hub.script(|_| Some(Answer::Refuse(Code::Unavailable)));
    world.add(many(0, 24)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.status(0), RowStatus::Claimed);
    leaving.stop().await;
    assert!((0..24).all(|n| world.status(n) == RowStatus::Pending));
    let before = world.clock.steady();
    let other = world.drain("b");
    assert_in_order(&world.published(24).await);
    assert!(world.clock.steady() - before < LEASE, "nobody waits for a lease");
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_database_that_is_lost_costs_no_event_and_makes_none_twice() {
    for call in ["claim", "settle", "share", "renew", "take_from", "put_behind", "release"] {
        let world = World::new().await;
        let drainer = world.drain("a");
        let times = Arc::new(AtomicU32::new(0));
        let lost = times.clone();
        drainer.store.script(move |name| {
            let times = lost.fetch_add(u32::from(name == call), Relaxed) + u32::from(name == call);
            // Nothing is taken from a drainer before one has begun anew.
            let begins_anew = call == "take_from" && times == 0 && name == "claim";
            (begins_anew || (name == call && times % 2 == 1)).then_some(OutboxFault::LoseAnswer)
        });
        let mut answers = 0;
        drainer.hub.script(move |_| {
            answers += 1;
            match answers % 7 {
                0 => Some(Answer::Refuse(Code::Internal)),
                // Nothing is renewed that is not held for a while.
                1 if call == "renew" => Some(Answer::Slow(LEASE)),
                _ => None,
            }
        });
        world.add(many(0, 60)).await;
        let log = world.published(60).await;
        assert_in_order(&log);
        world.settled().await;
        drainer.stop().await;
        assert!(times.load(Relaxed) > 0, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_once_costs_a_drainer_nothing() {
    // Whenever the rows come between two renewals.
    for after in (0..LEASE).step_by(100) {
        let world = World::new().await;
        let drainer = world.drain("a");
        drainer.hub.script(|_| Some(Answer::Slow(2 * LEASE)));
        let mut times = 0;
        drainer.store.script(move |name| {
            times += u32::from(name == "renew");
            (name == "renew" && times == 1).then_some(OutboxFault::Refuse)
        });
        tokio::time::sleep(Duration::from_millis(after)).await;
        world.add([(1, Some("a")), (2, Some("b"))]).await;
        world.published(2).await;
        world.settled().await;
        assert_eq!(drainer.stop().await.resets, 0, "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_done_too_late_is_none() {
    let world = World::new().await;
    let drainer = world.drain("a");
    drainer.hub.script(|_| Some(Answer::Slow(2 * LEASE)));
    // Claimed right before a renewal, which leaves it out, and gone by the time when the next one is done.
    tokio::time::sleep(Duration::from_millis(LEASE / 3 - 100)).await;
    drainer.store.script(|name| (name == "renew").then_some(OutboxFault::Slow(LEASE * 13 / 20)));
    world.add([(1, None)]).await;
    tokio::time::sleep(Duration::from_millis(LEASE * 3 / 2)).await;
    drainer.store.heal();
    drainer.hub.heal();
    world.published(1).await;
    world.settled().await;
    assert_eq!(drainer.stop().await.resets, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_drainer_with_a_hub_that_is_away_held_goes_on_with_another() {
    let world = World::new().await;
    let cut_off = world.drain("a");
    cut_off.hub.script(|_| Some(Answer::Refuse(Code::Unavailable)));
    let other = world.drain("b");
    // Until they have come to terms.
    tokio::time::sleep(Duration::from_millis(4 * LEASE)).await;
    world.add(many(0, 120)).await;
    assert_in_order(&world.published(120).await);
    // It is there all the while, and takes nothing from the other.
    let before = world.clock.steady();
    for n in 10..20 {
        world.add(many(n * 12, n * 12 + 12)).await;
        assert_in_order(&world.published(n as usize * 12 + 12).await);
    }
    assert!(world.clock.steady() - before < LEASE, "rows waited for a drainer that cannot publish them");
    assert_eq!(world.outbox.shares().await.unwrap().0.workers.len(), 2);
    // Its hub is there again: it takes its part.
    cut_off.hub.heal();
    tokio::time::sleep(Duration::from_millis(20 * LEASE)).await;
    world.add(many(240, 840)).await;
    assert_in_order(&world.published(840).await);
    world.settled().await;
    let (back, other) = (cut_off.stop().await, other.stop().await);
    assert!(back.sent > 50 && other.sent > 250, "{back:?} {other:?}");
    assert_eq!((back.resets, other.resets, back.parked + other.parked), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drainer_with_a_hub_that_is_away_goes_on_when_it_is_alone() {
    let world = World::new().await;
    let first = world.drain("a");
    first.hub.script(|_| Some(Answer::Refuse(Code::Unavailable)));
    let second = world.drain("b");
    second.hub.script(|_| Some(Answer::Refuse(Code::Unavailable)));
    world.add(many(0, 120)).await;
    tokio::time::sleep(Duration::from_millis(10 * LEASE)).await;
    // Both are cut off, then one is gone.
    second.task.abort();
    first.hub.heal();
    assert_in_order(&world.published(120).await);
    world.settled().await;
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rows_on_their_way_back_from_a_drainer_are_not_overtaken_by_its_next_claim() {
    let world = World::new().await;
    let (cut_off, other) = (world.drain("a"), world.drain("b"));
    // Until each has its part of the slots.
    tokio::time::sleep(Duration::from_millis(4 * LEASE)).await;
    let is_back = Arc::new(AtomicBool::new(false));
    let answers = is_back.clone();
    // The hub takes the first run that is tried again, so slowly that the drainer gives back the others meanwhile.
    cut_off.hub.script(move |_| match answers.load(Relaxed) {
        false => Some(Answer::Refuse(Code::Unavailable)),
        true => Some(Answer::Slow(LEASE * 2 / 3)),
    });
    world.add(many(0, 120)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    is_back.store(true, Relaxed);
    // The database hears what is given back only after the hub has answered and the drainer has claimed more.
    cut_off.store.script(|call| (call == "settle").then_some(OutboxFault::Slow(LEASE / 2)));
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.add(many(120, 240)).await;
    tokio::time::sleep(Duration::from_millis(LEASE)).await;
    cut_off.store.heal();
    cut_off.hub.heal();
    assert_in_order(&world.published(240).await);
    world.settled().await;
    let (cut_off, other) = (cut_off.stop().await, other.stop().await);
    assert!(cut_off.sent > 0 && other.sent > 0, "{cut_off:?} {other:?}");
    assert_eq!((cut_off.resets, other.resets), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_that_were_claimed_too_early_and_go_back_are_not_overtaken_by_the_next_claim() {
    let world = World::new().await;
    let drainer = world.drain("a");
    tokio::time::sleep(Duration::from_millis(LEASE)).await;
    drainer.store.script(|call| match call {
        "claim" => Some(OutboxFault::Slow(100)),
        "settle" => Some(OutboxFault::Slow(500)),
        _ => None,
    });
    world.add([(1, Some("k")), (2, Some("k"))]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    // Another drainer claims and publishes the first row while the claim of both is under way.
    let (claim, first) = (Claim { worker: "x".into(), number: 1 }, id(1));
    let claimed = world.outbox.claim(&claim, &[first.into()], LEASE, usize::MAX).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for row in claimed {
        world.hub.bus.send(row.event.unwrap()).await.unwrap();
        let sent = Settled { id: row.place.id, outcome: Outcome::Sent };
        assert_eq!(world.outbox.settle(&claim, &[sent]).await.unwrap(), 1);
    }
    // The second row is on its way back.
    world.add([(3, Some("k"))]).await;
    assert_eq!(world.published(3).await, [1, 2, 3]);
    world.settled().await;
    assert_eq!(drainer.stop().await.resets, 0);
}
