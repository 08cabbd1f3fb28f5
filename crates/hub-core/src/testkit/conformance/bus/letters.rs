//! Dead letters that an operator lists, replays and discards.

use super::super::Lab;
use super::tools::{assert_nothing_seen, assert_silent, code, consume, fill, floor, next, seen, soon, value};
use crate::system::SystemTopic;
use crate::{
    Bus, Code, Config, DeadLetter, LetterFilter, LetterRange, Payload, Position, Replay, Replayed,
    Subscription, TopicSettings,
};
use hub_proto::header;
use serde_json::json;

/// A member of a group that gives an event up after one failure.
async fn join(bus: &Bus, group: &str) -> Subscription {
    let join = bus.subscribe("t").group(group).from(Position::Earliest).max_attempts(1);
    join.open().await.unwrap()
}

async fn list(bus: &Bus, filter: &LetterFilter) -> Vec<DeadLetter> {
    bus.dead_letters("t", filter, LetterRange::default(), 1000).await.unwrap().letters
}

/// The seqs of the letters that a filter matches.
async fn found(bus: &Bus, filter: LetterFilter) -> Vec<u64> {
    list(bus, &filter).await.iter().map(DeadLetter::seq).collect()
}

async fn all(bus: &Bus) -> Vec<DeadLetter> {
    list(bus, &LetterFilter::default()).await
}

/// Waits for so many letters.
async fn wait_for(lab: &Lab, bus: &Bus, count: usize) -> Vec<DeadLetter> {
    soon(async {
        loop {
            let letters = all(bus).await;
            if letters.len() >= count {
                return letters;
            }
            lab.pass(1).await;
        }
    })
    .await
}

/// Events that a group gives up, each with its reason.
async fn bury(lab: &Lab, bus: &Bus, group: &str, reasons: &[&str]) -> Vec<DeadLetter> {
    let before = all(bus).await.len();
    let mut sub = join(bus, group).await;
    for reason in reasons {
        next(&mut sub).await.nack(reason).unwrap();
    }
    let letters = wait_for(lab, bus, before + reasons.len()).await;
    sub.close();
    letters[before..].to_vec()
}

async fn replay(bus: &Bus, letters: &[DeadLetter], round: u32) -> Vec<crate::Result<Replayed>> {
    bus.replay_dead_letters(letters, &Replay { round, payload: None }).await.unwrap()
}

fn is_done(result: &crate::Result<Replayed>, duplicate: bool) -> bool {
    matches!(result, Ok(Replayed::Done(receipt)) if receipt.duplicate == duplicate)
}

async fn marks(bus: &Bus) -> usize {
    bus.system_entries(SystemTopic::Letters).await.unwrap().len()
}

async fn last(bus: &Bus) -> u64 {
    bus.bounds("t").await.unwrap().last
}

pub(in super::super) async fn a_replayed_letter_goes_to_the_one_group_that_failed(lab: Lab) {
    let bus = lab.bus().await;
    let payload = Payload::from_json(r#"{"n":9007199254740993}"#).unwrap();
    let publish = bus.publish("t", payload).key("k").header("h", "v").tag("x").ts(7);
    let original = publish.await.unwrap();
    let mut other = join(&bus, "other").await;
    next(&mut other).await.ack().unwrap();
    let mut watch = bus.subscribe("t").watch().await.unwrap();
    let letters = bury(&lab, &bus, "g", &["no"]).await;
    let letter = &letters[0];
    assert_eq!((letter.original().id(), letter.original().seq()), (original.id, 1));
    assert_eq!((letter.err(), letter.attempts(), letter.group().as_str()), ("no", 1, "g"));
    assert_eq!((letter.replays(), letter.replayed(), letter.replay_of()), (0, None, None));

    let results = replay(&bus, &letters, 1).await;
    assert!(is_done(&results[0], false), "{results:?}");
    let mut sub = join(&bus, "g").await;
    let delivery = next(&mut sub).await;
    let event = delivery.event();
    assert_eq!((event.seq(), event.id(), event.ts()), (2, letter.replay_id(1), 7));
    assert_eq!(event.payload(), br#"{"n":9007199254740993}"#);
    assert_eq!((event.key().map(|key| &**key), event.tags()), (Some("k"), &["x".to_owned()][..]));
    assert_eq!(event.header("h"), Some("v"));
    assert_eq!(event.audience(), Some("g"));
    assert_eq!(event.header(header::REPLAY_OF), Some(&*original.id.to_string()));
    assert_eq!(event.header(header::REPLAY_LETTER), Some(&*letter.id().to_string()));
    assert_eq!(event.caused_by(), []);
    delivery.ack().unwrap();

    fill(&bus, "t", [3]).await;
    assert_eq!(consume(&mut other, 1).await, [3], "others settle it silently");
    assert_eq!(floor(&bus, "t", "other").await, 3);
    assert_eq!(seen(&mut watch).await, 3, "watchers pass it over");
    assert_nothing_seen(&mut watch).await;
    let latest = bus.latest_by_key("t", &["k"]).await.unwrap();
    assert_eq!(latest[0].as_ref().map(|event| event.seq()), Some(1));
    let letter = &all(&bus).await[0];
    assert_eq!((letter.replays(), letter.replayed().is_some()), (1, true));
}

pub(in super::super) async fn a_letter_is_replayed_once_however_often_it_is_asked_for(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let unmarked = bury(&lab, &bus, "g", &["one", "two"]).await;
    let results = replay(&bus, &unmarked[..1], 1).await;
    assert!(is_done(&results[0], false), "{results:?}");
    let results = replay(&bus, &unmarked, 1).await;
    // Who read the letters before the first replay does not know of it, as after a crash before the mark was written.
    assert!(is_done(&results[0], true) && is_done(&results[1], false), "{results:?}");
    let results = replay(&bus, &all(&bus).await, 1).await;
    assert_eq!(results, [Ok(Replayed::Before), Ok(Replayed::Before)]);
    assert_eq!(last(&bus).await, 4);
    let mut sub = join(&bus, "g").await;
    assert_eq!(consume(&mut sub, 2).await, [1, 2]);
    assert_silent(&mut sub).await;
}

pub(in super::super) async fn another_round_replays_a_letter_again(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let letters = bury(&lab, &bus, "g", &["no"]).await;
    for (round, last_seq) in [(1, 2), (2, 3), (2, 3), (1, 3), (3, 4)] {
        replay(&bus, &all(&bus).await, round).await;
        assert_eq!(last(&bus).await, last_seq, "round {round}");
    }
    assert_eq!(all(&bus).await[0].replays(), 3);
    let zero = Replay { round: 0, payload: None };
    assert_eq!(code(bus.replay_dead_letters(&letters, &zero).await), Code::BadRequest);
    let mut sub = join(&bus, "g").await;
    assert_eq!(consume(&mut sub, 3).await, [1, 1, 1]);
}

pub(in super::super) async fn an_edited_letter_has_another_payload_and_names_its_cause(lab: Lab) {
    let bus = lab.bus().await;
    let original = bus.publish("t", json!(1)).key("k").await.unwrap();
    let letters = bury(&lab, &bus, "g", &["no"]).await;
    let edited = |n: u64| Replay { round: 1, payload: Some(Payload::of(&n).unwrap()) };
    let results = bus.replay_dead_letters(&letters, &edited(2)).await.unwrap();
    assert!(is_done(&results[0], false), "{results:?}");
    // The same request again, of somebody who knows of no answer: one record; another payload is another matter.
    let results = bus.replay_dead_letters(&letters, &edited(2)).await.unwrap();
    assert!(is_done(&results[0], true), "{results:?}");
    let results = bus.replay_dead_letters(&letters, &edited(3)).await.unwrap();
    let error = results[0].as_ref().unwrap_err();
    assert!(error.code == Code::IdConflict && error.msg.contains("say round 2"), "{error}");
    let mut sub = join(&bus, "g").await;
    let delivery = next(&mut sub).await;
    assert_eq!((value(delivery.event()), delivery.event().caused_by()), (2, &[original.id][..]));
    assert_eq!(delivery.event().key().map(|key| &**key), Some("k"));
    delivery.ack().unwrap();
    assert_silent(&mut sub).await;

    let large = Payload::of(&"x".repeat(bus.config().max_payload)).unwrap();
    let large = Replay { round: 1, payload: Some(large) };
    assert_eq!(code(bus.replay_dead_letters(&letters, &large).await), Code::TooLarge);
    let two = [letters[0].clone(), letters[0].clone()];
    assert_eq!(code(bus.replay_dead_letters(&two, &edited(2)).await), Code::BadRequest);
}

pub(in super::super) async fn what_fails_again_is_a_new_letter_that_names_the_original(lab: Lab) {
    let bus = lab.bus().await;
    let original = fill(&bus, "t", [1]).await[0].id;
    let first = bury(&lab, &bus, "g", &["first"]).await;
    replay(&bus, &first, 1).await;
    let second = bury(&lab, &bus, "g", &["second"]).await;
    assert_eq!((second[0].err(), second[0].replay_of()), ("second", Some(original)));
    assert_eq!(second[0].original().id(), first[0].replay_id(1));
    assert_ne!(second[0].id(), first[0].id());
    assert_eq!(second[0].replays(), 0);
    let results = replay(&bus, &all(&bus).await, 1).await;
    assert_eq!(results[0], Ok(Replayed::Before));
    assert!(is_done(&results[1], false), "{results:?}");
    let mut sub = join(&bus, "g").await;
    let delivery = next(&mut sub).await;
    let event = delivery.event();
    assert_eq!(event.header(header::REPLAY_OF), Some(&*original.to_string()), "not the replay between");
    assert_eq!(event.headers().len(), 3, "{:?}", event.headers());
}

pub(in super::super) async fn a_discarded_letter_is_listed_no_more(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let letters = bury(&lab, &bus, "g", &["one", "two"]).await;
    assert_eq!(bus.discard_dead_letters(&letters[..1]).await.unwrap(), 1);
    let bus = lab.reopen(bus).await;
    assert_eq!(all(&bus).await.iter().map(DeadLetter::err).collect::<Vec<_>>(), ["two"]);
    assert!(bus.dead_letter("t", letters[0].id()).await.unwrap().is_none());
    assert!(bus.dead_letter("t", letters[1].id()).await.unwrap().is_some());
    let by_id = LetterFilter { ids: Some(vec![letters[0].id()]), ..LetterFilter::default() };
    assert_eq!(list(&bus, &by_id).await.len(), 0);
    assert_eq!(bus.scan("dlq.t", Position::Earliest, None).await.unwrap().len(), 2, "the records stay");
}

pub(in super::super) async fn a_replay_is_remembered_over_a_restart(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1]).await;
    let letters = bury(&lab, &bus, "g", &["no"]).await;
    replay(&bus, &letters, 1).await;
    let bus = lab.reopen(bus).await;
    assert_eq!(all(&bus).await[0].replays(), 1);
    assert_eq!(replay(&bus, &all(&bus).await, 1).await, [Ok(Replayed::Before)]);
    assert_eq!(last(&bus).await, 2);
}

pub(in super::super) async fn letters_are_found_by_what_they_are_about(lab: Lab) {
    let bus = lab.bus().await;
    for (key, n) in [("a", 1), ("b", 2)] {
        bus.publish("t", json!(n)).key(key).await.unwrap();
    }
    let long = "e".repeat(300);
    let first = bury(&lab, &bus, "g", &["no route", &long]).await;
    lab.pass(5).await;
    let second = bury(&lab, &bus, "h", &["no route to host", "no"]).await;
    let any = LetterFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found(&bus, any()).await, [1, 2, 3, 4]);
    assert_eq!(found(&bus, LetterFilter { group: Some("h".parse().unwrap()), ..any() }).await, [3, 4]);
    assert_eq!(found(&bus, LetterFilter { err: text("no route"), ..any() }).await, [1], "the whole error");
    assert_eq!(found(&bus, LetterFilter { text: text("no route"), ..any() }).await, [1, 3], "a part of it");
    assert_eq!(found(&bus, LetterFilter { err: text(&long[..200]), ..any() }).await, [2], "up to 200 bytes");
    assert_eq!(found(&bus, LetterFilter { key: text("b"), ..any() }).await, [2, 4]);
    assert_eq!(found(&bus, LetterFilter { from: Some(second[0].committed()), ..any() }).await, [3, 4]);
    assert_eq!(found(&bus, LetterFilter { until: Some(second[0].committed()), ..any() }).await, [1, 2]);
    let ids = vec![second[1].id(), first[0].id(), first[0].id(), hub_proto::EventId::from_bytes([9; 16])];
    assert_eq!(found(&bus, LetterFilter { ids: Some(ids.clone()), ..any() }).await, [4, 1]);
    assert_eq!(found(&bus, LetterFilter { ids: Some(ids), err: text("no"), ..any() }).await, [4]);
    replay(&bus, &first, 1).await;
    assert_eq!(found(&bus, LetterFilter { replayed: Some(true), ..any() }).await, [1, 2]);
    assert_eq!(found(&bus, LetterFilter { replayed: Some(false), ..any() }).await, [3, 4]);

    let page = bus.dead_letters("t", &any(), LetterRange { after: 1, upto: 3 }, 1).await.unwrap();
    assert_eq!((page.letters[0].seq(), page.next), (2, Some(2)));
    let page = bus.dead_letters("t", &any(), LetterRange { after: 2, upto: 3 }, 1).await.unwrap();
    assert_eq!((page.letters[0].seq(), page.next), (3, None));
    let too_many = LetterFilter { ids: Some(vec![first[0].id(); 1001]), ..any() };
    let range = LetterRange::default();
    assert_eq!(code(bus.dead_letters("t", &too_many, range, 10).await), Code::BadRequest);
    assert_eq!(code(bus.dead_letters("t", &any(), range, 0).await), Code::BadRequest);
    assert!(bus.dead_letters("never", &any(), range, 1).await.unwrap().letters.is_empty());
}

pub(in super::super) async fn a_letter_of_a_group_that_is_gone_is_not_replayed(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let gone = bury(&lab, &bus, "gone", &["no"]).await;
    let there = bury(&lab, &bus, "g", &["no"]).await;
    bus.delete_group("t", "gone").await.unwrap();
    let results = replay(&bus, &[gone[0].clone(), there[0].clone()], 1).await;
    let error = results[0].as_ref().unwrap_err();
    assert!(error.code == Code::BadRequest && error.msg.contains("no group gone any more"), "{error}");
    assert!(is_done(&results[1], false), "{results:?}");
    assert_eq!(last(&bus).await, 3);
}

pub(in super::super) async fn a_replay_is_nobodys_state(lab: Lab) {
    let settings = TopicSettings { compaction: true, ..TopicSettings::default() };
    let bus = lab.bus_with(Config::default().topic("t", settings).unwrap()).await;
    bus.publish("t", json!(1)).key("k").await.unwrap();
    let letters = bury(&lab, &bus, "g", &["no"]).await;
    bus.publish("t", json!(2)).key("k").await.unwrap();
    replay(&bus, &letters, 1).await;
    let join = bus.subscribe("t").group("c").from(Position::Earliest).coalesce(true);
    let mut coalescing = join.open().await.unwrap();
    assert_eq!(consume(&mut coalescing, 1).await, [2]);
    assert_silent(&mut coalescing).await;
    assert_eq!(bus.clean("t").await.unwrap().removed, 1, "the first event, and not the second");
    let latest = bus.latest_by_key("t", &["k"]).await.unwrap();
    assert_eq!(latest[0].as_ref().map(|event| value(event)), Some(2));
    let page = bus.latest_page("t", None, None).await.unwrap();
    assert_eq!(page.iter().map(|event| event.seq()).collect::<Vec<_>>(), [2]);
    let snapshot = bus.scan("t.snapshot", Position::Earliest, None).await.unwrap();
    let state: serde_json::Value = snapshot[0].decode().unwrap();
    assert_eq!((&state["payload"], &state["seq"]), (&json!(2), &json!(2)));
    let mut sub = bus.subscribe("t").group("g").open().await.unwrap();
    assert_eq!(consume(&mut sub, 2).await, [2, 1], "its group has it");
}

pub(in super::super) async fn marks_go_with_their_letters(lab: Lab) {
    let bus = lab.bus().await;
    fill(&bus, "t", [1, 2]).await;
    let letters = bury(&lab, &bus, "g", &["one", "two"]).await;
    replay(&bus, &letters[..1], 1).await;
    bus.discard_dead_letters(&letters[1..]).await.unwrap();
    assert_eq!(marks(&bus).await, 2);
    bus.delete_topic("t").await.unwrap();
    assert_eq!(marks(&bus).await, 0);
    fill(&bus, "t", [3]).await;
    let again = bury(&lab, &bus, "g", &["three"]).await;
    assert_eq!((again.len(), again[0].replays()), (1, 0));
}
