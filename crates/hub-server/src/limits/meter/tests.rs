#![allow(clippy::unwrap_used)]

use super::*;
use crate::limits::clock::Clock;
use crate::limits::{Limits, SubjectQuota, TopicQuota};
use std::sync::atomic::{AtomicU64, Ordering};

struct World {
    buckets: Arc<Buckets>,
    now: Arc<AtomicU64>,
}

fn world(limits: &Limits) -> World {
    let now = Arc::new(AtomicU64::new(7_000_000_000));
    let buckets = Arc::new(Buckets::with_clock(limits, Clock::Manual(now.clone())));
    World { buckets, now }
}

impl World {
    fn pass_ms(&self, ms: u64) {
        self.now.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }

    fn meter(&self, subject: &str) -> Meter {
        Meter::new(&self.buckets, Some(subject), From::Peer)
    }
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

fn send(meter: &mut Meter, name: &str, n: usize) -> Result<()> {
    meter.take(vec![topic(name); n].iter())
}

fn rates(connection: Option<u32>, subject: Option<u32>, topics: &[(&str, u32)]) -> Limits {
    let topic_rates = topics.iter().map(|(pattern, rate)| (pattern.parse().unwrap(), *rate)).collect();
    Limits { connection_rate: connection, subject_rate: subject, topic_rates, ..Limits::default() }
}

#[track_caller]
fn wait_of(answer: Result<()>) -> u64 {
    let err = answer.expect_err("refused");
    assert_eq!(err.code, Code::RateLimited);
    err.retry_after_ms.unwrap()
}

#[test]
fn without_rates_everything_passes() {
    let world = world(&Limits::default());
    let mut meter = world.meter("a");
    for _ in 0..1000 {
        send(&mut meter, "t", 1000).unwrap();
        meter.take_one().unwrap();
    }
}

#[test]
fn a_connection_has_one_second_s_worth_at_once_and_its_rate_after_that() {
    let world = world(&rates(Some(10), None, &[]));
    let (mut one, mut other) = (world.meter("a"), world.meter("a"));
    send(&mut one, "t", 10).unwrap();
    assert_eq!(wait_of(one.take_one()), 100);
    send(&mut other, "t", 10).unwrap();
    world.pass_ms(100);
    one.take_one().unwrap();
    assert_eq!(wait_of(one.take_one()), 100);
}

#[test]
fn after_exactly_the_time_that_was_named_the_same_batch_passes() {
    let world = world(&rates(Some(300), Some(70), &[("t", 9)]));
    let mut meter = world.meter("a");
    send(&mut meter, "t", 9).unwrap();
    let wait = wait_of(send(&mut meter, "t", 7));
    assert_eq!(wait, 778, "7 of 9 per second");
    world.pass_ms(wait - 1);
    assert_eq!(wait_of(send(&mut meter, "t", 7)), 1);
    world.pass_ms(1);
    send(&mut meter, "t", 7).unwrap();
}

#[test]
fn a_batch_refused_by_one_bucket_takes_nothing_from_the_others() {
    let world = world(&rates(Some(10), Some(20), &[("slow", 2), ("other", 2)]));
    let mut meter = world.meter("a");
    send(&mut meter, "slow", 2).unwrap();
    // Refused by its last topic, again and again.
    for _ in 0..50 {
        let batch = [topic("other"), topic("free"), topic("slow")];
        wait_of(meter.take(batch.iter()));
    }
    // 8 of the connection's 10 are left, 18 of the subject's 20, both of `other`.
    send(&mut meter, "other", 2).unwrap();
    send(&mut meter, "free", 6).unwrap();
    wait_of(send(&mut meter, "free", 1));
    let mut second = world.meter("a");
    send(&mut second, "free", 10).unwrap();
    wait_of(send(&mut world.meter("a"), "free", 1));
}

#[test]
fn a_batch_refused_by_the_connection_takes_nothing_from_subject_and_topic() {
    let world = world(&rates(Some(5), Some(8), &[("t", 8)]));
    let mut meter = world.meter("a");
    send(&mut meter, "t", 5).unwrap();
    for _ in 0..10 {
        wait_of(send(&mut meter, "t", 1));
    }
    send(&mut world.meter("a"), "t", 3).unwrap();
}

#[test]
fn connections_of_one_subject_share_its_bucket_and_other_subjects_have_their_own() {
    let world = world(&rates(None, Some(10), &[]));
    let (mut one, mut two, mut other) = (world.meter("a"), world.meter("a"), world.meter("b"));
    send(&mut one, "t", 6).unwrap();
    assert_eq!(wait_of(send(&mut two, "t", 5)), 100);
    send(&mut two, "t", 4).unwrap();
    send(&mut other, "t", 10).unwrap();
}

#[test]
fn a_subject_that_comes_back_does_not_begin_with_a_full_bucket() {
    let world = world(&rates(None, Some(10), &[]));
    send(&mut world.meter("a"), "t", 10).unwrap();
    wait_of(send(&mut world.meter("a"), "t", 1));
    wait_of(send(&mut Meter::for_request(&world.buckets, Some("a"), From::Peer), "t", 1));
}

#[test]
fn those_without_a_subject_count_as_one_once_they_have_said_so() {
    let world = world(&rates(None, Some(10), &[]));
    let mut stranger = Meter::new(&world.buckets, None, From::Peer);
    send(&mut stranger, "t", 100).unwrap();
    stranger.identify(None);
    send(&mut stranger, "t", 10).unwrap();
    wait_of(Meter::for_request(&world.buckets, None, From::Peer).take_one());
    world.meter("").take_one().unwrap();
}

#[test]
fn a_request_is_not_bound_by_the_connection_s_rate() {
    let world = world(&rates(Some(1), Some(50), &[]));
    let mut request = Meter::for_request(&world.buckets, Some("a"), From::Peer);
    send(&mut request, "t", 50).unwrap();
    let err = send(&mut request, "t", 1).unwrap_err();
    assert!(err.msg.contains("subject"), "{err}");
}

#[test]
fn every_topic_of_a_pattern_has_a_bucket_and_the_first_pattern_counts() {
    let world = world(&rates(None, None, &[("a.x", 1), ("a.*", 3)]));
    let mut meter = world.meter("s");
    send(&mut meter, "a.x", 1).unwrap();
    wait_of(send(&mut meter, "a.x", 1));
    send(&mut meter, "a.y", 3).unwrap();
    send(&mut meter, "a.z", 3).unwrap();
    wait_of(send(&mut world.meter("other"), "a.z", 1));
    send(&mut meter, "b", 1000).unwrap();
}

#[test]
fn the_error_names_the_limit_its_value_and_what_to_do() {
    let world = world(&rates(Some(30), Some(20), &[("t", 10)]));
    let mut meter = world.meter("a");
    send(&mut meter, "t", 10).unwrap();
    let said = |answer: Result<()>| answer.unwrap_err().msg.into_owned();
    assert_eq!(said(send(&mut meter, "t", 1)), "topic t takes 10 events per second; try again in 100 ms");
    send(&mut meter, "u", 10).unwrap();
    assert_eq!(
        said(send(&mut meter, "u", 1)),
        "this subject, over all its connections, may send 20 events per second; try again in 50 ms"
    );
    assert_eq!(
        said(send(&mut world.meter("b"), "t", 11)),
        "topic t takes 10 events per second; at most 10 at once, not 11: send smaller batches"
    );
    meter.identify(Some("c"));
    send(&mut meter, "u", 10).unwrap();
    assert_eq!(said(meter.take_one()), "this connection may send 30 events per second; try again in 34 ms");
}

#[test]
fn of_several_refusals_the_longest_wait_is_named() {
    let world = world(&rates(Some(100), None, &[("slow", 1), ("slower", 4)]));
    let mut meter = world.meter("a");
    let batch = [vec![topic("slow")], vec![topic("slower"); 2]].concat();
    meter.take(batch.iter()).unwrap();
    let batch = [vec![topic("slow")], vec![topic("slower"); 4]].concat();
    let err = meter.take(batch.iter()).unwrap_err();
    assert_eq!(err.retry_after_ms, Some(1000));
    world.pass_ms(1000);
    meter.take(batch.iter()).unwrap();
}

#[test]
fn a_batch_that_never_fits_costs_nothing_and_names_a_time_all_the_same() {
    let world = world(&rates(Some(5), None, &[]));
    let mut meter = world.meter("a");
    assert_eq!(wait_of(send(&mut meter, "t", 6)), 1);
    send(&mut meter, "t", 5).unwrap();
    assert_eq!(wait_of(send(&mut meter, "t", 6)), 1000);
}

#[test]
fn open_connections_follow_a_change_of_rates() {
    let world = world(&Limits::default());
    let mut meter = world.meter("a");
    send(&mut meter, "t", 100_000).unwrap();
    world.buckets.apply(&rates(Some(10), None, &[]));
    send(&mut meter, "t", 10).unwrap();
    wait_of(send(&mut meter, "t", 1));
    // Twice as fast: what was taken stays taken, and comes back as before.
    world.buckets.apply(&rates(Some(20), None, &[]));
    assert_eq!(wait_of(send(&mut meter, "t", 1)), 50);
    world.pass_ms(50);
    send(&mut meter, "t", 1).unwrap();
    world.buckets.apply(&rates(None, None, &[]));
    send(&mut meter, "t", 100_000).unwrap();
}

#[test]
fn buckets_that_are_full_again_are_swept_out() {
    let world = world(&rates(None, Some(5), &[("**", 5)]));
    for round in 0..20 {
        for n in 0..1000 {
            let name = format!("t{round}-{n}");
            send(&mut world.meter(&name), &name, 1).unwrap();
        }
        world.pass_ms(1000);
    }
    let shared = world.buckets.shared();
    assert!(shared.subjects.len() <= 2048, "{}", shared.subjects.len());
    assert!(shared.topics.len() <= 2048, "{}", shared.topics.len());
}

#[test]
fn threads_that_share_a_subject_get_no_more_than_its_bucket_holds() {
    let world = world(&rates(None, Some(1000), &[("t", 700)]));
    let passed: usize = std::thread::scope(|scope| {
        let sender = || {
            let mut meter = world.meter("a");
            (0..2000).filter(|_| send(&mut meter, "t", 1).is_ok()).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(sender)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 700);
}

#[test]
fn work_is_carried_out_and_paid_for_afterwards() {
    let world = world(&rates(Some(100), Some(1000), &[]));
    let (mut one, mut other) = (world.meter("a"), world.meter("a"));
    one.owe(Work::bytes(4 << 20));
    assert_eq!(
        wait_of(one.take_one()),
        9_250,
        "1024 events at 100 per second, a second's worth of them at once"
    );
    assert_eq!(wait_of(other.take_one()), 25, "the subject's 1000 per second are for both");
    world.pass_ms(25);
    other.take_one().unwrap();
    world.meter("b").take_one().unwrap();
}

#[test]
fn little_work_costs_nothing_and_a_debt_is_bounded() {
    let world = world(&rates(Some(10), None, &[]));
    let mut meter = world.meter("a");
    meter.owe(Work { bytes: 4095, topics: 15, groups: 3 });
    send(&mut meter, "t", 10).unwrap();
    meter.owe(Work::topics(100_000_000));
    assert!(wait_of(meter.take_one()) <= 61_000);
}

#[test]
fn what_comes_through_a_proxy_has_rates_of_its_own() {
    let limits =
        Limits { forwarded_connection_rate: Some(2), forwarded_subject_rate: Some(3), ..Limits::default() };
    let world = world(&limits);
    let (mut local, mut remote) = (world.meter("a"), Meter::new(&world.buckets, Some("b"), From::Proxy));
    send(&mut local, "t", 1000).unwrap();
    send(&mut remote, "t", 2).unwrap();
    assert_eq!(wait_of(remote.take_one()), 500);
}

fn byte_quota(bytes_in: Option<u32>, bytes_out: Option<u32>) -> Limits {
    let quota = SubjectQuota { bytes_in, bytes_out, ..SubjectQuota::default() };
    Limits { subject_quotas: vec![quota], ..Limits::default() }
}

#[test]
fn a_subject_that_has_sent_its_bytes_waits_and_others_do_not() {
    let world = world(&byte_quota(Some(1000), None));
    let (mut one, mut two, mut other) = (world.meter("a"), world.meter("a"), world.meter("b"));
    one.check_bytes_in().unwrap();
    // A frame of any size passes, and is paid for afterwards.
    one.owe_bytes_in(3000);
    assert!((2001..=2002).contains(&wait_of(one.check_bytes_in())));
    assert!(two.check_bytes_in().is_err(), "connections of one subject share its bytes");
    other.check_bytes_in().unwrap();
    assert!(one.wait_bytes_out().is_none(), "what it reads is another matter");
    world.pass_ms(2002);
    one.check_bytes_in().unwrap();
}

#[test]
fn what_is_sent_to_a_subject_is_held_back_and_follows_the_settings() {
    let world = world(&byte_quota(None, Some(1000)));
    let mut meter = world.meter("a");
    assert_eq!(meter.wait_bytes_out(), None);
    meter.owe_bytes_out(2000);
    let wait = meter.wait_bytes_out().unwrap().as_millis();
    assert!((1000..=1002).contains(&wait), "{wait}");
    meter.check_bytes_in().unwrap();
    world.buckets.apply(&byte_quota(None, None));
    assert_eq!(meter.wait_bytes_out(), None);
}

fn topic_byte_quota(pattern: &str, bytes_in: Option<u32>, bytes_out: Option<u32>) -> Limits {
    let quota = TopicQuota { pattern: pattern.parse().unwrap(), bytes_in, bytes_out };
    Limits { topic_quotas: vec![quota], ..Limits::default() }
}

#[test]
fn topics_of_a_pattern_share_their_bytes_over_all_subjects() {
    let world = world(&topic_byte_quota("m.*", Some(1000), None));
    let (mut one, mut other) = (world.meter("a"), world.meter("b"));
    let (mine, theirs, outside) = (topic("m.a"), topic("m.b"), topic("x"));
    one.check_topic_bytes_in(&mine).unwrap();
    one.owe_topic_bytes_in(&mine, 3000);
    one.owe_topic_bytes_in(&outside, 1 << 30);
    assert!((2001..=2002).contains(&wait_of(other.check_topic_bytes_in(&theirs))));
    other.check_topic_bytes_in(&outside).unwrap();
    world.pass_ms(2002);
    other.check_topic_bytes_in(&theirs).unwrap();
}

#[test]
fn readers_of_topics_without_bytes_left_wait_and_others_do_not() {
    let world = world(&topic_byte_quota("m.*", None, Some(1000)));
    let (mut one, mut other) = (world.meter("a"), world.meter("b"));
    assert!(one.limits_topic_bytes_out() && !one.limits_topics());
    one.owe_topic_bytes_out(&topic("m.a"), 2000);
    let wait = other.wait_topic_bytes_out(|pattern| pattern.matches("m.b")).unwrap().as_millis();
    assert!((1000..=1002).contains(&wait), "{wait}");
    assert_eq!(other.wait_topic_bytes_out(|pattern| pattern.matches("x")), None);
    world.buckets.apply(&Limits::default());
    assert_eq!(other.wait_topic_bytes_out(|_| true), None);
}
