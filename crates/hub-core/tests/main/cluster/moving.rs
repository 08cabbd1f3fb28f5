//! Members that move from one owner to another with what they hold.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_a_member_brings_along_is_not_delivered_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=5).await;
    let mut at_a = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    assert_eq!(consume(&mut at_a, 1).await, [1]);
    let (two, three) = (next(&mut at_a).await, next(&mut at_a).await);
    let held = at_a.held();
    assert_eq!(held.len(), 2);
    cluster.clock.advance(300).await;
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member_with("t", luggage(&b, held, vec![])).await.unwrap();
    assert_eq!(consume(&mut at_b, 2).await, [4, 5], "1 is settled, 2 and 3 are in hand");
    at_b.ack(two.event.id(), Some(two.attempt)).unwrap();
    at_b.nack(three.event.id(), Some(three.attempt), Some(0), "again").unwrap();
    let again = next(&mut at_b).await;
    assert_eq!((again.event.seq(), again.attempt), (3, 2));
    at_b.ack(again.event.id(), None).unwrap();
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 5);
}

#[tokio::test(start_paused = true)]
async fn what_was_acked_just_before_the_owner_died_is_settled() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut at_a = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    next(&mut at_a).await;
    let two = next(&mut at_a).await;
    let held = at_a.held();
    at_a.ack(two.event.id(), None).unwrap();
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let (settled, held): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.seq == 2);
    let mut at_b = b.member_with("t", luggage(&b, held, settled)).await.unwrap();
    assert_eq!(consume(&mut at_b, 1).await, [3]);
    assert_silent(&mut at_b).await;
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 0, "1 is still in hand");
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_delivers_nothing_before_members_elsewhere_have_reported() {
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let one_at_a_time = |hub: &Hub, at: &Hub, held| {
        let member = hub.bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(1);
        member.bringing(luggage(at, held, vec![])).open_by_id()
    };
    let mut of_b = one_at_a_time(&a, &b, vec![]).await.unwrap();
    let mut of_c = one_at_a_time(&a, &c, vec![]).await.unwrap();
    let (at_b, at_c) = (next(&mut of_b).await, next(&mut of_c).await);
    assert_ne!(at_b.event.seq(), at_c.event.seq());
    let (held_b, held_c) = (of_b.held(), of_c.held());
    cluster.clock.advance(300).await;
    drop((a, of_b, of_c));
    cluster.owned_by(&b, "g").await;
    let mut of_b = one_at_a_time(&b, &b, held_b).await.unwrap();
    of_b.ack(at_b.event.id(), Some(at_b.attempt)).unwrap();
    assert_eq!(b.bus.group("t", "g").unwrap().reason, Some(hub_core::Reason::TakingOver));
    let mut of_c = one_at_a_time(&b, &c, held_c).await.unwrap();
    assert_eq!(next(&mut of_b).await.event.seq(), 3, "not what the member at C holds");
    of_c.ack(at_c.event.id(), Some(at_c.attempt)).unwrap();
    assert_silent(&mut of_c).await;
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 2);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_started_a_moment_ago_is_waited_for_too() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    // B has not heard of this one yet.
    let c = cluster.hub().await;
    let mut of_c = a.member_with("t", luggage(&c, vec![], vec![])).await.unwrap();
    next(&mut of_c).await;
    let held = of_c.held();
    of_c.close();
    a.bus.hand_over().await;
    let mut of_b = b.member("t").await.unwrap();
    assert_eq!(b.bus.group("t", "g").unwrap().reason, Some(hub_core::Reason::TakingOver));
    let _of_c = b.member_with("t", luggage(&c, held, vec![])).await.unwrap();
    assert_silent(&mut of_b).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_reports_holds_nobody_up_for_long() {
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut of_c = a.member_with("t", luggage(&c, vec![], vec![])).await.unwrap();
    next(&mut of_c).await;
    drop((a, of_c));
    cluster.owned_by(&b, "g").await;
    let start = cluster.now();
    assert_eq!(consume(&mut b.member("t").await.unwrap(), 1).await, [1]);
    assert!((900..=1_200).contains(&(cluster.now() - start)), "{} ms", cluster.now() - start);
}

#[tokio::test(start_paused = true)]
async fn words_about_an_event_that_the_new_owner_has_not_come_by_yet_count() {
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=2).await;
    let mut of_b = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    let mut held_twice = Vec::new();
    for _ in 0..2 {
        held_twice.push(next(&mut of_b).await);
    }
    let _other = a.member_with("t", luggage(&c, vec![], vec![])).await.unwrap();
    let held = of_b.held();
    drop((a, of_b, _other));
    cluster.owned_by(&b, "g").await;
    let mut of_b = b.member_with("t", luggage(&b, held, vec![])).await.unwrap();
    of_b.ack(held_twice[0].event.id(), None).unwrap();
    assert_eq!(code(of_b.ack(held_twice[0].event.id(), None)), Code::UnknownId, "settled once");
    of_b.nack(held_twice[1].event.id(), None, Some(0), "no").unwrap();
    let again = next(&mut of_b).await;
    assert_eq!((again.event.seq(), again.attempt), (2, 2));
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_to_somebody_else_meanwhile_is_not_taken_up() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut first = a.member("t").await.unwrap();
    next(&mut first).await;
    let old = first.held();
    first.close();
    let mut second = a.member("t").await.unwrap();
    let again = next(&mut second).await;
    assert_eq!(again.attempt, 2);
    cluster.clock.advance(300).await;
    let held = second.held();
    drop((a, second));
    cluster.owned_by(&b, "g").await;
    let mut stale = b.member_with("t", luggage(&b, old.clone(), vec![])).await.unwrap();
    let mut holder = b.member_with("t", luggage(&b, held, vec![])).await.unwrap();
    let redelivered = next(&mut stale).await;
    assert_eq!(redelivered.attempt, 3, "the stale one had attempt 1, and was the first to come");
    assert_silent(&mut holder).await;
}

#[tokio::test(start_paused = true)]
async fn key_order_survives_a_move() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    for n in 0..4 {
        a.bus.publish("t", json!(n)).key("k").await.unwrap();
    }
    let ordered = |hub: &Hub, held| {
        let member = hub.bus.subscribe("t").group("g").ordering(hub_core::Ordering::Key);
        member.from(Position::Earliest).bringing(luggage(&b, held, vec![])).open_by_id()
    };
    let mut member = ordered(&a, vec![]).await.unwrap();
    let one = next(&mut member).await;
    let held = member.held();
    drop((a, member));
    cluster.owned_by(&b, "g").await;
    let mut member = ordered(&b, held).await.unwrap();
    assert_silent(&mut member).await;
    member.ack(one.event.id(), None).unwrap();
    assert_eq!(consume(&mut member, 3).await, [2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_not_widened_by_a_move() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=6).await;
    let narrow = |hub: &Hub, held| {
        let member = hub.bus.subscribe("t").group("g").max_in_flight(2).from(Position::Earliest);
        member.bringing(luggage(&b, held, vec![])).open_by_id()
    };
    let mut other = a.member("t").await.unwrap();
    let lost = next(&mut other).await;
    assert_eq!(lost.event.seq(), 1);
    let mut member = narrow(&a, vec![]).await.unwrap();
    // The other one had room for all: it gives back what it has not taken.
    other.subscription().pause();
    let held: Vec<_> =
        [next(&mut member).await, next(&mut member).await].map(|handed| handed.event.id()).into();
    let luggage = member.held();
    drop((a, member, other));
    cluster.owned_by(&b, "g").await;
    let mut member = narrow(&b, luggage).await.unwrap();
    assert_silent(&mut member).await;
    member.ack(held[1], None).unwrap();
    next(&mut member).await;
    assert_silent(&mut member).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_vanished_at_another_hub_has_its_oldest_event_blamed() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=2).await;
    let member = |max| {
        let member = a.bus.subscribe("t").group("g").max_attempts(max).from(Position::Earliest);
        member.bringing(luggage(&b, vec![], vec![])).open_by_id()
    };
    let mut one = member(1).await.unwrap();
    let (first, _second) = (next(&mut one).await, next(&mut one).await);
    one.vanish(Some(first.event.id()));
    let mut two = member(1).await.unwrap();
    let again = next(&mut two).await;
    assert_eq!((again.event.seq(), again.attempt), (2, 2), "1 is a dead letter, 2 did nothing wrong");
    cluster.clock.advance(1_000).await;
    assert_eq!(a.bus.scan("dlq.t", Position::Earliest, None).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn patterns_move_with_what_their_members_hold() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("orders.x", 1..=2).await;
    a.publish("orders.y", 1..=2).await;
    let mut member = a.member_with("orders.*", luggage(&b, vec![], vec![])).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(next(&mut member).await.event.id());
    }
    let held = member.held();
    assert_eq!(held.len(), 3);
    drop((a, member));
    cluster.owned_by(&b, "g").await;
    let mut member = b.member_with("orders.*", luggage(&b, held, vec![])).await.unwrap();
    let last = next(&mut member).await;
    assert!(!ids.contains(&last.event.id()));
    assert_silent(&mut member).await;
    for id in ids {
        member.ack(id, None).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_hub_lost_the_group_still_knows_what_it_holds_and_settles_nothing() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut at_a = a.member("t").await.unwrap();
    let (one, two) = (next(&mut at_a).await, next(&mut at_a).await);
    cluster.clock.advance(300).await;
    a.cut_off();
    cluster.owned_by(&b, "g").await;
    a.store.heal();
    cluster.clock.advance(1_000).await;
    let ended = std::future::poll_fn(|cx| at_a.poll_ended(cx)).await;
    assert_eq!(ended.code, Code::NotOwner);
    assert_eq!(code(at_a.ack(one.event.id(), None)), Code::NotOwner);
    assert_eq!(at_a.held_of(one.event.id()).map(|held| held.seq), Some(1));
    let held = at_a.held();
    assert_eq!(held.len(), 2, "{held:?}");
    let mut at_b = b.member_with("t", luggage(&a, held, vec![])).await.unwrap();
    assert_eq!(consume(&mut at_b, 1).await, [3]);
    at_b.ack(one.event.id(), Some(1)).unwrap();
    at_b.ack(two.event.id(), Some(1)).unwrap();
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_never_reached_its_consumer_was_not_delivered() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut member = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    let handed = next(&mut member).await;
    member.unsent(handed.event.id(), Some(handed.attempt)).unwrap();
    assert_eq!(code(member.ack(handed.event.id(), None)), Code::UnknownId);
    assert_eq!(next(&mut member).await.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_about_to_stop_gives_up_what_has_no_members_and_takes_nothing() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut of_b = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    assert_eq!(consume(&mut of_b, 1).await, [1]);
    next(&mut of_b).await;
    let held = of_b.held();
    let mut last = a.member("t").await.unwrap();
    a.bus.wind_down();
    a.bus.hand_over().await;
    assert_eq!(code(b.member("t").await), Code::NotOwner, "it has members");
    of_b.close();
    assert_silent(&mut last).await;
    last.close();
    a.bus.hand_over().await;
    assert_eq!(b.bus.owner_of("g").await, Ok(Owner::Here));
    assert_eq!(code(a.bus.owner_of("other").await), Code::Unavailable);
    let mut other = b.member("t").await.unwrap();
    assert_eq!(b.bus.group("t", "g").unwrap().reason, Some(hub_core::Reason::TakingOver), "B had a member");
    let mut of_b = b.member_with("t", luggage(&b, held, vec![])).await.unwrap();
    assert_eq!(consume(&mut other, 1).await, [3]);
    assert_silent(&mut of_b).await;
}

#[tokio::test(start_paused = true)]
async fn time_that_a_member_asked_for_is_good_with_the_next_owner() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut at_a = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    let (one, two, three) = (next(&mut at_a).await, next(&mut at_a).await, next(&mut at_a).await);
    at_a.extend(one.event.id(), None, 600_000).unwrap();
    let mut held = at_a.held();
    assert!(held[0].left.is_some_and(|left| left > 590_000), "{held:?}");
    assert_eq!((held[1].left, held[2].left), (None, None), "these have the usual time");
    held[2].left = Some(u64::MAX);
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member_with("t", luggage(&b, held, vec![])).await.unwrap();
    cluster.clock.advance(60_000).await;
    let again = next(&mut at_b).await;
    assert_eq!((again.event.id(), again.attempt), (two.event.id(), 2), "the time of this one is over");
    at_b.ack(again.event.id(), None).unwrap();
    assert_silent(&mut at_b).await;
    at_b.ack(one.event.id(), Some(1)).unwrap();
    let left = at_b.extend(three.event.id(), Some(1), 0).unwrap();
    assert!((42_000_000..=43_200_000).contains(&left), "12 hours at most: {left}");
    at_b.ack(three.event.id(), Some(1)).unwrap();
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 3);
}

#[tokio::test(start_paused = true)]
async fn time_asked_for_before_the_new_owner_came_by_is_brought_to_the_one_after_it() {
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut at_a = a.member_with("t", luggage(&c, vec![], vec![])).await.unwrap();
    let one = next(&mut at_a).await;
    let held = at_a.held();
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member_with("t", luggage(&c, held, vec![])).await.unwrap();
    assert_eq!(at_b.extend(one.event.id(), None, 600_000), Ok(600_000));
    let held = at_b.held();
    assert_eq!((held.len(), held[0].left), (1, Some(600_000)));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_goes_on_with_what_it_holds_and_the_rest_was_never_delivered() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=5).await;
    let mut member = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    for _ in 0..4 {
        next(&mut member).await;
    }
    let mut held = member.held();
    member.subscription().pause();
    let mut other = a.member("t").await.unwrap();
    assert_eq!(consume(&mut other, 1).await, [5], "nobody had it in hand");
    assert_silent(&mut other).await;
    // It has the first, acked the second, and never got the others; of the last it knows an older delivery.
    held[0].left = Some(600_000);
    held[3].attempt = 7;
    member.come_back(&[held[0].clone(), held[3].clone()], &held[1..2]);
    for seq in [3, 4] {
        let handed = next(&mut other).await;
        assert_eq!((handed.event.seq(), handed.attempt), (seq, 1));
        other.ack(handed.event.id(), None).unwrap();
    }
    cluster.clock.advance(60_000).await;
    assert_silent(&mut other).await;
    member.ack(held[0].id, Some(1)).unwrap();
    assert_eq!(a.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 5);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_before_its_owner_came_by_what_it_brought_is_believed() {
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut at_a = a.member_with("t", luggage(&c, vec![], vec![])).await.unwrap();
    for _ in 0..3 {
        next(&mut at_a).await;
    }
    let held = at_a.held();
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member_with("t", luggage(&c, held.clone(), vec![])).await.unwrap();
    at_b.come_back(&held[..1], &held[1..2]);
    let again = next(&mut at_b).await;
    assert_eq!(again.event.seq(), 3, "it was handed back");
    at_b.ack(again.event.id(), None).unwrap();
    assert_silent(&mut at_b).await;
    at_b.ack(held[0].id, Some(1)).unwrap();
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 3);
}

#[tokio::test(start_paused = true)]
async fn a_seek_is_not_undone_by_what_members_bring_to_the_next_owner() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=4).await;
    let mut at_a = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    let handed = [next(&mut at_a).await, next(&mut at_a).await, next(&mut at_a).await, next(&mut at_a).await];
    let (settled, held): (Vec<_>, Vec<_>) = at_a.held().into_iter().partition(|held| held.seq <= 2);
    for done in &handed[..2] {
        at_a.ack(done.event.id(), None).unwrap();
    }
    at_a.subscription().pause();
    a.bus.set_cursor("t", "g", Position::Earliest).await.unwrap();
    // The hub of the member has not heard of the seek.
    drop((a, at_a));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member_with("t", luggage(&b, held, settled)).await.unwrap();
    // Nor does its user know which delivery this is about.
    let _ = at_b.ack(handed[3].event.id(), Some(1));
    assert_eq!(consume(&mut at_b, 4).await, [1, 2, 3, 4], "everything is to be read again");
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 4);
}

#[tokio::test(start_paused = true)]
async fn a_seek_is_not_undone_by_a_member_that_comes_back() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut member = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    for _ in 0..3 {
        next(&mut member).await;
    }
    let before = member.held();
    a.bus.set_cursor("t", "g", Position::Earliest).await.unwrap();
    for _ in 0..3 {
        next(&mut member).await;
    }
    // Its user has what was delivered before the seek, and acked the first; nothing that came since has arrived.
    member.come_back(&before[1..], &before[..1]);
    assert_eq!(consume(&mut member, 3).await, [1, 2, 3], "everything is to be read again");
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_delivers_nothing_while_members_elsewhere_keep_reporting() {
    const MEMBERS: u32 = 100;
    let cluster = Cluster::new();
    let (a, b, c) = (cluster.hub().await, cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=150).await;
    let one_at_a_time = |hub: &Hub, held| {
        let luggage = Luggage { members: MEMBERS, ..luggage(&c, held, vec![]) };
        let member = hub.bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(1);
        member.bringing(luggage).open_by_id()
    };
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        let mut member = one_at_a_time(&a, vec![]).await.unwrap();
        next(&mut member).await;
        members.push(member);
    }
    let held: Vec<_> = members.iter().map(ById::held).collect();
    cluster.clock.advance(300).await;
    drop((a, members));
    cluster.owned_by(&b, "g").await;
    let mut other = b.member("t").await.unwrap();
    let mut members = Vec::new();
    for held in held {
        // All of them take several times as long as a new owner waits for the first.
        cluster.clock.advance(40).await;
        assert_eq!(b.bus.group("t", "g").unwrap().reason, Some(hub_core::Reason::TakingOver));
        members.push(one_at_a_time(&b, held).await.unwrap());
    }
    assert_eq!(consume(&mut other, 50).await, (101..=150).collect::<Vec<_>>(), "not what members hold");
    assert_silent(&mut other).await;
}

#[tokio::test(start_paused = true)]
async fn an_ack_counts_as_saved_when_the_store_has_it() {
    let cluster = Cluster::new();
    let a = cluster.hub().await;
    a.publish("t", 1..=2).await;
    let mut member = a.member("t").await.unwrap();
    cluster.clock.advance(300).await;
    assert_eq!(consume(&mut member, 1).await, [1]);
    let mark = member.save_mark();
    assert!(!member.is_saved(mark));
    cluster.clock.advance(300).await;
    assert!(member.is_saved(mark));
    assert!(member.is_saved(member.save_mark()), "there is nothing to save");
    a.store.script(|call| (call == "commit").then_some(Fault::Refuse));
    assert_eq!(consume(&mut member, 1).await, [2]);
    let mark = member.save_mark();
    cluster.clock.advance(1_000).await;
    assert!(!member.is_saved(mark));
    a.store.heal();
    cluster.clock.advance(1_000).await;
    assert!(member.is_saved(mark));
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_was_not_saved_before_the_group_was_lost_never_counts_as_saved() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut member = a.member("t").await.unwrap();
    cluster.clock.advance(300).await;
    a.cut_off();
    assert_eq!(consume(&mut member, 1).await, [1]);
    let mark = member.save_mark();
    cluster.owned_by(&b, "g").await;
    a.store.heal();
    cluster.clock.advance(2_000).await;
    assert_eq!(std::future::poll_fn(|cx| member.poll_ended(cx)).await.code, Code::NotOwner);
    assert!(!member.is_saved(mark) && !member.is_saved(member.save_mark()));
}
