//! Heartbeats that lapse, and hubs that come back.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A member of each of so many groups on topic `t`.
async fn members(hub: &Hub, groups: usize) -> Vec<ById> {
    let mut members = Vec::new();
    for n in 0..groups {
        members.push(hub.bus.subscribe("t").group(&format!("g{n}")).open_by_id().await.unwrap());
    }
    members
}

/// Counts the calls of one kind, each of which takes a moment.
fn count(hub: &Hub, call: &'static str) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    hub.store.script(move |called| {
        (called == call).then(|| {
            counted.fetch_add(1, SeqCst);
            Fault::Delay(10)
        })
    });
    calls
}

#[tokio::test(start_paused = true)]
async fn a_hub_with_many_groups_serves_again_after_a_lapse_of_its_heartbeat() {
    let cluster = Cluster::new();
    let a = cluster.hub().await;
    let mut members = members(&a, 200).await;
    a.publish("t", [1]).await;
    for member in &mut members {
        assert_eq!(consume(member, 1).await, [1]);
    }
    a.cut_off();
    cluster.clock.advance(5_000).await;
    // A call takes as long as it does on a database, so one for each name takes longer than a heartbeat is good for.
    a.store.script(|call| ["claim", "renew"].contains(&call).then_some(Fault::Delay(20)));
    cluster.clock.advance(1_000).await;
    a.publish("t", [2]).await;
    for member in &mut members {
        assert_eq!(consume(member, 1).await, [2]);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_go_on_while_names_are_claimed_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let mut members = members(&a, 3_001).await;
    a.cut_off();
    b.cut_off();
    cluster.clock.advance(5_000).await;
    // All of it takes several times as long as a heartbeat is good for, and as a hub without one is alive.
    a.store.script(|call| ["claim", "renew"].contains(&call).then_some(Fault::Delay(2_500)));
    b.store.heal();
    for _ in 0..50 {
        cluster.clock.advance(200).await;
        assert!(matches!(b.bus.owner_of("g7").await, Ok(Owner::There(_))), "A is alive");
    }
    a.publish("t", [1]).await;
    for n in [0, 1_500, 3_000] {
        assert_eq!(consume(&mut members[n], 1).await, [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_back_is_not_taken_over_by_one_that_has_not_looked_since() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    let mut member = a.member("t").await.unwrap();
    a.cut_off();
    while b.bus.hubs().len() == 2 {
        cluster.clock.advance(100).await;
    }
    // A has claimed its names again, and B has not read a heartbeat meanwhile.
    b.store.script(|call| (call == "beat").then_some(Fault::Refuse));
    a.store.heal();
    cluster.clock.advance(1_000).await;
    assert_eq!(b.bus.hubs().len(), 1, "B has not looked");
    assert_eq!(consume(&mut member, 1).await, [1]);
    b.store.heal();
    assert!(matches!(b.bus.owner_of("g").await, Ok(Owner::There(_))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_made_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=2).await;
    let mut member = a.member("t").await.unwrap();
    a.cut_off();
    cluster.clock.advance(3_500).await;
    let mut fault = Some(Fault::LoseAnswer);
    a.store.script(move |call| if call == "renew" { fault.take() } else { None });
    cluster.clock.advance(1_000).await;
    assert_eq!(consume(&mut member, 1).await, [1]);
    // Where members are is noted under the epoch that the name has now.
    let mut of_b = a.member_with("t", luggage(&b, vec![], vec![])).await.unwrap();
    member.close();
    assert_eq!(consume(&mut of_b, 1).await, [2]);
    assert!(matches!(b.bus.owner_of("g").await, Ok(Owner::There(_))));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_claimed_before_a_lapse_and_read_after_it_is_claimed_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let _other = a.bus.subscribe("t").group("other").open().await.unwrap();
    // What belongs to the name takes long to read; meanwhile no heartbeat comes through, and then one does.
    let beats = Arc::new(AtomicUsize::new(0));
    let script = beats.clone();
    a.store.script(move |call| match call {
        "beat" if script.fetch_add(1, SeqCst) < 8 => Some(Fault::Refuse),
        "estate" => Some(Fault::Delay(6_000)),
        _ => None,
    });
    let bus = a.bus.clone();
    let joining = tokio::spawn(async move { bus.subscribe("t").group("g").open().await });
    cluster.clock.advance(6_500).await;
    assert!(beats.load(SeqCst) > 8, "the heartbeat is back");
    assert_eq!(code(joining.await.unwrap()), Code::Unavailable, "whoever asks again claims it again");
    a.store.heal();
    let stored = hub_core::store::EventStore::shared(&cluster.memory).unwrap();
    let before = stored.owner("g").await.unwrap().epoch;
    a.bus.subscribe("t").group("g").open().await.unwrap();
    assert!(stored.owner("g").await.unwrap().epoch > before);
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_members_that_look_for_an_owner_ask_the_store_once_or_twice() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.bus.owner_of("g").await.unwrap();
    let asked = count(&b, "owner");
    let looking = (0..200).map(|_| {
        let bus = b.bus.clone();
        tokio::spawn(async move { bus.owner_of("g").await })
    });
    for looked in looking.collect::<Vec<_>>() {
        assert!(matches!(looked.await.unwrap(), Ok(Owner::There(hub)) if hub.id == a.id()));
    }
    assert!((1..=2).contains(&asked.load(SeqCst)), "{asked:?}");
    // One that asks later hears what is so by then.
    a.bus.stop().await.unwrap();
    assert_eq!(b.bus.owner_of("g").await, Ok(Owner::Here));
}

#[tokio::test(start_paused = true)]
async fn the_names_of_a_dead_hub_are_taken_over_with_few_heartbeats() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let names: Vec<String> = (0..100).map(|n| format!("g{n}")).collect();
    for name in &names {
        a.bus.owner_of(name).await.unwrap();
    }
    drop(a);
    while b.bus.hubs().len() == 2 {
        cluster.clock.advance(100).await;
    }
    let beats = count(&b, "beat");
    let looking = names.into_iter().map(|name| {
        let bus = b.bus.clone();
        tokio::spawn(async move { bus.owner_of(&name).await })
    });
    for looked in looking.collect::<Vec<_>>() {
        assert_eq!(looked.await.unwrap(), Ok(Owner::Here));
    }
    assert!(beats.load(SeqCst) <= 4, "{beats:?}");
}
