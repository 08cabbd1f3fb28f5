//! Options of a group are stored with it.

use super::super::Lab;
use super::tools::{assert_silent, code, consume, fill, fill_keyed};
use crate::{Code, Filter, GroupOptions, GroupRequest, Ordering, Position};

fn red() -> Filter {
    Filter { tags: vec!["red".into()], ..Filter::default() }
}

pub(in super::super) async fn what_is_left_out_takes_the_stored_value(lab: Lab) {
    let bus = lab.bus().await;
    let join = bus.subscribe("t").group("g").filter(red()).ordering(Ordering::Key).max_attempts(2);
    let _one = join.open().await.unwrap();
    let _two = bus.subscribe("t").group("g").open().await.unwrap();
    let expected = GroupOptions { filter: red(), ordering: Ordering::Key, coalesce: false, max_attempts: 2 };
    assert_eq!(bus.group_options("t", "g").unwrap(), expected);
}

pub(in super::super) async fn defaults_are_those_of_the_contract(lab: Lab) {
    let bus = lab.bus().await;
    let _sub = bus.subscribe("t").group("g").open().await.unwrap();
    let options = bus.group_options("t", "g").unwrap();
    assert!(options.filter.is_empty());
    assert_eq!((options.ordering, options.coalesce, options.max_attempts), (Ordering::None, false, 5));
}

pub(in super::super) async fn naming_the_same_options_is_no_conflict(lab: Lab) {
    let bus = lab.bus().await;
    let _one = bus.subscribe("t").group("g").filter(red()).max_attempts(2).open().await.unwrap();
    let two =
        bus.subscribe("t").group("g").filter(red()).max_attempts(2).ordering(Ordering::None).open().await;
    assert!(two.is_ok(), "{two:?}");
    assert_eq!(bus.group("t", "g").unwrap().members, 2);
}

pub(in super::super) async fn another_option_conflicts_while_there_are_members(lab: Lab) {
    let bus = lab.bus().await;
    let one = bus.subscribe("t").group("g").max_attempts(2).open().await.unwrap();
    let different = [
        GroupRequest { filter: Some(red()), ..GroupRequest::default() },
        GroupRequest { ordering: Some(Ordering::Key), ..GroupRequest::default() },
        GroupRequest { coalesce: Some(true), ..GroupRequest::default() },
        GroupRequest { max_attempts: Some(3), ..GroupRequest::default() },
    ];
    for (request, name) in different.into_iter().zip(["filter", "ordering", "coalesce", "maxAttempts"]) {
        let error = bus.subscribe("t").group("g").options(request).open().await.unwrap_err();
        assert_eq!(error.code, Code::GroupConflict);
        assert!(error.msg.contains(name), "{error}");
    }
    let error = bus.subscribe("t").group("g").max_attempts(3).open().await.unwrap_err();
    assert!(error.msg.contains("maxAttempts is 2, not 3"), "what is stored and what was asked for: {error}");
    one.close();
    bus.subscribe("t").group("g").max_attempts(3).open().await.expect("without members it changes");
    assert_eq!(bus.group_options("t", "g").unwrap().max_attempts, 3);
}

pub(in super::super) async fn a_changed_option_changes_what_comes_next(lab: Lab) {
    let bus = lab.bus().await;
    fill_keyed(&bus, "t", [("a", 1), ("a", 2), ("b", 3)]).await;
    let mut sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [1]);
    sub.close();
    fill_keyed(&bus, "t", [("a", 4), ("b", 5)]).await;
    let mut sub = bus.subscribe("t").group("g").coalesce(true).open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [4, 5]);
    assert_silent(&mut sub).await;
    assert_eq!(bus.group_options("t", "g").unwrap().ordering, Ordering::Key, "coalesce implies it");
}

pub(in super::super) async fn a_narrower_filter_settles_what_waited(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    bus.publish("t", serde_json::json!(3)).tag("red").await.unwrap();
    let sub = bus.subscribe("t").group("g").from(Position::Earliest).open().await.unwrap();
    sub.close();
    let mut sub = bus.subscribe("t").group("g").filter(red()).open().await.unwrap();
    assert_eq!(consume(&mut sub, 1).await, [3]);
    assert_eq!(super::tools::floor(&bus, "t", "g").await, 3);
}

pub(in super::super) async fn options_that_make_no_sense_are_refused(lab: Lab) {
    let bus = lab.bus().await;
    let group = || bus.subscribe("t").group("g");
    assert_eq!(code(group().coalesce(true).ordering(Ordering::None).open().await), Code::BadRequest);
    assert_eq!(code(group().max_attempts(0).open().await), Code::BadRequest);
    assert_eq!(code(group().max_in_flight(0).open().await), Code::BadRequest);
    assert_eq!(code(group().ack_timeout(0).open().await), Code::BadRequest);
    assert_eq!(code(group().ack_timeout(12 * 60 * 60 * 1000 + 1).open().await), Code::BadRequest);
    assert_eq!(code(bus.subscribe("t").group("").open().await), Code::BadRequest);
    assert_eq!(code(bus.subscribe("t").group("a/b").open().await), Code::BadRequest);
    assert_eq!(code(bus.subscribe("t").group(&"g".repeat(201)).open().await), Code::BadRequest);
    assert!(bus.get_cursor("t", "g").await.unwrap().is_none());
}
