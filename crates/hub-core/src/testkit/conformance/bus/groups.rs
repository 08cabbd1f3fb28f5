//! Who gets what.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, end, fill, hold, next, value, values};
use crate::{Code, Config, Position};

pub(in super::super) async fn two_groups_each_see_every_event(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=5).await;
    for group in ["a", "b"] {
        let mut sub = bus.subscribe("t").group(group).from(Position::Earliest).open().await.unwrap();
        assert_eq!(consume(&mut sub, 5).await, [1, 2, 3, 4, 5]);
        assert_silent(&mut sub).await;
    }
}

pub(in super::super) async fn within_a_group_each_event_goes_to_one_member(lab: Lab) {
    let bus = lab.bus().await;
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(bus.subscribe("t").group("g").open().await.unwrap());
    }
    fill(&bus, "t", 1..=30).await;
    let mut all = Vec::new();
    for member in &mut members {
        while let Some(delivery) = member.try_recv() {
            let delivery = delivery.unwrap();
            all.push(value(delivery.event()));
            delivery.ack().unwrap();
        }
    }
    // What was not pushed yet when a member was asked comes now.
    for member in &mut members {
        while let Ok(delivery) =
            tokio::time::timeout(std::time::Duration::from_millis(100), member.recv()).await
        {
            all.push(value(delivery.unwrap().event()));
        }
    }
    all.sort_unstable();
    assert_eq!(all, (1..=30).collect::<Vec<_>>());
}

pub(in super::super) async fn members_with_room_are_served_in_turn(lab: Lab) {
    let bus = lab.bus().await;
    let mut a = bus.subscribe("t").group("g").open().await.unwrap();
    let mut b = bus.subscribe("t").group("g").open().await.unwrap();
    let mut c = bus.subscribe("t").group("g").max_in_flight(1).open().await.unwrap();
    fill(&bus, "t", 1..=7).await;
    assert_eq!(values(&hold(&mut a, 3).await), [1, 4, 6]);
    assert_eq!(values(&hold(&mut b, 3).await), [2, 5, 7]);
    assert_eq!(values(&hold(&mut c, 1).await), [3], "a member without room is passed over");
}

pub(in super::super) async fn a_member_holds_no_more_than_it_asked_for(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").max_in_flight(3).open().await.unwrap();
    fill(&bus, "t", 1..=10).await;
    let held = hold(&mut sub, 3).await;
    assert_silent(&mut sub).await;
    assert_eq!(bus.group("t", "g").unwrap().inflight, 3);
    held[1].ack().unwrap();
    assert_eq!(value(next(&mut sub).await.event()), 4, "an ack makes room for one");
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn a_consumer_that_waits_gets_the_next_event_after_an_ack_elsewhere(lab: Lab) {
    let bus = lab.bus().await;
    let mut sub = bus.subscribe("t").group("g").max_in_flight(1).open().await.unwrap();
    fill(&bus, "t", [1, 2]).await;
    let first = next(&mut sub).await;
    let waiting = tokio::spawn(async move { value(next(&mut sub).await.event()) });
    tokio::task::yield_now().await;
    first.ack().unwrap();
    assert_eq!(waiting.await.unwrap(), 2);
}

pub(in super::super) async fn a_slow_member_is_given_a_bounded_number_of_bytes(lab: Lab) {
    let config = Config { member_bytes: 20_000, ..Config::default() };
    let bus = lab.bus_with(config).await;
    let sub = bus.subscribe("t").group("g").max_in_flight(100_000).open().await.unwrap();
    let text = "x".repeat(1000);
    for _ in 0..200 {
        bus.publish("t", serde_json::json!(text)).await.unwrap();
    }
    lab.pass(50).await;
    let queued = bus.group("t", "g").unwrap().inflight;
    assert!((10..=20).contains(&queued), "{queued} events of more than 1000 bytes each are queued");
    drop(sub);
}

pub(in super::super) async fn a_group_catches_up_with_what_has_left_memory(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 2_000, ..Config::default() }).await;
    fill(&bus, "t", 1..=300).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    fill(&bus, "t", 301..=310).await;
    assert_eq!(consume(&mut sub, 310).await, (1..=310).collect::<Vec<_>>());
    fill(&bus, "t", [311]).await;
    assert_eq!(consume(&mut sub, 1).await, [311], "and joins the tail again");
}

pub(in super::super) async fn a_deleted_group_ends_its_subscriptions(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    let mut other = bus.subscribe("t").group("other").open().await.unwrap();
    assert_eq!(bus.delete_group("t", "g").await.unwrap(), 1);
    assert_eq!(end(&mut sub).await, Code::NotSubscribed);
    assert_eq!(bus.get_cursor("t", "g").await.unwrap(), None);
    fill(&bus, "t", [2]).await;
    assert_eq!(consume(&mut other, 1).await, [2], "others go on");
    assert_eq!(code(bus.delete_group("t", "g").await), Code::BadRequest);
}

pub(in super::super) async fn a_lease_of_a_deleted_group_settles_nothing(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let held = next(&mut sub).await;
    bus.delete_group("t", "g").await.unwrap();
    assert_eq!(code(held.ack()), Code::UnknownId);
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    let again = next(&mut sub).await;
    assert_eq!((value(again.event()), again.attempt()), (1, 1), "the group was made anew");
    assert_eq!(code(held.ack()), Code::UnknownId);
}

pub(in super::super) async fn groups_are_listed_with_their_numbers(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", 1..=4).await;
    let mut b = bus.subscribe("t").group("b").from(Position::Earliest).max_in_flight(2).open().await.unwrap();
    let _a = bus.subscribe("t").group("a").open().await.unwrap();
    consume(&mut b, 1).await;
    let held = hold(&mut b, 2).await;
    let status = bus.groups("t");
    assert_eq!(status.iter().map(|status| status.group.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let b = &status[1];
    assert_eq!((b.floor, b.last, b.lag, b.inflight, b.members), (1, 4, 3, 2, 1));
    assert_eq!((status[0].lag, status[0].inflight), (0, 0));
    drop(held);
    assert!(bus.groups("nowhere").is_empty() && bus.group("t", "nobody").is_none());
}
