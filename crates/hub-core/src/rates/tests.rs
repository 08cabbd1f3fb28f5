#![allow(clippy::unwrap_used)]

use super::quantile::Buckets;
use super::*;
use crate::{Bus, Position};
use hub_proto::TopicName;
use serde_json::json;

fn name(text: &str) -> TopicName {
    text.parse().unwrap()
}

async fn publish(bus: &Bus, topic: &str, count: usize) {
    for n in 0..count {
        bus.publish(topic, json!(n)).await.unwrap();
    }
}

#[tokio::test]
async fn a_sample_is_what_was_counted_since_the_one_before() {
    let bus = Bus::in_memory().await.unwrap();
    let rates = &bus.engine().rates;
    publish(&bus, "t", 3).await;
    assert!(rates.of_topic(&name("t"), 0).is_none(), "nobody samples");
    rates.sample(1_000_000, 0);
    publish(&bus, "t", 10).await;
    rates.sample(1_002_000, 2000);
    let measured = rates.of_topic(&name("t"), 1_002_000).unwrap();
    assert_eq!(measured.second.published, 5.0, "ten in two seconds");
    assert!(measured.second.bytes > 100.0);
    assert_eq!(measured.minute.published, 0.17);
    rates.sample(1_003_000, 3000);
    let measured = rates.of_topic(&name("t"), 1_003_000).unwrap();
    assert_eq!((measured.second.published, measured.minute.published), (0.0, 0.17));
    let later = rates.of_topic(&name("t"), 1_063_000).unwrap();
    assert_eq!(later.minute.published, 0.0);
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_group_does_is_counted() {
    let bus = Bus::in_memory().await.unwrap();
    let rates = &bus.engine().rates;
    rates.sample(0, 0);
    publish(&bus, "t", 4).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1).max_in_flight(1);
    let mut group = join.open().await.unwrap();
    for _ in 0..3 {
        group.recv().await.unwrap().ack().unwrap();
    }
    group.recv().await.unwrap().nack("no").unwrap();
    while bus.group("t", "g").unwrap().floor < 4 {
        tokio::task::yield_now().await;
    }
    rates.sample(1000, 1000);
    let sample = rates.of_group(&name("t"), &"g".parse().unwrap(), 1000).unwrap().second;
    assert_eq!((sample.delivered, sample.acked, sample.nacked, sample.deadlettered), (4.0, 3.0, 1.0, 1.0));
    assert!(sample.latency_ms.is_some() && sample.handler_ms.is_some());
    bus.delete_group("t", "g").await.unwrap();
    assert!(rates.of_group(&name("t"), &"g".parse().unwrap(), 1000).is_none());
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_idle_leaves_the_list_and_comes_back() {
    let bus = Bus::in_memory().await.unwrap();
    let rates = &bus.engine().rates;
    rates.sample(0, 0);
    publish(&bus, "t", 1).await;
    let on_list = || rates.topics.inner.lock().active.len();
    for second in 1..=61 {
        rates.sample(second * 1000, second * 1000);
    }
    assert_eq!(on_list(), 0);
    publish(&bus, "t", 1).await;
    rates.sample(62_000, 62_000);
    assert_eq!(on_list(), 1);
    assert_eq!(rates.of_topic(&name("t"), 62_000).unwrap().second.published, 1.0);
    bus.stop().await.unwrap();
}

#[tokio::test]
async fn series_are_bounded_and_an_idle_one_makes_room() {
    let bus = Bus::in_memory().await.unwrap();
    let rates = &bus.engine().rates;
    rates.sample(0, 0);
    for n in 0..=MAX_SERIES {
        publish(&bus, &format!("t.n{n}"), 1).await;
    }
    rates.sample(1000, 1000);
    let count = || rates.topics.inner.lock().series.len();
    assert_eq!(count(), MAX_SERIES);
    let left_out =
        (0..=MAX_SERIES).find(|n| rates.of_topic(&name(&format!("t.n{n}")), 1000).is_none()).unwrap();
    let left_out = format!("t.n{left_out}");
    publish(&bus, &left_out, 1).await;
    rates.sample(2000, 2000);
    assert!(rates.of_topic(&name(&left_out), 2000).is_none(), "the others were busy a moment ago");
    for second in 3..=70 {
        rates.sample(second * 1000, second * 1000);
    }
    publish(&bus, &left_out, 1).await;
    rates.sample(71_000, 71_000);
    assert!(rates.of_topic(&name(&left_out), 71_000).is_some());
    assert_eq!(count(), MAX_SERIES);
    bus.stop().await.unwrap();
}

#[test]
fn histories_have_their_steps_and_end() {
    let mut series: Series<TopicActivity> = Series::default();
    let one = || {
        let counters = activity::TopicCounters::default();
        counters.add(1, 10);
        counters.take()
    };
    let start = 1_800_000;
    for second in 0..1200_u64 {
        series.add(&one(), start + second * 1000, 1000);
    }
    let now = start + 1_199_000;
    for (range, count) in [(Range::Minute, 60), (Range::Quarter, 61), (Range::Day, 2)] {
        let history = series.history(range, now);
        assert!(history.len().abs_diff(count) <= 1, "{range:?}: {}", history.len());
        assert!(history.iter().all(|rated| (0.9..=1.1).contains(&rated.sample.published)), "{range:?}");
        assert!(history.windows(2).all(|pair| pair[1].ts - pair[0].ts == range.step()), "{range:?}");
    }
    assert_eq!(series.history(Range::Quarter, now + 15 * 60_000 + 15_000), []);
}

#[tokio::test]
async fn what_is_busy_is_told_at_once_and_what_was_given_up_for_an_hour() {
    let bus = Bus::in_memory().await.unwrap();
    let rates = &bus.engine().rates;
    rates.sample(0, 0);
    publish(&bus, "t", 2).await;
    let join = bus.subscribe("t").group("g").from(Position::Earliest).max_attempts(1);
    let mut group = join.open().await.unwrap();
    group.recv().await.unwrap().ack().unwrap();
    group.recv().await.unwrap().nack("no").unwrap();
    while bus.group("t", "g").unwrap().floor < 2 {
        tokio::task::yield_now().await;
    }
    rates.sample(1000, 1000);
    let busy = rates.busy_topics(1000);
    let of_topic = busy.iter().find(|busy| busy.topic.as_str() == "t").unwrap();
    assert_eq!(of_topic.rates, rates.of_topic(&name("t"), 1000).unwrap());
    let [of_group] = &rates.busy_groups(1000)[..] else { panic!("one group did something") };
    assert_eq!((of_group.rates.second.delivered, of_group.given_up), (2.0, Some((1, 1000))));
    let merged = |times: usize| {
        let mut all = Buckets::default();
        (0..times).for_each(|_| all.merge(&of_group.latency));
        all.quantiles()
    };
    assert_eq!(merged(1), of_group.rates.second.latency_ms);
    assert_eq!(merged(2), merged(1));
    let later = 30 * 60_000;
    assert!(rates.busy_topics(later).is_empty());
    let [idle] = &rates.busy_groups(later)[..] else { panic!("it has given up an event") };
    assert_eq!((idle.rates.minute.delivered, idle.given_up), (0.0, Some((1, 1000))));
    assert_eq!(idle.latency.quantiles(), None);
    assert!(rates.busy_groups(3600 * 1000 + 1001).is_empty());
    bus.stop().await.unwrap();
}
