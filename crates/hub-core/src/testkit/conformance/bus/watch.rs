//! Following topics without a group.

use super::super::Lab;
use super::tools::{assert_nothing_seen, code, fill, fill_keyed, seen, soon, value};
use crate::{Code, Config, Position, Watched};

pub(in super::super) async fn a_watcher_sees_events_from_now_on(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let mut watch = bus.subscribe("t").watch().await.unwrap();
    fill(&bus, "t", [2, 3]).await;
    assert_eq!((seen(&mut watch).await, seen(&mut watch).await), (2, 3));
    assert_nothing_seen(&mut watch).await;
    assert!(bus.groups("t").is_empty() && bus.subscriptions().is_empty(), "nothing is stored");
}

pub(in super::super) async fn a_watcher_reads_history_and_goes_on_live(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1_000, ..Config::default() }).await;
    fill(&bus, "t", 1..=2000).await;
    let mut watch = bus.subscribe("t").from(Position::AfterSeq(10)).watch().await.unwrap();
    for expected in 11..=2000 {
        assert_eq!(seen(&mut watch).await, expected);
    }
    fill(&bus, "t", [2001]).await;
    assert_eq!(seen(&mut watch).await, 2001);
}

pub(in super::super) async fn every_watcher_sees_everything(lab: Lab) {
    let bus = lab.bus().await;
    let mut one = bus.subscribe("t").watch().await.unwrap();
    let mut two = bus.subscribe("t").watch().await.unwrap();
    fill(&bus, "t", [1, 2]).await;
    for watch in [&mut one, &mut two] {
        assert_eq!((seen(watch).await, seen(watch).await), (1, 2));
    }
}

pub(in super::super) async fn a_watcher_that_cannot_keep_up_is_told_what_it_missed(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 10_000, ..Config::default() }).await;
    let mut watch = bus.subscribe("t").watch().await.unwrap();
    fill(&bus, "t", [1]).await;
    assert_eq!(seen(&mut watch).await, 1);
    assert_nothing_seen(&mut watch).await;
    fill(&bus, "t", 2..=3000).await;
    let (mut got, mut missed, mut lags) = (1, 0, 0);
    while got + missed < 3000 {
        match soon(watch.recv()).await.unwrap() {
            Watched::Event(event) => {
                got += 1;
                assert_eq!(value(&event), got + missed, "in order, and only after what was missed");
            }
            Watched::Lagged { topic, missed: more } => {
                assert_eq!(&*topic, "t");
                missed += more;
                lags += 1;
            }
        }
    }
    assert!(lags > 0, "3000 events do not fit into 10,000 bytes");
    fill(&bus, "t", [3001]).await;
    assert_eq!(seen(&mut watch).await, 3001, "it goes on at the newest");
}

pub(in super::super) async fn a_pattern_is_watched_with_topics_born_later(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "a.x", [1]).await;
    let mut watch = bus.subscribe("a.*").watch().await.unwrap();
    fill(&bus, "a.y", [2]).await;
    fill(&bus, "b.y", [3]).await;
    fill(&bus, "a.x", [4]).await;
    let mut got = [seen(&mut watch).await, seen(&mut watch).await];
    got.sort_unstable();
    assert_eq!(got, [2, 4]);
    assert_nothing_seen(&mut watch).await;
}

pub(in super::super) async fn a_list_is_watched(lab: Lab) {
    let bus = lab.bus().await;
    let mut watch = bus.subscribe_all("mine", ["a", "b"]).watch().await.unwrap();
    for (n, topic) in (1..).zip(["a", "c", "b"]) {
        fill(&bus, topic, [n]).await;
    }
    let mut got = [seen(&mut watch).await, seen(&mut watch).await];
    got.sort_unstable();
    assert_eq!(got, [1, 3]);
}

pub(in super::super) async fn a_watcher_wakes_when_something_comes(lab: Lab) {
    let bus = lab.bus().await;
    let mut watch = bus.subscribe("t").watch().await.unwrap();
    let waiting = tokio::spawn(async move { seen(&mut watch).await });
    lab.pass(20).await;
    fill(&bus, "t", [7]).await;
    assert_eq!(soon(waiting).await.unwrap(), 7);
}

pub(in super::super) async fn a_watcher_at_an_unknown_place_is_refused(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    assert_eq!(code(bus.subscribe("t").from(Position::AfterSeq(2)).watch().await), Code::BadRequest);
    assert_eq!(code(bus.subscribe("a.*b").watch().await), Code::BadRequest);
}

pub(in super::super) async fn a_coalescing_watcher_gets_the_newest_of_every_key_then_live(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 1_000, ..Config::default() }).await;
    for round in 0..100 {
        fill_keyed(&bus, "t", [("a", round * 3), ("b", round * 3 + 1), ("c", round * 3 + 2)]).await;
    }
    fill(&bus, "t", [300]).await;
    let mut watch = bus.subscribe("t").from(Position::Earliest).coalesce(true).watch().await.unwrap();
    for expected in 297..=300 {
        assert_eq!(seen(&mut watch).await, expected);
    }
    assert_nothing_seen(&mut watch).await;
    fill_keyed(&bus, "t", [("b", 301)]).await;
    assert_eq!(seen(&mut watch).await, 301);
    assert!(bus.groups("t").is_empty(), "nothing is stored");
}

pub(in super::super) async fn a_coalescing_watcher_that_cannot_keep_up_misses_no_key(lab: Lab) {
    let bus = lab.bus_with(Config { tail_bytes: 10_000, ..Config::default() }).await;
    let mut watch = bus.subscribe("t").coalesce(true).watch().await.unwrap();
    fill_keyed(&bus, "t", [("a", 1)]).await;
    assert_eq!(seen(&mut watch).await, 1);
    assert_nothing_seen(&mut watch).await;
    // More than it may be behind, without a word that it has lagged.
    fill_keyed(&bus, "t", [("rare", 2)]).await;
    fill_keyed(&bus, "t", (3..=3000).map(|n| (if n % 2 == 0 { "a" } else { "b" }, n))).await;
    for expected in [2, 2999, 3000] {
        assert_eq!(seen(&mut watch).await, expected);
    }
    assert_nothing_seen(&mut watch).await;
}

pub(in super::super) async fn a_coalescing_watcher_learns_of_keys_that_are_deleted(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("b", 2)]).await;
    bus.publish("t", serde_json::Value::Null).key("a").await.unwrap();
    let mut watch = bus.subscribe("t").from(Position::Earliest).coalesce(true).watch().await.unwrap();
    assert_eq!(seen(&mut watch).await, 2);
    let Watched::Event(deleted) = soon(watch.recv()).await.unwrap() else { panic!("it never lags") };
    assert_eq!((deleted.key().map(|key| &**key), deleted.payload()), (Some("a"), &b"null"[..]));
    assert_nothing_seen(&mut watch).await;
}
