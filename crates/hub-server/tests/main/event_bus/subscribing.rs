use super::{Subject, earliest, next, next_number, soon};
use hub_core::EventBusExt;
use hub_proto::{Code, Filter, Ordering, PublishOptions, SubscribeOptions, SubscribeRequest};
use std::time::Duration;

async fn publish(subject: &Subject, topic: &str, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        soon(subject.bus.publish(topic, &number)).await.unwrap();
    }
}

async fn publish_keyed(subject: &Subject, topic: &str, key: &str, number: u64) {
    let options = PublishOptions { key: Some(key.into()), ..PublishOptions::default() };
    soon(subject.bus.publish_with(topic, &number, options)).await.unwrap();
}

pub async fn an_event_that_was_acked_does_not_come_again(subject: &Subject) {
    let mut work = subject.open("t", Some("g"), earliest()).await;
    publish(subject, "t", 1..=3).await;
    for number in 1..=2 {
        let delivery = next(&mut work).await;
        assert_eq!((delivery.decode::<u64>().unwrap(), delivery.attempt()), (number, 1));
        delivery.ack().unwrap();
    }
    subject.cut().await;
    // Of what was acked nothing comes again, whatever became of the connection.
    assert_eq!(next_number(&mut work).await, 3);
    soon(work.close()).await.unwrap();
    let mut again = subject.open("t", Some("g"), earliest()).await;
    assert_eq!(next_number(&mut again).await, 3);
}

pub async fn an_event_that_failed_comes_again(subject: &Subject) {
    let mut work = subject.open("t", Some("g"), earliest()).await;
    publish(subject, "t", 1..=1).await;
    let first = next(&mut work).await;
    let refused = first.nack(Some(Duration::from_secs(13 * 3600)), "much later").await.unwrap_err();
    assert_eq!(refused.code, Code::BadRequest);
    first.nack(Some(Duration::from_millis(1)), "not now").await.unwrap();
    subject.cut().await;
    let again = next(&mut work).await;
    assert_eq!((again.decode::<u64>().unwrap(), again.max_attempts()), (1, 5));
    assert!(again.attempt() >= 2);
}

pub async fn an_event_that_was_given_back_has_not_failed(subject: &Subject) {
    let options = SubscribeOptions { max_attempts: Some(1), ..earliest() };
    let mut work = subject.open("t", Some("g"), options).await;
    publish(subject, "t", 1..=1).await;
    for _ in 0..3 {
        let delivery = next(&mut work).await;
        delivery.give_back(Duration::ZERO).await.unwrap();
        // Twice is once.
        delivery.give_back(Duration::ZERO).await.unwrap();
    }
    let last = next(&mut work).await;
    last.ack().unwrap();
    assert_eq!(subject.behind.last_seq("dlq.t"), None, "it has not failed");
}

pub async fn a_lease_can_be_extended(subject: &Subject) {
    let options = SubscribeOptions { ack_timeout: Some(Duration::from_secs(2)), ..earliest() };
    let mut work = subject.open("t", Some("g"), options).await;
    publish(subject, "t", 1..=1).await;
    let delivery = next(&mut work).await;
    assert!(delivery.time_left().unwrap() <= Duration::from_secs(2));
    subject.cut().await;
    let left = loop {
        match delivery.extend(Duration::from_secs(60)).await {
            Ok(left) => break left,
            // The connection is away.
            Err(error) => assert_eq!(error.code, Code::Unavailable, "{error}"),
        }
        // The stream looks for the next connection.
        let _ = tokio::time::timeout(Duration::from_millis(5), work.recv()).await;
    };
    assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60), "{left:?}");
    assert!(delivery.time_left().unwrap() > Duration::from_secs(50));
}

pub async fn a_member_that_pauses_gets_nothing(subject: &Subject) {
    let mut work = subject.open("t", Some("g"), earliest()).await;
    soon(work.pause()).await.unwrap();
    publish(subject, "t", 1..=1).await;
    subject.cut().await;
    tokio::select! {
        biased;
        received = work.recv() => panic!("{received:?}"),
        // Another member gets it.
        () = async {
            let mut other = subject.behind.subscribe("t").group("g").open().await.unwrap();
            assert_eq!(soon(other.recv()).await.unwrap().event().seq(), 1);
            other.close();
        } => {}
    }
    soon(work.resume()).await.unwrap();
    assert_eq!(next_number(&mut work).await, 1);
}

pub async fn a_member_that_closes_gives_everything_back(subject: &Subject) {
    let options = || SubscribeOptions { max_attempts: Some(1), ..earliest() };
    let mut work = subject.open("t", Some("g"), options()).await;
    publish(subject, "t", 1..=2).await;
    let first = next(&mut work).await;
    next(&mut work).await.ack().unwrap();
    soon(work.close()).await.unwrap();
    drop(first);
    let mut other = subject.open("t", Some("g"), options()).await;
    let delivery = next(&mut other).await;
    assert_eq!(delivery.decode::<u64>().unwrap(), 1);
    delivery.ack().unwrap();
    assert_eq!(subject.behind.last_seq("dlq.t"), None, "nobody is to blame");
}

pub async fn a_group_has_the_options_that_were_asked_for(subject: &Subject) {
    let options = SubscribeOptions {
        filter: Some(Filter { tags: vec!["red".into()], ..Filter::default() }),
        ordering: Some(Ordering::Key),
        max_attempts: Some(3),
        max_in_flight: Some(1),
        ..earliest()
    };
    let mut red = subject.open("t", Some("g"), options).await;
    for (number, tag) in (1..).zip(["red", "blue", "red"]) {
        let options = PublishOptions { tags: vec![tag.into()], ..PublishOptions::default() };
        soon(subject.bus.publish_with("t", &number, options)).await.unwrap();
    }
    let first = next(&mut red).await;
    assert_eq!((first.decode::<u64>().unwrap(), first.max_attempts()), (1, 3));
    first.ack().unwrap();
    assert_eq!(next_number(&mut red).await, 3);
    let stored = subject.behind.group_options("t", "g").unwrap();
    assert_eq!((stored.ordering, stored.max_attempts), (Ordering::Key, 3));
}

pub async fn a_watcher_reads_from_where_it_wants(subject: &Subject) {
    publish(subject, "t", 1..=3).await;
    let options =
        SubscribeOptions { from: Some(hub_proto::Position::AfterSeq(1)), ..SubscribeOptions::default() };
    let mut watch = subject.open("t", None, options).await;
    assert_eq!(next_number(&mut watch).await, 2);
    subject.cut().await;
    assert_eq!(next_number(&mut watch).await, 3);
    soon(watch.pause()).await.unwrap();
    publish(subject, "t", 4..=4).await;
    soon(watch.resume()).await.unwrap();
    assert_eq!(next_number(&mut watch).await, 4);
    soon(watch.close()).await.unwrap();
}

pub async fn a_watcher_that_coalesces_gets_the_newest_of_each_key(subject: &Subject) {
    for (key, number) in [("web", 1), ("db", 2), ("web", 3)] {
        publish_keyed(subject, "state", key, number).await;
    }
    let options = SubscribeOptions { coalesce: Some(true), ..earliest() };
    let mut watch = subject.open("state", None, options).await;
    assert_eq!(next_number(&mut watch).await, 2);
    assert_eq!(next_number(&mut watch).await, 3);
    publish_keyed(subject, "state", "db", 4).await;
    assert_eq!(next_number(&mut watch).await, 4);
}

pub async fn several_topics_are_one_subscription(subject: &Subject) {
    publish(subject, "a.x", 1..=1).await;
    let options = SubscribeOptions { topics: vec!["a.x".into(), "b".into()], ..earliest() };
    let mut list = subject.open("both", Some("g"), options).await;
    let mut pattern = subject.open("a.*", None, earliest()).await;
    publish(subject, "b", 2..=2).await;
    let (mut numbers, mut topics) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let delivery = next(&mut list).await;
        numbers.push(delivery.decode::<u64>().unwrap());
        topics.push(delivery.event().topic().to_string());
        delivery.ack().unwrap();
    }
    numbers.sort_unstable();
    topics.sort_unstable();
    assert_eq!((numbers, topics), (vec![1, 2], vec!["a.x".to_owned(), "b".to_owned()]));
    assert_eq!(next_number(&mut pattern).await, 1);
}

pub async fn a_subscription_that_makes_no_sense_is_refused(subject: &Subject) {
    for (topic, group, options) in [
        ("no..topic", Some("g"), earliest()),
        ("t", Some("no group"), earliest()),
        ("t", Some("g"), SubscribeOptions { max_attempts: Some(0), ..earliest() }),
        ("t", Some("g"), SubscribeOptions { max_in_flight: Some(0), ..earliest() }),
        ("t", Some("g"), SubscribeOptions { ack_timeout: Some(Duration::ZERO), ..earliest() }),
    ] {
        let request = SubscribeRequest::new(topic, group).options(options);
        let refused = soon(subject.bus.open(request)).await.unwrap_err();
        assert_eq!(refused.code, Code::BadRequest, "{refused}");
    }
}

pub async fn a_bus_that_has_stopped_ends_its_subscriptions(subject: &Subject) {
    let mut work = subject.open("t", Some("g"), earliest()).await;
    let mut watch = subject.open("t", None, earliest()).await;
    soon(subject.bus.stop()).await.unwrap();
    for stream in [&mut work, &mut watch] {
        let ended = soon(stream.recv()).await.unwrap_err();
        assert_eq!(ended.code, Code::Unavailable, "{ended}");
    }
    let refused = soon(subject.bus.publish("t", &1)).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
}
