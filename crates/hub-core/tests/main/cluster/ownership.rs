//! Who owns a group, and what happens when that changes.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_first_hub_with_a_member_owns_the_group() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut member = b.member("t").await.unwrap();
    assert_eq!(code(a.member("t").await), Code::NotOwner);
    let Owner::There(owner) = a.bus.owner_of("g").await.unwrap() else { panic!("it is not here") };
    assert_eq!((owner.id, owner.address.as_str()), (b.id(), "ws://hub.test/"));
    assert_eq!(consume(&mut member, 3).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn groups_of_other_names_have_owners_of_their_own() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let _one = a.bus.subscribe("t").group("one").open().await.unwrap();
    let _two = b.bus.subscribe("t").group("two").open().await.unwrap();
    assert_eq!(a.bus.owner_of("one").await, Ok(Owner::Here));
    assert_eq!(b.bus.owner_of("two").await, Ok(Owner::Here));
}

#[tokio::test(start_paused = true)]
async fn everything_of_one_name_has_one_owner() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let _member = a.bus.subscribe("orders.*").group("g").open().await.unwrap();
    assert_eq!(code(b.bus.subscribe("returns").group("g").open().await), Code::NotOwner);
    assert_eq!(code(b.bus.subscribe("**").group("g").open().await), Code::NotOwner);
    assert_eq!(code(b.bus.set_cursor("orders.a", "g", Position::Earliest).await), Code::BadRequest);
}

#[tokio::test(start_paused = true)]
async fn a_group_without_members_is_given_up_and_goes_on_elsewhere() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=4).await;
    let mut member = a.member("t").await.unwrap();
    assert_eq!(consume(&mut member, 2).await, [1, 2]);
    member.close();
    assert_eq!(code(b.member("t").await), Code::NotOwner, "not at once: it may come back");
    let took = cluster.owned_by(&b, "g").await;
    assert!(took <= 7_000, "{took} ms");
    assert_eq!(consume(&mut b.member("t").await.unwrap(), 2).await, [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_group_with_members_is_never_given_up() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let _member = a.member("t").await.unwrap();
    cluster.clock.advance(60_000).await;
    assert_eq!(code(b.member("t").await), Code::NotOwner);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_dies_is_replaced_within_six_seconds() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=4).await;
    let mut member = a.member("t").await.unwrap();
    assert_eq!(consume(&mut member, 2).await, [1, 2]);
    cluster.clock.advance(300).await;
    drop((a, member));
    let Owner::There(_) = b.bus.owner_of("g").await.unwrap() else { panic!("a hub is not dead at once") };
    let took = cluster.owned_by(&b, "g").await;
    assert!((3_500..=6_000).contains(&took), "{took} ms");
    let mut member = b.member("t").await.unwrap();
    assert_eq!(consume(&mut member, 2).await, [3, 4], "what was acked is saved");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_stops_is_replaced_at_once() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=4).await;
    let mut member = a.member("t").await.unwrap();
    assert_eq!(consume(&mut member, 2).await, [1, 2]);
    a.bus.stop().await.unwrap();
    assert_eq!(b.bus.owner_of("g").await, Ok(Owner::Here));
    assert_eq!(consume(&mut b.member("t").await.unwrap(), 2).await, [3, 4]);
    assert_eq!(b.bus.hubs().len(), 2, "seen at the next heartbeat");
    cluster.clock.advance(1_000).await;
    assert_eq!(b.bus.hubs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_lost_a_group_delivers_nothing_and_moves_no_cursor() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=6).await;
    let mut at_a =
        a.bus.subscribe("t").group("g").from(Position::Earliest).max_in_flight(2).open_by_id().await.unwrap();
    let first = next(&mut at_a).await;
    a.cut_off();
    cluster.clock.advance(3_500).await;
    at_a.ack(first.event.id(), None).unwrap();
    let late = next(&mut at_a).await;
    assert_eq!(late.event.seq(), 2, "what was in its queue before");
    assert_silent(&mut at_a).await;
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member("t").await.unwrap();
    assert_eq!(consume(&mut at_b, 3).await, [1, 2, 3]);
    cluster.clock.advance(300).await;
    a.store.heal();
    cluster.clock.advance(1_000).await;
    assert_eq!(at_a.recv().await.unwrap_err().code, Code::NotOwner);
    assert_eq!(b.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 3);
    assert_eq!(consume(&mut at_b, 3).await, [4, 5, 6]);
    drop((a, at_a));
    cluster.clock.advance(1_000).await;
    b.bus.stop().await.unwrap();
    let c = cluster.hub().await;
    c.member("t").await.unwrap();
    assert_eq!(c.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 6, "what B saved is what is stored");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_moves_no_group() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=2).await;
    let mut member = a.member("t").await.unwrap();
    assert_eq!(consume(&mut member, 1).await, [1]);
    a.cut_off();
    b.cut_off();
    cluster.clock.advance(30_000).await;
    a.store.heal();
    b.store.heal();
    cluster.clock.advance(500).await;
    assert!(matches!(b.bus.owner_of("g").await, Ok(Owner::There(_))));
    cluster.clock.advance(10_000).await;
    assert!(matches!(b.bus.owner_of("g").await, Ok(Owner::There(_))));
    assert_eq!(consume(&mut member, 1).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_kills_nobody() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let _member = a.member("t").await.unwrap();
    for jump in [86_400_000, -86_400_000 * 2] {
        cluster.clock.jump(jump);
        cluster.clock.advance(10_000).await;
        assert!(matches!(b.bus.owner_of("g").await, Ok(Owner::There(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_made_again() {
    let cluster = Cluster::new();
    let a = cluster.hub().await;
    for call in ["claim", "estate", "owner"] {
        let mut fault = Some(Fault::LoseAnswer);
        a.store.script(move |called| if called == call { fault.take() } else { None });
        assert_eq!(code(a.bus.subscribe("t").group(call).open().await), Code::Unavailable);
        a.bus.subscribe("t").group(call).open().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_hub_cleans_and_another_one_when_that_is_dead() {
    let config = || {
        Config { clean_interval: 1_000, ..Config::default() }
            .topic("t", hub_core::TopicSettings { compaction: true, ..Default::default() })
    };
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub_with(config().unwrap()).await, cluster.hub_with(config().unwrap()).await);
    let overtake = |hub: &Hub| {
        let bus = hub.bus.clone();
        async move {
            for n in 0..3 {
                bus.publish("t", json!(n)).key("k").await.unwrap();
            }
        }
    };
    let cleaned = |hub: &Hub| {
        let bus = hub.bus.clone();
        async move { bus.bounds("t").await.unwrap().events }
    };
    overtake(&a).await;
    cluster.clock.advance(3_000).await;
    assert_eq!(cleaned(&a).await, 1);
    drop(a);
    overtake(&b).await;
    assert_eq!(cleaned(&b).await, 4);
    cluster.clock.advance(10_000).await;
    assert_eq!(cleaned(&b).await, 1);
}

#[tokio::test(start_paused = true)]
async fn groups_that_nobody_uses_expire_whichever_hub_had_them() {
    let config = || Config { clean_interval: 60_000, group_expire_days: 1, ..Config::default() };
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub_with(config()).await, cluster.hub_with(config()).await);
    a.publish("t", 1..=1).await;
    for hub in [&a, &b] {
        let group = if hub.id() == a.id() { "one" } else { "two" };
        hub.bus.subscribe("t").group(group).open().await.unwrap().close();
    }
    let mut used = b.bus.subscribe("t").group("used").open().await.unwrap();
    cluster.clock.advance(25 * 60 * 60 * 1000).await;
    let stored = hub_core::store::EventStore::shared(&cluster.memory).unwrap();
    let names: Vec<_> =
        stored.groups(None).await.unwrap().into_iter().map(|group| group.record.name.to_string()).collect();
    assert_eq!(names, ["used"]);
    a.publish("t", 2..=2).await;
    assert_eq!(used.recv().await.unwrap().event().seq(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_does_not_know_that_it_lost_a_group_moves_no_cursor() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=3).await;
    let mut at_a = a.member("t").await.unwrap();
    let first = next(&mut at_a).await;
    a.store.script(|call| (call != "commit").then_some(Fault::Refuse));
    cluster.owned_by(&b, "g").await;
    let mut at_b = b.member("t").await.unwrap();
    assert_eq!(consume(&mut at_b, 3).await, [1, 2, 3]);
    cluster.clock.advance(300).await;
    at_a.ack(first.event.id(), None).unwrap();
    cluster.clock.advance(300).await;
    drop((b, at_b));
    let c = cluster.hub().await;
    cluster.owned_by(&c, "g").await;
    c.member("t").await.unwrap();
    assert_eq!(c.bus.get_cursor("t", "g").await.unwrap().unwrap().seq, 3);
}
