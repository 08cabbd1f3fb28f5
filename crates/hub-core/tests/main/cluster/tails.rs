//! Seeing what other hubs commit.

use super::*;
use hub_core::{Code, Position, Watched};

#[tokio::test(start_paused = true)]
async fn hubs_that_publish_to_one_topic_give_one_order() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let mut member = a.member("t").await.unwrap();
    let mut at_b = b.bus.subscribe("t").watch().await.unwrap();
    for n in 0..20 {
        let hub = if n % 3 == 0 { &a } else { &b };
        hub.publish("t", [n]).await;
    }
    assert_eq!(consume(&mut member, 20).await, (1..=20).collect::<Vec<_>>());
    for seq in 1..=20 {
        match at_b.recv().await.unwrap() {
            Watched::Event(event) => assert_eq!(event.seq(), seq),
            Watched::Lagged { missed, .. } => panic!("{missed} are missing"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_born_elsewhere_is_seen_by_patterns() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let mut member = a.member("orders.*").await.unwrap();
    let mut watch = a.bus.subscribe("orders.**").watch().await.unwrap();
    b.publish("orders.new", 1..=2).await;
    assert_eq!(consume(&mut member, 2).await, [1, 2]);
    assert!(matches!(watch.recv().await.unwrap(), Watched::Event(event) if event.seq() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_pattern_misses_nothing_of_topics_born_while_nobody_owned_it() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    b.publish("orders.old", 1..=1).await;
    let member = a.bus.subscribe("orders.*").group("g").open_by_id().await.unwrap();
    member.close();
    a.bus.stop().await.unwrap();
    b.publish("orders.new", 1..=2).await;
    b.publish("orders.old", 2..=2).await;
    let mut member = b.bus.subscribe("orders.*").group("g").open_by_id().await.unwrap();
    let mut got = Vec::new();
    for _ in 0..3 {
        let event = next(&mut member).await.event;
        got.push(format!("{}/{}", event.topic(), event.seq()));
    }
    got.sort();
    assert_eq!(got, ["orders.new/1", "orders.new/2", "orders.old/2"]);
}

#[tokio::test(start_paused = true)]
async fn from_latest_means_after_everything_that_any_hub_has_answered() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    // News and polls do not come: only the store itself knows.
    a.store.script(|call| matches!(call, "next" | "changes" | "tails").then_some(Fault::Refuse));
    b.publish("t", 1..=3).await;
    let mut one = a.bus.subscribe("t").group("g").open_by_id().await.unwrap();
    a.store.heal();
    b.publish("t", 4..=4).await;
    assert_eq!(consume(&mut one, 1).await, [4]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_from_another_hub_goes_on_behind_what_this_one_has_not_heard_of() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.publish("t", 1..=1).await;
    a.store.script(|call| matches!(call, "next" | "changes" | "tails").then_some(Fault::Refuse));
    b.publish("t", 2..=3).await;
    let mut watch = a.bus.subscribe("t").from(Position::AfterSeq(3)).watch().await.unwrap();
    let beyond = a.bus.subscribe("t").from(Position::AfterSeq(4)).watch().await.unwrap_err();
    assert_eq!(beyond.code, Code::BadRequest);
    a.store.heal();
    b.publish("t", 4..=4).await;
    assert!(matches!(watch.recv().await.unwrap(), Watched::Event(event) if event.seq() == 4));
}

#[tokio::test(start_paused = true)]
async fn a_new_pattern_from_latest_knows_topics_that_this_hub_has_not_heard_of() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    a.store.script(|call| matches!(call, "next" | "changes").then_some(Fault::Refuse));
    b.publish("orders.old", 1..=3).await;
    let mut member = a.bus.subscribe("orders.*").group("g").open_by_id().await.unwrap();
    assert_silent(&mut member).await;
    b.publish("orders.old", 4..=4).await;
    assert_eq!(consume(&mut member, 1).await, [4]);
}

#[tokio::test(start_paused = true)]
async fn lost_news_delay_events_and_lose_none() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let mut member = a.member("t").await.unwrap();
    a.publish("t", 0..=0).await;
    assert_eq!(consume(&mut member, 1).await, [1]);
    a.store.script(|call| matches!(call, "next" | "changes").then_some(Fault::Refuse));
    b.publish("t", 1..=5).await;
    assert_eq!(consume(&mut member, 5).await, [2, 3, 4, 5, 6], "by asking");
    a.store.heal();
    b.publish("t", 6..=7).await;
    assert_eq!(consume(&mut member, 2).await, [7, 8]);
}

#[tokio::test(start_paused = true)]
async fn a_coalescing_group_sees_what_overtakes_from_elsewhere() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.hub().await, cluster.hub().await);
    let member = a.bus.subscribe("t").group("g").coalesce(true).max_in_flight(1);
    let mut member = member.from(Position::Earliest).open_by_id().await.unwrap();
    for n in 0..4 {
        b.bus.publish("t", json!(n)).key("k").await.unwrap();
        if n == 0 {
            assert_eq!(next(&mut member).await.event.seq(), 1);
        }
    }
    cluster.clock.advance(3_000).await;
    let held = member.held();
    member.ack(held[0].id, None).unwrap();
    assert_eq!(consume(&mut member, 1).await, [4]);
    assert_silent(&mut member).await;
}
